package target

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Every latency falls into a step whose middle is within 0.4 % of it.
func TestSteps(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draws := rand.New(rand.NewPCG(seed, 0))
	values := []int64{0, 1, 127, 128, 255, 256, 257, 511, 512, 1e9, math.MaxInt64 - 1, math.MaxInt64}
	for range 10_000 {
		values = append(values, draws.Int64()>>draws.IntN(63))
	}
	for _, ns := range values {
		if got := middle(step(ns)); math.Abs(got-float64(ns)) > float64(ns)/256 {
			t.Fatalf("%d ns is counted as %g ns", ns, got)
		}
	}
}

func TestLatencies(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draws := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 2, 3, 100, 5000} {
		var l latencies
		var all []float64
		for range n {
			ns := 250_000 + int64(draws.ExpFloat64()*1e6)
			l.add(ns)
			all = append(all, float64(ns))
		}
		slices.Sort(all)
		sum, squares := 0.0, 0.0
		for _, v := range all {
			sum += v
		}
		mean := sum / float64(n)
		for _, v := range all {
			squares += (v - mean) * (v - mean)
		}
		got := l.statement(3)
		at := func(q float64) float64 { return all[int(math.Ceil(q*float64(n)))-1] }
		for _, v := range []struct {
			name      string
			got, want float64
			tolerance float64
		}{
			{"min", got.Min, all[0], 0}, {"max", got.Max, all[n-1], 0}, {"mean", got.Mean, mean, 1e-9},
			{"sd", got.SD, math.Sqrt(squares / float64(max(1, n-1))), 1e-6},
			{"p50", got.P50, at(0.5), 1.0 / 256}, {"p95", got.P95, at(0.95), 1.0 / 256},
		} {
			if math.Abs(v.got-v.want) > v.tolerance*v.want+1e-6 {
				t.Errorf("of %d: %s is %g, want %g", n, v.name, v.got, v.want)
			}
		}
		if got.W != 3 || got.N != int64(n) || got.Min > got.P50 || got.P50 > got.P95 || got.P95 > got.Max {
			t.Errorf("%+v", got)
		}
	}
}
