package imports

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

var (
	errNumber   = errors.New("is not a number")
	errMixed    = errors.New("mixes decimal points and decimal commas, or has thousands separators; export the file with plain decimals")
	errTooLarge = errors.New("is too large")
)

// pow10 holds the powers of ten that are exact in a float64.
var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// decimal is a number as written: (-1)^neg * mantissa * 10^exp, with the point
// that it was written with ('.', ',' or 0). Digits that mantissa cannot hold
// are dropped; it is above 2^60 then.
type decimal struct {
	mantissa uint64
	exp      int
	point    byte
	neg      bool
}

// scanDecimal reads a whole field as a number: sign, digits, point or comma,
// digits, exponent. Nothing else is a number: no hex, no underscores, no inf.
func scanDecimal(b []byte) (decimal, error) {
	var d decimal
	// Locals, which stay in registers: this is the hot loop of every import.
	i, mantissa, point, dropped := 0, uint64(0), -1, 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		d.neg = b[0] == '-'
		i = 1
	}
	start := i
	for ; i < len(b); i++ {
		c := b[i]
		if n := c - '0'; n <= 9 {
			if mantissa < (math.MaxUint64-9)/10 {
				mantissa = mantissa*10 + uint64(n)
			} else {
				dropped++
			}
			continue
		}
		if c != '.' && c != ',' {
			break
		}
		if point >= 0 {
			return d, errMixed
		}
		point, d.point = i, c
	}
	digits := i - start
	d.mantissa, d.exp = mantissa, dropped
	if point >= 0 {
		digits--
		d.exp -= i - point - 1
	}
	if digits == 0 {
		return d, errNumber
	}
	if i < len(b) {
		e, err := strconv.Atoi(string(b[i+1:]))
		if b[i] != 'e' && b[i] != 'E' || err != nil || e > 9999 || e < -9999 {
			return d, errNumber
		}
		d.exp += e
	}
	return d, nil
}

// float returns the float64 nearest to a number written as b, times 10^exp.
func (d decimal) float(b []byte, exp int) (float64, error) {
	d.exp += exp
	// Mantissa and power of ten are exact, so one operation rounds once
	// (W. D. Clinger, How to Read Floating Point Numbers Accurately, 1990).
	if d.mantissa < 1<<53 && d.exp >= -22 && d.exp <= 22 {
		v := float64(d.mantissa)
		if d.exp < 0 {
			v /= pow10[-d.exp]
		} else {
			v *= pow10[d.exp]
		}
		if d.neg {
			v = -v
		}
		return v, nil
	}
	s := string(b)
	if d.point == ',' {
		c := []byte(s)
		for i := range c {
			if c[i] == ',' {
				c[i] = '.'
			}
		}
		s = string(c)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errTooLarge
	}
	return v * math.Pow10(exp), nil
}

// nanos returns a number in units of 10^exp seconds as whole nanoseconds,
// rounded. It does not go through a float64, whose steps are 240 ns at the
// epoch seconds of today.
func (d decimal) nanos(exp int) (int64, error) {
	e := d.exp + exp + 9
	m := d.mantissa
	switch {
	case m == 0:
		return 0, nil
	case e < -19:
		return 0, nil
	case e < 0:
		div := uint64(math.Pow10(min(-e, 18)))
		if e == -19 {
			m /= 10
		}
		m = m/div + (m%div)/((div+1)/2)
	case e > 18:
		return 0, errTooLarge
	default:
		hi, lo := bits.Mul64(m, uint64(math.Pow10(e)))
		if hi != 0 {
			return 0, errTooLarge
		}
		m = lo
	}
	if m > math.MaxInt64 {
		return 0, errTooLarge
	}
	if d.neg {
		return -int64(m), nil
	}
	return int64(m), nil
}

// parseStamp reads an RFC 3339 time (a space may stand for the T) as ns since
// 1970. A local one has no time zone and is taken as UTC.
func parseStamp(s string, local bool) (int64, error) {
	if local && len(s) > 10 && !strings.ContainsAny(s[10:], "Zz+-") {
		s += "Z"
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t, err = time.Parse("2006-01-02 15:04:05.999999999Z07:00", s)
	}
	if err != nil {
		if _, zoneless := time.Parse("2006-01-02T15:04:05", s[:min(len(s), 10)]+"T"+s[min(len(s), 11):]); zoneless == nil {
			return 0, errors.New("has no time zone: add Z or an offset such as +02:00")
		}
		return 0, errors.New("is no time (RFC 3339, such as 2026-01-31T12:00:00.5Z)")
	}
	if y := t.Year(); y < 1970 || y > 2200 {
		return 0, errors.New("lies outside the years 1970 to 2200")
	}
	return t.UnixNano(), nil
}

// missing reports whether a field says that there is no value.
func missing(b []byte) bool {
	if len(b) > 4 || len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		return false
	}
	switch string(b) {
	case "", "-", "--", "nan", "NaN", "NAN", "Nan", "-nan", "NA", "N/A", "n/a", "null", "NULL", "none", "None":
		return true
	}
	return false
}
