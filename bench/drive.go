package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/joulemark/joulemark/bench/fnb58"
	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/fnirsi"
)

// recorder takes down what the host receives.
type recorder struct {
	begin  func(meters.Info, record.Break) error // a segment of the meter's stream
	block  func(meters.Block) error
	notice func(meters.Notice) error
}

// These make it the sink of a track.

func (r recorder) Begin(i meters.Info, why record.Break) error { return r.begin(i, why) }
func (r recorder) Block(b meters.Block) error                  { return r.block(b) }
func (r recorder) Note(n meters.Notice) error                  { return r.notice(n) }

// replugNs is how long a person takes to plug a meter in again, host ns.
const replugNs = int64(time.Second)

// drive is one recording through an emulated FNB58 and its real driver.
type drive struct {
	w      *World
	track  *record.Track
	device *fnb58.Device
	endNs  int64 // host ns at which the recording ends at the latest
	cancel context.CancelFunc

	failed error // of the recorder
	packet int64 // the last one that was recorded; -1: none
	row    int64 // recorded so far, all segments
}

// drive plays the meter's packets through the driver, and works out which of
// them were recorded.
func (w *World) drive(to recorder) error {
	d := &drive{w: w, track: record.NewTrack(to), packet: -1, endNs: nanoseconds(w.end) + int64(time.Second),
		device: fnb58.New(w.source(), w.s.Device, stream(w.seed, "device").Uint64())}
	w.truth.LostPackets = nil
	for port := d.device.Open(); port != nil; port = d.replug() {
		err := d.session(port)
		if d.failed != nil || err == nil {
			break
		}
		d.failed = d.track.Lost(d.device.HostNs(), err)
	}
	if d.failed == nil && d.packet < 0 {
		return fmt.Errorf("drive %s: %w", w.truth.Target, meters.ErrNoSamples)
	}
	return d.failed
}

// source takes the packets of the world's meter. After the end of the world it
// shows what it showed last.
func (w *World) source() fnb58.Source {
	i := int64(0)
	var p fnb58.Packet
	return func() fnb58.Packet {
		i++
		p.ReadyNs = nanoseconds(w.meter.ready(i * fnirsi.ReportSamples))
		p.ArriveNs = p.ReadyNs
		if i > int64(len(w.arrivals)) {
			return p
		}
		if p.ArriveNs = w.arrivals[i-1]; p.ArriveNs == 0 {
			p.ArriveNs = -1
		}
		volts, amps := w.meter.packet()
		levels := make([]float64, len(p.Readings))
		if w.pin != nil {
			levels = w.pin.packet()
		}
		for k := range p.Readings {
			r := fnb58.Reading{Volts: volts[k], Amps: amps[k], Celsius: 25}
			if w.s.Meter.Pin == DataMinus {
				r.DNVolts = levels[k]
			} else {
				r.DPVolts = levels[k]
			}
			p.Readings[k] = r
		}
		return p
	}
}

// session streams until the meter fails, or returns nil at the end.
func (d *drive) session(port meters.Port) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.cancel = cancel
	m, err := fnirsi.Driver.Open(ctx, &watched{port, d}, meters.Options{
		Serial: "0", Firmware: d.w.s.Device.Firmware, Notify: d.tell,
	})
	if err != nil {
		return err
	}
	info := m.Info()
	// What the bench knows better.
	own := d.w.Meter()
	info.Stream, info.Accuracy, info.Sample = own.Stream, own.Accuracy, own.Sample
	d.track.Open(info)
	err = m.Stream(ctx, d.emit)
	if closing := m.Close(); err == nil {
		err = closing
	}
	return err
}

// watched ends a session when the recording ends.
type watched struct {
	meters.Port
	d *drive
}

func (p *watched) Read(b []byte, untilNs int64) (int, int64, error) {
	n, hostNs, err := p.Port.Read(b, untilNs)
	if hostNs >= p.d.endNs {
		p.d.cancel()
	}
	return n, hostNs, err
}

func (d *drive) tell(n meters.Notice) {
	if d.failed == nil {
		d.failed = d.track.Notice(n)
	}
}

func (d *drive) emit(b meters.Block) error {
	if d.failed == nil && b.Len() > 0 {
		d.follow(b)
	}
	if d.failed == nil {
		d.failed = d.track.Block(b)
	}
	return d.failed
}

// follow keeps the truth of what is recorded, before a block of samples.
func (d *drive) follow(b meters.Block) {
	packet, truth := d.device.Last(), &d.w.truth
	if packet == int64(len(d.w.arrivals))-1 {
		d.cancel()
	}
	if d.packet < 0 {
		first := (packet+1)*fnirsi.ReportSamples - int64(b.Len())
		truth.FirstSampleSeconds = d.w.meter.ready(first)
	} else {
		for range packet - d.packet - 1 {
			truth.LostPackets = append(truth.LostPackets, d.row)
		}
	}
	d.packet = packet
	d.row += int64(b.Len())
}

// replug plugs the meter in again, as soon as it can be; nil if the recording
// ends before.
func (d *drive) replug() *fnb58.Port {
	for at := d.device.HostNs() + replugNs; at < d.endNs; at += replugNs {
		if p, err := d.device.Plug(at); err == nil {
			return p
		}
	}
	return nil
}
