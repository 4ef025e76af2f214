package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// testMeter reads (1 + gain) x + offset of a value x, bent by curve.
type testMeter struct{ gain, offset, curve float64 }

func (m testMeter) read(x float64) float64 { return (1+m.gain)*x + m.offset + m.curve*x*(1-x) }

// points measures values with noise, against a reference that is off within
// its limit, the same way each time.
func (m testMeter) points(values []float64, noise float64, reference meters.Limit, draws *rand.Rand) []Point {
	rect := func() float64 { return 2*draws.Float64() - 1 }
	gain, offset := reference.Gain*rect(), reference.Offset*rect()
	var ps []Point
	for _, x := range values {
		ps = append(ps, Point{Reading: m.read(x) + noise*draws.NormFloat64(), UReading: noise, Value: (1+gain)*x + offset, Limit: reference})
	}
	return ps
}

func random(draws *rand.Rand) testMeter {
	rect := func() float64 { return 2*draws.Float64() - 1 }
	return testMeter{gain: 0.01 * rect(), offset: 2e-3 * rect()}
}

// halfWidths remembers half widths of intervals, which take long: those of like
// uncertainties are alike.
type halfWidths map[string]float64

// hold returns 1 if the interval around a value holds the truth.
func (h halfWidths) hold(value, truth, u float64, limits ...float64) int {
	key := fmt.Sprintf("%.2g %.2g", u, limits)
	half, ok := h[key]
	if !ok {
		half = quantile(u, 100, limits)
		h[key] = half
	}
	if math.Abs(value-truth) <= half {
		return 1
	}
	return 0
}

// TestFitHoldsTheTruth draws meters, references and noise.
func TestFitHoldsTheTruth(t *testing.T) {
	campaigns := max(1000, *draws)
	for _, c := range []struct {
		name      string
		values    []float64
		noise     float64
		reference meters.Limit
	}{
		{"two points, noise", []float64{0, 1}, 1e-4, meters.Limit{}},
		{"two points, reference", []float64{0.05, 0.5}, 1e-6, meters.Limit{Gain: 1e-3, Offset: 1e-4}},
		{"five points, both", []float64{0, 0.1, 0.3, 0.6, 1}, 1e-4, meters.Limit{Gain: 2e-4, Offset: 1e-4}},
		{"three points, both", []float64{0.1, 0.2, 0.4}, 5e-5, meters.Limit{Gain: 3e-4, Offset: 2e-5}},
	} {
		seed := uint64(1)
		from, halves := rand.New(rand.NewPCG(seed, 1)), halfWidths{}
		gains, offsets, joules := 0, 0, 0
		for range campaigns {
			m := random(from)
			k, err := Fit(m.points(c.values, c.noise, c.reference, from))
			if err != nil {
				t.Fatal(c.name, err)
			}
			gains += halves.hold(k.Gain, 1/(1+m.gain), k.UGain, k.Reference.Gain)
			offsets += halves.hold(k.Offset, -m.offset/(1+m.gain), k.UOffset, k.Reference.Offset)
			// A second at 5 V and 0.4 A above no idle.
			amps := []float64{m.read(0.4)}
			k.Apply(amps)
			acc := accuracy{meters.Accuracy{Volts: &meters.Limit{}}, &meters.Calibration{Amps: &k}}
			e := 5 * amps[0]
			limits := propagate(acc, amounts{joules: e, webers: 5, coulomb: amps[0], allWebers: 5, allCoulomb: amps[0], levels: []levels{{volts: 5, amps: 0.4}}})
			joules += halves.hold(e, 5*0.4, 1e-9, values(limits, acc)...)
		}
		share := func(n int) float64 { return 100 * float64(n) / float64(campaigns) }
		fmt.Printf("%-24s gain %.1f %%, offset %.1f %%, energy %.1f %%\n", c.name, share(gains), share(offsets), share(joules))
		for what, n := range map[string]int{"gain": gains, "offset": offsets} {
			if s := share(n); s < 93 || s > 97.2 {
				t.Errorf("%s: the interval of the %s holds the truth in %.1f %% (seed %d)", c.name, what, s, seed)
			}
		}
		// The time base, of which there is no error here, widens it a little.
		if s := share(joules); s < 93 || s > 98 {
			t.Errorf("%s: the interval of an energy holds the truth in %.1f %% (seed %d)", c.name, s, seed)
		}
	}
}

