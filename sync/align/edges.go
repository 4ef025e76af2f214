package align

import (
	"math"
	"slices"
)

// An edge is one step of power that a mark announces: into a window or out of
// it. Times are sample seconds before the offset is applied.
type edge struct {
	at     float64
	rising bool
	tr     *trace
	// before and after bound the undisturbed time beside the edge, s.
	before, after float64
	// quiet stretches on the outer side, near enough to tell the level there.
	quiet []span
	// inner bounds the stretch inside the window that tells the level there.
	inner span
}

// Limits of the search for the offset between marks and power.
const (
	// searchFrom and searchTo bound what is tried. Wider than plausible, so
	// that an implausible offset is found and named.
	searchFrom, searchTo = -0.3, 0.6 // s
	// plausibleFrom and plausibleTo bound what a USB meter and a serial line
	// can do: statements are late too, and a stamp may mean the start or the
	// end of a sample.
	plausibleFrom, plausibleTo = -0.05, 0.15 // s
	// levelSpan is the longest stretch beside an edge that is looked at.
	levelSpan = 0.6 // s
	// minStepRatio is the least typical step, in its standard uncertainties.
	minStepRatio = 5.0
	// maxRunnerUp is the share of the best explanation that another, separate
	// offset may reach.
	maxRunnerUp = 0.8
	// settleResponses and leadResponses bound the response around its centroid,
	// in its 10-90 % times: a one-pole response has let all but 0.4 % of a step
	// through 2.5 of them after its centroid, and begins 0.45 before it (a boxcar
	// 0.63).
	settleResponses = 2.5
	leadResponses   = 1.0
	// firstResponse is what is assumed until it was measured, s.
	firstResponse = 0.05
)

// reach says how far the response to an edge extends around its centroid, s.
type reach struct{ lead, settle float64 }

func reachOf(response, period float64) reach {
	return reach{lead: leadResponses*response + 1.5*period, settle: settleResponses*response + 1.5*period}
}

// Offset is the time from a mark to the centroid of the power response: the
// transport delay, the meter's smoothing and the target's ramp together. Only
// their sum can be told from the data.
type Offset struct {
	Seconds float64 // +ve: power is seen later than the mark says
	U       float64 // standard uncertainty, s
	Edges   int     // edges used
	// RunnerUp is the best separate offset's share of what the best explains.
	RunnerUp        float64
	RunnerUpSeconds float64
	// StepRatio is the typical step divided by its standard uncertainty.
	StepRatio float64
	// SlopePPM is the drift of the offset over the run, and its uncertainty.
	SlopePPM, USlopePPM float64
	// ResponseSeconds is the 10-90 % time of the folded edges: meter and
	// target together.
	ResponseSeconds float64
	// Fold is the step response that ResponseSeconds was read from.
	Fold Fold

	// CutSeconds is the doubt of a window that is cut at its marks, at both edges
	// together: as long a stretch of its step of power may be lost or gained.
	CutSeconds float64

	least, most float64 // offsets of single edges, s
	coarse      float64 // the one at which single steps explain most, s
}

// findOffset finds the offset that explains all edges at once. problem says
// why none can be trusted; the offset is then only the best guess.
func findOffset(edges []edge) (o Offset, problem string) {
	usable := edges[:0:0]
	for _, e := range edges {
		if e.before >= 2*e.tr.period && e.after >= 2*e.tr.period {
			usable = append(usable, e)
		}
	}
	if len(usable) < 2 {
		return o, "fewer than two edges of windows lie in the recording"
	}
	period := usable[0].tr.period
	o.Edges, o.U = len(usable), period
	o.coarse, o.RunnerUpSeconds, o.RunnerUp = scan(usable)
	o.Seconds = o.coarse
	// The reach of the response follows from the edges folded onto each other,
	// and the centroid from the reach.
	o.ResponseSeconds = firstResponse
	for range 4 {
		r := reachOf(o.ResponseSeconds, period)
		fine := centroid(usable, o.Seconds, r)
		if fine.edges < 2 {
			if fine.tried == 0 {
				return o, "windows and the time between them are too short for the meter's response to show their edges"
			}
			return o, "no power step stands at the marks"
		}
		o.Seconds, o.U, o.StepRatio = fine.offset, fine.u, fine.stepRatio
		o.SlopePPM, o.USlopePPM, o.Edges = fine.slope*1e6, fine.uSlope*1e6, fine.edges
		o.least, o.most = fine.least, fine.most
		o.Fold = fold(usable, o.Seconds, r)
		found := o.Fold.response()
		if math.Abs(found-o.ResponseSeconds) < period/10 {
			break
		}
		o.ResponseSeconds = found
	}
	switch {
	case o.StepRatio < minStepRatio:
		return o, "the power step at the marks is lost in the noise"
	case o.RunnerUp > maxRunnerUp:
		return o, "two offsets explain the edges equally well: evenly spaced windows alias"
	case o.Seconds < plausibleFrom || o.Seconds > plausibleTo:
		return o, "the offset that explains the edges is not plausible for these clocks"
	}
	return o, ""
}

