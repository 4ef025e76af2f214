package record

import (
	"math"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

const second = 1_000_000_000

// A block of samples with times of their own counts from one to the next.
func TestGaugeOfUnevenSamples(t *testing.T) {
	g := newGauge("pkg")
	g.open(meters.Info{Columns: []string{meters.Watts}, Clock: meters.Shared})
	nan := math.NaN()
	for i, c := range []struct {
		atSeconds float64
		watts     float64
	}{{0, 7}, {1, 2}, {3, 4}, {4, nan}, {5, 1}} {
		ns := int64(c.atSeconds * second)
		g.block(meters.Block{ArrivalNs: ns, Values: [][]float64{{c.watts}}, TimesNs: []int64{ns}}, ns)
		if i == 2 {
			// It is due again after two seconds: what is known stands until then.
			if s := g.read(ns + second); s.Watts != 2 {
				t.Errorf("a second after its sample the meter shows %g W", s.Watts)
			}
		}
	}
	s := g.read(5 * second)
	if s.Joules != 7*1+2*2+4*1 || s.Samples != 5 || s.Unknown != 1 || !math.IsNaN(s.Volts) || s.Coulombs != 0 {
		t.Errorf("status is %+v", s)
	}
	if s := g.read(30 * second); !math.IsNaN(s.Watts) {
		t.Errorf("long after its last sample the meter shows %g W", s.Watts)
	}
}

// Lost packets are found by the arrivals of those after them.
func TestGaugeCountsLosses(t *testing.T) {
	g := newGauge("usb")
	g.open(meters.Info{Columns: []string{meters.Volts, meters.Amps}, RateHz: 100, PacketSamples: 4, Clock: meters.ByArrival})
	v := []float64{5, 5, 5, 5}
	for i := range int64(1000) {
		if i >= 500 && i < 503 {
			continue
		}
		ns := i * second / 25
		g.block(meters.Block{ArrivalNs: ns, Values: [][]float64{v, v}}, ns)
	}
	if s := g.read(40 * second); s.Missing != 12 || s.Gaps != 1 || math.Abs(s.RateHz-100) > 1e-6 {
		t.Errorf("%d samples are lost in %d gaps, %g a second", s.Missing, s.Gaps, s.RateHz)
	}
	// They stay counted in the next segment.
	g.resume()
	if s := g.read(40 * second); s.Missing != 12 || s.Gaps != 2 || s.Segments != 2 || !math.IsNaN(s.RateHz) {
		t.Errorf("%d samples are lost in %d gaps and %d segments, %g a second", s.Missing, s.Gaps, s.Segments, s.RateHz)
	}
}

// The trace holds a minute, the newest last.
func TestGaugeTrace(t *testing.T) {
	g := newGauge("usb")
	g.open(meters.Info{Columns: []string{meters.Watts}, RateHz: 4, Clock: meters.ByArrival})
	for i := range int64(1000) {
		ns := i * TraceNs
		g.block(meters.Block{ArrivalNs: ns, Values: [][]float64{{float64(i)}}}, ns)
	}
	s := g.read(999 * TraceNs)
	if s.Trace[TraceSlots-1] != 999 || s.Trace[0] != 999-TraceSlots+1 || s.Watts != (999+998+997+996)/4. {
		t.Errorf("trace from %g to %g, mean %g", s.Trace[0], s.Trace[TraceSlots-1], s.Watts)
	}
	s = g.read(1100 * TraceNs)
	if !math.IsNaN(s.Trace[TraceSlots-1]) || s.Trace[TraceSlots-1-101] != 999 {
		t.Errorf("later the trace ends in %g, and holds %g", s.Trace[TraceSlots-1], s.Trace[TraceSlots-1-101])
	}
}
