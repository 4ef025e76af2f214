package bench

import (
	"cmp"
	"slices"
	"sort"
)

// A change is one breakpoint of a piecewise linear function of true time: at
// its second the value jumps and the slope changes, both by an amount a
// change. Functions are added by putting their changes into one list.
type change struct {
	at    float64 // seconds
	jump  float64
	slope float64 // per second
}

// pulse is a rectangle of the given height, or a trapezium where ramp > 0:
// rising from t0 to t0+ramp, falling from t1 to t1+ramp. Its area is
// height*(t1-t0) either way.
func pulse(to []change, t0, t1, ramp, height float64) []change {
	if ramp == 0 {
		return append(to, change{at: t0, jump: height}, change{at: t1, jump: -height})
	}
	s := height / ramp
	return append(to,
		change{at: t0, slope: s}, change{at: t0 + ramp, slope: -s},
		change{at: t1, slope: -s}, change{at: t1 + ramp, slope: s})
}

// polyline goes through values at equal steps from t0 on, and stays at the
// last. It begins with a jump to the first.
func polyline(to []change, t0, step float64, values []float64) []change {
	slope := 0.0
	for i, v := range values {
		next := 0.0
		if i+1 < len(values) {
			next = (values[i+1] - v) / step
		}
		c := change{at: t0 + float64(i)*step, slope: next - slope}
		if i == 0 {
			c.jump = v
		}
		to = append(to, c)
		slope = next
	}
	return to
}

// A curve is a piecewise linear function of true time with jumps, and its
// integral in closed form.
type curve struct {
	at       []float64 // start of each piece, ascending; the last is the end
	from, to []float64 // values at both ends of each piece
	area     []float64 // integral from at[0] to at[i]
}

// sum adds changes up, from start to end, beginning at value. It sorts them.
func sum(changes []change, start, end, value float64) *curve {
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	c := &curve{}
	at, slope := start, 0.0
	for _, ch := range changes {
		if ch.at > at && at < end {
			until := min(ch.at, end)
			c.add(at, value, value+slope*(until-at))
			value += slope * (until - at)
			at = until
		}
		value += ch.jump
		slope += ch.slope
	}
	if at < end {
		c.add(at, value, value+slope*(end-at))
	}
	c.close(end)
	return c
}

func (c *curve) add(at, from, to float64) {
	c.at = append(c.at, at)
	c.from = append(c.from, from)
	c.to = append(c.to, to)
}

func (c *curve) close(end float64) {
	c.at = append(c.at, end)
	c.area = make([]float64, len(c.at))
	for i := range c.from {
		c.area[i+1] = c.area[i] + (c.at[i+1]-c.at[i])*(c.from[i]+c.to[i])/2
	}
}

// through returns the curve whose pieces run between f of the ends of c's.
func (c *curve) through(f func(float64) float64) *curve {
	d := &curve{}
	for i := range c.from {
		d.add(c.at[i], f(c.from[i]), f(c.to[i]))
	}
	d.close(c.at[len(c.at)-1])
	return d
}

// piece returns the piece that holds t.
func (c *curve) piece(t float64) int {
	i := sort.SearchFloat64s(c.at, t)
	if i == len(c.at) || c.at[i] > t {
		i--
	}
	return max(0, min(i, len(c.from)-1))
}

// value returns the value at t, after a jump that is exactly there, from
// piece i or a later one, and that piece.
func (c *curve) value(i int, t float64) (float64, int) {
	for i+1 < len(c.from) && c.at[i+1] <= t {
		i++
	}
	h := c.at[i+1] - c.at[i]
	return c.from[i] + (c.to[i]-c.from[i])*(t-c.at[i])/h, i
}

// integral returns the integral from a to b.
func (c *curve) integral(a, b float64) float64 { return c.until(b) - c.until(a) }

func (c *curve) until(t float64) float64 {
	v, i := c.value(c.piece(t), t)
	return c.area[i] + (t-c.at[i])*(c.from[i]+v)/2
}

// mean returns the mean from a to b.
func (c *curve) mean(a, b float64) float64 { return c.integral(a, b) / (b - a) }

// walk calls f for each linear part of [a, b), in order, with its ends and
// the values there. It starts looking at piece i and returns the piece that
// holds b.
func (c *curve) walk(i int, a, b float64, f func(t0, t1, v0, v1 float64)) int {
	for a < b {
		var v float64
		v, i = c.value(i, a)
		until := b
		if i+1 < len(c.from) {
			until = min(b, c.at[i+1])
		}
		slope := (c.to[i] - c.from[i]) / (c.at[i+1] - c.at[i])
		f(a, until, v, v+slope*(until-a))
		a = until
	}
	return i
}
