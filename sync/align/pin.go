package align

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/si"
)

// A pin that the meter itself records stands in a column of the samples. It
// tells when windows ran, on the sample clock and without any fit.

// activity is a stretch in which the pin was active.
type activity struct {
	segment  int
	from, to float64 // s of the segment's sample clock
	// hole is the longest stretch of missing samples within it, s: the pin may
	// have been inactive the while.
	hole float64
	// loose is how much of time is missing at its edges, s, and problem says
	// why they are not known; "" where they are.
	loose   float64
	problem string
}

func (a activity) seconds() float64 { return a.to - a.from }

// Limits of what is told from a pin.
const (
	// maxActivities bounds what is kept: a line that changes more often carries
	// data.
	maxActivities = 200_000
	// levelBin is the width of a bin of levels, and mostLevel how far from 0 they
	// are told apart, V: more than any pin has.
	levelBin, mostLevel = 0.01, 100.0
	// leastLevels is the least distance of two levels, V: a divider may leave
	// little of a target's 1.8 V, and an open data line wanders by less (assumed).
	leastLevels = 0.15
	// mostPinNoise of a level, as a share of the distance of the two.
	mostPinNoise = 1.0 / 6
	// sure is how far beyond the middle the level must be, as a share of the
	// distance, and sureSamples for how many samples it must have been beyond
	// the middle, before it counts as changed: a single one is a glitch.
	sure        = 0.15
	sureSamples = 2
	// timedHole is the longest time between samples that carry times of their
	// own, s, across which an edge is told.
	timedHole = 0.1
)

// errNoLevels is the cause where a column does not show two levels of a pin.
var errNoLevels = errors.New("the levels of the pin cannot be told")

// levels are the two levels of a pin, and the noise of the worse one, V.
type levels struct{ low, high, noise float64 }

