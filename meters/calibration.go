package meters

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Estimate is a value with its standard uncertainty.
type Estimate struct {
	Value float64 `json:"value"`
	U     float64 `json:"u"`
}

// Calibration is what known loads showed of the readings of one meter. It
// belongs to that meter, by the name that a person gave it: serial numbers of
// cheap meters are not unique.
type Calibration struct {
	Name   string `json:"name"`
	Date   string `json:"date,omitempty"` // of the fit, 2006-01-02
	Driver string `json:"driver,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	// Reference says what the values were known from: the instrument, its own
	// calibration, the data sheet.
	Reference string `json:"reference,omitempty"`
	// Corrections by quantity; nil where there is none.
	Volts *Correction `json:"volts,omitempty"`
	Amps  *Correction `json:"amps,omitempty"`
	Watts *Correction `json:"watts,omitempty"`
}

// Correction turns readings of one quantity into values,
//
//	value = Gain*reading + Offset
//
// Offsets, Linearity, From and To are in the quantity's base unit.
type Correction struct {
	Gain   float64 `json:"gain"`
	Offset float64 `json:"offset"`
	// UGain, UOffset and Covariance are what noise and residuals of the points
	// leave in doubt (standard uncertainties, normal).
	UGain      float64 `json:"u_gain"`
	UOffset    float64 `json:"u_offset"`
	Covariance float64 `json:"covariance"`
	// Reference bounds the error of the known values, the same in all of them:
	// rectangular half widths.
	Reference Limit `json:"reference_limit"`
	// Linearity is how far a value may lie off the line between the points: a
	// rectangular half width. It is 0 where the points show nothing, or are only
	// two, which always lie on a line.
	Linearity float64 `json:"linearity"`
	// From and To are the lowest and the highest reading of the points.
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Points int     `json:"points"`
	// ChiSquare is the weighted sum of squares of the residuals, which has
	// Points-2 degrees of freedom.
	ChiSquare float64 `json:"chi_square"`
}

// Apply corrects readings in place.
func (c *Correction) Apply(readings []float64) {
	if c == nil {
		return
	}
	for i := range readings {
		readings[i] = c.Gain*readings[i] + c.Offset
	}
}

// Of returns the correction of a column, nil where there is none.
func (c *Calibration) Of(column string) *Correction {
	if c == nil {
		return nil
	}
	return map[string]*Correction{Volts: c.Volts, Amps: c.Amps, Watts: c.Watts}[column]
}

// AgeDays counts the days from the calibration to a time of RFC 3339; not ok
// where one of the two is not known.
func (c *Calibration) AgeDays(at string) (days int, ok bool) {
	from, err := time.Parse(time.DateOnly, c.Date)
	if err != nil {
		return 0, false
	}
	to, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0, false
	}
	return int(to.Sub(from).Hours() / 24), true
}

// Bounds of what may be a calibration: beyond them something else is wrong
// with a meter.
const (
	leastGain, mostGain = 0.5, 2.0
	mostText            = 1000 // bytes of a member
)

// Check reports why a calibration cannot be one.
func (c *Calibration) Check() error {
	if c.Volts == nil && c.Amps == nil && c.Watts == nil {
		return errors.New("calibration: it corrects nothing")
	}
	if err := checkTexts(c.Name, c.Date, c.Driver, c.Model, c.Serial, c.Reference); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	for _, q := range []struct {
		name string
		c    *Correction
	}{{Volts, c.Volts}, {Amps, c.Amps}, {Watts, c.Watts}} {
		if q.c == nil {
			continue
		}
		if err := q.c.check(); err != nil {
			return fmt.Errorf("calibration of %s: %w", q.name, err)
		}
	}
	return nil
}

func (c *Correction) check() error {
	switch {
	case !(c.Gain >= leastGain && c.Gain <= mostGain):
		return fmt.Errorf("gain %v is not within %g to %g", c.Gain, leastGain, mostGain)
	case !(math.Abs(c.Offset) <= maxOffset):
		return fmt.Errorf("offset %v is out of range", c.Offset)
	case !(c.From <= c.To && math.Abs(c.From) <= maxOffset && math.Abs(c.To) <= maxOffset):
		return fmt.Errorf("range from %v to %v is none", c.From, c.To)
	case c.Points < 1:
		return fmt.Errorf("it rests on %d points", c.Points)
	case !(math.Abs(c.Covariance) <= 1.001*c.UGain*c.UOffset):
		return fmt.Errorf("covariance %v does not belong to its uncertainties", c.Covariance)
	}
	for _, v := range []float64{c.UGain, c.UOffset, c.Reference.Gain, c.Reference.Offset, c.Linearity} {
		if !(v >= 0 && v <= maxOffset) {
			return fmt.Errorf("uncertainty %v is out of range", v)
		}
	}
	if !(c.ChiSquare >= 0) || math.IsInf(c.ChiSquare, 0) {
		return fmt.Errorf("chi square %v is out of range", c.ChiSquare)
	}
	return nil
}

func checkTexts(texts ...string) error {
	for _, s := range texts {
		if len(s) > mostText {
			return fmt.Errorf("a text of %d bytes, at most %d", len(s), mostText)
		}
	}
	return nil
}

// Characterisation is what a recording showed of a meter. What it could not
// show is nil, or "".
type Characterisation struct {
	Name   string `json:"name"`
	Date   string `json:"date,omitempty"` // of the evaluation, 2006-01-02
	Driver string `json:"driver,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	Run    string `json:"run,omitempty"` // the recording

	// RateHz is samples a host second, ConversionsHz those of them that are
	// new, and EffectiveHz independent values.
	RateHz        *Estimate `json:"rate_hz,omitempty"`
	ConversionsHz *Estimate `json:"conversions_hz,omitempty"`
	EffectiveHz   *Estimate `json:"effective_hz,omitempty"`
	// Values says how samples hang together: independent, repeated,
	// interpolated, correlated.
	Values string     `json:"values,omitempty"`
	Sample SampleKind `json:"sample,omitempty"`
	// ResponseSeconds is the 10-90 % time of meter and target together.
	ResponseSeconds *Estimate `json:"response_s,omitempty"`
	// NoiseWatts is the standard deviation of a sample of steady power, of
	// meter and target together.
	NoiseWatts *Estimate `json:"noise_w,omitempty"`
	Duty       *Residual `json:"duty,omitempty"`
	// Celsius is the meter's temperature, where it gives one.
	Celsius *Estimate `json:"celsius,omitempty"`
}