// maxEdges is how many edges tell the offset of a long run: its standard
// uncertainty is a fortieth of what they scatter, then.
const maxEdges = 2000

// thin takes windows, of which each has two edges, at even distances where there
// are more than maxEdges.
func thin(edges []edge) []edge {
	windows := len(edges) / 2
	if 2*windows <= maxEdges {
		return edges
	}
	var out []edge
	for i := range maxEdges / 2 {
		k := i * windows / (maxEdges / 2)
		out = append(out, edges[2*k:2*k+2]...)
	}
	return out
}

// scan tries offsets on a grid and returns the best one, and the best one
// that is separated from it by a valley, with its share of what the best
// explains.
func scan(edges []edge) (best, runner, share float64) {
	step := math.Min(math.Max(edges[0].tr.period/2, 1e-3), 5e-3)
	n := int((searchTo-searchFrom)/step) + 1
	gain := make([]float64, n)
	for _, e := range edges {
		p := e.partition()
		for k := range gain {
			gain[k] += p.explained(searchFrom + float64(k)*step)
		}
	}
	top := 0
	for k := range gain {
		if gain[k] > gain[top] {
			top = k
		}
	}
	best = searchFrom + float64(top)*step
	if gain[top] <= 0 {
		return best, best, 0
	}
	// A separate peak: behind a valley of less than half the best.
	second := -1
	for _, dir := range []int{-1, 1} {
		valley := false
		for k := top; k >= 0 && k < n; k += dir {
			valley = valley || gain[k] < gain[top]/2
			if valley && (second < 0 || gain[k] > gain[second]) {
				second = k
			}
		}
	}
	if second < 0 {
		return best, best, 0
	}
	return best, searchFrom + float64(second)*step, math.Max(0, gain[second]/gain[top])
}

// partition is the time around an edge that one step is to explain.
type partition struct {
	edge
	span
	until, upTo sums // integrals up to its ends
}

func (e edge) partition() partition {
	s := span{e.at - math.Min(e.before, levelSpan), e.at + math.Min(e.after, levelSpan)}
	return partition{e, s, e.tr.to(s.from), e.tr.to(s.to)}
}

// explained is how much of the squared deviation of power around the edge one
// step at offset d, of the right direction, explains: n1 n2/(n1+n2) (m2-m1)^2.
func (p partition) explained(d float64) float64 {
	at := p.at + d
	if at <= p.from || at >= p.to {
		return 0
	}
	mid := p.tr.to(at)
	l, r := mid.minus(p.until), p.upTo.minus(mid)
	if l.seconds <= 0 || r.seconds <= 0 {
		return 0
	}
	step := r.meanWatts() - l.meanWatts()
	if (step > 0) != p.rising {
		return 0
	}
	return l.seconds * r.seconds / (l.seconds + r.seconds) * step * step
}

// levels returns the mean power before and after the edge, without its
// response, and the standard uncertainty of their difference.
func (e edge) levels(d float64, r reach) (p0, p1, u float64, ok bool) {
	var outer sums
	for _, q := range e.quiet {
		// What came before a quiet stretch dies away in it, and the response to
		// what comes after it begins early.
		from, to := q.from+d+r.settle, q.to+d-r.lead
		if to > from {
			outer = outer.plus(e.tr.between(span{from, to}))
		}
	}
	inner := e.tr.between(span{e.inner.from + d + r.settle, e.inner.to + d - r.lead})
	least := 2 * e.tr.period
	if outer.seconds < least || inner.seconds < least {
		return 0, 0, 0, false
	}
	u = math.Sqrt(e.tr.period * (math.Max(0, variance(outer))/outer.seconds + math.Max(0, variance(inner))/inner.seconds))
	if e.rising {
		return outer.meanWatts(), inner.meanWatts(), u, true
	}
	return inner.meanWatts(), outer.meanWatts(), u, true
}

// centroids is what the edges say one by one.
type centroids struct {
	offset, u     float64
	slope, uSlope float64 // seconds of offset per second of the run
	least, most   float64 // offsets of single edges
	stepRatio     float64
	edges         int
	tried         int // edges with room for levels beside them
}

