package meters

import (
	"math"
	"testing"
)

func TestParseAccuracy(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string // as String prints it
	}{
		{"exact", "exact"},
		{"unknown", "unknown"},
		{"", "unknown"},
		{"v=0.5%+20uV,a=0.5%+20uA", "v=0.5%+20uV,a=0.5%+20uA"},
		{"a=20uA+0.5%, v = 0.5 % + 20 µV", "v=0.5%+20uV,a=0.5%+20uA"},
		{"w=1%+1mW", "w=1%+1mW"},
		{"v=0.5%,a=1e-3mA", "v=0.5%,a=1uA"},
		{"v=0%,a=0A", "v=0%,a=0%"},
		{"w=100%", "w=100%"},
	} {
		a, err := ParseAccuracy(c.in)
		if err != nil || a.String() != c.want {
			t.Errorf("ParseAccuracy(%q) = %q, %v, want %q", c.in, a, err, c.want)
		}
	}
	a, err := ParseAccuracy("v=0.5%+20uV,a=2mA")
	if err != nil || math.Abs(a.Volts.Gain-0.005) > 1e-18 || math.Abs(a.Volts.Offset-20e-6) > 1e-18 ||
		a.Amps.Gain != 0 || math.Abs(a.Amps.Offset-0.002) > 1e-18 || a.Watts != nil {
		t.Errorf("limits are %+v %+v, %v", a.Volts, a.Amps, err)
	}
}

func TestParseAccuracyErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"good", `accuracy "good": "good" is not NAME=LIMIT`},
		{"x=1%", `accuracy "x=1%": "x" is none of v, a, w`},
		{"v=1%,v=2%", `accuracy "v=1%,v=2%": v is given twice`},
		{"v=1%+2%", `accuracy "v=1%+2%": "2%" is not one gain between 0% and 100%`},
		{"v=-1%", `accuracy "v=-1%": "-1%" is not one gain between 0% and 100%`},
		{"v=NaN%", `accuracy "v=NaN%": "NaN%" is not one gain between 0% and 100%`},
		{"v=101%", `accuracy "v=101%": "101%" is not one gain between 0% and 100%`},
		{"v=1mV+1mV", `accuracy "v=1mV+1mV": "1mV" is not one offset between 0 and 1e+06 V`},
		{"v=-1mV", `accuracy "v=-1mV": "-1mV" is not one offset between 0 and 1e+06 V`},
		{"v=2MV", `accuracy "v=2MV": "2MV" is not one offset between 0 and 1e+06 V`},
		{"v=1mA", `accuracy "v=1mA": "1mA" is in A, not in V`},
		{"v=", `accuracy "v=": "" is not a number and a unit of V`},
		{"v=5", `accuracy "v=5": "5" has no unit (want V)`},
	} {
		if _, err := ParseAccuracy(c.in); err == nil || err.Error() != c.want {
			t.Errorf("ParseAccuracy(%q): error %v, want %s", c.in, err, c.want)
		}
	}
}

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		spec         string
		power, known bool
	}{
		{"exact", true, true}, {"exact", false, true}, {"unknown", true, false},
		{"v=1%,a=1%", false, true}, {"v=1%,a=1%", true, false}, {"v=1%", false, false}, {"w=1%", true, true},
	} {
		a, err := ParseAccuracy(c.spec)
		if err != nil || a.Known(c.power) != c.known {
			t.Errorf("%q: Known(%v) = %v, %v, want %v", c.spec, c.power, a.Known(c.power), err, c.known)
		}
	}
}

// FuzzParseAccuracy: what String prints is read back as the same accuracy.
func FuzzParseAccuracy(f *testing.F) {
	for _, s := range []string{"exact", "v=0.5%+20uV,a=0.5%+20uA", "w=1%+1mW", "v=99.99999%", "a=1e-20A", "v=1e6V"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAccuracy(s)
		if err != nil {
			return
		}
		printed := a.String()
		back, err := ParseAccuracy(printed)
		if err != nil || back.String() != printed {
			t.Fatalf("%q prints as %q, which reads as %q, %v", s, printed, back, err)
		}
	})
}
