package plots

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/sync/align"
)

var update = flag.Bool("update", false, "write the golden files anew")

// quantity is a value with a repeatability of ± repeat and a total interval of
// ± total; where total is 0 it is not stated.
func quantity(value, repeat, total float64) analysis.Quantity {
	n := analysis.Num(math.NaN())
	q := analysis.Quantity{Value: analysis.Num(value), U: n, Lo95: n, Hi95: n, URepeat: n, DofRepeat: n, UShared: n,
		Lo95Repeat: analysis.Num(value - repeat), Hi95Repeat: analysis.Num(value + repeat)}
	if total > 0 {
		q.Lo95, q.Hi95 = analysis.Num(value-total), analysis.Num(value+total)
	}
	return q
}

func operation(alg, op string, q analysis.Quantity) analysis.Operation {
	return analysis.Operation{Alg: alg, Op: op, IdleMode: "wfi", Windows: 3, Count: 30, Net: q, Gross: q}
}

// results is a run of two operations with one excluded window.
func results(name string, bits int, scale float64) analysis.Results {
	r := analysis.Results{Schema: analysis.ResultsSchema, Run: name, Baseline: analysis.Local, Simulated: true,
		Meter:     analysis.Meter{Name: "usb", Driver: "virtual", SamplesHz: 100},
		Target:    analysis.Target{Name: name, Bits: bits},
		Alignment: analysis.Alignment{Method: align.ByEdges, Offset: 0.0403, U: 0.0002, Edges: 12, RunnerUp: 0.4},
		Operations: []analysis.Operation{
			operation("ML-DSA-44", "sign", quantity(2e-3*scale, 4e-5*scale, 6e-5*scale)),
			operation("ML-DSA-44", "verify", quantity(1e-3*scale, 2e-5*scale, 0)),
		},
	}
	for i := range 6 {
		w := analysis.Window{W: int64(i + 1), Alg: "ML-DSA-44", Op: []string{"sign", "verify"}[i%2], N: 10, IdleMode: "wfi",
			T0: analysis.Num(1 + 3*i), T1: analysis.Num(3 + 3*i), Idle: 0.1, Coverage: 1}
		w.Net = r.Operations[i%2].Net.Value * 10 * analysis.Num(1+0.01*float64(i-2))
		w.Gross = w.Net + 0.2
		if i == 3 {
			w.Net, w.Gross, w.Idle, w.Excluded = null, null, null, "samples cover 10 % of it"
		}
		r.Windows = append(r.Windows, w)
	}
	return r
}

// power is 0.1 W, and 0.3 W in the windows of results, in stretches of 50
// samples at 100 Hz; from 16 s to 17 s nothing was recorded.
func power(yield func(align.Stretch, error) bool) {
	watts := make([]float64, 50)
	for at := 0.0; at < 20; at += 0.5 {
		if at >= 16 && at < 17 {
			continue
		}
		for i := range watts {
			t := at + float64(i)/100
			if watts[i] = 0.1; math.Mod(t+2, 3) < 2 && t >= 1 {
				watts[i] = 0.3
			}
		}
		watts[7] = math.NaN()
		if !yield(align.Stretch{StartSeconds: at, PeriodSeconds: 0.01, Watts: watts}, nil) {
			return
		}
	}
}

// fold is a step whose response rises from -w to w.
func fold(edges int, w float64) align.Fold {
	f := align.Fold{Edges: edges}
	for s := -0.4; s <= 0.4; s += 0.02 {
		f.Seconds = append(f.Seconds, s)
		f.Level = append(f.Level, math.Min(math.Max((s+w)/(2*w), 0), 1))
	}
	return f
}

func must(f Figure, err error) Figure {
	if err != nil {
		panic(err)
	}
	return f
}

