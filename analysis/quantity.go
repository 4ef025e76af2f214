package analysis

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Num is a number that is written as null where it cannot be stated (NaN or
// infinite).
type Num float64

// MarshalJSON implements json.Marshaler.
func (n Num) MarshalJSON() ([]byte, error) {
	if !n.Stated() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Num) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Num(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Stated reports whether n is a number that can be stated.
func (n Num) Stated() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// Quantity is a value with its two intervals, never confused: repeatability
// (what scatter between repeats shows, and what all windows of the run share)
// and total (with the meter's limits). All members are in one unit.
type Quantity struct {
	Value Num `json:"value"`
	// U is the total standard uncertainty, Lo95..Hi95 the total interval.
	U    Num `json:"u"`
	Lo95 Num `json:"lo95"`
	Hi95 Num `json:"hi95"`
	// URepeat is the standard uncertainty from repeats and shared terms,
	// DofRepeat its effective degrees of freedom.
	URepeat    Num `json:"u_repeat"`
	DofRepeat  Num `json:"dof_repeat"`
	Lo95Repeat Num `json:"lo95_repeat"`
	Hi95Repeat Num `json:"hi95_repeat"`
	// UShared is the part of URepeat that more windows of the same run would
	// not reduce.
	UShared Num `json:"u_shared"`
}

// Digits is how many significant digits the value deserves: two of its half
// interval (total, or repeatability where that is all there is), between 2 and
// 7; 4 without an interval.
func (q Quantity) Digits() int {
	half := float64(q.Hi95-q.Lo95) / 2
	if !q.Lo95.Stated() {
		half = float64(q.Hi95Repeat-q.Lo95Repeat) / 2
	}
	v := math.Abs(float64(q.Value))
	if !(half > 0 && v > 0) {
		return 4
	}
	return min(max(2+int(math.Floor(math.Log10(v))-math.Floor(math.Log10(half))), 2), 7)
}

// unstated is a quantity of which nothing is known.
func unstated() Quantity { return valueOnly(math.NaN()) }

// valueOnly is a quantity without any interval.
func valueOnly(v float64) Quantity {
	nan := Num(math.NaN())
	return Quantity{Num(v), nan, nan, nan, nan, nan, nan, nan, nan}
}

// level is the coverage probability of all intervals.
const level = 0.95

// newQuantity combines scatter (standard uncertainty of the value, with dof
// degrees of freedom), shared terms and the rectangular limits of the meter.
// limits is nil where the meter's accuracy is not known.
//
// The repeatability interval takes Student's t with the effective degrees of
// freedom of Welch and Satterthwaite (JCGM 100:2008, G.4); the shared terms
// count as known. The total interval is the convolution of that t
// distribution with the rectangular ones (what JCGM 101:2008 approximates by
// drawing), symmetric around the value.
func newQuantity(value, scatter, dof, shared float64, limits []float64) Quantity {
	return quantityOf(value, scatter, dof, shared, limits, false)
}

// newSkewed is newQuantity for a positive value from few windows of operations
// whose length is random: Student's t describes the logarithm of such a value
// (skewed.go), so that the intervals reach further up than down.
func newSkewed(value, scatter, dof, shared float64, limits []float64) Quantity {
	return quantityOf(value, scatter, dof, shared, limits, true)
}

func quantityOf(value, scatter, dof, shared float64, limits []float64, skewed bool) Quantity {
	q := valueOnly(value)
	if dof < 1 || math.IsNaN(scatter) {
		return q
	}
	u := math.Hypot(scatter, shared)
	eff := dof
	if shared > 0 {
		eff = dof * math.Pow(u/scatter, 4)
	}
	if eff > 1e6 {
		eff = 1e6
	}
	interval := func(limits []float64) (lo, hi Num) {
		if skewed {
			down, up := skewedQuantiles(value, u, eff, limits)
			return Num(value - down), Num(value + up)
		}
		half := quantile(u, eff, limits)
		return Num(value - half), Num(value + half)
	}
	q.URepeat, q.DofRepeat, q.UShared = Num(u), Num(eff), Num(shared)
	q.Lo95Repeat, q.Hi95Repeat = interval(nil)
	if limits == nil {
		return q
	}
	total := u * u
	for _, a := range limits {
		total += a * a / 3
	}
	q.U = Num(math.Sqrt(total))
	q.Lo95, q.Hi95 = interval(limits)
	return q
}

// quantile returns the half width h for which the sum of u*t(dof) and
// independent rectangular variables of the given half widths lies in [-h, h]
// with probability level.
func quantile(u, dof float64, limits []float64) float64 {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}
	far := u * t.Quantile((1+level)/2)
	return upper(far, u, limits, func(x, u float64) float64 { return t.CDF(x / u) })
}

// upper returns the quantile (1+level)/2 of the sum of a variable, whose
// distribution function is cdf and whose own quantile is far, and of
// independent rectangular ones. u is the scale of the variable, handed on to
// cdf: one that is finer than the grid is as good as half a cell of it.
func upper(far, u float64, limits []float64, cdf func(x, u float64) float64) float64 {
	var widths []float64
	reach := 0.0
	for _, a := range limits {
		if a > 0 {
			widths = append(widths, a)
			reach += a
		}
	}
	if len(widths) == 0 {
		return far
	}
	at, weight := rectangles(widths, reach)
	u = math.Max(u, (at[1]-at[0])/2)
	lo, hi := 0.0, reach+far
	for range 60 {
		mid, c := (lo+hi)/2, 0.0
		for i, r := range at {
			c += weight[i] * cdf(mid-r, u)
		}
		if c < (1+level)/2 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// gridPoints on which the density of the sum of rectangles stands.
const gridPoints = 241

// rectangles returns the distribution of the sum of rectangular variables as
// weights on a grid.
func rectangles(widths []float64, reach float64) (at, weight []float64) {
	at, weight = make([]float64, gridPoints), make([]float64, gridPoints)
	step := 2 * reach / gridPoints
	for i := range at {
		at[i] = -reach + (float64(i)+0.5)*step
	}
	weight[gridPoints/2] = 1
	for _, a := range widths {
		// Convolve with the rectangle by differences of the cumulative sum.
		cum := make([]float64, gridPoints+1)
		for i, w := range weight {
			cum[i+1] = cum[i] + w
		}
		until := func(x float64) float64 { // mass left of x, in grid steps
			switch {
			case x <= 0:
				return 0
			case x >= gridPoints:
				return cum[gridPoints]
			}
			k := int(x)
			return cum[k] + (x-float64(k))*(cum[k+1]-cum[k])
		}
		// The integral of until over one cell, by Simpson's rule on halves, would
		// be exact; the middle is within the grid's own resolution.
		next := make([]float64, gridPoints)
		half := a / step
		for i := range next {
			c := float64(i) + 0.5
			next[i] = (until(c+half) - until(c-half)) / (2 * half)
		}
		total := 0.0
		for _, w := range next {
			total += w
		}
		for i := range next {
			next[i] /= total
		}
		weight = next
	}
	return at, weight
}

// pooled is the ratio of sums over windows and its scatter.
type pooled struct {
	value   float64 // sum(y)/sum(x)
	scatter float64 // standard uncertainty from the scatter between windows
	dof     float64
}

// pool estimates y per x over windows: sum(y)/sum(x), with the variance of a
// combined ratio estimator in strata, sum over strata of m/(m-1) sum((z -
// mean(z))^2) / sum(x)^2 with z = y - r x (Cochran, Sampling Techniques, 3rd
// ed., 6.11; for one stratum it is 2.11's). For windows of equal x it is the
// mean with its standard error.
//
// Windows of two lengths are two strata: what a window costs beside its
// operations lies in each of them alike, and is no scatter.
func pool(y, x []float64, strata [][]int) pooled {
	p := pooled{value: sum(y) / sum(x), scatter: math.NaN(), dof: float64(len(y)) - 1}
	if len(y) < 2 {
		return p
	}
	z := make([]float64, len(y))
	for i := range y {
		z[i] = y[i] - p.value*x[i]
	}
	p.scatter, p.dof = welch(within(z, strata))
	p.scatter /= math.Abs(sum(x))
	return p
}

// variance is an estimated variance with its degrees of freedom.
type variance struct{ v, dof float64 }

// within returns the variance of the sum of z over each stratum, from the
// scatter within it.
func within(z []float64, strata [][]int) []variance {
	var out []variance
	for _, s := range strata {
		m, mean, ss := float64(len(s)), 0.0, 0.0
		for _, i := range s {
			mean += z[i] / m
		}
		for _, i := range s {
			ss += (z[i] - mean) * (z[i] - mean)
		}
		out = append(out, variance{m / (m - 1) * ss, m - 1})
	}
	return out
}

// welch adds independent variances and returns the root, with the effective
// degrees of freedom of Welch and Satterthwaite (JCGM 100:2008, G.4).
func welch(vs []variance) (u, dof float64) {
	var total, share, sum float64
	for _, v := range vs {
		total += v.v
		share += v.v * v.v / v.dof
		sum += v.dof
	}
	if share == 0 {
		return 0, sum
	}
	return math.Sqrt(total), total * total / share
}

// stratumRatio is the ratio of lengths from which windows are of two lengths.
const stratumRatio = 1.5

// strata parts windows by their length x at the widest gap, if that is wide
// enough and leaves two windows on either side; otherwise they are one stratum.
// The shorter ones come first.
func strata(x []float64) [][]int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	cut, widest := 0, stratumRatio
	for k := 2; k <= len(order)-2; k++ {
		if gap := x[order[k]] / x[order[k-1]]; gap >= widest && (cut == 0 || gap > widest) {
			cut, widest = k, gap
		}
	}
	if cut == 0 {
		return [][]int{order}
	}
	return [][]int{order[:cut], order[cut:]}
}
