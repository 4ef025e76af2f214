// Package align puts windows on the meter's own time line: it fits the tick
// clock of the target and the sample clock of the meter to the host clock,
// finds the rest of the offset from the steps of power, and holds the power
// around every window as integrals.
package align

import (
	"fmt"
	"iter"
	"math"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/clock"
	"github.com/joulemark/joulemark/sync/mark"
)

// Method says how marks were put on the sample clock.
type Method string

const (
	ByEdges   Method = "edges"        // arrival fit, and the offset from the power steps
	ByArrival Method = "arrival"      // arrival fit alone: edges could not be resolved
	InBand    Method = "inband"       // windows on the sample clock: a pin or trigger recorded by the meter itself, or set by hand
	BySharing Method = "shared-clock" // marks and samples stamped by one clock
)

// Warning is a remark that belongs to a result. A warning that Voids the claim
// makes the result unfit to be quoted.
type Warning struct {
	Code  string
	Text  string
	Voids bool
}

// Window is one window on the sample clock.
type Window struct {
	mark.Win
	Lat *mark.Lat // latency of single operations; nil where not stated

	// Segment is the index of the stream's segment that holds the window, and
	// From and To bound it in seconds of that segment's sample clock, offset
	// included.
	Segment  int
	From, To float64
	// Seconds is its length in host seconds, by the target's own clock where it
	// has one.
	Seconds float64
	// UEdge is the standard uncertainty of From and To that does not follow
	// from the offset's, s.
	UEdge float64
	// Pre and Post are the quiet zones around it, s; 0 where none are stated.
	Pre, Post float64
	// StartSeconds and EndSeconds count from the stream's first sample, at the
	// fitted rate, offset included.
	StartSeconds, EndSeconds float64
	// ByHand: a person put it there.
	ByHand bool
	// Excluded says why the window does not count; "" where it does.
	Excluded string

	// What a pin that tells when it ran must agree with: arrived is the host
	// time of its statement, s; lengthSlack how far Seconds may be off, relative,
	// and edgeSlack the same at the edges, s. unplaced: it is excluded because the
	// clocks could not place it.
	arrived, lengthSlack, edgeSlack float64
	unplaced                        bool
}

// Quiet is a stretch in which the target was idle and silent, on the sample
// clock of a segment, offset included.
type Quiet struct {
	Segment  int
	From, To float64
	Mode     string // idle mode; "" where not stated
	// Inferred: nobody said that the target was idle there; it is the time
	// between windows.
	Inferred bool
}

// Sums are integrals over covered time, in host seconds.
type Sums struct {
	Seconds float64 // covered time
	Joules  float64
	Coulomb float64
	Webers  float64 // integral of voltage, V s
	Square  float64 // integral of power squared, W^2 s
}

// Watts is the mean power over the covered time.
func (s Sums) Watts() float64 { return s.Joules / s.Seconds }

// Plus adds two stretches.
func (s Sums) Plus(o Sums) Sums {
	return Sums{s.Seconds + o.Seconds, s.Joules + o.Joules, s.Coulomb + o.Coulomb, s.Webers + o.Webers, s.Square + o.Square}
}

// Timeline is a run put on one time line.
type Timeline struct {
	Run    *run.Run
	Meter  run.Segment
	Target run.Target

	Method Method
	Offset Offset
	// DriftPPM is the sample clock's rate against the host, +ve: its seconds
	// are longer than the host's.
	DriftPPM float64
	// RateHz is samples per host second.
	RateHz float64
	// Character is what the samples show of the meter.
	Character Character
	// Windows in order of time, excluded ones included; Quiet likewise.
	Windows  []Window
	Quiet    []Quiet
	Warnings []Warning
	// Voided names operations (alg, op) of which a window failed in a way that
	// depends on its energy, with the reason.
	Voided map[mark.Op]string

	segments []*segment
	hand     byHand
}

// segment is one segment of the stream: its trace and its tie to the host.
type segment struct {
	info     run.Segment
	trace    *trace
	tie      tie
	steady   []span          // in which power should not change, before the offset
	lost     []hole          // packets that the arrivals miss
	rate     *clock.Rate     // of the arrivals; nil where the clock is shared
	arrivals *clock.Arrivals // likewise
}

// Between returns the integrals over a stretch of a segment's sample clock.
func (t *Timeline) Between(segment int, from, to float64) Sums {
	s := t.segments[segment]
	v := s.trace.between(span{from, to}).times(s.tie.rate())
	return Sums{v.seconds, v.joules, v.coulomb, v.webers, v.square}
}

// Rate returns the host seconds in a second of a segment's sample clock.
func (t *Timeline) Rate(segment int) float64 { return t.segments[segment].tie.rate() }

// Period returns the distance of samples in a segment, in seconds of its
// sample clock.
func (t *Timeline) Period(segment int) float64 { return t.segments[segment].trace.period }

// Smear returns how far around a place on a segment's sample clock a step of
// power may show that stands there, because the sample it falls into stands for
// longer than 1.5 periods: from and to are x where none does.
func (t *Timeline) Smear(segment int, x float64) (from, to float64) {
	tr := t.segments[segment].trace
	u := 2 * t.Offset.U
	from, to = x, x
	// To the next knot: between knots power counts as constant.
	if s := tr.sample(x - u); s.length() > 0 {
		from = math.Min(x, s.from-finestKnot)
	}
	if s := tr.sample(x + u); s.length() > 0 {
		to = math.Max(x, s.to+finestKnot)
	}
	return from, to
}

// Stretch is the power of consecutive samples.
type Stretch struct {
	StartSeconds  float64   // where the first one begins, on the clock of Window.StartSeconds
	PeriodSeconds float64   // what each stands for, likewise
	Watts         []float64 // NaN where not measured; overwritten by the next stretch
}

// seconds converts a place on a segment's sample clock to the clock of
// Window.StartSeconds; beyond what the clocks' fit covers it is otherwise.
func (t *Timeline) seconds(s *segment, x, otherwise float64) float64 {
	first, _, _ := t.segments[0].tie.host(0)
	at, _, err := s.tie.host(x)
	if err != nil {
		return otherwise
	}
	return at - first
}

// EndSeconds is where the last sample ends, on the clock of
// Window.StartSeconds.
func (t *Timeline) EndSeconds() float64 {
	s := t.segments[len(t.segments)-1]
	return t.seconds(s, s.trace.end, s.trace.end*s.tie.rate())
}

// Power reads the run once more and yields its power in the order of time.
// Batches that are damaged and samples that were lost are left out. An error
// is the last.
func (t *Timeline) Power() iter.Seq2[Stretch, error] {
	return func(yield func(Stretch, error) bool) {
		end := 0.0
		for _, s := range t.segments {
			f := filler{trace: &trace{means: s.trace.means, calibration: s.info.Calibration}, lost: s.lost}
			if s.info.RateHz > 0 {
				f.period = 1 / s.info.RateHz
			}
			f.see = func(x, period float64, watts []float64) bool {
				st := Stretch{t.seconds(s, x, end), period * s.tie.rate(), watts}
				end = st.StartSeconds + float64(len(watts))*st.PeriodSeconds
				return yield(st, nil)
			}
			if err := f.fill(t.Run.Samples(s.info.Stream), s.info.Segment); err != nil {
				yield(Stretch{}, fmt.Errorf("read samples of %s: %w", t.Run.Dir, err))
				return
			}
			if f.ended {
				return
			}
		}
	}
}
