package align

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// A trace holds the power of one segment of a stream as cumulative integrals
// at knots, so that the integral between any two places near a mark costs two
// look-ups. Knots stand only near the places that matter; memory grows with
// the number of windows, not with the number of samples.
//
// x is in seconds of the sample clock at its nominal rate, from the segment's
// first sample. A sample covers [x, x+period): what a sample is (a mean, a
// point) shifts power by at most a period, and every constant shift is part of
// the offset that the edges give.
type trace struct {
	x   []float64 // knots, ascending, s
	sum []sums    // integral from the segment's start to each knot
	end float64   // where the last sample ends, s

	rows, missing int64   // samples seen, of these without a value
	period        float64 // nominal, or the typical distance of samples, s
	means         bool    // samples carry times, and are means until the next one
	long          []span  // samples that stand beyond longHold and cover a knot, ascending

	keeper keeper // of samples that tell the meter's character

	calibration *meters.Calibration // corrects samples; nil: none

	next int  // first knot not yet passed
	at   sums // integral up to pos
	pos  float64
}

// sums are integrals over covered time.
type sums struct {
	seconds float64 // covered time, s
	joules  float64 // of power, J
	square  float64 // of power squared, W^2 s
	coulomb float64 // of current, C
	webers  float64 // of voltage, V s
}

func (s sums) minus(o sums) sums {
	return sums{s.seconds - o.seconds, s.joules - o.joules, s.square - o.square,
		s.coulomb - o.coulomb, s.webers - o.webers}
}

func (s sums) plus(o sums) sums {
	return sums{s.seconds + o.seconds, s.joules + o.joules, s.square + o.square,
		s.coulomb + o.coulomb, s.webers + o.webers}
}

func (s sums) times(f float64) sums {
	return sums{s.seconds * f, s.joules * f, s.square * f, s.coulomb * f, s.webers * f}
}

// meanWatts is the mean power over the covered time; NaN where nothing is.
func (s sums) meanWatts() float64 { return s.joules / s.seconds }

// span is a stretch of the sample clock, s.
type span struct{ from, to float64 }

func (s span) length() float64 { return s.to - s.from }

// finestKnot bounds how close knots stand: finer than any USB meter samples,
// and a bound on memory for meters that sample at MHz.
const finestKnot = 2e-3 // s

// newTrace plans knots over the near spans on a grid of samples, and exactly
// at the places in exact.
func newTrace(info meters.Info, near []span, exact []float64) *trace {
	t := &trace{means: info.RateHz == 0 && info.Sample == meters.Mean, calibration: info.Calibration}
	if info.RateHz > 0 {
		t.period = 1 / info.RateHz
	}
	step := finestKnot
	if t.period > 0 {
		// Knots on sample borders: an integral between knots is then a sum of
		// whole samples.
		step = t.period * math.Max(1, math.Round(finestKnot/t.period))
	}
	slices.SortFunc(near, func(a, b span) int {
		switch {
		case a.from < b.from:
			return -1
		case a.from > b.from:
			return 1
		}
		return 0
	})
	each := func(visit func(x float64)) {
		end := math.Inf(-1)
		for _, s := range near {
			k := math.Ceil(math.Max(math.Max(s.from, 0), end) / step)
			if k*step <= end {
				k++
			}
			for ; k*step <= s.to; k++ {
				end = k * step
				visit(end)
			}
		}
	}
	n := len(exact)
	each(func(float64) { n++ })
	t.x = make([]float64, 0, n)
	each(func(x float64) { t.x = append(t.x, x) })
	for _, x := range exact {
		if x >= 0 {
			t.x = append(t.x, x)
		}
	}
	slices.Sort(t.x)
	t.x = slices.Compact(t.x)
	t.sum = make([]sums, len(t.x))
	return t
}

// pass moves every knot up to x, where s was integrated evenly since t.pos.
func (t *trace) pass(x float64, s sums) {
	length := x - t.pos
	for t.next < len(t.x) && t.x[t.next] <= x {
		f := 1.0
		if length > 0 {
			f = (t.x[t.next] - t.pos) / length
		}
		t.sum[t.next] = t.at.plus(s.times(f))
		t.next++
	}
	t.at = t.at.plus(s)
	t.pos = x
}

// hole moves on to x without covered time.
func (t *trace) hole(x float64) {
	if x > t.pos {
		t.pass(x, sums{})
	}
}

// fill reads all batches of one segment. place gives the sample second of a
// row, so that lost packets leave a hole.
func (t *trace) fill(batches iter.Seq2[*run.Batch, error], segment int, lost []hole) error {
	f := filler{trace: t, lost: lost}
	return f.fill(batches, segment)
}

