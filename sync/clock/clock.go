// Package clock turns readings of two clocks into one line with its doubt.
//
// Every function works in seconds of a named clock; conversions between
// clocks exist only as a fitted Map, which returns the doubt with the value.
// Seconds count from the start of a run or from the zero of the source clock,
// never from an epoch: float64 resolves a nanosecond for some months only.
//
// What arrives was sent before: a pair (source reading, host time of arrival)
// lies on the line between the clocks or late of it, never early. So a fit is
// the line that all pairs touch from above, and only rate and shape of it are
// known: a part of the delay that is the same in all pairs looks like an
// offset. The host time that a Map gives is that of an arrival after the
// smallest delay.
package clock

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Pair says that a reading of the source clock arrived at a host time. Both
// are in seconds.
type Pair struct {
	SourceSeconds float64
	HostSeconds   float64
}

// Options are the limits of a fit. The zero value stands for the defaults.
type Options struct {
	// MaxRate is the largest |rate - 1| that is taken for a clock; 0.02 if 0,
	// ten times what ceramic resonators and untrimmed RC oscillators of
	// USB devices deviate.
	MaxRate float64
	// NodeSeconds is the length of the pieces of a long run; 300 s if 0. A
	// clock whose rate changes by 1 ppm within an hour departs by 3 µs from a
	// line of this length.
	NodeSeconds float64
	// ResolutionSeconds is the step of the host times; 0.1 µs if 0.
	ResolutionSeconds float64
	// DelaySeconds is the delay that is assumed where fewer than minShown
	// pairs do not show it; 10 ms if 0.
	DelaySeconds float64
}

func (o Options) withDefaults() Options {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.MaxRate, 0.02)
	set(&o.NodeSeconds, 300)
	set(&o.ResolutionSeconds, 1e-7)
	set(&o.DelaySeconds, 0.01)
	return o
}

// Errors of a fit and of its use; test with errors.Is.
var (
	ErrTooFew = errors.New("too few clock pairs")
	ErrRate   = errors.New("clock rate is absurd")
	ErrSpan   = errors.New("outside the span of the clock fit")
)

// Quality says how well two clocks were brought together.
type Quality struct {
	N            int     `json:"n"`          // pairs given
	Used         int     `json:"used"`       // pairs in the fit
	Early        int     `json:"early"`      // thrown out: earlier than any delay allows
	Duplicates   int     `json:"duplicates"` // thrown out: the same source reading again
	Nodes        int     `json:"nodes"`      // pieces
	SpanSeconds  float64 `json:"span_s"`     // of source readings used
	Rate         float64 `json:"rate"`       // host seconds per source second, over the span
	URate        float64 `json:"u_rate"`     // its standard uncertainty
	PPM          float64 `json:"ppm"`        // (Rate - 1) * 1e6
	RMSSeconds   float64 `json:"rms_s"`      // of the delays above the line
	MaxSeconds   float64 `json:"max_s"`      // the largest of them
	DelaySeconds float64 `json:"delay_s"`    // the median of them
}

// Map converts between a source clock and the host clock within the span of
// its pairs.
type Map struct {
	pieces   []piece // by x
	from, to float64 // span, source seconds
	quality  Quality
}

// piece is a line through (x, y), where its doubt is least.
type piece struct {
	line
	x, y   float64
	u      float64 // standard uncertainty of y
	uSlope float64
}

func (p piece) at(x float64) float64 { return p.y + (x-p.x)*p.slope }

// marginSeconds and marginShare are how far a Map reaches beyond its pairs:
// the larger of the two, the second one as a share of the span.
const (
	marginSeconds = 2
	marginShare   = 0.05
)

// Fit brings a source clock and the host clock together. Pairs may come in any
// order. It refuses fewer than two different source readings and rates beyond
// o.MaxRate.
//
// Within a piece the fit is the line below all pairs that minimises the sum
// of the delays, which is the edge of the lower convex hull over the mean of
// the source readings: the most likely line for delays that are exponentially
// distributed, and the limit of any that come close to their minimum
// (Zhang, Liu, Xia: Clock synchronization algorithms for network
// measurements, INFOCOM 2002).
func Fit(pairs []Pair, o Options) (*Map, error) {
	o = o.withDefaults()
	m := &Map{quality: Quality{N: len(pairs)}}
	sorted, err := m.sort(pairs)
	if err != nil {
		return nil, err
	}
	used := make([]Pair, 0, len(sorted))
	for _, part := range split(sorted, o.NodeSeconds) {
		kept := dropEarly(part)
		m.quality.Early += len(part) - len(kept)
		used = append(used, kept...)
		p := fitPiece(kept, o)
		if math.Abs(p.slope-1) > o.MaxRate {
			return nil, rateError(kept, p.slope, o)
		}
		m.pieces = append(m.pieces, p)
	}
	for i := 1; i < len(m.pieces); i++ {
		a, b := m.pieces[i-1], m.pieces[i]
		if rate := (b.y - a.y) / (b.x - a.x); math.Abs(rate-1) > o.MaxRate {
			return nil, rateError([]Pair{{a.x, a.y}, {b.x, b.y}}, rate, o)
		}
	}
	m.from, m.to = used[0].SourceSeconds, used[len(used)-1].SourceSeconds
	m.judge(used)
	return m, nil
}