// centroid measures each edge by its area: the response that is missing after
// its centroid and the one that came before balance. It needs no model of the
// response, only that all of it lies within reach of d:
//
//	c = b - integral(a .. b) (p - P0) / (P1 - P0),  a = at+d-lead, b = at+d+settle
func centroid(edges []edge, d float64, r reach) centroids {
	type point struct{ t, c, w float64 }
	var pts []point
	var ratios []float64
	tried := 0
	for _, e := range edges {
		p0, p1, u, ok := e.levels(d, r)
		if !ok {
			continue
		}
		tried++
		h := p1 - p0
		if h == 0 || (h > 0) != e.rising {
			ratios = append(ratios, 0)
			continue
		}
		ratios = append(ratios, math.Abs(h)/math.Max(u, 1e-12*math.Abs(h)))
		a := e.at + d - math.Min(r.lead, e.before)
		b := e.at + d + math.Min(r.settle, math.Max(e.after-r.lead, e.tr.period))
		mid := e.tr.between(span{a, b})
		if mid.seconds < 0.999*(b-a) {
			continue
		}
		c := b - (mid.joules-p0*mid.seconds)/h - e.at
		if c < a-e.at || c > b-e.at {
			continue
		}
		pts = append(pts, point{e.at, c, h * h})
	}
	out := centroids{edges: len(pts), tried: tried}
	if len(ratios) > 0 {
		slices.Sort(ratios)
		out.stepRatio = ratios[len(ratios)/2]
	}
	if len(pts) < 2 {
		return out
	}
	// Edges far off (a burst beside one) are left out, judged by the median
	// absolute deviation.
	cs := make([]float64, len(pts))
	for i, p := range pts {
		cs[i] = p.c
	}
	m := median(cs)
	for i, p := range pts {
		cs[i] = math.Abs(p.c - m)
	}
	limit := math.Max(6*1.4826*median(cs), 1e-6)
	pts = slices.DeleteFunc(pts, func(p point) bool { return math.Abs(p.c-m) > limit })
	out.edges = len(pts)

	out.least, out.most = pts[0].c, pts[0].c
	var sw, st, sc float64
	for _, p := range pts {
		out.least, out.most = math.Min(out.least, p.c), math.Max(out.most, p.c)
		sw += p.w
		st += p.w * p.t
		sc += p.w * p.c
	}
	out.offset, st = sc/sw, st/sw
	var stt, stc, res float64
	for _, p := range pts {
		stt += p.w * (p.t - st) * (p.t - st)
		stc += p.w * (p.t - st) * (p.c - out.offset)
		res += p.w * p.w * (p.c - out.offset) * (p.c - out.offset)
	}
	n := float64(len(pts))
	out.u = math.Sqrt(res * n / (n - 1) / (sw * sw))
	if stt > 0 && len(pts) > 2 {
		out.slope = stc / stt
		var r float64
		for _, p := range pts {
			e := p.c - out.offset - out.slope*(p.t-st)
			r += p.w * p.w * (p.t - st) * (p.t - st) * e * e
		}
		out.uSlope = math.Sqrt(r*n/(n-2)) / stt
	}
	return out
}

// variance of power over the stretch, W^2.
func variance(s sums) float64 {
	m := s.meanWatts()
	return s.square/s.seconds - m*m
}

// A Fold is all edges of a run on top of each other: the step response of
// meter and target together, in equivalent time.
type Fold struct {
	// Seconds after the place where windows begin and end, which is the centroid
	// where the offset moved them there, and the mean normalised power: 0 before
	// the step, 1 after it.
	Seconds, Level []float64
	Edges          int

	centroid float64 // s after that place
}

// later is the fold of windows that stay at their marks while the power shows
// later by d, s.
func (f Fold) later(d float64) Fold {
	f.Seconds = slices.Clone(f.Seconds)
	for k := range f.Seconds {
		f.Seconds[k] += d
	}
	f.centroid += d
	return f
}

// foldReach is how far to either side a fold extends, s.
const foldReach = 0.4

// fold normalises every edge and averages them, weighted by the square of the
// step, in slices finer than a sample.
func fold(edges []edge, d float64, r reach) Fold {
	step := math.Min(math.Max(edges[0].tr.period/4, finestKnot), 5e-3)
	n := int(2*foldReach/step) + 1
	num, den := make([]float64, n), make([]float64, n)
	var f Fold
	for _, e := range edges {
		p0, p1, _, ok := e.levels(d, r)
		h := p1 - p0
		if !ok || h == 0 || (h > 0) != e.rising {
			continue
		}
		f.Edges++
		lo := e.at + d - math.Max(r.lead, e.before-r.settle)
		hi := e.at + d + e.after - r.lead
		for k := range n {
			u := e.at + d - foldReach + float64(k)*step
			if u < lo || u+step > hi {
				continue
			}
			s := e.tr.between(span{u, u + step})
			if s.seconds < step/2 {
				continue
			}
			num[k] += h * (s.meanWatts() - p0)
			den[k] += h * h
		}
	}
	for k := range num {
		if den[k] > 0 {
			f.Seconds = append(f.Seconds, -foldReach+(float64(k)+0.5)*step)
			f.Level = append(f.Level, num[k]/den[k])
		}
	}
	return f
}

