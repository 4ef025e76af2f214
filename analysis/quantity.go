package analysis

import (
	"encoding/json"
	"math"

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
	half := quantile(u, eff, nil)
	q.URepeat, q.DofRepeat, q.UShared = Num(u), Num(eff), Num(shared)
	q.Lo95Repeat, q.Hi95Repeat = Num(value-half), Num(value+half)
	if limits == nil {
		return q
	}
	total := u * u
	for _, a := range limits {
		total += a * a / 3
	}
	half = quantile(u, eff, limits)
	q.U, q.Lo95, q.Hi95 = Num(math.Sqrt(total)), Num(value-half), Num(value+half)
	return q
}

// quantile returns the half width h for which the sum of u*t(dof) and
// independent rectangular variables of the given half widths lies in [-h, h]
// with probability level.
func quantile(u, dof float64, limits []float64) float64 {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}
	p := (1 + level) / 2
	var widths []float64
	reach := 0.0
	for _, a := range limits {
		if a > 0 {
			widths = append(widths, a)
			reach += a
		}
	}
	if len(widths) == 0 {
		return u * t.Quantile(p)
	}
	at, weight := rectangles(widths, reach)
	// A scatter that is finer than the grid is as good as half a cell of it.
	u = math.Max(u, (at[1]-at[0])/2)
	cdf := func(h float64) float64 {
		c := 0.0
		for i, r := range at {
			c += weight[i] * t.CDF((h-r)/u)
		}
		return c
	}
	lo, hi := 0.0, reach+u*t.Quantile(p)
	for range 60 {
		mid := (lo + hi) / 2
		if cdf(mid) < p {
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
// ratio estimator, m/(m-1) sum((y - r x)^2) / sum(x)^2 (Cochran, Sampling
// Techniques, 3rd ed., 2.11). For windows of equal x it is the mean with its
// standard error.
func pool(y, x []float64) pooled {
	var sy, sx float64
	for i := range y {
		sy += y[i]
		sx += x[i]
	}
	m := float64(len(y))
	p := pooled{value: sy / sx, scatter: math.NaN(), dof: m - 1}
	if m < 2 {
		return p
	}
	var ss float64
	for i := range y {
		d := y[i] - p.value*x[i]
		ss += d * d
	}
	p.scatter = math.Sqrt(m/(m-1)*ss) / math.Abs(sx)
	return p
}
