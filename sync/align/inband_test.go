package align

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// pinRun is a run made by hand whose meter records a pin: 1 W idle, 3 W in
// windows, 100 samples a second.
type pinRun struct {
	seconds float64
	windows [][2]float64 // host s
	column  string       // dp_volts unless given
	pin     run.InBand
	low     float64
	high    float64 // V
	noise   float64 // V
	late    float64 // s, of the lines: arrivals alone are wrong by so much
	lag     float64 // s, of the power behind the pin
	lines   []string
	mute    bool                               // no win lines
	drop    func(w int) bool                   // windows whose statement is lost
	hello   string                             // instead of one with a rate of ticks
	spoil   func(i int, level float64) float64 // of sample i of the pin
	silent  func(i int) bool                   // packets that never came
}

func (c pinRun) play(t *testing.T) *run.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "run"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.column == "" {
		c.column = meters.DPVolts
	}
	if c.high == 0 {
		c.high = 2.8
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Driver: "test", Columns: []string{meters.Watts, c.column}, Wide: true, RateHz: 100,
		PacketSamples: 4, Sample: meters.Mean, Clock: meters.ByArrival})
	if err != nil {
		t.Fatal(err)
	}
	c.pin.Stream, c.pin.Column = "usb", c.column
	if err := w.InBand(c.pin); err != nil {
		t.Fatal(err)
	}
	line := func(at float64, format string, args ...any) {
		if err := w.Line(run.Line{HostNs: int64((at + c.late) * 1e9), Source: "uart", Text: fmt.Appendf(nil, format, args...)}); err != nil {
			t.Fatal(err)
		}
	}
	ticks := func(h float64) uint64 { return uint64(math.Round(h * 1e6)) }
	if c.hello == "" {
		c.hello = "@jm hello proto=1 target=board tick_hz=1000000 tick_bits=64"
	}
	line(0, "%s", c.hello)
	if strings.Contains(c.hello, "tick_hz") {
		for at := 0.1; at < c.seconds; at++ {
			line(at, "@jm sync seq=%d t=%d", int(at), ticks(at))
		}
	}
	for i, x := range c.windows {
		if !c.mute && (c.drop == nil || !c.drop(i+1)) {
			line(x[1]+0.4, "@jm win w=%d alg=ML-KEM-768 op=encaps n=10 t0=%d t1=%d idle=wfi pre_us=400000 post_us=300000", i+1, ticks(x[0]), ticks(x[1]))
		}
	}
	for _, l := range c.lines {
		at, text, _ := strings.Cut(l, " ")
		var seconds float64
		fmt.Sscan(at, &seconds)
		line(seconds, "%s", text)
	}
	share := func(from, to float64) float64 {
		sum := 0.0
		for _, x := range c.windows {
			sum += math.Max(0, math.Min(to, x[1])-math.Max(from, x[0]))
		}
		return sum / (to - from)
	}
	draws := rand.New(rand.NewPCG(7, 7))
	for k := 0; float64(k+4) <= c.seconds*100; k += 4 {
		p, v := make([]float64, 4), make([]float64, 4)
		for i := range p {
			from := float64(k+i) * 0.01
			p[i] = 1 + 2*share(from-c.lag, from+0.01-c.lag) + 0.01*draws.NormFloat64()
			y := share(from, from+0.01)
			if c.pin.Active == 0 {
				y = 1 - y
			}
			v[i] = c.low + (c.high-c.low)*y + c.noise*draws.NormFloat64()
			if c.column[0] == 'd' && len(c.column) == 2 {
				v[i] = math.Round(y)
			}
			if c.spoil != nil {
				v[i] = c.spoil(k+i, v[i])
			}
		}
		if c.silent != nil && c.silent(k) {
			continue
		}
		if err := s.Write(meters.Block{ArrivalNs: int64(k+4) * 1e7, Values: [][]float64{p, v}}); err != nil {
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

func high() run.InBand { return run.InBand{Active: 1} }

// warned reports whether a warning holds a text.
func (t *Timeline) warned(text string) bool {
	for _, w := range t.Warnings {
		if strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}

func TestPinPlacesWindows(t *testing.T) {
	xs := uneven(8)
	for _, c := range []struct {
		name string
		r    pinRun
	}{
		{"data line", pinRun{pin: high()}},
		{"noisy line, small swing", pinRun{pin: high(), low: 0.05, high: 0.6, noise: 0.04}},
		{"active low", pinRun{}},
		{"digital input", pinRun{pin: high(), column: "d0"}},
		{"lines late by 90 ms", pinRun{pin: high(), late: 0.09}},
		{"missing values", pinRun{pin: high(), spoil: func(i int, v float64) float64 {
			if i%37 == 5 {
				return math.NaN()
			}
			return v
		}}},
		{"glitches", pinRun{pin: high(), spoil: func(i int, v float64) float64 {
			if i%53 == 5 {
				return 2.8 - v
			}
			return v
		}}},
	} {
		c.r.seconds, c.r.windows = 30, xs
		line, err := Align(c.r.play(t), "usb")
		if err != nil {
			t.Fatal(c.name, err)
		}
		if line.Method != InBand || line.Offset.Seconds != 0 || line.Offset.U < 0.002 || line.Offset.U > 0.02 {
			t.Errorf("%s: %s, %+v, %v", c.name, line.Method, line.Offset, line.Warnings)
		}
		if len(line.Windows) != len(xs) {
			t.Fatalf("%s: %d windows", c.name, len(line.Windows))
		}
		off := 0
		for i, w := range line.Windows {
			if w.Excluded != "" || w.W != int64(i+1) || w.N != 10 || math.Abs(w.Seconds-(xs[i][1]-xs[i][0])) > 1e-4 {
				t.Errorf("%s: window %d: %+v", c.name, i+1, w)
			}
			if math.Abs(w.From-xs[i][0]) > 0.0051 || math.Abs(w.To-xs[i][1]) > 0.0051 {
				off++
			}
		}
		if most := map[string]int{"missing values": 2, "glitches": 2}[c.name]; off > most {
			t.Errorf("%s: %d windows off by more than half a sample", c.name, off)
		}
		for _, q := range line.Quiet {
			for _, x := range xs {
				if q.From < x[1]-0.011 && q.To > x[0]+0.011 {
					t.Errorf("%s: quiet from %g to %g in a window", c.name, q.From, q.To)
				}
			}
		}
	}
}

func TestPinWithoutStatements(t *testing.T) {
	xs := uneven(4)
	for _, c := range []struct {
		name    string
		pin     run.InBand
		op      string
		n       int64
		warning bool
	}{
		{"declared", run.InBand{Active: 1, Alg: "ML-KEM-768", Op: "encaps", N: 7}, "encaps", 7, false},
		{"unnamed", run.InBand{Active: 1}, unnamed, 1, true},
		{"named, not counted", run.InBand{Active: 1, Op: "encaps"}, "encaps", 1, true},
	} {
		line, err := Align(pinRun{seconds: 15, windows: xs, pin: c.pin, mute: true}.play(t), "usb")
		if err != nil {
			t.Fatal(err)
		}
		if len(line.Windows) != len(xs) || line.Method != InBand {
			t.Fatalf("%s: %s, %d windows", c.name, line.Method, len(line.Windows))
		}
		for i, w := range line.Windows {
			if w.Excluded != "" || w.Op != c.op || w.N != c.n || w.W != int64(i+1) || math.Abs(w.Seconds-(xs[i][1]-xs[i][0])) > 0.011 {
				t.Errorf("%s: %+v", c.name, w)
			}
		}
		if len(line.Quiet) != len(xs)+1 || !line.Quiet[0].Inferred {
			t.Errorf("%s: quiet %+v", c.name, line.Quiet)
		}
		if got := line.warned("each is taken for one"); got != c.warning {
			t.Errorf("%s: warnings %v", c.name, line.Warnings)
		}
	}
}

func TestPinIsFusedByBounds(t *testing.T) {
	// begin and end without ticks: only their arrivals, 20 to 60 ms late.
	xs := uneven(5)
	r := pinRun{seconds: 18, windows: xs, pin: high(), mute: true}
	for i, x := range xs {
		r.lines = append(r.lines, fmt.Sprintf("%.3f @jm begin alg=a op=x%d n=3", x[0]+0.02, i),
			fmt.Sprintf("%.3f @jm end op=x%d", x[1]+0.02+0.01*float64(i), i))
	}
	line, err := Align(r.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range line.Windows {
		if w.Excluded != "" || w.Op != fmt.Sprintf("x%d", i) || w.N != 3 || math.Abs(w.From-xs[i][0]) > 0.0051 || math.Abs(w.Seconds-(xs[i][1]-xs[i][0])) > 0.011 {
			t.Errorf("%+v", w)
		}
	}
}

func TestPinIsFusedByOrder(t *testing.T) {
	// A target that never states the rate of its ticks, and sends no beacon.
	xs := uneven(5)
	line, err := Align(pinRun{seconds: 18, windows: xs, pin: high(), hello: "@jm hello proto=1 target=board"}.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range line.Windows {
		if w.Excluded != "" || w.W != int64(i+1) || math.Abs(w.From-xs[i][0]) > 0.0051 {
			t.Errorf("%+v", w)
		}
	}
}

// What does not agree is named, and counts for nothing.
func TestPinMismatch(t *testing.T) {
	xs := uneven(6)
	line, err := Align(pinRun{seconds: 20, windows: xs, pin: high(), drop: func(w int) bool { return w == 3 },
		// The pin falls too early in window 5.
		spoil: func(i int, v float64) float64 {
			if x := xs[4]; float64(i) > (x[1]-0.5)*100 && float64(i) < x[1]*100+2 {
				return 0
			}
			return v
		},
		lines: []string{"19.6 @jm win w=77 alg=a op=b n=1 t0=19000000 t1=19200000 idle=wfi pre_us=300000 post_us=300000"},
	}.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	excluded := map[int64]string{}
	counted := 0
	for _, w := range line.Windows {
		if w.Excluded == "" {
			counted++
		} else {
			excluded[w.W] = w.Excluded
		}
	}
	if counted != 4 || !strings.Contains(excluded[5], "the pin was active for") || !strings.Contains(excluded[77], "not active") ||
		excluded[78] != "no statement tells what ran" || excluded[79] != excluded[78] {
		t.Errorf("%d windows count, %v", counted, excluded)
	}
	if !line.warned("2 statements of windows and 2 activities of the pin") {
		t.Errorf("warnings: %v", line.Warnings)
	}
}

// Windows that follow each other evenly fit in many ways, and none is guessed.
func TestPinAliases(t *testing.T) {
	var xs [][2]float64
	for at := 2.0; at < 8; at += 0.08 {
		xs = append(xs, [2]float64{at, at + 0.04})
	}
	c := pinRun{seconds: 10, windows: xs, pin: high(), drop: func(w int) bool { return w == 1 || w == 50 }}
	line, err := Align(c.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range line.Windows {
		if w.Excluded == "" {
			t.Fatalf("%+v counts", w)
		}
	}
}

func TestPinIsRefused(t *testing.T) {
	xs := uneven(6)
	for _, c := range []struct {
		name, want string
		r          pinRun
	}{
		{"never changes", "one level only", pinRun{spoil: func(int, float64) float64 { return 0.1 }}},
		{"open line", "one level only, between", pinRun{high: 0.02, noise: 0.02}},
		{"close levels", "one level only, between 1.00 V and 1.1", pinRun{low: 1, high: 1.1}},
		{"noisy", "too noisy", pinRun{high: 1, noise: 0.4}},
		{"digital, never", "one level only", pinRun{column: "d1", spoil: func(int, float64) float64 { return 1 }}},
		{"one glitch", "one level only", pinRun{spoil: func(i int, _ float64) float64 { return map[bool]float64{true: 2.8}[i == 500] }}},
	} {
		c.r.pin, c.r.seconds, c.r.windows = high(), 20, xs
		line, err := Align(c.r.play(t), "usb")
		if err != nil {
			t.Fatal(err)
		}
		if !line.warned(c.want) || c.name != "digital, never" && line.Method != ByEdges {
			t.Errorf("%s: %s, %v", c.name, line.Method, line.Warnings)
		}
	}
	// A line that carries data.
	w := newWatch(0, 100)
	for i := range 10 {
		w.see(float64(i)*0.01, float64(i%2))
	}
	if len(w.end()) > 0 {
		t.Errorf("a level that changes at every sample was active %v", w.found)
	}
}

// A column that the meter does not give is no pin.
func TestPinWithoutColumn(t *testing.T) {
	r := pinRun{seconds: 20, windows: uneven(6), pin: high()}.play(t)
	line, err := Align(r, "usb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := line.readPin(run.InBand{Column: "d3", Active: 1}); !errors.Is(err, errNoLevels) || !strings.Contains(err.Error(), "no column d3") {
		t.Error(err)
	}
}

// Samples that are missing at an edge leave it unknown; a packet that was lost
// without trace moves no edge after it.
func TestPinWithLosses(t *testing.T) {
	xs := uneven(8)
	edge := int(xs[2][0]*100) / 4 * 4
	line, err := Align(pinRun{seconds: 30, windows: xs, pin: high(),
		spoil:  func(i int, v float64) float64 { return v },
		silent: func(i int) bool { return i == edge || i == 1200 },
	}.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range line.Windows {
		switch {
		case w.W == 3:
			if !strings.Contains(w.Excluded, "are missing") {
				t.Errorf("window 3: %q", w.Excluded)
			}
		case w.W > int64(len(xs)):
			t.Errorf("%+v", w)
		case w.Excluded != "" || math.Abs(w.From-xs[w.W-1][0]) > 0.0051:
			t.Errorf("window %d from %g, want %g: %q", w.W, w.From, xs[w.W-1][0], w.Excluded)
		}
	}
}

func TestPowerBesideThePin(t *testing.T) {
	xs := uneven(8)
	line, err := Align(pinRun{seconds: 30, windows: xs, pin: high(), lag: 0.1}.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	if line.Method != InBand || !line.warned("the steps of power stand 100 ms after the edges of the pin") || line.Offset.U < 0.09 {
		t.Errorf("%+v, %v", line.Offset, line.Warnings)
	}
}

// A watch never yields activities that run backwards or overlap, whatever it
// sees.
func FuzzWatch(f *testing.F) {
	f.Add([]byte{0, 0, 9, 9, 9, 0, 0, 255, 9, 9}, true)
	f.Add([]byte{9, 9, 9, 4, 5, 4, 5, 0, 0}, false)
	f.Fuzz(func(t *testing.T, level []byte, timed bool) {
		rate := 100.0
		if timed {
			rate = 0
		}
		w := newWatch(0, rate)
		x := 0.0
		for i, v := range level {
			if x += 0.01; v > 200 {
				x += float64(v-200) * 0.01
				continue
			}
			w.see(x, float64(v)/9+float64(i%3)*1e-3)
		}
		last := math.Inf(-1)
		for _, a := range w.end() {
			if !(a.from >= last && a.to >= a.from && a.to <= x+timedHole && a.hole >= 0) {
				t.Fatalf("%v: %+v after %g", level, a, last)
			}
			last = a.to
		}
	})
}

// Idle time that was stated moves with the statements, and one activity is no
// two windows.
func TestPinMovesIdle(t *testing.T) {
	xs := uneven(6)
	c := pinRun{seconds: 22, windows: xs, pin: high(), late: 0.09}
	for i, x := range xs[1:] {
		from, to := xs[i][1]+0.75, x[0]-0.02
		c.lines = append(c.lines, fmt.Sprintf("%.3f @jm idle w=%d t0=%.0f t1=%.0f mode=sleep", x[0]-0.01, i+2, from*1e6, to*1e6))
	}
	last := xs[5]
	c.lines = append(c.lines, fmt.Sprintf("21.5 @jm win w=50 alg=a op=b n=1 t0=%.0f t1=%.0f idle=wfi pre_us=400000 post_us=300000", last[0]*1e6, last[1]*1e6))
	line, err := Align(c.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, q := range line.Quiet {
		if q.Mode != "sleep" {
			continue
		}
		for _, x := range xs[1:] {
			// At most a sample and the scatter of the pairs early, and never late.
			if early := x[0] - 0.02 - q.To; early > -0.005 && early < 0.02 {
				found++
			}
		}
	}
	if found != len(xs)-1 {
		t.Errorf("%d of %d idle intervals end where they should: %+v", found, len(xs)-1, line.Quiet)
	}
	for _, w := range line.Windows {
		if twice := w.W == 6 || w.W == 50; twice != strings.Contains(w.Excluded, "two statements claim") && w.W <= 50 {
			t.Errorf("window %d: %q", w.W, w.Excluded)
		}
	}
}

// A pin that is low within windows and declared to be high is found out, and one
// that is declared rightly is not.
func TestInvertedPin(t *testing.T) {
	xs := uneven(8)
	for _, c := range []struct {
		name string
		r    pinRun
		want bool
	}{
		{"wrong", pinRun{pin: high(), mute: true, spoil: func(_ int, v float64) float64 { return 2.8 - v }}, true},
		{"right", pinRun{pin: high(), mute: true}, false},
		{"low", pinRun{mute: true}, false},
	} {
		c.r.seconds, c.r.windows = 30, xs
		line, err := Align(c.r.play(t), "usb")
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got := line.warned("active=low"); got != c.want {
			t.Errorf("%s: warnings are %v", c.name, line.Warnings)
		}
	}
}
