package bench

import (
	"math"
	"testing"
)

// world of curves that the tests share: jumps, ramps, slopes and a wave.
func testCurve() *curve {
	c := []change{{slope: 0.003}}
	c = pulse(c, 1.2345, 3.21, 0, 0.17)
	c = pulse(c, 4.0011, 5.9, 0.007, 0.2)
	c = pulse(c, 6, 6.003, 0, 0.5)
	c = polyline(c, 0, 0.25, series(8, 0.25, func(t float64) float64 { return 0.02 * math.Sin(t) }))
	return sum(c, -1, 8, 0.1)
}

// at is the value of the same curve, written down independently.
func testValue(t float64) float64 {
	v := 0.1
	if t >= 0 {
		v += 0.003 * t
		i := math.Floor(t / 0.25)
		part := t/0.25 - i
		v += 0.02 * (math.Sin(i*0.25)*(1-part) + math.Sin((i+1)*0.25)*part)
	}
	if t >= 1.2345 && t < 3.21 {
		v += 0.17
	}
	v += 0.2 * (clamp((t-4.0011)/0.007) - clamp((t-5.9)/0.007))
	if t >= 6 && t < 6.003 {
		v += 0.5
	}
	return v
}

func clamp(x float64) float64 { return max(0, min(1, x)) }

// quadrature integrates by the midpoint rule.
func quadrature(f func(float64) float64, a, b float64, steps int) float64 {
	h, area := (b-a)/float64(steps), 0.0
	for i := range steps {
		area += f(a+(float64(i)+0.5)*h) * h
	}
	return area
}

func TestCurveIntegral(t *testing.T) {
	c := testCurve()
	for _, ab := range [][2]float64{{-0.5, 7.9}, {0, 1}, {1.2, 1.3}, {3, 3.3}, {4, 4.005}, {5.9, 5.907}, {5.99, 6.1}, {2, 2.0001}} {
		a, b := ab[0], ab[1]
		want := quadrature(testValue, a, b, 400_000)
		if got := c.integral(a, b); math.Abs(got-want) > 1e-5*(b-a) {
			t.Errorf("integral from %g to %g is %.9g, quadrature %.9g", a, b, got, want)
		}
	}
}

func TestCurveValue(t *testing.T) {
	c := testCurve()
	for i := range 8000 {
		at := -0.5 + float64(i)*0.00104
		got, _ := c.value(c.piece(at), at)
		if want := testValue(at); math.Abs(got-want) > 1e-12 {
			t.Fatalf("value at %g is %.15g, want %.15g", at, got, want)
		}
	}
}

func TestSupply(t *testing.T) {
	for _, s := range []supply{{5.1, 0.1}, {20, 0}, {5, 1}} {
		for _, watts := range []float64{0.01, 0.115, 0.3, 6} {
			a := s.amps(watts)
			if got := s.volts(a) * a; math.Abs(got-watts) > 1e-12*watts {
				t.Errorf("%+v: %g A at %g V is %g W, want %g", s, a, s.volts(a), got, watts)
			}
		}
	}
	if _, err := (supply{5, 1}).current(sum(nil, 0, 1, 7)); err == nil {
		t.Error("5 V behind 1 ohm delivered 7 W")
	}
	if _, err := (supply{5, 1}).current(sum(nil, 0, 1, -1)); err == nil {
		t.Error("a load of -1 W was played")
	}
}
