// Package ppk2 emulates a Nordic Power Profiler Kit II at the level of its
// bytes, in virtual time: nothing sleeps and no clock is read, but in Pump. It
// shares no code with the driver that it is there to test. What is known of the
// meter, and from whom, stands in the documentation of meters/ppk2.
package ppk2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Reading is what the meter sees at one instant.
type Reading struct {
	Amps    float64
	Digital byte // D0 is its lowest bit
}

// Load is what is connected to the meter, over seconds of its own clock.
type Load func(meterSeconds float64) Reading

// Faults are what an emulated meter does wrong. Probabilities are per
// millisecond of samples.
type Faults struct {
	LostBytes     float64 // probability that 1 to 9 bytes are lost on the way
	LostSamples   float64 // probability that 1 to 40 samples are
	Garbage       int     // bytes before the calibration
	Garbled       int     // answers for the calibration that lack some bytes
	Streaming     bool    // a program that died left it streaming
	Nan           bool    // the offsets of the calibration are not numbers
	Spiky         int     // samples after a start that are peaks of 0.9 A
	StallSeconds  float64 // host time at which the host takes nothing for a while; 0 is never
	StallSamples  int     // that are lost then
	Refused       float64 // probability that a command times out
	PauseSeconds  float64 // host time at which it stops sending; 0 is never
	UnplugSeconds float64 // host time at which it is unplugged; 0 is never
}

const (
	periodNs = 10_000 // of a sample
	frameNs  = int64(time.Millisecond)
	// switchSamples after a change of range are disturbed; assumed, as many as
	// Nordic's program replaces.
	switchSamples = 3
	timeoutNs     = 100 * int64(time.Millisecond)
)

// cal is the calibration of this unit, by range. Its shunts are near those of
// uncalibrated meters.
type cal struct{ R, O, GS, GI, S, I, UG float64 }

var unit = [5]cal{
	{1003.35, 112.94, 0.00021, 1.0000, 4.8e-8, -1.04e-7, 1},
	{101.52, 75.44, 0.0032, 0.9998, 5.1e-7, -9.8e-7, 1},
	{10.205, 62.71, 0.031, 1.0011, 5.6e-6, -9.6e-6, 1},
	{0.9412, 69.02, 0.11, 0.9987, 4.2e-5, -8.2e-5, 1.001},
	{0.0431, 40.15, 0.0028, 1.0102, 3.9e-4, -7.1e-4, 1},
}

// full is where the meter changes to the next range, A; assumed.
var full = [4]float64{50e-6, 500e-6, 5e-3, 60e-3}

// ErrAbsent is the error of a port whose meter is unplugged.
var ErrAbsent = errors.New("no such device")

var errTimeout = errors.New("the write timed out")

// Device is one emulated meter. Virtual time passes where a port reads.
type Device struct {
	// Sent, if not nil, is told each sample that leaves the meter, by its
	// number since the start, whether or not it is lost on the way. The
	// current is the one that the sample says.
	Sent func(index int64, r Reading)

	load   Load
	faults Faults
	loss   *rand.Rand
	refuse *rand.Rand

	hostNs    int64
	streaming bool
	startNs   int64 // of the stream
	index     int64 // of the next sample of the stream
	phase     int64 // of the counter
	last      int   // range
	after     int   // samples since it changed
	paused    bool
	stalled   bool
	garbled   int    // answers
	out       []byte // on its way to the host, there at once

	mode       byte
	millivolts int
	powered    bool
}

// New makes a meter at host time 0, in ampere mode and with the target switched
// off. Equal arguments make equal meters.
func New(load Load, f Faults, seed uint64) *Device {
	draws := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	d := &Device{load: load, faults: f, loss: draws(1), refuse: draws(2), mode: 1, millivolts: 3000}
	if f.Streaming {
		d.start()
	}
	return d
}

// HostNs reads the host clock.
func (d *Device) HostNs() int64 { return d.hostNs }

// Powered reports whether the target is switched on.
func (d *Device) Powered() bool { return d.powered }

