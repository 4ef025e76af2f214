package align

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/mark"
)

// byHand is what a person set for the stream: nothing of it moves with the
// offset, windows stand where they were put.
type byHand struct {
	windows []Window
	quiet   []Quiet
	offset  *float64 // s, from marks to power; nil where none was set
}

// takeHand reads what was set by hand for a stream and puts it on the sample
// clock.
func (t *Timeline) takeHand(stream string) error {
	all, err := t.Run.Hand()
	if err != nil {
		return err
	}
	set := all.Stream(stream)
	t.hand.offset = set.OffsetSeconds
	first, _, _ := t.segments[0].tie.host(0)
	for _, h := range set.Windows {
		w := Window{
			Win: mark.Win{W: h.W, Alg: h.Alg, Op: h.Op, N: h.N, Idle: h.Idle},
			Pre: h.PreSeconds, Post: h.PostSeconds, Seconds: h.EndSeconds - h.StartSeconds, ByHand: true,
		}
		w.Segment, w.From, w.To, _, err = placer{Timeline: t}.on(first+h.StartSeconds, first+h.EndSeconds)
		if err != nil {
			w.Excluded, w.From, w.To = "it lies outside the recording", 0, 0
		} else {
			rate := t.Rate(w.Segment)
			for _, q := range []Quiet{
				{Segment: w.Segment, From: w.From - w.Pre/rate, To: w.From, Mode: w.Idle},
				{Segment: w.Segment, From: w.To, To: w.To + w.Post/rate, Mode: w.Idle},
			} {
				if q.To > q.From {
					t.hand.quiet = append(t.hand.quiet, q)
				}
			}
		}
		t.hand.windows = append(t.hand.windows, w)
	}
	return nil
}

// settleHand puts the windows that were set by hand among the others, once
// these stand where they stay.
func (t *Timeline) settleHand() {
	n := len(t.hand.windows)
	if n == 0 {
		return
	}
	t.Windows = append(t.Windows, t.hand.windows...)
	slices.SortStableFunc(t.Windows, func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.From, b.From))
	})
	t.excludeOverlaps()
	// What was inferred before did not know of these windows.
	t.Quiet = slices.DeleteFunc(t.Quiet, func(q Quiet) bool { return q.Inferred })
	t.Quiet = append(t.Quiet, t.hand.quiet...)
	t.inferQuiet()
	t.hand.windows, t.hand.quiet = nil, nil
	t.warn("hand", plural(n, "window was", "windows were")+" set by hand", false)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// clipQuiet ends quiet stretches with the recording: what a window's quiet zones
// claim beyond it is not there.
func (t *Timeline) clipQuiet() {
	for i := range t.Quiet {
		q := &t.Quiet[i]
		q.To = math.Min(q.To, t.segments[q.Segment].trace.end)
	}
}

// onSampleClock says that windows stand on the sample clock already, so that
// no offset moves them. pinned: the samples themselves hold the marks.
func (t *Timeline) onSampleClock(pinned bool) {
	t.Method = InBand
	if t.Meter.Clock == meters.Shared && !pinned {
		t.Method = BySharing
	}
	if o := t.hand.offset; o != nil {
		t.warn("hand", "the offset of "+si.Format(*o, "s", 4)+" that was set by hand is not used: all windows stand on the sample clock", false)
	}
}

// judgeHand looks for the steps of power at windows that were set by hand. They
// do not move the windows, but tell the response of the meter, and how far off
// the windows were put: that is the doubt of their edges.
func (t *Timeline) judgeHand(o Offset, problem string) {
	if problem != "" {
		t.Offset = Offset{Edges: o.Edges, RunnerUp: o.RunnerUp, U: (plausibleTo - plausibleFrom) / math.Sqrt(12)}
		t.warn("edges", "no step of power supports the windows set by hand: "+problem, true)
		return
	}
	off := o.Seconds
	// Each window was put by itself: the scatter of the edges counts, not the
	// standard error of their mean.
	o.Fold = o.Fold.later(off)
	o.Seconds, o.U = 0, math.Hypot(off, o.U*math.Sqrt(float64(o.Edges)))
	t.Offset = o
	if math.Abs(off) > 2*t.segments[0].trace.period {
		direction := "after"
		if off < 0 {
			direction = "before"
		}
		t.warn("hand", fmt.Sprintf("the steps of power stand %s %s the windows set by hand, on average", si.Format(math.Abs(off), "s", 3), direction), false)
	}
}

// handOffset applies the offset that was set by hand where the edges cannot
// give one, and says so. It reports whether there was one.
func (t *Timeline) handOffset(problem string) bool {
	if t.hand.offset == nil {
		return false
	}
	set := si.Format(*t.hand.offset, "s", 4)
	if problem == "" {
		t.warn("hand", fmt.Sprintf("the offset of %s that was set by hand is not used: the edges give %s", set, si.Format(t.Offset.Seconds, "s", 4)), false)
		return true
	}
	t.Offset.Seconds = *t.hand.offset
	t.warn("hand", fmt.Sprintf("the offset from marks to power was set by hand to %s, since the edges do not show it: %s", set, problem), false)
	return true
}
