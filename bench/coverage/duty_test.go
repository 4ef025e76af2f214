package coverage

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
)

// A meter that takes means passes the self-test, and says how well it was
// told. One that takes instants at a rate that keeps step with the period does
// not, nor does one that is not linear and smooths the period away.
func TestDutyCycle(t *testing.T) {
	fmt.Printf("%-22s %5s %9s %16s\n", "duty cycle", "tests", "faults", "term: least, most")
	for _, c := range []struct {
		name        string
		change      func(*bench.Scenario)
		least, most float64 // relative standard uncertainty
	}{
		{"mean of its period", func(*bench.Scenario) {}, 0, 0.001},
		{"smoothed", func(s *bench.Scenario) { s.Meter.Filter, s.Meter.FilterSeconds = bench.OnePole, 0.04 }, 0, 0.001},
		{"25 of 100 samples", func(s *bench.Scenario) { s.Meter.Hold = bench.Interpolate }, 0, 0.0015},
		{"points", func(s *bench.Scenario) { s.Meter.Kind = "point" }, 0.005, 0.1},
		{"points, in step", func(s *bench.Scenario) {
			s.Meter.Kind = "point"
			s.Plan.Periods = []float64{0.001, 0.01, 0.02, 0.05, 0.1}
		}, 0.02, 10},
		{"not linear, smoothed", func(s *bench.Scenario) {
			s.Meter.Curvature, s.Meter.Filter, s.Meter.FilterSeconds = 1, bench.OnePole, 0.02
		}, 0.004, 0.02},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := bench.LoadScenario("duty")
			if err != nil {
				t.Fatal(err)
			}
			c.change(&s)
			faults, least, most := 0, math.Inf(1), 0.0
			for i := range uint64(*campaigns) {
				res, truth := analyzed(t, s, *firstSeed+i)
				d := res.Duty
				if d == nil || len(d.Cycles) != len(s.Plan.Periods)*len(s.Plan.Duties) {
					t.Fatalf("seed %d: %+v, %v", *firstSeed+i, d, res.Warnings)
				}
				u := float64(d.Limit) / math.Sqrt(3)
				least, most = math.Min(least, u), math.Max(most, u)
				if d.Significant {
					faults++
				}
				if u < c.least || u > c.most {
					t.Errorf("seed %d: the term is %.3g %%", *firstSeed+i, 100*u)
				}
				checkTerm(t, res)
				// Cycles end idle: they tell no offset, and are no constant power.
				j, net := res.Operations[0].Joint, res.Operations[0].Net.Value
				off := float64(res.Alignment.Offset) - truth.OffsetSeconds
				if s.Meter.Kind == "mean" && (math.Abs(off) > 5e-4 || math.Abs(float64(j.Difference/net)) > 1e-3) {
					t.Errorf("seed %d: the offset is off by %.2g ms, the joint fit by %.2g %%", *firstSeed+i, 1e3*off, 100*float64(j.Difference/net))
				}
			}
			fmt.Printf("%-22s %5d %9d %8.3f %% %6.3f %%\n", c.name, *campaigns, faults, 100*least, 100*most)
		})
	}
}

// checkTerm asks for the self-test in the budget of each operation, and in its
// total interval alone.
func checkTerm(t *testing.T, res analysis.Results) {
	t.Helper()
	for _, op := range res.Operations {
		i := slices.IndexFunc(op.Budget, func(b analysis.Term) bool { return b.Name == "duty cycle" })
		if i < 0 {
			t.Errorf("%s %s has no term for the duty cycle: %+v", op.Alg, op.Op, op.Budget)
			continue
		}
		want := float64(res.Duty.Limit*op.Net.Value) / math.Sqrt(3)
		if b := op.Budget[i]; b.Type != "B" || !b.Shared || math.Abs(float64(b.U)/want-1) > 1e-9 {
			t.Errorf("the term is %+v, not %g J", b, want)
		}
		if op.Net.Hi95-op.Net.Lo95 <= op.Net.Hi95Repeat-op.Net.Lo95Repeat {
			t.Errorf("the total interval is not wider: %+v", op.Net)
		}
	}
}