// Source reports whether the meter supplies the target, and with how many V.
func (d *Device) Source() (on bool, volts float64) {
	return d.mode == 2, float64(d.millivolts) / 1000
}

// Streaming reports whether samples are being sent.
func (d *Device) Streaming() bool { return d.streaming }

func nanoseconds(s float64) int64 { return int64(math.Round(s * 1e9)) }

func (d *Device) gone() bool {
	return d.faults.UnplugSeconds > 0 && d.hostNs >= nanoseconds(d.faults.UnplugSeconds)
}

func (d *Device) start() {
	d.streaming, d.startNs, d.index, d.last, d.after = true, d.hostNs, 0, 0, switchSamples
	d.phase = d.loss.Int64N(64)
}

// advance lets time pass until a host time.
func (d *Device) advance(untilNs int64) {
	d.hostNs = max(d.hostNs, untilNs)
	if at := nanoseconds(d.faults.PauseSeconds); at > 0 && d.hostNs >= at && !d.paused {
		d.paused, d.streaming = true, false
	}
	if !d.streaming {
		return
	}
	// Samples are sent by the millisecond, as USB frames are.
	due := (d.hostNs - d.startNs) / frameNs * (frameNs / periodNs)
	for d.index < due {
		d.frame(min(due-d.index, frameNs/periodNs))
	}
}

// frame sends n samples.
func (d *Device) frame(n int64) {
	from := len(d.out)
	if at := nanoseconds(d.faults.StallSeconds); at > 0 && !d.stalled && d.hostNs >= at {
		d.stalled = true
		for range d.faults.StallSamples {
			d.sample()
		}
		return
	}
	for range n {
		d.out = binary.LittleEndian.AppendUint32(d.out, d.sample())
	}
	if d.loss.Float64() < d.faults.LostSamples {
		first := from + 4*d.loss.IntN(int(n))
		d.cut(first, 4*(1+d.loss.IntN(40)))
	}
	if d.loss.Float64() < d.faults.LostBytes {
		d.cut(from+d.loss.IntN(4*int(n)), 1+d.loss.IntN(9))
	}
}

// cut loses up to n bytes of those that are on their way.
func (d *Device) cut(at, n int) {
	if at < len(d.out) {
		d.out = append(d.out[:at], d.out[min(at+n, len(d.out)):]...)
	}
}

// sample takes the next sample.
func (d *Device) sample() uint32 {
	r := d.load(float64(d.startNs+d.index*periodNs) / 1e9)
	if d.index < int64(d.faults.Spiky) {
		r.Amps = 0.9
	}
	k := d.pick(r.Amps)
	if k != d.last {
		d.last, d.after = k, 0
	}
	value := d.convert(r.Amps, k)
	r.Amps = d.current(value, k)
	if d.after < switchSamples && d.index >= int64(d.faults.Spiky) {
		d.after++
		value = min(value+value/2+100, 1<<14-1) // overshoot; assumed
	}
	if d.Sent != nil {
		d.Sent(d.index, r)
	}
	w := value | uint32(k)<<14 | uint32((d.phase+d.index)%64)<<18 | uint32(r.Digital)<<24
	d.index++
	return w
}

// pick chooses the range of a current; back to a more sensitive one below 80 %
// of its end.
func (d *Device) pick(amps float64) int {
	k := d.last
	for k < len(full) && amps > full[k] {
		k++
	}
	for k > 0 && amps < 0.8*full[k-1] {
		k--
	}
	return k
}

// supplyVolts is that of the target's own supply, in ampere mode.
const supplyVolts = 3.3

// offset of a range, A.
func (d *Device) offset(k int) float64 {
	if d.faults.Nan {
		return 0
	}
	volts := supplyVolts
	if d.mode == 2 {
		volts = float64(d.millivolts) / 1000
	}
	return unit[k].S*volts + unit[k].I
}

// convert gives what the converter reads of a current: the inverse of current.
func (d *Device) convert(amps float64, k int) uint32 {
	c := unit[k]
	// amps/UG = GS r² + GI r + offset
	want := amps/c.UG - d.offset(k)
	r := want / c.GI
	if c.GS != 0 {
		r = (-c.GI + math.Sqrt(max(0, c.GI*c.GI+4*c.GS*want))) / (2 * c.GS)
	}
	counts := r*c.R*163840/1.8 + c.O
	return uint32(min(max(math.Round(counts/4), 0), 1<<14-1))
}

