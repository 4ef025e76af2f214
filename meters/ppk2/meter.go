package ppk2

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
)

const (
	// cancelNs bounds how long a read waits, so that the end of a context is
	// soon noticed.
	cancelNs = 200 * int64(time.Millisecond)
	// lateNs is how much later than it was asked a read may return from a host
	// that works.
	lateNs = 50 * int64(time.Millisecond)
	// blockRows samples make a block, 10 ms; more where they came at once.
	blockRows = 1000
	// bufferBytes is what a serial line of Linux holds for a late reader.
	bufferBytes = 1 << 16
	// settleRows samples after a start are left out, 50 ms: issue 36 speaks of
	// the first tens of ms.
	settleRows = 5000
)

// Codes of notices.
const (
	Uncalibrated = "uncalibrated" // the meter did not tell all of its calibration
	Settling     = "settling"     // samples after a start were left out
)

// meter drives the machine over a port.
type meter struct {
	port    meters.Port
	notify  func(meters.Notice)
	info    meters.Info
	set     settings
	machine machine
	decoder decoder
	emit    func(meters.Block) error

	text    []byte // of the calibration, so far
	buffer  [bufferBytes]byte
	filled  int   // of the buffer: the next block, as received
	arrived int64 // host ns of the last read
	settle  int   // samples still to be left out
	columns [2 + inputs][]float64

	left    int64 // samples left out
	missing int64 // samples that were lost
	powered bool  // a command to switch the target on was sent
	lost    error // why the port is of no use any more
	refused error // of the last command
	closed  bool
}

func newMeter(p meters.Port, o meters.Options, s settings) *meter {
	return &meter{
		port: p, notify: o.Notify, set: s, settle: settleRows,
		decoder: decoder{volts: s.volts, spikes: spikes{on: s.filter}},
		info: meters.Info{
			Driver: "ppk2", Model: "PPK2", Serial: o.Serial, Firmware: o.Firmware,
			// Whatever arrives together, a loss may be any number of samples.
			Columns: Columns(), RateHz: rateHz, PacketSamples: 1,
			Sample: meters.UnknownKind, Clock: meters.ByArrival, Accuracy: accuracy,
		},
	}
}

// Info describes the meter.
func (d *meter) Info() meters.Info { return d.info }

// Stream asks for the calibration, sets the meter up, starts it and hands its
// samples over; the first block holds no samples but the calibration as
// received. It fails with meters.ErrNoSamples where the meter is silent for five
// seconds, and with the port's error where that is gone.
func (d *meter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	d.emit = emit
	// The meter sends nothing until a program says that it listens. A port
	// without such a line, or a pseudo terminal, needs nothing.
	if line, ok := d.port.(interface{ SetDTR(bool) error }); ok {
		_ = line.SetDTR(true)
	}
	err := d.step(opened, d.port.HostNs())
	for err == nil && ctx.Err() == nil {
		err = d.turn()
	}
	if err == nil || d.lost != nil {
		err = errors.Join(err, d.flush())
	}
	d.conclude()
	return err
}

// turn reads once, and does what follows from it.
func (d *meter) turn() error {
	b, hostNs, err := d.read(min(d.machine.deadlineNs(), d.port.HostNs()+cancelNs))
	if err != nil {
		return err
	}
	kind := bytesCame
	switch {
	case b == nil:
		kind = timePassed
	case d.machine.state == asking:
		if kind, err = d.calibrate(b, hostNs); err != nil {
			return err
		}
	case d.machine.state == streaming:
		kind = d.samples(b, hostNs)
	}
	if err := d.step(kind, hostNs); err != nil {
		return err
	}
	if kind == timePassed || d.decoder.rows >= blockRows || d.filled == bufferBytes {
		return d.flush()
	}
	return nil
}

// read waits for bytes; there are none where b is nil.
func (d *meter) read(untilNs int64) (b []byte, hostNs int64, err error) {
	b = d.buffer[d.filled:]
	n, hostNs, err := d.port.Read(b, untilNs)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if late := hostNs - untilNs; late > lateNs {
			d.machine.excuse(late)
		}
		return nil, hostNs, nil
	}
	if err != nil {
		d.lost = err
		return nil, 0, fmt.Errorf("read PPK2: %w", err)
	}
	return b[:n], hostNs, nil
}

// samples decodes bytes of the stream.
func (d *meter) samples(b []byte, hostNs int64) eventKind {
	d.filled += len(b)
	d.arrived = hostNs
	before := d.decoder.rows
	d.decoder.take(b)
	if d.decoder.rows == before {
		return bytesCame
	}
	return samplesCame
}

