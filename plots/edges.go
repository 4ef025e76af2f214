package plots

import (
	"fmt"
	"math"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/align"
)

// DrawnEdges is how many single edges a figure shows; the mean is of all.
const DrawnEdges = 150

// normal95 covers 95 % of a normal distribution from -normal95 to normal95
// standard deviations.
const normal95 = 1.96

// Edges shows the edges of power of a run on top of each other in equivalent
// time, after the offset: single ones, their mean, where it crosses 10 and
// 90 %, and the interval of the offset.
func Edges(r analysis.Results, all align.Fold, single []align.Fold) (Figure, error) {
	if all.Edges == 0 || len(all.Seconds) < 2 {
		return Figure{}, fmt.Errorf("edges of %s: %w: no step of power stands at the marks of its windows", r.Run, ErrEmpty)
	}
	lo, hi := all.Crossings()
	x := viewOf(all, lo, hi)
	y := extent{-0.25, 1.25}
	var layers []Layer
	a := r.Alignment
	notes := []string{fmt.Sprintf("%d edges; 10-90 %% in %s (meter and target together)", all.Edges, si.Format(hi-lo, "s", 3))}
	if a.Method == align.ByEdges && a.U.Stated() {
		half := normal95 * float64(a.U)
		layers = append(layers, Layer{Kind: Spans, Name: "offset, 95 %", Color: purple, Opacity: 0.6, Size: 8.5,
			Lo: nums([]float64{-half}), Hi: nums([]float64{half}), Text: []string{""}})
		notes = append(notes, fmt.Sprintf("mark to power %s ± %s; next best offset explains %.0f %% of what this one does",
			si.Format(float64(a.Offset), "s", 4), si.Format(half, "s", 2), 100*math.Max(0, float64(a.RunnerUp))))
	} else {
		notes = append(notes, "the offset is not from the edges: marks by "+string(a.Method))
	}
	for i, f := range single {
		l := Layer{Kind: Line, Color: grey, Opacity: 0.18, Size: 0.5, X: nums(f.Seconds), Y: nums(f.Level)}
		if i == 0 {
			l.Name = "single edges"
			if len(single) < all.Edges {
				l.Name = fmt.Sprintf("single edges, %d of %d", len(single), all.Edges)
			}
		}
		layers = append(layers, l)
	}
	layers = append(layers, Layer{Kind: Line, Name: "mean of all edges", Color: blue, Opacity: 1, Size: 2, X: nums(all.Seconds), Y: nums(all.Level)})
	cross := Layer{Kind: Points, Name: "10 and 90 %", Color: vermilion, Opacity: 1, Size: 4,
		X: nums([]float64{lo, hi}), Y: nums([]float64{0.1, 0.9})}
	levels := Layer{Kind: Line, Color: vermilion, Opacity: 0.7, Size: 0.7, Dashed: true,
		X: []analysis.Num{analysis.Num(x.lo), analysis.Num(x.hi), null, analysis.Num(x.lo), analysis.Num(x.hi)},
		Y: []analysis.Num{0.1, 0.1, null, 0.9, 0.9}}
	f := newFigure(EdgesKind, "Edges of "+label(r.Run)+", folded", r.Simulated, notes...)
	f.Panels = []Panel{{
		X:      Axis{Quantity: "time after mark and offset", Unit: "s", Min: x.lo, Max: x.hi},
		Y:      Axis{Quantity: "power, 0: before the step, 1: after it", Min: y.lo, Max: y.hi},
		Layers: append(layers, levels, cross), MinWidthPoints: 200, HeightPoints: 380,
	}}
	return f, nil
}

// viewOf is the part of a fold around its step.
func viewOf(f align.Fold, lo, hi float64) extent {
	const around, least = 3, 0.03 // in responses; s
	reach := math.Max(around*math.Max(hi-lo, math.Max(hi, -lo)), least)
	return extent{math.Max(-reach, f.Seconds[0]), math.Min(reach, f.Seconds[len(f.Seconds)-1])}
}
