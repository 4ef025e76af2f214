package bench

import "math"

// A filter is the response of a meter's input to the current at its terminals.
// It is asked for one interval after the other and computes each exactly for a
// piecewise linear input.
type filter interface {
	// mean returns the mean output from the end of the last interval to t.
	mean(t float64) float64
	// level returns the output at the end of the last interval.
	level() float64
}

func newFilter(kind string, seconds float64, in *curve, start float64) filter {
	switch kind {
	case Boxcar:
		return &boxcar{in: in, width: seconds, at: start, first: in.piece(start - seconds)}
	case OnePole:
		v, i := in.value(in.piece(start), start)
		return &onePole{in: in, tau: seconds, at: start, i: i, y: v}
	}
	return &direct{in: in, at: start, i: in.piece(start)}
}

type direct struct {
	in *curve
	at float64
	i  int
}

func (f *direct) mean(t float64) float64 {
	area := 0.0
	f.i = f.in.walk(f.i, f.at, t, func(t0, t1, v0, v1 float64) { area += (t1 - t0) * (v0 + v1) / 2 })
	area /= t - f.at
	f.at = t
	return area
}

func (f *direct) level() float64 {
	v, _ := f.in.value(f.i, f.at)
	return v
}

// onePole is y' = (x-y)/tau. For x = x0 + s*u it is solved by
// y(u) = x(u) - s*tau + (y0 - x0 + s*tau)*exp(-u/tau); and since y = x - tau*y',
// the integral of y is that of x less tau*(y(u) - y0).
type onePole struct {
	in  *curve
	tau float64
	at  float64
	i   int
	y   float64
}

func (f *onePole) mean(t float64) float64 {
	area, y0 := 0.0, f.y
	f.i = f.in.walk(f.i, f.at, t, func(t0, t1, v0, v1 float64) {
		h := t1 - t0
		area += h * (v0 + v1) / 2
		lag := (v1 - v0) / h * f.tau
		f.y = v1 - lag + (f.y-v0+lag)*math.Exp(-h/f.tau)
	})
	m := (area - f.tau*(f.y-y0)) / (t - f.at)
	f.at = t
	return m
}

func (f *onePole) level() float64 { return f.y }

// boxcar is the running mean over the last width seconds. The mean of that
// from a to b is the input weighted by a trapezium over [a-width, b).
type boxcar struct {
	in    *curve
	width float64
	at    float64
	first int // piece that holds at-width
}

func (f *boxcar) mean(t float64) float64 {
	a, b := f.at, t
	weight := func(u float64) float64 { return (min(u+f.width, b) - max(u, a)) / f.width }
	area := 0.0
	add := func(t0, t1, v0, v1 float64) {
		// Simpson's rule is exact for the product of two linear functions.
		w0, w1 := weight(t0), weight(t1)
		area += (t1 - t0) * (v0*w0 + (v0+v1)*(w0+w1) + v1*w1) / 6
	}
	inner, outer := min(a, b-f.width), max(a, b-f.width)
	i := f.in.walk(f.first, a-f.width, inner, add)
	i = f.in.walk(i, inner, outer, add)
	f.in.walk(i, outer, b, add)
	_, f.first = f.in.value(f.first, b-f.width)
	f.at = b
	return area / (b - a)
}

func (f *boxcar) level() float64 {
	area := 0.0
	f.in.walk(f.first, f.at-f.width, f.at, func(t0, t1, v0, v1 float64) { area += (t1 - t0) * (v0 + v1) / 2 })
	return area / f.width
}
