package plots_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/benchtest"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/plots"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// recorded plays a scenario and puts it on a time line.
func recorded(t *testing.T, scenario string) (*align.Timeline, analysis.Results) {
	t.Helper()
	s, err := bench.LoadScenario(scenario)
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Ops, s.Plan.Windows = []string{"ML-DSA-44/verify"}, 5
	s.Samples.Loss *= 5
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := bench.Play(s, 11, dir); err != nil {
		t.Fatal(err)
	}
	line := aligned(t, dir)
	r, err := analysis.Analyze(line, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return line, r
}

func aligned(t testing.TB, dir string) *align.Timeline {
	t.Helper()
	line := benchtest.Align(t, benchtest.Open(t, dir))
	return line
}

// The power that figures show is the power that the analysis integrates, in
// the same places: also where packets were lost, and where clocks drift.
func TestPowerStandsWhereTheAnalysisHasIt(t *testing.T) {
	for _, scenario := range []string{"default", "loss", "drift", "delay"} {
		line, r := recorded(t, scenario)
		lost := slices.ContainsFunc(r.Warnings, func(s string) bool { return strings.Contains(s, "samples were lost") })
		if lost != (scenario == "loss") {
			t.Fatalf("%s: samples were lost: %v", scenario, lost)
		}
		for i := range line.Windows {
			w := &line.Windows[i]
			var joules, seconds float64
			for s, err := range line.Power() {
				if err != nil {
					t.Fatal(err)
				}
				for k, watts := range s.Watts {
					from := s.StartSeconds + float64(k)*s.PeriodSeconds
					if d := math.Min(from+s.PeriodSeconds, w.EndSeconds) - math.Max(from, w.StartSeconds); d > 0 && !math.IsNaN(watts) {
						joules, seconds = joules+watts*d, seconds+d
					}
				}
			}
			want := line.Between(w.Segment, w.From, w.To)
			if math.Abs(joules/want.Joules-1) > 1e-4 || math.Abs(seconds-want.Seconds) > 1e-4 {
				t.Errorf("%s, window %d: %.6f J in %.6f s, the analysis has %.6f J in %.6f s", scenario, w.W, joules, seconds, want.Joules, want.Seconds)
			}
		}
	}
}

// The figure of edges shows the fold from which the analysis read the
// response.
func TestFoldsAreTheAnalysis(t *testing.T) {
	line, r := recorded(t, "smoothing")
	all, single := line.Folds(4)
	lo, hi := all.Crossings()
	if d := math.Abs(hi - lo - line.Offset.ResponseSeconds); all.Edges == 0 || d > 1e-3 {
		t.Errorf("%d edges, 10-90 %% in %g s, the analysis has %g s", all.Edges, hi-lo, line.Offset.ResponseSeconds)
	}
	if len(single) != 4 {
		t.Fatalf("%d single edges, want 4", len(single))
	}
	for _, f := range single {
		for i, at := range f.Seconds {
			if at > -0.15 && at < -0.1 && f.Level[i] > 0.2 || at > 0.1 && at < 0.15 && f.Level[i] < 0.8 {
				t.Errorf("a single edge is at %.2f at %g s after its centroid", f.Level[i], at)
			}
		}
	}
	if _, err := plots.Edges(r, all, single); err != nil {
		t.Error(err)
	}
}

func TestAround(t *testing.T) {
	line, r := recorded(t, "default")
	w := &line.Windows[2]
	v, err := plots.Around(line, w.W)
	if err != nil {
		t.Fatal(err)
	}
	if v.FromSeconds > w.StartSeconds-w.Pre || v.ToSeconds < w.EndSeconds+w.Post || len(v.Quiet) != 2 {
		t.Errorf("window from %g to %g s with zones of %g and %g s: the view is %+v", w.StartSeconds, w.EndSeconds, w.Pre, w.Post, v)
	}
	if _, err := plots.Around(line, 4711); err == nil {
		t.Error("window 4711 is found")
	}
	f, err := plots.Trace(r, line.Power(), v)
	if err != nil {
		t.Fatal(err)
	}
	// Power is high inside the window and low in its quiet zones.
	for _, l := range f.Panels[0].Layers {
		if l.Name != "mean power" {
			continue
		}
		for i, x := range l.X {
			at, watts := float64(x), float64(l.Y[i])
			in := at > w.StartSeconds+0.1 && at < w.EndSeconds-0.1
			out := at > w.StartSeconds-w.Pre+0.1 && at < w.StartSeconds-0.1
			if middle := float64(r.Windows[2].Idle) + 0.5*float64(r.Operations[0].NetWatts.Value); in && watts < middle || out && watts > middle {
				t.Fatalf("%g W at %g s, window from %g to %g s", watts, at, w.StartSeconds, w.EndSeconds)
			}
		}
	}
}

// BenchmarkTraceOfRun draws a run on disk, with all that is read for it.
func BenchmarkTraceOfRun(b *testing.B) {
	const rows, batch = 10_000_000, 1000
	dir := filepath.Join(b.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "long"}, run.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Driver: "test", Columns: []string{meters.Volts, meters.Amps}, RateHz: 1000,
		Sample: meters.Mean, Clock: meters.Shared})
	if err != nil {
		b.Fatal(err)
	}
	values := [][]float64{make([]float64, batch), make([]float64, batch)}
	for i := range batch {
		values[0][i], values[1][i] = 5, 0.1+0.01*math.Sin(float64(i))
	}
	for row := 0; row < rows; row += batch {
		if err := s.Write(meters.Block{ArrivalNs: int64(row) * 1e6, Values: values}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close("done", rows*1e6); err != nil {
		b.Fatal(err)
	}
	line := aligned(b, dir)
	r := analysis.Results{Run: "long"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plots.Trace(r, line.Power(), plots.Whole(line)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
}
