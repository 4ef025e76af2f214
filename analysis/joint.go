package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/joulemark/joulemark/sync/align"
	"gonum.org/v1/gonum/mat"
)

// Joint is a second estimate of net energy per operation, from a joint fit of
// the whole trace, beside the pulse integral. It is a diagnostic: where the two
// disagree, power was not settled or not constant in the windows, the meter is
// not linear, or windows cost something beside their operations.
type Joint struct {
	Value Num `json:"value"` // J per operation
	// Difference is Value minus the pulse integral over the same windows, and
	// UDifference its standard uncertainty.
	Difference  Num `json:"difference"`
	UDifference Num `json:"u_difference"`
	// Agrees is false where the difference is more than 3 of its uncertainties
	// and more than the repeatability half width of net energy.
	Agrees bool `json:"agrees"`
}

// Limits of the joint fit.
const (
	// fitReach is how far from a window idle time is fitted, s: farther off, a
	// straight line does not describe an idle level that wanders.
	fitReach = minBracketReach
	// fitPiece is the length of the pieces at the ends of a stretch of idle, s.
	fitPiece = 0.5
	// finestCell bounds the cells in which the correlation of noise is told, s:
	// the trace keeps no finer detail.
	finestCell = 2e-3
	// noiseCells is how many cells of idle tell it.
	noiseCells = 2000
	// minJoint is the least number of windows of which the two estimates are
	// compared.
	minJoint = 3
	// disagreement is the least difference that counts, in its uncertainties.
	disagreement = 3.0
	resamples    = 400
)

// fitted is what the joint fit says of a window.
type fitted struct {
	watts    float64 // above idle
	idleStep float64 // W, the idle level at its end minus that at its begin; NaN with idle on one side only
}

// take adds what the joint fit says of window i. Its idle level beside the
// window's edges tells residual heat better than the mean over the gaps, which
// neighbours share.
func (p *pulse) take(fits map[int]fitted, i int) {
	f, ok := fits[i]
	if !ok {
		p.jointWatts = math.NaN()
		return
	}
	p.jointWatts, p.idleStep = f.watts, f.idleStep
}

// fit explains the power of the whole trace by an idle level that runs in
// straight lines, one through the idle time of each gap between windows and one
// under each window, and one power a window, smoothed by the folded response.
// It is solved by generalised least squares for noise of first-order
// autocorrelation as idle shows it, and returns the windows by their index.
func (m *measurer) fit() map[int]fitted {
	out := map[int]fitted{}
	if m.baseline != Local || m.t.Method == align.ByArrival {
		return out
	}
	shape := newResponse(m.t.Offset.Fold, m.lead, m.guard)
	for from := 0; from < len(m.t.Windows); {
		to, segment := from, m.t.Windows[from].Segment
		for to < len(m.t.Windows) && m.t.Windows[to].Segment == segment {
			to++
		}
		f := newJointFit(m, segment, shape)
		f.build(from, to)
		f.solve(out)
		from = to
	}
	return out
}

// jointFit is the trace of one segment as bins, with what explains them.
// Parameters are counted in the order of time, so that the normal equations
// are banded.
type jointFit struct {
	m       *measurer
	segment int
	shape   response
	cell    float64 // s of the sample clock
	noise   autocorrelation
	bins    []bin // in the order of time
	knots   []knot
	columns []column
	params  int
}

// bin is the mean power of a stretch, s of the sample clock.
type bin struct {
	from, to float64
	watts    float64
	column   int // index of the window it belongs to; -1: idle
}

// knot is one point of the idle level.
type knot struct {
	at    float64
	param int
}

// column is a window that the fit gives a power.
type column struct {
	window       *align.Window
	index, param int
}

func newJointFit(m *measurer, segment int, shape response) *jointFit {
	period := m.t.Period(segment)
	return &jointFit{m: m, segment: segment, shape: shape, cell: period * math.Max(1, math.Round(finestCell/period))}
}

// build walks along the windows from to to of the time line.
func (f *jointFit) build(from, to int) {
	var prev *align.Window
	for i := from; i < to; i++ {
		w := &f.m.t.Windows[i]
		if !(w.To > w.From) {
			continue
		}
		f.gap(prev, w)
		// A duty cycle is no constant power.
		if w.Excluded == "" && w.PeriodUs == 0 {
			f.window(i, w)
		}
		prev = w
	}
	if prev != nil {
		f.gap(prev, nil)
	}
}

