// Package execmeter reads a meter that is a program: it writes what
// docs/exec-meter.md describes, lines of JSON or binary frames. Everything that
// comes from it is checked: it may be anybody's program.
package execmeter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Driver is the driver of all such programs. Its place is the command.
var Driver = meters.Driver{
	Name:       meters.ExecDriver,
	Summary:    "any program that writes samples as docs/exec-meter.md says, up to millions a second",
	Status:     meters.Emulated,
	Rate:       "as the program says",
	Digital:    "as the program says",
	Transports: []meters.Transport{meters.Process},
	Models:     []meters.Model{{Name: "program", Accuracy: meters.Accuracy{Source: "as the program says"}}},
	Open:       open,
}

const (
	// headerNs is how long the first line may take, host ns.
	headerNs = 10 * int64(time.Second)
	// cancelNs bounds how long a read waits, so that the end of a context is
	// soon noticed.
	cancelNs    = 200 * int64(time.Millisecond)
	firstBuffer = 1 << 18
	// mostMissing samples are made up as unknown: a second of any meter, but not
	// what a program could claim to have left out.
	mostMissing = 1 << 24
	fillRows    = 1 << 16 // at a time
)

// meter reads packets from a port.
type meter struct {
	port   meters.Port
	notify func(meters.Notice)
	info   meters.Info
	emit   func(meters.Block) error

	buffer  []byte
	filled  int
	arrived int64 // host ns of the last read
	decoder decoder
	lost    int64 // samples
	closed  bool
}

func open(ctx context.Context, p meters.Port, o meters.Options) (meters.Meter, error) {
	d := &meter{port: p, notify: o.Notify, buffer: make([]byte, firstBuffer)}
	line, err := d.firstLine(ctx)
	if err != nil {
		return nil, &meters.Problem{Err: fmt.Errorf("open exec meter: %w", err), Hint: "run it by hand: it must write samples, as docs/exec-meter.md says"}
	}
	h, err := parseHeader(line)
	if err != nil {
		return nil, &meters.Problem{Err: fmt.Errorf("open exec meter: its first line: %w", err), Hint: "docs/exec-meter.md says what a program must write"}
	}
	d.info = h.info()
	d.decoder = newDecoder(d.info, h.Framing == binaryFraming)
	return d, nil
}

// firstLine waits for the first line and takes it.
func (d *meter) firstLine(ctx context.Context) ([]byte, error) {
	untilNs := d.port.HostNs() + headerNs
	for {
		if i := bytes.IndexByte(d.buffer[:d.filled], '\n'); i >= 0 {
			line := bytes.Clone(d.buffer[:i])
			d.drop(i + 1)
			return line, nil
		}
		now := d.port.HostNs()
		switch err := d.read(min(untilNs, now+cancelNs)); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, io.EOF):
			return nil, d.quote(fmt.Errorf("%w: it ended before its first line", meters.ErrNoSamples))
		case errors.Is(err, os.ErrDeadlineExceeded) && now >= untilNs:
			return nil, d.quote(fmt.Errorf("%w: no line within 10 s", meters.ErrNoSamples))
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, err
		}
	}
}

// read adds what comes by a host time to the buffer.
func (d *meter) read(untilNs int64) error {
	if d.filled == len(d.buffer) {
		if len(d.buffer) > mostPacket {
			return fmt.Errorf("a packet of more than %d bytes", mostPacket)
		}
		d.buffer = append(d.buffer, make([]byte, len(d.buffer))...)
	}
	n, hostNs, err := d.port.Read(d.buffer[d.filled:], untilNs)
	d.filled += n
	if n > 0 {
		d.arrived = hostNs
	}
	return err
}

// drop removes n bytes from the front of the buffer.
func (d *meter) drop(n int) { d.filled = copy(d.buffer, d.buffer[n:d.filled]) }

// Info describes the meter, as its program does.
func (d *meter) Info() meters.Info { return d.info }