// TestFitOfACurve fits meters that are not linear: their energies within the
// range are covered, and no less often.
func TestFitOfACurve(t *testing.T) {
	draws := rand.New(rand.NewPCG(2, 2))
	held, n, halves := 0, 0, halfWidths{}
	for range 300 {
		m := random(draws)
		m.curve = 0.008 * (2*draws.Float64() - 1)
		k, err := Fit(m.points([]float64{0, 0.2, 0.4, 0.7, 1}, 1e-5, meters.Limit{Gain: 1e-4}, draws))
		if err != nil {
			t.Fatal(err)
		}
		x := 0.1 + 0.8*draws.Float64()
		amps := []float64{m.read(x)}
		k.Apply(amps)
		acc := accuracy{meters.Accuracy{Volts: &meters.Limit{}}, &meters.Calibration{Amps: &k}}
		e := 5 * amps[0]
		n++
		held += halves.hold(e, 5*x, 1e-9, values(propagate(acc, amounts{joules: e, webers: 5, allWebers: 5, levels: []levels{{amps: x}}}), acc)...)
	}
	if share := float64(held) / float64(n); share < 0.94 {
		t.Errorf("energies of meters that are not linear: %.1f %%", 100*share)
	}
}

func TestFitRefuses(t *testing.T) {
	p := func(r, v float64) Point { return Point{Reading: r, UReading: 1e-5, Value: v} }
	for _, c := range []struct {
		name, want string
		points     []Point
	}{
		{"none", "two points", nil},
		{"one", "two points", []Point{p(1, 1)}},
		{"near each other", "two points", []Point{p(1, 1), p(1.1, 1.1)}},
		{"lost in noise", "two points", []Point{{0, 0.1, 0, meters.Limit{}, 0}, {1, 0.1, 1, meters.Limit{}, 0}}},
		{"a wrong value", "not linear, or a value is wrong", []Point{p(0, 0), p(0.5, 0.6), p(1, 1)}},
		{"no uncertainty", "no uncertainty", []Point{{Reading: 0}, p(1, 1)}},
		{"no number", "holds NaN", []Point{p(math.NaN(), 0), p(1, 1)}},
	} {
		if _, err := Fit(c.points); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestFitOfThreePoints against sums by hand: equal weights, readings 0, 1 and 2
// of 0, 1 and 2.02.
func TestFitOfThreePoints(t *testing.T) {
	var ps []Point
	for i, v := range []float64{0, 1, 2.02} {
		ps = append(ps, Point{Reading: float64(i), UReading: 0.02, Value: v, Limit: meters.Limit{Gain: 1e-3 * float64(i), Offset: 1e-4}})
	}
	c, err := Fit(ps)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "gain", c.Gain, 1.01, 1e-9)
	near(t, "offset", c.Offset, -0.01/3, 1e-9)
	near(t, "u of the gain", c.UGain, 1.01*0.02/math.Sqrt2, 1e-9)
	near(t, "u of the offset", c.UOffset, 1.01*0.02*math.Sqrt(1.0/3+1.0/2), 1e-9)
	near(t, "covariance", c.Covariance, -1.01*1.01*0.02*0.02/2, 1e-9)
	near(t, "chi square", c.ChiSquare, 6*0.01*0.01/9/(1.01*1.01*0.02*0.02), 1e-9)
	near(t, "residual", ps[1].Residual, -0.02/3, 1e-9)
	if c.Reference != (meters.Limit{Gain: 2e-3, Offset: 1e-4}) || c.Linearity != 0 || c.From != 0 || c.To != 2 {
		t.Errorf("%+v", c)
	}
	cal := meters.Calibration{Amps: &c}
	if err := cal.Check(); err != nil {
		t.Error(err)
	}
}

func TestOutsideTheRange(t *testing.T) {
	k := meters.Correction{Gain: 1, From: 0.1, To: 1, Points: 3}
	acc := accuracy{meters.Accuracy{Volts: &meters.Limit{Gain: 0.002}, Amps: &meters.Limit{Gain: 0.005}}, &meters.Calibration{Name: "m", Amps: &k}}
	names := func(amps ...float64) (out []string) {
		a := amounts{joules: 1, webers: 1, coulomb: 1}
		for _, x := range amps {
			a.levels = append(a.levels, levels{volts: 5, amps: x})
		}
		for _, l := range propagate(acc, a) {
			out = append(out, l.name)
		}
		return out
	}
	if got := fmt.Sprint(names(0.1, 1.01)); got != "[meter gain, volts time base]" {
		t.Error(got)
	}
	if got := fmt.Sprint(names(0.02, 0.5)); got != "[meter gain, volts meter gain, amps, outside the calibrated range time base]" {
		t.Error(got)
	}
}

func TestCalibrationWarnings(t *testing.T) {
	k := meters.Correction{Gain: 1, Points: 2}
	cal := &meters.Calibration{Name: "m", Date: "2025-06-01", Model: "FNB58", Serial: "1", Amps: &k}
	got := strings.Join(calibrationWarnings(cal, "FNB48", "1", "2026-11-30T10:00:00Z"), "; ")
	for _, want := range []string{"not on this meter", "547 days", "two points"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	k.Points = 3
	if got := calibrationWarnings(cal, "FNB58", "", "2026-01-30T10:00:00Z"); len(got) > 0 {
		t.Error(got)
	}
}

// recordSteady records a load that does not change.
func recordSteady(t *testing.T, volts, amps func(i int) float64, n int) *run.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "run"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Driver: "test", Columns: []string{meters.Volts, meters.Amps}, Wide: true, RateHz: 100,
		PacketSamples: 4, Sample: meters.Mean, Clock: meters.ByArrival})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 4 {
		b := meters.Block{ArrivalNs: int64(i+4) * 1e7, Values: [][]float64{make([]float64, 4), make([]float64, 4)}}
		for k := range 4 {
			b.Values[0][k], b.Values[1][k] = volts(i+k), amps(i+k)
		}
		if err := s.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close("done", int64(n)*1e7); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReadSteady: the uncertainty of the mean counts correlation, and counts
// that never change.
func TestReadSteady(t *testing.T) {
	const keep, sd, n, seed = 0.9, 1e-3, 4100, 3
	draws := rand.New(rand.NewPCG(seed, seed))
	var us, means []float64
	for range 40 {
		x := sd * draws.NormFloat64()
		r := recordSteady(t, func(int) float64 { return 5 }, func(i int) float64 {
			if i < 100 {
				return 3 // not settled
			}
			x = keep*x + math.Sqrt(1-keep*keep)*sd*draws.NormFloat64()
			return 0.5 + x
		}, n)
		got, err := ReadSteady(r, "usb")
		if err != nil {
			t.Fatal(err)
		}
		us, means = append(us, got[meters.Amps].U*got[meters.Amps].U), append(means, (got[meters.Amps].Mean-0.5)*(got[meters.Amps].Mean-0.5))
		near(t, "constant", got[meters.Volts].U, 10e-6/math.Sqrt(12), 1e-9)
		if got[meters.Amps].Samples != 4000 {
			t.Fatal(got)
		}
	}
	want := sd * math.Sqrt((1+keep)/(1-keep)/4000)
	near(t, "uncertainty", math.Sqrt(sum(us)/40), want, 0.15)
	near(t, "scatter of the means", math.Sqrt(sum(means)/40), want, 0.4)

	short := recordSteady(t, func(int) float64 { return 5 }, func(int) float64 { return 0 }, 200)
	if _, err := ReadSteady(short, "usb"); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Error(err)
	}
	if _, err := ReadSteady(short, "x"); err == nil {
		t.Error("no error for a stream that is not there")
	}
	holes := recordSteady(t, func(int) float64 { return 5 }, func(i int) float64 {
		if i > 700 {
			return math.NaN()
		}
		return 1
	}, 1000)
	if _, err := ReadSteady(holes, "usb"); err == nil || !strings.Contains(err.Error(), "no value") {
		t.Error(err)
	}
}

