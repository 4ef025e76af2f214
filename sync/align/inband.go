package align

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/mark"
)

// The pin says when, a statement says which. Statements are put on the time
// line by their arrivals first, and each must find the one activity of the pin
// that has its length and stands where all the others stand, too.

// Limits of what belongs together.
const (
	// pairFrom and pairTo bound how far an activity may stand after the place
	// where arrivals put its statement, s: what is plausible for the offset of a
	// meter, and the jitter of a line.
	pairFrom, pairTo = plausibleFrom - 0.05, plausibleTo + 0.05
	// pairSpread is how far single pairs may lie from what all pairs show, s.
	pairSpread = 0.02
	// arrivalSpread is the same where a window is bounded by lines without
	// ticks.
	arrivalSpread = 0.25
	// maxRunnerPairs is the share of the pairs that another offset may explain.
	maxRunnerPairs = 0.8
	// fittedLength and nominalLength are how far a length by the target's clock
	// may be off, relative: fitted to the host's, and as the target states its
	// rate, since RC oscillators are no better.
	fittedLength, nominalLength = 1e-3, 0.02
	// edgePeriods is the same in samples, for both edges together.
	edgePeriods = 3
)

// unnamed is the operation of a window that nobody names.
const unnamed = "unnamed"

// pinned reads the pin that the run declares for the stream, if any. A pin
// that cannot be read leaves the statements to speak for themselves.
func (t *Timeline) pinned(ev *evidence) ([]activity, *run.InBand, error) {
	pin, ok := ev.inband[t.Meter.Stream]
	if !ok || len(ev.direct) > 0 {
		return nil, nil, nil
	}
	found, err := t.readPin(pin)
	if err != nil {
		if !errors.Is(err, errNoLevels) {
			return nil, nil, err
		}
		t.warn("inband", fmt.Sprintf("column %s: %v; it is not used", pin.Column, err), false)
		return nil, nil, nil
	}
	return found, &pin, nil
}

// pair is a statement and an activity that fits it.
type pair struct {
	window, activity int
	shift            float64 // s, from where arrivals put the window to the activity
}

// fuse gives the stated windows, in order of their arrival, the places of the
// pin's activities.
func (t *Timeline) fuse(found []activity, pin run.InBand) {
	f := fusion{Timeline: t, found: found, taken: make([]int, len(found)), why: make([]string, len(t.Windows))}
	for i := range f.taken {
		f.taken[i] = -1
	}
	f.byPlace()
	f.byOrder()
	f.settle(pin)
}

type fusion struct {
	*Timeline
	found  []activity
	taken  []int    // the window of each activity; -1: none
	why    []string // no activity fits the window
	shift  float64  // s, from where arrivals put statements to the pin
	spread float64  // s, of the single pairs around it
	placed int      // pairs that show it
}

func (f *fusion) period(segment int) float64 {
	if hz := f.segments[segment].info.RateHz; hz > 0 {
		return 1 / hz
	}
	return 1e-3
}

// fits reports whether an activity may be the window: its length is right.
func (f *fusion) fits(w *Window, a activity) bool {
	if !(w.Seconds > 0) {
		return true
	}
	return math.Abs(a.seconds()*f.Rate(a.segment)-w.Seconds) <= w.lengthSlack*w.Seconds+w.edgeSlack+a.loose+edgePeriods*f.period(a.segment)
}

// byPlace pairs the windows that arrivals could place.
func (f *fusion) byPlace() {
	var pairs []pair
	windows := 0
	for i := range f.Windows {
		w := &f.Windows[i]
		if w.unplaced || !(w.To > w.From) {
			continue
		}
		windows++
		slack := w.edgeSlack
		first, _ := slices.BinarySearchFunc(f.found, w.From+pairFrom-slack, func(a activity, x float64) int {
			return cmp.Or(cmp.Compare(a.segment, w.Segment), cmp.Compare(a.from, x))
		})
		for k := first; k < len(f.found) && f.found[k].segment == w.Segment && f.found[k].from <= w.From+pairTo+slack; k++ {
			a := f.found[k]
			if !f.fits(w, a) {
				f.why[i] = fmt.Sprintf("the pin was active for %s there, its statement says %s", si.Format(a.seconds()*f.Rate(a.segment), "s", 4), si.Format(w.Seconds, "s", 4))
				continue
			}
			pairs = append(pairs, pair{i, k, a.from - w.From})
		}
	}
	if len(pairs) == 0 {
		return
	}
	best, runner := f.commonShift(pairs)
	if float64(runner) > maxRunnerPairs*float64(best) && !(best == windows && best == len(f.found)) {
		for _, p := range pairs {
			f.why[p.window] = "several activities of the pin fit the statements equally well"
		}
		return
	}
	f.take(pairs)
}

