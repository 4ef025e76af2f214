package align

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/clock"
	"github.com/joulemark/joulemark/sync/mark"
)

// Spans around places that matter, in which the trace keeps its detail, s.
const (
	// edgeReach around the edges of windows: the search for the offset, the
	// levels beside the edge, the response.
	edgeReach = searchTo + levelSpan
	// borderReach around the borders of quiet stretches: the offset and a guard.
	borderReach = 0.6
)

// Options of Align.
type Options struct {
	// Calibration corrects the samples instead of the one that the run holds.
	Calibration *meters.Calibration
	// Uncorrected leaves the samples as the meter gave them.
	Uncorrected bool
}

// Align puts the windows of a run on the time line of one of its streams. Its
// samples are corrected by the calibration that the run holds of its meter.
func Align(r *run.Run, stream string) (*Timeline, error) { return AlignBy(r, stream, Options{}) }

// AlignBy is Align with options.
func AlignBy(r *run.Run, stream string, opt Options) (*Timeline, error) {
	ev, err := gather(r)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Run: r, Target: ev.target, Voided: ev.voided}
	for _, n := range ev.notes {
		if n.Warn || n.Void {
			t.warn(n.Code, n.Text, n.Void)
		}
	}
	k := slices.IndexFunc(r.Streams, func(s run.StreamInfo) bool { return s.Stream == stream })
	if k < 0 {
		return nil, fmt.Errorf("align %s: no stream %q", r.Dir, stream)
	}
	if err := t.tieSegments(&r.Streams[k]); err != nil {
		return nil, fmt.Errorf("align %s: %w", r.Dir, err)
	}
	t.calibrate(opt)
	if err := t.takeHand(stream); err != nil {
		return nil, fmt.Errorf("align %s: %w", r.Dir, err)
	}
	active, pin, err := t.pinned(ev)
	if err != nil {
		return nil, fmt.Errorf("align %s: %w", r.Dir, err)
	}
	if len(ev.direct) > 0 {
		t.direct(ev.direct, stream)
	} else {
		t.place(ev)
	}
	if pin != nil {
		t.fuse(active, *pin)
	}
	onlyHand := len(ev.direct) == 0 && len(t.Windows) == 0 && len(t.hand.windows) > 0
	if len(ev.direct) > 0 || onlyHand || pin != nil {
		t.onSampleClock(pin != nil)
		t.settleHand()
	}
	slices.SortStableFunc(t.Windows, func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.From, b.From))
	})
	t.excludeOverlaps()
	t.inferQuiet()
	for i := range t.segments {
		if err := t.load(i); err != nil {
			return nil, fmt.Errorf("align %s: %w", r.Dir, err)
		}
	}
	t.clipQuiet()
	t.RateHz = 1 / t.segments[0].trace.period / t.segments[0].tie.rate()
	edges := thin(t.edges())
	o, problem := findOffset(edges)
	switch {
	case onlyHand:
		t.judgeHand(o, problem)
	case pin != nil:
		t.Offset = t.doubtPin(edges, o, problem)
	case len(ev.direct) > 0:
		t.Offset = t.doubtMarks(o)
	default:
		t.resolve(o, problem)
	}
	t.doubtCuts(edges)
	t.Character = t.characterise()
	t.sharpen()
	t.settleHand()
	t.clipQuiet()
	t.finish(ev)
	return t, nil
}

func (t *Timeline) warn(code, text string, voids bool) {
	t.Warnings = append(t.Warnings, Warning{code, text, voids})
}

// calibrate decides what corrects the samples of all segments: what is known of
// the meter last.
func (t *Timeline) calibrate(o Options) {
	switch {
	case o.Uncorrected:
		t.Meter.Calibration = nil
	case o.Calibration != nil:
		t.Meter.Calibration = o.Calibration
	}
	for _, s := range t.segments {
		s.info.Calibration = t.Meter.Calibration
	}
}

