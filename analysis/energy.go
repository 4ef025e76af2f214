package analysis

import (
	"fmt"
	"math"
	"sort"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
)

// Baseline says which idle level is subtracted.
type Baseline string

const (
	// Local is the idle level beside each window, with its drift.
	Local Baseline = "local"
	// Global is one idle level for the whole run.
	Global Baseline = "global"
	// None subtracts nothing and integrates each window between its marks, as
	// EEMBC's runner does. Net and idle are null then.
	None Baseline = "none"
)

// Limits of what counts.
const (
	// minCoverage is the least share of a window's time that samples cover.
	minCoverage = 0.8
	// bracketReach bounds how far from a window its idle level is taken, in
	// windows' lengths, but at least minBracketReach seconds: the idle level
	// wanders, and what is nearest says most.
	bracketReach    = 2.0
	minBracketReach = 5.0 // s
	// guardResponses is the guard on either side of a window in 10-90 % times
	// of the response: a one-pole response has let all but 0.4 % of a step
	// through after 2.5 of them.
	guardResponses = 2.5
	// leadResponses is how far before a mark, likewise, its power may already
	// show: the response begins before its centroid, by 0.45 of its 10-90 %
	// time for one pole and by 0.63 for a boxcar.
	leadResponses = 1.0
	// onsetResponses is the least of them: so much earlier than its centroid the
	// response to a statement begins.
	onsetResponses = 0.65
	// tailShare is what a cut at the marks loses of a step, in 10-90 % times of
	// the response, where this is known beforehand: its mean absolute deviation
	// (sync/align).
	tailShare = 1.0 / 3
)

// pulse is the energy of one window.
type pulse struct {
	net, gross, idle float64 // J, J, W
	idleStep         float64 // W, after minus before; NaN with one bracket
	jointWatts       float64 // W above idle by the joint fit; NaN without
	// netCoulomb and netWebers are the integrals of current and voltage above
	// idle, to which the meter's offsets contribute; Coulomb and Webers those
	// of the window itself.
	netCoulomb, netWebers float64
	coulomb, webers       float64
	stepWatts             float64 // power above idle, or above what is beside the window
	edgeSeconds           float64 // doubt of both edges together: s of stepWatts; 0 where the guards hold all
	coverage              float64
	seconds               float64 // the window, host time
	cut                   bool    // no quiet zone: cut at the marks
	short                 bool    // quiet zones too short for the whole guard
	oneSided              bool    // only one bracket of idle
	inferred              bool    // idle was inferred, not stated

	index         int     // of the window in the time line
	long          float64 // s, over which idle was subtracted
	before, after float64 // weights of the two brackets in the idle level
	// counted is the variance of the energy, J^2, that comes of counting point
	// samples, and steady the energy without that: the power between the edges
	// for the length by the target's clock. Both are 0 where samples are no points.
	counted, steady float64
	// beforeTrend and afterTrend are the differences of the halves of the two
	// brackets, the later minus the earlier, W; NaN without a bracket. afterTrend
	// squared over 4 is the variance of the bracket's level.
	beforeTrend, afterTrend float64
}

// measurer turns windows of one time line into pulses.
type measurer struct {
	t        *align.Timeline
	baseline Baseline
	response float64 // s, 10-90 %
	cut      float64 // s, doubt of a window that is cut at its marks
	guard    float64 // s, in which the response to an edge dies away
	lead     float64 // s, in which the response to a later mark may begin
	onset    float64 // s, in which the response to a statement begins
	global   idleLevel
}

// idleLevel is the mean of power, current and voltage over idle time, and where
// its centre lies.
type idleLevel struct {
	watts, amps, volts float64
	centre, seconds    float64
}

