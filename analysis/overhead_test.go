package analysis

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

func TestStrata(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want [][]int
	}{
		{[]float64{5, 5, 5, 5}, [][]int{{0, 1, 2, 3}}},
		{[]float64{20, 5, 20, 5}, [][]int{{1, 3}, {0, 2}}},
		{[]float64{5, 7, 5, 7}, [][]int{{0, 2, 1, 3}}},                 // less than 1.5 apart
		{[]float64{5, 20, 20, 20}, [][]int{{0, 1, 2, 3}}},              // a single short one
		{[]float64{1, 1, 2, 2, 20, 20}, [][]int{{0, 1, 2, 3}, {4, 5}}}, // the widest gap
		{[]float64{3}, [][]int{{0}}},
	} {
		if got := strata(c.x); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %v, not %v", c.x, got, c.want)
		}
	}
}

// What a window costs beside its operations is no scatter between windows of
// two lengths.
func TestPoolInStrata(t *testing.T) {
	// 1 J a window, 2 J an operation, ± 0.1 J.
	x := []float64{1, 1, 4, 4}
	y := []float64{3.1, 2.9, 9.1, 8.9}
	p := pool(y, x, strata(x))
	near(t, "value", p.value, 2.4, 1e-12)
	// Each stratum's sum has a variance of 2 x 0.02.
	near(t, "scatter", p.scatter, math.Sqrt(0.08)/10, 1e-9)
	near(t, "degrees of freedom", p.dof, 2, 1e-9)
	if one := pool(y, x, [][]int{{0, 1, 2, 3}}); one.scatter < 2*p.scatter {
		t.Errorf("without strata the scatter is %g: the test says nothing", one.scatter)
	}
}

// windowed is a group of windows of counts n that cost c J and 1 J an
// operation, with scatter sd.
func windowed(r *rand.Rand, alg, op string, c, sd float64, n ...float64) *group {
	g := &group{key: groupKey{alg: alg, op: op, idle: "wfi"}}
	for _, k := range n {
		e := c + k + sd*r.NormFloat64()
		g.pulses = append(g.pulses, pulse{net: e, gross: e + k, netCoulomb: e / 5, netWebers: -e})
		g.n = append(g.n, k)
		g.count += int64(k)
	}
	return g
}

func TestContrast(t *testing.T) {
	r := rand.New(rand.NewPCG(20260310, 0))
	g := windowed(r, "ML-KEM-768", "encaps", 0.5, 0, 10, 40, 10, 40)
	c, ok := newContrast(g, g.energies(Local))
	if !ok {
		t.Fatal("windows of two lengths show no overhead")
	}
	near(t, "overhead", c.value, 0.5, 1e-9)
	near(t, "per operation", c.perOp, 1, 1e-9)
	near(t, "sum of the weights", sum(c.weights), 1, 1e-12)
	if _, ok := newContrast(windowed(r, "Ed25519", "sign", 0.5, 0, 10, 12, 10, 12), []float64{1, 2, 3, 4}); ok {
		t.Error("windows of one length show an overhead")
	}
	empty := windowed(r, "empty", "run", -0.5, 0, 1, 1, 1)
	if c, ok = newContrast(empty, empty.energies(Local)); !ok {
		t.Fatal("empty windows show no overhead")
	}
	near(t, "overhead of empty windows", c.value, 0.5, 1e-9)
	many := windowed(r, "empty", "run", 0.5, 0, 1000, 1000, 1000)
	if _, ok := newContrast(many, many.energies(Local)); ok {
		t.Error("a thousand empty calls are not all overhead")
	}
}