// tieSegments fits each segment's sample clock to the host clock.
func (t *Timeline) tieSegments(s *run.StreamInfo) error {
	for _, info := range s.Segments {
		seg := &segment{info: info}
		t.segments = append(t.segments, seg)
		if info.Clock == meters.Shared {
			seg.tie = tie{shared: true, first: float64(info.FirstHostNs) * 1e-9}
			continue
		}
		if !(info.RateHz > 0) {
			return fmt.Errorf("stream %s has neither a rate nor a clock shared with its marks", info.Stream)
		}
		a, err := clock.NewArrivals(info.RateHz, info.PacketSamples)
		if err != nil {
			return fmt.Errorf("stream %s: %w", info.Stream, err)
		}
		seg.arrivals, seg.rate = a, clock.NewRate(info.RateHz, info.PacketSamples)
	}
	if len(t.segments) == 0 {
		return fmt.Errorf("stream %s has no segment", s.Stream)
	}
	t.Meter = t.segments[len(t.segments)-1].info
	// The rate first: a loss in the first seconds looks like a slow clock to who
	// does not know it.
	err := t.eachArrival(func(s *segment, row int64, host float64) { s.rate.Add(row, host) })
	if err != nil {
		return err
	}
	for _, s := range t.segments {
		if s.rate == nil {
			continue
		}
		if rate, tolerance, ok := s.rate.Found(); ok {
			s.arrivals.Expect(rate, tolerance)
		}
	}
	err = t.eachArrival(func(s *segment, row int64, host float64) { s.arrivals.Add(row, host) })
	if err != nil {
		return err
	}
	return t.fitArrivals()
}

// eachArrival visits the arrivals of all segments with a clock of their own.
func (t *Timeline) eachArrival(visit func(s *segment, row int64, hostSeconds float64)) error {
	for a, err := range t.Run.Arrivals(t.Meter.Stream) {
		if err != nil {
			if isDamage(err) {
				continue
			}
			return err
		}
		if k := a.Segment - 1; k >= 0 && k < len(t.segments) && t.segments[k].arrivals != nil {
			visit(t.segments[k], a.Row, float64(a.HostNs)*1e-9)
		}
	}
	return nil
}

// direct takes windows that stand on the sample clock already.
func (t *Timeline) direct(ws []run.Window, stream string) {
	seg := t.segments[0]
	for _, w := range ws {
		if w.Stream != stream {
			continue
		}
		rate := seg.info.RateHz
		win := Window{Win: mark.Win{W: w.W, Alg: w.Alg, Op: w.Op, N: w.N}, From: w.From / rate, To: w.To / rate}
		win.Seconds = win.To - win.From
		switch {
		case !(rate > 0):
			win.Excluded = "its stream has no rate"
		case w.N < 1:
			win.Excluded = "it holds no operation (n is 0)"
		case !(w.To > w.From):
			win.Excluded = errEndsFirst.Error()
		}
		t.Windows = append(t.Windows, win)
	}
}

// excludeOverlaps leaves out windows that claim the same time: first those that
// overlap most others, since one wrong statement can lie across many right
// ones; where two accuse each other, both.
func (t *Timeline) excludeOverlaps() {
	with := make([][]int, len(t.Windows))
	longest := 0.0
	for i := range t.Windows {
		w := &t.Windows[i]
		longest = math.Max(longest, w.To-w.From)
		for k := i - 1; k >= 0 && w.Excluded == ""; k-- {
			p := &t.Windows[k]
			if p.Segment != w.Segment || p.From+longest < w.From {
				break
			}
			if p.Excluded == "" && w.From < p.To-touch {
				with[i], with[k] = append(with[i], k), append(with[k], i)
			}
		}
	}
	for {
		worst := 0
		for i := range with {
			worst = max(worst, len(with[i]))
		}
		if worst == 0 {
			return
		}
		for i := range with {
			if len(with[i]) < worst {
				continue
			}
			t.Windows[i].Excluded = fmt.Sprintf("it overlaps window %d", t.Windows[with[i][0]].W)
		}
		for i := range with {
			with[i] = slices.DeleteFunc(with[i], func(k int) bool { return t.Windows[k].Excluded != "" || t.Windows[i].Excluded != "" })
		}
	}
}

