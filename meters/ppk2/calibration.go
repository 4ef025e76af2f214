package ppk2

import (
	"bytes"
	"strconv"
	"strings"
)

// ranges is how many ranges of current the meter has, the most sensitive first.
const ranges = 5

// Calibration converts what the meter's converter gave into amperes, by range.
type Calibration struct {
	R      [ranges]float64 // shunt, ohm
	O      [ranges]float64 // offset of the converter, counts
	GS, GI [ranges]float64 // quadratic and linear gain, 1/A and 1
	S, I   [ranges]float64 // offset by volts of the supply and alone, A/V and A
	UG     [ranges]float64 // gain that the user has set
	Mode   int             // 1 is ampere mode, 2 source mode, 0 where it does not say
	// Missing are the constants that the meter did not tell, or not as numbers
	// that can be: they are those of an uncalibrated meter.
	Missing []string
}

// uncalibrated is what Nordic's program takes where the meter tells nothing
// (modifiers in serialDevice.ts).
var uncalibrated = Calibration{
	R:  [ranges]float64{1031.64, 101.65, 10.15, 0.94, 0.043},
	GS: [ranges]float64{1, 1, 1, 1, 1},
	GI: [ranges]float64{1, 1, 1, 1, 1},
	UG: [ranges]float64{1, 1, 1, 1, 1},
}

// constant is one of the calibration's by its name in the text, with its
// bounds: wide, but such that currents stay finite.
type constant struct {
	name        string
	of          func(*Calibration) *[ranges]float64
	least, most float64
}

var constants = []constant{
	{"R", func(c *Calibration) *[ranges]float64 { return &c.R }, 1e-3, 1e6},
	{"GS", func(c *Calibration) *[ranges]float64 { return &c.GS }, -1e6, 1e6},
	{"GI", func(c *Calibration) *[ranges]float64 { return &c.GI }, -1e3, 1e3},
	{"O", func(c *Calibration) *[ranges]float64 { return &c.O }, -1e6, 1e6},
	{"S", func(c *Calibration) *[ranges]float64 { return &c.S }, -10, 10},
	{"I", func(c *Calibration) *[ranges]float64 { return &c.I }, -10, 10},
	{"UG", func(c *Calibration) *[ranges]float64 { return &c.UG }, -1e3, 1e3},
}

// maxText bounds what is kept of the calibration's text, bytes; it has about 600.
const maxText = 1 << 16

var lastLine = []byte("END")

// ParseCalibration reads the text that answers a question for it: lines
// "Key: value", the last one END. What is left of a stream may stand before it.
// It is false where the text has not come to its end.
func ParseCalibration(text []byte) (Calibration, bool) {
	c := uncalibrated
	told := map[string]string{}
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		line = bytes.TrimRight(line, "\r ")
		if len(told) > 0 && bytes.HasPrefix(line, lastLine) {
			c.take(told)
			return c, true
		}
		if key, value, ok := keyValue(line); ok {
			told[key] = value
		}
	}
	return c, false
}

// keyValue splits a line whose key is known, whatever stands before it.
func keyValue(line []byte) (key, value string, ok bool) {
	before, after, ok := bytes.Cut(line, []byte(": "))
	if !ok {
		return "", "", false
	}
	for _, k := range keys {
		if bytes.HasSuffix(before, []byte(k)) && len(k) > len(key) {
			key = k
		}
	}
	return key, strings.TrimSpace(string(after)), key != ""
}

// keys are those that a text of a calibration may have.
var keys = func() []string {
	all := []string{"Calibrated", "VDD", "HW", "mode", "IA"}
	for _, c := range constants {
		for k := range ranges {
			all = append(all, c.name+strconv.Itoa(k))
		}
	}
	return all
}()

func (c *Calibration) take(told map[string]string) {
	for _, k := range constants {
		values := k.of(c)
		for i := range values {
			name := k.name + strconv.Itoa(i)
			v, err := strconv.ParseFloat(told[name], 64)
			if err != nil || !(v >= k.least && v <= k.most) {
				c.Missing = append(c.Missing, name)
				continue
			}
			values[i] = v
		}
	}
	if m, err := strconv.Atoi(told["mode"]); err == nil {
		c.Mode = m
	}
}

// countVolts is the voltage of one count of the converter, with its gain
// (adcMult in serialDevice.ts).
const countVolts = 1.8 / 163840

// converter is a calibration made ready for one voltage of the supply.
type converter [ranges]struct{ perCount, zero, square, linear, offset, gain float64 }

func (c Calibration) converter(supplyVolts float64) *converter {
	var v converter
	for k := range v {
		v[k].perCount = countVolts / c.R[k]
		v[k].zero = c.O[k]
		v[k].square, v[k].linear = c.GS[k], c.GI[k]
		v[k].offset = c.S[k]*supplyVolts + c.I[k]
		v[k].gain = c.UG[k]
	}
	return &v
}

// amps converts counts in a range (getAdcResult in serialDevice.ts; the worked
// sample of measurement.rs is in the tests).
func (v *converter) amps(counts float64, k int) float64 {
	c := &v[k]
	r := (counts - c.zero) * c.perCount
	return c.gain * (r*(c.square*r+c.linear) + c.offset)
}

// spikes replaces the samples after a change of range by a running mean, as
// serialDevice.ts does it.
type spikes struct {
	on          bool
	mean, mean4 float64 // running means; mean4 is that of the least sensitive range
	begun       bool
	last        int // range of the last sample
	left        int // samples still to be replaced
	since       int // the change
}

const (
	meanWeight     = 0.18 // of a new sample (spikeFilter in serialDevice.ts)
	mean4Weight    = 0.06
	replaced       = 3 // samples after a change of range
	ignored        = 2 // of those in the least sensitive range, for the mean
	leastSensitive = ranges - 1
)

func (s *spikes) filter(amps float64, k int) float64 {
	if !s.on {
		return amps
	}
	if !s.begun {
		s.begun, s.mean, s.mean4, s.last = true, amps, amps, k
		return amps
	}
	if k != s.last {
		s.last, s.left, s.since = k, replaced, 0
	}
	if s.left == 0 {
		s.mean += meanWeight * (amps - s.mean)
		s.mean4 += mean4Weight * (amps - s.mean4)
		return amps
	}
	s.left--
	if k != leastSensitive || s.since >= ignored {
		s.mean += meanWeight * (amps - s.mean)
		s.mean4 += mean4Weight * (amps - s.mean4)
	}
	s.since++
	if k == leastSensitive {
		return s.mean4
	}
	return s.mean
}

// reset forgets the mean, as after a start.
func (s *spikes) reset() { *s = spikes{on: s.on} }
