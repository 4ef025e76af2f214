package clock

import (
	"math"
	"slices"
)

// line is y = start + slope*x.
type line struct{ start, slope float64 }

func (l line) at(x float64) float64 { return l.start + l.slope*x }

// below returns the line below all pairs that minimises the sum of their
// distances: the edge of the lower convex hull over the mean of x. Pairs are
// sorted by x, at least two of them different. It also returns that mean.
func below(pairs []Pair) (l line, mean float64) {
	var hull []Pair
	for _, p := range pairs {
		for len(hull) >= 2 && !turnsUp(hull[len(hull)-2], hull[len(hull)-1], p) {
			hull = hull[:len(hull)-1]
		}
		if n := len(hull); n == 1 && hull[0].SourceSeconds == p.SourceSeconds {
			hull[0].HostSeconds = min(hull[0].HostSeconds, p.HostSeconds)
		} else {
			hull = append(hull, p)
		}
		mean += p.SourceSeconds
	}
	mean /= float64(len(pairs))
	i := 1
	for i < len(hull)-1 && hull[i].SourceSeconds < mean {
		i++
	}
	a, b := hull[i-1], hull[i]
	l.slope = (b.HostSeconds - a.HostSeconds) / (b.SourceSeconds - a.SourceSeconds)
	l.start = a.HostSeconds - l.slope*a.SourceSeconds
	return l, mean
}

// turnsUp reports whether the path a, b, c turns to the left.
func turnsUp(a, b, c Pair) bool {
	return (b.SourceSeconds-a.SourceSeconds)*(c.HostSeconds-a.HostSeconds) >
		(b.HostSeconds-a.HostSeconds)*(c.SourceSeconds-a.SourceSeconds)
}

// How the doubt of a fit follows from the delays closest to it. Near its
// minimum a distribution of delays looks like a Poisson process of constant
// density above the line, so that the errors of the hull edge are these
// multiples of the delay of rank doubtRank, whatever the distribution and the
// number of pairs. Found by simulation, see TestDoubtConstants: 0.17 and 0.73;
// the value has a third more, for sums of delays, whose density falls to zero.
const (
	doubtRank  = 10
	doubtValue = 0.23 // of the line at the mean of x
	doubtSlope = 0.73 // of the slope times the span
)

// minShown is how many pairs show their own delay.
const minShown = 5

// fitPiece fits one line. Pairs are sorted, their x different.
func fitPiece(pairs []Pair, o Options) piece {
	l, mean := below(pairs)
	p := piece{line: l, x: mean, y: l.at(mean)}
	delays := make([]float64, len(pairs))
	spread := 0.0
	for i, q := range pairs {
		delays[i] = q.HostSeconds - l.at(q.SourceSeconds)
		spread += (q.SourceSeconds - mean) * (q.SourceSeconds - mean)
	}
	// The span of a uniform distribution with the same standard deviation.
	span := math.Sqrt(12 * spread / float64(len(pairs)))
	scale := o.DelaySeconds
	if len(pairs) >= minShown {
		slices.Sort(delays)
		rank := min(doubtRank, (len(pairs)+1)/2)
		scale = delays[rank+1] * doubtRank / float64(rank) // the first two lie on the line
	}
	scale = math.Hypot(scale, o.ResolutionSeconds)
	p.u = doubtValue * scale
	p.uSlope = doubtSlope * scale / span
	return p
}

// How early is impossible: earlyFactor times the distance between the median
// delay and the lower quartile, below the median. The smallest of 5,000 delays
// lies 1.7 of these distances below for exponential delays, 2 for uniform and
// 5.5 for normal ones. Among fewer than minJudged pairs none can be told from
// the rest.
const (
	minJudged   = 10
	earlyFactor = 8
	earlyFloor  = 2e-3 // s; less bends no line by much
)

// dropEarly returns the pairs that are not too early to be delays. It looks
// for them below a line through the middle of the pairs, which few wild ones
// do not move.
func dropEarly(pairs []Pair) []Pair {
	if len(pairs) < minJudged {
		return pairs
	}
	slope := middle(pairs, groups)
	delays := make([]float64, len(pairs))
	for i, p := range pairs {
		delays[i] = p.HostSeconds - slope*p.SourceSeconds
	}
	ranked := slices.Sorted(slices.Values(delays))
	median, quartile := ranked[len(ranked)/2], ranked[len(ranked)/4]
	limit := median - max(earlyFactor*(median-quartile), earlyFloor)
	if ranked[0] >= limit {
		return pairs
	}
	var kept []Pair
	for i, p := range pairs {
		if delays[i] >= limit {
			kept = append(kept, p)
		}
	}
	return kept
}

// groups is into how many groups middle divides pairs.
const groups = 64

// middle is the slope of a line through the middle of pairs: the median slope
// between groups of them (Theil and Sen), each represented by its median
// delay and compared with those at most apart groups away. It is 1 for fewer
// than two pairs.
func middle(pairs []Pair, apart int) float64 {
	var mids []Pair
	n := min(groups, len(pairs))
	for i := range n {
		part := pairs[i*len(pairs)/n : (i+1)*len(pairs)/n]
		byDelay := slices.Clone(part)
		slices.SortFunc(byDelay, func(a, b Pair) int {
			return sign((a.HostSeconds - a.SourceSeconds) - (b.HostSeconds - b.SourceSeconds))
		})
		mids = append(mids, byDelay[len(byDelay)/2])
	}
	var slopes []float64
	for i, a := range mids {
		for _, b := range mids[max(0, i-apart):i] {
			if dx := a.SourceSeconds - b.SourceSeconds; dx != 0 {
				slopes = append(slopes, (a.HostSeconds-b.HostSeconds)/dx)
			}
		}
	}
	if len(slopes) == 0 {
		return 1
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2]
}
