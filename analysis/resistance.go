package analysis

import (
	"math"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
)

// resistance fits the resistance between the source and the meter to all
// windows: what the voltage loses while the current is above idle, R = -dV/dI,
// by least squares through 0. Both are integrals over a window and its guards,
// so that neither smoothing nor the offset matters.
type resistance struct {
	amps, volts []float64 // integrals above idle, C and V s
}

func (r *resistance) add(p pulse) {
	if p.netWebers != 0 && p.netCoulomb != 0 {
		r.amps, r.volts = append(r.amps, p.netCoulomb), append(r.volts, p.netWebers)
	}
}

// ohms returns the resistance and its standard uncertainty from the scatter of
// the windows; NaN where volts or amps were not measured.
func (r *resistance) ohms() (ohms, u float64) {
	var product, square float64
	for i, a := range r.amps {
		product -= a * r.volts[i]
		square += a * a
	}
	m := float64(len(r.amps))
	if m == 0 {
		return math.NaN(), math.NaN()
	}
	ohms = product / square
	residual := 0.0
	for i, a := range r.amps {
		d := r.volts[i] + ohms*a
		residual += d * d
	}
	return ohms, math.Sqrt(residual / (m - 1) / square)
}

// mixed is by how much, at most, the energy of all windows together is too
// high because volts and amps were averaged before they were multiplied, J. The
// voltage falls by R dI while the current rises by dI, so that the product of
// means exceeds the mean of products by R var(I); and while the averaging has let
// the share y of a step through, var(I) is dI^2 y (1-y). A meter whose samples
// are points averages nothing.
func (g *group) mixed(t *align.Timeline, ohms float64) float64 {
	if !(ohms > 0) || t.Character.Kind == meters.Point {
		return 0
	}
	edges := 2 * t.Offset.Fold.MixedSeconds()
	total := 0.0
	for _, p := range g.pulses {
		amps := p.netCoulomb / p.seconds
		total += ohms * amps * amps * edges
	}
	return total
}