func newMeasurer(t *align.Timeline, b Baseline) *measurer {
	m := &measurer{t: t, baseline: b}
	period := 0.0
	for i := range t.Windows {
		if t.Windows[i].Excluded == "" {
			period = math.Max(period, t.Period(t.Windows[i].Segment))
		}
	}
	rest := 2*t.Offset.U + 1.5*period
	var known bool
	m.cut = t.Offset.CutSeconds
	if m.response, known = responseOf(t); known {
		m.cut = math.Hypot(m.cut, tailShare*m.response)
	}
	m.guard = guardResponses*m.response + rest
	m.lead = leadResponses*m.response + rest
	m.onset = onsetResponses*m.response + period/2
	if b == Global {
		var all []align.Quiet
		all = append(all, t.Quiet...)
		m.global = m.level(all, nil)
	}
	return m
}

// measure returns the energy of window i, or why it cannot be stated.
func (m *measurer) measure(i int) (pulse, error) {
	w := &m.t.Windows[i]
	inside := m.t.Between(w.Segment, w.From, w.To)
	rate := m.t.Rate(w.Segment)
	p := pulse{index: i, seconds: w.Seconds, beforeTrend: math.NaN(), afterTrend: math.NaN(), coverage: inside.Seconds / ((w.To - w.From) * rate)}
	if !(p.coverage >= minCoverage) {
		return p, fmt.Errorf("samples cover %.0f %% of it, less than %.0f %%", 100*math.Max(0, p.coverage), 100*minCoverage)
	}
	fill := p.seconds / inside.Seconds
	p.coulomb, p.webers = inside.Coulomb*fill, inside.Webers*fill
	if m.baseline == None {
		// A length by the target's clock plays no part: [t0, t1) as such.
		whole := (w.To - w.From) * rate
		p.gross, p.net, p.idle, p.idleStep = inside.Joules*whole/inside.Seconds, math.NaN(), math.NaN(), math.NaN()
		p.stepWatts, p.edgeSeconds = m.beside(w, inside.Watts()), m.cut
		return p, nil
	}
	before, after := m.brackets(i)
	p.inferred = anyInferred(before) || anyInferred(after)
	near := func(q []align.Quiet) idleLevel { return m.level(q, w) }
	b, a := near(before), near(after)
	p.beforeTrend, p.afterTrend = m.trend(before), m.trend(after)
	mid := (w.From + w.To) / 2
	var idle idleLevel
	switch {
	case m.baseline == Global:
		idle, p.idleStep = m.global, a.watts-b.watts
	case b.seconds > 0 && a.seconds > 0:
		f := (mid - b.centre) / (a.centre - b.centre)
		idle = idleLevel{watts: b.watts + f*(a.watts-b.watts), amps: b.amps + f*(a.amps-b.amps), volts: b.volts + f*(a.volts-b.volts)}
		p.idleStep, p.before, p.after = a.watts-b.watts, 1-f, f
	case b.seconds > 0:
		idle, p.oneSided, p.idleStep, p.before = b, true, math.NaN(), 1
	case a.seconds > 0:
		idle, p.oneSided, p.idleStep, p.after = a, true, math.NaN(), 1
	default:
		return p, fmt.Errorf("no idle time beside it")
	}
	if math.IsNaN(idle.watts) {
		return p, fmt.Errorf("no idle time in the run")
	}
	gPre, gPost := m.guards(w)
	p.cut = w.Pre == 0 || w.Post == 0
	p.short = !p.cut && (gPre < m.lead || m.tail(gPost) > shortTail*p.seconds)
	switch {
	case p.cut || gPre < m.lead:
		p.edgeSeconds = m.cut
	case gPost < m.guard:
		p.edgeSeconds = m.tail(gPost)
	}
	whole := m.t.Between(w.Segment, w.From-gPre, w.To+gPost)
	p.long = (w.To - w.From + gPre + gPost) * rate
	// What is missing inside the window had the window's mean power; what is
	// missing in the guards was idle.
	missing := (1 - p.coverage) * (w.To - w.From) * rate
	covered := whole.Seconds + missing
	mean := inside.Watts() - idle.watts
	p.net = whole.Joules - idle.watts*whole.Seconds + mean*missing
	p.netCoulomb = whole.Coulomb - idle.amps*whole.Seconds + (inside.Coulomb/inside.Seconds-idle.amps)*missing
	p.netWebers = whole.Webers - idle.volts*whole.Seconds + (inside.Webers/inside.Seconds-idle.volts)*missing
	if covered < minCoverage*p.long {
		return p, fmt.Errorf("samples cover too little of its quiet zones")
	}
	p.idle = idle.watts
	p.gross = p.net + p.idle*p.seconds
	p.stepWatts = p.net / p.seconds
	if m.t.Character.Kind == meters.Point {
		p.counted, p.steady = m.counted(w, p.stepWatts), p.net
		if s := m.t.Between(w.Segment, w.From+m.guard, w.To-m.lead); s.Seconds > m.guard {
			p.steady = (s.Watts() - idle.watts) * p.seconds
		}
	}
	return p, nil
}

