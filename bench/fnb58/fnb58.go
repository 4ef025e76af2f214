// Package fnb58 emulates a FNIRSI FNB58 at the level of its reports, in virtual
// time: nothing sleeps and no clock is read, but by Served, which ties a meter
// to the wall clock. It shares no code with the driver
// that it is there to test. What is known of the meter, and from whom, stands
// in the documentation of meters/fnirsi.
package fnb58

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Reading is one sample that the meter has taken.
type Reading struct {
	Volts, Amps, DPVolts, DNVolts, Celsius float64
}

// Packet is four readings, 40 ms of the meter's clock.
type Packet struct {
	Readings [4]Reading
	ReadyNs  int64 // host ns at which the last of them is complete
	// ArriveNs is the host time at which the host has it, if the meter sends
	// it; negative if it is lost on the way.
	ArriveNs int64
}

// Source takes the meter's readings, a packet after the other, whether the
// meter sends them or not.
type Source func() Packet

// Every makes a source of a meter with a perfect clock that reads f of host
// seconds, at the middle of each sample. Packets arrive a millisecond after
// they are complete.
func Every(f func(hostSeconds float64) Reading) Source {
	i := int64(0)
	return func() Packet {
		var p Packet
		for k := range p.Readings {
			p.Readings[k] = f((float64(4*i+int64(k)) + 0.5) / 100)
		}
		i++
		p.ReadyNs = i * 40 * int64(time.Millisecond)
		p.ArriveNs = p.ReadyNs + int64(time.Millisecond)
		return p
	}
}

// Faults are what an emulated meter does wrong. Times are host seconds; 0 is
// never. Loss, jitter and bursts are those of the packets' arrival times;
// repeated values and smoothing are those of the readings.
type Faults struct {
	Firmware      string  `scn:"firmware"`                     // as the driver is told; 0.68 freezes between commands
	Stale         int     `scn:"stale" in:"0..4"`              // samples after a start that are left over from before
	Info          float64 `scn:"info" in:"0..1"`               // probability of a report of kind 03 before one of samples
	Damaged       float64 `scn:"damaged" in:"0..1"`            // probability that a byte of a report is wrong
	Refused       float64 `scn:"refused" in:"0..1"`            // probability that a command times out
	FreezeSeconds float64 `scn:"freeze_seconds" in:"0..1e6"`   // when it freezes, until it is plugged in again
	PauseSeconds  float64 `scn:"pause_seconds" in:"0..1e6"`    // when it stops as if nobody had told it to go on
	DeafSeconds   float64 `scn:"deaf_seconds" in:"0..1e6"`     // and for how long it then takes no notice of commands
	UnplugSeconds float64 `scn:"unplug_seconds" in:"0..1e6"`   // when it is unplugged
	AbsentSeconds float64 `scn:"absent_seconds" in:"0..86400"` // for how long it then is absent
}

const (
	// After the last command that it takes, a meter sends for 1.00 to 1.08 s.
	leastRunNs, mostRunNs = 1000 * int64(time.Millisecond), 1080 * int64(time.Millisecond)
	answerNs              = 2 * int64(time.Millisecond) // of a hello; assumed
	timeoutNs             = 100 * int64(time.Millisecond)
	// restlessNs is how long firmware 0.68 stays alive without a command. It
	// freezes with one every second and not with one for each report; where
	// between is not known.
	restlessNs = 300 * int64(time.Millisecond)
)

// ErrAbsent is the error of a port whose meter is unplugged, or frozen where a
// replug would be needed.
var ErrAbsent = errors.New("no such device")

var errTimeout = errors.New("the write timed out")

// Device is one emulated meter. Virtual time passes where a port reads.
type Device struct {
	source Source
	faults Faults

	info, damage, refusal, runs *rand.Rand

	hostNs   int64
	next     Packet
	index    int64 // of next
	queue    []report
	last     int64 // index of the packet that was read last
	running  bool
	untilNs  int64 // it runs
	fresh    bool  // nothing sent since the start
	frozen   bool
	wasFroze bool  // by FreezeSeconds, once
	wasPause bool  // by PauseSeconds, once
	command  int64 // host ns of the last one
	unplugs  bool  // the unplugging is still to come
}

