// Package si prints and parses quantities with SI prefixes. Inside the
// program every quantity is a float64 in its base unit; prefixes exist only
// where something is printed or read.
package si

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var prefixes = []struct {
	symbol string
	ascii  string
	scale  float64
}{
	{"T", "T", 1e12}, {"G", "G", 1e9}, {"M", "M", 1e6}, {"k", "k", 1e3}, {"", "", 1},
	{"m", "m", 1e-3}, {"µ", "u", 1e-6}, {"n", "n", 1e-9}, {"p", "p", 1e-12}, {"f", "f", 1e-15},
}

// Format prints value (in unit, a base unit) with digits significant digits
// and the prefix that leaves one to three digits before the point:
// Format(0.00427, "J", 3) is "4.27 mJ". Without a unit it takes no prefix.
func Format(value float64, unit string, digits int) string {
	return format(value, unit, digits, false)
}

// ASCII is Format with u for µ.
func ASCII(value float64, unit string, digits int) string {
	return format(value, unit, digits, true)
}

func format(value float64, unit string, digits int, ascii bool) string {
	if unit == "" { // a bare number takes no prefix
		return Digits(value, digits)
	}
	scale, prefix := Prefix(value, digits)
	if ascii && prefix == "µ" {
		prefix = "u"
	}
	return Digits(value/scale, digits) + " " + prefix + unit
}

// Prefix picks the prefix for a value once it is rounded to digits: the scale
// by which to divide, and the symbol.
func Prefix(value float64, digits int) (scale float64, symbol string) {
	a := math.Abs(value)
	if a == 0 || math.IsNaN(a) || math.IsInf(a, 0) {
		return 1, ""
	}
	for _, p := range prefixes {
		// Rounding may carry: 0.99996 with four digits is 1.000.
		r, err := strconv.ParseFloat(strconv.FormatFloat(a/p.scale, 'e', max(digits, 1)-1, 64), 64)
		if err == nil && r >= 1 {
			return p.scale, p.symbol
		}
	}
	last := prefixes[len(prefixes)-1]
	return last.scale, last.symbol
}

// Digits prints v with the given number of significant digits, never in
// exponent form.
func Digits(v float64, digits int) string {
	if v == 0 {
		return "0" // never "-0"
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	e := strconv.FormatFloat(v, 'e', max(digits, 1)-1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	return strconv.FormatFloat(v, 'f', max(digits-1-exp, 0), 64)
}

// A Unit is a unit as written, such as "mA" or "Wh": what it measures in SI
// base units, and the factor from the written unit to the base unit.
type Unit struct {
	Base  string  // V, A, W, J, C, s, Hz, degC, ohm
	Scale float64 // value in Base = value as written * Scale
}

var bases = map[string]Unit{
	"V": {"V", 1}, "A": {"A", 1}, "W": {"W", 1}, "J": {"J", 1}, "Ws": {"J", 1},
	"Wh": {"J", 3600}, "C": {"C", 1}, "As": {"C", 1}, "Ah": {"C", 3600},
	"s": {"s", 1}, "Hz": {"Hz", 1}, "degC": {"degC", 1}, "°C": {"degC", 1},
	"ohm": {"ohm", 1}, "Ω": {"ohm", 1}, "\u2126": {"ohm", 1},
}

// ParseUnit reads a unit with an optional prefix. Case matters for prefixes
// (m and M differ by 10^9).
func ParseUnit(s string) (Unit, error) {
	if u, ok := bases[s]; ok {
		return u, nil
	}
	for _, p := range prefixes {
		for _, symbol := range []string{p.symbol, p.ascii, "μ"} {
			if symbol == "μ" && p.ascii != "u" { // U+03BC, the Greek letter
				continue
			}
			rest, ok := strings.CutPrefix(s, symbol)
			if u, known := bases[rest]; ok && symbol != "" && known {
				return Unit{u.Base, u.Scale * p.scale}, nil
			}
		}
	}
	return Unit{}, fmt.Errorf("unknown unit %q", s)
}

// Parse reads a quantity such as "20uV", "1.5 mA" or "5e-3 A" that must be in
// the given base unit, and returns it in that unit. The number is a plain
// decimal with an optional exponent (e or E); NaN, infinities and numbers that
// do not fit a float64 are refused.
func Parse(s, base string) (float64, error) {
	t := strings.TrimSpace(s)
	i := numberLen(t)
	if i == 0 {
		return 0, fmt.Errorf("%q is not a number and a unit of %s", s, base)
	}
	name := strings.TrimSpace(t[i:])
	if name == "" {
		return 0, fmt.Errorf("%q has no unit (want %s)", s, base)
	}
	u, err := ParseUnit(name)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", s, err)
	}
	if u.Base != base {
		return 0, fmt.Errorf("%q is in %s, not in %s", s, u.Base, base)
	}
	v, err := strconv.ParseFloat(t[:i], 64)
	if v *= u.Scale; err != nil || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return v, nil
}

// numberLen returns the length of the decimal number that s begins with, 0 if
// there is none. An e belongs to the number only where digits follow it.
func numberLen(s string) int {
	i := signLen(s)
	whole := digitsLen(s[i:])
	i += whole
	fraction := 0
	if i < len(s) && s[i] == '.' {
		fraction = digitsLen(s[i+1:])
		i += 1 + fraction
	}
	if whole+fraction == 0 {
		return 0
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1 + signLen(s[i+1:])
		if n := digitsLen(s[j:]); n > 0 {
			return j + n
		}
	}
	return i
}

func signLen(s string) int {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		return 1
	}
	return 0
}

func digitsLen(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
