package analysis

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/align"
	"github.com/joulemark/joulemark/sync/mark"
)

// Options of an analysis.
type Options struct {
	Baseline Baseline // "" is Local
	// Accuracy overrides what the run says of its meter.
	Accuracy *meters.Accuracy
	// SubtractOverhead takes what a window costs beside its operations off
	// their energy.
	SubtractOverhead bool
}

// ErrNoWindows says that a run holds no window that can be measured.
var ErrNoWindows = errors.New("no usable window")

// timeBase is the assumed limit of the host's clock, relative: quartz.
const timeBase = 100e-6

// Analyze turns a time line into results.
func Analyze(t *align.Timeline, o Options) (Results, error) {
	if o.Baseline == "" {
		o.Baseline = Local
	}
	acc := accuracy{t.Meter.Accuracy, t.Meter.Calibration}
	if o.Accuracy != nil {
		acc = accuracy{Accuracy: *o.Accuracy}
	}
	res := Results{
		Schema: ResultsSchema, Run: filepath.Base(t.Run.Dir), Simulated: t.Run.Header.Simulated, Baseline: o.Baseline, OverheadSubtracted: o.SubtractOverhead,
		Meter: Meter{
			Name: t.Meter.Stream, Driver: t.Meter.Driver, Model: t.Meter.Model, Serial: t.Meter.Serial,
			SamplesHz: Num(t.RateHz), EffectiveRateHz: Num(t.Character.EffectiveHz), ResponseSeconds: Num(math.NaN()),
			Character: characterOf(t.Character), Accuracy: acc.String(),
		},
		Target: Target{
			Name: t.Target.Name, ISA: t.Target.ISA, Bits: t.Target.Bits, CC: t.Target.CC, CFlags: t.Target.CFlags,
			Impl: strings.TrimSpace(t.Target.Impl + " " + t.Target.ImplVersion),
		},
		Alignment: Alignment{Method: t.Method, Offset: Num(t.Offset.Seconds), U: Num(t.Offset.U),
			DriftPPM: Num(t.DriftPPM), Edges: t.Offset.Edges, RunnerUp: Num(t.Offset.RunnerUp)},
		Operations: []Operation{}, Windows: []Window{}, Warnings: []string{}, Voids: []string{},
	}
	if t.Method == align.ByEdges || t.Offset.ResponseSeconds > 0 {
		res.Meter.ResponseSeconds = Num(t.Offset.ResponseSeconds)
	}
	for _, w := range t.Warnings {
		res.warn(w.Text, w.Voids)
	}
	res.useKnown(t)
	m := newMeasurer(t, o.Baseline)
	fit := m.fit()
	var source resistance
	groups := map[groupKey]*group{}
	var order []groupKey
	var duty dutyTest
	for i := range t.Windows {
		w := &t.Windows[i]
		out := Window{W: w.W, Alg: w.Alg, Op: w.Op, N: w.N, IdleMode: w.Idle, T0: Num(w.StartSeconds), T1: Num(w.EndSeconds),
			Gross: Num(math.NaN()), Net: Num(math.NaN()), Idle: Num(math.NaN()), Coverage: Num(math.NaN()), Excluded: w.Excluded, ByHand: w.ByHand, DutyCycle: w.PeriodUs > 0}
		if w.Excluded == "" {
			p, err := m.measure(i)
			out.Coverage = Num(p.coverage)
			if err != nil {
				out.Excluded = err.Error()
			} else {
				source.add(p)
				out.Gross, out.Net, out.Idle = Num(p.gross), Num(p.net), Num(p.idle)
				if w.PeriodUs > 0 {
					duty.add(w, p)
					res.Windows = append(res.Windows, out)
					continue
				}
				k := groupKey{w.Alg, w.Op, w.Idle}
				g := groups[k]
				if g == nil {
					g = &group{key: k}
					groups[k] = g
					order = append(order, k)
				}
				p.take(fit, i)
				g.add(w, p)
			}
		}
		res.Windows = append(res.Windows, out)
	}
	var problem string
	if res.Duty, problem = duty.result(); problem != "" {
		res.warn("the duty-cycle self-test states nothing: "+problem, false)
	}
	if len(order) == 0 && res.Duty == nil {
		return res, fmt.Errorf("analyze %s: %w%s", t.Run.Dir, ErrNoWindows, reasons(res.Windows))
	}
	ohms, u := source.ohms()
	res.Meter.SourceOhms, res.Meter.USourceOhms = Num(ohms), Num(u)
	slices.SortFunc(order, groupKey.compare)
	var sorted []*group
	for _, k := range order {
		sorted = append(sorted, groups[k])
	}
	over, notes := overheads(sorted, o.Baseline)
	for _, text := range notes {
		res.warn(text, false)
	}
	for _, g := range sorted {
		op := g.result(t, o, acc, over[g], ohms, res.Duty)
		if op.Voided {
			res.Voids = append(res.Voids, fmt.Sprintf("%s %s: see its warnings", op.Alg, op.Op))
		}
		res.Operations = append(res.Operations, op)
	}
	voided := slices.SortedFunc(maps.Keys(t.Voided), func(a, b mark.Op) int { return strings.Compare(a.String(), b.String()) })
	for _, op := range voided {
		if !hasOp(order, op) {
			res.warn(fmt.Sprintf("%s %s has no result: %s", op.Alg, op.Op, t.Voided[op]), true)
		}
	}
	return res, nil
}