func (f *filler) fill(batches iter.Seq2[*run.Batch, error], segment int) error {
	for b, err := range batches {
		if err != nil {
			if isDamage(err) {
				continue // counted by the caller's check of the run
			}
			return err
		}
		if b.Segment != segment {
			continue
		}
		if err := f.add(b); err != nil {
			return err
		}
		if f.ended {
			return nil
		}
	}
	f.flush()
	// Knots behind the last sample keep the final sums: nothing is covered there.
	f.end = f.pos
	for ; f.next < len(f.x); f.next++ {
		f.sum[f.next] = f.at
	}
	return nil
}

// show hands samples i to i+n to see.
func (f *filler) show(x float64, p, v, a []float64, i, n int) {
	if f.see == nil || f.ended {
		return
	}
	if v == nil {
		f.ended = !f.see(x, f.period, p[i:i+n])
		return
	}
	f.watts = f.watts[:0]
	for k := i; k < i+n; k++ {
		f.watts = append(f.watts, v[k]*a[k])
	}
	f.ended = !f.see(x, f.period, f.watts)
}

// hole is a number of samples lost before a row.
type hole struct {
	row, rows int64
}

type filler struct {
	*trace
	// see, where set, is shown the power of consecutive samples: the first one
	// begins at x, and each stands for period, s. It returns false to end.
	see   func(x, period float64, watts []float64) bool
	ended bool
	watts []float64 // buffer of see
	lost  []hole    // ascending by row; consumed
	gone  int64     // rows lost so far

	// For streams that carry times: the sample before, not yet passed.
	held      sums // per second
	heldAt    float64
	haveHeld  bool
	intervals []float64
}

func (f *filler) add(b *run.Batch) error {
	p, v, a, err := columns(b)
	if err != nil {
		return err
	}
	f.calibration.Of(meters.Watts).Apply(p)
	f.calibration.Of(meters.Volts).Apply(v)
	f.calibration.Of(meters.Amps).Apply(a)
	f.rows += int64(b.Rows)
	if b.TimesNs != nil {
		return f.addTimed(b, p, v, a)
	}
	for i := 0; i < b.Rows; {
		row := b.Row + int64(i)
		for len(f.lost) > 0 && f.lost[0].row <= row {
			f.gone += f.lost[0].rows
			f.lost = f.lost[1:]
		}
		// Rows missing from the file itself (a damaged batch) leave a hole, too.
		start := float64(row+f.gone) * f.period
		if start > f.pos+f.period/2 {
			f.hole(start)
		}
		n := b.Rows - i
		if len(f.lost) > 0 {
			n = int(min(int64(n), f.lost[0].row-row))
		}
		n = min(n, f.untilKnot(row+f.gone))
		f.addRun(row+f.gone, p, v, a, i, n)
		i += n
	}
	return nil
}

// untilKnot says how many samples from place on end before or at the next
// knot, at least one.
func (f *filler) untilKnot(place int64) int {
	if f.next >= len(f.x) {
		return math.MaxInt
	}
	n := math.Floor(f.x[f.next]/f.period*(1+1e-15)) - float64(place)
	return int(math.Max(1, math.Min(n, math.MaxInt32)))
}

// addRun adds n samples from index i on, the first of which stands at place.
// No knot lies inside them, unless n is 1.
func (f *filler) addRun(place int64, p, v, a []float64, i, n int) {
	var s sums
	if v != nil {
		s = sumProducts(v[i:i+n], a[i:i+n])
	} else {
		s = sumPowers(p[i : i+n])
	}
	f.missing += int64(n) - int64(s.seconds)
	s = s.times(f.period)
	start, end := float64(place)*f.period, float64(place+int64(n))*f.period
	f.pass(end, s)
	if f.keeper.wants(start, end) {
		f.keep(place, p, v, a, i, n)
	}
	f.show(start, p, v, a, i, n)
}

// keep hands samples i to i+n to the keeper.
func (f *filler) keep(place int64, p, v, a []float64, i, n int) {
	for k := range n {
		var w float64
		if v != nil {
			w = v[i+k] * a[i+k]
		} else {
			w = p[i+k]
		}
		at := place + int64(k)
		f.keeper.take(at, float64(at)*f.period, f.period, w)
	}
}

// sumProducts sums up samples of volts and amps, each as if it stood for 1 s;
// those without a value do not count. It sums four by four, and looks for
// missing values only where a sum shows that there are some.
func sumProducts(v, a []float64) sums {
	var j, q, c, w [4]float64
	whole := len(v) &^ 3
	for i := 0; i < whole; i += 4 {
		v4, a4 := (*[4]float64)(v[i:]), (*[4]float64)(a[i:])
		for k := range 4 {
			p := v4[k] * a4[k]
			j[k] += p
			q[k] += p * p
			c[k] += a4[k]
			w[k] += v4[k]
		}
	}
	s := sums{float64(whole), j[0] + j[1] + j[2] + j[3], q[0] + q[1] + q[2] + q[3], c[0] + c[1] + c[2] + c[3], w[0] + w[1] + w[2] + w[3]}
	if s.joules != s.joules {
		s, whole = sums{}, 0
	}
	for i := whole; i < len(v); i++ {
		if p := v[i] * a[i]; p == p {
			s = s.plus(sums{1, p, p * p, a[i], v[i]})
		}
	}
	return s
}

