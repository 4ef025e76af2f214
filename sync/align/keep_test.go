package align

import (
	"math"
	"math/rand/v2"
	"testing"
)

// still makes stretches of n values each.
func still(count, n int, value func(place int) float64) []stretch {
	out := make([]stretch, count)
	for k := range out {
		out[k] = stretch{place: int64(k * 1000), from: float64(k * 1000), period: 1, watts: make([]float64, n)}
		for i := range n {
			out[k].watts[i] = value(k*1000 + i)
		}
	}
	return out
}

// TestFindHold: any hold of any phase is found, and chance is taken for none.
func TestFindHold(t *testing.T) {
	const seed = 1
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	conversions := map[int]float64{}
	at := func(k int) float64 {
		v, ok := conversions[k]
		if !ok {
			v = rnd.NormFloat64()
			conversions[k] = v
		}
		return v
	}
	for every := 2; every <= longestHold; every++ {
		phase := rnd.IntN(every)
		repeats := still(20, 200, func(place int) float64 { return at((place - phase + every) / every) })
		if h := findHold(repeats); h.values != Repeated || math.Abs(h.samples-float64(every)) > 0.01*float64(every) {
			t.Errorf("repeats of %d, phase %d: %+v", every, phase, h)
		}
		lines := still(20, 200, func(place int) float64 {
			k, f := (place-phase+every)/every, float64((place-phase+every)%every)/float64(every)
			return at(k)*(1-f) + at(k+1)*f
		})
		if h := findHold(lines); h.values != Interpolated || h.every != int64(every) || h.phase != int64(phase) {
			t.Errorf("lines over %d, phase %d: %+v", every, phase, h)
		}
		// Counts as coarse as a fifth of the noise do not hide the lines.
		for _, s := range lines {
			for i, w := range s.watts {
				s.watts[i] = math.Round(w*5) / 5
			}
		}
		if h := findHold(lines); every <= 4 && h.values != Interpolated {
			t.Errorf("coarse lines over %d: %+v", every, h)
		}
	}
	for _, count := range []float64{0, 0.5, 1, 2, 4, 8} {
		noise := still(20, 200, func(int) float64 {
			w := rnd.NormFloat64()
			if count > 0 {
				w = math.Round(w/count) * count
			}
			return w
		})
		if h := findHold(noise); h.values != Independent {
			t.Errorf("noise in counts of %g of it: %+v", count, h)
		}
	}
}

func TestNoise(t *testing.T) {
	const seed = 2
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for _, r := range []float64{0, 0.5, 0.9} {
		last := 0.0
		v := still(60, 250, func(place int) float64 {
			last = r*last + math.Sqrt(1-r*r)*rnd.NormFloat64()
			return 7 + 0.01*float64(place%1000) + 2*last // a slope is no noise
		})
		factor, sd, lag1 := noise(v)
		if want := (1 + r) / (1 - r); math.Abs(factor-want) > 0.2*want {
			t.Errorf("correlation %g: %.2f values amount to one, not %.2f", r, factor, want)
		}
		if math.Abs(sd-2) > 0.1 || math.Abs(lag1-r) > 0.03 {
			t.Errorf("correlation %g: standard deviation %.3f, correlation %.3f", r, sd, lag1)
		}
	}
	if factor, sd, lag1 := noise(still(10, 100, func(int) float64 { return 0.1 })); factor != 1 || sd != 0 || lag1 != 0 {
		t.Errorf("no noise: %g, %g, %g", factor, sd, lag1)
	}
}

// TestKeeperIsBounded: memory does not grow with windows, their length or the
// rate.
func TestKeeperIsBounded(t *testing.T) {
	for _, period := range []float64{1e-5, 1e-3, 0.01, 1} {
		line := &Timeline{}
		x := 0.0
		for range 2000 {
			line.Quiet = append(line.Quiet, Quiet{From: x, To: x + 3000*period})
			line.Windows = append(line.Windows, Window{From: x + 3000*period, To: x + 9000*period})
			x += 9000 * period
		}
		k := newKeeper(line.keep(0, period))
		most := 0
		margin := (plausibleTo - plausibleFrom) / period // samples, beside each span
		for _, s := range k.spans {
			most += int(math.Ceil(s.length() / period))
		}
		if limit := keptStretches * (idleSamples + edgeSamples + 2*int(margin) + 4); most > limit || most == 0 {
			t.Errorf("period %g s: up to %d samples are kept, more than %d", period, most, limit)
		}
	}
}

func FuzzCharacter(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 9, 9, 9, 9, 3, 3, 3, 3}, uint8(0))
	f.Add([]byte{0, 1, 2, 3, 4, 3, 2, 1, 0, 255}, uint8(3))
	f.Add([]byte{}, uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, place uint8) {
		v := make([]float64, len(data))
		for i, b := range data {
			v[i] = float64(b)
		}
		s := []stretch{{place: int64(place), period: 0.01, watts: v}}
		h := findHold(s)
		if !(h.samples >= 1) || h.every < 0 || h.phase < 0 {
			t.Fatalf("%+v", h)
		}
		factor, sd, _ := noise(h.conversions(s))
		if factor < 1 || sd < 0 {
			t.Fatalf("factor %g, sd %g", factor, sd)
		}
	})
}
