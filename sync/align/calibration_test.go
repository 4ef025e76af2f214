package align

import (
	"math"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// TestCalibrationCorrectsPower: samples are corrected where they are read, by
// the run's own calibration or another one, or not at all.
func TestCalibrationCorrectsPower(t *testing.T) {
	r := recording{seconds: 40, windows: uneven(8)}.play(t)
	twice := &meters.Calibration{Name: "x", Watts: &meters.Correction{Gain: 2, Offset: 0.5, Points: 2}}
	for _, c := range []struct {
		name string
		own  *meters.Calibration
		opt  Options
		idle float64
	}{
		{"none", nil, Options{}, 1},
		{"asked for", nil, Options{Calibration: twice}, 2.5},
		{"of the run", twice, Options{}, 2.5},
		{"of the run, left", twice, Options{Uncorrected: true}, 1},
		{"another one", &meters.Calibration{Watts: &meters.Correction{Gain: 1.5, Points: 2}}, Options{Calibration: twice}, 2.5},
	} {
		for i := range r.Streams[0].Segments {
			r.Streams[0].Segments[i].Calibration = c.own
		}
		line, err := AlignBy(r, "usb", c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := line.Between(0, 0.5, 1.5).Watts(); math.Abs(got-c.idle) > 1e-9 {
			t.Errorf("%s: idle %g W, want %g W", c.name, got, c.idle)
		}
		for s, err := range line.Power() {
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(s.Watts[0]-c.idle) > 1e-9 {
				t.Errorf("%s: the first sample is %g W, want %g W", c.name, s.Watts[0], c.idle)
			}
			break
		}
		if (line.Meter.Calibration != nil) != (c.idle != 1) {
			t.Errorf("%s: corrected by %v", c.name, line.Meter.Calibration)
		}
	}
}

func TestResponseWithDoubt(t *testing.T) {
	line, err := Align(recording{seconds: 40, windows: uneven(8)}.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	seconds, u := line.Response()
	if seconds != line.Offset.ResponseSeconds || !(u > 0.0028 && u < 0.006) {
		t.Errorf("%g s ± %g s", seconds, u)
	}
	line, err = Align(recording{seconds: 10, windows: uneven(2)}.play(t), "usb")
	if err != nil {
		t.Fatal(err)
	}
	if seconds, u = line.Response(); !math.IsNaN(seconds) || !math.IsNaN(u) {
		t.Errorf("two windows: %g s ± %g s", seconds, u)
	}
}
