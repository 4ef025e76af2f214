package plots

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/align"
)

// View is the part of a run that a trace shows, in seconds of the meter's time
// line (that of Window.T0).
type View struct {
	FromSeconds, ToSeconds float64
	// Columns into which the samples are gathered; 1000 if 0.
	Columns int
	// Quiet zones to be shaded.
	Quiet [][2]float64
	// Of names what the view is of; "" is the run.
	Of string
}

// Whole is the view of a whole run.
func Whole(t *align.Timeline) View { return View{ToSeconds: t.EndSeconds()} }

// Around is the view of window w with its quiet zones. Where none are stated
// it shows half a window's length on either side.
func Around(t *align.Timeline, w int64) (View, error) {
	for i := range t.Windows {
		x := &t.Windows[i]
		if x.W != w || !(x.EndSeconds > x.StartSeconds) {
			continue
		}
		v := View{Of: fmt.Sprintf("window %d, %d x %s", w, x.N, label(x.Alg+" "+x.Op))}
		length := x.EndSeconds - x.StartSeconds
		pre, post := x.Pre, x.Post
		if x.Pre > 0 {
			v.Quiet = append(v.Quiet, [2]float64{x.StartSeconds - x.Pre, x.StartSeconds})
		} else {
			pre = length / 2
		}
		if x.Post > 0 {
			v.Quiet = append(v.Quiet, [2]float64{x.EndSeconds, x.EndSeconds + x.Post})
		} else {
			post = length / 2
		}
		room := 0.05 * (pre + length + post)
		v.FromSeconds, v.ToSeconds = x.StartSeconds-pre-room, x.EndSeconds+post+room
		return v, nil
	}
	return View{}, fmt.Errorf("%w: no window %d stands on the time line", ErrEmpty, w)
}

const (
	// defaultColumns is about a column a pixel at the default width.
	defaultColumns = 1000
	// maxShaded windows are shown; more would be one grey area.
	maxShaded = 1000
)

// Trace shows power against time: the mean of each column and the range of its
// samples, the windows and the baseline below each. It reads power once and
// keeps the columns alone.
func Trace(r analysis.Results, power iter.Seq2[align.Stretch, error], v View) (Figure, error) {
	if v.Columns == 0 {
		v.Columns = defaultColumns
	}
	if !(v.ToSeconds > v.FromSeconds) || math.IsInf(v.ToSeconds-v.FromSeconds, 0) {
		return Figure{}, fmt.Errorf("trace of %s: %w: from %g s to %g s is no span", r.Run, ErrEmpty, v.FromSeconds, v.ToSeconds)
	}
	c := newColumns(v)
	for s, err := range power {
		if err != nil {
			return Figure{}, fmt.Errorf("trace of %s: %w", r.Run, err)
		}
		if s.StartSeconds >= v.ToSeconds {
			break
		}
		c.add(s)
	}
	band, mean, y := c.layers()
	if y.empty() {
		return Figure{}, fmt.Errorf("trace of %s: %w: no sample with a value between %g s and %g s", r.Run, ErrEmpty, v.FromSeconds, v.ToSeconds)
	}
	shades, idle, note := windowLayers(r, v)
	y.add(idle.Y...)
	if y.lo > 0 && y.lo < y.hi/2 {
		y.lo = 0
	}
	lo := y.lo
	if y = y.padded(0.06); lo == 0 {
		y.lo = 0
	}
	of := label(r.Run)
	if v.Of != "" {
		of += ", " + v.Of
	}
	f := newFigure(TraceKind, "Power of "+of, r.Simulated, meterNote(r))
	if note != "" {
		f.Notes = append(f.Notes, note)
	}
	layers := append(shades, band, mean)
	if len(idle.X) > 0 {
		layers = append(layers, idle)
	}
	f.Panels = []Panel{{
		X:      Axis{Quantity: "time since the first sample", Unit: "s", Min: v.FromSeconds, Max: v.ToSeconds},
		Y:      Axis{Quantity: "power", Unit: "W", Min: y.lo, Max: y.hi},
		Layers: layers, MinWidthPoints: 200, HeightPoints: 380,
	}}
	return f, nil
}

// meterNote says what measured, and how marks were put on its time line.
func meterNote(r analysis.Results) string {
	s := "meter " + label(r.Meter.Driver)
	if r.Meter.SamplesHz.Stated() {
		s += ", " + si.Format(float64(r.Meter.SamplesHz), "Hz", 4)
	}
	if len(r.Windows) == 0 {
		return s
	}
	s += "; marks by " + string(r.Alignment.Method)
	if r.Alignment.Method == align.ByEdges {
		s += fmt.Sprintf(" (%d)", r.Alignment.Edges)
	}
	if r.Baseline != "" {
		s += "; baseline " + string(r.Baseline)
	}
	return s
}