// TestFitOffTheLine: residuals beyond the noise count instead of it, and bound
// the linearity, which stays in ratios.
func TestFitOffTheLine(t *testing.T) {
	const u = 1e-5
	var ps []Point
	for i, v := range []float64{0, 1, 2.002} {
		ps = append(ps, Point{Reading: float64(i), UReading: u, Value: v})
	}
	c, err := Fit(ps)
	if err != nil {
		t.Fatal(err)
	}
	squares := 6 * 0.001 * 0.001 / 9
	// Of one degree of freedom: Student's t is 12.706, the normal 1.960.
	near(t, "u of the gain", c.UGain, math.Sqrt(squares)/math.Sqrt2*12.706/1.960, 1e-3)
	near(t, "linearity", c.Linearity, math.Sqrt(3*(squares-u*u)), 1e-6)

	acc := accuracy{meters.Accuracy{Volts: &meters.Limit{}}, &meters.Calibration{Amps: &c}}
	limits := propagate(acc, amounts{joules: 10, webers: 5, allWebers: 6})
	k := slices.IndexFunc(limits, func(l limit) bool { return l.name == "linearity, amps" })
	if k < 0 || !limits[k].own {
		t.Fatalf("%+v", limits)
	}
	near(t, "term", limits[k].half, 6*c.Linearity, 1e-9)
	cancels, stays := []limit{{name: "calibration, amps", half: 0.01, normal: true}}, []limit{{name: "linearity, amps", half: 0.01, own: true}}
	for _, x := range []struct {
		limits []limit
		half   float64
	}{{cancels, 0}, {stays, 0.01 * (1 - math.Sqrt(0.05)) * 2}} {
		q, err := Ratio(operation("sign", 1, 1e-6, 10, x.limits), operation("sign", 1, 1e-6, 10, x.limits), true)
		if err != nil {
			t.Fatal(err)
		}
		if half := float64(q.Hi95-q.Lo95) / 2; math.Abs(half-x.half) > 2e-4 {
			t.Errorf("%s: a ratio within %g, want %g", x.limits[0].name, half, x.half)
		}
	}
}
