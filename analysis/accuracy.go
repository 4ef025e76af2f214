package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// accuracy is what bounds the meter's errors: the calibration that corrected
// its samples, and for what that does not cover the limits of its maker.
type accuracy struct {
	meters.Accuracy
	calibration *meters.Calibration // nil where none counts
}

// known reports whether a total interval can be stated.
func (a accuracy) known() bool {
	if a.Exact || a.calibration == nil {
		return a.Known(a.Watts != nil)
	}
	c := a.calibration
	return c.Watts != nil || a.Watts != nil || (c.Volts != nil || a.Volts != nil) && (c.Amps != nil || a.Amps != nil)
}

// limit is something that the meter's errors may do to a result.
type limit struct {
	name string
	// half is the half width of a rectangular distribution, or the standard
	// uncertainty of a normal one.
	half   float64
	normal bool
	// own: it depends on how the power of each operation varies, so that it does
	// not cancel between two of them.
	own    bool
	source string
}

// u is the standard uncertainty.
func (l limit) u() float64 {
	if l.normal {
		return l.half
	}
	return l.half / math.Sqrt(3)
}

// rectangles returns half widths of rectangles whose sum is distributed like
// it. Three of the half width u make a normal distribution of the standard
// deviation u, as good as its 95 % quantile (1.94 u against 1.96 u).
func (l limit) rectangles() []float64 {
	if l.normal {
		return []float64{l.half, l.half, l.half}
	}
	return []float64{l.half}
}

// amounts are what the meter's limits act on.
type amounts struct {
	joules  float64
	coulomb float64 // integral of current, for an offset of the volts
	webers  float64 // integral of voltage, for an offset of the amps
	seconds float64 // for an offset of the watts

	// The same over the windows whole, idle included: what is not linear acts on
	// the level, not on the difference.
	allCoulomb, allWebers, allSeconds float64
	levels                            []levels
}

// levels are mean values, as corrected.
type levels struct{ volts, amps, watts float64 }

// action is what an error of one quantity does: a relative one acts on the
// energy, an offset on the rest.
type action struct {
	name       string // of the quantity
	correction *meters.Correction
	limit      *meters.Limit
	offset     float64 // an offset acts on this much
	linearity  float64
	level      func(levels) float64
}

// actions of the quantities that power is made of.
func (a accuracy) actions(on amounts) []action {
	c := a.calibration
	all := []action{
		{meters.Volts, c.Of(meters.Volts), a.Volts, on.coulomb, on.allCoulomb, func(l levels) float64 { return l.volts }},
		{meters.Amps, c.Of(meters.Amps), a.Amps, on.webers, on.allWebers, func(l levels) float64 { return l.amps }},
	}
	if a.Watts != nil || c.Of(meters.Watts) != nil {
		all = append(all, action{meters.Watts, c.Of(meters.Watts), a.Watts, on.seconds, on.allSeconds, func(l levels) float64 { return l.watts }})
	}
	return all
}

// propagate turns the meter's limits into those of an energy, linearly:
// d(VI) = VI (gv + ga) + I ov + V oa.
func propagate(acc accuracy, a amounts) []limit {
	if acc.Exact && acc.calibration == nil {
		return nil
	}
	var out []limit
	add := func(l limit) {
		if l.half > 0 && !math.IsNaN(l.half) {
			out = append(out, l)
		}
	}
	for _, q := range acc.actions(a) {
		suffix := ", " + q.name
		if q.name == meters.Watts {
			suffix = ""
		}
		if c := q.correction; c != nil {
			for _, l := range q.calibrated(acc.calibration, a.joules) {
				l.name += suffix
				add(l)
			}
			if !q.outside(a.levels) {
				continue
			}
			suffix += ", outside the calibrated range"
		}
		if q.limit != nil {
			add(limit{name: "meter gain" + suffix, half: q.limit.Gain * a.joules, source: acc.source()})
			add(limit{name: "meter offset" + suffix, half: q.limit.Offset * q.offset, source: acc.source()})
		}
	}
	return append(out, limit{name: timeBaseTerm, half: timeBase * a.joules, source: "assumed: host quartz within 100 ppm"})
}

// timeBaseTerm names the term that is none of power.
const timeBaseTerm = "time base"

func (a accuracy) source() string {
	if a.Source != "" {
		return a.Source
	}
	return "stated accuracy " + a.String()
}

// calibrated is what a calibration leaves in doubt. A current I = b r + a that
// is in doubt by db and da makes an energy wrong by the integral of V (r db +
// da), where r = (I - a) / b.
func (q action) calibrated(cal *meters.Calibration, joules float64) []limit {
	c := q.correction
	onGain := (joules - c.Offset*q.offset) / c.Gain
	variance := onGain*onGain*c.UGain*c.UGain + q.offset*q.offset*c.UOffset*c.UOffset + 2*onGain*q.offset*c.Covariance
	source := fmt.Sprintf("calibration %s of %s with %d points", cal.Name, cal.Date, c.Points)
	reference := source + ", against " + cal.Reference
	return []limit{
		{name: "calibration", half: math.Sqrt(math.Max(0, variance)), normal: true, source: source + ": noise and residuals"},
		{name: "reference gain", half: c.Reference.Gain * joules, source: reference},
		{name: "reference offset", half: c.Reference.Offset * q.offset, source: reference},
		{name: "linearity", half: c.Linearity * q.linearity, own: true, source: source + ": how far these lie off a line"},
	}
}

