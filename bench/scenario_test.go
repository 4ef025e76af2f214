package bench

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestScenariosLoad(t *testing.T) {
	names := Scenarios()
	if len(names) < 10 || !slices.Contains(names, "default") {
		t.Fatalf("scenarios: %v", names)
	}
	for _, name := range names {
		s, err := LoadScenario(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if name != "default" && reflect.DeepEqual(s, Default()) {
			t.Errorf("%s differs in nothing from the default", name)
		}
		if _, err := New(s, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadScenario("../scenario"); err == nil {
		t.Error("a path was taken for a name")
	}
}

func TestParse(t *testing.T) {
	s, err := Parse("x.scn", []byte("# a comment\n\n plan.ops = ML-DSA-44/sign , Ed25519/verify\r\nmeter.ppm=-3\nticks.wander_ppm = 0.5\nticks.start = 18446744073709551615\nplan.windows = 9"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Plan.Ops, want.Plan.Windows = []string{"ML-DSA-44/sign", "Ed25519/verify"}, 9
	want.Meter.PPM, want.Ticks.WanderPPM, want.Ticks.Start = -3, 0.5, math.MaxUint64
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"load.idle = 3", `x.scn:1: unknown key "load.idle"`},
		{"\nmeter = fast", `x.scn:2: unknown key "meter"`},
		{"meter.ppm = 1\n# again\nmeter.ppm = 2", "x.scn:3: meter.ppm is given twice, first in line 1"},
		{"meter.ppm", `x.scn:1: "meter.ppm" is not key = value`},
		{"meter.ppm = NaN", "x.scn:1: meter.ppm: NaN is not within"},
		{"meter.ppm = +Inf", "is not within"},
		{"meter.ppm = 5 ppm", "is not a number"},
		{"plan.windows = 2.5", "is not a whole number"},
		{"plan.windows = 0", "0 is not within 1 to 10000"},
		{"ticks.start = -1", "is not a whole number of at least 0"},
		{"meter.filter = gauss", `"gauss" is none of none, boxcar, one-pole`},
		{"meter.filter = boxcar", "needs meter.filter_seconds"},
		{"meter.accuracy = perfect", "meter.accuracy"},
		{"meter.accuracy = w=1%", "gives volts and amps"},
		{"plan.ops = ML-DSA-44/encaps", `no "ML-DSA-44/encaps" for rv32`},
		{"plan.ops = Ed25519/sign, Ed25519/sign", "given twice"},
		{"meter.driver = fnb48", "is none of direct, fnb58"},
		{"meter.driver = fnb58\nmeter.rate_hz = 50", "meter.rate_hz of 100"},
		{"device.stale = 1", "set meter.driver"},
		{"device.stale = 5", "is not within 0 to 4"},
		{"target = pdp11", `unknown target "pdp11"`},
		{"plan.n = 5\nplan.short_seconds = 1", "have one length"},
		{"faults.cut = 0.6\nfaults.merged = 0.6", "more than 1"},
	} {
		if _, err := Parse("x.scn", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v, want an error with %q", c.text, err, c.says)
		}
	}
}

// A load that the supply cannot deliver, or that is negative, is refused.
func TestImpossibleWorlds(t *testing.T) {
	s := Default()
	s.Supply.EMFVolts, s.Supply.Ohms = 0.1, 1
	if _, err := New(s, 1); err == nil || !strings.Contains(err.Error(), "cannot deliver") {
		t.Errorf("0.1 V behind 1 ohm: %v", err)
	}
	s = Default()
	s.Load.DriftWatts = -0.01
	if _, err := New(s, 1); err == nil || !strings.Contains(err.Error(), "not positive") {
		t.Errorf("an idle level that falls below zero: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("meter.ppm = 5\n"))
	f.Add([]byte("plan.ops = all\nmeter.filter = one-pole\nmeter.filter_seconds = 0.1\n"))
	f.Add([]byte("ticks.bits = 32\n=\n= =\n#"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("f", text)
		if err != nil {
			return
		}
		for _, m := range s.members() {
			if err := m.check(); err != nil {
				t.Errorf("%s was accepted: %v", m.key, err)
			}
		}
	})
}

func TestTable(t *testing.T) {
	rows, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]map[string]bool{}
	for _, r := range rows {
		if seen[r.Target] == nil {
			seen[r.Target] = map[string]bool{}
		}
		if seen[r.Target][r.Alg+"/"+r.Op] {
			t.Errorf("%s %s/%s stands twice", r.Target, r.Alg, r.Op)
		}
		seen[r.Target][r.Alg+"/"+r.Op] = true
		if r.Source == "" || !(r.Seconds > 0 && r.Watts > 0 && r.RelativeSD >= 0) {
			t.Errorf("bad row %+v", r)
		}
		target, err := findTarget(r.Target)
		if err != nil || target.Bits != r.Bits {
			t.Errorf("%s %s/%s: %d bits, target has %d: %v", r.Target, r.Alg, r.Op, r.Bits, target.Bits, err)
		}
		try, once := r.perTry()
		mean := once + try*max(r.Tries, 1)
		if r.Tries == 0 {
			mean = once
		}
		if once < 0 || try < 0 || math.Abs(mean-r.Seconds) > 1e-12 {
			t.Errorf("%s %s/%s: %g s once and %g s a try do not make %g s", r.Target, r.Alg, r.Op, once, try, r.Seconds)
		}
	}
	if len(seen) != len(Targets()) || !reflect.DeepEqual(seen["rv32"], seen["amd64"]) {
		t.Errorf("the targets have different operations: %v", seen)
	}
}