func rateError(pairs []Pair, rate float64, o Options) error {
	a, b := pairs[0], pairs[len(pairs)-1]
	return fmt.Errorf("fit clocks: %w: %.6g host seconds a source second (%.6g s of host time for %.6g s of source time, limit is 1 ± %g); "+
		"is the nominal rate of the source right, did its counter wrap or restart?",
		ErrRate, rate, b.HostSeconds-a.HostSeconds, b.SourceSeconds-a.SourceSeconds, o.MaxRate)
}

// mostSeconds bounds clock readings, 31 years: float64 resolves 0.1 µs there.
const mostSeconds = 1e9

// sort returns the pairs by source reading; of equal ones the earliest.
func (m *Map) sort(pairs []Pair) ([]Pair, error) {
	for i, p := range pairs {
		if !(math.Abs(p.SourceSeconds) <= mostSeconds && math.Abs(p.HostSeconds) <= mostSeconds) {
			return nil, fmt.Errorf("fit clocks: pair %d (%g s, %g s) is beyond %g s; do not count from an epoch", i, p.SourceSeconds, p.HostSeconds, float64(mostSeconds))
		}
	}
	sorted := slices.Clone(pairs)
	slices.SortFunc(sorted, func(a, b Pair) int {
		switch {
		case a.SourceSeconds != b.SourceSeconds:
			return sign(a.SourceSeconds - b.SourceSeconds)
		default:
			return sign(a.HostSeconds - b.HostSeconds)
		}
	})
	sorted = slices.CompactFunc(sorted, func(a, b Pair) bool { return a.SourceSeconds == b.SourceSeconds })
	m.quality.Duplicates = len(pairs) - len(sorted)
	if len(sorted) < 2 {
		return nil, fmt.Errorf("fit clocks: %w: %d different source readings, need 2", ErrTooFew, len(sorted))
	}
	return sorted, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func sign(v float64) int {
	switch {
	case v < 0:
		return -1
	case v > 0:
		return 1
	}
	return 0
}

// split cuts pairs into pieces of about length seconds with at least minPiece
// pairs each.
func split(pairs []Pair, length float64) [][]Pair {
	from := pairs[0].SourceSeconds
	span := pairs[len(pairs)-1].SourceSeconds - from
	n := int(max(1, min(span/length, float64(len(pairs)/minPiece))))
	var parts [][]Pair
	start := 0
	for i := 1; i <= n; i++ {
		end := len(pairs)
		if i < n {
			limit := from + span*float64(i)/float64(n)
			end = sort.Search(len(pairs), func(j int) bool { return pairs[j].SourceSeconds >= limit })
		}
		// A thin piece joins its successor, the last one its predecessor.
		if end-start >= minPiece || len(parts) == 0 && i == n {
			parts = append(parts, pairs[start:end])
			start = end
		}
	}
	if start < len(pairs) {
		last := len(parts) - 1
		parts[last] = pairs[start-len(parts[last]):]
	}
	return parts
}

// minPiece is how many pairs a piece must have.
const minPiece = 16

// judge fills the quality from the pairs used.
func (m *Map) judge(used []Pair) {
	q := &m.quality
	q.Used, q.Nodes, q.SpanSeconds = len(used), len(m.pieces), m.to-m.from
	first, last := m.pieces[0], m.pieces[len(m.pieces)-1]
	if len(m.pieces) == 1 {
		q.Rate, q.URate = first.slope, first.uSlope
	} else {
		q.Rate = (last.at(m.to) - first.at(m.from)) / q.SpanSeconds
		q.URate = math.Hypot(m.doubt(m.to), m.doubt(m.from)) / q.SpanSeconds
	}
	q.PPM = (q.Rate - 1) * 1e6
	delays := make([]float64, len(used))
	sum := 0.0
	for i, p := range used {
		delays[i] = p.HostSeconds - m.value(p.SourceSeconds)
		sum += delays[i] * delays[i]
	}
	slices.Sort(delays)
	q.RMSSeconds = math.Sqrt(sum / float64(len(used)))
	q.MaxSeconds = delays[len(delays)-1]
	q.DelaySeconds = delays[len(delays)/2]
}

// Quality says how good the fit is.
func (m *Map) Quality() Quality { return m.quality }

// Host returns the host time at a reading of the source clock, as of an
// arrival after the smallest delay, and its standard uncertainty, both in
// seconds. It refuses readings beyond the span of the fit by more than 2 s or
// 5 % of the span.
func (m *Map) Host(sourceSeconds float64) (hostSeconds, u float64, err error) {
	margin := max(marginSeconds, marginShare*(m.to-m.from))
	if !(sourceSeconds >= m.from-margin && sourceSeconds <= m.to+margin) {
		return 0, 0, fmt.Errorf("convert %.6f s of the source clock: %w of %.6f to %.6f s", sourceSeconds, ErrSpan, m.from, m.to)
	}
	return m.value(sourceSeconds), m.doubt(sourceSeconds), nil
}

// Source returns the reading of the source clock at a host time and its
// standard uncertainty, both in seconds; it reaches as far as Host.
func (m *Map) Source(hostSeconds float64) (sourceSeconds, u float64, err error) {
	i := sort.Search(len(m.pieces), func(i int) bool { return m.pieces[i].y >= hostSeconds })
	if i == 0 || i == len(m.pieces) {
		p := m.pieces[min(i, len(m.pieces)-1)]
		sourceSeconds = p.x + (hostSeconds-p.y)/p.slope
	} else {
		a, b := m.pieces[i-1], m.pieces[i]
		sourceSeconds = a.x + (hostSeconds-a.y)*(b.x-a.x)/(b.y-a.y)
	}
	if _, u, err = m.Host(sourceSeconds); err != nil {
		return 0, 0, fmt.Errorf("convert %.6f s of the host clock: %w", hostSeconds, err)
	}
	return sourceSeconds, u, nil
}

// around returns the pieces on both sides of x, and the share of the second
// one; outside the first or last piece both are the same.
func (m *Map) around(x float64) (a, b int, share float64) {
	i := sort.Search(len(m.pieces), func(i int) bool { return m.pieces[i].x >= x })
	switch {
	case i == 0:
		return 0, 0, 0
	case i == len(m.pieces):
		return i - 1, i - 1, 0
	}
	return i - 1, i, (x - m.pieces[i-1].x) / (m.pieces[i].x - m.pieces[i-1].x)
}

func (m *Map) value(x float64) float64 {
	i, j, share := m.around(x)
	a, b := m.pieces[i], m.pieces[j]
	if i == j {
		return a.at(x)
	}
	return a.y + share*(b.y-a.y)
}

// doubt is the standard uncertainty of value: of the pieces, and of what a
// clock of constant curvature would depart from them. A piece of length l lies
// up to change*l/8 off its middle where the slope changes by change from one
// piece to the next, and d beyond it the departure has grown by change*d²/2l.
func (m *Map) doubt(x float64) float64 {
	i, j, share := m.around(x)
	a, b := m.pieces[i], m.pieces[j]
	if len(m.pieces) == 1 {
		return math.Hypot(a.u, (x-a.x)*a.uSlope)
	}
	if i < j {
		length := b.x - a.x
		return math.Hypot((1-share)*a.u+share*b.u, m.bend(i, j)*length/8)
	}
	i = min(i, len(m.pieces)-2)
	length := m.pieces[i+1].x - m.pieces[i].x
	d := x - a.x
	return math.Hypot(math.Hypot(a.u, d*a.uSlope), m.bend(i, i+1)*(length/8+d*d/(2*length)))
}

// bend is the larger change of slope at the ends of the chord from piece i to
// piece j.
func (m *Map) bend(i, j int) float64 {
	chord := func(i, j int) float64 {
		if i < 0 || j == len(m.pieces) {
			return math.NaN() // never larger
		}
		return (m.pieces[j].y - m.pieces[i].y) / (m.pieces[j].x - m.pieces[i].x)
	}
	here := chord(i, j)
	bend := 0.0
	for _, other := range []float64{chord(i-1, i), chord(j, j+1)} {
		if d := math.Abs(other - here); d > bend {
			bend = d
		}
	}
	return bend
}
