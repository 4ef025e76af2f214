package bench

import (
	"math"
	"testing"
)

func TestClock(t *testing.T) {
	for _, c := range []Clock{{WanderSeconds: 1}, {PPM: 50, WanderSeconds: 1}, {PPM: -20000, WanderPPM: 100, WanderSeconds: 60}} {
		k := newClock(c, stream(1, "test"))
		for _, at := range []float64{0, 0.001, 9.999, 10, 123.456, 9999.5, 3} {
			if back := k.when(k.read(at)); math.Abs(back-at) > 1e-9 {
				t.Errorf("%+v: clock read at %g s showed that at %.12g s", c, at, back)
			}
		}
		if off := k.meanRate(5000) - 1 - c.PPM*1e-6; math.Abs(off) > c.WanderPPM*1e-6+1e-13 {
			t.Errorf("%+v: mean rate is off by %g", c, off)
		}
	}
}

// The wander has the stated deviation and dies off over the stated time.
func TestClockWander(t *testing.T) {
	k := newClock(Clock{WanderPPM: 2, WanderSeconds: 100}, stream(2, "test"))
	var squares, products, last float64
	const n = 50000
	k.read(n * clockStep)
	for i := range n {
		e := ((k.readings[i+1]-k.readings[i])/clockStep - 1) * 1e6
		squares += e * e
		products += e * last
		last = e
	}
	if sd := math.Sqrt(squares / n); math.Abs(sd-2) > 0.1 {
		t.Errorf("wander of %g ppm, want 2 ppm", sd)
	}
	if rho := products / squares; math.Abs(rho-math.Exp(-0.1)) > 0.01 {
		t.Errorf("steps correlate by %g, want %g", rho, math.Exp(-0.1))
	}
}
