package plots

import (
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/si"
)

// maxPanels bounds the size of a figure.
const maxPanels = 100

// Repeats shows the energy per operation of each window in the order of the
// run, one panel an operation, with the pooled value and its repeatability.
// Excluded windows stand as crosses at the lower end.
func Repeats(r analysis.Results) (Figure, error) {
	time := newExtent()
	for _, w := range r.Windows {
		time.add(w.T0, w.T1)
	}
	if len(r.Operations) == 0 || time.empty() {
		return Figure{}, fmt.Errorf("repeats of %s: %w: no window has a value", r.Run, ErrEmpty)
	}
	if len(r.Operations) > maxPanels {
		return Figure{}, fmt.Errorf("repeats of %s: %d operations are too many for one figure (%d at most)", r.Run, len(r.Operations), maxPanels)
	}
	time = time.padded(0.03)
	f := newFigure(RepeatsKind, "Repeats of "+label(r.Run)+", in run order", r.Simulated,
		energyName(r)+" of each window by its operations; pooled: sum of energy by sum of operations")
	ops := slices.Clone(r.Operations)
	slices.SortStableFunc(ops, func(a, b analysis.Operation) int {
		return row{a.Alg, a.Op, a.IdleMode}.compare(row{b.Alg, b.Op, b.IdleMode})
	})
	for _, o := range ops {
		if p, ok := repeatsPanel(r, o, time); ok {
			f.Panels = append(f.Panels, p)
		}
	}
	if len(f.Panels) == 0 {
		return Figure{}, fmt.Errorf("repeats of %s: %w: no operation has a value", r.Run, ErrEmpty)
	}
	for i := range f.Panels {
		f.Panels[i].HeightPoints = math.Max(80, 380/float64(len(f.Panels)))
	}
	if len(f.Panels) == 1 {
		f.Panels[0].Y.Quantity = energyName(r) + " per operation"
	}
	return f, nil
}

func repeatsPanel(r analysis.Results, o analysis.Operation, time extent) (Panel, bool) {
	q := energy(r, o)
	if !q.Value.Stated() {
		return Panel{}, false
	}
	points := Layer{Kind: Points, Name: "window", Color: black, Opacity: 0.9, Size: 2.2}
	crosses := Layer{Kind: Points, Name: "excluded window", Color: vermilion, Opacity: 1, Size: 3, Cross: true}
	y := newExtent()
	y.add(q.Value, q.Lo95Repeat, q.Hi95Repeat)
	for _, w := range r.Windows {
		if w.Alg != o.Alg || w.Op != o.Op || w.IdleMode != o.IdleMode && w.Excluded == "" {
			continue
		}
		at := (w.T0 + w.T1) / 2
		if w.Excluded != "" {
			crosses.X = append(crosses.X, at)
			continue
		}
		e := w.Net
		if r.Baseline == analysis.None {
			e = w.Gross
		}
		points.X, points.Y = append(points.X, at), append(points.Y, e/analysis.Num(w.N))
		y.add(e / analysis.Num(w.N))
	}
	y = y.padded(0.1)
	for range crosses.X {
		crosses.Y = append(crosses.Y, analysis.Num(y.lo))
	}
	ends := []analysis.Num{analysis.Num(time.lo), analysis.Num(time.hi)}
	var layers []Layer
	if q.Lo95Repeat.Stated() && q.Hi95Repeat.Stated() {
		layers = append(layers, Layer{Kind: Band, Name: "its repeatability, 95 %", Color: sky, Opacity: 0.45, X: ends,
			Lo: []analysis.Num{q.Lo95Repeat, q.Lo95Repeat}, Hi: []analysis.Num{q.Hi95Repeat, q.Hi95Repeat}})
	}
	layers = append(layers, Layer{Kind: Line, Name: "pooled", Color: blue, Opacity: 1, Size: 1.2, X: ends, Y: []analysis.Num{q.Value, q.Value}}, points)
	if len(crosses.X) > 0 {
		layers = append(layers, crosses)
	}
	title := label(o.Alg+" "+o.Op) + ": " + si.Format(float64(q.Value), "J", q.Digits())
	return Panel{
		Title:  title,
		X:      Axis{Quantity: "time", Unit: "s", Min: time.lo, Max: time.hi},
		Y:      Axis{Unit: "J", Min: y.lo, Max: y.hi},
		Layers: layers, MinWidthPoints: 165,
	}, true
}
