package imports

import (
	"bytes"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// sumCheck compares a running column of a file (energy or charge) with the
// integral of the samples. The column is never used for anything else. How the
// tool integrated is not known, so the integral lies between bounds: each
// interval counts with the smaller and the larger value at its ends.
type sumCheck struct {
	column  column
	factors []column // whose product is integrated

	rows    int
	restart bool // the row before has no value
	ns      int64
	value   float64 // product at the row before
	total   float64 // column at the row before

	gained    float64 // by the column, over the intervals that count
	low, high float64 // bounds of the integral over them
	intervals int
	pieces    int     // runs of intervals
	digit     float64 // one unit of the last decimal of the column
	gains     []float64
	resets    int
}

// newSumChecks makes the checks of the running columns that a table has, for
// power made of the given columns. Charge needs a column of amps.
func (t *table) newSumChecks(power []column) []*sumCheck {
	var checks []*sumCheck
	amps, _ := t.pick(meters.Amps)
	for _, c := range t.header {
		switch {
		case c.wrong != nil:
		case c.quantity == energyOf:
			checks = append(checks, &sumCheck{column: c, factors: power})
		case c.quantity == chargeOf && amps != nil && amps.wrong == nil:
			checks = append(checks, &sumCheck{column: c, factors: []column{*amps}})
		}
	}
	return checks
}

// add takes the current row of a table, at a time of the sample clock.
func (s *sumCheck) add(t *table, ns int64) error {
	value, have := 1.0, true
	for i := range s.factors {
		v, ok, err := t.float(&s.factors[i])
		if err != nil {
			return err
		}
		value, have = value*v, have && ok
	}
	total, ok, err := t.float(&s.column)
	if err != nil {
		return err
	}
	if !ok || !have {
		s.restart = true
		return nil
	}
	if d := s.column.scale * math.Pow10(-decimals(t.field(s.column.index).text)); s.rows == 0 || d < s.digit {
		s.digit = d
	}
	if s.rows > 0 && total < s.total {
		s.resets++
		s.restart = true
	}
	if s.rows > 0 && !s.restart {
		s.interval(float64(ns-s.ns)/1e9, value, total-s.total)
	} else {
		s.pieces++
	}
	s.rows, s.restart = s.rows+1, false
	s.ns, s.value, s.total = ns, value, total
	return nil
}

// interval adds the time since the row before.
func (s *sumCheck) interval(seconds, value, gained float64) {
	s.intervals++
	s.gained += gained
	s.low += seconds * min(s.value, value)
	s.high += seconds * max(s.value, value)
	if len(s.gains) < maxGains {
		s.gains = append(s.gains, gained)
	}
}

const (
	// minGains and maxGains are how many gains tell whether a column moves in
	// steps: few have a common divisor by chance.
	minGains, maxGains = 8, 256
	// coarseSteps is how few steps make a running column poor evidence.
	coarseSteps = 100
)

// step is what the column moves in multiples of: 3.6 J for a counter of whole
// mWh, one unit of its last decimal at least. Where all gains are equal, as for
// constant power, or there are few, they say nothing.
func (s *sumCheck) step() float64 {
	noise := 1.5 * s.digit // a gain is the difference of two rounded numbers
	step, differ := 0.0, false
	for _, g := range s.gains {
		differ = differ || math.Abs(g-s.gains[0]) > noise
		for a, b := step, g; ; {
			if b <= noise {
				step = a
				break
			}
			rest := math.Mod(a, b)
			if b-rest <= noise {
				rest = 0
			}
			a, b = b, rest
		}
	}
	if !differ || len(s.gains) < minGains {
		return s.digit
	}
	return max(step, s.digit)
}

// pointShare is how far, in parts of it, a sum that a meter runs all the time
// may lie from samples that were read now and then.
const pointShare = 0.01

// note says how the column compares with the samples; false where there is
// nothing to say.
func (s *sumCheck) note() (run.Note, bool) {
	if s.intervals == 0 {
		return run.Note{}, false
	}
	unit := bases[s.column.quantity]
	n := run.Note{Code: s.column.quantity + "-column", Count: 1}
	// A piece may begin and end anywhere within a step; six digits are what the
	// tools keep of a long sum.
	step := s.step()
	tolerance := 2*float64(s.pieces)*step + pointShare*math.Abs(s.gained) + 1e-5*math.Abs(s.total)
	switch {
	case s.gained < s.low-tolerance || s.gained > s.high+tolerance:
		n.Warn = true
		n.Text = fmt.Sprintf("the column %q grows by %.6g %s, but the samples give %.6g to %.6g %s; results come from the samples alone",
			s.column.name, s.gained, unit, s.low, s.high, unit)
	case s.gained < coarseSteps*step:
		n.Code, n.Warn = "coarse-"+s.column.quantity, s.column.quantity == energyOf
		n.Text = fmt.Sprintf("the column %q moves in steps of %.4g %s and grows by %.6g %s, so it says little; the samples give %.6g to %.6g %s, and results come from them alone",
			s.column.name, step, unit, s.gained, unit, s.low, s.high, unit)
	default:
		n.Text = fmt.Sprintf("the column %q grows by %.6g %s; the samples give %.6g to %.6g %s, which agrees within its resolution", s.column.name, s.gained, unit, s.low, s.high, unit)
	}
	if s.resets > 0 {
		n.Text += fmt.Sprintf(" (it was set back %d times)", s.resets)
	}
	return n, true
}

// decimals counts the digits behind the point of a number as written.
func decimals(b []byte) int {
	i := bytes.IndexAny(b, ".,")
	if i < 0 {
		return 0
	}
	n := 0
	for _, c := range b[i+1:] {
		if c < '0' || c > '9' {
			break
		}
		n++
	}
	return n
}

// noteSums writes what the checks found.
func (j *job) noteSums(checks []*sumCheck) error {
	for _, s := range checks {
		n, ok := s.note()
		if !ok {
			continue
		}
		if err := j.note(n); err != nil {
			return err
		}
	}
	return nil
}
