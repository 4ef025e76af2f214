package ppk2_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	emulated "github.com/joulemark/joulemark/bench/ppk2"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/ppk2"
	"github.com/joulemark/joulemark/meters/serial"
)

var seconds = flag.Float64("seconds", 1, "how long the stream in real time is")

const ms = int64(time.Millisecond)

// What a sample says is worked out from the calibration's text by hand.
func TestWords(t *testing.T) {
	d := emulated.New(func(s float64) emulated.Reading {
		return emulated.Reading{Amps: 20e-3, Digital: byte(s * 1e5)}
	}, emulated.Faults{}, 1)
	p := d.Open()
	p.Write([]byte{0x19, 0x06})
	var got []byte
	b := make([]byte, 1<<16)
	for p.HostNs() < 20*ms {
		n, _, err := p.Read(b, 20*ms)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		got = append(got, b[:n]...)
	}
	text, stream, ok := strings.Cut(string(got), "END\n")
	for _, line := range []string{"Calibrated: 1\n", "R3: 0.9412\n", "O3: 69.02\n", "GS3: 0.11\n", "GI3: 0.9987\n", "S3: 4.2e-05\n", "I3: -8.2e-05\n", "UG3: 1.001\n", "mode: 1\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the calibration lacks %q", line)
		}
	}
	if !ok || len(stream) != 4*2000 {
		t.Fatalf("%d bytes of samples, want %d: %q", len(stream), 4*2000, text)
	}
	first := binary.LittleEndian.Uint32([]byte(stream)) >> 18 & 63
	for i := range 2000 {
		w := binary.LittleEndian.Uint32([]byte(stream[4*i:]))
		r := (float64(w&0x3fff)*4 - 69.02) * (1.8 / 163840) / 0.9412
		amps := 1.001 * (r*(0.11*r+0.9987) + 4.2e-5*3.3 - 8.2e-5)
		if i > 3 && math.Abs(amps-20e-3) > 30e-6 { // half of a step of four counts
			t.Fatalf("word %d is %g A", i, amps)
		}
		if k := w >> 14 & 7; k != 3 {
			t.Fatalf("word %d is of range %d", i, k)
		}
		if c := w >> 18 & 63; c != (first+uint32(i))%64 || byte(w>>24) != byte(i) && byte(w>>24) != byte(i-1) {
			t.Fatalf("word %d has counter %d and inputs %d", i, c, w>>24)
		}
	}
}

// The range follows the current, with hysteresis.
func TestRanges(t *testing.T) {
	amps := []float64{3e-6, 49e-6, 51e-6, 41e-6, 39e-6, 1, 50e-3, 47e-3, 0}
	want := []uint32{0, 0, 1, 1, 0, 4, 4, 3, 0}
	d := emulated.New(func(s float64) emulated.Reading {
		return emulated.Reading{Amps: amps[min(int(s*1000+1e-6), len(amps)-1)]}
	}, emulated.Faults{}, 1)
	p := d.Open()
	p.Write([]byte{0x06})
	b := make([]byte, 400)
	for i := range want {
		n, _, err := p.Read(b, 100*ms)
		if err != nil || n != 400 {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if k := binary.LittleEndian.Uint32(b[396:]) >> 14 & 7; k != want[i] {
			t.Errorf("%g A is in range %d, want %d", amps[i], k, want[i])
		}
	}
}

func TestUnplug(t *testing.T) {
	p := emulated.New(func(float64) emulated.Reading { return emulated.Reading{} }, emulated.Faults{UnplugSeconds: 0.5}, 1).Open()
	if _, _, err := p.Read(make([]byte, 10), 400*ms); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if _, _, err := p.Read(make([]byte, 10), 600*ms); err != emulated.ErrAbsent {
		t.Error(err)
	}
	if err := p.Write([]byte{0x06}); err != emulated.ErrAbsent {
		t.Error(err)
	}
	p.Close()
	if _, _, err := p.Read(make([]byte, 10), 0); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// A real serial line carries the full rate, and all samples arrive as they were
// sent. go test ./bench/ppk2 -run RealTime -args -seconds=60 is longer.
func TestRealTime(t *testing.T) {
	inner, outer, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminal here: %v", err)
	}
	defer inner.Close()
	if _, err := term.MakeRaw(int(inner.Fd())); err != nil {
		t.Fatal(err)
	}
	clock := meters.NewHostClock()
	d := emulated.New(func(s float64) emulated.Reading {
		return emulated.Reading{Amps: 30e-3 + 20e-3*math.Sin(s*700), Digital: byte(s * 1e4)}
	}, emulated.Faults{}, 1)
	var sent ledger
	d.Sent = sent.put
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type end struct {
		lost, awayNs int64
		err          error
	}
	pumped := make(chan end, 1)
	go func() {
		lost, awayNs, err := d.Pump(ctx, inner, clock)
		pumped <- end{lost, awayNs, err}
	}()

	port, err := serial.Open(outer.Name(), 115200, clock)
	if err != nil {
		t.Fatal(err)
	}
	outer.Close()
	var notices []meters.Notice
	m, err := ppk2.Driver.Open(ctx, port, meters.Options{Settings: map[string]string{"ampere": "3.3V", "spikes": "off"},
		Notify: func(n meters.Notice) { notices = append(notices, n) }})
	if err != nil {
		t.Fatal(err)
	}
	const settled = 5000
	want := int(*seconds * 1e5)
	var read, actual float64
	rows := 0
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	err = m.Stream(streaming, func(b meters.Block) error {
		for k, amps := range b.Values[1] {
			r, ok := sent.at(settled + rows)
			if inputs := byte(b.Values[2][k]) | byte(b.Values[9][k])<<7; ok && inputs != r.Digital&0x81 {
				return fmt.Errorf("sample %d has the inputs %02x, want %02x", rows, inputs, r.Digital)
			}
			read, actual = read+amps, actual+r.Amps
			rows++
		}
		if rows >= want {
			stop()
		}
		return nil
	})
	err = errors.Join(err, m.Close())
	cancel()
	e := <-pumped
	if busy := e.awayNs > 50*ms || overloaded(); busy && (err != nil || e.lost > 0 || len(notices) > 1) {
		t.Skipf("this machine is too busy for real time: the emulator could not run for %.3f s and lost %d samples", float64(e.awayNs)/1e9, e.lost)
	}
	if e.lost > 0 {
		t.Errorf("the meter lost %d samples that were not read in time: %v", e.lost, e.err)
	}
	for _, n := range notices {
		if n.Code != ppk2.Settling {
			t.Errorf("%s: %s", n.Code, n.Text)
		}
	}
	if err != nil || math.Abs(read/actual-1) > 1e-9 {
		t.Errorf("%d samples hold %.9g C, the meter sent %.9g C: %v", rows, read*1e-5, actual*1e-5, err)
	}
	t.Logf("%d samples, %.9g C", rows, read*1e-5)
}

// ledger keeps the last seconds of what an emulated meter sent.
type ledger struct {
	mu   sync.Mutex
	last [1 << 19]emulated.Reading
	n    int
}

func (l *ledger) put(_ int64, r emulated.Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[l.n%len(l.last)] = r
	l.n++
}

// at returns a reading by its number, if it is still kept.
func (l *ledger) at(i int) (r emulated.Reading, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[i%len(l.last)], i < l.n && i >= l.n-len(l.last)
}

// overloaded reports whether more programs want to run than this machine has
// processors for, twice over.
func overloaded() bool {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return false
	}
	var load float64
	_, err = fmt.Sscan(string(text), &load)
	return err == nil && load > 2*float64(runtime.NumCPU())
}
