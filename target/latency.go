package target

import (
	"math"
	"math/bits"

	"github.com/joulemark/joulemark/sync/mark"
)

const (
	stepBits  = 7
	perOctave = 1 << stepBits // steps of the histogram in a doubling
)

// latencies sums latencies up in memory that does not grow. Least, greatest,
// mean and deviation are exact; quantiles come from a histogram whose steps are
// 1/128 of a value at most, so that they are right to 0.4 %.
type latencies struct {
	n                  int64
	first, least, most int64   // ns
	sum, squares       float64 // of what exceeds the first one, so that squares keep their digits
	counts             [(64 - stepBits) * perOctave]uint32
}

func (l *latencies) reset() { *l = latencies{} }

// add takes a latency in ns, 0 at least.
func (l *latencies) add(ns int64) {
	ns = max(0, ns)
	if l.n == 0 {
		l.first, l.least, l.most = ns, ns, ns
	}
	l.n++
	l.least, l.most = min(l.least, ns), max(l.most, ns)
	d := float64(ns - l.first)
	l.sum += d
	l.squares += d * d
	l.counts[step(ns)]++
}

// step is the step of the histogram that a latency falls into: one for each
// value below 256 ns, then 128 for each doubling.
func step(ns int64) int {
	shift := max(0, bits.Len64(uint64(ns))-stepBits-1)
	return shift*perOctave + int(ns>>shift)
}

// middle is the latency in the middle of a step, ns.
func middle(step int) float64 {
	shift := max(0, step/perOctave-1)
	low := int64(step-shift*perOctave) << shift
	return float64(low) + float64(int64(1)<<shift-1)/2
}

// quantile returns the latency that a share q of all does not exceed, ns.
func (l *latencies) quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(l.n)))
	seen := int64(0)
	for i, c := range l.counts {
		if seen += int64(c); seen >= rank && c > 0 {
			return min(max(middle(i), float64(l.least)), float64(l.most))
		}
	}
	return float64(l.most)
}

// statement sums up, of at least one latency, for window w.
func (l *latencies) statement(w int64) mark.Lat {
	n := float64(l.n)
	mean := l.sum / n
	variance := 0.0
	if l.n > 1 {
		variance = max(0, (l.squares-n*mean*mean)/(n-1))
	}
	return mark.Lat{
		W: w, N: l.n, Min: float64(l.least), P50: l.quantile(0.5), Mean: float64(l.first) + mean,
		P95: l.quantile(0.95), Max: float64(l.most), SD: math.Sqrt(variance),
	}
}
