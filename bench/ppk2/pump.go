package ppk2

import (
	"context"
	"io"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// heldNs is how long the meter keeps samples that the host does not take;
// assumed.
const heldNs = 100 * int64(time.Millisecond)

// Pump runs the meter in real time behind the inner end of a line, until ctx
// ends or the line fails: it obeys what is read and writes samples as they are
// due. Samples that the host does not take in time are lost; their number is
// returned, and for how long Pump itself could not run. The caller closes the
// line.
func (d *Device) Pump(ctx context.Context, line io.ReadWriter, clock meters.HostClock) (lost, awayNs int64, err error) {
	commands := make(chan []byte)
	failed := make(chan error, 1)
	go func() {
		for {
			b := make([]byte, 64)
			n, err := line.Read(b)
			if err != nil {
				failed <- err
				return
			}
			select {
			case commands <- b[:n]:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(time.Duration(frameNs))
	defer tick.Stop()
	nextNs := clock() + frameNs
	for {
		select {
		case <-ctx.Done():
			return lost, awayNs, nil
		case err := <-failed:
			return lost, awayNs, err
		case b := <-commands:
			d.advance(clock())
			d.obey(b)
		case <-tick.C:
			d.advance(clock())
		}
		before := clock()
		awayNs = max(awayNs, before-nextNs)
		if _, err := line.Write(d.out); err != nil {
			return lost, awayNs, err
		}
		d.out = d.out[:0]
		nextNs = clock() + frameNs
		if late := nextNs - frameNs - before - heldNs; late > 0 && d.streaming {
			d.index += late / periodNs
			lost += late / periodNs
		}
	}
}