// counted is the variance of a window's energy, J^2, where samples are points
// of a step of power: a window of length T holds floor(T/Ts) samples, Ts apart,
// or one more, with probability f = frac(T/Ts), so that its energy is wrong by
// -f or 1-f samples. That has the mean 0 and the variance f (1-f).
func (m *measurer) counted(w *align.Window, step float64) float64 {
	rate := m.t.Character.ConversionsHz
	_, f := math.Modf(w.Seconds * rate)
	one := step / rate
	return one * one * f * (1 - f)
}

// guards returns how far before and after its marks a window is integrated,
// inside the quiet zones: from where the response to its start may begin to
// where that to its end has died away, or that to the statement begins.
func (m *measurer) guards(w *align.Window) (pre, post float64) {
	if w.Pre == 0 || w.Post == 0 {
		return 0, 0
	}
	from, _ := m.t.Smear(w.Segment, w.From)
	_, to := m.t.Smear(w.Segment, w.To)
	return math.Min(math.Max(m.lead, w.From-from), w.Pre), math.Max(0, math.Min(math.Max(m.guard, to-w.To), w.Post-m.onset))
}

// besideSeconds and besidePeriods say how far beside a window, at least, the
// power is looked at that a misplaced edge would take in.
const (
	besideSeconds = 0.05
	besidePeriods = 4
)

// beside returns how much the mean power of a window differs from that beside
// it, W, as a mean over its edges.
func (m *measurer) beside(w *align.Window, watts float64) float64 {
	far := math.Max(besideSeconds, besidePeriods*m.t.Period(w.Segment))
	sum, n := 0.0, 0.0
	for _, s := range []align.Sums{
		m.t.Between(w.Segment, w.From-m.lead-far, w.From-m.lead),
		m.t.Between(w.Segment, w.To+m.guard, w.To+m.guard+far),
	} {
		if s.Seconds > 0 {
			sum += math.Abs(watts - s.Watts())
			n++
		}
	}
	if n == 0 {
		return watts
	}
	return sum / n
}

// tail is the part of a step that a one-pole response lets through later than
// after its centroid, in seconds of the step: tau exp(-(after+tau)/tau), where
// the 10-90 % time is tau ln 9.
func (m *measurer) tail(after float64) float64 {
	tau := m.response / math.Log(9)
	if !(tau > 0) {
		return 0
	}
	return tau * math.Exp(-1-after/tau)
}

// shortTail is the tail, relative to the window, from which quiet zones are too
// short.
const shortTail = 1e-3