// Stream hands over the samples until ctx ends or the program does, neither of
// which is an error if the program ends in order after its first sample.
func (d *meter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	d.emit = emit
	err := d.stream(ctx)
	d.conclude()
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (d *meter) stream(ctx context.Context) error {
	err := d.packets() // that came with the first line
	for err == nil && ctx.Err() == nil {
		err = d.read(d.port.HostNs() + cancelNs)
		switch {
		case err == nil:
			err = d.packets()
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = nil
		case errors.Is(err, io.EOF):
			return d.end()
		default:
			return fmt.Errorf("read exec meter: %w", err)
		}
	}
	return err
}

// end judges the end of the program's output.
func (d *meter) end() error {
	switch {
	case d.decoder.index == 0:
		return d.quote(fmt.Errorf("stream exec meter: %w: its output ended before the first one", meters.ErrNoSamples))
	case d.filled > 0:
		return d.quote(errors.New("stream exec meter: its output ended within a packet"))
	}
	return nil
}

// packets decodes all packets in the buffer, into one block unless too much is
// missing between them.
func (d *meter) packets() error {
	at := 0
	for {
		n, missing, err := d.decoder.packet(d.buffer[at:d.filled])
		if err != nil {
			return errors.Join(fmt.Errorf("stream exec meter: %w", err), d.flush())
		}
		if n == 0 {
			break
		}
		at += n
		if missing > 0 {
			if err := d.miss(missing); err != nil {
				return err
			}
		}
		d.decoder.add()
		if d.decoder.rows() >= mostRows {
			if err := d.flush(); err != nil {
				return err
			}
		}
	}
	d.drop(at)
	return d.flush()
}

// miss makes n samples unknown, or begins anew after them if they are too many.
func (d *meter) miss(n int64) error {
	gapNs := int64(float64(n) / d.info.RateHz * 1e9)
	if gapNs <= meters.SegmentGapNs && n <= mostMissing {
		d.lost += n
		for ; n > 0; n -= min(n, fillRows) {
			d.decoder.missing(int(min(n, fillRows)))
			if d.decoder.rows() < fillRows {
				continue
			}
			if err := d.flush(); err != nil {
				return err
			}
		}
		return nil
	}
	// To a recorder, only a longer interruption ends a segment.
	gapNs = max(gapNs, meters.SegmentGapNs+1)
	if err := d.flush(); err != nil {
		return err
	}
	d.decoder.skip(n)
	d.tell(meters.Notice{HostNs: d.arrived, Code: meters.Interrupted, Count: 1, Warn: true, GapNs: gapNs,
		Text: fmt.Sprintf("the program left out %d samples, %.3g s", n, float64(gapNs)/1e9)})
	return nil
}

func (d *meter) flush() error {
	b := d.decoder.block()
	if b.Len() == 0 {
		return nil
	}
	b.ArrivalNs = d.arrived
	if n := len(b.TimesNs); n > 0 && d.info.Clock != meters.Shared {
		// Without a rate there is nothing to fit: the program's times count on
		// from the arrival of the first ones, by the host's clock.
		d.info.Clock, d.info.FirstHostNs = meters.Shared, d.arrived-b.TimesNs[n-1]
	}
	return d.emit(b)
}

func (d *meter) tell(n meters.Notice) {
	if d.notify != nil {
		d.notify(n)
	}
}

// Messages is the code of a notice: what the program said to people last.
const Messages = "program-messages"

// conclude tells what was counted, and what the program said.
func (d *meter) conclude() {
	now := d.port.HostNs()
	if d.lost > 0 {
		d.tell(meters.Notice{HostNs: now, Code: meters.LostSamples, Count: d.lost, Warn: true,
			Text: fmt.Sprintf("the program left out %d samples; they count as not measured", d.lost)})
	}
	if n := d.decoder.bad; n > 0 {
		d.tell(meters.Notice{HostNs: now, Code: meters.BadPackets, Count: n, Warn: true,
			Text: fmt.Sprintf("%d lines of the program were not understood; the first: %v", n, d.decoder.firstBad)})
	}
	if said := d.said(); said != "" {
		d.tell(meters.Notice{HostNs: now, Code: Messages, Text: "the program said: " + said})
	}
}

// said is what the program said to people last, where the port knows that.
func (d *meter) said() string {
	if p, ok := d.port.(interface{ Messages() string }); ok {
		return p.Messages()
	}
	return ""
}

// quote adds to an error what the program said.
func (d *meter) quote(err error) error {
	if said := d.said(); said != "" {
		return fmt.Errorf("%w: it said %q", err, said)
	}
	return err
}

// Close ends the program. A second call does nothing.
func (d *meter) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	if err := d.port.Close(); err != nil {
		return fmt.Errorf("close exec meter: %w", err)
	}
	return nil
}