func hasOp(order []groupKey, op mark.Op) bool {
	return slices.ContainsFunc(order, func(k groupKey) bool { return k.alg == op.Alg && k.op == op.Op })
}

func (r *Results) warn(text string, voids bool) {
	r.Warnings = append(r.Warnings, text)
	if voids {
		r.Voids = append(r.Voids, text)
	}
}

// reasons lists why windows were left out, for an error message.
func reasons(ws []Window) string {
	if len(ws) == 0 {
		return ": the run holds no statement of a window; give a marks file, or add windows"
	}
	counts := map[string]int{}
	var order []string
	for _, w := range ws {
		if counts[w.Excluded] == 0 {
			order = append(order, w.Excluded)
		}
		counts[w.Excluded]++
	}
	var b strings.Builder
	for i, why := range order {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		if i == 4 {
			fmt.Fprintf(&b, "; and %d more reasons", len(order)-i)
			break
		}
		fmt.Fprintf(&b, "%s%d of %d: %s", sep, counts[why], len(ws), why)
	}
	return b.String()
}

type groupKey struct{ alg, op, idle string }

func (k groupKey) compare(o groupKey) int {
	if c := algOrder(k.alg) - algOrder(o.alg); c != 0 {
		return c
	}
	if c := strings.Compare(k.alg, o.alg); c != 0 {
		return c
	}
	if c := opOrder(k.op) - opOrder(o.op); c != 0 {
		return c
	}
	if c := strings.Compare(k.op, o.op); c != 0 {
		return c
	}
	return strings.Compare(k.idle, o.idle)
}

// families in the order in which tables list them.
var families = []string{"ML-DSA-", "SLH-DSA-", "Falcon-", "ML-KEM-", "Ed", "ECDSA-", "RSA-", "X25519", "ECDH-"}

func algOrder(alg string) int {
	for i, f := range families {
		if strings.HasPrefix(alg, f) {
			return i
		}
	}
	return len(families)
}

func opOrder(op string) int {
	return slices.Index([]string{"keygen", "sign", "verify", "encaps", "decaps", "derive", "kem+sig", "run"}, op)
}

// group is the windows of one operation over one idle mode.
type group struct {
	key    groupKey
	pulses []pulse
	n      []float64       // operations a window
	keys   map[string]bool // that were stated
	lats   []*mark.Lat
	count  int64
}

func (g *group) add(w *align.Window, p pulse) {
	g.pulses = append(g.pulses, p)
	g.n = append(g.n, float64(w.N))
	g.count += w.N
	if w.Key != "" {
		if g.keys == nil {
			g.keys = map[string]bool{}
		}
		g.keys[w.Key] = true
	}
	if w.Lat != nil {
		g.lats = append(g.lats, w.Lat)
	}
}

// each collects one member of all pulses.
func (g *group) each(f func(p pulse) float64) []float64 {
	v := make([]float64, len(g.pulses))
	for i, p := range g.pulses {
		v[i] = f(p)
	}
	return v
}

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