// brackets returns the quiet stretches that tell the idle level of window i: on
// each side as far as the next window. The idle time between two windows serves
// both; what that does to the doubt is a term of its own.
func (m *measurer) brackets(i int) (before, after []align.Quiet) {
	w := &m.t.Windows[i]
	gPre, gPost := m.guards(w)
	if w.Pre == 0 || w.Post == 0 {
		gPre, gPost = m.guard, m.guard
	}
	reach := math.Max(minBracketReach, bracketReach*(w.To-w.From))
	from, to := w.From-reach, w.To+reach
	if p, ok := m.neighbour(i, -1); ok {
		from = math.Max(from, p.To)
	}
	if n, ok := m.neighbour(i, +1); ok {
		to = math.Min(to, n.From)
	}
	before = m.clip(w, from, w.From-gPre)
	after = m.clip(w, w.To+gPost, to)
	if len(before) == 0 && len(after) == 0 {
		// Windows that touch each other share the nearest idle.
		before = m.clip(w, w.From-4*reach, w.From-gPre)
		after = m.clip(w, w.To+gPost, w.To+4*reach)
	}
	return before, after
}

// neighbour returns the next window in a direction that stands on the same
// segment.
func (m *measurer) neighbour(i, dir int) (*align.Window, bool) {
	for k := i + dir; k >= 0 && k < len(m.t.Windows); k += dir {
		if n := &m.t.Windows[k]; n.Segment == m.t.Windows[i].Segment && n.To > n.From {
			return n, true
		}
	}
	return nil, false
}

// clip returns the parts of quiet stretches in [from, to] that follow the
// window's idle mode, without the guard at their heads, in which the power of
// what came before dies away, and the lead at their ends, in which the power of
// what comes next may show.
func (m *measurer) clip(w *align.Window, from, to float64) []align.Quiet {
	var out []align.Quiet
	q := m.t.Quiet
	first := sort.Search(len(q), func(k int) bool {
		return q[k].Segment > w.Segment || q[k].Segment == w.Segment && q[k].To > from
	})
	for _, s := range q[first:] {
		if s.Segment != w.Segment || s.From >= to {
			break
		}
		if w.Idle != "" && s.Mode != "" && s.Mode != w.Idle {
			continue
		}
		_, begin := m.t.Smear(s.Segment, s.From)
		end, _ := m.t.Smear(s.Segment, s.To)
		s.From = math.Max(math.Max(s.From+m.guard, begin), from)
		s.To = math.Min(math.Min(s.To-m.lead, end), to)
		if s.To > s.From {
			out = append(out, s)
		}
	}
	return out
}

func anyInferred(q []align.Quiet) bool {
	for _, s := range q {
		if s.Inferred {
			return true
		}
	}
	return false
}

// level is the mean over quiet stretches. With a window, stretches were
// clipped for it; without, the guard is taken off here.
func (m *measurer) level(q []align.Quiet, w *align.Window) idleLevel {
	var sum align.Sums
	var centre float64
	for _, s := range q {
		if w == nil {
			s.From += m.guard
			s.To -= m.lead
			if s.To <= s.From {
				continue
			}
		}
		v := m.t.Between(s.Segment, s.From, s.To)
		sum = sum.Plus(v)
		centre += v.Seconds * (s.From + s.To) / 2
	}
	if sum.Seconds <= 0 {
		nan := math.NaN()
		return idleLevel{watts: nan, amps: nan, volts: nan}
	}
	return idleLevel{sum.Watts(), sum.Coulomb / sum.Seconds, sum.Webers / sum.Seconds, centre / sum.Seconds, sum.Seconds}
}

// trend is the difference of the halves of a bracket, W; NaN where it has none.
func (m *measurer) trend(q []align.Quiet) float64 {
	total := 0.0
	for _, s := range q {
		total += s.To - s.From
	}
	var first, second align.Sums
	left := total / 2
	for _, s := range q {
		mid := math.Min(s.To, s.From+left)
		left -= mid - s.From
		first = first.Plus(m.t.Between(s.Segment, s.From, mid))
		second = second.Plus(m.t.Between(s.Segment, mid, s.To))
	}
	return second.Watts() - first.Watts()
}
