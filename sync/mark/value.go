package mark

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxCount bounds numbers of operations, windows and bytes, so that they
// survive float64 and JSON.
const maxCount = 1 << 53

// maxMicros bounds durations in microseconds (11.5 days), so that they
// survive conversion to nanoseconds.
const maxMicros = 1e12

// Uint returns the value of a key that holds an unsigned decimal integer. The
// error names kind and key if it is missing or anything else.
func (s Statement) Uint(key string) (uint64, error) {
	text, err := s.need(key)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, s.bad(key, "is not an unsigned integer of 64 bits")
	}
	return v, nil
}

// Int returns the value of a key that holds a decimal integer with or without
// a minus sign.
func (s Statement) Int(key string) (int64, error) {
	text, err := s.need(key)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' {
		return 0, s.bad(key, "is not an integer of 64 bits")
	}
	return v, nil
}

// Float returns the value of a key that holds a finite decimal number.
func (s Statement) Float(key string) (float64, error) {
	text, err := s.need(key)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.eE+-") != "" || math.IsInf(v, 0) {
		return 0, s.bad(key, "is not a decimal number")
	}
	return v, nil
}

func (s Statement) need(key string) (string, error) {
	v, ok := s.Get(key)
	if !ok {
		return "", fmt.Errorf("%s statement: no %s=", s.Kind, key)
	}
	return v, nil
}

func (s Statement) bad(key, what string) error {
	v, _ := s.Get(key)
	return fmt.Errorf("%s statement: %s=%q %s", s.Kind, key, v, what)
}

// view reads the keys of one statement and keeps the first error.
type view struct {
	s   Statement
	err error
}

func open(s Statement, command bool, kind string) *view {
	v := &view{s: s}
	if s.Kind != kind || s.Command != command {
		v.err = fmt.Errorf("%q is not a %s statement", s.Kind, opening(command)+kind)
	}
	return v
}

func (v *view) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

func (v *view) has(key string) bool {
	_, ok := v.s.Get(key)
	return ok
}

// text returns a value that may be missing.
func (v *view) text(key string) string {
	t, _ := v.s.Get(key)
	return t
}

// word returns a value that must be there and not empty.
func (v *view) word(key string) string {
	t := v.text(key)
	if t == "" {
		v.fail(fmt.Errorf("%s statement: no %s=", v.s.Kind, key))
	}
	return t
}

// integer returns an integer that must be there, within [lo, hi].
func (v *view) integer(key string, lo, hi int64) int64 {
	n, err := v.s.Int(key)
	if err == nil && (n < lo || n > hi) {
		err = v.s.bad(key, fmt.Sprintf("is not within %d to %d", lo, hi))
	}
	if err != nil {
		v.fail(err)
	}
	return n
}

// optional returns an integer within [lo, hi], or nil where the key is missing.
func (v *view) optional(key string, lo, hi int64) *int64 {
	if !v.has(key) {
		return nil
	}
	n := v.integer(key, lo, hi)
	return &n
}

func (v *view) micros(key string) int64 { return v.integer(key, 0, maxMicros) }

// ticks returns a reading of the target's clock.
func (v *view) ticks(key string) uint64 {
	t, err := v.s.Uint(key)
	if err != nil {
		v.fail(err)
	}
	return t
}

// real returns a number of at least 0 that must be there.
func (v *view) real(key string) float64 {
	f, err := v.s.Float(key)
	if err == nil && f < 0 {
		err = v.s.bad(key, "is negative")
	}
	if err != nil {
		v.fail(err)
	}
	return f
}

// frequency returns a frequency in Hz, 0 where the key is missing.
func (v *view) frequency(key string) float64 {
	if !v.has(key) {
		return 0
	}
	f := v.real(key)
	if !(f > 0 && f <= 1e12) {
		v.fail(v.s.bad(key, "is not a frequency above 0 and up to 1e12 Hz"))
	}
	return f
}

func (s *Statement) add(key, value string) {
	s.Fields = append(s.Fields, Field{key, value})
}

// addText adds a value unless it is empty.
func (s *Statement) addText(key, value string) {
	if value != "" {
		s.add(key, value)
	}
}

func (s *Statement) addInt(key string, v int64)     { s.add(key, strconv.FormatInt(v, 10)) }
func (s *Statement) addTicks(key string, v uint64)  { s.add(key, strconv.FormatUint(v, 10)) }
func (s *Statement) addFloat(key string, v float64) { s.add(key, strconv.FormatFloat(v, 'f', -1, 64)) }

// addOptional adds a value that is known.
func (s *Statement) addOptional(key string, v *int64) {
	if v != nil {
		s.addInt(key, *v)
	}
}
