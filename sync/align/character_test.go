package align_test

import (
	"math"
	"testing"

	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/benchtest"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
)

// lineOf plays a scenario and aligns its run.
func lineOf(t *testing.T, s bench.Scenario, seed uint64) (*align.Timeline, bench.Truth) {
	t.Helper()
	r, truth := benchtest.Play(t, s, seed)
	line := benchtest.Align(t, r)
	return line, truth
}

func scenario(t *testing.T, text string) bench.Scenario {
	t.Helper()
	s, err := bench.Parse(t.Name(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within checks a number against a relative tolerance.
func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s is %.4g, not %.4g within %.0f %%", what, got, want, 100*tolerance)
	}
}

func TestCharacter(t *testing.T) {
	// The noise of volts and amps on 5 V and 20 to 30 mA: 0.5 mW.
	const noise, loud = 0.5e-3, 5e-3
	tests := []struct {
		name, text string
		values     align.Values
		kind       meters.SampleKind
		conversion float64 // Hz
		effective  float64 // Hz
		within     float64 // of the effective rate
		noise      float64 // W, of a conversion
		lag1       float64
	}{
		{"default", "", align.Independent, meters.Mean, 100, 100, 0.001, noise, 0},
		{"hold25", "meter.hold = interpolate", align.Interpolated, meters.Mean, 25, 25, 0.001, noise, 0},
		{"repeat25", "meter.hold = repeat", align.Repeated, meters.Mean, 25, 25, 0.01, noise, 0},
		{"hold of 10", "meter.hold = interpolate\nmeter.packet_samples = 10", align.Interpolated, meters.Mean, 10, 10, 0.001, noise, 0},
		{"repeat of 10", "meter.hold = repeat\nmeter.packet_samples = 10", align.Repeated, meters.Mean, 10, 10, 0.01, noise, 0},
		{"held points", "meter.hold = repeat\nmeter.kind = point", align.Repeated, meters.Point, 25, 25, 0.01, noise, 0},
		{"lines between points", "meter.hold = interpolate\nmeter.kind = point", align.Interpolated, meters.Point, 25, 25, 0.001, noise, 0},
		{"point", "meter.rate_hz = 25\nmeter.packet_samples = 1\nmeter.kind = point", align.Independent, meters.Point, 25, 25, 0.001, noise, 0},
		{"point of a ramp", "meter.rate_hz = 25\nmeter.packet_samples = 1\nmeter.kind = point\nload.ramp_seconds = 0.005", align.Independent, meters.Point, 25, 25, 0.001, noise, 0},
		{"smoothing", "meter.filter = one-pole\nmeter.filter_seconds = 0.04", align.Independent, meters.UnknownKind, 100, 100, 0.001, noise, 0},
		// Neighbours of correlation r amount to (1-r)/(1+r) of a value each.
		{"noise", "meter.volts_noise = 0.001\nmeter.amps_noise = 0.001\nmeter.noise_correlation = 0.9",
			align.Correlated, meters.Mean, 100, 100 * 0.1 / 1.9, 0.4, loud, 0.9},
		{"some correlation", "meter.noise_correlation = 0.5", align.Correlated, meters.Mean, 100, 100 * 0.5 / 1.5, 0.25, noise, 0.5},
		// Noise far below a count: equal samples are no repeats.
		{"coarse", "meter.amps_noise = 1e-6\nmeter.volts_noise = 1e-6\nmeter.amps_count = 1e-4\nmeter.volts_count = 1e-3",
			align.Independent, meters.Mean, 100, 100, 0.001, math.NaN(), math.NaN()},
		// A burst now and then hides neither the edges nor the hold.
		{"bursts", "meter.hold = interpolate\nload.burst_hz = 0.5\nload.burst_watts = 0.05",
			align.Interpolated, meters.Mean, 25, math.NaN(), 0, math.NaN(), math.NaN()},
		{"loss", "meter.hold = interpolate\nsamples.loss = 0.01", align.Interpolated, meters.Mean, 25, 25, 0.001, noise, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 3; seed++ {
				line, _ := lineOf(t, scenario(t, tt.text), seed)
				c := line.Character
				if c.Values != tt.values || c.Kind != tt.kind {
					t.Errorf("values are %s and a sample is %s (%.2f conversions an edge, %d edges), not %s and %s", c.Values, c.Kind, c.EdgeConversions, c.Edges, tt.values, tt.kind)
				}
				within(t, "conversions", c.ConversionsHz, tt.conversion, 0.01)
				if !math.IsNaN(tt.effective) {
					within(t, "the effective rate", c.EffectiveHz, tt.effective, tt.within)
					within(t, "the correlation time", c.CorrelationSeconds, 1/c.EffectiveHz, 1e-12)
				}
				if !math.IsNaN(tt.noise) {
					within(t, "noise", c.ConversionNoiseWatts, tt.noise, 0.1)
					if math.Abs(c.Lag1-tt.lag1) > 0.12 {
						t.Errorf("neighbours' correlation is %.3f, not %.3f", c.Lag1, tt.lag1)
					}
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// TestFewSamples: what cannot be told is not stated.
func TestFewSamples(t *testing.T) {
	line, _ := lineOf(t, scenario(t, "plan.ops = Ed25519/sign\nplan.windows = 2\nmeter.rate_hz = 10\nmeter.packet_samples = 1"), 1)
	c := line.Character
	if c.Values != align.UnknownValues || c.Kind != meters.UnknownKind || !math.IsNaN(c.EffectiveHz) || !math.IsNaN(c.NoiseWatts) {
		t.Errorf("told from %d samples: %+v", c.Samples, c)
	}
}

// TestPointOffset: the earliest and the latest edge tell the offset of point
// samples better than their mean.
func TestPointOffset(t *testing.T) {
	s := scenario(t, "meter.rate_hz = 25\nmeter.packet_samples = 1\nmeter.kind = point")
	sum, u := 0.0, 0.0
	const seeds = 12
	for seed := uint64(1); seed <= seeds; seed++ {
		line, truth := lineOf(t, s, seed)
		e := line.Offset.Seconds - truth.OffsetSeconds
		sum += e * e / seeds
		u += line.Offset.U * line.Offset.U / seeds
	}
	// With 56 edges 0.5 ms; their mean would be off by 40 ms/sqrt(12*56), 1.5 ms.
	if rms, u := math.Sqrt(sum), math.Sqrt(u); rms > 0.9e-3 || u < rms/2 || u > 2*rms {
		t.Errorf("off by %.2f ms rms, u %.2f ms", 1e3*rms, 1e3*u)
	}
}
