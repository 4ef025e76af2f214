package analysis

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// randomLength reports the operations whose length is random by design: rejection
// sampling (FIPS 204, 3.3; Falcon's key generation and signing loops).
func randomLength(alg, op string) bool {
	switch {
	case strings.HasPrefix(alg, "ML-DSA-"):
		return op == "sign"
	case strings.HasPrefix(alg, "Falcon-"):
		return op == "sign" || op == "keygen"
	case strings.HasPrefix(alg, "RSA-"):
		return op == "keygen"
	}
	return false
}

// How many operations of random length carry which interval. The tries of an
// operation are geometric (CV < 1, skewness 2), so that the mean over N of them
// has a skewness of 2/sqrt(N), and low means come with low scatter: the two
// sides of a symmetric interval are missed unequally, and together too often.
// The logarithm of the mean is all but symmetric. TestSkewedCoverage draws the
// region.
const (
	// manyRandomOps are enough for the pooled mean to be normal.
	manyRandomOps = 100
	// fewestRandomOps, in windows of fewestRandomOpsInWindow or more, carry an
	// interval on the logarithm.
	fewestRandomOps         = 20
	fewestRandomOpsInWindow = 4
	// mostRandomScatter is how many times the scatter that random lengths alone
	// can cause (a CV of 1) may be found: what is more is of another nature.
	mostRandomScatter = 3
)

// skewed reports whether the energy per operation of g, of the given value and
// scatter, needs the interval on the logarithm, or why its windows cannot carry
// any.
func (g *group) skewed(p pooled) (bool, error) {
	if !randomLength(g.key.alg, g.key.op) || g.count >= manyRandomOps || len(g.pulses) < 2 {
		return false, nil
	}
	if g.count < fewestRandomOps || g.count < int64(fewestRandomOpsInWindow*len(g.pulses)) {
		return false, fmt.Errorf("%d operations of random length in %d windows cannot carry an interval; need %d, or %d in windows of %d or more",
			g.count, len(g.pulses), manyRandomOps, fewestRandomOps, fewestRandomOpsInWindow)
	}
	if !(p.scatter*math.Sqrt(float64(g.count)) <= mostRandomScatter*p.value) {
		return false, fmt.Errorf("%d operations scatter by more than random lengths explain: they cannot carry an interval; need %d", g.count, manyRandomOps)
	}
	return true, nil
}

// skewedQuantiles returns how far below and above value an interval reaches
// whose logarithm follows Student's t with the relative standard uncertainty
// u/value, widened by rectangular limits as in quantile.
func skewedQuantiles(value, u, dof float64, limits []float64) (down, up float64) {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}
	q := t.Quantile((1+level)/2) * u / value
	below := func(x, u float64) float64 {
		if x <= -value {
			return 0
		}
		return t.CDF(math.Log1p(x/value) * value / u)
	}
	down = upper(-value*math.Expm1(-q), u, limits, func(x, u float64) float64 { return 1 - below(-x, u) })
	up = upper(value*math.Expm1(q), u, limits, below)
	return down, up
}
