package analysis

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/sync/align"
	"github.com/joulemark/joulemark/sync/mark"
)

// cycles makes a self-test of 15 cycles with 3 windows each of a target that
// draws 2 W while busy and spends 1 µJ a burst. error is the relative error of
// a cycle; windows scatter by 0.1 %.
func cycles(r *rand.Rand, err func(periodUs, duty float64) float64) dutyTest {
	var d dutyTest
	for _, period := range []int64{1013, 3217, 10177, 31847, 100829} {
		for _, duty := range []float64{0.25, 0.5, 0.75} {
			on := int64(duty * float64(period))
			off := err(float64(period), duty)
			for range 3 {
				n := float64(2_000_000 / period)
				w := align.Window{Win: mark.Win{N: int64(n), PeriodUs: period, OnUs: on}}
				joules := n * (2*float64(on)*1e-6 + 1e-6) * (1 + off + 0.001*r.NormFloat64())
				d.add(&w, pulse{net: joules, seconds: n * float64(period) * 1e-6})
			}
		}
	}
	return d
}

func TestDutyCycleFit(t *testing.T) {
	const seed = 20260201
	r := rand.New(rand.NewPCG(seed, 0))
	d := cycles(r, func(_, _ float64) float64 { return 0 })
	out, problem := d.result()
	if problem != "" || out.Windows != 45 || len(out.Cycles) != 15 {
		t.Fatalf("%+v, %s", out, problem)
	}
	near(t, "power while busy", float64(out.Watts.Value), 2, 5*float64(out.Watts.U)/2)
	near(t, "u of it", float64(out.Watts.U), 2*0.001/math.Sqrt(45), 0.5)
	near(t, "energy of a burst", float64(out.Burst.Value), 1e-6, 5*float64(out.Burst.U)/1e-6)
	c := out.Cycles[0]
	if c.PeriodSeconds != 0.001013 || math.Abs(float64(c.Duty)-0.25) > 1e-3 || c.Windows != 3 {
		t.Errorf("first cycle: %+v", c)
	}
	near(t, "u of a deviation", float64(c.Deviation.U), 0.001/math.Sqrt(3), 0.4)

	d = cycles(r, func(period, _ float64) float64 { return 0.02 * math.Sin(period) })
	out, _ = d.result()
	if !out.Significant {
		t.Errorf("seed %d: an error of 2 %% was not found: %+v", seed, out)
	}
	near(t, "limit", float64(out.Limit), 0.02*math.Sqrt(3.0/2), 0.5)
}

// Without error one self-test in 20 is significant; and what the limit stands
// for is seldom less than the error that is there.
func TestDutyCycleOdds(t *testing.T) {
	const seed, trials = 20260202, 2000
	r := rand.New(rand.NewPCG(seed, 0))
	for _, sd := range []float64{0, 0.0003, 0.001, 0.01} {
		significant, held := 0, 0
		for range trials {
			d := cycles(r, func(_, _ float64) float64 { return sd * r.NormFloat64() })
			out, _ := d.result()
			if out.Significant {
				significant++
			}
			if float64(out.Limit) >= sd {
				held++
			}
		}
		if share := float64(significant) / trials; sd == 0 && math.Abs(share-0.05) > 0.02 {
			t.Errorf("seed %d: %.3f of faultless meters fail", seed, share)
		}
		if share := float64(held) / trials; share < 0.93 {
			t.Errorf("seed %d: the limit holds a deviation of %g in %.3f of cases", seed, sd, share)
		}
	}
}

func TestDutyCycleSaysWhyNot(t *testing.T) {
	window := func(d *dutyTest, period, on int64, joules float64) {
		d.add(&align.Window{Win: mark.Win{N: 1, PeriodUs: period, OnUs: on}}, pulse{net: joules, seconds: 1})
	}
	var none, few, same, once dutyTest
	if out, problem := none.result(); out != nil || problem != "" {
		t.Errorf("a self-test of no windows: %+v, %s", out, problem)
	}
	for k := range int64(6) {
		window(&few, 1000, 500+k%2, 1)
		window(&same, 1000+k/2, 500, 1)
		window(&same, 2000+k/2, 500, 1)
		window(&once, 1000+k, 500+k, 1)
		window(&once, 1000, 500, math.NaN()) // not stated: passed over
	}
	for _, c := range []struct {
		test dutyTest
		says string
	}{{few, "2 pairs of period and duty; 4 are needed"}, {same, "one length"}, {once, "was repeated"}} {
		out, problem := c.test.result()
		if !strings.Contains(problem, c.says) || out.Limit.Stated() {
			t.Errorf("got %q, %+v, want %q and no limit", problem, out, c.says)
		}
		if _, ok := out.limit(1, nil); ok {
			t.Error("a term without a limit")
		}
	}
}

// The duty-cycle term stays in a ratio on one meter.
func TestRatioKeepsDutyCycle(t *testing.T) {
	own := func(v float64) []limit { return []limit{{name: dutyTerm, half: 0.01 * v, own: true}} }
	a, b := operation("sign", 6, 0.001, 10, own(6)), operation("sign", 2, 0.001, 10, own(2))
	q, err := Ratio(a, b, true)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "half width", float64(q.Hi95-q.Lo95)/2, 3*2*0.01*(1-math.Sqrt(0.05)), 0.02)
}
