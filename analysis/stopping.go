package analysis

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// firstLook is how many windows a campaign takes before it may stop by what it
// sees: earlier, a scatter that is small by luck would end it.
const firstLook = 10

// mostWindows bounds what a rule asks for.
const mostWindows = 1_000_000

// Rule decides when an operation has enough windows: sequentially, as Chow and
// Robbins (Ann. Math. Stat. 36 (1965) 457) stop at a fixed width, but from
// ten windows on, with half of the windows that seem to be missing between two
// looks, and with a surcharge for the luck of the early ones. The interval that
// Analyze states after such a stop holds the truth as often as it says, within
// the limits of docs/method.md; a rule that looks at less would not.
type Rule struct {
	// Wanted is the relative half width of the repeatability interval.
	Wanted float64
	// Most is how many windows there may be; 0 for no limit.
	Most int
}

// Next says how many more windows an operation needs after those with the given
// energies (J, net) and counts of operations: 0 where it is done, and why.
func (r Rule) Next(energies, counts []float64) (more int, why string) {
	m, most := len(energies), r.Most
	if most <= 0 || most > mostWindows {
		most = mostWindows
	}
	if m >= most {
		return 0, fmt.Sprintf("%d windows, the most allowed: the wanted interval may not be reached", m)
	}
	if first := min(firstLook, most); m < first {
		return first - m, fmt.Sprintf("%d windows come first", first)
	}
	p := pool(energies, counts, strata(counts))
	relative := func(windows int) float64 {
		grow := float64(windows) / float64(m)
		return halfWidth(p.scatter/math.Sqrt(grow), p.dof*grow) / math.Abs(p.value)
	}
	now := relative(m)
	if now*surcharge(m) <= r.Wanted {
		return 0, fmt.Sprintf("the interval is ± %.2g %%, and ± %.2g %% was wanted", 100*now, 100*r.Wanted)
	}
	need := fewest(m+1, most, func(k int) bool { return relative(k)*surcharge(k) <= r.Wanted })
	return (need - m + 1) / 2, fmt.Sprintf("the interval is ± %.2g %%, ± %.2g %% is wanted: about %d windows", 100*now, 100*r.Wanted, need)
}

// Windows is how many windows a Rule takes in the mean to the wanted relative
// half width, where energies per operation scatter between windows with the
// given relative standard deviation.
func Windows(wanted, scatter float64) int {
	return fewest(firstLook, mostWindows, func(m int) bool {
		return halfWidth(scatter/math.Sqrt(float64(m)), float64(m-1))*surcharge(m) <= wanted
	})
}

// surcharge is the factor by which an interval after m windows must be smaller
// than wanted: those that stop early do so because their scatter is small by
// luck.
func surcharge(m int) float64 { return 1 + 2/float64(m) }

func halfWidth(u, dof float64) float64 {
	return u * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}.Quantile((1+level)/2)
}

// fewest is the smallest of from..most that is enough, or most. What is enough
// stays so.
func fewest(from, most int, enough func(int) bool) int {
	lo, hi := from, from
	for !enough(hi) {
		if hi >= most {
			return most
		}
		lo, hi = hi+1, min(2*hi, most)
	}
	for lo < hi {
		mid := (lo + hi) / 2
		if enough(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