// Residual is what a duty-cycle self-test left over of mean power: a
// rectangular half width, relative.
type Residual struct {
	Limit       float64 `json:"relative_limit"`
	Significant bool    `json:"significant"` // p is below 5 %
	P           float64 `json:"p"`
	Windows     int     `json:"windows"`
}

// Check reports why a characterisation cannot be one.
func (c *Characterisation) Check() error {
	if err := checkTexts(c.Name, c.Date, c.Driver, c.Model, c.Serial, c.Run, c.Values, string(c.Sample)); err != nil {
		return fmt.Errorf("characterisation: %w", err)
	}
	for _, e := range []*Estimate{c.RateHz, c.ConversionsHz, c.EffectiveHz, c.ResponseSeconds, c.NoiseWatts} {
		if e != nil && !(e.Value >= 0 && e.Value <= math.MaxFloat32 && e.U >= 0 && e.U <= math.MaxFloat32) {
			return fmt.Errorf("characterisation: %v with the uncertainty %v is out of range", e.Value, e.U)
		}
	}
	if e := c.Celsius; e != nil && !(math.Abs(e.Value) <= 1000 && e.U >= 0 && e.U <= 1000) {
		return fmt.Errorf("characterisation: %v degrees Celsius is out of range", e.Value)
	}
	if d := c.Duty; d != nil && !(d.Limit >= 0 && d.Limit <= mostGain && d.P >= 0 && d.P <= 1 && d.Windows >= 0) {
		return fmt.Errorf("characterisation: a residual of %v, p = %v, is out of range", d.Limit, d.P)
	}
	return nil
}
