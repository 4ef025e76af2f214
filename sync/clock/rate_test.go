package clock

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Rate is right to its tolerance however many packets are lost, from the first
// second on.
func TestRateUnderLoss(t *testing.T) {
	const seed = 20260103
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct {
		name   string
		ppm    float64
		loss   float64
		jitter float64 // mean, s
		stall  float64 // probability of one at a packet
	}{
		{"calm", 0, 0, 0.0005, 0},
		{"one in a hundred lost", -40, 0.01, 0.003, 0},
		{"three in a hundred lost", 120, 0.03, 0.003, 0},
		{"stalls", 40, 0.002, 0.002, 0.001},
		{"nominal rate off by 0.5 %", 5000, 0.01, 0.002, 0},
	} {
		for range 50 {
			r := NewRate(100, 4)
			row, host, until := int64(0), 0.0, 0.0
			true1 := 1 / (1 + c.ppm*1e-6)
			sent := 0.0
			for range 2500 {
				sent += 0.04 * true1
				if rng.Float64() < c.loss {
					continue
				}
				if rng.Float64() < c.stall {
					until = sent + 2*rng.Float64()
				}
				row += 4
				host = math.Max(host, math.Max(until, sent+c.jitter*rng.ExpFloat64()))
				r.Add(row, host)
			}
			rate, tolerance, ok := r.Found()
			if !ok {
				t.Fatalf("%s, seed %d: no rate", c.name, seed)
			}
			if math.Abs(rate-true1) > tolerance {
				t.Errorf("%s, seed %d: rate off by %.0f ppm, tolerance %.0f ppm", c.name, seed, 1e6*(rate-true1), 1e6*tolerance)
			}
			if tolerance > nominalRate/2 {
				t.Errorf("%s, seed %d: tolerance of %.0f ppm says nothing", c.name, seed, 1e6*tolerance)
			}
		}
	}
}

// A stream too short or too torn shows no rate.
func TestRateSaysNothing(t *testing.T) {
	r := NewRate(100, 4)
	for i := range int64(100) {
		r.Add(4*i, 0.04*float64(i))
	}
	if _, _, ok := r.Found(); ok {
		t.Error("four seconds show a rate")
	}
}
