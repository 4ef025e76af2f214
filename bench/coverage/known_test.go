package coverage

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/benchtest"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
)

// known plays a scenario whose meter was characterised before, and analyzes it.
func known(t *testing.T, s bench.Scenario, c *meters.Characterisation) (*align.Timeline, analysis.Results) {
	t.Helper()
	r, _ := benchtest.Play(t, s, 4)
	for i := range r.Streams[0].Segments {
		r.Streams[0].Segments[i].Characterisation = c
	}
	line := benchtest.Align(t, r)
	return line, benchtest.Analyze(t, line, analysis.Options{})
}

// The residual of a self-test becomes a term of runs that hold none.
func TestKnownDuty(t *testing.T) {
	s := bench.Default()
	s.Plan.Ops = []string{"ML-DSA-44/verify", "Ed25519/sign"}
	_, plain := known(t, s, nil)
	_, res := known(t, s, &meters.Characterisation{Name: "desk", Date: "2026-01-02", Duty: &meters.Residual{Limit: 0.003, P: 0.4, Windows: 75}})
	for i, op := range res.Operations {
		k := slices.IndexFunc(op.Budget, func(x analysis.Term) bool { return x.Name == "duty cycle" })
		if k < 0 || !strings.Contains(op.Budget[k].Source, "meter desk of 2026-01-02") ||
			math.Abs(float64(op.Budget[k].U/op.Net.Value)-0.003/math.Sqrt(3)) > 1e-9 {
			t.Errorf("%s: %+v", op.Alg, op.Budget)
		}
		if p := plain.Operations[i].Net; p.Hi95Repeat != op.Net.Hi95Repeat || !(op.Net.Hi95 > p.Hi95) {
			t.Errorf("%s: %+v, without %+v", op.Alg, op.Net, p)
		}
	}
	if k := res.Meter.Characterisation; k == nil || k.Name != "desk" || plain.Meter.Characterisation != nil {
		t.Errorf("named as %v", k)
	}
}

// A response that the edges of a run cannot show is taken as it was
// characterised: without it, the guard of windows that a pin gives would cut
// off what a slow meter shows late.
func TestKnownResponse(t *testing.T) {
	s := bench.Default()
	s.Plan.Ops, s.Plan.Windows, s.Plan.PostSeconds = []string{"ML-DSA-44/verify"}, 12, 0.6
	s.Meter.Pin, s.Meter.Filter, s.Meter.FilterSeconds = bench.DataPlus, bench.OnePole, 0.08
	// So little that single edges are lost in the noise.
	s.Load.NetScale, s.Meter.AmpsNoise = 0.02, 0.003
	response := 0.08 * math.Log(9)
	line, res := known(t, s, &meters.Characterisation{Name: "desk", ResponseSeconds: &meters.Estimate{Value: response, U: 0.001}})
	if line.Method != align.InBand || line.Offset.ResponseSeconds > 0 {
		t.Fatalf("%s, a response of %g s: the test is no longer one", line.Method, line.Offset.ResponseSeconds)
	}
	if float64(res.Meter.ResponseSeconds) != response || !slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.Contains(w, "as meter desk was characterised") }) {
		t.Errorf("response %v, %v", res.Meter.ResponseSeconds, res.Warnings)
	}
	for _, w := range res.Operations[0].Warnings {
		if strings.Contains(w, "shorter than the meter's response") {
			t.Errorf("quiet zones of 0.6 s: %s", w)
		}
	}
	_, none := known(t, s, nil)
	if none.Meter.ResponseSeconds.Stated() {
		t.Errorf("a response of %v from nowhere", none.Meter.ResponseSeconds)
	}
	a, b := res.Operations[0].Net.Value, none.Operations[0].Net.Value
	if a == b {
		t.Error("the response changes nothing")
	}
}