func figures() map[string]Figure {
	narrow, wide := results("rv32", 32, 1), results("amd64", 64, 0.01)
	wide.Operations[1].Voided = true
	alone := results("a <run> & more", 0, 1)
	alone.Simulated = false
	alone.Alignment.Method = align.BySharing
	window := View{FromSeconds: 6.5, ToSeconds: 9.5, Columns: 60, Of: "window 3", Quiet: [][2]float64{{6.6, 7}, {9, 9.3}}}
	return map[string]Figure{
		"trace":        must(Trace(narrow, power, View{ToSeconds: 20, Columns: 80})),
		"trace-window": must(Trace(alone, power, window)),
		"bars":         must(Bars([]analysis.Results{narrow})),
		"bars-log":     must(Bars([]analysis.Results{narrow, wide})),
		"edges":        must(Edges(narrow, fold(12, 0.03), []align.Fold{fold(1, 0.02), fold(1, 0.04)})),
		"edges-shared": must(Edges(alone, fold(12, 0.03), nil)),
		"repeats":      must(Repeats(narrow)),
	}
}

// The figures are compared as data exactly, and as drawn byte by byte.
func TestGolden(t *testing.T) {
	for name, f := range figures() {
		data, err := json.MarshalIndent(f, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		svg, err := f.SVG()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(data, '\n'))
		golden(t, name+".svg", svg)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
		for i := range min(len(a), len(b)) {
			if !bytes.Equal(a[i], b[i]) {
				t.Fatalf("%s differs in line %d (go test ./plots -update, and look at it):\n got %s\nwant %s", name, i+1, a[i], b[i])
			}
		}
		t.Fatalf("%s: %d lines, want %d", name, len(a), len(b))
	}
}

func TestFigureSurvivesJSON(t *testing.T) {
	for name, f := range figures() {
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back Figure
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		a, errA := f.SVG()
		b, errB := back.SVG()
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: the figure read back draws otherwise (%v, %v)", name, errA, errB)
		}
	}
}

func TestPNG(t *testing.T) {
	for name, f := range figures() {
		data, err := f.PNG()
		if err != nil {
			t.Fatal(err)
		}
		if !Ours(data[:1024]) {
			t.Errorf("%s: the PNG does not say who drew it", name)
		}
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		size := img.Bounds().Size()
		if size.X != 1200 || size.Y < 150 || size.Y > 1000 {
			t.Errorf("%s: %d x %d pixels", name, size.X, size.Y)
		}
		dark := 0
		for y := range size.Y {
			for x := range size.X {
				if r, g, b, _ := img.At(x, y).RGBA(); r+g+b < 3*0xD000 {
					dark++
				}
			}
		}
		if share := float64(dark) / float64(size.X*size.Y); share < 0.005 || share > 0.7 {
			t.Errorf("%s: %.1f %% of it is drawn", name, 100*share)
		}
	}
}

func TestOurs(t *testing.T) {
	svg, err := figures()["bars"].SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		head string
		want bool
	}{
		{string(svg[:1024]), true}, {"", false}, {"<?xml version=\"1.0\"?>\n<svg></svg>", false},
		{"notes: drawn by joulemark", false}, {"\x89PNG\r\n\x1a\n", false},
	} {
		if Ours([]byte(c.head)) != c.want {
			t.Errorf("Ours(%.40q) is not %v", c.head, c.want)
		}
	}
}

func TestSimulatedIsInThePicture(t *testing.T) {
	for name, f := range figures() {
		svg, err := f.SVG()
		if err != nil {
			t.Fatal(err)
		}
		if f.Simulated != bytes.Contains(svg, []byte(">SIMULATED<")) {
			t.Errorf("%s: simulated is %v, the picture says otherwise", name, f.Simulated)
		}
	}
}

