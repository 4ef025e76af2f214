package bench

import (
	"cmp"
	"fmt"
	"slices"
)

// growing is a curve that is made as time goes on. Changes may be put to any
// second that it has not reached.
type growing struct {
	curve
	value, slope float64  // at the end
	bent         bool     // a change stands at the end
	known        []change // from the beginning, ascending
	coming       []change // put since, ascending
}

func newGrowing(start, value float64, known []change) *growing {
	known = slices.Clone(known)
	slices.SortStableFunc(known, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return &growing{curve: curve{at: []float64{start}, area: []float64{0}}, value: value, known: known}
}

// put adds changes; none lies before the end.
func (g *growing) put(changes ...change) {
	for _, c := range changes {
		i, _ := slices.BinarySearchFunc(g.coming, c.at, func(o change, at float64) int {
			if o.at <= at {
				return -1
			}
			return 1
		})
		g.coming = slices.Insert(g.coming, i, c)
	}
}

// grow takes the curve up to a second.
func (g *growing) grow(until float64) {
	for {
		from := &g.known
		if len(g.known) == 0 || len(g.coming) > 0 && g.coming[0].at < g.known[0].at {
			from = &g.coming
		}
		if len(*from) == 0 || (*from)[0].at >= until {
			break
		}
		c := (*from)[0]
		*from = (*from)[1:]
		g.reach(c.at)
		g.value += c.jump
		g.slope += c.slope
		g.bent = true
	}
	g.reach(until)
}

// reach goes on as it was up to a second. A level that lasts stays one piece.
func (g *growing) reach(t float64) {
	last := len(g.at) - 1
	length := t - g.at[last]
	if length <= 0 {
		return
	}
	value := g.value + g.slope*length
	if last > 0 && !g.bent && g.slope == 0 {
		g.at[last] = t
		g.area[last] = g.area[last-1] + (t-g.at[last-1])*value
	} else {
		g.from = append(g.from, g.value)
		g.to = append(g.to, value)
		g.at = append(g.at, t)
		g.area = append(g.area, g.area[last]+length*(g.value+value)/2)
		g.bent = false
	}
	g.value = value
}

// power is the load of a target as time goes on, and the current that it draws.
type power struct {
	supply      supply
	watts, idle *growing
	amps        curve
}

func newPower(sup supply, start, idleWatts float64, background []change) *power {
	return &power{supply: sup, watts: newGrowing(start, idleWatts, background), idle: newGrowing(start, idleWatts, background)}
}

// grow takes load and current up to a second. It fails where the supply cannot
// deliver the load.
func (p *power) grow(until float64) error {
	// A piece that has grown longer is level: so is its current.
	first := len(p.watts.from)
	p.idle.grow(until)
	p.watts.grow(until)
	tail := curve{at: p.watts.at[first:], from: p.watts.from[first:], to: p.watts.to[first:]}
	amps, err := p.supply.current(&tail)
	if err != nil {
		return fmt.Errorf("serve the load: %w", err)
	}
	p.amps.at = append(p.amps.at[:first], amps.at...)
	p.amps.from = append(p.amps.from[:first], amps.from...)
	p.amps.to = append(p.amps.to[:first], amps.to...)
	return nil
}