// gap fits the idle time between two windows; in a long gap, what is near to
// either.
func (f *jointFit) gap(prev, next *align.Window) {
	if prev != nil && next != nil && next.From-prev.To <= 2*fitReach {
		f.idle(next, prev.To, next.From)
		return
	}
	if prev != nil {
		f.idle(prev, prev.To, prev.To+fitReach)
	}
	if next != nil {
		f.idle(next, next.From-fitReach, next.From)
	}
}

// idle adds the idle time in [from, to] that follows the idle mode of w, as
// one straight line.
func (f *jointFit) idle(w *align.Window, from, to float64) {
	first := len(f.bins)
	for _, q := range f.m.clip(w, from, to) {
		f.noise.add(f.m.t, q, f.cell)
		cuts := []float64{q.From, q.From + fitPiece, q.To - fitPiece, q.To}
		if q.To-q.From < 3*fitPiece {
			cuts = []float64{q.From, (q.From + q.To) / 2, q.To}
		}
		for k := 1; k < len(cuts); k++ {
			f.bin(cuts[k-1], cuts[k], minCoverage, -1)
		}
	}
	if first == len(f.bins) {
		return
	}
	a, b := f.bins[first], f.bins[len(f.bins)-1]
	if first == len(f.bins)-1 {
		f.knot((a.from + a.to) / 2)
		return
	}
	f.knot(a.from)
	f.knot(b.to)
}

func (f *jointFit) knot(at float64) {
	f.knots = append(f.knots, knot{at, f.params})
	f.params++
}

// window adds the bins of one window: its two edges, each with the whole
// response to it, and what lies between them.
func (f *jointFit) window(i int, w *align.Window) {
	k := len(f.columns)
	first := len(f.bins)
	lead, settle := f.m.lead, f.m.guard
	if !(w.To-w.From > lead+settle+f.cell) {
		return
	}
	pre, post := lead, settle
	if w.Pre > 0 {
		pre = math.Min(pre, w.Pre)
	}
	if w.Post > 0 {
		post = math.Min(post, w.Post)
	}
	f.bin(w.From-pre, w.From+settle, fullCoverage, k)
	inside := f.bin(w.From+settle, w.To-lead, minCoverage, k)
	f.bin(w.To-lead, w.To+post, fullCoverage, k)
	if !inside {
		f.bins = f.bins[:first]
		return
	}
	f.columns = append(f.columns, column{w, i, f.params})
	f.params++
}

// fullCoverage is the least coverage of a stretch in which power is not the
// same throughout.
const fullCoverage = 0.999

// bin adds one bin, where samples cover it, and reports whether they do.
func (f *jointFit) bin(from, to, coverage float64, column int) bool {
	if n := len(f.bins); n > 0 {
		from = math.Max(from, f.bins[n-1].to)
	}
	if !(to > from) {
		return false
	}
	s := f.m.t.Between(f.segment, from, to)
	if !(s.Seconds >= coverage*(to-from)*f.m.t.Rate(f.segment)) {
		return false
	}
	f.bins = append(f.bins, bin{from, to, s.Watts(), column})
	return true
}

// term is one parameter's share in an equation.
type term struct {
	param  int
	weight float64
}

// terms says what explains bin b.
func (f *jointFit) terms(b bin) []term {
	out := f.idleTerms((b.from + b.to) / 2)
	if b.column < 0 {
		return out
	}
	// Windows that touch reach into each other.
	for k := max(0, b.column-1); k < min(len(f.columns), b.column+2); k++ {
		c := f.columns[k]
		on := f.shape.between(b.from-c.window.From, b.to-c.window.From)
		off := f.shape.between(b.from-c.window.To, b.to-c.window.To)
		if share := (on - off) / (b.to - b.from); math.Abs(share) > 1e-9 {
			out = append(out, term{c.param, share})
		}
	}
	return out
}

// idleTerms interpolates the idle level at x; before the first knot and after
// the last it is constant.
func (f *jointFit) idleTerms(x float64) []term {
	k := sort.Search(len(f.knots), func(k int) bool { return f.knots[k].at >= x })
	switch {
	case k == 0:
		return []term{{f.knots[0].param, 1}}
	case k == len(f.knots):
		return []term{{f.knots[k-1].param, 1}}
	}
	a, b := f.knots[k-1], f.knots[k]
	share := (x - a.at) / (b.at - a.at)
	return []term{{a.param, 1 - share}, {b.param, share}}
}

