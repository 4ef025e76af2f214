package fnirsi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// cancelNs bounds how long a read waits, so that the end of a context is soon
// noticed.
const cancelNs = 200 * int64(time.Millisecond)

// meter drives the machine over a port.
type meter struct {
	port    meters.Port
	notify  func(meters.Notice)
	info    meters.Info
	machine machine
	emit    func(meters.Block) error

	in      [2 * ReportBytes]byte // longer, so that a report too long shows
	report  []byte                // the one at hand, in in
	arrived int64                 // host ns of it
	samples [ReportSamples]Sample
	values  [len(fields)][ReportSamples]float64
	columns [len(fields)][]float64 // into values

	begun      bool  // the first good sample has come
	left       int64 // impossible samples before it
	impossible int64 // and after it
	damaged    int64 // reports
	short      int64 // interruptions within a segment
	longest    int64 // of those, host ns
	lost       error // why the port is of no use any more
	refused    error // of the last command
	closed     bool
}

// Info describes the meter.
func (d *meter) Info() meters.Info { return d.info }

// Stream starts the meter, keeps it sending and hands its samples over. It
// fails with meters.ErrNoSamples where the meter is silent for five seconds in
// spite of commands to start, and with the port's error where that is gone.
func (d *meter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	d.emit = emit
	err := d.stream(ctx)
	d.conclude()
	return err
}

func (d *meter) stream(ctx context.Context) error {
	err := d.step(opened, d.port.HostNs())
	for err == nil && ctx.Err() == nil {
		var kind eventKind
		var hostNs int64
		kind, hostNs, err = d.read(min(d.machine.deadlineNs(), d.port.HostNs()+cancelNs))
		if err == nil {
			err = d.step(kind, hostNs)
		}
	}
	return err
}

// read waits for one report and says what it is.
func (d *meter) read(untilNs int64) (eventKind, int64, error) {
	n, hostNs, err := d.port.Read(d.in[:], untilNs)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return timePassed, hostNs, nil
	}
	if err != nil {
		d.lost = err
		return 0, 0, fmt.Errorf("read %s: %w", d.info.Model, err)
	}
	d.report, d.arrived = d.in[:n], hostNs
	var report Kind
	d.samples, report, err = DecodeReport(d.report)
	switch {
	case err == nil && report == SampleReport:
		return samplesCame, hostNs, nil
	case err == nil:
		return otherCame, hostNs, nil
	}
	d.damaged++
	// What claims to be no report of samples was hardly one; what has another
	// length is none at all.
	if err == ErrLength || report == InfoReport {
		return otherCame, hostNs, nil
	}
	return damagedCame, hostNs, nil
}

// step has the machine take one event, and does what it says.
func (d *meter) step(kind eventKind, hostNs int64) error {
	var refused bool
	evidence := kind == otherCame
	for _, a := range d.machine.step(event{kind, hostNs}) {
		var err error
		switch a.kind {
		case send:
			report := a.command.report()
			if err := d.port.Write(report[:]); err != nil {
				d.refused, refused = err, true
			}
		case resume:
			d.interrupted(hostNs, a.gapNs)
		case deliver:
			err = d.deliver()
		case hole:
			err = d.hole()
		case fail:
			return d.failure(a.err)
		}
		if err != nil {
			return err
		}
	}
	if refused {
		return d.step(writeRefused, d.port.HostNs())
	}
	if evidence && d.begun {
		return d.emit(d.block(0))
	}
	return nil
}

func (d *meter) failure(cause error) error {
	if cause == errWrite {
		return fmt.Errorf("stream %s: %w: %w (%w)", d.info.Model, meters.ErrNoSamples, cause, d.refused)
	}
	return fmt.Errorf("stream %s: %w: %w", d.info.Model, meters.ErrNoSamples, cause)
}

// deliver emits the samples at hand. Impossible ones are left out before the
// first good one; later they are NaN, so that samples can still be counted.
func (d *meter) deliver() error {
	n := 0
	for _, s := range d.samples {
		switch {
		case !s.impossible():
			d.begun = true
		case !d.begun:
			d.left++
			continue
		default:
			d.impossible++
			s = unknown
		}
		for i, v := range s {
			d.values[i][n] = v
		}
		n++
	}
	if n == 0 {
		return nil
	}
	return d.emit(d.block(n))
}

var unknown = func() (s Sample) {
	for i := range s {
		s[i] = math.NaN()
	}
	return s
}()

// interrupted tells of an interruption that ends a segment, and counts others:
// where the host only reads late, there are many and nothing is missing.
func (d *meter) interrupted(hostNs, gapNs int64) {
	if gapNs <= meters.SegmentGapNs {
		d.short++
		d.longest = max(d.longest, gapNs)
		return
	}
	d.tell(meters.Notice{HostNs: hostNs, Code: meters.Interrupted, Count: 1, Warn: true, GapNs: gapNs,
		Text: fmt.Sprintf("the %s sent nothing for %.2f s and was started again", d.info.Model, float64(gapNs)/1e9)})
}

// hole emits a damaged report, once there are samples that it can follow.
func (d *meter) hole() error {
	if !d.begun {
		return nil
	}
	for i := range d.values {
		for k := range d.values[i] {
			d.values[i][k] = math.NaN()
		}
	}
	return d.emit(d.block(ReportSamples))
}

// block is the first n of the values, with the report at hand. A report
// without samples is kept as evidence; its arrival says nothing of samples.
func (d *meter) block(n int) meters.Block {
	b := meters.Block{ArrivalNs: d.arrived, Raw: d.report}
	if n == 0 {
		b.ArrivalNs = -1
	}
	for i := range d.values {
		d.columns[i] = d.values[i][:n]
	}
	b.Values = d.columns[:]
	return b
}

func (d *meter) tell(n meters.Notice) {
	if d.notify != nil {
		d.notify(n)
	}
}

// conclude tells what was counted.
func (d *meter) conclude() {
	now := d.port.HostNs()
	for _, n := range []meters.Notice{
		{Code: meters.ImpossibleFirst, Count: d.left,
			Text: fmt.Sprintf("%d samples beyond 60 V or 10 A at the start were left out: the meter held them from before", d.left)},
		{Code: meters.ImpossibleSamples, Count: d.impossible, Warn: true,
			Text: fmt.Sprintf("%d samples beyond 60 V or 10 A count as not measured", d.impossible)},
		{Code: meters.BadPackets, Count: d.damaged,
			Text: fmt.Sprintf("%d reports were damaged on the way; their samples count as not measured", d.damaged)},
		{Code: meters.Interrupted, Count: d.short,
			Text: fmt.Sprintf("no report came for more than 0.2 s %d times (%.2f s at most), and the %s was started again; the arrivals show whether samples are missing",
				d.short, float64(d.longest)/1e9, d.info.Model)},
	} {
		if n.Count > 0 {
			n.HostNs = now
			d.tell(n)
		}
	}
}

// Close reads until the meter has been quiet for a second, about two seconds
// after the last command: left alone in the middle of a stream, a meter keeps
// reports for the next program or freezes.
func (d *meter) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	if d.machine.state != closed && d.lost == nil {
		d.drain()
	}
	if err := d.port.Close(); err != nil {
		return fmt.Errorf("close %s: %w", d.info.Model, err)
	}
	return nil
}

func (d *meter) drain() {
	kind, hostNs := stopAsked, d.port.HostNs()
	for {
		d.machine.step(event{kind, hostNs})
		if d.machine.state == ended {
			return
		}
		var err error
		if kind, hostNs, err = d.read(d.machine.deadlineNs()); err != nil {
			return
		}
	}
}
