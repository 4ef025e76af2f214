package plots

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/si"
)

// logFrom is the range of values, in decades, above which an axis is
// logarithmic.
const logFrom = 2

// maxRows bounds the height of a figure.
const maxRows = 400

// row is one operation in the figure, over one idle mode where a run has
// several.
type row struct{ alg, op, idle string }

func (a row) compare(b row) int {
	return cmp.Or(cmp.Compare(opOrder(a.op), opOrder(b.op)), cmp.Compare(a.op, b.op),
		cmp.Compare(a.alg, b.alg), cmp.Compare(a.idle, b.idle))
}

// Bars shows energy per operation with its total interval (thin) and its
// repeatability (thick), grouped by kind of operation, several runs side by
// side. Operations without a value are left out.
func Bars(runs []analysis.Results) (Figure, error) {
	rows := map[row][]*analysis.Operation{}
	values := newExtent()
	for i := range runs {
		for k := range runs[i].Operations {
			o := &runs[i].Operations[k]
			q := energy(runs[i], *o)
			if !q.Value.Stated() {
				continue
			}
			key := row{o.Alg, o.Op, ""}
			if ofRun := rows[key]; ofRun != nil && ofRun[i] != nil {
				key.idle = o.IdleMode
			}
			if rows[key] == nil {
				rows[key] = make([]*analysis.Operation, len(runs))
			}
			rows[key][i] = o
			values.add(q.Value)
		}
	}
	switch {
	case len(rows) == 0:
		return Figure{}, fmt.Errorf("bars: %w: no operation has a value", ErrEmpty)
	case len(rows)*len(runs) > maxRows:
		return Figure{}, fmt.Errorf("bars: %d operations of %d runs are too many for one figure (%d bars at most)", len(rows), len(runs), maxRows)
	}
	b := bars{runs: runs, rows: rows, order: slices.SortedFunc(maps.Keys(rows), row.compare)}
	b.scale(values)
	return b.figure(), nil
}

// energy is the quantity that a figure of r shows: net, or gross where nothing
// was subtracted.
func energy(r analysis.Results, o analysis.Operation) analysis.Quantity {
	if r.Baseline == analysis.None {
		return o.Gross
	}
	return o.Net
}

func energyName(r analysis.Results) string {
	if r.Baseline == analysis.None {
		return "gross energy"
	}
	return "net energy"
}

type bars struct {
	runs  []analysis.Results
	rows  map[row][]*analysis.Operation
	order []row
	axis  Axis
}

// scale chooses the axis of energy.
func (b *bars) scale(values extent) {
	b.axis = Axis{Quantity: energyName(b.runs[0]) + " per operation", Unit: "J"}
	if values.lo > 0 && values.hi > values.lo*math.Pow(10, logFrom) {
		b.axis.Log = true
		// The least bar is still seen, and the interval of the longest.
		b.axis.Min = math.Pow(10, math.Floor(math.Log10(values.lo/1.5)))
		b.axis.Max = math.Pow(10, math.Ceil(math.Log10(values.hi*1.2)))
		return
	}
	for _, ops := range b.rows {
		for i, o := range ops {
			if o != nil {
				q := energy(b.runs[i], *o)
				values.add(q.Lo95, q.Hi95, q.Lo95Repeat, q.Hi95Repeat)
			}
		}
	}
	values.add(0)
	padded := values.padded(0.04)
	if b.axis.Min = padded.lo; values.lo == 0 {
		b.axis.Min = 0
	}
	b.axis.Max = padded.hi
}

func (b *bars) figure() Figure {
	simulated, voided := false, false
	for _, r := range b.runs {
		simulated = simulated || r.Simulated
	}
	share := 0.8 / float64(len(b.runs))
	perRun := make([]Layer, len(b.runs))
	total := Layer{Kind: Intervals, Name: "total, 95 %", Color: black, Opacity: 1, Size: 0.8}
	repeat := Layer{Kind: Intervals, Name: "repeatability, 95 %", Color: black, Opacity: 0.75, Size: 3}
	labels := Layer{Kind: Labels, Color: black, Opacity: 1, Size: 7.5}
	var categories []Category
	y, group := 0.0, "\x00"
	for _, key := range b.order {
		if key.op != group {
			group = key.op
			categories = append(categories, Category{At: y, Label: label(key.op), Heading: true})
			y--
		}
		name := label(key.alg)
		if key.idle != "" {
			name = label(key.alg + " over " + key.idle)
		}
		categories = append(categories, Category{At: y, Label: name})
		for i, o := range b.rows[key] {
			if o == nil {
				continue
			}
			at := analysis.Num(y + share*(float64(len(b.runs)-1)/2-float64(i)))
			q := energy(b.runs[i], *o)
			perRun[i].X, perRun[i].Y = append(perRun[i].X, q.Value), append(perRun[i].Y, at)
			addInterval(&total, at, q.Lo95, q.Hi95)
			addInterval(&repeat, at, q.Lo95Repeat, q.Hi95Repeat)
			text := si.Format(float64(q.Value), "J", q.Digits())
			if o.Voided {
				voided = true
				text += " †"
			}
			labels.Y, labels.Text = append(labels.Y, at), append(labels.Text, text)
		}
		y--
	}
	var layers []Layer
	for i, l := range perRun {
		l.Kind, l.Name, l.Color, l.Opacity, l.Size = BarLayer, b.runName(i), runColors[i%len(runColors)], 0.75, share*0.92
		layers = append(layers, l)
	}
	for _, l := range []Layer{total, repeat} {
		if len(l.Y) > 0 {
			layers = append(layers, l)
		}
	}
	title := "Energy per operation"
	if len(b.runs) == 1 {
		title += ": " + runLabel(b.runs[0])
	}
	f := newFigure(BarsKind, title, simulated, b.notes(voided)...)
	f.Panels = []Panel{{X: b.axis, Y: Axis{Min: y + 0.4, Max: 0.6, Categories: categories}, Layers: append(layers, labels),
		MinWidthPoints: 200, HeightPoints: -y * math.Max(14, 8.5*float64(len(b.runs))+3)}}
	return f
}

func addInterval(l *Layer, at, lo, hi analysis.Num) {
	if lo.Stated() && hi.Stated() {
		l.Y, l.Lo, l.Hi = append(l.Y, at), append(l.Lo, lo), append(l.Hi, hi)
	}
}

// runName names run i in the legend, with its idle modes: net energy over
// different ones is not the same quantity.
func (b *bars) runName(i int) string {
	r := b.runs[i]
	name := runLabel(r)
	for k, other := range b.runs {
		if k != i && other.Run == r.Run {
			name += ", meter " + label(r.Meter.Name)
			break
		}
	}
	if r.Baseline == analysis.None {
		return name
	}
	var modes []string
	for _, o := range r.Operations {
		if m := label(o.IdleMode); m != "" && !slices.Contains(modes, m) {
			modes = append(modes, m)
		}
	}
	if len(modes) == 1 {
		name += ", over " + modes[0]
	}
	return name
}

func (b *bars) notes(voided bool) []string {
	var notes []string
	if b.runs[0].Baseline != analysis.None {
		notes = append(notes, "net: input energy above the target's own idle at the measuring point")
	} else {
		notes = append(notes, "gross: all input energy at the measuring point, idle included")
	}
	if voided {
		notes = append(notes, "† a warning voids the claim")
	}
	return notes
}
