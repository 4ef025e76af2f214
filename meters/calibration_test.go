package meters

import (
	"math"
	"strings"
	"testing"
)

func TestCorrectionApplies(t *testing.T) {
	c := &Calibration{Amps: &Correction{Gain: 1.01, Offset: -0.002}}
	v := []float64{0, 1, math.NaN()}
	c.Of(Amps).Apply(v)
	if v[0] != -0.002 || math.Abs(v[1]-1.008) > 1e-15 || !math.IsNaN(v[2]) {
		t.Error(v)
	}
	// What is not corrected stays, and no calibration corrects nothing.
	w := []float64{3}
	c.Of(Volts).Apply(w)
	(*Calibration)(nil).Of(Amps).Apply(w)
	if w[0] != 3 || c.Of("celsius") != nil {
		t.Error(w)
	}
}

func TestCalibrationCheck(t *testing.T) {
	good := func() *Calibration {
		return &Calibration{Name: "x", Volts: &Correction{Gain: 1, UGain: 1e-3, UOffset: 1e-3, Covariance: -1e-6, To: 5, Points: 3}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Calibration){
		"nothing corrected": func(c *Calibration) { c.Volts = nil },
		"no gain":           func(c *Calibration) { c.Volts.Gain = 0 },
		"gain of 3":         func(c *Calibration) { c.Volts.Gain = 3 },
		"gain no number":    func(c *Calibration) { c.Volts.Gain = math.NaN() },
		"offset":            func(c *Calibration) { c.Volts.Offset = math.Inf(1) },
		"range":             func(c *Calibration) { c.Volts.From = 6 },
		"range no number":   func(c *Calibration) { c.Volts.To = math.NaN() },
		"points":            func(c *Calibration) { c.Volts.Points = 0 },
		"covariance":        func(c *Calibration) { c.Volts.Covariance = 1 },
		"u":                 func(c *Calibration) { c.Volts.UGain = -1 },
		"u no number":       func(c *Calibration) { c.Volts.UOffset = math.NaN() },
		"reference":         func(c *Calibration) { c.Volts.Reference.Gain = -1 },
		"linearity":         func(c *Calibration) { c.Volts.Linearity = math.Inf(1) },
		"chi square":        func(c *Calibration) { c.Volts.ChiSquare = math.NaN() },
		"long text":         func(c *Calibration) { c.Reference = strings.Repeat("x", 1001) },
	} {
		c := good()
		spoil(c)
		if c.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCharacterisationCheck(t *testing.T) {
	good := func() *Characterisation {
		return &Characterisation{NoiseWatts: &Estimate{1e-3, 1e-4}, Duty: &Residual{Limit: 0.001, P: 0.5, Windows: 75}, Celsius: &Estimate{-5, 1}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Characterisation){
		"noise":     func(c *Characterisation) { c.NoiseWatts.Value = -1 },
		"no number": func(c *Characterisation) { c.NoiseWatts.U = math.NaN() },
		"duty":      func(c *Characterisation) { c.Duty.Limit = math.Inf(1) },
		"p":         func(c *Characterisation) { c.Duty.P = 2 },
		"celsius":   func(c *Characterisation) { c.Celsius.Value = math.NaN() },
		"long text": func(c *Characterisation) { c.Values = strings.Repeat("x", 1001) },
	} {
		c := good()
		spoil(c)
		if c.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
