package align

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// recording is a run made by hand: 100 samples a second of 1 W idle and 3 W in
// windows, whose power shows late by delay after the marks.
type recording struct {
	seconds float64
	delay   float64
	windows [][2]float64 // host s
	watts   func(t float64) float64
	lines   []string // more lines, "SECONDS TEXT"
	ticks   func(hostSeconds float64) uint64
}

func (c recording) play(t *testing.T) *run.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "run"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Driver: "test", Columns: []string{meters.Watts}, Wide: true, RateHz: 100,
		PacketSamples: 4, Sample: meters.Mean, Clock: meters.ByArrival})
	if err != nil {
		t.Fatal(err)
	}
	line := func(at float64, format string, args ...any) {
		if err := w.Line(run.Line{HostNs: int64(at * 1e9), Source: "uart", Text: fmt.Appendf(nil, format, args...)}); err != nil {
			t.Fatal(err)
		}
	}
	if c.ticks == nil {
		c.ticks = func(h float64) uint64 { return uint64(math.Round(h * 1e6)) }
	}
	line(0, "@jm hello proto=1 target=board tick_hz=1000000 tick_bits=64")
	for at := 0.1; at < c.seconds; at++ {
		line(at, "@jm sync seq=%d t=%d", int(at), c.ticks(at))
	}
	for i, x := range c.windows {
		line(x[1]+0.4, "@jm win w=%d alg=ML-KEM-768 op=encaps n=10 t0=%d t1=%d idle=wfi pre_us=400000 post_us=300000", i+1, c.ticks(x[0]), c.ticks(x[1]))
	}
	for _, l := range c.lines {
		at, text, _ := strings.Cut(l, " ")
		var seconds float64
		fmt.Sscan(at, &seconds)
		line(seconds, "%s", text)
	}
	power := c.watts
	if power == nil {
		power = func(t float64) float64 {
			for _, x := range c.windows {
				if t >= x[0] && t < x[1] {
					return 3
				}
			}
			return 1
		}
	}
	for k := 0; float64(k+4) <= c.seconds*100; k += 4 {
		p := make([]float64, 4)
		for i := range p {
			// The mean over the sample's period, by fine slices.
			for j := range 20 {
				p[i] += power((float64(k+i)+(float64(j)+0.5)/20)*0.01-c.delay) / 20
			}
		}
		if err := s.Write(meters.Block{ArrivalNs: int64(k+4) * 1e7, Values: [][]float64{p}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close("done", int64(c.seconds*1e9)); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// uneven windows, at no common phase against the samples.
func uneven(n int) [][2]float64 {
	var out [][2]float64
	at := 2.0
	for i := range n {
		long := 1.3 + 0.137*float64(i%5)
		out = append(out, [2]float64{at, at + long})
		at += long + 1.5 + 0.0631*float64(i%7)
	}
	return out
}

func TestOffsetIsFound(t *testing.T) {
	for _, delay := range []float64{0, 0.0123, 0.08, 0.14, -0.03} {
		r := recording{seconds: 40, delay: delay, windows: uneven(8)}.play(t)
		line, err := Align(r, "usb")
		if err != nil {
			t.Fatal(err)
		}
		if line.Method != ByEdges || math.Abs(line.Offset.Seconds-delay) > 1e-3 {
			t.Errorf("delay of %g s: %s, %.5f s ± %.5f s", delay, line.Method, line.Offset.Seconds, line.Offset.U)
		}
		if line.Offset.Edges != 16 || line.Offset.U > 1e-3 {
			t.Errorf("delay of %g s: %d edges, u %g s", delay, line.Offset.Edges, line.Offset.U)
		}
		for i, w := range line.Windows {
			want := uneven(8)[i][0] + delay
			if w.Excluded != "" || math.Abs(w.StartSeconds-want) > 2e-3 {
				t.Errorf("window %d begins at %.4f s, want %.4f s (%q)", w.W, w.StartSeconds, want, w.Excluded)
			}
		}
	}
}

func TestOffsetIsRefused(t *testing.T) {
	// 100 ms on, 100 ms off: a shift by one period would explain as much.
	var even [][2]float64
	for at := 2.0; at < 12; at += 0.2 {
		even = append(even, [2]float64{at, at + 0.1})
	}
	for _, c := range []struct {
		name string
		r    recording
		want string
	}{
		{"no step", recording{seconds: 40, windows: uneven(8), watts: func(float64) float64 { return 1 }}, "no power step"},
		{"not plausible", recording{seconds: 40, delay: 0.3, windows: uneven(8)}, "not plausible"},
		{"power falls in windows", recording{seconds: 40, windows: uneven(8), watts: func(t float64) float64 {
			for _, x := range uneven(8) {
				if t >= x[0] && t < x[1] {
					return 0.5
				}
			}
			return 1
		}}, "no power step"},
		{"one window that lies outside", recording{seconds: 10, windows: [][2]float64{{30, 31}}}, "fewer than two edges"},
		{"evenly spaced", recording{seconds: 15, windows: even}, "too short"},
	} {
		line, err := Align(c.r.play(t), "usb")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		warned := false
		for _, w := range line.Warnings {
			warned = warned || strings.Contains(w.Text, c.want) && w.Voids
		}
		if line.Method != ByArrival || !warned {
			t.Errorf("%s: method %s, warnings %v; want arrival, and %q", c.name, line.Method, line.Warnings, c.want)
		}
	}
}

func TestWindowsAreExcluded(t *testing.T) {
	c := recording{seconds: 40, windows: uneven(8)}
	c.lines = []string{
		"35 @jm win w=20 alg=X op=sign n=0 t0=1 t1=2",               // no operation
		"36 @jm win w=21 alg=X op=sign n=5 t0=34500000 t1=33500000", // backwards
		"37 @jm win w=22 alg=X op=sign n=5 t0=90000000 t1=91000000", // tells of the future
		"38 @jm win w=23 alg=X op=sign n=5 fail=1 t0=1000000 t1=1200000",
		"39 @jm begin op=sign",
	}
	line, err := Align(c.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]string{}
	for _, w := range line.Windows {
		got[w.W] = w.Excluded
	}
	for w, want := range map[int64]string{1: "", 8: "", 20: "n", 21: "ends before it begins", 22: "", 23: "1 of its 5 operations gave a wrong answer", 0: "never ends"} {
		text, ok := got[w]
		if w == 22 && ok && text != "" {
			continue // whichever reason
		}
		if !ok || want == "" && text != "" || !strings.Contains(text, want) {
			t.Errorf("window %d: excluded %q, want %q", w, text, want)
		}
	}
}

// A jump of the tick clock, back or forth, costs no window but one that it
// falls into.
func TestTickJumps(t *testing.T) {
	for _, jump := range []float64{-5, -3600, 3600} {
		c := recording{seconds: 60, windows: uneven(16)}
		at := c.windows[7][0] + 0.5 // within the eighth
		c.ticks = func(h float64) uint64 {
			x := 5000 + h
			if h >= at {
				x += jump
			}
			return uint64(math.Round(x * 1e6))
		}
		line, err := Align(c.play(t), "usb")
		if err != nil {
			t.Fatal(err)
		}
		if line.Method != ByEdges {
			t.Errorf("jump of %g s: %s, %v", jump, line.Method, line.Warnings)
		}
		for i, w := range line.Windows {
			if (w.W == 8) == (w.Excluded == "") {
				t.Errorf("jump of %g s: window %d is excluded for %q", jump, w.W, w.Excluded)
			}
			if w.Excluded == "" && math.Abs(w.StartSeconds-c.windows[w.W-1][0]) > 2e-3 {
				t.Errorf("jump of %g s: window %d (%d) begins at %.4f s, want %.4f s", jump, w.W, i, w.StartSeconds, c.windows[w.W-1][0])
			}
		}
	}
}

// Hand-instrumented firmware: begin and end without a clock of its own.
func TestBounds(t *testing.T) {
	var lines []string
	for _, x := range uneven(6) {
		lines = append(lines, fmt.Sprintf("%f @jm begin op=infer", x[0]+0.004), fmt.Sprintf("%f @jm end op=infer n=50", x[1]+0.004))
	}
	c := recording{seconds: 30, delay: 0.05, lines: lines, watts: func(t float64) float64 {
		for _, x := range uneven(6) {
			if t >= x[0] && t < x[1] {
				return 3
			}
		}
		return 1
	}}
	line, err := Align(c.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	if line.Method != ByEdges || math.Abs(line.Offset.Seconds-0.046) > 2e-3 || len(line.Windows) != 6 {
		t.Fatalf("%s, offset %.4f s, %d windows, %v", line.Method, line.Offset.Seconds, len(line.Windows), line.Warnings)
	}
	for i, w := range line.Windows {
		if w.Excluded != "" || w.N != 50 || math.Abs(w.Seconds-(uneven(6)[i][1]-uneven(6)[i][0])) > 1e-3 {
			t.Errorf("window %d: %+v", i, w)
		}
	}
	if len(line.Quiet) == 0 || !line.Quiet[0].Inferred {
		t.Errorf("idle is not inferred: %+v", line.Quiet)
	}
}
