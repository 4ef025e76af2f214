package marks

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench/benchtest"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// world is a clock that moves only when somebody sleeps or works.
type world struct {
	ns    uint64
	lines []run.Line
}

func (w *world) pass(d time.Duration) { w.ns += uint64(d) }

// Write implements io.Writer: lines arrive at once.
func (w *world) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		w.lines = append(w.lines, run.Line{HostNs: int64(w.ns), Source: "uart", Text: bytes.Clone(bytes.TrimSuffix(line, []byte("\n")))})
	}
	return len(b), nil
}

func (w *world) writer(o Options) *Writer {
	m := New(w, o)
	m.now = func() uint64 { return w.ns }
	m.sleep = w.pass
	m.phase = func() time.Duration { return 50 * time.Millisecond }
	return m
}

func TestWire(t *testing.T) {
	w := &world{ns: 1e9}
	m := w.writer(Options{})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(m.Hello(mark.Hello{Target: "pi1", ISA: "armv6", Bits: 32, Impl: "circl", CC: "gc go1.26"}))
	check(m.Idle(2 * time.Second))
	check(m.Window(Load{Alg: "ML-DSA-44", Op: "sign", N: 100, Key: "3"}, func() error { w.pass(2 * time.Second); return nil }))
	check(m.Begin(Load{Alg: "Ed25519", Op: "verify", N: 7}))
	w.pass(time.Second)
	check(m.End())
	check(m.Statement(mark.Note{Text: "done"}.Statement()))
	want := []string{
		"hello proto=1 target=pi1 isa=armv6 bits=32 tick_hz=1000000000 tick_bits=64 impl=circl cc=gc%20go1.26",
		"sync seq=0 t=1000000000",
		"idle w=0 t0=1020000000 t1=3020000000 mode=os",
		"sync seq=1 t=5790000000",
		"win w=1 alg=ML-DSA-44 op=sign n=100 t0=3440000000 t1=5440000000 idle=os pre_us=400000 post_us=350000 key=3",
		"begin op=verify alg=Ed25519 n=7 t=5790000000",
		"end op=verify alg=Ed25519 n=7 t=6790000000",
		"note text=done",
	}
	if len(w.lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(w.lines), len(want))
	}
	var d mark.Decoder
	for i, l := range w.lines {
		s, ok := d.Decode(l.Text)
		if got := strings.TrimPrefix(s.String(), "@jm "); !ok || !s.Checked || got != want[i] {
			t.Errorf("line %d is %q (accepted: %v), want %q", i, got, ok, want[i])
		}
	}
}

// Nothing is written from the quiet zone before a window to the one after it.
func TestQuiet(t *testing.T) {
	w := &world{}
	m := w.writer(Options{Quiet: time.Second, Idle: "spin"})
	if err := m.Statement(mark.Note{Text: "before"}.Statement()); err != nil {
		t.Fatal(err)
	}
	err := m.Window(Load{Alg: "spin", Op: "run", N: 1}, func() error { w.pass(time.Second); return nil })
	if err != nil {
		t.Fatal(err)
	}
	s, err := mark.Parse(w.lines[len(w.lines)-1].Text)
	if err != nil {
		t.Fatal(err)
	}
	win, err := mark.ParseWin(s)
	if err != nil {
		t.Fatal(err)
	}
	from, to := int64(win.T0)-win.PreUs*1000, int64(win.T1)+win.PostUs*1000
	if win.PostUs != 1_000_000 || win.PreUs < win.PostUs || win.Idle != "spin" {
		t.Errorf("window is %+v", win)
	}
	for _, l := range w.lines {
		if l.HostNs > from && l.HostNs < to {
			t.Errorf("%s was written at %d, within [%d, %d]", l.Text, l.HostNs, from, to)
		}
	}
}

// Between the readings of the clock nothing is allocated: not by Window, nor
// from the time that Begin states to the time that End states.
func TestAllocations(t *testing.T) {
	m := New(discard{}, Options{})
	s := mark.Statement{Kind: "sync"}
	var before, after float64
	m.now = func() uint64 { return 1 }
	before = testing.AllocsPerRun(100, func() { mark.Append(m.line[:0], s) })
	after = testing.AllocsPerRun(100, func() { m.stamped(s) })
	if after > before {
		t.Errorf("stating the time allocates %v times beside %v for the rest", after-before, before)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestRefusals(t *testing.T) {
	w := &world{}
	m := w.writer(Options{})
	failed := errors.New("out of entropy")
	ran := false
	for name, err := range map[string]error{
		"no operations":  m.Window(Load{Alg: "a", Op: "b"}, func() error { ran = true; return nil }),
		"no algorithm":   m.Window(Load{Op: "b", N: 1}, func() error { ran = true; return nil }),
		"begin of none":  m.Begin(Load{Alg: "a", Op: "b", N: -1}),
		"end of none":    m.End(),
		"a long name":    m.Statement(mark.Note{Text: strings.Repeat("x", 2000)}.Statement()),
		"a key too long": m.Window(Load{Alg: "a", Op: "b", N: 1, Key: strings.Repeat("x", 2000)}, func() error { return nil }),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := m.Window(Load{Alg: "a", Op: "b", N: 1}, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a failure of the work is %v", err)
	}
	if ran {
		t.Error("work ran in a window that cannot be stated")
	}
	for _, l := range w.lines {
		if bytes.Contains(l.Text, []byte("win")) {
			t.Errorf("%s is stated", l.Text)
		}
	}
}

// From a program to J/op: 1 W at rest, 3 W at work.
func TestFromProgramToEnergy(t *testing.T) {
	w := &world{}
	m := w.writer(Options{})
	var busy [][2]uint64
	if err := m.Hello(mark.Hello{Target: "pi1"}); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		err := m.Window(Load{Alg: "ML-DSA-44", Op: "sign", N: 100}, func() error {
			from := w.ns
			w.pass(2 * time.Second)
			busy = append(busy, [2]uint64{from, w.ns})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	res := analyzed(t, w.lines, busy)
	if len(res.Operations) != 1 {
		t.Fatalf("operations are %v", res.Operations)
	}
	op := res.Operations[0]
	if v := float64(op.Net.Value); op.Windows != 6 || op.IdleMode != "os" || v < 0.0398 || v > 0.0402 {
		t.Errorf("net(%s) is %g J/op of %d windows, want 0.04", op.IdleMode, v, op.Windows)
	}
}

// analyzed records lines beside a meter that shows 1 W, and 3 W in the busy
// intervals, ns.
func analyzed(t *testing.T, lines []run.Line, busy [][2]uint64) analysis.Results {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Name: "marks"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Columns: []string{meters.Watts}, RateHz: 100, Sample: meters.Mean, Clock: meters.Shared, Accuracy: meters.Accuracy{Exact: true}})
	if err != nil {
		t.Fatal(err)
	}
	watts := make([]float64, (busy[len(busy)-1][1]+2e9)/1e7)
	for i := range watts {
		watts[i] = 1
		for _, b := range busy {
			if at := uint64(i) * 1e7; at >= b[0] && at < b[1] {
				watts[i] = 3
			}
		}
	}
	if err := s.Write(meters.Block{ArrivalNs: -1, Values: [][]float64{watts}}); err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if err := w.Line(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close("done", int64(len(watts))*1e7); err != nil {
		t.Fatal(err)
	}
	line := benchtest.Align(t, benchtest.Open(t, dir))
	res := benchtest.Analyze(t, line, analysis.Options{})
	return res
}