// solve adds the windows of the segment to out; a fit that has no solution adds
// none.
func (f *jointFit) solve(out map[int]fitted) {
	if len(f.columns) == 0 || len(f.knots) == 0 {
		return
	}
	rows, values := f.whiten()
	band := 0
	for _, row := range rows {
		for _, a := range row {
			for _, b := range row {
				band = max(band, a.param-b.param)
			}
		}
	}
	normal := mat.NewSymBandDense(f.params, band, nil)
	right := mat.NewVecDense(f.params, nil)
	for i, row := range rows {
		for _, a := range row {
			right.SetVec(a.param, right.AtVec(a.param)+a.weight*values[i])
			for _, b := range row {
				if a.param <= b.param {
					normal.SetSymBand(a.param, b.param, normal.At(a.param, b.param)+a.weight*b.weight)
				}
			}
		}
	}
	var chol mat.BandCholesky
	var x mat.VecDense
	if !chol.Factorize(normal) || chol.SolveVecTo(&x, right) != nil {
		return
	}
	for _, c := range f.columns {
		before := sort.Search(len(f.knots), func(k int) bool { return f.knots[k].at > c.window.From }) - 1
		step := math.NaN()
		if before >= 0 && before+1 < len(f.knots) {
			step = x.AtVec(f.knots[before+1].param) - x.AtVec(f.knots[before].param)
		}
		out[c.index] = fitted{watts: x.AtVec(c.param), idleStep: step}
	}
}

// whiten returns the equations of the bins, each less what the one before
// tells of its noise, and divided by the deviation of what is left.
func (f *jointFit) whiten() (rows [][]term, values []float64) {
	keep := f.noise.coefficient()
	var last []term
	for i, b := range f.bins {
		n := (b.to - b.from) / f.cell
		variance := meanVariance(keep, n)
		own := f.terms(b)
		row, value := slices.Clone(own), b.watts
		if i > 0 {
			p := f.bins[i-1]
			np := (p.to - p.from) / f.cell
			shared := meanCovariance(keep, np, n, (b.from-p.to)/f.cell)
			a := shared / meanVariance(keep, np)
			variance -= a * shared
			value -= a * p.watts
			row = minus(row, a, last)
		}
		scale := 1 / math.Sqrt(variance)
		for k := range row {
			row[k].weight *= scale
		}
		rows, values = append(rows, row), append(values, value*scale)
		last = own
	}
	return rows, values
}

// minus returns a - f b, one term a parameter.
func minus(a []term, f float64, b []term) []term {
	for _, t := range b {
		known := false
		for k := range a {
			if a[k].param == t.param {
				a[k].weight -= f * t.weight
				known = true
			}
		}
		if !known {
			a = append(a, term{t.param, -f * t.weight})
		}
	}
	return a
}

// meanVariance is the variance of the mean of n cells of AR(1) noise of unit
// variance (Box, Jenkins & Reinsel, Time Series Analysis, 4th ed., 2.1 and 3.2).
func meanVariance(keep, n float64) float64 {
	if n <= 1 {
		return 1
	}
	return ((1+keep)/(1-keep) - 2*keep*(1-math.Pow(keep, n))/(n*(1-keep)*(1-keep))) / n
}

// meanCovariance is the covariance of the means of n and of m such cells, gap
// cells apart.
func meanCovariance(keep, n, m, gap float64) float64 {
	if keep == 0 {
		return 0
	}
	return math.Pow(keep, gap+1) * (1 - math.Pow(keep, n)) * (1 - math.Pow(keep, m)) / ((1 - keep) * (1 - keep) * n * m)
}

// autocorrelation of the noise of neighbouring cells in idle.
type autocorrelation struct {
	cells           int
	product, square float64
}

// add looks at the cells at the end of an idle stretch, where the trace keeps
// them, until enough were seen.
func (a *autocorrelation) add(t *align.Timeline, q align.Quiet, cell float64) {
	first := math.Ceil(math.Max(q.From, q.To-fitPiece) / cell)
	n := int(q.To/cell - first)
	if n < 4 || a.cells >= noiseCells {
		return
	}
	watts := make([]float64, n)
	mean := 0.0
	for k := range watts {
		at := (first + float64(k)) * cell
		watts[k] = t.Between(q.Segment, at, at+cell).Watts()
		mean += watts[k] / float64(n)
	}
	if math.IsNaN(mean) {
		return
	}
	a.cells += n
	for k, w := range watts {
		a.square += (w - mean) * (w - mean)
		if k > 0 {
			a.product += (w - mean) * (watts[k-1] - mean)
		}
	}
}

