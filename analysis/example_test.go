package analysis

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// page is the worked example of docs/method.md: named numbers in its lines.
type page struct {
	*testing.T
	text string
}

// numbers returns the numbers that pattern finds, group by group.
func (p page) numbers(pattern string) [][]float64 {
	p.Helper()
	var out [][]float64
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(p.text, -1) {
		for _, group := range m[1:] {
			var v []float64
			for _, s := range strings.Fields(strings.ReplaceAll(group, "|", " ")) {
				x, err := strconv.ParseFloat(s, 64)
				if err != nil {
					p.Fatalf("%q: %v", pattern, err)
				}
				v = append(v, x)
			}
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		p.Fatalf("the example holds no line like %q", pattern)
	}
	return out
}

// number returns the one number that pattern finds.
func (p page) number(pattern string) float64 {
	p.Helper()
	return p.numbers(pattern)[0][0]
}

// same compares a number of the page with what it should be, to the page's
// digits.
func (p page) same(what string, got, want, digit float64) {
	p.Helper()
	if !(math.Abs(got-want) <= digit/2+1e-12) {
		p.Errorf("%s: the page says %v, it is %.7g", what, got, want)
	}
}

// TestWorkedExample follows the worked example line by line, and lets the
// program work it out as well.
func TestWorkedExample(t *testing.T) {
	doc, err := os.ReadFile("../docs/method.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "## 8. A worked example\n")
	if !ok {
		t.Fatal("docs/method.md holds no worked example")
	}
	p := page{t, text}
	const idleSamples, inside, n = 2, 4, 2
	windows := p.numbers(`window \d: +([\d. |]+)`)
	energies := p.numbers(`E\d = [^\n]*= +([\d.]+) J`)
	levels := p.numbers(`b\d = \(([\d.]+) \+ ([\d.]+)\) / 2 = ([\d.]+) W`)
	if len(windows) != 3 || len(energies) != 3 || len(levels) != 9 {
		t.Fatalf("%d windows, %d energies, %d levels", len(windows), len(energies), len(levels))
	}
	var ends [][2]float64 // idle before and after
	total := 0.0
	for j, w := range windows {
		before, after := w[0], w[len(w)-1]
		ends = append(ends, [2]float64{before, after})
		p.same("idle before", levels[3*j][0], before, 0)
		p.same("idle after", levels[3*j+1][0], after, 0)
		b := (before + after) / 2
		p.same("baseline", levels[3*j+2][0], b, 0.001)
		e := 0.0
		for _, watts := range w {
			e += (watts - b) * 1
		}
		p.same("energy", energies[j][0], e, 0.1)
		total += e
	}
	value := total / (3 * n)
	p.same("sum", p.number(`sum E = ([\d.]+) J`), total, 0.1)
	p.same("J/op", p.number(`J/op = [^\n]*= +([\d.]+) J`), value, 0.1)
	squares := 0.0
	for _, e := range energies {
		z := e[0] - value*n
		squares += z * z
	}
	scatter := math.Sqrt(3.0 / 2 * squares / (3 * n * 3 * n))
	p.same("squares", p.number(`sum z\^2 = ([\d.]+) J\^2`), squares, 0.01)
	p.same("u_A", p.number(`u_A = [^\n]*= +([\d.]+) J`), scatter, 1e-6)
	gain := 0.01 * value
	p.same("gain", p.number(`gain: +a = [^\n]*= +([\d.]+) J`), gain, 1e-3)
	base := timeBase * value
	p.same("time base", p.number(`time base: +a = [^\n]*= +([\d.]+) J`), base, 1e-5)

	op := example(t, windows, ends, idleSamples, inside, n)
	for j, w := range op.windows {
		p.same(fmt.Sprintf("net of window %d, by the program", j+1), energies[j][0], float64(w.Net), 1e-6)
	}
	p.same("J/op by the program", value, float64(op.net.Value), 1e-6)
	p.same("scatter by the program", scatter, float64(op.net.URepeat), 1e-6)
	repeat := p.numbers(`repeatability: +([\d.]+) J to ([\d.]+) J`)
	p.same("lower end", repeat[0][0], float64(op.net.Lo95Repeat), 1e-4)
	p.same("upper end", repeat[1][0], float64(op.net.Hi95Repeat), 1e-4)
	p.same("t", p.number(`t\(0.975; 2\) = ([\d.]+)`), float64(op.net.Hi95Repeat-op.net.Value)/scatter, 1e-4)
	p.same("u", p.number(`\bu = [^\n]*= +([\d.]+) J`), float64(op.net.U), 1e-6)
	all := p.numbers(`total: +([\d.]+) J to ([\d.]+) J`)
	p.same("lower end of the total", all[0][0], float64(op.net.Lo95), 1e-3)
	p.same("upper end of the total", all[1][0], float64(op.net.Hi95), 1e-3)
}

// worked is what the program makes of the example.
type worked struct {
	windows []Window
	net     Quantity
}

// example plays the recording of the worked example: 8 s of idle before, between
// and after its windows, a sample a second.
func example(t *testing.T, windows [][]float64, ends [][2]float64, idleSamples, inside, n int) worked {
	t.Helper()
	const quiet = 8
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "example"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	accuracy, err := meters.ParseAccuracy("w=1%")
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "meter", Driver: "test", Columns: []string{meters.Watts}, Wide: true, RateHz: 1,
		Sample: meters.Mean, Clock: meters.Shared, Accuracy: accuracy})
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	line := func(seconds int, format string, args ...any) {
		if err := w.Line(run.Line{HostNs: int64(seconds) * 1e9, Source: "uart", Text: fmt.Appendf(nil, format, args...)}); err != nil {
			t.Fatal(err)
		}
	}
	beacon := func() { line(at, "@jm sync seq=%d t=%d", at, 1000*at) }
	var watts []float64
	idle := func(level float64, samples int) {
		for range samples {
			watts = append(watts, level)
		}
		at += samples
	}
	line(0, "@jm hello proto=1 target=board tick_hz=1000 tick_bits=64")
	beacon()
	idle(ends[0][0], quiet)
	for j, v := range windows {
		beacon()
		t0 := at
		during := v[idleSamples : len(v)-1] // with what the meter shows late
		watts = append(watts, during...)
		at += len(during)
		idle(ends[j][1], quiet-(len(during)-inside))
		line(at, "@jm win w=%d alg=X op=run n=%d t0=%d t1=%d idle=wfi pre_us=%d post_us=%d", j+1, n, 1000*t0, 1000*(t0+inside), quiet*1000000, quiet*1000000)
	}
	beacon()
	if err := s.Write(meters.Block{ArrivalNs: -1, Values: [][]float64{watts}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close("done", int64(at)*1e9); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := align.Align(r, "meter")
	if err != nil {
		t.Fatal(err)
	}
	res, err := Analyze(timeline, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Operations) != 1 {
		t.Fatalf("%d operations", len(res.Operations))
	}
	return worked{res.Windows, res.Operations[0].Net}
}
