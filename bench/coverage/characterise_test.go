package coverage

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/meters"
)

// TestCharacterise asks how far what is found of a meter lies from the truth,
// in its own standard uncertainties.
func TestCharacterise(t *testing.T) {
	const tests = 6
	for _, c := range []struct {
		name      string
		change    func(*bench.Scenario)
		response  float64 // s, of the filter; 0: not compared
		effective float64 // Hz
		sample    meters.SampleKind
	}{
		{"means", func(s *bench.Scenario) { s.Meter.AmpsNoise = 0.001 }, 0, 100, meters.Mean},
		{"one pole", func(s *bench.Scenario) {
			s.Meter.Filter, s.Meter.FilterSeconds, s.Meter.AmpsNoise = bench.OnePole, 0.04, 0.001
		}, 0.04 * math.Log(9), 100, ""},
		{"25 of 100", func(s *bench.Scenario) { s.Meter.Hold = bench.Repeat; s.Meter.AmpsNoise = 0.001 }, 0, 25, meters.Mean},
		{"correlated", func(s *bench.Scenario) { s.Meter.Correlation, s.Meter.AmpsNoise = 0.5, 0.001 }, 0, 100 / 3.0, meters.Mean},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := bench.Default()
			s.Plan.Ops, s.Load.Scatter = []string{"ML-DSA-44/verify", "Ed25519/sign"}, 0
			c.change(&s)
			var rate, response []float64
			for seed := range uint64(tests) {
				_, line, err := record(s, *firstSeed+seed, filepath.Join(t.TempDir(), "r"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := analysis.Characterise(line, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got.Sample != c.sample || got.EffectiveHz == nil || got.NoiseWatts == nil || got.ResponseSeconds == nil {
					t.Fatalf("seed %d: %+v", seed, got)
				}
				// What the ends of the correlation are cut to makes it up to a tenth
				// too short.
				rate = append(rate, (got.EffectiveHz.Value-c.effective)/math.Hypot(got.EffectiveHz.U, 0.05*c.effective))
				if c.response > 0 {
					response = append(response, (got.ResponseSeconds.Value-c.response)/got.ResponseSeconds.U)
				}
			}
			fmt.Printf("%-12s errors in their own uncertainties: effective rate %.2f, response %.2f\n", c.name, rms(rate), rms(response))
			if v := rms(rate); !(v < 2) {
				t.Errorf("the effective rate is off by %.2f of its uncertainties", v)
			}
			if v := rms(response); c.response > 0 && !(v < 2) {
				t.Errorf("the response is off by %.2f of its uncertainties", v)
			}
		})
	}
}
