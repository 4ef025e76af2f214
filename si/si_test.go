package si

import (
	"math"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		value  float64
		unit   string
		digits int
		want   string
	}{
		{0.00427, "J", 3, "4.27 mJ"},
		{12.5e-6, "s", 3, "12.5 µs"},
		{0, "W", 3, "0 W"},
		{math.Copysign(0, -1), "W", 3, "0 W"},
		{1, "V", 3, "1.00 V"},
		{-0.0123456, "A", 4, "-12.35 mA"},
		{0.99996, "V", 4, "1.000 V"}, // rounding carries into the next prefix
		{0.99996e-3, "V", 4, "1.000 mV"},
		{999.4, "V", 3, "999 V"},
		{999.6, "V", 3, "1.00 kV"},
		{1e-15, "J", 2, "1.0 fJ"},
		{1e-18, "J", 2, "0.0010 fJ"},
		{3.2e14, "Hz", 2, "320 THz"},
		{5, "V", 0, "5 V"},
		{math.NaN(), "V", 3, "NaN V"},
		{math.Inf(-1), "V", 3, "-Inf V"},
	} {
		if got := Format(c.value, c.unit, c.digits); got != c.want {
			t.Errorf("Format(%v, %q, %d) = %q, want %q", c.value, c.unit, c.digits, got, c.want)
		}
	}
	if got := ASCII(12.5e-6, "s", 3); got != "12.5 us" {
		t.Errorf("ASCII = %q", got)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, base string
		want     float64
	}{
		{"20uV", "V", 20e-6},
		{"20 µV", "V", 20e-6}, // U+00B5, the micro sign
		{"20 μV", "V", 20e-6}, // U+03BC, the Greek letter
		{"1.5 mA", "A", 1.5e-3},
		{"5e-3 mA", "A", 5e-6},
		{"1e3uV", "V", 1e-3},
		{"1E6 A", "A", 1e6},
		{"1e+2V", "V", 100},
		{" 3 V ", "V", 3},
		{"-2kW", "W", -2000},
		{"+.5V", "V", 0.5},
		{"5.V", "V", 5},
		{"2 Wh", "J", 7200},
		{"10mAh", "C", 36},
		{"4.7 Ws", "J", 4.7},
		{"25 °C", "degC", 25},
		{"100MHz", "Hz", 1e8},
	} {
		got, err := Parse(c.in, c.base)
		if err != nil || math.Abs(got-c.want) > 1e-15*math.Abs(c.want) {
			t.Errorf("Parse(%q, %q) = %v, %v, want %v", c.in, c.base, got, err, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ in, base, want string }{
		{"", "V", `"" is not a number and a unit of V`},
		{"V", "V", `"V" is not a number and a unit of V`},
		{".V", "V", `".V" is not a number and a unit of V`},
		{"NaN V", "V", `"NaN V" is not a number and a unit of V`},
		{"Inf V", "V", `"Inf V" is not a number and a unit of V`},
		{"5", "V", `"5" has no unit (want V)`},
		{"1e3", "V", `"1e3" has no unit (want V)`},
		{"5 e V", "V", `"5 e V": unknown unit "e V"`},
		{"5 m", "V", `"5 m": unknown unit "m"`},
		{"5 mA", "V", `"5 mA" is in A, not in V`},
		{"0x10 V", "V", `"0x10 V": unknown unit "x10 V"`},
		{"1_000 V", "V", `"1_000 V": unknown unit "_000 V"`},
		{"1e999 V", "V", `"1e999 V" is out of range`},
		{"1e308 kV", "V", `"1e308 kV" is out of range`},
	} {
		_, err := Parse(c.in, c.base)
		if err == nil || err.Error() != c.want {
			t.Errorf("Parse(%q, %q): error %v, want %s", c.in, c.base, err, c.want)
		}
	}
}

func TestParseUnit(t *testing.T) {
	for in, want := range map[string]Unit{
		"V": {"V", 1}, "mA": {"A", 1e-3}, "MA": {"A", 1e6}, "uWh": {"J", 3600e-6},
		"Ah": {"C", 3600}, "ms": {"s", 1e-3}, "kHz": {"Hz", 1e3},
	} {
		if got, err := ParseUnit(in); err != nil || got.Base != want.Base || math.Abs(got.Scale-want.Scale) > 1e-15*want.Scale {
			t.Errorf("ParseUnit(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "v", "m", "mm", "kmV", "V ", "VA"} {
		if got, err := ParseUnit(in); err == nil {
			t.Errorf("ParseUnit(%q) = %v, want an error", in, got)
		}
	}
}

// FuzzParse: what is accepted is finite, and prints as something that parses
// to the same value within the printed digits.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"20uV", "1e3 mV", "-.5 kV", "1E-400 V", "5 µV", "1e3e3V", "9e307MV"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := Parse(s, "V")
		if err != nil {
			return
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("Parse(%q) = %v", s, v)
		}
		if v != 0 && (math.Abs(v) < 1e-15 || math.Abs(v) >= 1e15) {
			return // outside the prefixes digits are lost
		}
		printed := ASCII(v, "V", 9)
		back, err := Parse(printed, "V")
		if err != nil || math.Abs(back-v) > 1e-8*math.Abs(v) {
			t.Fatalf("Parse(%q) = %v, printed %q, read back %v, %v", s, v, printed, back, err)
		}
		if strings.ContainsAny(printed, "eE") {
			t.Fatalf("%q has an exponent", printed)
		}
	})
}