func (g *group) result(t *align.Timeline, o Options, acc accuracy, over *overhead, ohms float64, duty *DutyCycle) Operation {
	b := o.Baseline
	net := g.each(func(p pulse) float64 { return p.net })
	gross := g.each(func(p pulse) float64 { return p.gross })
	seconds := g.each(func(p pulse) float64 { return p.seconds })
	idle := g.each(func(p pulse) float64 { return p.idle })
	op := Operation{
		Alg: g.key.alg, Op: g.key.op, IdleMode: g.key.idle, Windows: len(g.pulses), Count: g.count, Keys: len(g.keys),
		Net: unstated(), NetWatts: unstated(), Idle: unstated(), IdleStep: unstated(), Overhead: unstated(),
		Latency: g.latency(t, seconds), Budget: []Term{}, Warnings: []string{},
	}
	total, duration := sum(g.n), sum(seconds)

	// What shifts all windows alike, in joules per operation.
	shared := g.sharedTerms(t, b, total, ohms)
	uShared := 0.0
	for _, term := range shared {
		uShared = math.Hypot(uShared, float64(term.U))
	}
	energies := g.energies(b)
	known := over
	if !o.SubtractOverhead {
		over = nil
	}
	quantity := func(y, x []float64, shared float64, lim []float64, skewed bool) Quantity {
		p := g.repeats(y, x, energies, over)
		if g.count == 1 {
			return valueOnly(p.value)
		}
		q := quantityOf(p.value, p.scatter, p.dof, math.Hypot(shared, p.counted), lim, skewed)
		if q.UShared.Stated() {
			q.UShared = Num(math.Hypot(shared, p.others))
		}
		return q
	}
	main := g.repeats(energies, g.n, energies, over)
	skewed, carries := g.skewed(main.pooled)
	perNet, perGross := g.repeats(net, g.n, energies, over).value, g.repeats(gross, g.n, energies, over).value
	netLimits, grossLimits := g.limits(acc, perNet, true), g.limits(acc, perGross, false)
	if l, ok := duty.limit(perNet, t.Meter.Characterisation); ok {
		netLimits, grossLimits = append(netLimits, l), append(grossLimits, l)
	}
	op.Gross = quantity(gross, g.n, uShared, values(grossLimits, acc), skewed)
	headline, limits := &op.Gross, grossLimits
	if b != None {
		op.Net = quantity(net, g.n, uShared, values(netLimits, acc), skewed)
		op.NetWatts = quantity(net, seconds, uShared*total/duration, scaled(values(netLimits, acc), total/duration), false)
		op.Idle = meanLevel(idle, values(g.idleLimits(acc, idle), acc))
		if steps := stated(g.each(func(p pulse) float64 { return p.idleStep })); len(steps) > 1 {
			op.IdleStep = meanLevel(steps, nil)
		}
		headline, limits = &op.Net, netLimits
		op.Joint = g.joint(op.Net)
	}
	op.logarithmic = skewed
	if known != nil {
		op.Overhead = known.quantity(acc)
	}
	if len(g.pulses) > 1 && g.count > 1 {
		own := math.Sqrt(math.Max(0, main.scatter*main.scatter-main.others*main.others))
		op.Budget = append(op.Budget, Term{Name: "repeats", U: Num(own), Type: "A",
			Source: fmt.Sprintf("scatter of %d windows, %.3g degrees of freedom", len(g.pulses), main.dof)})
		if main.others > 0 {
			op.Budget = append(op.Budget, Term{Name: "window overhead", U: Num(main.others), Type: "A", Shared: true,
				Source: "scatter of the other operations' windows that the overhead was found from"})
		}
		if main.counted > 0 {
			op.Budget = append(op.Budget, Term{Name: "point samples", U: Num(main.counted), Type: "B",
				Source: "step of power x variance of the whole number of point samples that a window holds"})
		}
	}
	op.Budget = append(op.Budget, shared...)
	if acc.known() {
		op.limits = append([]limit{}, limits...)
	}
	for _, l := range limits {
		op.Budget = append(op.Budget, Term{Name: l.name, U: Num(l.u()), Type: "B", Shared: true, Source: l.source})
	}
	if carries != nil {
		op.warn(true, "%v", carries)
	}
	g.overheadWarning(&op, o, *headline)
	g.warnings(&op, t, b, acc, headline)
	return op
}

// repeated is the ratio of sums over windows with its scatter, and what comes
// beside: others is the part of the scatter that is of other operations'
// windows, counted the doubt from counting point samples, which the scatter is
// without.
type repeated struct {
	pooled
	others, counted float64
}

// repeats returns what pool does, without the overhead of windows where one is
// given. Where samples are points, their counting is told by itself: it is known
// beforehand, and few windows show it in their scatter only now and then.
func (g *group) repeats(y, x, energies []float64, over *overhead) repeated {
	estimate := func(y []float64) (pooled, float64) {
		if over != nil {
			return over.subtracted(g, y, x, energies)
		}
		return pool(y, x, strata(g.n)), 0
	}
	var r repeated
	r.pooled, r.others = estimate(y)
	variance := 0.0
	steady := slices.Clone(y)
	for i, w := range g.pulses {
		if w.counted > 0 {
			variance += w.counted
			steady[i] += w.steady - w.net
		}
	}
	if variance > 0 {
		p, _ := estimate(steady)
		r.scatter, r.dof, r.counted = p.scatter, p.dof, math.Sqrt(variance)/sum(x)
	}
	return r
}

