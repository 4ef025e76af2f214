package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/sync/mark"
)

// A duty cycle costs its power times the time for which it is busy, and its
// statement says for how long that is.
func TestDutyCyclesHoldTheTruth(t *testing.T) {
	s := quiet()
	s.Load.Scatter, s.Load.RampSeconds = 0, 1e-4
	s.Plan.Ops, s.Plan.Windows = []string{"spin/run"}, 2
	s.Plan.Periods, s.Plan.Duties = []float64{0.001013, 0.100829}, []float64{0.25, 1}
	r := play1(t, s, 4)
	truth := r.w.Truth()
	if len(truth.Windows) != 8 || truth.Ops[0].NetWatts != truth.Ops[0].JoulesPerOp/truth.Ops[0].SecondsPerOp {
		t.Fatalf("%+v", truth)
	}
	stated := map[int64]mark.Win{}
	for _, l := range r.lines {
		if st, err := mark.Parse(l.Text); err == nil && st.Kind == "win" {
			w, err := mark.ParseWin(st)
			if err != nil {
				t.Fatal(err)
			}
			stated[w.W] = w
		}
	}
	for _, w := range truth.Windows {
		win := stated[w.W]
		seconds, busy := float64(win.N*win.PeriodUs)*1e-6, float64(win.N*win.OnUs)*1e-6
		if win.PeriodUs == 0 || math.Abs(w.T1-w.T0-seconds) > 1e-9 {
			t.Errorf("window %d: %+v lasts %g s", w.W, win, w.T1-w.T0)
		}
		played := r.w.Joules(w.T0-0.1, w.T1+0.1) - truth.IdleWatts*(w.T1-w.T0+0.2)
		for what, joules := range map[string]float64{"truth": w.NetJoules, "load": played} {
			if want := 0.17 * busy; math.Abs(joules/want-1) > 1e-9 {
				t.Errorf("window %d: %s holds %.9g J, busy for %g s at 0.17 W", w.W, what, joules, busy)
			}
		}
	}
	if _, err := Parse("x.scn", []byte("plan.periods_seconds = 0.1, 99")); err == nil || !strings.Contains(err.Error(), "99 is not within") {
		t.Errorf("a period of 99 s: %v", err)
	}
}

// Residual heat comes on top of the windows.
func TestHeat(t *testing.T) {
	s := quiet()
	s.Load.Scatter, s.Plan.Windows, s.Plan.Ops = 0, 1, []string{"Ed25519/sign"}
	s.Plan.IdleSeconds = 30
	s.Load.HeatShare, s.Load.HeatSeconds = 0.05, 0.5
	w, err := New(s, 6)
	if err != nil {
		t.Fatal(err)
	}
	win := w.Truth().Windows[0]
	watts := win.NetJoules / (win.T1 - win.T0)
	after := w.Joules(win.T1, win.T1+10) - 10*w.Truth().IdleWatts
	if want := 0.05 * watts * 0.5; math.Abs(after/want-1) > 0.01 {
		t.Errorf("%g J are left over, want %g J", after, want)
	}
}

func TestCurvature(t *testing.T) {
	straight, bent := quiet(), quiet()
	bent.Meter.Curvature = 0.5
	a, b := play1(t, straight, 7), play1(t, bent, 7)
	for i, x := range a.amps {
		if want := x * (1 + 0.5*x); math.Abs(b.amps[i]-want) > 1e-12 || a.volts[i] != b.volts[i] {
			t.Fatalf("sample %d: %g A became %g A, want %g A", i, x, b.amps[i], want)
		}
	}
}
