package align

import (
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// batches yields power as batches of random length.
func batches(r *rand.Rand, watts []float64) iter.Seq2[*run.Batch, error] {
	return func(yield func(*run.Batch, error) bool) {
		for row := 0; row < len(watts); {
			n := min(1+r.IntN(300), len(watts)-row)
			b := &run.Batch{Segment: 1, Row: int64(row), Rows: n, Columns: map[string][]float64{meters.Watts: watts[row : row+n]}}
			if !yield(b, nil) {
				return
			}
			row += n
		}
	}
}

// integral sums samples over [from, to), straddling ones in proportion, of
// which the one at index i stands at place(i).
func integral(watts []float64, period float64, place func(i int) int, from, to float64) (joules, seconds float64) {
	for i, w := range watts {
		a := float64(place(i)) * period
		part := math.Min(to, a+period) - math.Max(from, a)
		if part > 0 && !math.IsNaN(w) {
			joules += w * part
			seconds += part
		}
	}
	return joules, seconds
}

func TestTraceAgainstSums(t *testing.T) {
	const seed, rate = 20260104, 100.0
	r := rand.New(rand.NewPCG(seed, 0))
	watts := make([]float64, 5000)
	for i := range watts {
		watts[i] = 1 + r.Float64()
		if r.IntN(50) == 0 {
			watts[i] = math.NaN()
		}
	}
	lost := []hole{{400, 4}, {401, 8}, {2000, 100}}
	place := func(i int) int {
		at := i
		for _, h := range lost {
			if int64(i) >= h.row {
				at += int(h.rows)
			}
		}
		return at
	}
	near := []span{{3, 6}, {1, 2}, {5, 8}, {19, 23}, {49, 60}}
	exact := []float64{4.123456, 40.5, 21.0001}
	tr := newTrace(meters.Info{RateHz: rate}, near, exact)
	if err := tr.fill(batches(r, watts), 1, lost); err != nil {
		t.Fatal(err)
	}
	check := func(from, to float64) {
		t.Helper()
		got := tr.between(span{from, to})
		joules, seconds := integral(watts, 1/rate, place, from, to)
		if math.Abs(got.joules-joules) > 1e-9 || math.Abs(got.seconds-seconds) > 1e-9 {
			t.Errorf("seed %d: %g to %g: %.9f J in %.6f s, want %.9f J in %.6f s", seed, from, to, got.joules, got.seconds, joules, seconds)
		}
	}
	check(4.123456, 40.5)
	check(21.0001, 40.5)
	check(1.5, 50.37)
	for range 500 {
		a, b := near[r.IntN(len(near))], near[r.IntN(len(near))]
		from, to := a.from+r.Float64()*a.length(), b.from+r.Float64()*b.length()
		if to > from && to < 51 {
			check(from, to)
		}
	}
	if want := 5000.0/rate + 1.12; math.Abs(tr.end-want) > 1e-9 {
		t.Errorf("ends at %g s, want %g s", tr.end, want)
	}
	if len(tr.x) > 2500 {
		t.Errorf("%d knots for %d samples", len(tr.x), len(watts))
	}
}

// Samples that carry times hold until the next, but no longer than a gap.
func TestTraceOfTimedSamples(t *testing.T) {
	times := []int64{0, 1e9, 2e9, 3e9, 10e9, 11e9, 11_500_000_000}
	watts := []float64{1, 2, 3, 4, 5, math.NaN(), 7}
	b := &run.Batch{Segment: 1, Rows: len(times), TimesNs: times, Columns: map[string][]float64{meters.Watts: watts}}
	tr := newTrace(meters.Info{}, []span{{0, 13}}, nil)
	err := tr.fill(func(yield func(*run.Batch, error) bool) { yield(b, nil) }, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, joules, seconds float64 }{
		{0, 4, 10, 4},    // 1+2+3+4
		{4, 10, 0, 0},    // the last one before the gap holds for a typical second
		{10, 11, 5, 1},   //
		{11, 11.5, 0, 0}, // not measured
		{0.5, 1.5, 1.5, 1},
		{11.5, 12.5, 7, 1},
	} {
		got := tr.between(span{c.from, c.to})
		if math.Abs(got.joules-c.joules) > 1e-9 || math.Abs(got.seconds-c.seconds) > 1e-9 {
			t.Errorf("%g to %g s: %g J in %g s, want %g J in %g s", c.from, c.to, got.joules, got.seconds, c.joules, c.seconds)
		}
	}
	b.TimesNs = []int64{0, 2e9, 1e9, 3e9, 4e9, 5e9, 6e9}
	if err := newTrace(meters.Info{}, nil, nil).fill(func(yield func(*run.Batch, error) bool) { yield(b, nil) }, 1, nil); err == nil {
		t.Error("time that steps back was taken")
	}
}

// Means over unequal times keep their whole energy, however long they are, and
// long ones are known by their place; points do not stand for a gap.
func TestTraceOfUnequalMeans(t *testing.T) {
	const seed = 20261130
	r := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range []meters.SampleKind{meters.Mean, meters.Point} {
		var at []float64
		b := &run.Batch{Segment: 1, Columns: map[string][]float64{}}
		for x := 0.0; x < 20; x += 0.01 * (0.1 + r.ExpFloat64()) {
			if r.IntN(100) == 0 {
				x += 0.2
			}
			at = append(at, x)
			b.TimesNs = append(b.TimesNs, int64(x*1e9))
			b.Columns[meters.Watts] = append(b.Columns[meters.Watts], 1+r.Float64())
		}
		b.Rows = len(at)
		tr := newTrace(meters.Info{Sample: kind}, []span{{0, 20}}, nil)
		err := tr.fill(func(yield func(*run.Batch, error) bool) { yield(b, nil) }, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			from := 2 + 17*r.Float64() // what is typical is known by then
			to := from + (19-from)*r.Float64()
			joules, seconds := 0.0, 0.0
			for i, w := range b.Columns[meters.Watts][:len(at)-1] {
				end := at[i+1]
				if kind == meters.Point && end-at[i] > maxHold*tr.period {
					end = at[i] + tr.period
				}
				if part := math.Min(to, end) - math.Max(from, at[i]); part > 0 {
					joules += w * part
					seconds += part
				}
			}
			got := tr.between(span{from, to})
			if math.Abs(got.joules-joules) > 2e-3 || math.Abs(got.seconds-seconds) > 2e-3 {
				t.Fatalf("%s, seed %d, from %g to %g s: %+v, want %g J in %g s", kind, seed, from, to, got, joules, seconds)
			}
		}
		for i := range at[typicalAfter : len(at)-1] {
			i += typicalAfter // before, what is typical is not known
			mid := (at[i] + at[i+1]) / 2
			s := tr.sample(mid)
			long := at[i+1]-at[i] > longHold*tr.period*1.2
			gap := kind == meters.Point && at[i+1]-at[i] > maxHold*tr.period
			if !gap && long && math.Abs(s.length()-at[i+1]+at[i]) > 1e-6 || gap && s.length() != 0 {
				t.Fatalf("%s, seed %d: sample from %g to %g s is seen as %+v", kind, seed, at[i], at[i+1], s)
			}
		}
	}
}
