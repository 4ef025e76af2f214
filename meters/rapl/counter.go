package rapl

import (
	"errors"
	"fmt"
)

// maxWatts is beyond the power of a domain: processors of 2026 are sold with up
// to 500 W a package, and psys covers a machine of several. Assumed.
func (z zone) maxWatts() float64 {
	if z.name == "psys" {
		return 4000
	}
	return 1000
}

// updateSeconds is how old a counter's value may be, s (Intel, SDM volume 3,
// 16.10: about 1 ms).
const updateSeconds = 2e-3

// leastRangeJoules is the shortest range in use, assumed where a counter's own
// cannot be read: 32 bits of 15.3 uJ, the unit of server dram (Intel, SDM volume
// 3, 16.10).
const leastRangeJoules = (1 << 32) * 15.3e-6

// counter is one counter as it runs: it counts up to rangeUJ and goes on at 0.
type counter struct {
	zone    zone
	rangeUJ int64 // 0 where it cannot be read
	last    int64 // uJ at the last sample

	now int64 // uJ, of the read at hand
	err error // or why there is none

	lost         bool    // the read before failed
	stillSeconds float64 // without a move
}

// longStill is how long a processor that works cannot leave a counter alone, s.
// Assumed: it is updated every millisecond.
const longStill = 5.0

// advance returns the energy since the last sample, J, and takes the read at
// hand for the next last one. It fails where that energy cannot be known.
func (c *counter) advance(seconds float64) (joules float64, err error) {
	if c.err != nil {
		c.lost = true
		return 0, c.err
	}
	last, lost := c.last, c.lost
	c.last, c.lost = c.now, false
	switch {
	case lost:
		return 0, errors.New("it could not be read before")
	case c.now < 0 || last < 0:
		return 0, fmt.Errorf("its counter shows %d uJ", min(c.now, last))
	case c.rangeUJ > 0 && max(last, c.now) > c.rangeUJ:
		return 0, fmt.Errorf("its counter shows %d uJ, beyond its range of %d uJ", max(last, c.now), c.rangeUJ)
	case c.rangeUJ == 0 && c.now < last:
		return 0, fmt.Errorf("its counter wrapped from %d to %d uJ, and its range cannot be read", last, c.now)
	}
	uj := c.now - last
	if uj < 0 {
		uj += c.rangeUJ
	}
	if c.stillSeconds += seconds; uj > 0 {
		c.stillSeconds = 0
	}
	rangeJoules := float64(c.rangeUJ) * 1e-6
	if c.rangeUJ == 0 {
		rangeJoules = leastRangeJoules
	}
	joules = float64(uj) * 1e-6
	maxWatts := c.zone.maxWatts()
	switch {
	case seconds*maxWatts >= rangeJoules:
		return 0, fmt.Errorf("it was not read for %.3g s, in which its counter may have wrapped more than once", seconds)
	case joules > maxWatts*(seconds+updateSeconds):
		return 0, fmt.Errorf("its counter went from %d to %d uJ in %.3g s: more than %g W", last, c.now, seconds, maxWatts)
	case c.stillSeconds > longStill:
		return 0, fmt.Errorf("its counter has not moved for %.0f s", longStill)
	}
	return joules, nil
}
