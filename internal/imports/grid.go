package imports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// pins is how many digital inputs a sample can have: columns d0 to d7.
const pins = 8

// pinLevels are the levels of the pins of one sample as characters, pin k in
// bits 8k to 8k+7: '0', '1', or anything else for not measured.
type pinLevels uint64

// level is the value of pin k in its column.
func (p pinLevels) level(k int) float64 {
	switch byte(p >> (8 * k)) {
	case '0':
		return 0
	case '1':
		return 1
	}
	return math.NaN()
}

// grid writes equidistant samples of current, at a stated voltage, with the
// levels of pins, to a run. Samples that are not there become samples without
// a value.
type grid struct {
	job *job
	s   *run.Stream

	periodNs float64
	volts    []float64 // of any block
	*gridBlock
	// Blocks are written while the next ones are read: full ones go out to a
	// goroutine, which gives them back free.
	out, free chan *gridBlock

	levels     pinLevels // of the samples from levelsFrom on
	levelsFrom int

	written int64 // samples in earlier blocks
	holes   int64 // samples without a value
	erased  int64 // of these, impossible ones
	missing int64 // samples that are not there
	gaps    int64 // places where samples are missing
}

// gridBlock is a block of samples: one that is filled, or is written.
type gridBlock struct {
	amps []float64
	pins []pinColumn
	err  error // of writing it
}

// pinColumn is the block of values of one pin.
type pinColumn struct {
	pin    int
	values []float64
	// uniform is the character that all values stand for, 0 where they differ.
	uniform byte
}

// newGrid opens the stream of a recording of current; pins lists the digital
// inputs that it holds. The caller closes it.
func (j *job) newGrid(i meters.Info, volts float64, pins []int) (*grid, error) {
	g := &grid{job: j, periodNs: 1e9 / i.RateHz, volts: slices.Repeat([]float64{volts}, blockRows),
		gridBlock: newGridBlock(pins), out: make(chan *gridBlock, 1), free: make(chan *gridBlock, 2)}
	i.Columns = []string{meters.Volts, meters.Amps}
	for _, pin := range pins {
		i.Columns = append(i.Columns, "d"+strconv.Itoa(pin))
	}
	if o := j.Edges; o != nil && slices.Contains(i.Columns, o.Pin) {
		j.watched = &levelsOf{name: o.Pin, last: -1}
	}
	i = j.info(i)
	// The application keeps currents as float32.
	i.Wide = false
	var err error
	if g.s, err = j.w.Stream(i); err != nil {
		return nil, err
	}
	g.free <- newGridBlock(pins)
	go g.write(g.out)
	return g, nil
}

func newGridBlock(pins []int) *gridBlock {
	b := &gridBlock{amps: make([]float64, 0, blockRows)}
	for _, pin := range pins {
		b.pins = append(b.pins, pinColumn{pin: pin, values: make([]float64, blockRows)})
	}
	return b
}

// write writes the blocks that are full.
func (g *grid) write(full <-chan *gridBlock) {
	defer close(g.free)
	for b := range full {
		n := len(b.amps)
		block := meters.Block{ArrivalNs: -1, Values: [][]float64{g.volts[:n], b.amps}}
		for _, c := range b.pins {
			block.Values = append(block.Values, c.values[:n])
		}
		b.err = g.s.Write(block)
		g.free <- b
	}
}

// close waits until all blocks that were full are written. A second call does
// nothing.
func (g *grid) close() (err error) {
	if g.out == nil {
		return nil
	}
	close(g.out)
	g.out = nil
	for b := range g.free {
		err = cmp.Or(err, b.err)
	}
	return err
}

