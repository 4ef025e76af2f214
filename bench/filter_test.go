package bench

import (
	"math"
	"testing"
)

// response is the output of a filter by brute force: the input weighted by the
// filter's memory, which ends at age seconds.
func response(kind string, seconds, at float64) float64 {
	switch kind {
	case Boxcar:
		return quadrature(testValue, at-seconds, at, 1000) / seconds
	case OnePole:
		age := 20 * seconds
		return quadrature(func(u float64) float64 {
			return testValue(u) * math.Exp((u-at)/seconds) / seconds
		}, at-age, at, 12000)
	}
	return testValue(at)
}

var filters = []struct {
	kind    string
	seconds float64
}{{NoFilter, 0}, {Boxcar, 0.004}, {Boxcar, 0.03}, {Boxcar, 0.5}, {OnePole, 0.002}, {OnePole, 0.04}}

func TestFilterAgainstQuadrature(t *testing.T) {
	c := testCurve()
	for _, f := range filters {
		in := newFilter(f.kind, f.seconds, c, 0)
		for i := 1; i < 640; i++ {
			from, at := float64(i-1)*0.01, float64(i)*0.01
			mean := in.mean(at)
			if i%20 != 4 && (i < 594 || i > 604) {
				continue
			}
			if want := response(f.kind, f.seconds, at); math.Abs(in.level()-want) > 6e-4 {
				t.Errorf("%s %g s: level at %g is %.8g, want %.8g", f.kind, f.seconds, at, in.level(), want)
			}
			want := quadrature(func(u float64) float64 { return response(f.kind, f.seconds, u) }, from, at, 20) / 0.01
			if math.Abs(mean-want) > 9e-3 {
				t.Errorf("%s %g s: mean up to %g is %.8g, want %.8g", f.kind, f.seconds, at, mean, want)
			}
		}
	}
}

// The mean over two neighbouring intervals is the mean of their means, for
// any filter; so the steps in which a filter is asked do not matter.
func TestFilterStepsDoNotMatter(t *testing.T) {
	c := testCurve()
	for _, f := range filters {
		coarse, fine := newFilter(f.kind, f.seconds, c, 0), newFilter(f.kind, f.seconds, c, 0)
		for i := 1; i <= 700; i++ {
			at, sum := float64(i)*0.01, 0.0
			for k := 9; k >= 0; k-- {
				sum += fine.mean(at - float64(k)*0.001)
			}
			if got := coarse.mean(at); math.Abs(got-sum/10) > 1e-12 {
				t.Fatalf("%s %g s: mean up to %g is %.15g in one step, %.15g in ten", f.kind, f.seconds, at, got, sum/10)
			}
		}
	}
}

// A linear filter of unit gain keeps the area of a pulse, tails included, and
// moves its centroid by its own delay.
func TestFilterKeepsAreaAndDelays(t *testing.T) {
	const ramp = 0.005
	c := sum(pulse(nil, 2.0031, 4.0077, ramp, 0.2), -1, 8, 0.1)
	area := 0.2 * (4.0077 - 2.0031)
	centroid := (2.0031+4.0077)/2 + ramp/2
	for _, f := range filters {
		in := newFilter(f.kind, f.seconds, c, 0)
		sum, moment := 0.0, 0.0
		for i := range 7000 {
			v := (in.mean(float64(i+1)*0.001) - 0.1) * 0.001
			sum += v
			moment += v * (float64(i) + 0.5) * 0.001
		}
		if math.Abs(sum-area) > 1e-9*area {
			t.Errorf("%s %g s: area %.12g, want %.12g", f.kind, f.seconds, sum, area)
		}
		delay := f.seconds
		if f.kind == Boxcar {
			delay /= 2
		}
		if got := moment/sum - centroid; math.Abs(got-delay) > 1e-6 {
			t.Errorf("%s %g s: centroid is %.7g s late, want %.7g", f.kind, f.seconds, got, delay)
		}
	}
}
