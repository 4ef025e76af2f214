package align

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/sync/clock"
)

// tickClock ties the target's tick clock to the host clock. A reset or a jump
// of the ticks begins a new epoch with a fit of its own.
type tickClock struct {
	unwrapper *clock.Unwrapper // nil where the target stated no rate
	fits      []*clock.Map     // by epoch; nil where it has too few beacons
	last      []float64        // by epoch, host seconds of its last beacon
	hz        float64
	mask      uint64
	items     []item
}

// newTickClock fits the beacons. A statement that carries the time at which it
// was made is as good as a beacon; where a target sends neither, the ends of
// windows and their quiet zones must do.
func newTickClock(ev *evidence) (*tickClock, []Warning) {
	c := &tickClock{hz: ev.target.TickHz, items: ev.items, mask: math.MaxUint64}
	bits := ev.target.TickBits
	var found []Warning
	if !(c.hz > 0) {
		if c.hz, bits = tickRate(ev.items); !(c.hz > 0) {
			return c, nil
		}
		found = []Warning{{"ticks", fmt.Sprintf("the target's introduction is missing: its beacons show %.5g ticks a second in %d bits", c.hz, bits), false}}
	}
	if bits > 0 && bits < 64 {
		c.mask = 1<<bits - 1
	}
	u, err := clock.NewUnwrapper(c.hz, bits)
	if err != nil {
		return c, []Warning{{"ticks", err.Error(), true}}
	}
	c.unwrapper = u
	beacons := slices.ContainsFunc(ev.items, func(it item) bool { _, ok := it.now(); return ok })
	var pairs [][]clock.Pair
	unread := 0
	for _, it := range ev.items {
		raw, ok := it.now()
		if !ok && !beacons && it.win != nil {
			raw, ok = (it.win.T1+uint64(float64(it.win.PostUs)*1e-6*c.hz))&c.mask, true
		}
		if !ok {
			continue
		}
		r, err := u.Beacon(raw, it.hostSeconds)
		if err != nil {
			unread++
			continue
		}
		for len(pairs) <= r.Epoch {
			pairs = append(pairs, nil)
		}
		pairs[r.Epoch] = append(pairs[r.Epoch], clock.Pair{SourceSeconds: r.Seconds, HostSeconds: it.hostSeconds})
	}
	c.fits, c.last = make([]*clock.Map, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		if len(p) == 0 {
			continue
		}
		c.last[i] = p[len(p)-1].HostSeconds
		if m, err := clock.Fit(p, clock.Options{}); err == nil {
			c.fits[i] = m
		}
	}
	return c, append(found, c.warnings(unread)...)
}

// Limits of tickRate.
const (
	leastApart = 1.0  // s between two beacons that show the rate
	leastRates = 8    // so many times
	rateSpread = 0.01 // relative, of the middle half of them
)

// tickRate finds the rate of a tick counter and its width from beacons alone,
// for a target whose introduction was lost; 0 where they do not show it. The
// median passes over wraps and jumps.
func tickRate(items []item) (hz float64, bits int) {
	type step struct{ ticks, seconds float64 }
	var steps []step
	var rates []float64
	largest, from := 0.0, -1
	for i, it := range items {
		raw, ok := it.now()
		if !ok {
			continue
		}
		largest = math.Max(largest, float64(raw))
		if from < 0 {
			from = i
		}
		if seconds := it.hostSeconds - items[from].hostSeconds; seconds >= leastApart {
			before, _ := items[from].now()
			s := step{float64(raw) - float64(before), seconds}
			steps, rates, from = append(steps, s), append(rates, s.ticks/s.seconds), i
		}
	}
	slices.Sort(rates)
	n := len(rates)
	if n < leastRates || !(rates[n/2] > 0) || rates[3*n/4]-rates[n/4] > rateSpread*rates[n/2] {
		return 0, 0
	}
	hz = rates[n/2]
	for _, s := range steps {
		// A step back by a power of two that no reading reaches is a wrap.
		bits := int(math.Round(math.Log2(hz*s.seconds - s.ticks)))
		wrap := math.Ldexp(1, bits)
		if s.ticks < 0 && bits < 63 && largest < wrap && math.Abs(hz*s.seconds-s.ticks-wrap) < rateSpread*hz*s.seconds {
			return hz, bits
		}
	}
	return hz, 64
}

// now returns the ticks at which a statement was made, if it says so.
func (it item) now() (raw uint64, ok bool) {
	switch {
	case it.sync != nil:
		return it.sync.Ticks, true
	case it.bound != nil && it.bound.Ticks != nil:
		return *it.bound.Ticks, true
	}
	return 0, false
}

func (c *tickClock) warnings(unread int) []Warning {
	var out []Warning
	count := map[clock.EventKind]int{}
	for _, e := range c.unwrapper.Events() {
		count[e.Kind]++
	}
	for _, k := range []struct {
		kind clock.EventKind
		text string
	}{
		{clock.Reset, "the target's clock restarted %d times"},
		{clock.Jump, "the target's clock jumped %d times"},
		{clock.Lost, "the target was silent for too long to count the wraps of its clock, %d times"},
		{clock.Stray, "%d beacons fitted neither before nor after them"},
	} {
		if n := count[k.kind]; n > 0 {
			out = append(out, Warning{"ticks", fmt.Sprintf(k.text, n), false})
		}
	}
	if unread > 0 {
		out = append(out, Warning{"ticks", fmt.Sprintf("%d beacons could not be read", unread), false})
	}
	return out
}

// past places the interval [t0, t1) of ticks of which the statement it tells,
// made lag seconds after t1 (negative: unknown), on the host clock.
func (c *tickClock) past(it *item, t0, t1 uint64, lag float64) (h0, h1, u float64, err error) {
	if c.unwrapper == nil {
		return 0, 0, 0, errors.New("the target never stated the rate of its ticks")
	}
	r, err := c.unwrapper.Past(t1, it.hostSeconds, lag)
	if err != nil {
		return 0, 0, 0, err
	}
	if r.Epoch >= len(c.fits) || c.fits[r.Epoch] == nil {
		return 0, 0, 0, errors.New("too few clock beacons around it")
	}
	length := c.seconds(t0, t1)
	fit := c.fits[r.Epoch]
	h1, u1, err := fit.Host(r.Seconds)
	if err != nil {
		return 0, 0, 0, errors.New("no clock beacons around it")
	}
	h0, u0, err := fit.Host(r.Seconds - length)
	if err != nil {
		// The beacons do not reach back so far: t1 lies before t0, or the counter
		// jumped before the window. Then its rate leads back, as far as no beacon
		// was sent the while.
		h0, u0 = h1-length*fit.Quality().Rate, u1
		if before := c.epochBefore(r.Epoch); before < 0 || h0 < c.last[before] {
			return 0, 0, 0, errEndsFirst
		}
	}
	return h0, h1, math.Max(u0, u1), nil
}

// seconds is the length of an interval of ticks at the rate that the target
// states; 0 where it states none.
func (c *tickClock) seconds(t0, t1 uint64) float64 {
	if !(c.hz > 0) {
		return 0
	}
	return float64((t1-t0)&c.mask) / c.hz
}

// epochBefore returns the epoch before one that has beacons, -1 if none has.
func (c *tickClock) epochBefore(epoch int) int {
	for epoch--; epoch >= 0 && c.fits[epoch] == nil; epoch-- {
	}
	return epoch
}

var errEndsFirst = errors.New("it ends before it begins")
