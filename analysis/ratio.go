package analysis

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Ratio states a/b of net energy per operation (gross, where no baseline was
// subtracted), with both intervals. oneMeter says that both were measured by
// one meter in one session at like voltages and currents: what its limits do
// to both alike cancels then. It refuses what is not comparable.
//
// The repeatability interval is Fieller's (JCGM 101:2008 has no closed form for
// it; Fieller, J. R. Stat. Soc. B 16 (1954) 175): the set of r for which a - r b
// does not differ from 0. It is unstated where that set is unbounded, when b
// itself is not told from 0. Where a or b rests on few operations of random
// length, it is the interval of the logarithm, as theirs is. The total interval
// widens it by the limits of the meter, first order in the relative errors.
func Ratio(a, b Operation, oneMeter bool) (Quantity, error) {
	qa, qb := a.headline(), b.headline()
	switch {
	case a.Op != b.Op:
		return unstated(), fmt.Errorf("compare %s %s with %s %s: different operations", a.Alg, a.Op, b.Alg, b.Op)
	case a.IdleMode != b.IdleMode && qa == a.Net:
		return unstated(), fmt.Errorf("compare %s %s with %s %s: net over idle %q and over idle %q are different quantities", a.Alg, a.Op, b.Alg, b.Op, a.IdleMode, b.IdleMode)
	}
	va, vb := float64(qa.Value), float64(qb.Value)
	r := va / vb
	q := valueOnly(r)
	ua, ub := float64(qa.URepeat), float64(qb.URepeat)
	if !qa.URepeat.Stated() || !qb.URepeat.Stated() {
		return q, nil
	}
	// Degrees of freedom of the contrast a - r b (Welch and Satterthwaite).
	na, nb := ua*ua, r*r*ub*ub
	dof := (na + nb) * (na + nb) / (na*na/float64(qa.DofRepeat) + nb*nb/float64(qb.DofRepeat))
	if !(dof >= 1) {
		dof = 1
	}
	u := math.Sqrt(na+nb) / math.Abs(vb)
	q.URepeat, q.DofRepeat = Num(u), Num(dof)
	q.UShared = Num(math.Abs(r) * math.Hypot(float64(qa.UShared)/va, float64(qb.UShared)/vb))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}.Quantile((1 + level) / 2)
	if a.logarithmic || b.logarithmic {
		if !told(qa) || !told(qb) {
			return q, nil
		}
		down, up := skewedQuantiles(r, u, dof, nil)
		q.Lo95Repeat, q.Hi95Repeat = Num(r-down), Num(r+up)
	} else {
		g := t * t * ub * ub / (vb * vb)
		if g >= 1 {
			return q, nil
		}
		half := t / math.Abs(vb) * math.Sqrt((1-g)*ua*ua+r*r*ub*ub) / (1 - g)
		centre := r / (1 - g)
		q.Lo95Repeat, q.Hi95Repeat = Num(centre-half), Num(centre+half)
	}
	limits, ok := ratioLimits(a, b, oneMeter)
	if !ok {
		return q, nil
	}
	total := u * u
	for i := range limits {
		limits[i] *= math.Abs(r)
		total += limits[i] * limits[i] / 3
	}
	// What the limits add to the symmetric part.
	add := quantile(u, dof, limits) - quantile(u, dof, nil)
	q.U = Num(math.Sqrt(total))
	q.Lo95, q.Hi95 = q.Lo95Repeat-Num(add), q.Hi95Repeat+Num(add)
	return q, nil
}

// told reports whether a value is told from 0, and above it.
func told(q Quantity) bool { return q.Lo95Repeat > 0 }

// headline is net energy, or gross where there is no net.
func (o Operation) headline() Quantity {
	if o.Net.Value.Stated() {
		return o.Net
	}
	return o.Gross
}

// ratioLimits returns the meter's limits as relative half widths of a ratio.
func ratioLimits(a, b Operation, oneMeter bool) ([]float64, bool) {
	if a.limits == nil || b.limits == nil {
		return nil, false
	}
	va, vb := math.Abs(float64(a.headline().Value)), math.Abs(float64(b.headline().Value))
	out := []float64{}
	if !oneMeter {
		for _, l := range a.limits {
			out = append(out, scaled(l.rectangles(), 1/va)...)
		}
		for _, l := range b.limits {
			out = append(out, scaled(l.rectangles(), 1/vb)...)
		}
		return out, true
	}
	for _, l := range a.limits {
		rel := l.half / va
		for _, k := range b.limits {
			switch {
			case k.name != l.name:
			case k.own:
				out = append(out, scaled(k.rectangles(), 1/vb)...)
			default:
				rel -= k.half / vb
			}
		}
		l.half = math.Abs(rel)
		out = append(out, l.rectangles()...)
	}
	return out, true
}