// report is on its way to the host.
type report struct {
	arriveNs int64
	index    int64 // of its packet; -1: no samples
	bytes    [64]byte
}

// New makes a meter at host time 0. Equal arguments make equal meters. Without
// a source, the meter takes the packets that it is offered.
func New(source Source, f Faults, seed uint64) *Device {
	draws := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	d := &Device{source: source, faults: f, info: draws(1), damage: draws(2), refusal: draws(3), runs: draws(4),
		last: -1, unplugs: f.UnplugSeconds > 0}
	if source == nil {
		d.next.ReadyNs = math.MaxInt64
	} else {
		d.next = source()
	}
	return d
}

// Offer gives a meter without a source the next packet, which is complete and
// would be at the host by now: the device's time has come to p.ReadyNs.
func (d *Device) Offer(p Packet, index int64) {
	d.advance(p.ReadyNs)
	d.index = index
	d.put(p)
}

// due is the host time at which something arrives next, as far as it is known.
func (d *Device) due() int64 {
	if len(d.queue) == 0 {
		return math.MaxInt64
	}
	return d.queue[0].arriveNs
}

// HostNs reads the host clock.
func (d *Device) HostNs() int64 { return d.hostNs }

// Last returns the index of the packet of samples that was read last, counted
// from 0 whether the meter sent it or not; -1 before the first.
func (d *Device) Last() int64 { return d.last }

// Plug waits until a host time (or not at all, if it has passed), plugs the
// meter in again and opens it. It fails with ErrAbsent while the meter is
// absent.
func (d *Device) Plug(hostNs int64) (*Port, error) {
	d.advance(hostNs)
	if d.absent() {
		return nil, ErrAbsent
	}
	d.running, d.frozen, d.queue = false, false, nil
	if d.unplugs && d.hostNs >= nanoseconds(d.faults.UnplugSeconds) {
		d.unplugs = false
	}
	return d.Open(), nil
}

// Open opens the meter as it is.
func (d *Device) Open() *Port { return &Port{d: d} }

func nanoseconds(s float64) int64 { return int64(math.Round(s * 1e9)) }

// gone reports whether the meter was unplugged and not plugged in since.
func (d *Device) gone() bool { return d.unplugs && d.hostNs >= nanoseconds(d.faults.UnplugSeconds) }

func (d *Device) absent() bool {
	return d.gone() && d.hostNs < nanoseconds(d.faults.UnplugSeconds+d.faults.AbsentSeconds)
}

// advance lets time pass until a host time.
func (d *Device) advance(untilNs int64) {
	for d.next.ReadyNs <= untilNs {
		d.take()
	}
	d.hostNs = max(d.hostNs, untilNs)
}

// take takes the next packet.
func (d *Device) take() {
	p := d.next
	d.next = d.source()
	d.put(p)
	d.index++
}

// put sends a packet, if the meter is to.
func (d *Device) put(p Packet) {
	d.change(p.ReadyNs)
	if !d.running || d.frozen || d.unplugs && p.ReadyNs >= nanoseconds(d.faults.UnplugSeconds) {
		return
	}
	if d.info.Float64() < d.faults.Info {
		d.send(report{arriveNs: p.ReadyNs + answerNs, index: -1, bytes: seal([64]byte{1: 0x03})})
	}
	r := report{arriveNs: p.ArriveNs, index: d.index, bytes: d.encode(p)}
	if d.damage.Float64() < d.faults.Damaged {
		r.bytes[d.damage.IntN(64)] ^= byte(1 + d.damage.IntN(255))
	}
	d.fresh = false
	if p.ArriveNs >= 0 {
		d.send(r)
	}
}

// change lets happen to the meter what is due at a host time.
func (d *Device) change(ns int64) {
	if d.running && ns > d.untilNs {
		d.running = false
	}
	if at := nanoseconds(d.faults.FreezeSeconds); at > 0 && ns >= at && !d.wasFroze {
		d.wasFroze, d.frozen = true, true
	}
	if at := nanoseconds(d.faults.PauseSeconds); at > 0 && ns >= at && !d.wasPause {
		d.wasPause, d.running = true, false
	}
	if d.faults.Firmware == "0.68" && d.running && ns > d.command+restlessNs {
		d.frozen = true
	}
}

