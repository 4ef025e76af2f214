package clock

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// delays are distributions of the delay of an arrival, s.
var delays = map[string]func(*rand.Rand) float64{
	"exponential 0.1 ms": expJitter(0.1e-3),
	"exponential 5 ms":   expJitter(5e-3),
	"polled each ms":     uniformJitter(1e-3),
	"polled each 40 ms":  uniformJitter(40e-3),
	"with stalls": func(r *rand.Rand) float64 {
		if r.IntN(20) == 0 {
			return r.Float64() * 3
		}
		return r.ExpFloat64() * 1e-3
	},
	"polled after a queue": func(r *rand.Rand) float64 { return r.ExpFloat64()*1e-3 + r.Float64()*1e-3 },
}

// made returns n pairs of a source clock that runs at the given rate, read at
// random within span seconds.
func made(rng *rand.Rand, n int, span, offset, rate float64, delay func(*rand.Rand) float64) []Pair {
	pairs := make([]Pair, n)
	for i := range pairs {
		x := rng.Float64() * span
		pairs[i] = Pair{x, offset + rate*x + delay(rng)}
	}
	return pairs
}

func mustFit(t testing.TB, pairs []Pair, o Options) *Map {
	t.Helper()
	m, err := Fit(pairs, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spread is the mean and the standard deviation of values.
func spread(values []float64) (mean, sd float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sd += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(sd)
}

// The stated doubt of rate and value is that of 2,000 fits of known clocks,
// for any of the delays and 8 to 5,000 pairs. The mean error of the value is
// not counted: it comes from the smallest delay, which no fit can know, and
// depends on the number of pairs.
func TestDoubtIsHonest(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const bands, perBand = 3, 112
	for name, delay := range delays {
		most := 1.6
		if name == "polled after a queue" {
			most = 2.1 // nothing arrives after the smallest delay
		}
		var values, rates []float64
		for band := range bands {
			var errors []float64
			for range perBand {
				n := int(8 * math.Pow(5000.0/8, (float64(band)+rng.Float64())/bands))
				span := 10 + rng.Float64()*500
				rate := 1 + (rng.Float64()-0.5)*200e-6
				offset := rng.Float64() * 1000
				m := mustFit(t, made(rng, n, span, offset, rate, delay), Options{})
				x := m.from + rng.Float64()*(m.to-m.from)
				y, u, err := m.Host(x)
				if err != nil {
					t.Fatal(err)
				}
				errors = append(errors, min(max((y-offset-rate*x)/u, -10), 10)) // few pairs may lie on one line by chance
				rates = append(rates, (m.Quality().Rate-rate)/m.Quality().URate)
			}
			mean, _ := spread(errors)
			for _, e := range errors {
				values = append(values, e-mean)
			}
		}
		_, value := spread(values)
		mean, rate := spread(rates)
		t.Logf("%-22s error/u of the value %.2f, of the rate %.2f", name, value, rate)
		for _, sd := range []float64{value, rate} {
			if sd < 0.55 || sd > most {
				t.Errorf("%s: the doubt is dishonest", name)
			}
		}
		if math.Abs(mean) > 0.3 {
			t.Errorf("%s: the rate is biased by %.2f u", name, mean)
		}
	}
}

// doubtValue and doubtSlope are what many fits show.
func TestDoubtConstants(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	var values, slopes []float64
	for range 1000 {
		pairs := made(rng, 1000, 1, 0, 1, uniformJitter(1e-3))
		slices.SortFunc(pairs, func(a, b Pair) int { return sign(a.SourceSeconds - b.SourceSeconds) })
		p := fitPiece(pairs, Options{}.withDefaults())
		values = append(values, (p.y-p.x)/p.u)
		slopes = append(slopes, (p.slope-1)/p.uSlope)
	}
	_, value := spread(values)
	_, slope := spread(slopes)
	t.Logf("the constants are right but for factors %.3f and %.3f", value, slope)
	if math.Abs(value-0.74) > 0.12 || math.Abs(slope-1) > 0.15 {
		t.Errorf("the constants are wrong")
	}
}

// A clock that wanders by 1 ppm within the hour is followed for a day.
func TestWanderIsFollowed(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const day, period = 86400.0, 7200.0
	truth := func(x float64) float64 {
		return 7 + x*(1+30e-6) + 1e-6*period/(2*math.Pi)*math.Sin(2*math.Pi*x/period)
	}
	var pairs []Pair
	for x := 0.0; x < day; x += 2 {
		pairs = append(pairs, Pair{x, truth(x) + rng.ExpFloat64()*5e-3})
	}
	m := mustFit(t, pairs, Options{})
	if q := m.Quality(); q.Nodes != 287 || math.Abs(q.PPM-30) > 0.1 || q.Early != 0 {
		t.Errorf("%+v", q)
	}
	var ratios []float64
	worst := 0.0
	for x := 0.0; x < day; x += 17 {
		y, u, err := m.Host(x)
		if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, math.Abs(y-truth(x)))
		ratios = append(ratios, (y-truth(x))/u)
		if back, _, err := m.Source(y); err != nil || math.Abs(back-x) > 1e-9 {
			t.Fatalf("%g s became %g s, %v", x, back, err)
		}
	}
	mean, sd := spread(ratios)
	t.Logf("largest error %.3f ms, error/u %.2f ± %.2f", worst*1e3, mean, sd)
	if worst > 1e-3 || sd > 1.6 {
		t.Errorf("the wander was not followed")
	}
}

// Where a clock bends more than the pieces follow, the doubt says so.
func TestDoubtOfABend(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	truth := func(x float64) float64 { return x + 5e-3*math.Sin(x/600) }
	var pairs []Pair
	for x := 0.0; x < 20_000; x++ {
		pairs = append(pairs, Pair{x, truth(x) + rng.Float64()*1e-6})
	}
	m := mustFit(t, pairs, Options{})
	var ratios []float64
	for x := 1000.0; x < 19_000; x += 10 {
		y, u, err := m.Host(x)
		if err != nil {
			t.Fatal(err)
		}
		ratios = append(ratios, (y-truth(x))/u)
	}
	mean, sd := spread(ratios)
	if rms := math.Hypot(mean, sd); rms > 2 || rms < 0.2 {
		t.Errorf("error/u is %.2f ± %.2f", mean, sd)
	}
}

// Pairs that are too early are thrown out, wherever they are; late ones do no
// harm.
func TestEarlyAndLatePairs(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for name, delay := range delays {
		for _, n := range []int{20, 100, 3000} {
			pairs := made(rng, n, 1000, 3, 1, delay)
			spoilt := n / 20
			for range spoilt {
				i := rng.IntN(n)
				pairs[i].HostSeconds -= 5 + rng.Float64()*1000
				pairs[rng.IntN(n)].HostSeconds += rng.Float64() * 5
			}
			rng.Shuffle(n, func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
			m := mustFit(t, pairs, Options{})
			q := m.Quality()
			if q.Early == 0 || q.Early > spoilt || q.Used+q.Early+q.Duplicates != n {
				t.Errorf("%s, %d pairs: %+v of %d", name, n, q, spoilt)
			}
			y, _, err := m.Host(500)
			if err != nil || math.Abs(y-503) > 0.05 || math.Abs(q.PPM) > 200 {
				t.Errorf("%s, %d pairs: %g s, %g ppm, %v", name, n, y, q.PPM, err)
			}
		}
		honest := made(rng, 2000, 500, 3, 1, delay)
		if q := mustFit(t, honest, Options{}).Quality(); q.Early > 0 {
			t.Errorf("%s: %d pairs thrown out of honest ones", name, q.Early)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		pairs []Pair
		want  error
		text  string
	}{
		"nothing":         {nil, ErrTooFew, ""},
		"one":             {[]Pair{{1, 1}}, ErrTooFew, ""},
		"zero span":       {[]Pair{{1, 1}, {1, 2}}, ErrTooFew, ""},
		"half the rate":   {[]Pair{{0, 0}, {10, 5}}, ErrRate, "nominal rate"},
		"backwards":       {[]Pair{{0, 10}, {10, 0}}, ErrRate, ""},
		"a missed wrap":   {jumping(500, 26.8), ErrRate, "wrap"},
		"not a number":    {[]Pair{{0, 0}, {math.NaN(), 5}}, nil, "epoch"},
		"infinite":        {[]Pair{{0, 0}, {1, math.Inf(1)}}, nil, "epoch"},
		"from an epoch":   {[]Pair{{0, 1.7e9}, {1, 1.7e9}}, nil, "epoch"},
		"less than a ulp": {[]Pair{{0, 0}, {5e-324, 5}}, ErrRate, ""},
	} {
		m, err := Fit(c.pairs, Options{})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// jumping is a clock that jumps half way.
func jumping(n int, jump float64) []Pair {
	pairs := make([]Pair, n)
	for i := range pairs {
		pairs[i] = Pair{float64(2 * i), float64(2 * i)}
		if i > n/2 {
			pairs[i].HostSeconds += jump
		}
	}
	return pairs
}

func TestSpan(t *testing.T) {
	m := mustFit(t, []Pair{{10, 110}, {20, 120}, {110, 210}}, Options{})
	for _, c := range []struct {
		x  float64
		ok bool
	}{{5.1, true}, {4.9, false}, {114.9, true}, {115.1, false}, {math.NaN(), false}, {math.Inf(1), false}} {
		y, u, err := m.Host(c.x)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrSpan) {
			t.Errorf("Host(%g) is %g, %v", c.x, y, err)
		}
		if c.ok && (math.Abs(y-c.x-100) > 1e-9 || !(u > 0)) {
			t.Errorf("Host(%g) is %g ± %g", c.x, y, u)
		}
		if x, _, err := m.Source(c.x + 100); (err == nil) != c.ok || c.ok && math.Abs(x-c.x) > 1e-9 {
			t.Errorf("Source(%g) is %g, %v", c.x+100, x, err)
		}
	}
}

// Two pairs show no delay; it is assumed.
func TestFewPairs(t *testing.T) {
	for _, delay := range []float64{1e-3, 1e-2} {
		q := mustFit(t, []Pair{{0, 0}, {10, 10}}, Options{DelaySeconds: delay}).Quality()
		if want := doubtSlope * delay / 10; q.URate < want/2 || q.URate > want*2 {
			t.Errorf("rate is known to %g, want about %g", q.URate, want)
		}
	}
}

func FuzzFit(f *testing.F) {
	f.Add(uint64(1), uint8(3), 1.0, 0.0, 10.0)
	f.Add(uint64(2), uint8(200), 1.01, 1e8, 1e-3)
	f.Add(uint64(3), uint8(40), 0.98, -5.0, 1e7)
	f.Fuzz(func(t *testing.T, seed uint64, n uint8, rate, offset, span float64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		pairs := made(rng, int(n), span, offset, rate, func(r *rand.Rand) float64 { return r.NormFloat64() * span / 1000 })
		m, err := Fit(pairs, Options{})
		if err != nil {
			return
		}
		q := m.Quality()
		if math.Abs(q.Rate-1) > 0.03 || !(q.URate > 0) || q.Used < 2 || !finite(q.RMSSeconds) {
			t.Fatalf("%+v", q)
		}
		for _, p := range pairs {
			if y, u, err := m.Host(p.SourceSeconds); err == nil && !(finite(y) && u > 0 && finite(u)) {
				t.Fatalf("Host(%g) is %g ± %g", p.SourceSeconds, y, u)
			}
		}
	})
}

func BenchmarkFit(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	pairs := made(rng, 100_000, 40_000, 0, 1, expJitter(5e-3))
	b.ReportAllocs()
	for b.Loop() {
		mustFit(b, pairs, Options{})
	}
}