// current gives the current that a value of the converter stands for.
func (d *Device) current(value uint32, k int) float64 {
	c := unit[k]
	r := (float64(value)*4 - c.O) * (1.8 / 163840) / c.R
	return c.UG * (c.GS*r*r + c.GI*r + d.offset(k))
}

// calibration is the text that answers a question for it.
func (d *Device) calibration() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Calibrated: %d\n", 1)
	put := func(name string, of func(cal) float64) {
		for k, c := range unit {
			fmt.Fprintf(&s, "%s%d: %v\n", name, k, of(c))
		}
	}
	put("R", func(c cal) float64 { return c.R })
	put("GS", func(c cal) float64 { return c.GS })
	put("GI", func(c cal) float64 { return c.GI })
	put("O", func(c cal) float64 { return c.O })
	if d.faults.Nan {
		for k := range unit {
			fmt.Fprintf(&s, "S%d: -nan\nI%d: -nan\n", k, k)
		}
	} else {
		put("S", func(c cal) float64 { return c.S })
		put("I", func(c cal) float64 { return c.I })
	}
	put("UG", func(c cal) float64 { return c.UG })
	fmt.Fprintf(&s, "VDD: %d\nHW: 9173\nmode: %d\nIA: 56\nEND\n", d.millivolts, d.mode)
	return s.String()
}

// commandBytes is the length of a command with its arguments; of others, one.
var commandBytes = map[byte]int{0x0c: 2, 0x0d: 3, 0x11: 2}

// obey takes commands.
func (d *Device) obey(b []byte) {
	for len(b) > 0 {
		n := max(1, commandBytes[b[0]])
		if len(b) < n {
			return
		}
		switch b[0] {
		case 0x06:
			if !d.streaming {
				d.start()
			}
		case 0x07:
			d.streaming = false
		case 0x0c:
			d.powered = b[1] == 1
		case 0x0d:
			d.millivolts = int(b[1])<<8 | int(b[2])
		case 0x11:
			d.mode = b[1]
		case 0x19:
			for range d.faults.Garbage {
				d.out = append(d.out, byte(d.loss.Uint32()))
			}
			text := d.calibration()
			if d.garbled < d.faults.Garbled {
				d.garbled++
				text = text[:200] + text[210:]
			}
			d.out = append(d.out, text...)
		}
		b = b[n:]
	}
}

// Open opens the meter as it is.
func (d *Device) Open() *Port { return &Port{d: d} }

// Port is the meter's serial line in the hands of one program.
type Port struct {
	d      *Device
	closed bool
}

var _ meters.Port = (*Port)(nil)

// HostNs reads the host clock.
func (p *Port) HostNs() int64 { return p.d.hostNs }

// Close closes the port; what the meter does goes on.
func (p *Port) Close() error {
	p.closed = true
	return nil
}

// Read hands over what has arrived by untilNs, as soon as there is something.
func (p *Port) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	d := p.d
	for {
		switch {
		case p.closed:
			return 0, d.hostNs, os.ErrClosed
		case len(d.out) > 0 && !d.gone():
			n = copy(b, d.out)
			d.out = d.out[:copy(d.out, d.out[n:])]
			return n, d.hostNs, nil
		case d.gone():
			return 0, d.hostNs, ErrAbsent
		case d.hostNs >= untilNs:
			return 0, d.hostNs, os.ErrDeadlineExceeded
		}
		d.advance(min(untilNs, d.hostNs+frameNs))
	}
}

// Write sends commands.
func (p *Port) Write(b []byte) error {
	d := p.d
	switch {
	case p.closed:
		return os.ErrClosed
	case d.gone():
		return ErrAbsent
	case d.refuse.Float64() < d.faults.Refused:
		d.advance(d.hostNs + timeoutNs)
		return errTimeout
	}
	d.obey(b)
	return nil
}
