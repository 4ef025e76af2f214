package imports

import (
	"fmt"
	"math"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// powerWriter writes mean powers over intervals, as energy counters give them.
// A sample stands at the start of its interval; where the next interval does
// not follow at once, and after the last one, a sample without a value ends it.
type powerWriter struct {
	*job
	model string

	b       *block
	firstNs int64
	endNs   int64   // of the last interval
	watts   float64 // of the last interval with a value

	intervals int64
	unknown   int64 // intervals without a value
	wraps     int64 // counters that began anew
	resets    int64 // counters that went back by none of their ranges
}

// add takes one interval on the tool's clock; watts is NaN where it is not
// known.
func (p *powerWriter) add(startNs, endNs int64, watts float64) error {
	if p.b == nil {
		if err := p.open(startNs); err != nil {
			return err
		}
	}
	if startNs > p.endNs {
		if err := p.sample(p.endNs, math.NaN()); err != nil {
			return err
		}
	}
	p.intervals++
	p.endNs = endNs
	if watts != watts {
		p.unknown++
	} else {
		p.watts = watts
	}
	return p.sample(startNs, watts)
}

// open begins the run.
func (p *powerWriter) open(firstNs int64) error {
	p.firstNs, p.endNs = firstNs, firstNs
	if err := p.startAt(firstNs, false); err != nil {
		return err
	}
	s, err := p.w.Stream(p.info(meters.Info{
		Model: p.model, Columns: []string{meters.Watts}, Sample: meters.Mean, Clock: meters.Shared, FirstHostNs: firstNs - p.baseNs,
	}))
	p.b = newBlock(s, 1, true)
	return err
}

func (p *powerWriter) sample(ns int64, watts float64) error {
	p.b.b.TimesNs = append(p.b.b.TimesNs, ns-p.firstNs)
	p.b.add([]float64{watts})
	if p.b.b.Len() == blockRows {
		return p.b.flush(-1)
	}
	return nil
}

// counterRanges are where energy counters begin anew: 32 bits of 2^-16 J and of
// 2^-14 J, the units of most processors (Intel SDM vol. 3B, 15.10.1), the
// latter as Linux rounds it (262143328850 µJ), and 2^37 µJ.
var counterRanges = []float64{65536, 262143.328850, 262144, 137438.953472}

// unwrap returns the energy of an interval from a counter that went back by
// -joules: the range that gives a power like that before is added. NaN where
// none does: the counter was set back, or began anew more than once.
func (p *powerWriter) unwrap(joules, seconds float64) float64 {
	for _, r := range counterRanges {
		if w := (joules + r) / seconds; joules+r > 0 && p.watts > 0 && w < 3*p.watts && w > p.watts/3 {
			p.wraps++
			return joules + r
		}
	}
	p.resets++
	return math.NaN()
}

// finish writes the rest, the notes, the marks, and closes the run.
func (p *powerWriter) finish() error {
	if p.b == nil {
		return fmt.Errorf("%s: holds no interval with an energy", p.Samples)
	}
	if p.unknown == p.intervals {
		return fmt.Errorf("%s: no interval has a possible energy", p.Samples)
	}
	if err := p.sample(p.endNs, math.NaN()); err != nil {
		return err
	}
	if err := p.b.flush(-1); err != nil {
		return err
	}
	for _, n := range p.notes() {
		if err := p.note(n); err != nil {
			return err
		}
	}
	p.summary.Samples = p.b.n
	p.summary.Seconds = float64(p.endNs-p.firstNs) / 1e9
	return p.end(p.firstNs, p.endNs)
}

func (p *powerWriter) notes() []run.Note {
	notes := []run.Note{{Code: "counter-power", Count: p.intervals, Text: fmt.Sprintf(
		"%d intervals of an energy counter became mean powers; it counts all that ran on the machine", p.intervals)}}
	if p.wraps > 0 {
		notes = append(notes, run.Note{Code: "counter-wraps", Count: p.wraps, Text: fmt.Sprintf(
			"times that the counter began anew: %d; its range was added", p.wraps)})
	}
	if p.resets > 0 {
		notes = append(notes, run.Note{Code: "counter-resets", Count: p.resets, Warn: true, Text: fmt.Sprintf(
			"times that the counter went back by none of the ranges that counters have (set back, or begun anew more than once): %d; not measured there", p.resets)})
	}
	if n := p.unknown - p.resets; n > 0 {
		notes = append(notes, run.Note{Code: "missing-values", Count: n, Text: have(n, "interval") + " no value; taken as not measured"})
	}
	return notes
}