// sharedTerms are errors that all windows of the run share and that scatter
// cannot show, as standard uncertainties in J per operation.
func (g *group) sharedTerms(t *align.Timeline, b Baseline, total, ohms float64) []Term {
	edges := 0.0
	for _, p := range g.pulses {
		edges += math.Abs(p.stepWatts) * p.edgeSeconds
	}
	var terms []Term
	if u := g.sharedBrackets() / total; u > 0 {
		terms = append(terms, Term{Name: "shared idle", U: Num(u), Type: "A", Shared: true,
			Source: "scatter within the idle time that neighbouring windows of this operation share"})
	}
	if edges > 0 {
		terms = append(terms, Term{Name: "window edges", U: Num(edges / total), Type: "B", Shared: true,
			Source: "step of power x doubt of the offset and tails of the response: windows are cut at their marks, or their quiet zones are short"})
	}
	if u := g.inferredIdle() / total; u > 0 {
		terms = append(terms, Term{Name: "inferred idle", U: Num(u), Type: "B", Shared: true,
			Source: "what is the same in all windows of the difference between the halves of the idle time beside them, which nobody stated to be idle"})
	}
	if b == None {
		return terms
	}
	if u := g.mixed(t, ohms) / math.Sqrt(3) / total; u > 0 {
		terms = append(terms, Term{Name: "volts times amps", U: Num(u), Type: "B", Shared: true,
			Source: fmt.Sprintf("source resistance of %.2g ohm x variance of the current within the response to an edge: at most, where volts and amps are averaged before they are multiplied", ohms)})
	}
	return terms
}

// inferredIdle is the standard uncertainty, in J of all windows together, of
// idle time that was only inferred: what the target does there each time, such as
// its preparation of a window, is no idle and no scatter. It shows as a
// difference between the halves of a bracket.
func (g *group) inferredIdle() float64 {
	sum := 0.0
	for _, p := range g.pulses {
		if !p.inferred {
			continue
		}
		for _, side := range []struct{ weight, trend float64 }{{p.before, p.beforeTrend}, {p.after, p.afterTrend}} {
			if side.weight != 0 && !math.IsNaN(side.trend) {
				sum += side.weight * side.trend / 2 * p.long
			}
		}
	}
	return math.Abs(sum)
}

// sharedBrackets is the standard uncertainty, in J of all windows together,
// that their scatter does not show because neighbours share idle time: an error
// of the level between two windows moves both the same way, by its weight times
// the time over which idle is subtracted.
func (g *group) sharedBrackets() float64 {
	variance, brackets := 0.0, 0.0
	for _, p := range g.pulses {
		if !math.IsNaN(p.afterTrend) {
			variance += p.afterTrend * p.afterTrend / 4
			brackets++
		}
	}
	covariance := 0.0
	for i := 1; i < len(g.pulses); i++ {
		if a, b := g.pulses[i-1], g.pulses[i]; b.index == a.index+1 {
			covariance += 2 * a.after * a.long * b.before * b.long
		}
	}
	if brackets == 0 {
		return 0
	}
	return math.Sqrt(covariance * variance / brackets)
}

func scaled(v []float64, f float64) []float64 {
	if v == nil {
		return nil
	}
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * f
	}
	return out
}

// meanLevel is the mean over windows, in W.
func meanLevel(watts []float64, lim []float64) Quantity {
	ones := make([]float64, len(watts))
	for i := range ones {
		ones[i] = 1
	}
	p := pool(watts, ones, strata(ones))
	return newQuantity(p.value, p.scatter, p.dof, 0, lim)
}

func stated(v []float64) []float64 {
	return slices.DeleteFunc(v, math.IsNaN)
}

