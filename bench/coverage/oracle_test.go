package coverage

import (
	"math"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/sync/align"
	"github.com/joulemark/joulemark/sync/mark"
	"gonum.org/v1/gonum/stat/distuv"
)

// An oracle knows the edges and the meter's response, and uses all idle time
// between windows for each of them. What it cannot know is the noise. Its half
// width is what the analysis is measured against.
type oracle struct {
	line  *align.Timeline
	shift float64 // the analysis' error of the offset, s
	guard float64 // the response's real extent, s
	point float64 // s between samples that are points; 0: they are means
}

func newOracle(line *align.Timeline, s bench.Scenario, truth bench.Truth) oracle {
	guard := s.Load.RampSeconds + line.Period(0)
	switch s.Meter.Filter {
	case bench.Boxcar:
		guard += s.Meter.FilterSeconds / 2
	case bench.OnePole:
		guard += 7 * s.Meter.FilterSeconds
	}
	if s.Meter.Hold != bench.NoHold {
		guard += float64(s.Meter.PacketSamples) / s.Meter.RateHz
	}
	o := oracle{line: line, shift: line.Offset.Seconds - truth.OffsetSeconds, guard: guard}
	if s.Meter.Kind == "point" {
		o.point = 1 / s.Meter.RateHz
	}
	return o
}

// halfWidths returns the half width of each operation's repeatability interval.
func (o oracle) halfWidths() map[mark.Op]float64 {
	energy, count := map[mark.Op][]float64{}, map[mark.Op][]float64{}
	counted := map[mark.Op]float64{} // variance of what counting point samples does
	for i := range o.line.Windows {
		w := &o.line.Windows[i]
		if w.Excluded != "" {
			continue
		}
		if e := o.net(i); !math.IsNaN(e) {
			k := mark.Op{Alg: w.Alg, Op: w.Op}
			energy[k], count[k] = append(energy[k], e), append(count[k], float64(w.N))
			if o.point > 0 {
				_, f := math.Modf(w.Seconds / o.point)
				counted[k] += math.Pow(e/w.Seconds*o.point, 2) * f * (1 - f)
			}
		}
	}
	out := map[mark.Op]float64{}
	for k, y := range energy {
		var sy, sx, ss float64
		for i := range y {
			sy, sx = sy+y[i], sx+count[k][i]
		}
		for i := range y {
			d := y[i] - sy/sx*count[k][i]
			ss += d * d
		}
		m := float64(len(y))
		t := distuv.StudentsT{Sigma: 1, Nu: m - 1}
		out[k] = max(t.Quantile(0.975)*math.Sqrt(m/(m-1)*ss), 1.96*math.Sqrt(counted[k])) / sx
	}
	return out
}

// net is a window's energy above the idle level, interpolated between all of
// the idle time on its two sides.
func (o oracle) net(i int) float64 {
	w := &o.line.Windows[i]
	from, to := w.From-o.shift-o.guard, w.To-o.shift+o.guard
	left, right := math.Max(0, from-5), to+5
	for k := range o.line.Windows {
		if n := &o.line.Windows[k]; n.Segment == w.Segment && n.To > n.From {
			if n.To < w.From {
				left = math.Max(left, n.To-o.shift+o.guard)
			} else if n.From > w.To {
				right = math.Min(right, n.From-o.shift-o.guard)
			}
		}
	}
	before, cb := o.idle(w.Segment, left, from)
	after, ca := o.idle(w.Segment, to, right)
	idle := before
	switch {
	case math.IsNaN(before):
		idle = after
	case !math.IsNaN(after):
		idle += (after - before) * ((from+to)/2 - cb) / (ca - cb)
	}
	p := o.line.Between(w.Segment, from, to)
	length := (to - from) * o.line.Rate(w.Segment)
	return (p.Watts() - idle) * length
}

func (o oracle) idle(segment int, from, to float64) (watts, centre float64) {
	var s align.Sums
	for _, q := range o.line.Quiet {
		a, b := math.Max(q.From-o.shift+o.guard, from), math.Min(q.To-o.shift-o.guard, to)
		if q.Segment == segment && b > a {
			v := o.line.Between(segment, a, b)
			s = s.Plus(v)
			centre += v.Seconds * (a + b) / 2
		}
	}
	return s.Watts(), centre / s.Seconds
}

// relativeTo compares the analysis' half widths with the oracle's.
func (o oracle) relativeTo(ops []analysis.Operation) []float64 {
	var out []float64
	own := o.halfWidths()
	for _, op := range ops {
		if h := own[mark.Op{Alg: op.Alg, Op: op.Op}]; h > 0 && op.Net.Hi95Repeat.Stated() {
			out = append(out, float64(op.Net.Hi95Repeat-op.Net.Lo95Repeat)/2/h)
		}
	}
	return out
}
