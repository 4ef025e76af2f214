package bench

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// recording is what a world hands over, in memory.
type recording struct {
	w           *World
	volts, amps []float64
	arrivals    []run.Arrival
	lines       []run.Line
}

func play1(t testing.TB, s Scenario, seed uint64) recording {
	t.Helper()
	w, err := New(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	r := recording{w: w}
	last := int64(0)
	inOrder := func(ns int64) {
		if ns < last {
			t.Fatalf("handed over %d ns after %d ns", ns, last)
		}
		last = ns
	}
	err = w.Play(func(b meters.Block) error {
		if b.Len() == 0 {
			return nil
		}
		inOrder(b.ArrivalNs)
		r.volts = append(r.volts, b.Values[0]...)
		r.amps = append(r.amps, b.Values[1]...)
		r.arrivals = append(r.arrivals, run.Arrival{Row: int64(len(r.volts)), HostNs: b.ArrivalNs})
		return nil
	}, func(l run.Line) error {
		inOrder(l.HostNs)
		r.lines = append(r.lines, l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// quiet is a world without noise, counts, resistance, traffic and clock errors.
func quiet() Scenario {
	s := Default()
	s.Supply.Ohms, s.Load.UARTWatts = 0, 0
	s.Meter.PPM, s.Ticks.PPM = 0, 0
	s.Meter.VoltsNoise, s.Meter.AmpsNoise, s.Meter.VoltsCount, s.Meter.AmpsCount = 0, 0, 0, 0
	return s
}

var responses = map[string]func(*Scenario){
	"plain":       func(s *Scenario) {},
	"boxcar":      func(s *Scenario) { s.Meter.Filter, s.Meter.FilterSeconds = Boxcar, 0.05 },
	"one-pole":    func(s *Scenario) { s.Meter.Filter, s.Meter.FilterSeconds = OnePole, 0.01 },
	"repeat":      func(s *Scenario) { s.Meter.Hold = Repeat },
	"interpolate": func(s *Scenario) { s.Meter.Hold = Interpolate },
	"point":       func(s *Scenario) { s.Meter.Kind = "point" },
	"point, said": func(s *Scenario) { s.Meter.Kind, s.Meter.Says = "point", "point" },
	"slow point of a smooth input": func(s *Scenario) {
		s.Meter.Kind, s.Meter.Filter, s.Meter.FilterSeconds = "point", OnePole, 0.01
	},
	"overhead": func(s *Scenario) { s.Load.Overhead, s.Plan.ShortSeconds = 0.00001, 0.5 },
	"ramp, delays": func(s *Scenario) {
		s.Load.RampSeconds, s.Samples.DelaySeconds, s.Lines.DelaySeconds = 0.01, 0.07, 0.02
	},
}

// The samples around each window hold its energy, tails included, and their
// centroid lies where the truth says.
func TestSamplesHoldTheTruth(t *testing.T) {
	for name, change := range responses {
		t.Run(name, func(t *testing.T) {
			s := quiet()
			s.Plan.Windows = 25
			change(&s)
			r := play1(t, s, 3)
			truth := r.w.Truth()
			exact := s.Meter.Kind == "mean"
			period, late := 1/s.Meter.RateHz, 0.0
			for _, w := range truth.Windows {
				from := int((w.T0 - truth.FirstSampleSeconds - 0.25) / period)
				to := int((w.T1 - truth.FirstSampleSeconds + 0.25) / period)
				energy, moment := 0.0, 0.0
				for i := from; i < to; i++ {
					e := (r.volts[i]*r.amps[i] - truth.IdleWatts) * period
					energy += e
					at := float64(i) + 0.5
					if s.Meter.Says == "point" {
						at = float64(i)
					}
					moment += e * at * period
				}
				// Instants miss up to a sample at each edge.
				if limit := w.NetJoules * 1e-9; exact && math.Abs(energy-w.NetJoules) > limit {
					t.Errorf("window %d: samples hold %.12g J, truth %.12g J", w.W, energy, w.NetJoules)
				}
				seen := truth.FirstSampleSeconds + moment/energy + s.Samples.DelaySeconds
				late += seen - (w.T0+w.T1)/2 - s.Lines.DelaySeconds
			}
			late = late/float64(len(truth.Windows)) - beaconSeconds(r)
			if math.Abs(late-truth.OffsetSeconds) > 2e-4 {
				t.Errorf("centroids come %.5f s after their marks, truth says %.5f s", late, truth.OffsetSeconds)
			}
		})
	}
}

func beaconSeconds(r recording) float64 {
	total, n := 0.0, 0.0
	for _, l := range r.lines {
		if st, err := mark.Parse(l.Text); err == nil && st.Kind == "sync" {
			total += wireSeconds(append(l.Text, '\n'))
			n++
		}
	}
	return total / n
}

func TestGrossIsNetAndIdle(t *testing.T) {
	s := quiet()
	s.Load.DriftWatts, s.Load.SineWatts, s.Load.SineSeconds = 5e-5, 1e-3, 7
	s.Load.BurstHz, s.Load.BurstWatts = 1, 0.1
	w, err := New(s, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, win := range w.Truth().Windows {
		if got := w.Joules(win.T0, win.T1); math.Abs(got-win.GrossJoules) > 1e-10 {
			t.Errorf("window %d: load holds %.12g J, truth says gross %.12g J", win.W, got, win.GrossJoules)
		}
		if got := win.GrossJoules - win.IdleWatts*(win.T1-win.T0); math.Abs(got-win.NetJoules) > 1e-10 {
			t.Errorf("window %d: gross less idle is %.12g J, net %.12g J", win.W, got, win.NetJoules)
		}
	}
}

// A plain pulse integral over what a meter of the default world shows finds
// the energy of each operation's windows.
func TestPulseIntegralFindsTheTruth(t *testing.T) {
	r := play1(t, Default(), 12)
	truth := r.w.Truth()
	period := 1 / truth.SampleHz
	mean := func(t0, t1 float64) (watts float64, n int) {
		from, to := int((t0-truth.FirstSampleSeconds)/period), int((t1-truth.FirstSampleSeconds)/period)
		for i := from; i < to; i++ {
			watts += r.volts[i] * r.amps[i] / float64(to-from)
		}
		return watts, to - from
	}
	for _, op := range truth.Ops {
		got, want := 0.0, 0.0
		for _, w := range truth.Windows {
			if w.Alg != op.Alg || w.Op != op.Op {
				continue
			}
			before, _ := mean(w.T0-0.25, w.T0-0.05)
			after, _ := mean(w.T1+0.05, w.T1+0.25)
			watts, n := mean(w.T0-0.05, w.T1+0.05)
			got += (watts - (before+after)/2) * float64(n) * period
			want += w.NetJoules
		}
		if off := got/want - 1; math.Abs(off) > 1e-3 {
			t.Errorf("%s/%s: samples hold %.6g J, truth %.6g J (off by %.2g)", op.Alg, op.Op, got, want, off)
		}
	}
}

// Over many windows the mean energy and time of an operation approach the
// population's.
func TestPopulationMeans(t *testing.T) {
	s := Default()
	s.Plan.Ops, s.Plan.Windows = []string{"ML-DSA-44/sign", "ML-DSA-87/sign", "ML-KEM-768/encaps"}, 400
	w, err := New(s, 11)
	if err != nil {
		t.Fatal(err)
	}
	truth := w.Truth()
	for i, op := range truth.Ops {
		var joules, seconds float64
		for _, win := range truth.Windows {
			if win.Alg == op.Alg && win.Op == op.Op {
				joules += win.NetJoules
				seconds += win.T1 - win.T0
			}
		}
		n := float64(op.Count)
		rows, _ := s.rows()
		// Four standard deviations of the time, and of the power's scatter.
		limit := 4 * math.Hypot(rows[i].RelativeSD/math.Sqrt(n), s.Load.Scatter/20)
		if got := joules/n/op.JoulesPerOp - 1; math.Abs(got) > limit {
			t.Errorf("%s/%s: realised energy is off by %.3g, more than %.3g", op.Alg, op.Op, got, limit)
		}
		if got := seconds/n/op.SecondsPerOp - 1; math.Abs(got) > limit {
			t.Errorf("%s/%s: realised time is off by %.3g, more than %.3g", op.Alg, op.Op, got, limit)
		}
	}
}

func TestEqualSeedsEqualWorlds(t *testing.T) {
	a, b, c := play1(t, Default(), 1), play1(t, Default(), 1), play1(t, Default(), 2)
	if !reflect.DeepEqual(a.volts, b.volts) || !reflect.DeepEqual(a.lines, b.lines) || !reflect.DeepEqual(a.w.Truth(), b.w.Truth()) {
		t.Error("one seed made two worlds")
	}
	if reflect.DeepEqual(a.amps, c.amps) || reflect.DeepEqual(a.lines, c.lines) {
		t.Error("two seeds made one world")
	}
}

// One effect more leaves the draws of the others as they were.
func TestEffectsDrawApart(t *testing.T) {
	plain := play1(t, Default(), 1)
	s := Default()
	s.Load.BurstHz, s.Load.BurstWatts, s.Samples.Loss, s.Faults.Corrupted = 1, 0.1, 0.01, 0.1
	s.Load.WalkWatts = 0.001
	loaded := play1(t, s, 1)
	a, b := plain.w.Truth().Windows, loaded.w.Truth().Windows
	for i := range a {
		if a[i].T0 != b[i].T0 || a[i].NetJoules != b[i].NetJoules {
			t.Fatalf("window %d is %+v with bursts, %+v without", a[i].W, b[i], a[i])
		}
	}
	if plain.w.Truth().FirstSampleSeconds != loaded.w.Truth().FirstSampleSeconds {
		t.Error("bursts moved the meter's start")
	}
}

func TestArrivalsAreNeverEarly(t *testing.T) {
	s := Default()
	s.Samples = Link{DelaySeconds: 0.03, Jitter: Exponential, JitterSeconds: 0.01, StallHz: 0.2, StallSeconds: 0.5}
	s.Lines = Link{DelaySeconds: 0.01, Jitter: Uniform, JitterSeconds: 0.02, StallHz: 0.2, StallSeconds: 0.5}
	r := play1(t, s, 4)
	var delays []float64
	late := 0
	for _, a := range r.arrivals {
		d := float64(a.HostNs)*1e-9 - r.w.meter.ready(a.Row)
		if d < s.Samples.DelaySeconds {
			t.Fatalf("packet before row %d arrives %g s after its end", a.Row, d)
		}
		if d > 0.2 {
			late++
		}
		delays = append(delays, d)
	}
	if late == 0 {
		t.Error("no packet was late in spite of stalls")
	}
	if got := minimum(delays) - s.Samples.DelaySeconds; got > 1e-3 {
		t.Errorf("the earliest of %d packets comes %g s later than possible", len(delays), got)
	}
	for _, l := range r.lines {
		st, err := mark.Parse(l.Text)
		if err != nil {
			t.Fatal(err)
		}
		y, err := mark.ParseSync(st)
		if st.Kind != "sync" || err != nil {
			continue
		}
		sent := float64(y.Ticks)/1e6*(1+5e-6) + wireSeconds(append(l.Text, '\n'))
		if d := float64(l.HostNs)*1e-9 - sent; d < s.Lines.DelaySeconds-2e-6 {
			t.Fatalf("beacon %d arrives %g s after it was sent", y.Seq, d)
		}
	}
}

func minimum(x []float64) float64 {
	m := math.Inf(1)
	for _, v := range x {
		m = min(m, v)
	}
	return m
}

// A lost packet is missing from the rows and nowhere else.
func TestLossLeavesNoTrace(t *testing.T) {
	whole := play1(t, Default(), 6)
	s := Default()
	s.Samples.Loss = 0.01
	r := play1(t, s, 6)
	lost := r.w.Truth().LostPackets
	if len(lost) < 5 {
		t.Fatalf("%d packets lost of %d", len(lost), len(whole.arrivals))
	}
	var want []float64
	n, row := s.Meter.PacketSamples, 0
	for i := 0; i < len(whole.amps); i += n {
		if len(lost) > 0 && int64(row) == lost[0] {
			lost = lost[1:]
			continue
		}
		want = append(want, whole.amps[i:i+n]...)
		row += n
	}
	if !reflect.DeepEqual(r.amps, want) {
		t.Error("the rows are not those of the lossless run without the lost packets")
	}
}

func TestMarksTellTheTruth(t *testing.T) {
	for _, name := range []string{"default", "wrap32", "reset", "jump"} {
		t.Run(name, func(t *testing.T) {
			s, err := LoadScenario(name)
			if err != nil {
				t.Fatal(err)
			}
			r := play1(t, s, 7)
			kinds := map[string]int{}
			windows, stated := map[int64]TrueWindow{}, map[int64]TrueWindow{}
			for _, w := range r.w.Truth().Windows {
				windows[w.W] = w
			}
			hz, bits := r.w.Target().TickHz, r.w.Target().TickBits
			for _, l := range r.lines {
				st, err := mark.Parse(l.Text)
				if err != nil || !st.Checked {
					t.Fatalf("%q: %v", l.Text, err)
				}
				kinds[st.Kind]++
				if st.Kind == "lat" {
					l, err := mark.ParseLat(st)
					if err != nil {
						t.Fatal(err)
					}
					w := stated[l.W]
					mean := (w.T1 - w.T0) / float64(w.N) * hz * (1 - 5e-6)
					if l.N != w.N || math.Abs(l.Mean/mean-1) > 1e-6 || l.Min > l.Mean || l.Max < l.Mean || l.SD < 0 {
						t.Errorf("window %d took %.9g ticks an operation: %+v", l.W, mean, l)
					}
				}
				if st.Kind != "win" {
					continue
				}
				w, err := mark.ParseWin(st)
				if err != nil {
					t.Fatal(err)
				}
				truth := windows[w.W]
				ticks := w.T1 - w.T0
				if bits < 64 {
					ticks &= 1<<bits - 1
				}
				want := (truth.T1 - truth.T0) * (1 - 5e-6)
				if got := float64(ticks) / hz; math.Abs(got-want) > 1.1/hz+1e-8 || w.N != truth.N || w.Alg != truth.Alg {
					t.Errorf("window %d of %s %d lasted %.7g s, stated %.7g s of %s %d", w.W, truth.Alg, truth.N, want, got, w.Alg, w.N)
				}
				stated[w.W] = truth
				delete(windows, w.W)
			}
			total := len(s.Plan.Ops) * s.Plan.Windows
			wins, hellos := total, 3
			if s.Ticks.ResetIn > 0 {
				wins, hellos = total-1, 6
			}
			want := map[string]int{"hello": hellos, "sync": kinds["sync"], "win": wins, "lat": wins, "idle": total + 1}
			if !reflect.DeepEqual(kinds, want) || len(windows) != 0 {
				t.Errorf("lines %v, want %v; windows never stated: %v", kinds, want, windows)
			}
		})
	}
}

// Beacons count on from the stated start, wrap, begin anew after a reset and
// jump where they are told to.
func TestBeaconTicks(t *testing.T) {
	for _, c := range []struct {
		name string
		odd  []float64 // beacon to beacon, ticks gained over host time in seconds, where not 0
	}{{"default", nil}, {"wrap32", nil}, {"jump", []float64{-300}}, {"reset", []float64{math.NaN()}}} {
		s, err := LoadScenario(c.name)
		if err != nil {
			t.Fatal(err)
		}
		s.Lines.JitterSeconds = 0
		r := play1(t, s, 7)
		hz, bits := r.w.Target().TickHz, r.w.Target().TickBits
		var odd []float64
		var last mark.Sync
		lastNs, first := int64(0), true
		for _, l := range r.lines {
			st, _ := mark.Parse(l.Text)
			y, err := mark.ParseSync(st)
			if err != nil {
				continue
			}
			ns := l.HostNs - int64(1e9*wireSeconds(append(l.Text, '\n')))
			if first {
				if gone := float64(y.Ticks-s.Ticks.Start) / hz; math.Abs(gone-float64(ns)*1e-9) > 1e-4 {
					t.Errorf("%s: first beacon says %g s after the start, at host second %g", c.name, gone, float64(ns)*1e-9)
				}
				first = false
			} else {
				step := int64(y.Ticks - last.Ticks)
				if bits < 64 {
					step &= 1<<bits - 1
				}
				gained := float64(step)/hz - float64(ns-lastNs)*1e-9
				if y.Seq == 0 { // a reset: the counter shows the time since
					gained = math.NaN()
					if since := float64(y.Ticks-s.Ticks.Start) / hz; since < bootSeconds || since > bootSeconds+0.1 {
						t.Errorf("%s: the first beacon after a reset says %g s", c.name, since)
					}
				}
				if !(math.Abs(gained) < 1e-4) {
					odd = append(odd, math.Round(gained*1e3)/1e3)
				}
			}
			last, lastNs = y, ns
		}
		if len(odd) != len(c.odd) || len(odd) > 0 && odd[0] != c.odd[0] && !math.IsNaN(c.odd[0]) {
			t.Errorf("%s: beacons gained %v s, want %v", c.name, odd, c.odd)
		}
	}
}

// Nothing is sent within a window, its quiet zones, or an interval stated idle.
func TestQuietZonesAreQuiet(t *testing.T) {
	w, err := New(Default(), 8)
	if err != nil {
		t.Fatal(err)
	}
	plan := Default().Plan
	for _, win := range w.Truth().Windows {
		from, to := win.T0-plan.GuardSeconds, win.T1+plan.PostSeconds
		before := w.watts.mean(from, win.T0-1e-9)
		after := w.watts.mean(win.T1+1e-9, to-1e-9)
		if math.Abs(before-w.truth.IdleWatts) > 1e-9 || math.Abs(after-w.truth.IdleWatts) > 1e-9 {
			t.Errorf("window %d: %g W before, %g W after, idle is %g W", win.W, before, after, w.truth.IdleWatts)
		}
	}
}

func TestDamagedLines(t *testing.T) {
	s, err := LoadScenario("lines")
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Windows = 50
	r := play1(t, s, 9)
	var d mark.Decoder
	for _, l := range r.lines {
		d.Decode(l.Text)
	}
	c := d.Counts()
	bad := c.Lines - c.Statements
	// 4 % of the lines are changed, cut or joined to another.
	if got := float64(bad) / float64(c.Lines); got < 0.02 || got > 0.06 {
		t.Errorf("%d of %d lines are damaged: %+v", bad, c.Lines, c)
	}
}

func TestPlayStopsAtTheFirstError(t *testing.T) {
	for _, driver := range []string{Direct, FNB58} {
		s := Default()
		s.Meter.Driver = driver
		w, err := New(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		full, blocks := errors.New("disk full"), 0
		err = w.Play(func(meters.Block) error { blocks++; return full }, func(run.Line) error { return nil })
		if !errors.Is(err, full) || blocks != 1 {
			t.Errorf("%s: a failed write gave %v after %d blocks", driver, err, blocks)
		}
	}
}

// Gain and offset come from the seed alone, and from within the limits.
func TestMeterErrorsAreOneCampaigns(t *testing.T) {
	s := Default()
	s.Meter.Accuracy = "v=0.5%+20uV,a=0.5%+20uA"
	seen := map[float64]bool{}
	for seed := range uint64(50) {
		s.Target = "rv32"
		a, err := New(s, seed)
		if err != nil {
			t.Fatal(err)
		}
		s.Target = "amd64"
		b, err := New(s, seed)
		if err != nil {
			t.Fatal(err)
		}
		x, y := a.Truth(), b.Truth()
		if x.AmpsGain != y.AmpsGain || x.VoltsOffset != y.VoltsOffset {
			t.Fatalf("seed %d: two targets, two meters: %+v and %+v", seed, x, y)
		}
		if math.Abs(x.AmpsGain) > 0.005 || math.Abs(x.VoltsGain) > 0.005 || math.Abs(x.VoltsOffset) > 20e-6 || math.Abs(x.AmpsOffset) > 20e-6 {
			t.Errorf("seed %d: errors beyond the limits: %+v", seed, x)
		}
		seen[x.AmpsGain] = true
	}
	if len(seen) != 50 {
		t.Errorf("50 seeds gave %d gains", len(seen))
	}
}

// A reading is value*(1+gain) + offset, in whole counts.
func TestMeterErrorsShow(t *testing.T) {
	s := quiet()
	ideal := play1(t, s, 13)
	s.Meter.Accuracy = "v=0.5%+10mV,a=0.5%+1mA"
	s.Meter.VoltsCount, s.Meter.AmpsCount = 1e-5, 1e-5
	r := play1(t, s, 13)
	truth := r.w.Truth()
	if truth.VoltsOffset == 0 || truth.AmpsOffset == 0 {
		t.Fatalf("no offsets were drawn: %+v", truth)
	}
	for i := range r.amps {
		for _, c := range []struct{ got, want float64 }{
			{r.amps[i], ideal.amps[i]*(1+truth.AmpsGain) + truth.AmpsOffset},
			{r.volts[i], ideal.volts[i]*(1+truth.VoltsGain) + truth.VoltsOffset},
		} {
			counts := c.got / 1e-5
			if math.Abs(c.got-c.want) > 0.5001e-5 || math.Abs(counts-math.Round(counts)) > 1e-6 {
				t.Fatalf("row %d reads %.9g, want %.9g in counts of 1e-5", i, c.got, c.want)
			}
		}
	}
}

// Noise has the stated deviation and correlation.
func TestNoise(t *testing.T) {
	s, err := LoadScenario("noise")
	if err != nil {
		t.Fatal(err)
	}
	calm := s
	calm.Meter.AmpsNoise, calm.Meter.VoltsNoise = 0, 0
	a, b := play1(t, s, 10), play1(t, calm, 10)
	var squares, products float64
	last := 0.0
	for i := range a.amps {
		e := a.amps[i] - b.amps[i]
		squares += e * e
		products += e * last
		last = e
	}
	n := float64(len(a.amps))
	if sd := math.Sqrt(squares / n); math.Abs(sd/0.001-1) > 0.15 {
		t.Errorf("noise of %g A, want 0.001 A", sd)
	}
	if rho := products / squares; math.Abs(rho-0.9) > 0.03 {
		t.Errorf("neighbours correlate by %g, want 0.9", rho)
	}
}

// BenchmarkWorld plays 150 windows, about ten minutes, without recording them.
func BenchmarkWorld(b *testing.B) {
	s := Default()
	s.Plan.Ops, s.Plan.Windows = []string{"all"}, 7
	for b.Loop() {
		play1(b, s, 1)
	}
}
