package coverage

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/internal/imports"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// The energy traces of the MLPerf Tiny results were recorded at 1000 samples a
// second by an instrument for this purpose. Made worse as a cheap meter with
// late marks would have it, they must still give the same energy within the
// stated interval.

// degradation says how a trace is made worse.
type degradation struct {
	rateHz        float64
	point         bool    // one sample of many, instead of their mean
	smoothSeconds float64 // a running mean before that
	lateSeconds   float64 // every edge is late by up to this
}

func (d degradation) String() string {
	s := fmt.Sprintf("%3.0f S/s, ", d.rateHz)
	if d.point {
		s += "points"
	} else {
		s += "means"
	}
	if d.smoothSeconds > 0 {
		s += fmt.Sprintf(", smoothed by %.0f ms", 1e3*d.smoothSeconds)
	}
	if d.lateSeconds > 0 {
		s += fmt.Sprintf(", edges late by up to %.0f ms", 1e3*d.lateSeconds)
	}
	return s
}

func degradations() []degradation {
	var out []degradation
	for _, rate := range []float64{100, 25} {
		for _, smooth := range []float64{0, 0.12} {
			for _, late := range []float64{0, 0.04} {
				out = append(out, degradation{rate, false, smooth, late}, degradation{rate, true, smooth, late})
			}
		}
	}
	return out
}

// publishedTrace is one recording at full rate.
type publishedTrace struct {
	name    string
	rateHz  float64
	watts   []float64
	windows []run.Window
	gross   float64 // J per operation at full rate, between the edges
	net     float64 // likewise above the idle beside the windows
}

// publishedFolder finds a folder beside the module, or skips.
func publishedFolder(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "shared", "data", "energyrunner")
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
	}
	t.Skip("no folder shared/data/energyrunner in any parent: the published recordings are not here")
	return ""
}

func readPublished(t *testing.T, dir string) publishedTrace {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	if _, err := imports.Import(context.Background(), imports.Options{Samples: dir, Out: out, Tool: "test"}, nil); err != nil {
		t.Fatal(err)
	}
	p := publishedTrace{name: filepath.Base(dir), gross: operationOf(t, out, analysis.None).Gross.value(), net: operationOf(t, out, analysis.Local).Net.value()}
	r, err := run.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	p.rateHz = r.Streams[0].RateHz
	for b, err := range r.Samples(r.Streams[0].Stream) {
		if err != nil {
			t.Fatal(err)
		}
		p.watts = append(p.watts, b.Columns[meters.Watts]...)
	}
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Window != nil {
			p.windows = append(p.windows, *rec.Window)
		}
	}
	return p
}

func operationOf(t *testing.T, dir string, b analysis.Baseline) operationResult {
	t.Helper()
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	line, err := align.Align(r, r.Streams[0].Stream)
	if err != nil {
		t.Fatal(err)
	}
	res, err := analysis.Analyze(line, analysis.Options{Baseline: b})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Operations) != 1 {
		t.Fatalf("%d operations", len(res.Operations))
	}
	return operationResult{quantity(res.Operations[0].Gross), quantity(res.Operations[0].Net)}
}

type (
	quantity        analysis.Quantity
	operationResult struct{ Gross, Net quantity }
)

func (q quantity) value() float64 { return float64(q.Value) }

// off is how far q lies from the truth, and its half width, both relative.
func (q quantity) off(truth float64) (off, half float64) {
	return q.value()/truth - 1, float64(q.Hi95Repeat-q.Lo95Repeat) / 2 / truth
}

func (q quantity) holds(truth float64) bool {
	return float64(q.Lo95Repeat) <= truth && truth <= float64(q.Hi95Repeat)
}

// degrade writes a run of the trace made worse. Its windows stand on the sample
// clock, or are lines that arrive when they begin and end.
func (p publishedTrace) degrade(t *testing.T, d degradation, lines bool, dir string) {
	t.Helper()
	watts := p.watts
	if n := int(d.smoothSeconds * p.rateHz); n > 0 {
		sums := cumulate(p.watts)
		watts = make([]float64, len(p.watts))
		for k := range watts {
			from := max(0, k+1-n)
			watts[k] = (sums[k+1] - sums[from]) / float64(k+1-from)
		}
	}
	every := int(math.Round(p.rateHz / d.rateHz))
	var coarse []float64
	for k := 0; k+every <= len(watts); k += every {
		v := watts[k+every/2]
		if !d.point {
			v = 0
			for _, x := range watts[k : k+every] {
				v += x / float64(every)
			}
		}
		coarse = append(coarse, v)
	}
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "degraded"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "meter", Driver: "test", Columns: []string{meters.Watts}, Wide: true, RateHz: d.rateHz,
		Sample: meters.UnknownKind, Clock: meters.Shared})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(meters.Block{ArrivalNs: -1, Values: [][]float64{coarse}}); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 0))
	for _, x := range p.windows {
		late := func() float64 { return d.lateSeconds * d.rateHz * r.Float64() }
		x.From, x.To = x.From/float64(every)+late(), x.To/float64(every)+late()
		if !lines {
			if err := w.Window(x); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, l := range []struct {
			at   float64
			text string
		}{{x.From, "@jm begin op=infer"}, {x.To, fmt.Sprintf("@jm end op=infer n=%d", x.N)}} {
			if err := w.Line(run.Line{HostNs: int64(l.at / d.rateHz * 1e9), Source: "marks", Text: []byte(l.text)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close("done", 0); err != nil {
		t.Fatal(err)
	}
}

func TestDegradedTraces(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(publishedFolder(t), "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d folders, %v", len(folders), err)
	}
	slices.Sort(folders)
	var table strings.Builder
	table.WriteString("| recording | made worse | gross off by | its half width | net off by | its half width |\n|---|---|---|---|---|---|\n")
	for _, dir := range folders {
		p := readPublished(t, dir)
		for i, d := range degradations() {
			for _, lines := range []bool{false, true} {
				out := filepath.Join(t.TempDir(), fmt.Sprint(i))
				p.degrade(t, d, lines, out)
				gross, net := operationOf(t, out, analysis.None).Gross, operationOf(t, out, analysis.Local).Net
				gOff, gHalf := gross.off(p.gross)
				nOff, nHalf := net.off(p.net)
				if !lines {
					fmt.Fprintf(&table, "| %s | %s | %+.3f %% | %.3f %% | %+.2f %% | %.2f %% |\n", p.name, d, 100*gOff, 100*gHalf, 100*nOff, 100*nHalf)
				}
				if !gross.holds(p.gross) {
					t.Errorf("%s, %s, lines %t: gross is off by %.3f %%, its half width %.3f %%", p.name, d, lines, 100*gOff, 100*gHalf)
				}
				if !net.holds(p.net) {
					t.Errorf("%s, %s, lines %t: net is off by %.2f %%, its half width %.2f %%", p.name, d, lines, 100*nOff, 100*nHalf)
				}
			}
		}
	}
	doc, err := os.ReadFile("../../docs/method.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), table.String()) {
		t.Errorf("docs/method.md does not hold this table:\n%s", table.String())
	}
}
