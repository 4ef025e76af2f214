package ppk2_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	emulated "github.com/joulemark/joulemark/bench/ppk2"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/ppk2"
	"github.com/joulemark/joulemark/run"
)

// loop is a meter that always has samples, the same again and again: each read
// yields a millisecond of them.
type loop struct {
	text    []byte // of its calibration
	words   []byte
	at      int
	hostNs  int64
	command byte // the last one
}

// newLoop records an emulated meter for 100 turns of its counter: its load, too,
// then begins anew.
func newLoop(b *testing.B) *loop {
	b.Helper()
	d := emulated.New(func(s float64) emulated.Reading {
		return emulated.Reading{Amps: []float64{2e-3, 30e-3}[int(s*1000)%2], Digital: byte(s * 1e4)}
	}, emulated.Faults{}, 1)
	p := d.Open()
	l := &loop{}
	in := make([]byte, 1<<16)
	for _, command := range []byte{0x19, 0x06} {
		p.Write([]byte{command})
		for {
			n, _, err := p.Read(in, d.HostNs()+ms)
			if err != nil {
				b.Fatal(err)
			}
			if command == 0x19 {
				l.text = append(l.text, in[:n]...)
				break
			}
			if l.words = append(l.words, in[:n]...); len(l.words) == 4*64*100 {
				break
			}
		}
	}
	return l
}

func (l *loop) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	switch l.command {
	case 0x19:
		l.command = 0
		return copy(b, l.text), l.hostNs, nil
	case 0x06:
		n = copy(b, l.words[l.at:min(l.at+400, len(l.words))])
		l.at = (l.at + n) % len(l.words)
		l.hostNs += int64(n) / 4 * 10_000
		return n, l.hostNs, nil
	}
	l.hostNs = max(l.hostNs, untilNs)
	return 0, l.hostNs, os.ErrDeadlineExceeded
}

func (l *loop) Write(b []byte) error {
	l.command = b[0]
	return nil
}

func (l *loop) HostNs() int64 { return l.hostNs }
func (l *loop) Close() error  { return nil }

// stream hands over n blocks, and reports how much faster than real time.
func (l *loop) stream(b *testing.B, emit func(meters.Block) error) {
	m, err := ppk2.Driver.Open(context.Background(), l, meters.Options{Settings: map[string]string{"ampere": "3.3V"}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	blocks, samples := 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	err = m.Stream(ctx, func(block meters.Block) error {
		samples += block.Len()
		if blocks++; blocks >= b.N {
			cancel()
		}
		return emit(block)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(samples)/1e5/time.Since(start).Seconds(), "x-real-time")
}

// BenchmarkStream is the whole driver, a block of 1000 samples at a time.
func BenchmarkStream(b *testing.B) {
	newLoop(b).stream(b, func(meters.Block) error { return nil })
}

// BenchmarkRecord is the driver with the writer of runs behind it.
func BenchmarkRecord(b *testing.B) {
	w, err := run.Create(filepath.Join(b.TempDir(), "run"), run.Header{Tool: "test", Name: "ppk2", Simulated: true}, run.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l := newLoop(b)
	s, err := w.Stream(meters.Info{Stream: "ppk2", Driver: "ppk2", Columns: ppk2.Columns(), RateHz: 1e5, Sample: meters.UnknownKind, Clock: meters.ByArrival})
	if err != nil {
		b.Fatal(err)
	}
	l.stream(b, s.Write)
	if err := w.Close("done", l.hostNs); err != nil {
		b.Fatal(err)
	}
}
