package analysis

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

var draws = flag.Int("draws", 300, "campaigns a row of the coverage tables; docs/method.md has 10000")

// slack is what a row of a coverage table may be off by luck: 4.5 standard
// deviations, 1 in 100,000.
func slack() float64 { return 4.5 * math.Sqrt(0.95*0.05/float64(*draws)) }

// source yields energies (J) of windows with their counts; the mean is 1 J an
// operation. covariance is what neighbouring windows share, J^2.
type source func() (joules, count, covariance float64)

// sources of windows of relative scatter sd.
var sources = map[string]func(r *rand.Rand, sd float64) source{
	"normal": func(r *rand.Rand, sd float64) source {
		return func() (float64, float64, float64) { return 1 + sd*r.NormFloat64(), 1, 0 }
	},
	// Rejection sampling at the 3.91 tries of ML-DSA-87, as many operations a
	// window as give that scatter.
	"geometric": func(r *rand.Rand, sd float64) source {
		const tries = 3.91
		n := math.Max(1, math.Round((tries-1)/tries/sd/sd))
		return func() (float64, float64, float64) {
			return signatures(r, tries, 1, n), n, 0
		}
	},
	// Half of the variance is idle's; one pair of windows in four are neighbours
	// that share a bracket, as with four operations in random order.
	"idle": func(r *rand.Rand, sd float64) source {
		u, before, first := sd/math.Sqrt2, 0.0, true
		return func() (float64, float64, float64) {
			covariance := 0.0
			if first || r.Float64() > 0.25 {
				before = r.NormFloat64()
			} else {
				covariance = u * u
			}
			first = false
			after := r.NormFloat64()
			e := 1 + u*(r.NormFloat64()+(before+after)/math.Sqrt2)
			before = after
			return e, 1, covariance
		}
	},
}

// signatures is the energy of n signatures of 1 J in the mean, of which the
// share repeated is spent on tries.
func signatures(r *rand.Rand, tries, repeated, n float64) float64 {
	e := n * (1 - repeated)
	for range int(n) {
		e += repeated / tries * (1 + math.Floor(r.ExpFloat64()/-math.Log(1-1/tries)))
	}
	return e
}

// After a stop by the rule, the interval holds the truth as often as it says,
// for as many windows as an oracle that knows the scatter would take, and a few.
func TestRuleCoverage(t *testing.T) {
	const seed = 20260301
	var table strings.Builder
	for _, kind := range []string{"normal", "geometric", "idle"} {
		for _, c := range []struct{ wanted, ideal float64 }{
			{0.002, 5}, {0.002, 12}, {0.002, 40}, {0.01, 8}, {0.01, 18}, {0.01, 80}, {0.05, 12}, {0.05, 25}, {0.05, 60},
		} {
			// ideal: windows that an oracle needs, (1.96 sd/wanted)^2.
			sd := c.wanted * math.Sqrt(c.ideal) / 1.96
			if kind == "geometric" && sd < 0.02 {
				continue // thousands of signatures a window are normal
			}
			r := rand.New(rand.NewPCG(seed, math.Float64bits(sd)))
			held, windows := 0, 0
			for range *draws {
				next := sources[kind](r, sd)
				var energies, counts []float64
				covariance := 0.0
				for {
					more, _ := Rule{Wanted: c.wanted}.Next(energies, counts)
					if more == 0 {
						break
					}
					for range more {
						e, n, cov := next()
						energies, counts = append(energies, e), append(counts, n)
						covariance += cov
					}
				}
				p := pool(energies, counts, strata(counts))
				q := newQuantity(p.value, p.scatter, p.dof, math.Sqrt(covariance)/sum(counts), nil)
				if q.Lo95Repeat <= 1 && 1 <= q.Hi95Repeat {
					held++
				}
				windows += len(energies)
			}
			coverage, mean := float64(held)/float64(*draws), float64(windows)/float64(*draws)
			planned := Windows(c.wanted, sd)
			fmt.Fprintf(&table, "| %s | %.1f %% | %.0f | %.1f | %d | %.1f %% |\n", kind, 100*c.wanted, c.ideal, mean, planned, 100*coverage)
			if coverage < 0.93-slack()/2 || coverage > 0.97+slack()/2 {
				t.Errorf("seed %d: %s, %g wanted, %g ideal: %.2f %% hold the truth", seed, kind, c.wanted, c.ideal, 100*coverage)
			}
			if most := math.Max(firstLook, c.ideal) + 7; mean > most {
				t.Errorf("%s, %g wanted: %.1f windows in the mean, ideal is %.0f", kind, c.wanted, mean, c.ideal)
			}
			if math.Abs(float64(planned)-mean) > 2+0.05*mean {
				t.Errorf("%s, %g wanted, ideal %g: planned %d windows, took %.1f", kind, c.wanted, c.ideal, planned, mean)
			}
		}
	}
	t.Logf("scatter, wanted, ideal windows, mean, planned, coverage\n%s", table.String())
}

func TestRule(t *testing.T) {
	flat := func(n int, spread float64) (e, c []float64) {
		for i := range n {
			e, c = append(e, 10+spread*float64(i%2*2-1)), append(c, 10)
		}
		return e, c
	}
	for _, c := range []struct {
		name   string
		rule   Rule
		n      int
		spread float64
		want   func(more int) bool
	}{
		{"nothing yet", Rule{Wanted: 0.01}, 0, 0, func(m int) bool { return m == 10 }},
		{"not before ten windows, however alike", Rule{Wanted: 0.01}, 4, 0, func(m int) bool { return m == 6 }},
		{"alike", Rule{Wanted: 0.01}, 10, 0, func(m int) bool { return m == 0 }},
		{"not enough yet", Rule{Wanted: 0.01}, 10, 1, func(m int) bool { return m > 100 && m < 300 }},
		{"enough", Rule{Wanted: 0.1}, 12, 0.5, func(m int) bool { return m == 0 }},
		{"no more than allowed", Rule{Wanted: 1e-9, Most: 30}, 10, 1, func(m int) bool { return m == 10 }},
		{"the most", Rule{Wanted: 1e-9, Most: 30}, 30, 1, func(m int) bool { return m == 0 }},
		{"a most below the first look", Rule{Wanted: 0.01, Most: 5}, 2, 1, func(m int) bool { return m == 3 }},
		{"out of reach", Rule{Wanted: 1e-12}, 10, 1, func(m int) bool { return m > 0 && m <= mostWindows }},
		{"nothing wanted", Rule{}, 10, 1, func(m int) bool { return m > 0 && m <= mostWindows }},
	} {
		e, n := flat(c.n, c.spread)
		if more, why := c.rule.Next(e, n); !c.want(more) || why == "" {
			t.Errorf("%s: %d more windows, %q", c.name, more, why)
		}
	}
	if w := Windows(math.NaN(), 1); w != mostWindows {
		t.Errorf("%d windows for no wanted width", w)
	}
}