// commonShift finds the shift that most pairs share, and how many share it and
// the best other one.
func (f *fusion) commonShift(pairs []pair) (best, runner int) {
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.shift, b.shift) })
	// share[k] is how many pairs lie within the spread from pair k on.
	share := make([]int, len(pairs))
	to := 0
	for k := range pairs {
		for to < len(pairs) && pairs[to].shift <= pairs[k].shift+2*pairSpread {
			to++
		}
		share[k] = to - k
	}
	top := 0
	for k := range share {
		if share[k] > share[top] {
			top = k
		}
	}
	f.shift = pairs[top+share[top]/2].shift
	for k := range share {
		if math.Abs(pairs[k].shift+pairSpread-f.shift) > 4*pairSpread {
			runner = max(runner, share[k])
		}
	}
	return share[top], runner
}

// take takes the pairs that share the common shift. What two claim, none gets.
func (f *fusion) take(pairs []pair) {
	chosen := map[int]pair{} // by window
	for _, p := range pairs {
		off := math.Abs(p.shift - f.shift)
		if off > pairSpread+f.Windows[p.window].edgeSlack+f.found[p.activity].loose {
			continue
		}
		if c, ok := chosen[p.window]; !ok || off < math.Abs(c.shift-f.shift) {
			chosen[p.window] = p
		}
	}
	claims := map[int]int{}
	for _, p := range chosen {
		claims[p.activity]++
	}
	for i := range f.Windows {
		p, ok := chosen[i]
		switch {
		case !ok:
		case claims[p.activity] > 1:
			f.why[i] = "two statements claim one activity of the pin"
		default:
			f.taken[p.activity], f.why[i] = i, ""
			f.placed++
			if f.Windows[i].edgeSlack+f.found[p.activity].loose == 0 {
				f.spread = math.Max(f.spread, math.Abs(p.shift-f.shift))
			}
		}
	}
}

// byOrder pairs windows that arrivals could not place: each with the one
// activity that ended since the statement before it.
func (f *fusion) byOrder() {
	ends := make([]float64, len(f.found)) // host s
	for k, a := range f.found {
		ends[k], _, _ = f.segments[a.segment].tie.host(a.to)
	}
	if !slices.IsSorted(ends) {
		return // of a run that was resumed: its host clock began anew
	}
	before := math.Inf(-1)
	for i := range f.Windows {
		w := &f.Windows[i]
		if w.unplaced {
			only, n := -1, 0
			first, _ := slices.BinarySearch(ends, before+pairTo)
			for k := first; k < len(ends) && ends[k]+pairFrom <= w.arrived; k++ {
				if f.taken[k] < 0 && f.fits(w, f.found[k]) {
					only = k
					n++
				}
			}
			switch n {
			case 1:
				f.taken[only] = i
			case 0:
			default:
				f.why[i] = fmt.Sprintf("%d activities of the pin fit it, and its ticks do not say which: %s", n, w.Excluded)
			}
		}
		if w.arrived > 0 {
			before = w.arrived
		}
	}
}

// settle puts the windows where the pin says, and says what has no
// counterpart.
func (f *fusion) settle(pin run.InBand) {
	quiet := f.Quiet
	f.Quiet = nil
	matched := make([]bool, len(f.Windows))
	for k, i := range f.taken {
		if i >= 0 {
			matched[i] = true
			f.put(&f.Windows[i], f.found[k])
			f.Quiet = append(f.Quiet, f.zones(&f.Windows[i])...)
		}
	}
	stated, without := len(f.Windows), 0
	for i := range f.Windows {
		w := &f.Windows[i]
		if matched[i] || w.Excluded != "" && !w.unplaced {
			continue
		}
		without++
		w.Excluded, w.From, w.To = cmp.Or(f.why[i], "the pin was not active for it"), 0, 0
	}
	alone := f.name(pin, stated)
	f.idle(quiet)
	if without+alone > 0 && stated > 0 {
		f.warn("inband", fmt.Sprintf("%s and %s of the pin have no counterpart", plural(without, "statement of a window", "statements of windows"), plural(alone, "activity", "activities")), false)
	}
}