// latency pools window lengths, and merges what the target says of single
// operations: extremes exactly, quantiles as means weighted by count.
func (g *group) latency(t *align.Timeline, seconds []float64) Latency {
	nan := Num(math.NaN())
	l := Latency{N: g.count, Mean: Num(sum(seconds) / sum(g.n)), P50: nan, P95: nan, Min: nan, Max: nan, SD: nan}
	tick := 1 / t.Target.TickHz
	if len(g.lats) == 0 || !(t.Target.TickHz > 0) {
		return l
	}
	var n, p50, p95, mean, square float64
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range g.lats {
		c := float64(s.N)
		n += c
		p50 += c * s.P50
		p95 += c * s.P95
		mean += c * s.Mean
		square += c * (s.SD*s.SD + s.Mean*s.Mean)
		lo, hi = math.Min(lo, s.Min), math.Max(hi, s.Max)
	}
	mean /= n
	l.P50, l.P95, l.Min, l.Max = Num(p50/n*tick), Num(p95/n*tick), Num(lo*tick), Num(hi*tick)
	l.SD = Num(math.Sqrt(math.Max(0, square/n-mean*mean)) * tick)
	return l
}

func (o *Operation) warn(voids bool, format string, args ...any) {
	o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...))
	o.Voided = o.Voided || voids
}

// overheadWarning says where the energy of windows beside their operations is
// seen in the result.
func (g *group) overheadWarning(op *Operation, o Options, headline Quantity) {
	c := op.Overhead
	if !c.Value.Stated() {
		if o.SubtractOverhead {
			op.warn(true, "the overhead of its windows is not known and not subtracted: it takes windows of two lengths, a factor of %g apart", stratumRatio)
		}
		return
	}
	per := float64(c.Value) * float64(len(g.pulses)) / float64(g.count)
	half := float64(headline.Hi95Repeat-headline.Lo95Repeat) / 2
	if !o.SubtractOverhead && c.Lo95Repeat*c.Hi95Repeat > 0 && math.Abs(per) > half {
		op.warn(false, "a window costs %s beside its operations, %.2g %% of this energy and more than its interval: --subtract-overhead",
			si.Format(float64(c.Value), "J", 3), 100*per/float64(headline.Value))
	}
}

func (g *group) warnings(op *Operation, t *align.Timeline, b Baseline, acc accuracy, headline *Quantity) {
	add := op.warn
	if why, ok := t.Voided[mark.Op{Alg: op.Alg, Op: op.Op}]; ok {
		add(true, "%s: what is left is not a fair sample of the operation", why)
	}
	switch {
	case g.count == 1:
		add(true, "one execution: a value, and no interval")
	case len(g.pulses) == 1:
		add(true, "one window: no scatter, so no interval; need 2 windows at least, 5 or more for a useful one")
	case len(g.pulses) < 5:
		add(false, "%d windows: the interval is wide because it rests on %d degrees of freedom", len(g.pulses), len(g.pulses)-1)
	}
	count := func(f func(pulse) bool) int {
		n := 0
		for _, p := range g.pulses {
			if f(p) {
				n++
			}
		}
		return n
	}
	if b != None {
		if n := count(func(p pulse) bool { return p.inferred }); n > 0 {
			add(false, "idle was not stated: the time between windows was taken for it (%d windows)", n)
		}
		if n := count(func(p pulse) bool { return p.cut }); n > 0 {
			add(false, "%d windows have no quiet zones and are cut at their marks", n)
		}
		if n := count(func(p pulse) bool { return p.short }); n > 0 {
			add(false, "%d windows have quiet zones shorter than the meter's response needs", n)
		}
		if n := count(func(p pulse) bool { return p.oneSided }); n > 0 {
			add(false, "%d windows have idle on one side only: drift is not taken out", n)
		}
		if text := op.Joint.warning(op.Net); text != "" {
			add(false, "%s", text)
		}
		if s := op.IdleStep; s.URepeat.Stated() && s.Lo95Repeat*s.Hi95Repeat > 0 && math.Abs(float64(s.Value)) > 0.02*math.Abs(float64(op.NetWatts.Value)) {
			add(false, "idle is higher after a window than before by %.1f %% of its net power: residual heat, or an idle level that depends on the window", 100*float64(s.Value/op.NetWatts.Value))
		}
	}
	if n := count(func(p pulse) bool { return p.coverage < 0.999 }); n > 0 {
		add(false, "samples are missing in %d windows", n)
	}
	for _, name := range g.outside(acc) {
		add(false, "its %s lie outside the range that calibration %s covers: the limits of the meter's maker count in addition, if they are known", name, acc.calibration.Name)
	}
	if !acc.known() {
		add(false, "the meter's accuracy is not stated: no total interval")
	}
	if len(g.keys) == 1 && (op.Op == "sign" || op.Op == "verify" || op.Op == "encaps" || op.Op == "decaps") {
		add(false, "one key")
	}
	if headline.Lo95Repeat < 0 && headline.Hi95Repeat > 0 {
		add(false, "the interval holds 0: nothing was measured above idle")
	}
}