// outsideShare is how far beyond the calibrated range, as a share of it, a level
// may lie before it counts as outside.
const outsideShare = 0.05

// outside reports whether a level lies outside the range of the points.
func (q action) outside(all []levels) bool {
	c := q.correction
	from, to := c.Gain*c.From+c.Offset, c.Gain*c.To+c.Offset
	slack := outsideShare * math.Max(to-from, math.Max(math.Abs(from), math.Abs(to)))
	for _, l := range all {
		if x := q.level(l); x < from-slack || x > to+slack {
			return true
		}
	}
	return false
}

// amounts returns what the limits of the meter act on, for an operation.
func (g *group) amounts(joules float64, isNet bool) amounts {
	per := func(f func(p pulse) float64) float64 { return math.Abs(sum(g.each(f))) / sum(g.n) }
	a := amounts{
		joules:     math.Abs(joules),
		allCoulomb: per(func(p pulse) float64 { return p.coulomb }),
		allWebers:  per(func(p pulse) float64 { return p.webers }),
		allSeconds: per(func(p pulse) float64 { return p.seconds }),
		levels:     g.levels(),
	}
	if isNet {
		a.coulomb = per(func(p pulse) float64 { return p.netCoulomb })
		a.webers = per(func(p pulse) float64 { return p.netWebers })
		// A constant offset of power cancels.
	} else {
		a.coulomb, a.webers, a.seconds = a.allCoulomb, a.allWebers, a.allSeconds
	}
	return a
}

// levels are the means over the windows, and of the idle beside them.
func (g *group) levels() []levels {
	seconds := sum(g.each(func(p pulse) float64 { return p.seconds }))
	mean := func(f func(p pulse) float64) float64 { return sum(g.each(f)) / seconds }
	load := levels{
		volts: mean(func(p pulse) float64 { return p.webers }),
		amps:  mean(func(p pulse) float64 { return p.coulomb }),
		watts: mean(func(p pulse) float64 { return p.gross }),
	}
	idle := levels{
		volts: load.volts - mean(func(p pulse) float64 { return p.netWebers }),
		amps:  load.amps - mean(func(p pulse) float64 { return p.netCoulomb }),
		watts: load.watts - mean(func(p pulse) float64 { return p.net }),
	}
	return []levels{load, idle}
}

// limits propagates the meter's limits to an energy per operation, J.
func (g *group) limits(acc accuracy, joules float64, isNet bool) []limit {
	return propagate(acc, g.amounts(joules, isNet))
}

// idleLimits propagates the meter's limits to the idle level, W: what they do to
// its energy in a second.
func (g *group) idleLimits(acc accuracy, idle []float64) []limit {
	if acc.Exact && acc.calibration == nil {
		return nil
	}
	all := g.levels()
	a := amounts{joules: math.Abs(sum(idle)) / float64(len(idle)), seconds: 1, allSeconds: 1, levels: all[1:]}
	a.webers, a.coulomb = math.Abs(all[1].volts), math.Abs(all[1].amps)
	a.allWebers, a.allCoulomb = a.webers, a.coulomb
	return slices.DeleteFunc(propagate(acc, a), func(l limit) bool { return l.name == timeBaseTerm })
}

// values returns half widths for newQuantity: nil where the accuracy is not
// known, so that no total interval is stated.
func values(limits []limit, acc accuracy) []float64 {
	if !acc.known() {
		return nil
	}
	v := []float64{}
	for _, l := range limits {
		v = append(v, l.rectangles()...)
	}
	return v
}

// calibrationWarnings says where a calibration covers a run only in part.
func calibrationWarnings(cal *meters.Calibration, model, serial, started string) []string {
	var out []string
	if cal.Model != "" && model != "" && cal.Model != model || cal.Serial != "" && serial != "" && cal.Serial != serial {
		out = append(out, fmt.Sprintf("calibration %s was made on %s, not on this meter", cal.Name, strings.TrimSpace(cal.Model+" "+cal.Serial)))
	}
	if days, ok := cal.AgeDays(started); ok && days > mostDays {
		out = append(out, fmt.Sprintf("calibration %s was made %d days before this run: no drift since then is in the interval", cal.Name, days))
	}
	for _, q := range []struct {
		name string
		c    *meters.Correction
	}{{meters.Volts, cal.Volts}, {meters.Amps, cal.Amps}, {meters.Watts, cal.Watts}} {
		if q.c != nil && q.c.Points < 3 {
			out = append(out, fmt.Sprintf("calibration %s of %s rests on two points: they say nothing of linearity", cal.Name, q.name))
		}
	}
	return out
}

// outside names the quantities of an operation that lie outside the calibrated
// range.
func (g *group) outside(acc accuracy) []string {
	var out []string
	for _, q := range acc.actions(amounts{}) {
		if q.correction != nil && q.outside(g.levels()) {
			out = append(out, q.name)
		}
	}
	return out
}

// mostDays is how old a calibration may be before a result says so: the usual
// interval of recalibration.
const mostDays = 365
