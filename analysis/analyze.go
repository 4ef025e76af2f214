package analysis

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
	"github.com/joulemark/joulemark/sync/mark"
)

// Options of an analysis.
type Options struct {
	Baseline Baseline // "" is Local
	// Accuracy overrides what the run says of its meter.
	Accuracy *meters.Accuracy
}

// ErrNoWindows says that a run holds no window that can be measured.
var ErrNoWindows = errors.New("no usable window")

// randomLength reports the operations whose length is random by design: rejection
// sampling (FIPS 204, 3.3; Falcon's key generation and signing loops).
func randomLength(alg, op string) bool {
	switch {
	case strings.HasPrefix(alg, "ML-DSA-"):
		return op == "sign"
	case strings.HasPrefix(alg, "Falcon-"):
		return op == "sign" || op == "keygen"
	case strings.HasPrefix(alg, "RSA-"):
		return op == "keygen"
	}
	return false
}

// minRandomOps is how many operations of random length the pooled scatter
// needs before Student's t describes it.
const minRandomOps = 100

// timeBase is the assumed limit of the host's clock, relative: quartz.
const timeBase = 100e-6

// Analyze turns a time line into results.
func Analyze(t *align.Timeline, o Options) (Results, error) {
	if o.Baseline == "" {
		o.Baseline = Local
	}
	accuracy := t.Meter.Accuracy
	if o.Accuracy != nil {
		accuracy = *o.Accuracy
	}
	res := Results{
		Schema: ResultsSchema, Run: filepath.Base(t.Run.Dir), Simulated: t.Run.Header.Simulated, Baseline: o.Baseline,
		Meter: Meter{
			Name: t.Meter.Stream, Driver: t.Meter.Driver, Model: t.Meter.Model, Serial: t.Meter.Serial,
			SamplesHz: Num(t.RateHz), EffectiveRateHz: Num(t.Character.EffectiveHz), ResponseSeconds: Num(math.NaN()),
			Character: characterOf(t.Character), Accuracy: accuracy.String(),
		},
		Target: Target{
			Name: t.Target.Name, ISA: t.Target.ISA, Bits: t.Target.Bits, CC: t.Target.CC, CFlags: t.Target.CFlags,
			Impl: strings.TrimSpace(t.Target.Impl + " " + t.Target.ImplVersion),
		},
		Alignment: Alignment{Method: t.Method, Offset: Num(t.Offset.Seconds), U: Num(t.Offset.U),
			DriftPPM: Num(t.DriftPPM), Edges: t.Offset.Edges, RunnerUp: Num(t.Offset.RunnerUp)},
		Operations: []Operation{}, Windows: []Window{}, Warnings: []string{}, Voids: []string{},
	}
	if t.Method == align.ByEdges {
		res.Meter.ResponseSeconds = Num(t.Offset.ResponseSeconds)
	}
	for _, w := range t.Warnings {
		res.warn(w.Text, w.Voids)
	}
	m := newMeasurer(t, o.Baseline)
	fit := m.fit()
	var source resistance
	groups := map[groupKey]*group{}
	var order []groupKey
	var duty dutyTest
	for i := range t.Windows {
		w := &t.Windows[i]
		out := Window{W: w.W, Alg: w.Alg, Op: w.Op, N: w.N, IdleMode: w.Idle, T0: Num(w.StartSeconds), T1: Num(w.EndSeconds),
			Gross: Num(math.NaN()), Net: Num(math.NaN()), Idle: Num(math.NaN()), Coverage: Num(math.NaN()), Excluded: w.Excluded}
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
	for _, k := range order {
		op := groups[k].result(t, o.Baseline, accuracy, ohms, res.Duty)
		if op.Voided {
			res.Voids = append(res.Voids, fmt.Sprintf("%s %s: see its warnings", op.Alg, op.Op))
		}
		res.Operations = append(res.Operations, op)
	}
	for op, why := range t.Voided {
		if _, ok := groups[groupKey{op.Alg, op.Op, ""}]; !ok && !hasOp(order, op) {
			res.warn(fmt.Sprintf("%s %s has no result: %s", op.Alg, op.Op, why), true)
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
	n      []float64 // operations a window
	keys   map[string]bool
	lats   []*mark.Lat
	uEdge  float64 // root mean square over windows
	count  int64
}

func (g *group) add(w *align.Window, p pulse) {
	g.pulses = append(g.pulses, p)
	g.n = append(g.n, float64(w.N))
	g.count += w.N
	if g.keys == nil {
		g.keys = map[string]bool{}
	}
	g.keys[w.Key] = true
	if w.Lat != nil {
		g.lats = append(g.lats, w.Lat)
	}
	g.uEdge = math.Hypot(g.uEdge, w.UEdge)
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

func (g *group) result(t *align.Timeline, b Baseline, acc meters.Accuracy, ohms float64, duty *DutyCycle) Operation {
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
	quantity := func(y, x []float64, shared float64, lim []float64) Quantity {
		p, counted := g.repeats(y, x)
		if g.count == 1 {
			return valueOnly(p.value)
		}
		q := newQuantity(p.value, p.scatter, p.dof, math.Hypot(shared, counted), lim)
		if q.UShared.Stated() {
			q.UShared = Num(shared)
		}
		return q
	}
	ones := g.each(func(pulse) float64 { return 1 })
	netLimits, grossLimits := g.limits(acc, net, gross, total, true), g.limits(acc, net, gross, total, false)
	if l, ok := duty.limit(sum(net) / total); ok {
		netLimits, grossLimits = append(netLimits, l), append(grossLimits, l)
	}
	op.Gross = quantity(gross, g.n, uShared, values(grossLimits, acc))
	headline, limits := &op.Gross, grossLimits
	if b != None {
		op.Net = quantity(net, g.n, uShared, values(netLimits, acc))
		op.NetWatts = quantity(net, seconds, uShared*total/duration, scaled(values(netLimits, acc), total/duration))
		op.Idle = quantity(idle, ones, 0, values(g.idleLimits(acc, idle), acc))
		if steps := stated(g.each(func(p pulse) float64 { return p.idleStep })); len(steps) > 1 {
			p := pool(steps, make1(len(steps)))
			op.IdleStep = newQuantity(p.value, p.scatter, p.dof, 0, nil)
		}
		headline, limits = &op.Net, netLimits
		op.Joint = g.joint(op.Net)
	}
	y := net
	if b == None {
		y = gross
	}
	if p, counted := g.repeats(y, g.n); len(g.pulses) > 1 && g.count > 1 {
		op.Budget = append(op.Budget, Term{Name: "repeats", U: Num(p.scatter), Type: "A",
			Source: fmt.Sprintf("scatter of %d windows, %d degrees of freedom", len(g.pulses), len(g.pulses)-1)})
		if counted > 0 {
			op.Budget = append(op.Budget, Term{Name: "point samples", U: Num(counted), Type: "B",
				Source: "step of power x variance of the whole number of point samples that a window holds"})
		}
	}
	op.Budget = append(op.Budget, shared...)
	if acc.Known(acc.Watts != nil) {
		op.limits = append([]limit{}, limits...)
	}
	for _, l := range limits {
		op.Budget = append(op.Budget, Term{Name: l.name, U: Num(l.half / math.Sqrt(3)), Type: "B", Shared: true, Source: l.source})
	}
	g.warnings(&op, t, b, acc, headline)
	return op
}

// repeats returns what pool does, but where samples are points without their
// counting, which is returned by itself, a standard uncertainty of a sum of y
// over a sum of x: it is known beforehand, and few windows show it in their
// scatter only now and then.
func (g *group) repeats(y, x []float64) (p pooled, counted float64) {
	p = pool(y, x)
	variance := 0.0
	steady := slices.Clone(y)
	for i, w := range g.pulses {
		if w.counted > 0 {
			variance += w.counted
			steady[i] += w.steady - w.net
		}
	}
	p.scatter = pool(steady, x).scatter
	return p, math.Sqrt(variance) / sum(x)
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

// limit is a rectangular limit of the meter, as half width of the result.
type limit struct {
	name   string
	half   float64
	source string
}

// limits propagates the meter's limits to J per operation, linearly:
// d(VI) = VI (gv + ga) + I ov + V oa.
func (g *group) limits(acc meters.Accuracy, net, gross []float64, total float64, isNet bool) []limit {
	if acc.Exact {
		return nil
	}
	e := math.Abs(sum(gross)) / total
	coulomb := math.Abs(sum(g.each(func(p pulse) float64 { return p.coulomb }))) / total
	webers := math.Abs(sum(g.each(func(p pulse) float64 { return p.webers }))) / total
	seconds := sum(g.each(func(p pulse) float64 { return p.seconds })) / total
	if isNet {
		e = math.Abs(sum(net)) / total
		coulomb = math.Abs(sum(g.each(func(p pulse) float64 { return p.netCoulomb }))) / total
		webers = math.Abs(sum(g.each(func(p pulse) float64 { return p.netWebers }))) / total
		seconds = 0 // a constant offset of power cancels
	}
	source := acc.Source
	if source == "" {
		source = "stated accuracy " + acc.String()
	}
	var out []limit
	add := func(name string, half float64) {
		if half > 0 && !math.IsNaN(half) {
			out = append(out, limit{name, half, source})
		}
	}
	if acc.Watts != nil {
		add("meter gain", acc.Watts.Gain*e)
		add("meter offset", acc.Watts.Offset*seconds)
	}
	if acc.Volts != nil {
		add("meter gain, volts", acc.Volts.Gain*e)
		add("meter offset, volts", acc.Volts.Offset*coulomb)
	}
	if acc.Amps != nil {
		add("meter gain, amps", acc.Amps.Gain*e)
		add("meter offset, amps", acc.Amps.Offset*webers)
	}
	out = append(out, limit{"time base", timeBase * e, "assumed: host quartz within 100 ppm"})
	return out
}

// idleLimits propagates the meter's limits to the idle level, W.
func (g *group) idleLimits(acc meters.Accuracy, idle []float64) []limit {
	if acc.Exact {
		return nil
	}
	level := math.Abs(sum(idle)) / float64(len(idle))
	var out []limit
	for _, l := range []*meters.Limit{acc.Volts, acc.Amps, acc.Watts} {
		if l != nil {
			out = append(out, limit{half: l.Gain * level})
		}
	}
	seconds := sum(g.each(func(p pulse) float64 { return p.seconds }))
	volts := sum(g.each(func(p pulse) float64 { return p.webers })) / seconds
	if acc.Amps != nil {
		out = append(out, limit{half: acc.Amps.Offset * volts})
	}
	if acc.Volts != nil && volts > 0 {
		out = append(out, limit{half: acc.Volts.Offset * level / volts})
	}
	if acc.Watts != nil {
		out = append(out, limit{half: acc.Watts.Offset})
	}
	return out
}

// values returns half widths for newQuantity: nil where the accuracy is not
// known, so that no total interval is stated.
func values(limits []limit, acc meters.Accuracy) []float64 {
	if !acc.Known(acc.Watts != nil) {
		return nil
	}
	v := []float64{}
	for _, l := range limits {
		v = append(v, l.half)
	}
	return v
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

func make1(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
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

func (g *group) warnings(op *Operation, t *align.Timeline, b Baseline, acc meters.Accuracy, headline *Quantity) {
	add := func(voids bool, format string, args ...any) {
		op.Warnings = append(op.Warnings, fmt.Sprintf(format, args...))
		op.Voided = op.Voided || voids
	}
	if why, ok := t.Voided[mark.Op{Alg: op.Alg, Op: op.Op}]; ok {
		add(true, "%s: what is left is not a fair sample of the operation", why)
	}
	switch {
	case g.count == 1:
		add(true, "one execution: a value, and no interval")
	case len(g.pulses) == 1:
		add(true, "one window: no scatter, so no interval; need 2 windows at least, 5 or more for a useful one")
	case randomLength(op.Alg, op.Op) && g.count < minRandomOps:
		add(true, "%d operations of random length cannot carry this interval; need %d", g.count, minRandomOps)
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
	if !acc.Known(acc.Watts != nil) {
		add(false, "the meter's accuracy is not stated: no total interval")
	}
	if len(g.keys) == 1 && (op.Op == "sign" || op.Op == "verify" || op.Op == "encaps" || op.Op == "decaps") && !g.keys[""] {
		add(false, "one key")
	}
	if headline.Lo95Repeat < 0 && headline.Hi95Repeat > 0 {
		add(false, "the interval holds 0: nothing was measured above idle")
	}
}
