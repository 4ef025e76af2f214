package align

import (
	"fmt"
	"iter"
	"math"

	"github.com/joulemark/joulemark/run"
)

// Placed is a batch of samples with their places in time.
type Placed struct {
	*run.Batch
	// Seconds says where each sample stands, on the clock of
	// Window.StartSeconds: where its period begins, or the time that the meter
	// gave it; NaN beyond what the clocks' fit covers. Overwritten by the next
	// batch.
	Seconds []float64
}

// Samples reads the run once more and yields the samples of the stream, corrected
// as the analysis has them, with their places in time. Batches that are damaged are left
// out. An error is the last.
func (t *Timeline) Samples() iter.Seq2[Placed, error] {
	return func(yield func(Placed, error) bool) {
		segments := map[int]*placing{}
		for _, s := range t.segments {
			segments[s.info.Segment] = &placing{segment: s, lost: s.lost}
		}
		var out Placed
		for b, err := range t.Run.Samples(t.Meter.Stream) {
			if isDamage(err) {
				continue
			}
			if err != nil {
				yield(Placed{}, fmt.Errorf("read samples of %s: %w", t.Run.Dir, err))
				return
			}
			s := segments[b.Segment]
			if s == nil {
				continue
			}
			for name, values := range b.Columns {
				s.info.Calibration.Of(name).Apply(values)
			}
			out.Batch, out.Seconds = b, out.Seconds[:0]
			for i := range b.Rows {
				out.Seconds = append(out.Seconds, t.seconds(s.segment, s.at(b, i), math.NaN()))
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

// placing follows the rows of a segment past the samples that were lost.
type placing struct {
	*segment
	lost []hole
	gone int64 // rows lost so far
}

// at is the place of sample i of b on the segment's sample clock, s.
func (p *placing) at(b *run.Batch, i int) float64 {
	if b.TimesNs != nil {
		return float64(b.TimesNs[i]) * 1e-9
	}
	row := b.Row + int64(i)
	for len(p.lost) > 0 && p.lost[0].row <= row {
		p.gone += p.lost[0].rows
		p.lost = p.lost[1:]
	}
	return float64(row+p.gone) / p.info.RateHz
}