// The mean of the columns is the energy of the samples over their time, and no
// sample leaves its range, however columns and samples fall on each other.
func TestColumnsKeepEnergy(t *testing.T) {
	for _, n := range []int{1, 3, 7, 100, 1000, 5000} {
		c := newColumns(View{FromSeconds: 1.003, ToSeconds: 2.017, Columns: n})
		watts := make([]float64, 300)
		for i := range watts {
			watts[i] = 1 + math.Sin(float64(i))
		}
		c.add(align.Stretch{StartSeconds: 0, PeriodSeconds: 0.01, Watts: watts})
		got, seconds, lo, hi := 0.0, 0.0, math.Inf(1), math.Inf(-1)
		for k := range c.joules {
			got, seconds = got+c.joules[k], seconds+c.seconds[k]
			lo, hi = min(lo, c.lo[k]), max(hi, c.hi[k])
		}
		want, wantLo, wantHi := 0.0, math.Inf(1), math.Inf(-1)
		for i, w := range watts {
			if d := math.Min(2.017, float64(i+1)/100) - math.Max(1.003, float64(i)/100); d > 1e-12 {
				want += w * d
				wantLo, wantHi = min(wantLo, w), max(wantHi, w)
			}
		}
		if math.Abs(got-want) > 1e-9 || math.Abs(seconds-1.014) > 1e-9 || lo != wantLo || hi != wantHi {
			t.Errorf("%d columns: %.9f J over %.9f s from %g to %g W, want %.9f J, from %g to %g W", n, got, seconds, lo, hi, want, wantLo, wantHi)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	empty := analysis.Results{Run: "r"}
	nan := func(yield func(align.Stretch, error) bool) {
		yield(align.Stretch{StartSeconds: 0, PeriodSeconds: 1, Watts: []float64{math.NaN(), math.Inf(1)}}, nil)
	}
	broken := errors.New("broken disk")
	fails := func(yield func(align.Stretch, error) bool) { yield(align.Stretch{}, broken) }
	unstated := results("r", 32, math.NaN())
	for name, err := range map[string]error{
		"no values":     second(Trace(empty, nan, View{ToSeconds: 2})),
		"no samples":    second(Trace(empty, nan, View{FromSeconds: 5, ToSeconds: 6})),
		"no span":       second(Trace(empty, nan, View{FromSeconds: 2, ToSeconds: 2})),
		"no end":        second(Trace(empty, nan, View{ToSeconds: math.Inf(1)})),
		"no bars":       second(Bars([]analysis.Results{empty})),
		"no value":      second(Bars([]analysis.Results{unstated})),
		"no edges":      second(Edges(empty, align.Fold{}, nil)),
		"no repeats":    second(Repeats(empty)),
		"null repeats":  second(Repeats(unstated)),
		"no such panel": second(nil, func() error { _, err := (Figure{}).SVG(); return err }()),
	} {
		if !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := second(Trace(empty, fails, View{ToSeconds: 2})); !errors.Is(err, broken) {
		t.Errorf("a failing disk: %v", err)
	}
}

func second(_ any, err error) error { return err }

// What recordings may hold in the extreme is drawn, or refused in words.
func TestExtremes(t *testing.T) {
	one := func(w float64) iter.Seq2[align.Stretch, error] {
		return func(yield func(align.Stretch, error) bool) {
			yield(align.Stretch{StartSeconds: 0, PeriodSeconds: 1, Watts: []float64{w}}, nil)
		}
	}
	figs := map[string]Figure{}
	for _, w := range []float64{0, 1, -1, 1e-300, 1e300, -1e300, 5e-324} {
		figs[fmt.Sprintf("one sample of %g W", w)] = must(Trace(analysis.Results{Run: "r"}, one(w), View{ToSeconds: 1}))
	}
	figs["1e12 seconds"] = must(Trace(analysis.Results{Run: "r"}, one(1), View{ToSeconds: 1e12}))
	figs["a nanosecond"] = must(Trace(analysis.Results{Run: "r"}, one(1), View{FromSeconds: 0.5, ToSeconds: 0.5 + 1e-9}))
	hostile := results("r\x00\xff"+strings.Repeat("long ", 100), 64, 1e-12)
	hostile.Operations[0].Alg, hostile.Operations[0].Op = "</text><script>", "\x1b[31m"
	hostile.Operations[1].Net = quantity(-1, 5, 1e9)
	figs["hostile bars"] = must(Bars([]analysis.Results{hostile}))
	figs["hostile repeats"] = must(Repeats(hostile))
	figs["hostile trace"] = must(Trace(hostile, power, View{ToSeconds: 20}))
	for name, f := range figs {
		svg, err := f.SVG()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if bytes.ContainsAny(svg, "\x00\x1b") || !utf8.Valid(svg) || bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) || bytes.Contains(svg, []byte("<script>")) {
			t.Errorf("%s: the SVG holds what no reader accepts", name)
		}
		if _, err := f.PNG(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := analysis.Results{Run: "r", Baseline: analysis.Local}
	for i := range maxRows + 1 {
		many.Operations = append(many.Operations, operation(fmt.Sprint(i), "run", quantity(1, 0.1, 0)))
	}
	if _, err := Bars([]analysis.Results{many}); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("%d bars: %v", maxRows+1, err)
	}
}

// Windows beyond what can be told apart are left out, and said so.
func TestTooManyWindows(t *testing.T) {
	r := results("r", 32, 1)
	w := r.Windows[0]
	r.Windows = nil
	for i := range maxShaded + 1 {
		w.T0, w.T1 = analysis.Num(float64(i)*0.01), analysis.Num(float64(i)*0.01+0.005)
		r.Windows = append(r.Windows, w)
	}
	f := must(Trace(r, power, View{ToSeconds: 20}))
	if n := len(f.Panels[0].Layers); n != 2 {
		t.Errorf("%d layers, want 2", n)
	}
	if note := f.Notes[len(f.Notes)-1]; !strings.Contains(note, "1001 windows are in view") {
		t.Errorf("note %q", note)
	}
}

func FuzzTicks(f *testing.F) {
	f.Add(0.0, 1.0, 5, false)
	f.Add(1e-4, 1.0, 5, true)
	f.Add(-3.2e-9, 4.1e12, 3, false)
	f.Add(1e300, 1.0000000001e300, 9, false)
	f.Fuzz(func(t *testing.T, lo, hi float64, n int, log bool) {
		n = 1 + int(uint(n)%40)
		a := Axis{Unit: "J", Min: lo, Max: hi, Log: log}
		if (Figure{WidthPoints: DefaultWidth, Panels: []Panel{{X: a, Y: Axis{Max: 1}}}}).check() != nil {
			return
		}
		ticks := a.ticks(n)
		if !log && len(ticks) > max(n, 8)+2 || len(ticks) > 9*700 {
			t.Fatalf("%d ticks for %d", len(ticks), n)
		}
		for _, k := range ticks {
			if s := a.share(k.at); !(s > -1e-6 && s < 1+1e-6) {
				t.Fatalf("tick %g (%g) lies outside %g to %g", k.at, s, lo, hi)
			}
		}
	})
}

// samples yields n samples at 1 kHz in stretches of 4096.
func samples(n int) iter.Seq2[align.Stretch, error] {
	watts := make([]float64, 4096)
	for i := range watts {
		watts[i] = 0.1 + 0.01*math.Sin(float64(i))
	}
	return func(yield func(align.Stretch, error) bool) {
		for at := 0; at < n; at += len(watts) {
			s := align.Stretch{StartSeconds: float64(at) * 1e-3, PeriodSeconds: 1e-3, Watts: watts[:min(len(watts), n-at)]}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// Memory does not grow with the length of the run.
func TestTraceMemoryIsFlat(t *testing.T) {
	allocs := func(n int) float64 {
		return testing.AllocsPerRun(1, func() { must(Trace(results("r", 32, 1), samples(n), View{ToSeconds: float64(n) * 1e-3})) })
	}
	if short, long := allocs(1e5), allocs(1e6); long > short+10 {
		t.Errorf("%.0f allocations for 10^5 samples, %.0f for 10^6", short, long)
	}
}

func BenchmarkTrace(b *testing.B) {
	const n = 10_000_000
	b.SetBytes(n * 8)
	b.ReportAllocs()
	for b.Loop() {
		must(Trace(results("r", 32, 1), samples(n), View{ToSeconds: n * 1e-3}))
	}
}

func BenchmarkDraw(b *testing.B) {
	f := figures()["trace"]
	b.Run("svg", func(b *testing.B) {
		for b.Loop() {
			f.SVG()
		}
	})
	b.Run("png", func(b *testing.B) {
		for b.Loop() {
			f.PNG()
		}
	})
}