// coefficient is within [0, 0.99].
func (a *autocorrelation) coefficient() float64 {
	if !(a.square > 0) {
		return 0
	}
	return math.Min(math.Max(a.product/a.square, 0), 0.99)
}

// response is the integral of the folded step response.
type response struct {
	at, area []float64 // s after the centroid of the response; s
}

// newResponse takes the response for 0 before -lead and for 1 after settle.
func newResponse(f align.Fold, lead, settle float64) response {
	var r response
	level := 0.0
	add := func(at, next float64) {
		area := 0.0
		if n := len(r.at); n > 0 {
			area = r.area[n-1] + (at-r.at[n-1])*(level+next)/2
		}
		r.at, r.area, level = append(r.at, at), append(r.area, area), next
	}
	for k, at := range f.Seconds {
		if at > -lead && at < settle {
			if len(r.at) == 0 {
				add(-lead, 0)
			}
			add(at, f.Level[k])
		}
	}
	if len(r.at) == 0 {
		return response{at: []float64{0}, area: []float64{0}}
	}
	add(settle, 1)
	return r
}

// between is the area of the response from a to b, s.
func (r response) between(a, b float64) float64 { return r.until(b) - r.until(a) }

func (r response) until(x float64) float64 {
	n := len(r.at)
	switch {
	case x <= r.at[0]:
		return 0
	case x >= r.at[n-1]:
		return r.area[n-1] + x - r.at[n-1]
	}
	k := sort.SearchFloat64s(r.at, x)
	share := (x - r.at[k-1]) / (r.at[k] - r.at[k-1])
	return r.area[k-1] + share*(r.area[k]-r.area[k-1])
}

// joint compares the joint fit with the pulse integral, over the windows that
// have both; nil with too few of them.
func (g *group) joint(net Quantity) *Joint {
	var difference, n []float64
	value := 0.0
	for k, p := range g.pulses {
		if !math.IsNaN(p.jointWatts) {
			e := p.jointWatts * p.seconds
			value += e
			difference = append(difference, e-p.net)
			n = append(n, g.n[k])
		}
	}
	if len(n) < minJoint {
		return nil
	}
	d, u := sum(difference)/sum(n), bootstrap(difference, n)
	half := float64(net.Hi95Repeat-net.Lo95Repeat) / 2
	return &Joint{
		Value: Num(value / sum(n)), Difference: Num(d), UDifference: Num(u),
		Agrees: !(math.Abs(d) > disagreement*u && math.Abs(d) > half),
	}
}

// warning says how far the fit is off, where it disagrees.
func (j *Joint) warning(net Quantity) string {
	if j == nil || j.Agrees {
		return ""
	}
	v := 100 / float64(net.Value)
	return fmt.Sprintf("a joint fit of the trace differs by %+.2g %% (standard uncertainty %.1g %%): power is not settled or not constant in the windows, the meter is not linear, or windows cost something beside their operations",
		v*float64(j.Difference), math.Abs(v*float64(j.UDifference)))
}

// bootstrap is the standard uncertainty of sum(y)/sum(n) over windows that
// resemble their neighbours: a circular block bootstrap (Politis & Romano, in
// Exploring the Limits of Bootstrap, 1992, 263) in blocks of the cube root of
// their number (Hall, Horowitz & Jing, Biometrika 82 (1995) 561), corrected for
// that number. The same windows give the same answer.
func bootstrap(y, n []float64) float64 {
	m := len(y)
	block := int(math.Max(1, math.Round(math.Cbrt(float64(m)))))
	draws := rand.New(rand.NewPCG(1, uint64(m)))
	var mean, square float64
	for k := range resamples {
		var sy, sn float64
		for taken := 0; taken < m; {
			start := draws.IntN(m)
			for i := 0; i < block && taken < m; i++ {
				sy += y[(start+i)%m]
				sn += n[(start+i)%m]
				taken++
			}
		}
		d := sy/sn - mean
		mean += d / float64(k+1)
		square += d * (sy/sn - mean)
	}
	return math.Sqrt(square / (resamples - 1) * float64(m) / float64(m-block))
}