// sumPowers does the same for samples of watts.
func sumPowers(p []float64) sums {
	var j, q [4]float64
	whole := len(p) &^ 3
	for i := 0; i < whole; i += 4 {
		p4 := (*[4]float64)(p[i:])
		for k := range 4 {
			j[k] += p4[k]
			q[k] += p4[k] * p4[k]
		}
	}
	s := sums{seconds: float64(whole), joules: j[0] + j[1] + j[2] + j[3], square: q[0] + q[1] + q[2] + q[3]}
	if s.joules != s.joules {
		s, whole = sums{}, 0
	}
	for i := whole; i < len(p); i++ {
		if p[i] == p[i] {
			s = s.plus(sums{seconds: 1, joules: p[i], square: p[i] * p[i]})
		}
	}
	return s
}

// typicalAfter is how many intervals between samples are looked at before one
// is called typical.
const typicalAfter = 64

// maxHold bounds, in typical intervals, how long a sample stands for the time
// until the next one; a longer silence is a gap. A mean over that time stands for
// all of it.
const maxHold = 2.5

// longHold is how long a sample stands, in typical intervals, beyond which it
// smears an edge further than those who look for edges expect of a sample.
const longHold = 1.5

// addTimed adds samples that carry their own times: each holds until the next.
func (f *filler) addTimed(b *run.Batch, p, v, a []float64) error {
	for i := range b.Rows {
		x := float64(b.TimesNs[i]) * 1e-9
		if f.haveHeld && x < f.heldAt {
			return fmt.Errorf("samples of row %d: time steps back from %.6f s to %.6f s", b.Row+int64(i), f.heldAt, x)
		}
		f.release(x)
		var s sums
		if v != nil {
			s = sums{1, v[i] * a[i], 0, a[i], v[i]}
		} else {
			s = sums{1, p[i], 0, 0, 0}
		}
		s.square = s.joules * s.joules
		f.held, f.heldAt, f.haveHeld = s, x, true
	}
	return nil
}

// release passes the held sample, which stands until x at most.
func (f *filler) release(x float64) {
	if !f.haveHeld {
		f.hole(x)
		return
	}
	dt := x - f.heldAt
	if dt > 0 && len(f.intervals) < typicalAfter {
		f.intervals = append(f.intervals, dt)
		sorted := slices.Clone(f.intervals)
		slices.Sort(sorted)
		f.period = sorted[len(sorted)/2]
	}
	hold := dt
	if !f.means && f.period > 0 && dt > maxHold*f.period {
		hold = f.period
	}
	if math.IsNaN(f.held.joules) {
		f.missing++
		f.hole(x)
		return
	}
	before := f.next
	f.pass(f.heldAt+hold, f.held.times(hold))
	if hold > longHold*f.period && f.next > before {
		f.long = append(f.long, span{f.heldAt, f.heldAt + hold})
	}
	if f.see != nil && hold > 0 && !f.ended {
		f.watts = append(f.watts[:0], f.held.joules) // in a second: W
		f.ended = !f.see(f.heldAt, hold, f.watts)
	}
	f.hole(x)
}

func (f *filler) flush() {
	if f.haveHeld {
		f.release(f.heldAt + f.period)
	}
}

// sample returns the span of the long sample that x lies in; an empty one at x
// where it lies in none.
func (t *trace) sample(x float64) span {
	k := sort.Search(len(t.long), func(k int) bool { return t.long[k].to > x })
	if k < len(t.long) && t.long[k].from < x {
		return t.long[k]
	}
	return span{x, x}
}

// columns finds the power of a batch: watts, or volts and amps.
func columns(b *run.Batch) (p, v, a []float64, err error) {
	v, a = b.Columns[meters.Volts], b.Columns[meters.Amps]
	if v != nil && a != nil {
		return nil, v, a, nil
	}
	if p = b.Columns[meters.Watts]; p != nil {
		return p, nil, nil, nil
	}
	return nil, nil, nil, fmt.Errorf("samples hold neither volts and amps nor watts")
}

// to returns the sums from the segment's start to x; between knots power is
// taken as constant.
func (t *trace) to(x float64) sums {
	k := sort.SearchFloat64s(t.x, x)
	switch {
	case k < len(t.x) && t.x[k] == x:
		return t.sum[k]
	case k == 0:
		if len(t.x) == 0 {
			return sums{}
		}
		if x <= 0 || t.x[0] <= 0 {
			return sums{}
		}
		return t.sum[0].times(x / t.x[0])
	case k == len(t.x):
		return t.sum[k-1]
	}
	f := (x - t.x[k-1]) / (t.x[k] - t.x[k-1])
	return t.sum[k-1].plus(t.sum[k].minus(t.sum[k-1]).times(f))
}

// between returns the sums over a span.
func (t *trace) between(s span) sums { return t.to(s.to).minus(t.to(s.from)) }
