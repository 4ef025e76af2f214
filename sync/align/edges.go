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
	before float64 // how far back the level before is undisturbed, s
	after  float64 // how far on the level after is undisturbed, s
	tr     *trace
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
	// settleResponses is the half width around an edge that holds the whole
	// response, in its 10-90 % times.
	settleResponses = 2.5
)

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
	o.Edges = len(usable)
	coarse, runner, ratio := scan(usable)
	o.Seconds, o.RunnerUp, o.RunnerUpSeconds = coarse, ratio, runner
	o.U = usable[0].tr.period

	// The half width around an edge that holds the whole response is found
	// from the edges folded onto each other; the centroid from that half width.
	half := math.Max(3*usable[0].tr.period, 0.03)
	for range 3 {
		fine := centroid(usable, o.Seconds, half)
		if fine.edges < 2 {
			return o, "no power step stands at the marks"
		}
		o.Seconds, o.U, o.StepRatio = fine.offset, fine.u, fine.stepRatio
		o.SlopePPM, o.USlopePPM, o.Edges = fine.slope*1e6, fine.uSlope*1e6, fine.edges
		o.ResponseSeconds = response(usable, o.Seconds)
		want := math.Max(3*usable[0].tr.period, settleResponses*o.ResponseSeconds)
		want = math.Min(want, 0.3)
		if want <= half*1.1 {
			break
		}
		half = want
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

// scan tries offsets on a grid and returns the best one, and the best one
// that is separated from it by a valley, with its share of what the best
// explains.
func scan(edges []edge) (best, runner, share float64) {
	step := math.Min(math.Max(edges[0].tr.period/2, 1e-3), 5e-3)
	n := int((searchTo-searchFrom)/step) + 1
	gain := make([]float64, n)
	for k := range gain {
		d := searchFrom + float64(k)*step
		for _, e := range edges {
			gain[k] += e.explained(d)
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
		return best, best, 1
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

// explained is how much of the squared deviation of power around the edge one
// step at offset d, of the right direction, explains: n1 n2/(n1+n2) (m2-m1)^2.
func (e edge) explained(d float64) float64 {
	from := e.at - math.Min(e.before, levelSpan)
	to := e.at + math.Min(e.after, levelSpan)
	at := e.at + d
	if at <= from || at >= to {
		return 0
	}
	l, r := e.tr.between(span{from, at}), e.tr.between(span{at, to})
	if l.seconds <= 0 || r.seconds <= 0 {
		return 0
	}
	step := r.meanWatts() - l.meanWatts()
	if (step > 0) != e.rising {
		return 0
	}
	return l.seconds * r.seconds / (l.seconds + r.seconds) * step * step
}

// centroids is what the edges say one by one.
type centroids struct {
	offset, u     float64
	slope, uSlope float64 // seconds of offset per second of the run
	stepRatio     float64
	edges         int
}

// centroid measures each edge by its area: the response that is missing after
// the edge and the one that came before it balance at the centroid. It needs
// no model of the response, only that half holds all of it.
//
//	c = half - integral(at+d-half .. at+d+half) (p - P0) / (P1 - P0)
func centroid(edges []edge, d, half float64) centroids {
	type point struct{ t, c, w float64 }
	var pts []point
	var ratios []float64
	for _, e := range edges {
		// What came before the undisturbed time dies away within half, and what
		// comes after it does not begin earlier than half before.
		lo := e.at + d + half - math.Min(e.before, levelSpan)
		hi := e.at + d - half + math.Min(e.after, levelSpan)
		a, b := e.at+d-half, e.at+d+half
		// The levels need room of their own beside the response.
		room := math.Max(2*e.tr.period, half/3)
		if a-lo < room || hi-b < room {
			continue
		}
		left, mid, right := e.tr.between(span{lo, a}), e.tr.between(span{a, b}), e.tr.between(span{b, hi})
		if left.seconds < 0.8*(a-lo) || right.seconds < 0.8*(hi-b) || mid.seconds < 0.999*2*half {
			continue
		}
		p0, p1 := left.meanWatts(), right.meanWatts()
		h := p1 - p0
		if h == 0 || (h > 0) != e.rising {
			ratios = append(ratios, 0)
			continue
		}
		noise := math.Sqrt(math.Max(0, variance(left))*e.tr.period/left.seconds +
			math.Max(0, variance(right))*e.tr.period/right.seconds)
		ratios = append(ratios, math.Abs(h)/math.Max(noise, 1e-12*math.Abs(h)))
		c := half - (mid.joules-p0*mid.seconds)/h
		if math.Abs(c) > half {
			continue
		}
		pts = append(pts, point{e.at, d + c, h * h})
	}
	out := centroids{edges: len(pts)}
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

	var sw, st, sc float64
	for _, p := range pts {
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

// response folds all edges onto each other in equivalent time and returns the
// 10-90 % time of the mean curve, s.
func response(edges []edge, d float64) float64 {
	const reach = 0.4 // s to either side
	step := math.Min(math.Max(edges[0].tr.period/4, finestKnot), 5e-3)
	n := int(2*reach/step) + 1
	num, den := make([]float64, n), make([]float64, n)
	for _, e := range edges {
		lo := math.Max(e.at-math.Min(e.before, levelSpan), e.at+d-reach)
		hi := math.Min(e.at+math.Min(e.after, levelSpan), e.at+d+reach)
		third := math.Min(e.at+d-lo, hi-e.at-d) / 3
		if third <= 2*e.tr.period {
			continue
		}
		p0 := e.tr.between(span{lo, lo + third}).meanWatts()
		p1 := e.tr.between(span{hi - third, hi}).meanWatts()
		h := p1 - p0
		if h == 0 || math.IsNaN(h) || (h > 0) != e.rising {
			continue
		}
		for k := range n {
			u := e.at + d - reach + float64(k)*step
			if u < lo || u+step > hi {
				continue
			}
			s := e.tr.between(span{u, u + step})
			if s.seconds < step/2 {
				continue
			}
			num[k] += h * h * (s.meanWatts() - p0) / h
			den[k] += h * h
		}
	}
	var curve []float64
	for k := range num {
		if den[k] > 0 {
			curve = append(curve, num[k]/den[k])
		}
	}
	if len(curve) < 4 {
		return 0
	}
	// The step crosses 10 % for the last time before the middle, and 90 % for
	// the first time after it.
	mid := slices.IndexFunc(curve, func(y float64) bool { return y >= 0.5 })
	if mid < 0 {
		return 0
	}
	lo, hi := 0.0, float64(len(curve)-1)
	for k := mid; k > 0; k-- {
		if curve[k-1] <= 0.1 {
			lo = float64(k-1) + (0.1-curve[k-1])/(curve[k]-curve[k-1])
			break
		}
	}
	for k := mid; k < len(curve); k++ {
		if curve[k] >= 0.9 {
			hi = float64(k)
			if k > 0 && curve[k] > curve[k-1] && curve[k-1] < 0.9 {
				hi = float64(k-1) + (0.9-curve[k-1])/(curve[k]-curve[k-1])
			}
			break
		}
	}
	return math.Max(0, hi-lo) * step
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
