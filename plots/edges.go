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

// How much of a fold is shown to either side.
const (
	responses  = 4.0  // in 10-90 % times
	leastReach = 0.03 // s
	plainReach = 0.15 // s, where no response is known
)

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
	f := newFigure(EdgesKind, "Edges of "+label(r.Run)+", folded", r.Simulated)
	var marks []Layer
	x := extent{-plainReach, plainReach}
	if a := r.Alignment; a.Method == align.ByEdges && a.U.Stated() {
		lo, hi := all.Crossings()
		half := normal95 * float64(a.U)
		reach := math.Max(responses*math.Max(hi, -lo), leastReach)
		x = extent{-reach, reach}
		f.Notes = []string{
			fmt.Sprintf("%d edges; 10-90 %% in %s (meter and target together)", all.Edges, si.Format(hi-lo, "s", 3)),
			fmt.Sprintf("mark to power %s ± %s; next best offset explains %.0f %% of what this one does",
				si.Format(float64(a.Offset), "s", 4), si.Format(half, "s", 2), 100*math.Max(0, float64(a.RunnerUp))),
		}
		marks = []Layer{
			{Kind: Spans, Name: "offset, 95 %", Color: purple, Opacity: 0.6, Lo: nums([]float64{-half}), Hi: nums([]float64{half}), Text: []string{""}},
			{Kind: Line, Color: vermilion, Opacity: 0.7, Size: 0.7, Dashed: true,
				X: nums([]float64{-reach, reach, math.NaN(), -reach, reach}), Y: nums([]float64{0.1, 0.1, math.NaN(), 0.9, 0.9})},
			{Kind: Points, Name: "10 and 90 %", Color: vermilion, Opacity: 1, Size: 4, X: nums([]float64{lo, hi}), Y: nums([]float64{0.1, 0.9})},
		}
	} else {
		f.Notes = []string{fmt.Sprintf("%d edges; the offset is not from them: marks by %s", all.Edges, a.Method)}
	}
	y := extent{-0.2, 1.2}
	for i, s := range all.Seconds {
		if s >= x.lo && s <= x.hi {
			y.add(analysis.Num(all.Level[i]))
		}
	}
	y = y.padded(0.03)
	// Few lines are drawn strongly, many so that their density shows.
	opacity := math.Min(math.Max(12/float64(len(single)), 0.18), 0.6)
	var layers []Layer
	for i, e := range single {
		l := Layer{Kind: Line, Color: grey, Opacity: opacity, Size: 0.5, X: nums(e.Seconds), Y: nums(e.Level)}
		if i == 0 {
			l.Name = "single edges"
			if len(single) < all.Edges {
				l.Name = fmt.Sprintf("single edges, %d of %d", len(single), all.Edges)
			}
		}
		layers = append(layers, l)
	}
	layers = append(layers, Layer{Kind: Line, Name: "mean of all edges", Color: blue, Opacity: 1, Size: 2, X: nums(all.Seconds), Y: nums(all.Level)})
	f.Panels = []Panel{{
		X:      Axis{Quantity: "time after mark and offset", Unit: "s", Min: x.lo, Max: x.hi},
		Y:      Axis{Quantity: "power, 0: before the step, 1: after it", Min: y.lo, Max: y.hi},
		Layers: append(layers, marks...), MinWidthPoints: 200, HeightPoints: 380,
	}}
	return f, nil
}
