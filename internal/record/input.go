package record

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// input is one meter on its way into the queue, and its track behind it.
type input struct {
	Meter
	r     *Recorder
	gauge *gauge
	valid atomic.Bool // samples have come
	lane  lane

	// Of the meter's goroutine.
	meter   meters.Meter // nil where none is open
	fresh   bool         // opened, and no samples yet
	overdue *time.Timer  // ends a session without samples; nil for the first one
	samples int64        // so far
	dropped int64        // of those: before the next block, without room in the queue

	// Of the writer's goroutine, from the beginning of the run on.
	to    *Stream
	track *Track
}

func newInput(r *Recorder, m Meter) *input {
	return &input{Meter: m, r: r, gauge: newGauge(m.Name)}
}

// run streams until ctx or the meter ends. A meter that is lost after its first
// samples is opened again until it is back.
func (in *input) run(ctx context.Context) {
	defer in.end()
	var lostNs int64
	lost := false
	for {
		before := in.samples
		var err error
		if lost {
			err = in.again(ctx, in.r.o.Absence-time.Duration(in.r.o.HostNs()-lostNs))
		} else {
			err = in.session(ctx)
		}
		in.tellDropped()
		if err == nil || ctx.Err() != nil {
			return
		}
		if !in.valid.Load() {
			in.r.stop(&MeterError{in.Name, err})
			return
		}
		now := in.r.o.HostNs()
		if !lost || in.samples > before {
			lost, lostNs = true, now
			in.lose(now, err)
		}
		if time.Duration(now-lostNs) >= in.r.o.Absence {
			in.r.stop(&MeterError{in.Name, fmt.Errorf("it did not come back within %v: %w", in.r.o.Absence, err)})
			return
		}
		in.close()
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return
		}
	}
}

// end says that this meter streams no more; with the last one the recording is
// over.
func (in *input) end() {
	in.gauge.change(func(s *Status) { s.State = Ended })
	if in.r.running.Add(-1) == 0 {
		in.r.stop(errDone)
	}
}

// session opens the meter and streams.
func (in *input) session(ctx context.Context) error {
	m, err := in.Open(ctx, in.notice)
	if err != nil {
		return err
	}
	in.meter, in.fresh = m, true
	if l, ok := m.(Listener); ok {
		l.Listen(in.r)
	}
	return m.Stream(ctx, in.emit)
}

// again is a session of a meter that was lost: it must send within a time.
func (in *input) again(ctx context.Context, within time.Duration) error {
	silent, cancel := context.WithCancel(ctx)
	defer cancel()
	in.overdue = time.AfterFunc(within, cancel)
	defer in.overdue.Stop()
	err := in.session(silent)
	if err == nil && silent.Err() != nil && ctx.Err() == nil {
		return meters.ErrNoSamples
	}
	return err
}

// close closes the meter, if it is open.
func (in *input) close() {
	if in.meter != nil {
		if err := in.meter.Close(); err != nil {
			in.gauge.notice(err.Error())
		}
		in.meter = nil
	}
}

// put hands a change of the track over, and reports whether there was room.
func (in *input) put(write func() error) bool {
	taken := in.r.queue.put(item{write: func(*run.Writer) error { return write() }})
	if !taken {
		in.r.spilt.Add(1)
	}
	return taken
}

func (in *input) notice(n meters.Notice) {
	in.gauge.notice(n.Text)
	if n.GapNs > meters.SegmentGapNs && in.valid.Load() {
		in.gauge.resume()
	}
	in.put(func() error { return in.track.Notice(n) })
}

func (in *input) lose(hostNs int64, err error) {
	in.gauge.change(func(s *Status) { s.State = Gone })
	in.gauge.notice(err.Error())
	in.put(func() error { return in.track.Lost(hostNs, err) })
}

// emit takes a block. It never waits for the disk.
func (in *input) emit(b meters.Block) error {
	n := int64(b.Len())
	hostNs := b.ArrivalNs
	if hostNs < 0 {
		hostNs = in.r.o.HostNs()
	}
	if in.fresh && n > 0 && !in.open() {
		return errFull
	}
	in.samples += n
	p := newPacket(b)
	dropped := in.dropped
	taken := in.r.queue.put(item{packet: p, lane: &in.lane, write: func(*run.Writer) error {
		if dropped > 0 {
			if err := in.track.Dropped(hostNs, dropped); err != nil {
				return err
			}
		}
		return in.track.Block(p.block)
	}})
	if !taken {
		packets.Put(p)
		in.dropped += n
		in.gauge.change(func(s *Status) { s.Dropped += n })
	} else if n > 0 {
		if dropped > 0 {
			in.dropped = 0
			in.gauge.resume()
		}
		in.gauge.block(b, hostNs)
	}
	if n > 0 && !in.valid.Load() && measured(b) {
		in.valid.Store(true)
		if in.r.waiting.Add(-1) == 0 {
			close(in.r.ready)
		}
	}
	return nil
}

var errFull = errors.New("the disk is too slow")

// open begins a segment with what the meter says of itself, now that it sends.
func (in *input) open() bool {
	info := in.meter.Info()
	info.Stream = in.Name
	info.Calibration, info.Characterisation = in.Calibration, in.Characterisation
	info.Columns = slices.Clone(info.Columns)
	in.fresh = false
	if in.overdue != nil {
		in.overdue.Stop()
	}
	in.gauge.open(info)
	return in.put(func() error { in.track.Open(info); return nil })
}

// tellDropped tells of samples that no block came after.
func (in *input) tellDropped() {
	if n := in.dropped; n > 0 {
		in.dropped = 0
		hostNs := in.r.o.HostNs()
		in.put(func() error { return in.track.Dropped(hostNs, n) })
	}
}

// measured reports whether a block holds a value.
func measured(b meters.Block) bool {
	return slices.ContainsFunc(b.Values, func(column []float64) bool {
		return slices.ContainsFunc(column, func(v float64) bool { return !math.IsNaN(v) })
	})
}