// put moves a window to its activity.
func (f *fusion) put(w *Window, a activity) {
	w.Segment, w.From, w.To = a.segment, a.from, a.to
	w.UEdge = f.period(a.segment) / math.Sqrt(12)
	if w.unplaced || w.edgeSlack > 0 {
		// No clock of the target that is known told its length.
		w.Seconds = a.seconds() * f.Rate(a.segment)
	}
	if w.unplaced || w.Excluded == "" {
		w.Excluded = a.problem
	}
}

// name adds the activities that no statement names.
func (f *fusion) name(pin run.InBand, stated int) (alone int) {
	w := int64(0)
	for i := range f.Windows {
		w = max(w, f.Windows[i].W)
	}
	pause := f.shortestPause()
	for k, a := range f.found {
		if f.taken[k] >= 0 {
			continue
		}
		alone++
		w++
		win := Window{Win: mark.Win{W: w, Alg: pin.Alg, Op: pin.Op, N: max(pin.N, 1)}}
		f.put(&win, a)
		win.Seconds = a.seconds() * f.Rate(a.segment)
		if pin.Alg+pin.Op == "" {
			win.Op = unnamed
		}
		switch {
		case win.Excluded != "":
		case stated > 0 && win.Op == unnamed:
			win.Excluded = "no statement tells what ran"
		case a.hole >= pause:
			win.Excluded = fmt.Sprintf("samples of %s are missing in it, in which the pin may have been inactive", si.Format(a.hole, "s", 2))
		}
		f.Windows = append(f.Windows, win)
	}
	if stated == 0 && pin.N == 0 {
		f.warn("inband", "nothing says how many operations a window held: each is taken for one", false)
	}
	return alone
}

// shortestPause is the shortest time between two activities, s.
func (f *fusion) shortestPause() float64 {
	least := math.Inf(1)
	for k := 1; k < len(f.found); k++ {
		if a, b := f.found[k-1], f.found[k]; a.segment == b.segment {
			least = math.Min(least, b.from-a.to)
		}
	}
	return least
}

// idle keeps the stated idle intervals, moved as far as the pin shows that
// arrivals were off, and clear of windows.
func (f *fusion) idle(quiet []Quiet) {
	if f.placed == 0 {
		return // nothing says where they are
	}
	margin := f.spread + 1e-3
	for _, q := range quiet {
		q.From, q.To = q.From+f.shift+margin, q.To+f.shift-margin
		next, _ := slices.BinarySearchFunc(f.found, q.From, func(a activity, x float64) int {
			return cmp.Or(cmp.Compare(a.segment, q.Segment), cmp.Compare(a.to, x))
		})
		if next < len(f.found) && f.found[next].segment == q.Segment && f.found[next].from < q.To {
			continue
		}
		if q.To > q.From {
			f.Quiet = append(f.Quiet, q)
		}
	}
}

// doubtPin judges windows that a pin gave: their doubt is that of marks on the
// sample clock. Steps of power beside the edges of the pin belong to something
// else, or show how late the meter is.
func (t *Timeline) doubtPin(edges []edge, o Offset, problem string) Offset {
	out := t.doubtMarks(o)
	switch {
	case inverted(edges):
		t.warn("inband", "power falls where the pin says that windows begin, and rises where they end: if the pin is low within a window, declare it so (active=low)", false)
	case problem == "" && math.Abs(o.Seconds) > o.ResponseSeconds+2*t.segments[0].trace.period:
		when := "after"
		if o.Seconds < 0 {
			when = "before"
		}
		t.warn("inband", fmt.Sprintf("the steps of power stand %s %s the edges of the pin", si.Format(math.Abs(o.Seconds), "s", 3), when), false)
	case out.ResponseSeconds == 0:
		t.warn("inband", "the steps of power at the edges of the pin do not show the meter's response: "+cmp.Or(problem, "they are too small"), false)
	}
	return out
}

// inverted reports whether power steps at most edges, and nearly always the
// other way than into a window and out of it.
func inverted(edges []edge) bool {
	right, wrong := 0, 0
	for _, e := range edges {
		p0, p1, u, ok := e.levels(0, reachOf(0, e.tr.period))
		switch step := p1 - p0; {
		case !ok || math.Abs(step) < clearStep*u:
		case step > 0 == e.rising:
			right++
		default:
			wrong++
		}
	}
	return wrong >= 4 && wrong > len(edges)/2 && wrong > 9*right
}

// clearStep is how many of its standard uncertainties a step is that is none by
// chance.
const clearStep = 6
