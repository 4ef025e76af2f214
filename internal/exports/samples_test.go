package exports

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/benchtest"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
)

func recorded(t *testing.T, scenario string, windows int) (*align.Timeline, analysis.Results) {
	t.Helper()
	s, err := bench.LoadScenario(scenario)
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Ops, s.Plan.Windows = []string{"ML-DSA-44/verify"}, windows
	r, _ := benchtest.Play(t, s, 3)
	line := benchtest.Align(t, r)
	return line, benchtest.Analyze(t, line, analysis.Options{})
}

// Whoever sums up exported samples between t0_s and t1_s finds the gross
// energy that the results state: both count on one clock, also where clocks
// drift.
func TestSamplesStandWhereWindowsDo(t *testing.T) {
	for _, scenario := range []string{"default", "drift"} {
		line, res := recorded(t, scenario, 6)
		rows := dicts(t, csvOf(t, Samples(line)))
		number := func(row map[string]string, name string) float64 {
			v, err := strconv.ParseFloat(row[name], 64)
			if err != nil {
				t.Fatalf("%s: %s: %v", scenario, name, err)
			}
			return v
		}
		if len(rows) < 1000 {
			t.Fatalf("%s: %d samples", scenario, len(rows))
		}
		for _, w := range res.Windows {
			if w.Excluded != "" || w.Coverage < 1-1e-9 {
				continue
			}
			joules, delay := 0.0, line.Offset.Seconds
			for i := range rows[:len(rows)-1] {
				from, to := number(rows[i], "t_s"), number(rows[i+1], "t_s")
				if d := math.Min(to, float64(w.T1)) - math.Max(from, float64(w.T0)); d > 0 {
					joules += number(rows[i], "volts") * number(rows[i], "amps") * d
				}
			}
			// Cut at its marks a window loses what its edges smear: 2 % here.
			if e := joules/float64(w.Gross) - 1; math.Abs(e) > 0.02 {
				t.Errorf("%s: window %d holds %.4g J in the samples, %.4g J in the results (%.2f %%; offset %.3f s)", scenario, w.W, joules, float64(w.Gross), 100*e, delay)
			}
		}
	}
}

// Samples are corrected as the analysis has them, and the table says by what.
func TestSamplesAreCorrected(t *testing.T) {
	line, _ := recorded(t, "default", 1)
	plain := rowsOf(t, Samples(line))
	by := &meters.Calibration{Name: "shunt", Volts: &meters.Correction{Gain: 2, Offset: 0.25}}
	line, err := align.AlignBy(line.Run, line.Meter.Stream, align.Options{Calibration: by})
	if err != nil {
		t.Fatal(err)
	}
	table := Samples(line)
	corrected := rowsOf(t, table)
	for i := range plain {
		want := []float64{plain[i]["volts"].(float64)}
		by.Volts.Apply(want)
		if got := corrected[i]["volts"]; got != want[0] || got == plain[i]["volts"] || corrected[i]["amps"] != plain[i]["amps"] {
			t.Fatalf("row %d is %v, want %v V", i, corrected[i], want[0])
		}
	}
	if table.About["meter_calibration"] != "shunt" {
		t.Errorf("the table says of its calibration %q", table.About["meter_calibration"])
	}
}

// Each sample stands where the analysis has its power, behind every loss, too.
func TestSamplesStandWherePowerDoes(t *testing.T) {
	line, res := recorded(t, "loss", 30)
	if !slices.ContainsFunc(res.Warnings, func(s string) bool { return strings.Contains(s, "samples were lost") }) {
		t.Fatal("nothing was lost")
	}
	var at, watts []float64
	for s, err := range line.Power() {
		if err != nil {
			t.Fatal(err)
		}
		for k, w := range s.Watts {
			at, watts = append(at, s.StartSeconds+float64(k)*s.PeriodSeconds), append(watts, w)
		}
	}
	i := 0
	for p, err := range line.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		for k := range p.Rows {
			if w := p.Columns["volts"][k] * p.Columns["amps"][k]; math.Abs(p.Seconds[k]-at[i]) > 1e-4 || w != watts[i] {
				t.Fatalf("sample %d stands at %.6f s with %g W, its power at %.6f s with %g W", i, p.Seconds[k], w, at[i], watts[i])
			}
			i++
		}
	}
	if i != len(at) || i < 1000 {
		t.Errorf("%d samples, power of %d", i, len(at))
	}
}

// The Parquet file of samples holds what the CSV holds.
func TestSamplesAsParquet(t *testing.T) {
	line, _ := recorded(t, "default", 6)
	got, _, r := readParquet(t, parquetOf(t, Samples(line)))
	want := rowsOf(t, Samples(line))
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		for _, name := range []string{"segment", "t_s", "volts", "amps"} {
			if got[i][name] != want[i][name] {
				t.Fatalf("row %d: %s is %v, want %v", i, name, got[i][name], want[i][name])
			}
		}
	}
	if v := r.MetaData().KeyValueMetadata().FindValue("simulated"); v == nil || *v != "true" {
		t.Errorf("the footer says simulated: %v", v)
	}
}

// failing is a writer that has no room left after some bytes.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, bytes.ErrTooLarge
	}
	return len(b), nil
}

func TestFullDisk(t *testing.T) {
	line, res := recorded(t, "default", 6)
	for name, write := range map[string]func(*failing) error{
		"csv":      func(f *failing) error { return WriteCSV(f, Samples(line)) },
		"parquet":  func(f *failing) error { return WriteParquet(f, Samples(line)) },
		"benchfmt": func(f *failing) error { return WriteBenchmark(f, []analysis.Results{res}) },
	} {
		if err := write(&failing{100}); err == nil {
			t.Errorf("%s: a full disk is no error", name)
		}
	}
}

// Memory does not grow with the run: beside the buffers of the library, 40 MB,
// little of 32 MB of samples that do not compress is live at the end.
func TestMemoryIsBounded(t *testing.T) {
	const size, blocks, limit = 500, 5400, 55 << 20
	noise := rand.New(rand.NewPCG(1, 2))
	before, used := live(), int64(0)
	table := Table{Columns: []Column{{Name: "t_s", Unit: "s", Kind: Real}, {Name: "amps", Unit: "A", Kind: Single}}}
	table.Blocks = func(yield func(Block, error) bool) {
		b := Block{Rows: size, Values: []Values{{Reals: make([]float64, size)}, {Reals: make([]float64, size)}}}
		for range blocks {
			for k := range size {
				b.Values[0].Reals[k], b.Values[1].Reals[k] = noise.Float64(), noise.Float64()
			}
			if !yield(b, nil) {
				return
			}
		}
		used = live() - before
	}
	if err := WriteParquet(io.Discard, table); err != nil {
		t.Fatal(err)
	}
	if used == 0 || used > limit {
		t.Errorf("%d bytes are live after %d samples", used, size*blocks)
	}
}

// live is how many bytes of the heap are in use.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
