package align

import (
	"errors"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/sync/clock"
)

// tickClock ties the target's tick clock to the host clock. A reset or a jump
// of the ticks begins a new epoch with a fit of its own.
type tickClock struct {
	hz       float64
	bits     int
	fits     []*clock.Map
	warnings []Warning
	items    []item
}

func newTickClock(ev *evidence) *tickClock {
	c := &tickClock{hz: ev.target.TickHz, bits: ev.target.TickBits, items: ev.items}
	var pairs []clock.Pair
	for _, it := range ev.items {
		if it.sync != nil {
			pairs = append(pairs, clock.Pair{SourceSeconds: float64(it.sync.Ticks) / c.hz, HostSeconds: it.hostSeconds})
		}
	}
	m, err := clock.Fit(pairs, clock.Options{})
	if err != nil {
		panic(err)
	}
	c.fits = append(c.fits, m)
	return c
}

func (c *tickClock) past(k int, t0, t1 uint64) (h0, h1, u float64, err error) {
	if !(c.hz > 0) {
		return 0, 0, 0, errors.New("the target never stated its tick rate")
	}
	h0, u0, err := c.fits[0].Host(float64(t0) / c.hz)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("its ticks: %w", err)
	}
	h1, u1, err := c.fits[0].Host(float64(t1) / c.hz)
	return h0, h1, math.Max(u0, u1), err
}
