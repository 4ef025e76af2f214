package align_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

const handSeed = 11

// handRun records a scenario, with the lines that keep accepts.
func handRun(t *testing.T, scenario string, keep func(run.Line) bool) (*run.Run, bench.Truth) {
	t.Helper()
	s, err := bench.LoadScenario(scenario)
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Ops, s.Plan.Windows = []string{"ML-DSA-44/verify"}, 6
	world, err := bench.New(s, handSeed)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "run", Simulated: true}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	samples, err := w.Stream(world.Meter())
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	err = world.Play(func(b meters.Block) error {
		last = b.ArrivalNs
		return samples.Write(b)
	}, func(l run.Line) error {
		if !keep(l) {
			return nil
		}
		return w.Line(l)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close("done", last); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r, world.Truth()
}

func none(run.Line) bool  { return false }
func every(run.Line) bool { return true }

// byEye puts true windows where a person sees them: on hundredths of a second,
// where a meter that lags by its smoothing (s) shows the power.
func byEye(truth bench.Truth, smoothing, quiet float64) []run.HandWindow {
	var out []run.HandWindow
	round := func(s float64) float64 { return math.Round(100*s) / 100 }
	for _, w := range truth.Windows {
		out = append(out, run.HandWindow{W: w.W, Alg: w.Alg, Op: w.Op, N: w.N,
			StartSeconds: round(w.T0 - truth.FirstSampleSeconds + smoothing), EndSeconds: round(w.T1 - truth.FirstSampleSeconds + smoothing),
			Idle: "wfi", PreSeconds: quiet, PostSeconds: quiet})
	}
	return out
}

func setHand(t *testing.T, r *run.Run, offset *float64, windows ...run.HandWindow) {
	t.Helper()
	var h run.Hand
	s := h.Stream("usb")
	s.OffsetSeconds = offset
	if err := s.Add(windows...); err != nil {
		t.Fatal(err)
	}
	if err := r.SetHand(h); err != nil {
		t.Fatal(err)
	}
}

func aligned(t *testing.T, r *run.Run) *align.Timeline {
	t.Helper()
	line, err := align.Align(r, "usb")
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func has(line *align.Timeline, text string) bool {
	return slices.ContainsFunc(line.Warnings, func(w align.Warning) bool { return strings.Contains(w.Text, text) })
}

// Windows that a person puts with an eye on the figure give the energy that the
// target's own marks give, where they have quiet zones.
func TestWindowsByHandHoldTheTruth(t *testing.T) {
	for scenario, smoothing := range map[string]float64{"default": 0, "boxcar30": 0.015, "drift": 0, "delay": 0} {
		r, truth := handRun(t, scenario, none)
		windows := byEye(truth, smoothing, 0.3)
		setHand(t, r, nil, windows...)
		line := aligned(t, r)
		if line.Method != align.InBand || !has(line, "6 windows were set by hand") {
			t.Errorf("%s: method %s, warnings %v", scenario, line.Method, line.Warnings)
		}
		for i := range line.Windows {
			w := &line.Windows[i]
			if !w.ByHand || math.Abs(w.StartSeconds-windows[i].StartSeconds) > 1e-6 || math.Abs(w.EndSeconds-windows[i].EndSeconds) > 1e-6 {
				t.Errorf("%s: window from %v s to %v s stands at %v s to %v s", scenario, windows[i].StartSeconds, windows[i].EndSeconds, w.StartSeconds, w.EndSeconds)
			}
		}
		res, err := analysis.Analyze(line, analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		op, want := res.Operations[0], truth.Ops[0].JoulesPerOp
		if math.Abs(float64(op.Net.Value)/want-1) > 0.003 || len(res.Voids) > 0 {
			t.Errorf("%s, seed %d: %v J/op, true %v; void: %v", scenario, handSeed, op.Net.Value, want, res.Voids)
		}
	}
}

// How far off a person put the windows is their doubt, and is said.
func TestWindowsByHandOffTheirSteps(t *testing.T) {
	for _, off := range []float64{0.04, -0.04} {
		r, truth := handRun(t, "default", none)
		windows := byEye(truth, 0, 0.24)
		for i := range windows {
			windows[i].StartSeconds += off
			windows[i].EndSeconds += off
		}
		setHand(t, r, nil, windows...)
		line := aligned(t, r)
		said := map[bool]string{true: "ms before the windows", false: "ms after the windows"}[off > 0]
		if !has(line, said) || math.Abs(line.Offset.U-0.04) > 0.006 || line.Offset.Seconds != 0 {
			t.Errorf("windows %v s off: offset %v ± %v s, %v", off, line.Offset.Seconds, line.Offset.U, line.Warnings)
		}
		res, err := analysis.Analyze(line, analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := float64(res.Operations[0].Net.Value), truth.Ops[0].JoulesPerOp; math.Abs(got/want-1) > 0.003 {
			t.Errorf("seed %d, windows %v s off: %v J/op, true %v", handSeed, off, got, want)
		}
	}
}

// Windows where nothing happens are not believed.
func TestWindowsByHandWithoutStepsAreVoid(t *testing.T) {
	r, truth := handRun(t, "default", none)
	windows := byEye(truth, 0, 0)
	for i := range windows {
		windows[i].StartSeconds += 0.9
		windows[i].EndSeconds += 0.9
	}
	setHand(t, r, nil, windows...)
	line := aligned(t, r)
	i := slices.IndexFunc(line.Warnings, func(w align.Warning) bool { return strings.Contains(w.Text, "no step of power supports") })
	if i < 0 || !line.Warnings[i].Voids {
		t.Errorf("windows 0.9 s beside the power are believed: %v", line.Warnings)
	}
}

// Windows by hand stand beside those that the target stated, and do not move
// with their offset.
func TestWindowsByHandBesideStatedOnes(t *testing.T) {
	r, truth := handRun(t, "delay", every)
	before := aligned(t, r)
	lost := truth.Windows[2]
	r, _ = handRun(t, "delay", func(l run.Line) bool { return !strings.Contains(string(l.Text), "@jm win w=3 ") })
	window := byEye(truth, 0, 0.3)[2]
	setHand(t, r, nil, window)
	line := aligned(t, r)
	if line.Method != align.ByEdges || !has(line, "1 window was set by hand") || len(line.Windows) != 6 {
		t.Fatalf("method %s, %d windows, warnings %v", line.Method, len(line.Windows), line.Warnings)
	}
	for i := range line.Windows {
		w, b := &line.Windows[i], &before.Windows[i]
		if w.Excluded != "" || w.W != b.W || math.Abs(w.StartSeconds-b.StartSeconds) > 0.006 {
			t.Errorf("window %d at %v s (%s), without hands window %d at %v s", w.W, w.StartSeconds, w.Excluded, b.W, b.StartSeconds)
		}
	}
	res, err := analysis.Analyze(line, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := float64(res.Windows[2].Net); math.Abs(got/lost.NetJoules-1) > 0.005 {
		t.Errorf("seed %d: the window by hand took %v J, true %v", handSeed, got, lost.NetJoules)
	}
}

func TestOffsetByHand(t *testing.T) {
	offset := 0.057
	r, _ := handRun(t, "delay", every)
	setHand(t, r, &offset)
	line := aligned(t, r)
	if line.Method != align.ByEdges || !has(line, "is not used: the edges give") || math.Abs(line.Offset.Seconds-offset) < 1e-3 {
		t.Errorf("edges that show an offset: method %s, offset %v s, %v", line.Method, line.Offset.Seconds, line.Warnings)
	}

	r = flat(t)
	before := aligned(t, r)
	if before.Method != align.ByArrival || !slices.ContainsFunc(before.Warnings, func(w align.Warning) bool { return w.Voids }) {
		t.Fatalf("edges lost in noise: method %s, %v", before.Method, before.Warnings)
	}
	setHand(t, r, &offset)
	line = aligned(t, r)
	if line.Method != align.ByArrival || line.Offset.Seconds != offset || line.Offset.U != before.Offset.U ||
		!has(line, "was set by hand to 57.00 ms") || slices.ContainsFunc(line.Warnings, func(w align.Warning) bool { return w.Voids }) {
		t.Errorf("method %s, offset %v ± %v s, %v", line.Method, line.Offset.Seconds, line.Offset.U, line.Warnings)
	}
	for i := range line.Windows {
		if moved := line.Windows[i].From - before.Windows[i].From; math.Abs(moved-offset) > 1e-9 {
			t.Errorf("window %d moved by %v s", line.Windows[i].W, moved)
		}
	}
}

// flat is a run whose steps of power are lost in the noise.
func flat(t *testing.T) *run.Run {
	t.Helper()
	s := bench.Default()
	s.Plan.Ops, s.Plan.Windows = []string{"ML-DSA-44/verify"}, 3
	s.Load.NetScale = 0.001
	s.Meter.AmpsNoise = 0.01
	dir := filepath.Join(t.TempDir(), "flat")
	if _, err := bench.Play(s, handSeed, dir); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
