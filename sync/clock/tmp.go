package clock

type Gap struct{ Row, Rows int64 }
type Arrivals struct {
	rate  float64
	pairs []Pair
}
type ArrivalsResult struct {
	Map  *Map
	Gaps []Gap
}

func NewArrivals(rate float64, packet int) (*Arrivals, error) { return &Arrivals{rate: rate}, nil }
func (a *Arrivals) Add(row int64, host float64) {
	a.pairs = append(a.pairs, Pair{float64(row) / a.rate, host})
}
func (a *Arrivals) Result() (ArrivalsResult, error) {
	m, err := Fit(a.pairs, Options{})
	return ArrivalsResult{Map: m}, err
}
