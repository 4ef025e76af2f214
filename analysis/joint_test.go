package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/joulemark/joulemark/sync/align"
)

// Sums of AR(1) covariances, term by term.
func TestMeansOfCorrelatedNoise(t *testing.T) {
	for _, keep := range []float64{0, 0.3, 0.9, 0.99} {
		for _, c := range []struct{ n, m, gap int }{{1, 1, 0}, {1, 4, 0}, {7, 3, 2}, {50, 20, 5}} {
			variance, covariance := 0.0, 0.0
			for i := range c.n {
				for k := range c.n {
					variance += math.Pow(keep, math.Abs(float64(i-k))) / float64(c.n*c.n)
				}
				for k := range c.m {
					covariance += math.Pow(keep, float64(c.n-i+c.gap+k)) / float64(c.n*c.m)
				}
			}
			near(t, "variance", meanVariance(keep, float64(c.n)), variance, 1e-9)
			got := meanCovariance(keep, float64(c.n), float64(c.m), float64(c.gap))
			near(t, "covariance", got, covariance, 1e-9)
		}
	}
}

func TestBootstrap(t *testing.T) {
	const seed, m, trials = 20260203, 24, 300
	r := rand.New(rand.NewPCG(seed, 0))
	for _, keep := range []float64{0, 0.3} {
		square, estimate := 0.0, 0.0
		for range trials {
			y, n := make([]float64, m), make([]float64, m)
			last := r.NormFloat64()
			for i := range y {
				last = keep*last + math.Sqrt(1-keep*keep)*r.NormFloat64()
				y[i], n[i] = last, 10
			}
			u := bootstrap(y, n)
			if u != bootstrap(y, n) {
				t.Fatal("the same windows gave two answers")
			}
			estimate += u * u
			square += math.Pow(sum(y)/sum(n), 2)
		}
		// Blocks see what neighbours share, but for what lies at their ends.
		near(t, "variance", estimate, square, 0.2+keep/2)
		if independent := trials / 100.0 / m; keep > 0 && estimate < 1.15*independent {
			t.Errorf("seed %d: neighbours that resemble each other count as independent: %g, %g", seed, estimate, independent)
		}
	}
}

// A ramp of 40 ms has its centroid in its middle.
func TestResponseArea(t *testing.T) {
	var ramp align.Fold
	for k := -100; k <= 100; k++ {
		x := float64(k) * 1e-3
		ramp.Seconds = append(ramp.Seconds, x)
		ramp.Level = append(ramp.Level, math.Min(math.Max(0.5+x/0.04, 0), 1))
	}
	r := newResponse(ramp, 0.03, 0.05)
	for _, c := range []struct{ a, b, area float64 }{
		{-1, -0.03, 0}, {-1, 0, 0.02 * 0.5 / 2}, {-1, 0.05, 0.05}, {0.05, 2, 1.95}, {-0.01, 0.01, 0.01},
	} {
		if got := r.between(c.a, c.b); math.Abs(got-c.area) > 1e-9 {
			t.Errorf("from %g to %g s: %g, want %g", c.a, c.b, got, c.area)
		}
	}
	// Without a fold the response is a step.
	if got := newResponse(align.Fold{}, 0.03, 0.05).between(-1, 0.5); got != 0.5 {
		t.Errorf("a step has the area %g", got)
	}
}

func TestJointAgreement(t *testing.T) {
	pulses := func(off float64) *group {
		g := &group{}
		for i := range 8 {
			noise := 0.001 * float64(i/4*2-1)
			g.pulses = append(g.pulses, pulse{net: 10, jointWatts: 5 * (1 + off + noise), seconds: 2})
			g.n = append(g.n, 5)
		}
		return g
	}
	for _, c := range []struct {
		off, half float64
		agrees    bool
	}{{0, 0.001, true}, {0.01, 0.001, false}, {0.01, 0.1, true}, {0.0002, 0.0001, true}} {
		j := pulses(c.off).joint(newQuantity(2, c.half/2.3, 7, 0, nil))
		if j.Agrees != c.agrees || (j.warning(valueOnly(2)) == "") != c.agrees {
			t.Errorf("off by %g with a half width of %g: %+v", c.off, c.half, j)
		}
		near(t, "value", float64(j.Value), 2*(1+c.off), 1e-9)
		if math.Abs(float64(j.Difference)-2*c.off) > 1e-9 {
			t.Errorf("difference %g, want %g", j.Difference, 2*c.off)
		}
	}
	g := pulses(0)
	for i := range 6 {
		g.pulses[i].jointWatts = math.NaN()
	}
	if j := g.joint(valueOnly(2)); j != nil {
		t.Errorf("two windows were compared: %+v", j)
	}
}
