package analysis

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if !(math.Abs(got-want) <= rel*math.Abs(want)) {
		t.Errorf("%s is %.6g, want %.6g within %g", what, got, want, rel)
	}
}

// The published answers of JCGM 101:2008, 9.2: sums of rectangular variables.
func TestQuantileOfRectangles(t *testing.T) {
	sd := math.Sqrt(3) // half width of a rectangle of standard deviation 1
	for _, c := range []struct {
		name   string
		limits []float64
		want   float64
		rel    float64
	}{
		{"one rectangle: 95 % of its half width", []float64{2}, 1.9, 0.005},
		{"two equal ones: a triangle", []float64{1, 1}, 2 * (1 - math.Sqrt(0.05)), 0.005},
		{"JCGM 101 9.2.3: four of standard deviation 1", []float64{sd, sd, sd, sd}, 3.88, 0.003},
		{"JCGM 101 9.2.4: one of 10 and three of 1", []float64{sd, sd, sd, 10 * sd}, 17.0, 0.003},
	} {
		near(t, c.name, quantile(0, 10, c.limits), c.want, c.rel)
		// A negligible scatter changes nothing.
		near(t, c.name+", with scatter", quantile(1e-4, 10, c.limits), c.want, c.rel)
	}
}

// Student's t and rectangles, against drawing (JCGM 101:2008, 7).
func TestQuantileAgainstDraws(t *testing.T) {
	const seed, draws = 20260101, 400_000
	r := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct {
		u, dof float64
		limits []float64
	}{
		{1, 6, []float64{1}}, {1, 3, []float64{2, 2}}, {0.2, 4, []float64{1, 0.5}}, {1, 1e6, []float64{0.1}}, {1, 2, nil},
	} {
		h := quantile(c.u, c.dof, c.limits)
		in := 0
		for range draws {
			// t is a normal over the root of a chi-square over its freedom.
			x := c.u * r.NormFloat64()
			if c.dof < 1000 {
				chi := 0.0
				for range int(c.dof) {
					z := r.NormFloat64()
					chi += z * z
				}
				x /= math.Sqrt(chi / c.dof)
			}
			for _, a := range c.limits {
				x += a * (2*r.Float64() - 1)
			}
			if math.Abs(x) <= h {
				in++
			}
		}
		near(t, "coverage", float64(in)/draws, 0.95, 0.0015)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

func TestPoolIsTheMeanForEqualWindows(t *testing.T) {
	y := []float64{10, 12, 11, 13, 9}
	x := []float64{2, 2, 2, 2, 2}
	p := pool(y, x, strata(x))
	near(t, "value", p.value, 5.5, 1e-12)
	// s = 1.5811, standard error of the mean = s/sqrt(5), per 2 operations.
	near(t, "scatter", p.scatter, math.Sqrt(2.5/5)/2, 1e-12)
	if p.dof != 4 {
		t.Errorf("degrees of freedom %v", p.dof)
	}
	q := newQuantity(p.value, p.scatter, p.dof, 0, []float64{})
	near(t, "half width", float64(q.Hi95-q.Value), 2.77645*p.scatter, 1e-4)
	if q.Hi95 != q.Hi95Repeat || q.U != q.URepeat {
		t.Error("with an exact meter the total interval is not the repeatability interval")
	}
}

func TestUnstatedIsNull(t *testing.T) {
	b, err := json.Marshal(newQuantity(1, math.NaN(), 0, 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"value":1,"u":null,"lo95":null,"hi95":null,"u_repeat":null,"dof_repeat":null,"lo95_repeat":null,"hi95_repeat":null,"u_shared":null}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	var q Quantity
	if err := json.Unmarshal(b, &q); err != nil || q.U.Stated() {
		t.Errorf("null came back as %v, %v", q.U, err)
	}
}

func operation(op string, value, u, dof float64, limits []limit) Operation {
	var lim []float64
	if limits != nil {
		lim = []float64{}
		for _, l := range limits {
			lim = append(lim, l.half)
		}
	}
	return Operation{Alg: "X", Op: op, Net: newQuantity(value, u, dof, 0, lim), limits: limits}
}

func TestRatio(t *testing.T) {
	gain := func(v float64) []limit { return []limit{{name: "meter gain, volts", half: 0.005 * v}} }
	a, b := operation("sign", 6, 0.06, 10, gain(6)), operation("sign", 2, 0.02, 10, gain(2))
	q, err := Ratio(a, b, true)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "ratio", float64(q.Value), 3, 1e-12)
	near(t, "u", float64(q.URepeat), 3*math.Hypot(0.01, 0.01), 1e-9)
	near(t, "total half width on one meter", float64(q.Hi95-q.Lo95), float64(q.Hi95Repeat-q.Lo95Repeat), 1e-6)
	two, _ := Ratio(a, b, false)
	if two.Hi95-two.Lo95 <= 1.02*(q.Hi95-q.Lo95) {
		t.Errorf("gains of two meters do not widen the interval: %v against %v", two, q)
	}
	if _, err := Ratio(a, operation("verify", 1, 0.1, 5, nil), true); err == nil {
		t.Error("sign was compared with verify")
	}
	// A divisor that is not told from 0 leaves the ratio unbounded.
	q, err = Ratio(a, operation("sign", 0.01, 0.02, 4, nil), true)
	if err != nil || q.Lo95Repeat.Stated() || q.Hi95.Stated() {
		t.Errorf("unbounded ratio has an interval: %+v, %v", q, err)
	}
}

// Fieller's interval holds the true ratio as often as it says, also where the
// divisor is known to 20 % only.
func TestRatioCoverage(t *testing.T) {
	const seed, campaigns, m = 20260102, 4000, 8
	r := rand.New(rand.NewPCG(seed, 0))
	for _, rel := range []float64{0.01, 0.2, 0.6} {
		in, stated := 0, 0
		for range campaigns {
			draw := func(mean float64) Operation {
				y, x := make([]float64, m), make([]float64, m)
				for i := range y {
					y[i], x[i] = mean*(1+rel*r.NormFloat64()), 1
				}
				p := pool(y, x, strata(x))
				return operation("sign", p.value, p.scatter, p.dof, nil)
			}
			q, err := Ratio(draw(3), draw(2), true)
			if err != nil {
				t.Fatal(err)
			}
			if q.Lo95Repeat.Stated() {
				stated++
				if q.Lo95Repeat <= 1.5 && 1.5 <= q.Hi95Repeat {
					in++
				}
			}
		}
		if c := float64(in) / float64(stated); c < 0.94 || c > 0.975 {
			t.Errorf("seed %d: relative scatter %g: %.1f %% of %d intervals hold the ratio", seed, rel, 100*c, stated)
		}
	}
}
