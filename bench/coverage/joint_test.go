package coverage

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/benchtest"
)

// analyzed plays a scenario and analyzes it.
func analyzed(t *testing.T, s bench.Scenario, seed uint64) (analysis.Results, bench.Truth) {
	t.Helper()
	r, truth := benchtest.Play(t, s, seed)
	return benchtest.Analyze(t, benchtest.Align(t, r), analysis.Options{}), truth
}

// The joint fit agrees with the pulse integral where nothing is wrong. Where
// something is, it disagrees, or the step of the idle level at the windows
// tells residual heat.
func TestJointFit(t *testing.T) {
	agree, calm := [2]float64{0.95, 1}, [2]float64{0, 0.05}
	fmt.Printf("%-10s %4s %7s %9s %11s %12s %10s %7s\n", "joint fit", "ops", "agrees", "rms d/u", "mean d", "rms d/half", "idle step", "warned")
	for _, c := range []struct {
		scenario string
		agrees   [2]float64 // share of operations
		heat     [2]float64 // share of operations with a warning of residual heat
	}{
		{"default", agree, calm},
		{"smoothing", agree, calm},
		{"noise", agree, calm},
		{"idle-drift", agree, calm},
		{"lownet", agree, calm},
		{"curved", [2]float64{0, 0.5}, calm},
		{"heat", [2]float64{0, 1}, [2]float64{0.95, 1}},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			s, err := bench.LoadScenario(c.scenario)
			if err != nil {
				t.Fatal(err)
			}
			var ops, agrees, mean, perU, perHalf, steps, warned float64
			for i := range uint64(*campaigns) {
				res, _ := analyzed(t, s, *firstSeed+i)
				for _, op := range res.Operations {
					j := op.Joint
					if j == nil {
						t.Fatalf("seed %d: %s %s has no joint fit", *firstSeed+i, op.Alg, op.Op)
					}
					d, half := float64(j.Difference), float64(op.Net.Hi95Repeat-op.Net.Lo95Repeat)/2
					ops++
					if j.Agrees {
						agrees++
					}
					mean += d / float64(op.Net.Value)
					perU += math.Pow(d/float64(j.UDifference), 2)
					perHalf += math.Pow(d/half, 2)
					steps += float64(op.IdleStep.Value / op.NetWatts.Value)
					if strings.Contains(strings.Join(op.Warnings, "\n"), "residual heat") {
						warned++
					}
				}
			}
			agrees, warned = agrees/ops, warned/ops
			fmt.Printf("%-10s %4.0f %5.1f %% %9.2f %+9.4f %% %12.2f %+8.2f %% %5.1f %%\n",
				c.scenario, ops, 100*agrees, math.Sqrt(perU/ops), 100*mean/ops, math.Sqrt(perHalf/ops), 100*steps/ops, 100*warned)
			if agrees < c.agrees[0] || agrees > c.agrees[1] {
				t.Errorf("seeds from %d: the fit agrees in %.1f %% of %.0f operations", *firstSeed, 100*agrees, ops)
			}
			if warned < c.heat[0] || warned > c.heat[1] {
				t.Errorf("seeds from %d: %.1f %% of %.0f operations have a warning of residual heat", *firstSeed, 100*warned, ops)
			}
		})
	}
}