// add appends one sample; amps is NaN where there is no value.
func (g *grid) add(amps float64, levels pinLevels) error {
	if levels != g.levels {
		if err := g.change(levels); err != nil {
			return err
		}
	}
	switch {
	case amps > ppk2MaxAmps || amps < -ppk2MaxAmps:
		g.erased++
		amps = math.NaN()
		fallthrough
	case amps != amps:
		g.holes++
	}
	g.amps = append(g.amps, amps)
	if len(g.amps) == blockRows {
		return g.flush()
	}
	return nil
}

// change takes the levels of the samples from here on.
func (g *grid) change(levels pinLevels) error {
	g.settle()
	g.levels = levels
	w := g.job.watched
	if w == nil {
		return nil
	}
	v := levels.level(int(w.name[1] - '0'))
	if v != v {
		return nil // the level that it had goes on
	}
	return w.add(int64(math.Round(float64(g.count())*g.periodNs)), int(v))
}

// skip appends n samples that are not there.
func (g *grid) skip(n int64) error {
	g.missing += n
	g.gaps++
	if g.missing > missingAllowance && float64(g.missing) > maxMissingShare*float64(g.count()+n) {
		return fmt.Errorf("%s: by the times %d of %d samples are missing: this is no whole recording; split it at its gaps, or import it with --from csv", g.job.Samples, g.missing, g.count()+n)
	}
	for range n {
		if err := g.add(math.NaN(), 0); err != nil {
			return err
		}
	}
	return nil
}

// count is the number of samples so far.
func (g *grid) count() int64 { return g.written + int64(len(g.amps)) }

// settle writes the levels that held until here into the columns of the pins.
func (g *grid) settle() {
	for i := range g.pins {
		c := &g.pins[i]
		char := byte(g.levels >> (8 * c.pin))
		if c.uniform == char && char != 0 {
			continue
		}
		v := g.levels.level(c.pin)
		part := c.values[g.levelsFrom:len(g.amps)]
		for k := range part {
			part[k] = v
		}
		c.uniform = 0
		if len(part) == blockRows {
			c.uniform = char
		}
	}
	g.levelsFrom = len(g.amps)
}

// flush writes what is pending.
func (g *grid) flush() error {
	n := len(g.amps)
	if n == 0 {
		return nil
	}
	if err := g.job.ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", g.job.Samples, err)
	}
	g.settle()
	g.written += int64(n)
	g.out <- g.gridBlock
	g.gridBlock = <-g.free
	g.amps, g.levelsFrom = g.amps[:0], 0
	return g.err
}

// conclude writes the rest, and notes on what was found.
func (g *grid) conclude(volts float64) error {
	if err := cmp.Or(g.flush(), g.close()); err != nil {
		return err
	}
	if g.holes == g.written {
		return fmt.Errorf("%s: no sample has a value", g.job.Samples)
	}
	notes := []run.Note{statedVolts(volts)}
	if g.missing > 0 {
		share := float64(g.missing) / float64(g.written)
		notes = append(notes, run.Note{Code: "missing-rows", Count: g.missing, Warn: share > lostShare, Text: fmt.Sprintf(
			"%d of %d samples (%.3g %%) are missing in %d places: lost on the way to the computer; they count as not measured",
			g.missing, g.written, 100*share, g.gaps)})
	}
	if n := g.holes - g.missing - g.erased; n > 0 {
		share := float64(n) / float64(g.written)
		notes = append(notes, run.Note{Code: "missing-values", Count: n, Warn: share > lostShare, Text: fmt.Sprintf(
			"%d of %d samples (%.3g %%) have no value and count as not measured", n, g.written, 100*share)})
	}
	if g.erased > 0 {
		notes = append(notes, run.Note{Code: "impossible", Count: g.erased, Warn: true, Text: fmt.Sprintf(
			"%s an impossible current (beyond %g A); taken as not measured", have(g.erased, "sample"), ppk2MaxAmps)})
	}
	for _, n := range notes {
		if err := g.job.note(n); err != nil {
			return err
		}
	}
	return nil
}

// lostShare is the share of lost samples above which results carry a warning.
const lostShare = 0.01
