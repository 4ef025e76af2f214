package clock

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func mustUnwrapper(t *testing.T, hz float64, bits int) *Unwrapper {
	t.Helper()
	u, err := NewUnwrapper(hz, bits)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

type beacon struct {
	raw  uint64
	host float64
}

func TestUnwrapEvents(t *testing.T) {
	const mega = 1_000_000
	for name, c := range map[string]struct {
		bits    int
		hz      float64
		beacons []beacon
		epochs  []int
		seconds []float64
		events  []Event
	}{
		"no wrap": {64, mega, []beacon{{5 * mega, 1}, {6 * mega, 2}}, []int{0, 0}, []float64{0, 1}, nil},
		"one wrap": {32, mega, []beacon{{math.MaxUint32 - mega + 1, 1}, {mega, 3}}, []int{0, 0}, []float64{0, 2},
			[]Event{{Wrap, 1, 1}}},
		"four wraps between two lines": {32, 160 * mega, []beacon{{0, 0}, {100 * 160 * mega % (1 << 32), 100}}, []int{0, 0},
			[]float64{0, 100}, []Event{{Wrap, 1, 3}}},
		"16 bits at 1 kHz": {16, 1000, []beacon{{65_000, 0}, {64, 0.6}}, []int{0, 0}, []float64{0, 0.6}, []Event{{Wrap, 1, 1}}},
		"restart": {64, mega, []beacon{{900 * mega, 1}, {901 * mega, 2}, {mega / 2, 3}, {3 * mega / 2, 4}}, []int{0, 0, 1, 1},
			[]float64{0, 1, 0, 1}, []Event{{Reset, 2, 0}}},
		"jump back": {52, mega, []beacon{{9000 * mega, 1}, {9001 * mega, 2}, {5000 * mega, 3}, {5001 * mega, 4}}, []int{0, 0, 1, 1},
			[]float64{0, 1, 0, 1}, []Event{{Jump, 2, 0}}},
		"jump ahead": {64, mega, []beacon{{mega, 1}, {2 * mega, 2}, {5000 * mega, 3}}, []int{0, 0, 1},
			[]float64{0, 1, 0}, []Event{{Jump, 2, 0}}},
		"back by a few ticks": {64, mega, []beacon{{900 * mega, 1}, {900*mega - 5, 1.001}}, []int{0, 1},
			[]float64{0, 0}, []Event{{Jump, 1, 0}}},
		"one stray reading": {64, mega, []beacon{{mega, 1}, {2 * mega, 2}, {77_000 * mega, 3}, {4 * mega, 4}, {5 * mega, 5}}, []int{0, 0, 1, 0, 0},
			[]float64{0, 1, 0, 3, 4}, []Event{{Jump, 2, 0}, {Stray, 3, 0}}},
		"too long for counting wraps": {32, 160 * mega, []beacon{{0, 0}, {5, 3000}}, []int{0, 1}, []float64{0, 0}, []Event{{Lost, 1, 0}}},
		"late by a second":            {64, mega, []beacon{{mega, 1}, {2 * mega, 3}, {3 * mega, 3}}, []int{0, 0, 0}, []float64{0, 1, 2}, nil},
		"above 2^63":                  {64, mega, []beacon{{1<<63 - mega, 1}, {1<<63 + mega, 3}}, []int{0, 0}, []float64{0, 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			u := mustUnwrapper(t, c.hz, c.bits)
			for i, b := range c.beacons {
				r, err := u.Beacon(b.raw, b.host)
				if err != nil {
					t.Fatal(err)
				}
				if r.Epoch != c.epochs[i] || math.Abs(r.Seconds-c.seconds[i]) > 1e-9 {
					t.Errorf("reading %d is %+v, want epoch %d, %g s", i, r, c.epochs[i], c.seconds[i])
				}
			}
			if got := u.Events(); !reflect.DeepEqual(got, c.events) {
				t.Errorf("events %v, want %v", got, c.events)
			}
		})
	}
}

func TestUnwrapRestart(t *testing.T) {
	u := mustUnwrapper(t, 1e6, 32)
	u.Restart(0) // the first hello
	for i, b := range []beacon{{1e6, 1}, {2e6, 2}} {
		if r, err := u.Beacon(b.raw, b.host); err != nil || r.Epoch != 0 || r.Seconds != float64(i) {
			t.Fatal(r, err)
		}
	}
	u.Restart(2.5)
	u.Restart(2.5)
	// By chance these values would follow; a hello says that they do not.
	r, err := u.Beacon(3e6, 3)
	if err != nil || r.Epoch != 1 || r.Seconds != 0 {
		t.Fatal(r, err)
	}
	r, err = u.Beacon(999e6, 4)
	if err != nil || r.Epoch != 2 {
		t.Error(r, err)
	}
	want := []Event{{Reset, 2, 0}, {Jump, 3, 0}}
	if got := u.Events(); !reflect.DeepEqual(got, want) || u.Epochs() != 3 {
		t.Errorf("events %v, %d epochs", got, u.Epochs())
	}
}

func TestPast(t *testing.T) {
	// 32 bits at 160 MHz wrap each 26.84 s. A beacon each 10 s, then one late
	// restart.
	const hz = 160_000_000
	raw := func(s float64) uint64 { return uint64(s*hz) & math.MaxUint32 }
	u := mustUnwrapper(t, hz, 32)
	for s := 10.0; s <= 200; s += 10 {
		if _, err := u.Beacon(raw(s), s+0.001); err != nil {
			t.Fatal(err)
		}
	}
	u.Restart(203)
	for _, c := range []struct {
		name          string
		at, host, lag float64
		epoch         int
		wantSeconds   float64
	}{
		{name: "just now", at: 100, host: 100.002, lag: -1, wantSeconds: 90},
		{name: "24 s ago, latest", at: 76, host: 100, lag: -1, wantSeconds: 66},
		{name: "50 s ago, known", at: 50, host: 100, lag: 52, wantSeconds: 40},
		{name: "before the first beacon", at: 3, host: 12, lag: 9, wantSeconds: -7},
		{name: "before the first beacon, arrived before it", at: 3, host: 5, lag: 2, wantSeconds: -7},
		{name: "after the last beacon", at: 201, host: 202, lag: 1, wantSeconds: 191},
	} {
		r, err := u.Past(raw(c.at), c.host, c.lag)
		if err != nil || r.Epoch != c.epoch || math.Abs(r.Seconds-c.wantSeconds) > 1e-8 {
			t.Errorf("%s: %+v, %v, want %g s", c.name, r, err, c.wantSeconds)
		}
	}
	if r, err := u.Past(5, 204, 1); err == nil {
		t.Errorf("placed in an epoch without beacons: %+v", r)
	}
	if _, err := u.Beacon(raw(3), 206); err != nil {
		t.Fatal(err)
	}
	if r, err := u.Past(raw(1), 204.5, 1); err != nil || r.Epoch != 1 || math.Abs(r.Seconds+2) > 1e-9 {
		t.Errorf("in the second epoch: %+v, %v", r, err)
	}
	if r, err := u.Past(raw(180), 190, 9); err != nil || r.Epoch != 0 {
		t.Errorf("in the first epoch again: %+v, %v", r, err)
	}

	wide := mustUnwrapper(t, 1e6, 64)
	if _, err := wide.Past(1, 1, 1); err == nil {
		t.Error("placed without any beacon")
	}
	if _, err := wide.Beacon(100e6, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := wide.Past(160e6, 101, 1); err == nil || !strings.Contains(err.Error(), "after its arrival") {
		t.Errorf("a reading of the future: %v", err)
	}
	if r, err := wide.Past(40e6, 101, -1); err != nil || r.Seconds != -60 {
		t.Error(r, err)
	}
}

func TestPastAroundAStrayReading(t *testing.T) {
	u := mustUnwrapper(t, 1e6, 64)
	for _, b := range []beacon{{1e6, 1}, {2e6, 2}, {77e9, 3}, {4e6, 4}} {
		if _, err := u.Beacon(b.raw, b.host); err != nil {
			t.Fatal(err)
		}
	}
	for host := 2.5; host < 6; host++ {
		if r, err := u.Past(1500e3, host, -1); err != nil || r.Epoch != 0 || r.Seconds != 0.5 {
			t.Errorf("arrived at %g s: %+v, %v", host, r, err)
		}
	}
}

func TestUnwrapRefuses(t *testing.T) {
	for _, c := range []struct {
		hz   float64
		bits int
	}{{0, 32}, {-1, 32}, {math.NaN(), 32}, {math.Inf(1), 32}, {1e6, -1}, {1e6, 65}} {
		if _, err := NewUnwrapper(c.hz, c.bits); err == nil {
			t.Errorf("%g Hz, %d bits accepted", c.hz, c.bits)
		}
	}
	u := mustUnwrapper(t, 1e6, 16)
	if _, err := u.Beacon(65536, 0); err == nil || !strings.Contains(err.Error(), "tick_bits") {
		t.Error(err)
	}
	if _, err := u.Beacon(1, math.NaN()); err == nil {
		t.Error("NaN accepted")
	}
	if _, err := u.Past(65536, 0, 0); err == nil {
		t.Error("Past accepts what is no reading")
	}
}

// Counters of any width, rates off by up to 0.5 %, delays of up to a second,
// pauses of several wraps: the unwrapped readings are those of a wide counter.
func TestUnwrapRandom(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		hz := math.Pow(10, 3+rng.Float64()*5)
		bits := 24 + rng.IntN(30)
		wrapSeconds := math.Ldexp(1, bits) / hz
		rate := hz * (1 + (rng.Float64()-0.5)*0.01)
		u := mustUnwrapper(t, hz, bits)
		start := math.Floor(rng.Float64() * math.Ldexp(1, bits))
		var first, at, last float64
		late := min(1, wrapSeconds/16)
		for i := range 200 {
			ticks := math.Floor(start + at*rate)
			host := max(last, at+rng.ExpFloat64()*late/20)
			if rng.IntN(20) == 0 {
				host += rng.Float64() * late
			}
			last = host
			r, err := u.Beacon(uint64(ticks)&u.mask, host)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = ticks
			}
			if want := (ticks - first) / hz; r.Epoch != 0 || math.Abs(r.Seconds-want) > 1e-9*max(1, want) {
				t.Fatalf("%d bits at %g Hz: reading %d is %+v, want %g s; %v", bits, hz, i, r, want, u.Events())
			}
			at += min(3, rng.ExpFloat64()) * min(10, wrapSeconds) * (1 + 4*float64(rng.IntN(2)))
		}
	}
}