func TestOverheads(t *testing.T) {
	r := rand.New(rand.NewPCG(20260311, 0))
	two := []float64{10, 40, 10, 40, 10, 40, 10, 40}
	verify := windowed(r, "ML-DSA-44", "verify", 0.5, 0.01, two...)
	sign := windowed(r, "ML-DSA-44", "sign", 0.5, 1, two...)
	slow := windowed(r, "SLH-DSA-SHA2-128f", "sign", 0.5, 0.01, 1, 1, 1)
	of, notes := overheads([]*group{verify, sign, slow}, Local)
	if len(notes) > 0 || of[verify] == nil || of[verify] != of[slow] || len(of[sign].contrasts) != 1 {
		t.Fatalf("not one overhead of the even operations for all: %v, %v", of, notes)
	}
	q := of[slow].quantity(accuracy{Accuracy: meters.Accuracy{Exact: true}})
	if !(q.Lo95 <= 0.5 && 0.5 <= q.Hi95) || q.Hi95-q.Lo95 > 0.1 {
		t.Errorf("overhead %+v, not 0.5", q)
	}
	other := windowed(r, "Ed25519", "sign", 5, 0.01, two...)
	of, notes = overheads([]*group{verify, other, slow}, Local)
	if len(notes) != 1 || !strings.Contains(notes[0], "differs between operations") || of[slow] != nil {
		t.Fatalf("unlike overheads are one: %v, %v", of, notes)
	}
	near(t, "an overhead of its own", of[other].value, 5, 0.02)
	other.key.idle = "spin"
	if of, notes = overheads([]*group{verify, other}, Local); len(notes) > 0 || of[verify] == of[other] {
		t.Errorf("overheads over two idle modes are one: %v, %v", of, notes)
	}
}

// Overhead, and energy per operation without it, hold the truth as often as
// they say, for operations that gave the overhead and for one that did not.
func TestOverheadSubtractedCoverage(t *testing.T) {
	const seed = 20260312
	r := rand.New(rand.NewPCG(seed, 0))
	held := map[string]int{}
	runs, disagreed := 5**draws, 0
	for range runs {
		two := []float64{10, 40, 10, 40, 10, 40, 10, 40}
		a := windowed(r, "Ed25519", "sign", 0.5, 0.05, two...)
		b := windowed(r, "Ed25519", "verify", 0.5, 0.1, two...)
		one := windowed(r, "SLH-DSA-SHA2-128f", "sign", 0.5, 0.02, 1, 1, 1, 1, 1)
		of, notes := overheads([]*group{a, b, one}, Local)
		if len(notes) > 0 {
			disagreed++
			continue
		}
		count := func(what string, q Quantity, truth Num) {
			if q.Lo95Repeat <= truth && truth <= q.Hi95Repeat {
				held[what]++
			}
		}
		count("overhead", of[a].quantity(accuracy{Accuracy: meters.Accuracy{Exact: true}}), 0.5)
		for what, g := range map[string]*group{"one of two that show it": a, "one that does not": one} {
			y := g.energies(Local)
			p, others := of[g].subtracted(g, y, g.n, y)
			count(what, newQuantity(p.value, p.scatter, p.dof, 0, nil), 1)
			if others > p.scatter || g == one && others == 0 {
				t.Fatalf("doubt from the others is %g of %g", others, p.scatter)
			}
		}
	}
	for what, n := range held {
		if c := float64(n) / float64(runs-disagreed); c < 0.935 || c > 0.967 {
			t.Errorf("seed %d: %s: %.2f %% hold the truth", seed, what, 100*c)
		}
	}
	if float64(disagreed) > 0.005*float64(runs) {
		t.Errorf("seed %d: %d of %d say that equal overheads differ", seed, disagreed, runs)
	}
	if len(held) != 3 {
		t.Errorf("%d quantities", len(held))
	}
}

// With its own overhead subtracted, an operation costs the slope between its
// two lengths, with the slope's doubt.
func TestSubtractedIsTheSlope(t *testing.T) {
	r := rand.New(rand.NewPCG(20260313, 0))
	g := windowed(r, "Ed25519", "sign", 0.5, 0.1, 10, 40, 10, 40, 10, 40)
	y := g.energies(Local)
	c, _ := newContrast(g, y)
	p, others := newOverhead(c).subtracted(g, y, g.n, y)
	near(t, "slope", p.value, c.perOp, 1e-9)
	z := []float64{y[0], y[2], y[4], -y[1], -y[3], -y[5]}
	u, _ := welch(within(z, [][]int{{0, 1, 2}, {3, 4, 5}}))
	near(t, "its doubt", p.scatter, u/3/30, 1e-9)
	if others != 0 {
		t.Errorf("doubt of others: %g", others)
	}
}
