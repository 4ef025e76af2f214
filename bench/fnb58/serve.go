package fnb58

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// held is how many reports wait for a host that does not read; later ones are
// lost. How many a real meter keeps is not known; a second's worth lets a slow
// machine come late.
const held = 25

// Served is a meter that is served while time passes, behind a file whose
// reads and writes are reports: that of a gadget.
type Served struct {
	device *Device
	port   *Port
	file   io.ReadWriter
	hostNs func() int64
	log    io.Writer

	offers   chan offer
	commands chan []byte
	reports  chan sentReport
	failed   chan error
}

type offer struct {
	Packet
	index int64
}

// sentReport is a report as the log shows it.
type sentReport struct {
	HostNs int64   `json:"host_ns"`
	Packet int64   `json:"packet"` // -1: it is none of samples
	Volts  float64 `json:"volts"`  // sum over the samples as sent, V
	Amps   float64 `json:"amps"`   // likewise, A
	Lost   bool    `json:"lost,omitempty"`
	Report []byte  `json:"report"`
}

// Serve makes a meter without a source answer behind a file, by a clock that
// began when the meter was made. Each report is written to log as a line of
// JSON, whether it could be sent or not.
func Serve(d *Device, file io.ReadWriter, hostNs func() int64, log io.Writer) *Served {
	return &Served{device: d, port: d.Open(), file: file, hostNs: hostNs, log: log,
		offers: make(chan offer), commands: make(chan []byte), reports: make(chan sentReport, held), failed: make(chan error, 1)}
}

// Offer gives it the next packet of readings, complete now. It returns when
// the meter has it or ctx ends.
func (s *Served) Offer(ctx context.Context, readings [4]Reading, index int64) {
	now := s.hostNs()
	select {
	case s.offers <- offer{Packet{Readings: readings, ReadyNs: now, ArriveNs: now}, index}:
	case <-ctx.Done():
	}
}

// Run serves until ctx ends or the file fails. The file is the caller's to
// close, which ends a read that still waits.
func (s *Served) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.read(ctx)
	go s.write(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if due := s.device.due(); due < math.MaxInt64 {
			timer.Reset(time.Duration(due - s.hostNs()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.failed:
			return err
		case o := <-s.offers:
			s.device.Offer(o.Packet, o.index)
		case c := <-s.commands:
			s.device.advance(s.hostNs())
			s.port.Write(c) // one that is refused shows in what follows
		case <-timer.C:
		}
		if err := s.hand(); err != nil {
			return err
		}
	}
}

// hand hands on what is due.
func (s *Served) hand() error {
	for {
		r := sentReport{Packet: -1, Report: make([]byte, 64)}
		_, hostNs, err := s.port.Read(r.Report, s.hostNs())
		if err != nil {
			return nil // nothing more
		}
		r.HostNs = hostNs
		if r.Report[1] == 0x04 {
			r.Packet = s.device.Last()
			r.Volts, r.Amps = sums(r.Report)
		}
		select {
		case s.reports <- r:
		default:
			r.Lost = true
		}
		if err := s.note(r); err != nil {
			return err
		}
	}
}

// sums adds up the samples of a report.
func sums(report []byte) (volts, amps float64) {
	for k := range 4 {
		b := report[2+15*k:]
		volts += float64(binary.LittleEndian.Uint32(b)) / 1e5
		amps += float64(binary.LittleEndian.Uint32(b[4:])) / 1e5
	}
	return volts, amps
}

func (s *Served) note(r sentReport) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = s.log.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write log of reports: %w", err)
	}
	return nil
}

func (s *Served) read(ctx context.Context) {
	for {
		b := make([]byte, 64)
		n, err := s.file.Read(b)
		if err != nil {
			s.failed <- fmt.Errorf("read commands: %w", err)
			return
		}
		select {
		case s.commands <- b[:n]:
		case <-ctx.Done():
			return
		}
	}
}

// write writes reports. What cannot be written, as while the meter is unplugged,
// is lost.
func (s *Served) write(ctx context.Context) {
	for {
		select {
		case r := <-s.reports:
			s.file.Write(r.Report)
		case <-ctx.Done():
			return
		}
	}
}