// deaf reports whether commands go unnoticed.
func (d *Device) deaf() bool {
	at := nanoseconds(d.faults.PauseSeconds)
	return d.frozen || d.wasPause && d.hostNs < at+nanoseconds(d.faults.DeafSeconds)
}

// send keeps the order of reports.
func (d *Device) send(r report) {
	if n := len(d.queue); n > 0 {
		r.arriveNs = max(r.arriveNs, d.queue[n-1].arriveNs)
	}
	d.queue = append(d.queue, r)
}

// encode makes the report of a packet. Currents have no sign.
func (d *Device) encode(p Packet) [64]byte {
	b := [64]byte{1: 0x04}
	for k, r := range p.Readings {
		if d.fresh && k < d.faults.Stale {
			r = Reading{Volts: 188.74370, Amps: 170.39408, DPVolts: 51.840, Celsius: r.Celsius}
		}
		s := b[2+15*k:]
		binary.LittleEndian.PutUint32(s[0:], uint32(counts(r.Volts, 1e5, math.MaxUint32)))
		binary.LittleEndian.PutUint32(s[4:], uint32(counts(math.Abs(r.Amps), 1e5, math.MaxUint32)))
		binary.LittleEndian.PutUint16(s[8:], uint16(counts(r.DPVolts, 1e3, math.MaxUint16)))
		binary.LittleEndian.PutUint16(s[10:], uint16(counts(r.DNVolts, 1e3, math.MaxUint16)))
		s[12] = 1
		binary.LittleEndian.PutUint16(s[13:], uint16(counts(r.Celsius, 10, math.MaxUint16)))
	}
	return seal(b)
}

func counts(v, per, limit float64) float64 { return min(max(math.Round(v*per), 0), limit) }

// seal completes a report with its first and last byte.
func seal(b [64]byte) [64]byte {
	b[0], b[63] = 0xaa, crc(b[1:63])
	return b
}

// crc divides bit by bit.
func crc(data []byte) byte {
	c := byte(0x42)
	for _, x := range data {
		for bit := 7; bit >= 0; bit-- {
			carry := c>>7 ^ x>>bit&1
			c = c<<1 ^ carry*0x39
		}
	}
	return c
}

// Port is the meter's HID interface in the hands of one program.
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

// Read hands over the next report that has arrived by untilNs.
func (p *Port) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	d := p.d
	for {
		if p.closed {
			return 0, d.hostNs, os.ErrClosed
		}
		if len(d.queue) > 0 && d.queue[0].arriveNs <= max(d.hostNs, min(untilNs, d.next.ReadyNs)) {
			r := d.queue[0]
			d.advance(r.arriveNs)
			if !d.gone() {
				d.queue = d.queue[1:]
				if r.index >= 0 {
					d.last = r.index
				}
				return copy(b, r.bytes[:]), d.hostNs, nil
			}
		}
		if d.gone() {
			return 0, d.hostNs, ErrAbsent
		}
		if d.next.ReadyNs > untilNs {
			d.advance(untilNs)
			return 0, d.hostNs, os.ErrDeadlineExceeded
		}
		d.advance(d.next.ReadyNs)
	}
}

// Write sends a command. What is no command is ignored.
func (p *Port) Write(b []byte) error {
	d := p.d
	switch {
	case p.closed:
		return os.ErrClosed
	case d.gone():
		return ErrAbsent
	case d.refusal.Float64() < d.faults.Refused:
		d.advance(d.hostNs + timeoutNs)
		return errTimeout
	}
	d.change(d.hostNs)
	if len(b) != 64 || b[0] != 0xaa || crc(b[1:63]) != b[63] || d.deaf() {
		return nil
	}
	d.command = d.hostNs
	switch {
	case b[1] == 0x81:
		d.send(report{arriveNs: d.hostNs + answerNs, index: -1, bytes: seal([64]byte{1: 0x03})})
	case b[1] == 0x82:
		d.fresh = d.fresh || !d.running
		d.running = true
		d.extend()
	case b[1] == 0x83 && d.running:
		d.extend()
	}
	return nil
}

// extend lets the meter run on from now.
func (d *Device) extend() {
	d.untilNs = d.hostNs + leastRunNs + d.runs.Int64N(mostRunNs-leastRunNs)
}