// response is the 10-90 % time of the fold, s.
func (f Fold) response() float64 {
	lo, hi := f.Crossings()
	return math.Max(0, hi-lo)
}

// Crossings returns where the fold crosses 10 % for the last time before its
// middle and 90 % for the first time after it, in seconds after the centroid;
// both are 0 where it has no middle.
func (f Fold) Crossings() (lo, hi float64) {
	mid := slices.IndexFunc(f.Level, func(y float64) bool { return y >= 0.5 })
	if mid < 1 {
		return 0, 0
	}
	cross := func(k int, y float64) float64 { // between k-1 and k
		share := (y - f.Level[k-1]) / (f.Level[k] - f.Level[k-1])
		return f.Seconds[k-1] + share*(f.Seconds[k]-f.Seconds[k-1])
	}
	lo, hi = f.Seconds[0], f.Seconds[len(f.Seconds)-1]
	for k := mid; k > 0; k-- {
		if f.Level[k-1] <= 0.1 {
			lo = cross(k, 0.1)
			break
		}
	}
	for k := mid; k < len(f.Level); k++ {
		if f.Level[k] >= 0.9 {
			hi = f.Seconds[k]
			if f.Level[k-1] < 0.9 {
				hi = cross(k, 0.9)
			}
			break
		}
	}
	return lo, hi
}

// MixedSeconds is the integral of y (1 - y) over the fold's response y, s: the
// variance of a signal while it steps by 1, seen through this response, summed
// over time.
func (f Fold) MixedSeconds() float64 {
	lo, hi := f.Crossings()
	r := reachOf(hi-lo, 0)
	total := 0.0
	for k := 1; k < len(f.Seconds); k++ {
		if at := f.Seconds[k] - f.centroid; at >= -r.lead && at <= r.settle {
			y := f.Level[k]
			total += y * (1 - y) * (f.Seconds[k] - f.Seconds[k-1])
		}
	}
	return math.Max(0, total)
}

// Folds returns all edges of windows that count on top of each other, and each
// edge by itself: limit of them at most, evenly chosen.
func (t *Timeline) Folds(limit int) (all Fold, single []Fold) {
	edges := t.edges()
	if len(edges) == 0 {
		return all, nil
	}
	// The windows stand where the offset put them.
	r := reachOf(t.Offset.ResponseSeconds, edges[0].tr.period)
	if all = t.Offset.Fold; all.Edges == 0 {
		all = fold(edges, 0, r)
	}
	for k := range min(limit, len(edges)) {
		e := edges[k*len(edges)/min(limit, len(edges))]
		if f := fold([]edge{e}, 0, r); f.Edges > 0 {
			single = append(single, f)
		}
	}
	return all, single
}

// leastParts and mostParts are how many interleaved parts of the edges are
// compared: windows at the least.
const leastParts, mostParts = 4, 16

// Response returns the 10-90 % time of the folded edges and its standard
// uncertainty: from the scatter between parts of the edges, and a sample's
// width, within which an edge lies anywhere. It is NaN where the edges do not
// show it.
func (t *Timeline) Response() (seconds, u float64) {
	edges := t.edges()
	parts := min(len(edges)/2, mostParts)
	if !(t.Offset.ResponseSeconds > 0) || parts < leastParts {
		return math.NaN(), math.NaN()
	}
	r := reachOf(t.Offset.ResponseSeconds, edges[0].tr.period)
	var found []float64
	for k := range parts {
		var part []edge
		for i := 2 * k; i+1 < len(edges); i += 2 * parts { // both edges of a window
			part = append(part, edges[i], edges[i+1])
		}
		if f := fold(part, 0, r); f.Edges > 0 {
			found = append(found, f.response())
		}
	}
	n, mean, square := float64(len(found)), 0.0, 0.0
	for _, x := range found {
		mean += x / n
	}
	for _, x := range found {
		square += (x - mean) * (x - mean)
	}
	if n < 2 {
		return math.NaN(), math.NaN()
	}
	return t.Offset.ResponseSeconds, math.Hypot(math.Sqrt(square/(n-1)/n), edges[0].tr.period/math.Sqrt(12))
}

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
