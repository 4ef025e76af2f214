package bench

import (
	"math"
	"testing"
)

// level returns the background of a load alone.
func level(l Load, seed uint64, end float64) *curve {
	return sum(background(l, seed, end), 0, end, 0)
}

func TestBackground(t *testing.T) {
	const end = 20000.0
	for _, c := range []struct {
		name        string
		l           Load
		mean, limit float64
	}{
		{"none", Load{}, 0, 0},
		{"drift", Load{DriftWatts: 1e-5}, 0.1, 1e-9},
		{"sine", Load{SineWatts: 1, SineSeconds: 10}, 0, 1e-3},
		// 30,000 bursts: one standard deviation is 0.6 %.
		{"bursts", Load{BurstHz: 1.5, BurstSeconds: 0.02, BurstWatts: 0.1}, 0.003, 0.00006},
		{"pulses", Load{PulseWatts: 0.25, PulseSeconds: 0.003}, 0.25 * 0.003 / 0.1024, 1e-7},
	} {
		if got := level(c.l, 1, end).mean(0, end); math.Abs(got-c.mean) > c.limit {
			t.Errorf("%s: mean is %g W, want %g W", c.name, got, c.mean)
		}
	}
	sine := level(Load{SineWatts: 1, SineSeconds: 10}, 1, end)
	peak := 0.0
	for _, v := range sine.from {
		peak = max(peak, v)
	}
	if peak < 0.99 || peak > 1 {
		t.Errorf("a sine of 1 W peaks at %g W", peak)
	}
}

func TestWalk(t *testing.T) {
	const end = 60000.0
	c := level(Load{WalkWatts: 0.01}, 1, end)
	squares, last := 0.0, 0.0
	for at := 60.0; at < end; at += 60 {
		v, _ := c.value(c.piece(at), at)
		squares += (v - last) * (v - last)
		last = v
	}
	if sd := math.Sqrt(squares / (end / 60)); math.Abs(sd/0.01-1) > 0.1 {
		t.Errorf("the walk moves by %g W a minute, want 0.01 W", sd)
	}
}
