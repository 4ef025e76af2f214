package bench

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// TestPin records a pin in every way, and finds the windows where they were.
func TestPin(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Meter)
	}{
		{"D+", func(m *Meter) { m.Pin = DataPlus }},
		{"D- of points", func(m *Meter) { m.Pin, m.Kind = DataMinus, "point" }},
		{"digital input", func(m *Meter) { m.Pin, m.RateHz, m.PacketSamples = Digital, 1000, 40 }},
		{"D+ of a driver", func(m *Meter) { m.Pin, m.Driver = DataPlus, FNB58 }},
		{"D- of a driver", func(m *Meter) { m.Pin, m.Driver = DataMinus, FNB58 }},
		{"glitches", func(m *Meter) { m.Pin, m.PinGlitches = DataPlus, 0.005 }},
	} {
		s := Default()
		s.Plan.Ops, s.Plan.WindowSeconds, s.Plan.Windows = []string{"ML-DSA-44/verify", "Ed25519/sign"}, 0.7, 4
		s.Meter.PPM = 0
		c.change(&s.Meter)
		dir := filepath.Join(t.TempDir(), "r")
		truth, err := Play(s, 5, dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := run.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		line, err := align.Align(r, "usb")
		if err != nil {
			t.Fatal(err)
		}
		if line.Method != align.InBand || len(line.Windows) != len(truth.Windows) {
			t.Errorf("%s: %s, %d windows, %v", c.name, line.Method, len(line.Windows), line.Warnings)
			continue
		}
		period := 1 / s.Meter.RateHz
		for i, w := range line.Windows {
			want := truth.Windows[i]
			from, to := want.T0-truth.FirstSampleSeconds, want.T1-truth.FirstSampleSeconds
			reach := 0.55 * period
			if s.Meter.Kind == "point" || s.Meter.Pin == Digital || s.Meter.PinGlitches > 0 {
				reach = 1.05 * period // the sample that begins before the edge does not show it
			}
			if w.Excluded != "" || w.Op != want.Op || math.Abs(w.StartSeconds-from) > reach || math.Abs(w.EndSeconds-to) > reach {
				t.Errorf("%s: window %d from %.4f to %.4f s, want %.4f to %.4f (%q)", c.name, w.W, w.StartSeconds, w.EndSeconds, from, to, w.Excluded)
			}
		}
	}
}

func TestPinIsNotServed(t *testing.T) {
	s := Default()
	s.Meter.Pin = DataPlus
	if _, err := NewLive(s, 1); err == nil {
		t.Error("a live world with a pin")
	}
	if _, err := NewRecital(s, 1); err == nil {
		t.Error("a recital with a pin")
	}
	s.Meter.Pin, s.Meter.Driver = Digital, FNB58
	if _, err := New(s, 1); err == nil {
		t.Error("a FNB58 with a digital input")
	}
}

// TestPinBeforeASlowMeter: windows stay where the pin puts them, and the
// response that lags behind it is no fault of the power.
func TestPinBeforeASlowMeter(t *testing.T) {
	s, err := LoadScenario("inband")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "r")
	if _, err := Play(s, 2, dir); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	line, err := align.Align(r, "usb")
	if err != nil {
		t.Fatal(err)
	}
	res, err := analysis.Analyze(line, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range res.Operations {
		if step := float64(op.IdleStep.Value / op.NetWatts.Value); op.Joint == nil || !op.Joint.Agrees || math.Abs(step) > 0.01 {
			t.Errorf("%s %s: idle steps by %.1f %% of net power, joint fit %+v", op.Alg, op.Op, 100*step, op.Joint)
		}
	}
}
