package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// contrast is the overhead of a window as the windows of one operation show it:
// the intercept c of E_j = c + J n_j through the mean energies of short and of
// long windows. For windows of two lengths, all regressions give this line,
// however they weigh; it needs no model of the scatter.
type contrast struct {
	g       *group
	weights []float64 // of its windows: sum(weights) = 1, sum(weights n) = 0
	perOp   float64   // J, slope J
	value   float64   // J, intercept c
	u, dof  float64   // of the value, from the scatter within each length
}

// newContrast returns the contrast of windows of energies y; false where they
// show none.
func newContrast(g *group, y []float64) (contrast, bool) {
	s := strata(g.n)
	c := contrast{g: g, weights: make([]float64, len(y))}
	if len(s) == 1 {
		// One call that does nothing is all overhead.
		if g.key.alg != "empty" || slices.Max(g.n) > 1 || len(y) < 2 {
			return c, false
		}
		for i := range c.weights {
			c.weights[i] = 1 / float64(len(y))
		}
	} else {
		short, long := mean(g.n, s[0]), mean(g.n, s[1])
		for _, i := range s[0] {
			c.weights[i] = long / (long - short) / float64(len(s[0]))
		}
		for _, i := range s[1] {
			c.weights[i] = -short / (long - short) / float64(len(s[1]))
		}
		c.perOp = (mean(y, s[1]) - mean(y, s[0])) / (long - short)
	}
	for i, w := range c.weights {
		c.value += w * y[i]
	}
	c.u, c.dof = welch(within(c.residuals(y), s))
	return c, true
}

// residuals returns the part of each window in the value, without what its
// length explains.
func (c contrast) residuals(y []float64) []float64 {
	z := make([]float64, len(y))
	for i, w := range c.weights {
		z[i] = w * (y[i] - c.perOp*c.g.n[i])
	}
	return z
}

func mean(v []float64, of []int) float64 {
	s := 0.0
	for _, i := range of {
		s += v[i]
	}
	return s / float64(len(of))
}

// overhead is the energy of a window beside its operations (wake-up, mark), J:
// the mean over the contrasts of operations over one idle mode.
type overhead struct {
	contrasts []contrast
	value     float64
	u, dof    float64
}

func newOverhead(cs ...contrast) *overhead {
	o := &overhead{contrasts: cs}
	k := float64(len(cs))
	var vs []variance
	for _, c := range cs {
		o.value += c.value / k
		vs = append(vs, variance{c.u * c.u / k / k, c.dof})
	}
	o.u, o.dof = welch(vs)
	return o
}

// mostUnlike is how many times the smallest doubt of all contrasts that of a
// contrast may be for it to count. All that count weigh the same: weights from
// scatter that is known to a few degrees of freedom would follow its luck.
const mostUnlike = 10

// overheads finds the overhead of a window for each operation: one for all that
// share an idle mode, since waking up and marking are the same whatever follows.
// Where the operations contradict that, each has its own, and notes say so. An
// operation without is not in the map.
func overheads(groups []*group, b Baseline) (of map[*group]*overhead, notes []string) {
	of = map[*group]*overhead{}
	byMode := map[string][]*group{}
	var modes []string
	for _, g := range groups {
		if byMode[g.key.idle] == nil {
			modes = append(modes, g.key.idle)
		}
		byMode[g.key.idle] = append(byMode[g.key.idle], g)
	}
	for _, mode := range modes {
		var all []contrast
		for _, g := range byMode[mode] {
			if c, ok := newContrast(g, g.energies(b)); ok {
				all = append(all, c)
			}
		}
		if len(all) == 0 {
			continue
		}
		used := alike(all)
		if disagree(used) {
			notes = append(notes, "the overhead of a window differs between operations ("+list(used)+"): each has its own")
			for _, c := range all {
				of[c.g] = newOverhead(c)
			}
			continue
		}
		shared := newOverhead(used...)
		for _, g := range byMode[mode] {
			of[g] = shared
		}
	}
	return of, notes
}

// energies are what a window took above idle, or between its marks where no
// idle is subtracted, J. The intercept is the same: idle is in proportion to
// the length.
func (g *group) energies(b Baseline) []float64 {
	if b == None {
		return g.each(func(p pulse) float64 { return p.gross })
	}
	return g.each(func(p pulse) float64 { return p.net })
}

// alike leaves out contrasts that tell next to nothing: of operations of random
// length beside others, and those with much more doubt than the best.
func alike(all []contrast) []contrast {
	random := func(c contrast) bool { return randomLength(c.g.key.alg, c.g.key.op) }
	used := slices.DeleteFunc(slices.Clone(all), random)
	if len(used) == 0 {
		used = slices.Clone(all)
	}
	least := math.Inf(1)
	for _, c := range used {
		least = math.Min(least, c.u)
	}
	return slices.DeleteFunc(used, func(c contrast) bool { return c.u > mostUnlike*least })
}

// disagree reports whether a contrast differs from the mean of the others at a
// level of 0.1 % over all of them (Bonferroni).
func disagree(cs []contrast) bool {
	if len(cs) < 2 {
		return false
	}
	for i, c := range cs {
		others := newOverhead(slices.Delete(slices.Clone(cs), i, i+1)...)
		u, dof := welch([]variance{{c.u * c.u, c.dof}, {others.u * others.u, others.dof}})
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}
		if math.Abs(c.value-others.value) > u*t.Quantile(1-0.001/2/float64(len(cs))) {
			return true
		}
	}
	return false
}

func list(cs []contrast) string {
	var out []string
	for _, c := range cs {
		out = append(out, fmt.Sprintf("%s %s %.3g J", c.g.key.alg, c.g.key.op, c.value))
	}
	return strings.Join(out, ", ")
}

// quantity states the overhead with the limits of the meter.
func (o *overhead) quantity(acc accuracy) Quantity {
	k := float64(len(o.contrasts))
	var coulomb, webers float64
	for _, c := range o.contrasts {
		for i, p := range c.g.pulses {
			coulomb += c.weights[i] / k * p.netCoulomb
			webers += c.weights[i] / k * p.netWebers
		}
	}
	lim := propagate(acc, amounts{joules: math.Abs(o.value), coulomb: math.Abs(coulomb), webers: math.Abs(webers)})
	return newQuantity(o.value, o.u, o.dof, 0, values(lim, acc))
}

// subtracted is pool without the overhead of the windows, and the part of its
// doubt that comes from the windows of other operations. The windows of g that
// gave the overhead enter once: their part in it, and in the sum, is one
// residual.
func (o *overhead) subtracted(g *group, y, x, energies []float64) (p pooled, others float64) {
	m, k, total := float64(len(y)), float64(len(o.contrasts)), sum(x)
	p = pooled{value: (sum(y) - m*o.value) / total, scatter: math.NaN(), dof: m - 1}
	z := make([]float64, len(y))
	for i := range y {
		z[i] = y[i] - p.value*x[i]
	}
	var vs []variance
	for _, c := range o.contrasts {
		if c.g == g {
			for i, r := range c.residuals(energies) {
				z[i] -= m / k * r
			}
			continue
		}
		u := m / k * c.u
		vs = append(vs, variance{u * u, c.dof})
		others = math.Hypot(others, u/math.Abs(total))
	}
	if len(y) < 2 {
		return p, others
	}
	p.scatter, p.dof = welch(append(vs, within(z, strata(g.n))...))
	p.scatter /= math.Abs(total)
	return p, others
}