// windowLayers returns shades for windows in view, one layer an operation, the
// baseline below them, and a remark.
func windowLayers(r analysis.Results, v View) (shades []Layer, idle Layer, note string) {
	for _, q := range v.Quiet {
		shades = addSpan(shades, "quiet zone", pale, 0.6, q[0], q[1], "")
	}
	idle = Layer{Kind: Line, Name: "baseline", Color: vermilion, Opacity: 1, Size: 1.8}
	shown, outside := 0, 0
	windows := slices.Clone(r.Windows)
	slices.SortStableFunc(windows, func(a, b analysis.Window) int { return cmp.Compare(opOrder(a.Op), opOrder(b.Op)) })
	for _, w := range windows {
		from, to := float64(w.T0), float64(w.T1)
		if !(to > from) {
			outside++
			continue
		}
		if from >= v.ToSeconds || to <= v.FromSeconds {
			continue
		}
		if shown++; shown > maxShaded {
			continue
		}
		name, color, text := label(w.Op), opColor(w.Op), label(w.Alg+" "+w.Op)
		if w.Excluded != "" {
			name, color = "excluded window", grey
		}
		shades = addSpan(shades, name, color, 0.3, math.Max(from, v.FromSeconds), math.Min(to, v.ToSeconds), text)
		if w.Idle.Stated() {
			idle.X = append(idle.X, analysis.Num(math.Max(from, v.FromSeconds)), analysis.Num(math.Min(to, v.ToSeconds)), analysis.Num(to))
			idle.Y = append(idle.Y, w.Idle, w.Idle, null)
		}
	}
	switch {
	case shown > maxShaded:
		idle.X, idle.Y, shades = nil, nil, shades[:0]
		note = fmt.Sprintf("%d windows are in view, too many to be shown: narrow the view", shown)
	case shown == 0 && len(r.Windows) == outside && outside > 0:
		note = fmt.Sprintf("none of %d windows could be placed on the time line", outside)
	case len(r.Windows) == 0:
		note = "the run holds no windows"
	}
	return shades, idle, note
}

// addSpan adds a span to the layer of its name.
func addSpan(layers []Layer, name string, c Color, opacity, from, to float64, text string) []Layer {
	for i := range layers {
		if l := &layers[i]; l.Name == name {
			l.Lo, l.Hi, l.Text = append(l.Lo, analysis.Num(from)), append(l.Hi, analysis.Num(to)), append(l.Text, text)
			return layers
		}
	}
	return append(layers, Layer{Kind: Spans, Name: name, Color: c, Opacity: opacity, Size: 8.5,
		Lo: []analysis.Num{analysis.Num(from)}, Hi: []analysis.Num{analysis.Num(to)}, Text: []string{text}})
}

// columns gather samples into equal stretches of time.
type columns struct {
	from, step      float64
	joules, seconds []float64 // covered
	lo, hi          []float64 // W
}

func newColumns(v View) *columns {
	n := v.Columns
	c := &columns{from: v.FromSeconds, step: (v.ToSeconds - v.FromSeconds) / float64(n),
		joules: make([]float64, n), seconds: make([]float64, n), lo: make([]float64, n), hi: make([]float64, n)}
	for k := range n {
		c.lo[k], c.hi[k] = math.Inf(1), math.Inf(-1)
	}
	return c
}

// add spreads each sample over the columns that it covers.
func (c *columns) add(s align.Stretch) {
	n := float64(len(c.lo))
	at := (s.StartSeconds - c.from) / c.step // in columns
	width := s.PeriodSeconds / c.step
	first := 0
	if at < 0 && width > 0 {
		first = int(math.Min(-at/width, float64(len(s.Watts))))
	}
	for i := first; i < len(s.Watts); i++ {
		w := s.Watts[i]
		if math.IsNaN(w) || math.IsInf(w, 0) {
			continue
		}
		a := math.Max(at+float64(i)*width, 0)
		b := math.Min(at+float64(i+1)*width, n)
		if a >= n {
			return
		}
		for k := int(a); float64(k) < b; k++ {
			seconds := (math.Min(b, float64(k+1)) - math.Max(a, float64(k))) * c.step
			c.joules[k] += w * seconds
			c.seconds[k] += seconds
			c.lo[k], c.hi[k] = min(c.lo[k], w), max(c.hi[k], w)
		}
	}
}

// layers are the range and the mean of the columns; those without a sample
// are null.
func (c *columns) layers() (band, mean Layer, y extent) {
	band = Layer{Kind: Band, Name: "range of samples", Color: grey, Opacity: 0.5}
	mean = Layer{Kind: Line, Name: "mean power", Color: black, Opacity: 1, Size: 0.7}
	y = newExtent()
	for k := range c.lo {
		x := analysis.Num(c.from + (float64(k)+0.5)*c.step)
		m, lo, hi := null, null, null
		if c.seconds[k] > 0 {
			m, lo, hi = analysis.Num(c.joules[k]/c.seconds[k]), analysis.Num(c.lo[k]), analysis.Num(c.hi[k])
			y.add(lo, hi)
		}
		band.X, band.Lo, band.Hi = append(band.X, x), append(band.Lo, lo), append(band.Hi, hi)
		mean.X, mean.Y = append(mean.X, x), append(mean.Y, m)
	}
	return band, mean, y
}