// touch is how much two windows may overlap by rounding, s.
const touch = 1e-9

// inferQuiet takes the time between windows for idle where no window says
// anything of quiet zones and no idle was stated.
func (t *Timeline) inferQuiet() {
	if len(t.Quiet) > 0 || slices.ContainsFunc(t.Windows, func(w Window) bool { return w.Pre > 0 || w.Post > 0 }) {
		t.sortQuiet()
		return
	}
	for k := range t.segments {
		from := 0.0
		for i := range t.Windows {
			w := &t.Windows[i]
			if w.Segment != k || !(w.To > w.From) {
				continue
			}
			if w.From > from {
				t.Quiet = append(t.Quiet, Quiet{Segment: k, From: from, To: w.From, Inferred: true})
			}
			from = math.Max(from, w.To)
		}
		if from > 0 {
			t.Quiet = append(t.Quiet, Quiet{Segment: k, From: from, To: math.Inf(1), Inferred: true})
		}
	}
}

// sortQuiet brings quiet stretches in order and joins those that touch.
func (t *Timeline) sortQuiet() {
	slices.SortFunc(t.Quiet, func(a, b Quiet) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.From, b.From))
	})
	out := t.Quiet[:0]
	for _, q := range t.Quiet {
		if n := len(out); n > 0 && out[n-1].Segment == q.Segment && q.From < out[n-1].To {
			if q.Mode == out[n-1].Mode {
				out[n-1].To = math.Max(out[n-1].To, q.To)
				continue
			}
			q.From = out[n-1].To
		}
		if q.To > q.From {
			out = append(out, q)
		}
	}
	t.Quiet = out
}

// load reads the samples of segment k into its trace.
func (t *Timeline) load(k int) error {
	seg := t.segments[k]
	var near []span
	var exact []float64
	for _, w := range slices.Concat(t.Windows, t.hand.windows) {
		if w.Segment != k || !(w.To > w.From) {
			continue
		}
		if t.Method == InBand || t.Method == BySharing {
			exact = append(exact, w.From, w.To)
		}
		for _, x := range []float64{w.From, w.To} {
			near = append(near, span{x - edgeReach, x + edgeReach})
		}
	}
	for _, q := range slices.Concat(t.Quiet, t.hand.quiet) {
		if q.Segment != k {
			continue
		}
		near = append(near, span{q.From - borderReach, q.From + borderReach})
		if !math.IsInf(q.To, 1) {
			near = append(near, span{q.To - borderReach, q.To + borderReach})
		}
	}
	seg.trace = newTrace(seg.info.Info, near, exact)
	if seg.trace.period > 0 {
		var edges []span
		seg.steady, edges = t.keep(k, seg.trace.period)
		seg.trace.keeper = newKeeper(seg.steady, edges)
	}
	if err := seg.trace.fill(t.Run.Samples(seg.info.Stream), seg.info.Segment, seg.lost); err != nil {
		return err
	}
	if seg.trace.period == 0 {
		seg.trace.period = 1e-3
	}
	return nil
}

// resolve takes the offset between marks and power that was found, and moves all
// windows and quiet stretches by it.
func (t *Timeline) resolve(o Offset, problem string) {
	shared := t.Meter.Clock == meters.Shared
	t.Offset = o
	t.Method = ByEdges
	if problem != "" {
		// Say so instead of guessing: the marks stand where arrivals put them,
		// within what is plausible.
		t.Method = ByArrival
		t.Offset = Offset{Edges: o.Edges, RunnerUp: o.RunnerUp, U: (plausibleTo - plausibleFrom) / math.Sqrt(12)}
		if shared {
			t.Method = BySharing
			t.Offset = t.doubtMarks(o)
		}
	}
	if !t.handOffset(problem) && problem != "" {
		t.warn("edges", "alignment: "+problem+"; marks stand where "+map[bool]string{true: "the shared clock", false: "arrival times"}[shared]+" put them", !shared)
	}
	if o.SlopePPM != 0 && problem == "" && math.Abs(o.SlopePPM) > 4*o.USlopePPM+maxSlopePPM {
		t.warn("rate", fmt.Sprintf("the offset drifts by %.0f ppm over the run: the clocks' fit and the edges disagree", o.SlopePPM), true)
	}
	t.shift(t.Offset.Seconds)
}

