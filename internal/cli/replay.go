package cli

import (
	"errors"
	"fmt"
	"iter"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/replay"
	"github.com/joulemark/joulemark/run"
)

// tape is one stream of a run, for replay.
type tape struct {
	run  *run.Run
	info meters.Info
}

// openTape opens a stream of a run; "" stands for its only one.
func openTape(path, stream string) (replay.Recording, error) {
	r, err := run.Open(path)
	if err != nil {
		return nil, &meters.Problem{Err: err, Hint: "give the folder of a run: replay:RUN"}
	}
	var names []string
	for _, s := range r.Streams {
		if stream == s.Stream || stream == "" && len(r.Streams) == 1 {
			info := s.Info
			info.Simulated = info.Simulated || r.Header.Simulated
			return tape{r, info}, nil
		}
		names = append(names, s.Stream)
	}
	return nil, &meters.Problem{Err: fmt.Errorf("run %s: it holds %d meters", path, len(names)), Hint: "say which one: stream=" + list(names)}
}

// Info describes the meter as recorded.
func (t tape) Info() meters.Info { return t.info }

// Blocks joins samples and arrivals again. A missing end is no error.
func (t tape) Blocks() iter.Seq2[replay.Block, error] {
	return func(yield func(replay.Block, error) bool) {
		arrivals, stop := iter.Pull2(t.run.Arrivals(t.info.Stream))
		defer stop()
		a, err, more := arrivals()
		b := replay.Block{Block: meters.Block{Values: make([][]float64, len(t.info.Columns))}}
		for batch, failed := range t.run.Samples(t.info.Stream) {
			if failed != nil {
				if !torn(failed) {
					yield(replay.Block{}, failed)
					return
				}
				continue
			}
			for from := 0; from < batch.Rows; {
				row := batch.Row + int64(from)
				for more && (err != nil || a.Segment < batch.Segment || a.Segment == batch.Segment && a.Row <= row) {
					if err != nil && !torn(err) {
						yield(replay.Block{}, err)
						return
					}
					a, err, more = arrivals()
				}
				to := batch.Rows
				b.Segment, b.ArrivalNs = batch.Segment, -1
				if more && a.Segment == batch.Segment && a.Row <= batch.Row+int64(batch.Rows) {
					to, b.ArrivalNs = int(a.Row-batch.Row), a.HostNs
				}
				for i, c := range t.info.Columns {
					b.Values[i] = batch.Columns[c][from:to]
				}
				if batch.TimesNs != nil {
					b.TimesNs = batch.TimesNs[from:to]
				}
				if !yield(b, nil) {
					return
				}
				from = to
			}
		}
	}
}

func torn(err error) bool {
	var d *run.DamageError
	return errors.As(err, &d) && d.Tail
}