// eachLevel visits the samples of a column: where each begins, s of its
// segment's sample clock. Samples without a value are left out.
func (t *Timeline) eachLevel(column string, visit func(segment int, x, level float64) error) error {
	seg, place := 0, int64(0)
	var lost []hole
	for b, err := range t.Run.Samples(t.Meter.Stream) {
		if err != nil {
			if isDamage(err) {
				continue // it shows as a hole
			}
			return err
		}
		k := slices.IndexFunc(t.segments, func(s *segment) bool { return s.info.Segment == b.Segment })
		if k < 0 {
			continue
		}
		if k != seg || lost == nil {
			seg, place, lost = k, 0, append([]hole{}, t.segments[k].lost...)
		}
		values, ok := b.Columns[column]
		if !ok {
			return fmt.Errorf("%w: the meter gave no column %s", errNoLevels, column)
		}
		for i, v := range values {
			for len(lost) > 0 && lost[0].row <= b.Row+int64(i) {
				place += lost[0].rows
				lost = lost[1:]
			}
			if math.IsNaN(v) {
				continue
			}
			x := 0.0
			if b.TimesNs != nil {
				x = float64(b.TimesNs[i]) * 1e-9
			} else {
				x = float64(b.Row+int64(i)+place) / t.segments[k].info.RateHz
			}
			if err := visit(k, x, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn finds the two levels of a column: those on either side of the place
// that parts them best (Otsu, IEEE Trans. Syst. Man Cybern. 9 (1979) 62), as
// medians, since slow edges lie between them.
func (t *Timeline) learn(column string) (levels, error) {
	bins := make([]int64, int(2*mostLevel/levelBin)+1)
	err := t.eachLevel(column, func(_ int, _, v float64) error {
		v = math.Max(-mostLevel, math.Min(v, mostLevel))
		bins[int(math.Round((v+mostLevel)/levelBin))]++
		return nil
	})
	if err != nil {
		return levels{}, err
	}
	return partLevels(bins)
}

// partLevels finds two levels in a histogram, which begins at -mostLevel.
func partLevels(bins []int64) (levels, error) {
	at := func(k int) float64 { return float64(k)*levelBin - mostLevel }
	var n, total float64
	for k, c := range bins {
		n += float64(c)
		total += float64(c) * at(k)
	}
	var below, sumBelow, best float64
	cut := 0
	for k, c := range bins {
		below += float64(c)
		sumBelow += float64(c) * at(k)
		if above := n - below; below > 0 && above > 0 {
			d := sumBelow/below - (total-sumBelow)/above
			if between := below * above * d * d; between > best {
				best, cut = between, k+1
			}
		}
	}
	if cut == 0 {
		return levels{}, fmt.Errorf("%w: it has one level only", errNoLevels)
	}
	low, noiseLow := middle(bins[:cut])
	high, noiseHigh := middle(bins[cut:])
	l := levels{at(0) + low*levelBin, at(cut) + high*levelBin, levelBin * math.Max(noiseLow, noiseHigh)}
	apart := l.high - l.low
	between := fmt.Sprintf("%s and %s", si.Format(l.low, "V", 3), si.Format(l.high, "V", 3))
	switch {
	case apart < leastLevels:
		return l, fmt.Errorf("%w: it has one level only, between %s", errNoLevels, between)
	case l.noise > mostPinNoise*apart:
		return l, fmt.Errorf("%w: it is too noisy between %s", errNoLevels, between)
	}
	return l, nil
}

// middle returns the median of a histogram and half of the width that holds 68 %
// of it, in bins: the standard deviation, if it is normal.
func middle(bins []int64) (median, noise float64) {
	n := int64(0)
	for _, c := range bins {
		n += c
	}
	quantile := func(q float64) float64 {
		passed := 0.0
		for k, c := range bins {
			if passed += float64(c); passed >= q*float64(n) {
				return float64(k)
			}
		}
		return 0
	}
	return quantile(0.5), (quantile(0.84) - quantile(0.16)) / 2
}

// readPin finds when the pin of a declaration was active.
func (t *Timeline) readPin(pin run.InBand) ([]activity, error) {
	l := levels{0, 1, 0}
	if len(pin.Column) != 2 || pin.Column[0] != 'd' {
		var err error
		if l, err = t.learn(pin.Column); err != nil {
			return nil, err
		}
	}
	var found []activity
	var w *watch
	changes := 0
	end := func() {
		if w != nil {
			found = append(found, w.end()...)
			changes += w.changes
		}
	}
	err := t.eachLevel(pin.Column, func(segment int, x, v float64) error {
		if w == nil || w.segment != segment {
			end()
			w = newWatch(segment, t.segments[segment].info.RateHz)
		}
		y := (v - l.low) / (l.high - l.low)
		if pin.Active == 0 {
			y = 1 - y
		}
		w.see(x, y)
		if len(found)+len(w.found) > maxActivities {
			return fmt.Errorf("%w: it changes more than %d times: a line that carries data is no mark", errNoLevels, 2*maxActivities)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	end()
	if changes == 0 {
		return nil, fmt.Errorf("%w: it has one level only", errNoLevels)
	}
	return found, nil
}

// watch follows the level of a pin through a segment, 0 inactive and 1 active.
type watch struct {
	segment int
	gap     float64 // s between samples across which no edge is told
	period  float64 // s for which a sample stands, at most
	changes int
	found   []activity

	begun, active bool
	x, y          float64 // of the last sample
	open          activity
	last          float64 // s, of the change before
	// A change that is not yet sure.
	pending bool
	at      float64 // s, where the level crossed the middle
	missing float64 // s of samples that are missing there
	samples int     // since, beyond the middle
	far     bool    // one of them was far enough beyond it
}

func newWatch(segment int, rateHz float64) *watch {
	w := &watch{segment: segment, gap: timedHole, period: timedHole}
	if rateHz > 0 {
		w.gap, w.period = 2.5/rateHz, 1/rateHz
	}
	return w
}

// see takes the sample that begins at x.
func (w *watch) see(x, y float64) {
	high := y >= 0.5
	if !w.begun {
		w.begun, w.active, w.x, w.y = true, high, x, y
		if high {
			w.open = activity{segment: w.segment, from: x, problem: "the pin is active where the recording begins"}
		}
		return
	}
	dt := x - w.x
	missing := 0.0
	if dt > w.gap {
		missing = dt
	}
	switch {
	case high == w.active:
		w.pending = false
		if w.active {
			w.open.hole = math.Max(w.open.hole, missing)
		}
	case !w.pending:
		// Both columns take a sample for the time from its begin to the next: a
		// level that jumps between two samples jumps where the second one begins.
		share := (0.5 - w.y) / (y - w.y)
		w.pending, w.at, w.missing, w.samples, w.far = true, w.x+share*dt+math.Min(dt, w.period)/2, missing, 0, false
	}
	if w.pending {
		w.samples++
		w.far = w.far || math.Abs(y-0.5) >= sure
		if w.samples >= sureSamples && w.far {
			w.change()
		}
	}
	w.x, w.y = x, y
}

// change makes the pending change one.
func (w *watch) change() {
	w.changes++
	problem := ""
	if w.missing > 0 {
		problem = fmt.Sprintf("an edge of its pin lies where samples of %s are missing", si.Format(w.missing, "s", 2))
	}
	w.pending, w.active = false, !w.active
	w.at = math.Max(w.at, w.last) // where samples stand unevenly
	w.last = w.at
	if w.active {
		w.open = activity{segment: w.segment, from: w.at, loose: w.missing, problem: problem}
		return
	}
	w.open.loose += w.missing
	if w.open.problem == "" {
		w.open.problem = problem
	}
	w.open.to = w.at
	w.found = append(w.found, w.open)
}

// end closes the segment.
func (w *watch) end() []activity {
	if w.active {
		w.open.to = math.Max(w.open.from, w.x)
		if w.open.problem == "" {
			w.open.problem = "the pin is active where the recording ends"
		}
		w.found = append(w.found, w.open)
	}
	return w.found
}