// doubtMarks judges marks that stand on the clock of the samples and are not
// moved: an edge lies anywhere within its sample, and the steps of power, where
// they can be told, may stand beside the marks, since a trigger comes late or the
// meter smooths. What stops a search for the offset, such as too little room
// beside the windows, does not make a step beside its mark less of a doubt.
func (t *Timeline) doubtMarks(o Offset) Offset {
	u := t.segments[0].trace.period / math.Sqrt(12)
	if o.StepRatio < minStepRatio || o.coarse < plausibleFrom || o.coarse > plausibleTo {
		return Offset{U: u}
	}
	o.Fold = o.Fold.later(o.Seconds)
	o.Seconds = 0
	o.U = math.Hypot(math.Hypot(u, o.U), o.coarse)
	return o
}

// doubtCuts says how much in doubt a window is that is cut at its marks. Where
// windows have no quiet zones, the target often works before one begins or after
// it ends, which moves centroids and widens the response. The place of the best
// step bears that, and so does the sharper one of the responses at starts and
// ends.
func (t *Timeline) doubtCuts(edges []edge) {
	o := &t.Offset
	sharp := o.ResponseSeconds
	r := reachOf(o.ResponseSeconds, t.segments[0].trace.period)
	for _, rising := range []bool{true, false} {
		some := slices.DeleteFunc(slices.Clone(edges), func(e edge) bool { return e.rising != rising })
		if len(some) < 2 {
			continue
		}
		if f := fold(some, o.coarse, r); f.Edges > 1 {
			sharp = math.Min(sharp, f.response())
		}
	}
	o.CutSeconds = math.Hypot(o.U, tailShare*sharp)
	if t.Method == ByEdges {
		o.CutSeconds = math.Hypot(o.CutSeconds, o.Seconds-o.coarse)
	}
}

// tailShare is what a cut at the centroids of both edges loses of a step, in
// 10-90 % times of the response: its mean absolute deviation, which is 2 tau/e for
// one pole (0.33) and a quarter of the width of a boxcar (0.31).
const tailShare = 1.0 / 3

// shift moves all windows and quiet stretches by d, s.
func (t *Timeline) shift(d float64) {
	for i := range t.Windows {
		t.Windows[i].From += d
		t.Windows[i].To += d
	}
	for i := range t.Quiet {
		t.Quiet[i].From += d
		t.Quiet[i].To += d
	}
	t.clipQuiet()
}

// sharpen narrows the offset where samples are points. A point sample shows an
// edge late by anything from nothing to the time between samples, evenly: the
// middle between the earliest and the latest of n edges is then much nearer the
// truth than their mean, with a variance of Ts^2 / (2 (n+1) (n+2)) (order statistics
// of the uniform distribution).
func (t *Timeline) sharpen() {
	o := &t.Offset
	apart := t.RateHz / t.Character.ConversionsHz * t.segments[0].trace.period
	if t.Method != ByEdges || t.Character.Kind != meters.Point || o.most-o.least > evenSpread*apart {
		return
	}
	middle := (o.least + o.most) / 2
	t.shift(middle - o.Seconds)
	o.Seconds = middle
	n := float64(o.Edges)
	o.U = apart / math.Sqrt(2*(n+1)*(n+2))
}

// evenSpread is how far apart, in samples, edges may lie that nothing but the
// sampling moves.
const evenSpread = 1.1

// maxSlopePPM is the drift between the arrival fit and the edges that wander
// of the clocks within a run explains.
const maxSlopePPM = 100

// isStep says that a window counts and is one step of power each way: a duty
// cycle ends idle.
func (w *Window) isStep() bool { return w.Excluded == "" && w.OnUs == w.PeriodUs }

// edges returns those of all windows that are steps.
func (t *Timeline) edges() []edge {
	var edges []edge
	for i := range t.Windows {
		if t.Windows[i].isStep() {
			edges = append(edges, t.edgesOf(i)...)
		}
	}
	return edges
}