// calibrate takes bytes of the calibration, and when they are complete makes
// the commands that set the meter up.
func (d *meter) calibrate(b []byte, hostNs int64) (eventKind, error) {
	if len(d.text) > maxText {
		d.text = d.text[:copy(d.text, d.text[maxText/2:])]
	}
	d.text = append(d.text, b...)
	c, complete := ParseCalibration(d.text)
	if !complete {
		return bytesCame, nil
	}
	if n := len(c.Missing); n > 0 {
		if d.machine.sent < questions { // it may have been damaged on the way
			d.text = d.text[:0]
			return bytesCame, nil
		}
		d.tell(meters.Notice{HostNs: hostNs, Code: Uncalibrated, Count: int64(n), Warn: true,
			Text: fmt.Sprintf("the PPK2 does not know its calibration %s; that of an uncalibrated one is taken", strings.Join(c.Missing, ", "))})
	}
	var err error
	if d.machine.commands, err = d.set.commands(c.Mode); err != nil {
		return 0, fmt.Errorf("set up PPK2: %w", err)
	}
	d.decoder.convert = c.converter(d.set.volts)
	return textCame, d.emit(meters.Block{ArrivalNs: -1, Values: d.values(0, 0), Raw: d.text})
}

// step has the machine take one event, and does what it says.
func (d *meter) step(kind eventKind, hostNs int64) error {
	for _, a := range d.machine.step(event{kind, hostNs}) {
		switch a.kind {
		case send:
			d.powered = d.powered || a.command[0] == switchCommand
			if err := d.port.Write(a.command); err != nil {
				d.refused = err
				return d.step(writeRefused, d.port.HostNs())
			}
		case forget:
			d.decoder.forget()
			d.settle = settleRows
		case resume:
			d.interrupted(hostNs, a.gapNs)
		case fail:
			return d.failure(a.err)
		}
	}
	return nil
}

func (d *meter) failure(cause error) error {
	if cause == errWrite {
		return fmt.Errorf("stream PPK2: %w: %w (%w)", meters.ErrNoSamples, cause, d.refused)
	}
	return fmt.Errorf("stream PPK2: %w: %w", meters.ErrNoSamples, cause)
}

// values are the decoded samples from one row to another.
func (d *meter) values(from, to int) [][]float64 {
	for i := range d.columns {
		d.columns[i] = d.decoder.columns[i][from:to]
	}
	return d.columns[:]
}

// flush emits what was received since the last time. Bytes without samples are
// kept as evidence; their arrival says nothing of samples.
func (d *meter) flush() error {
	if d.filled == 0 {
		return nil
	}
	skip := min(d.settle, d.decoder.rows)
	d.settle -= skip
	d.left += int64(skip)
	b := meters.Block{ArrivalNs: d.arrived, Values: d.values(skip, d.decoder.rows), Raw: d.buffer[:d.filled]}
	if b.Len() == 0 {
		b.ArrivalNs = -1
	}
	for _, amps := range b.Values[1] {
		if math.IsNaN(amps) {
			d.missing++
		}
	}
	d.filled, d.decoder.rows = 0, 0
	return d.emit(b)
}

// interrupted tells of an interruption. It is one that ends a segment: the
// machine waits for so long before it takes silence for one.
func (d *meter) interrupted(hostNs, gapNs int64) {
	d.tell(meters.Notice{HostNs: hostNs, Code: meters.Interrupted, Count: 1, Warn: true, GapNs: gapNs,
		Text: fmt.Sprintf("the PPK2 sent nothing for %.2f s and was started again", float64(gapNs)/1e9)})
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
		{Code: Settling, Count: d.left,
			Text: fmt.Sprintf("%d samples after the start were left out: they may hold peaks that are none", d.left)},
		{Code: meters.LostSamples, Count: d.missing, Warn: d.missing > fewLost,
			Text: fmt.Sprintf("%d samples were lost on the way and count as not measured; of losses beyond 63 at once, the arrivals alone show how long they were", d.missing)},
	} {
		if n.Count > 0 {
			n.HostNs = now
			d.tell(n)
		}
	}
}

// fewLost samples, 5 ms, are no reason to warn (DATALOSS_THRESHOLD in
// serialDevice.ts).
const fewLost = 500

// Close stops the meter, reads until it is quiet, switches the target off if
// Stream has switched it on, unless it shall stay on, and closes the port.
func (d *meter) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	var err error
	if d.machine.state != closed && d.lost == nil {
		d.drain()
		if d.powered && !d.set.stay {
			err = d.port.Write([]byte{switchCommand, 0})
		}
	}
	if err = errors.Join(err, d.port.Close()); err != nil {
		return fmt.Errorf("close PPK2: %w", err)
	}
	return nil
}

func (d *meter) drain() {
	d.filled = 0
	kind, hostNs := stopAsked, d.port.HostNs()
	for d.step(kind, hostNs) == nil && d.machine.state != ended && d.lost == nil {
		var b []byte
		kind = bytesCame
		b, hostNs, _ = d.read(d.machine.deadlineNs())
		if b == nil {
			kind = timePassed
		}
	}
}