// edgesOf returns the edges of a window, with the room beside them that other
// windows leave.
func (t *Timeline) edgesOf(i int) []edge {
	w := &t.Windows[i]
	seg := t.segments[w.Segment]
	before, after := w.Pre, w.Post
	if w.Pre == 0 || w.Post == 0 {
		before, after = levelSpan, levelSpan
	}
	from, to := w.From-levelReach, w.To+levelReach
	for k := i - 1; k >= 0 && t.Windows[k].Segment == w.Segment; k-- {
		if p := &t.Windows[k]; p.To > p.From {
			before, from = math.Min(before, w.From-p.To), math.Max(from, p.To)
			break
		}
	}
	for k := i + 1; k < len(t.Windows) && t.Windows[k].Segment == w.Segment; k++ {
		if n := &t.Windows[k]; n.To > n.From {
			after, to = math.Min(after, n.From-w.To), math.Min(to, n.From)
			break
		}
	}
	half := math.Min((w.To-w.From)/2, levelSpan)
	return []edge{
		{at: w.From, rising: true, before: before, after: half, tr: seg.trace, quiet: t.quietIn(w.Segment, from, w.From), inner: span{w.From, w.From + half}},
		{at: w.To, rising: false, before: half, after: after, tr: seg.trace, quiet: t.quietIn(w.Segment, w.To, to), inner: span{w.To - half, w.To}},
	}
}

// levelReach is how far from an edge idle time still tells the level beside
// it, s.
const levelReach = 3.0

// quietIn returns the quiet stretches of a segment within [from, to].
func (t *Timeline) quietIn(segment int, from, to float64) []span {
	first, _ := slices.BinarySearchFunc(t.Quiet, from, func(q Quiet, x float64) int {
		return cmp.Or(cmp.Compare(q.Segment, segment), cmp.Compare(q.To, x))
	})
	var out []span
	for _, q := range t.Quiet[first:] {
		if q.Segment != segment || q.From >= to {
			break
		}
		if s := (span{math.Max(q.From, from), math.Min(q.To, to)}); s.length() > 0 {
			out = append(out, s)
		}
	}
	return out
}

// finish excludes what lies outside the recording, and states rates and times.
func (t *Timeline) finish(ev *evidence) {
	first, _, _ := t.segments[0].tie.host(0)
	for i := range t.Windows {
		w := &t.Windows[i]
		seg := t.segments[w.Segment]
		if w.To > w.From {
			from, _, _ := seg.tie.host(w.From)
			to, _, _ := seg.tie.host(w.To)
			w.StartSeconds = from - first
			w.EndSeconds = to - first
		}
		if w.Excluded == "" && (w.From < 0 || w.To > seg.trace.end) {
			w.Excluded = "it lies outside the recording"
		}
	}
	seg := t.segments[0]
	t.DriftPPM = (seg.tie.rate() - 1) * 1e6
	if c := ev.counts; c.BadChecksum+c.Malformed+c.TooLong+c.Evidence > 0 {
		t.warn("lines", fmt.Sprintf("%d of %d lines from the target were damaged and are not counted (%d wrong checksums, %d malformed, %d too long, %d cut short)",
			c.BadChecksum+c.Malformed+c.TooLong+c.Evidence, c.Lines, c.BadChecksum, c.Malformed, c.TooLong, c.Evidence), false)
	}
	if ev.damage > 0 {
		t.warn("damage", fmt.Sprintf("%d damaged records of the run were passed over", ev.damage), false)
	}
	var missing, rows, lost int64
	for _, s := range t.segments {
		missing += s.trace.missing
		rows += s.trace.rows
		for _, h := range s.lost {
			lost += h.rows
		}
	}
	if lost > 0 {
		t.warn("loss", fmt.Sprintf("%d samples were lost without trace (%.2g %% of the recording): the arrivals show it", lost, 100*float64(lost)/float64(rows+lost)), false)
	}
	if missing > 0 {
		t.warn("missing", fmt.Sprintf("%d of %d samples hold no value", missing, rows), false)
	}
}
