package bench

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/joulemark/joulemark/meters"
)

// channel is what a meter does to one quantity: errors that are constant in a
// campaign, noise and counts.
type channel struct {
	gain, offset float64 // reading = value*(1+gain) + offset
	curvature    float64 // what it takes for value is value*(1+curvature*value)
	count        float64 // 0: not quantised
	noise, keep  float64 // standard deviation and correlation of neighbours
	last         float64
	draws        *rand.Rand
}

// read returns the reading of one conversion, not yet quantised.
func (c *channel) read(value float64) float64 {
	if c.noise > 0 {
		c.last = c.keep*c.last + math.Sqrt(1-c.keep*c.keep)*c.noise*c.draws.NormFloat64()
	}
	return value*(1+c.curvature*value)*(1+c.gain) + c.offset + c.last
}

func (c *channel) quantise(reading float64) float64 {
	if c.count == 0 {
		return reading
	}
	return math.Round(reading/c.count) * c.count
}

// meter samples the current through it, and the voltage of the supply behind
// it.
type meter struct {
	Meter
	supply      supply
	clock       *clock
	start       float64 // true second of the first sample
	input       filter
	volts, amps channel
	samples     int64   // taken so far
	v, a        float64 // the last conversion
	started     bool
}

// newMeter draws the meter's constant errors from the seed alone: they are the
// same for every target that the campaign of this seed measures.
func newMeter(s Meter, sup supply, amps *curve, campaign, seed uint64) (*meter, error) {
	limits, err := meters.ParseAccuracy(s.Accuracy)
	if err != nil {
		return nil, fmt.Errorf("meter.accuracy: %w", err)
	}
	m := &meter{
		Meter: s, supply: sup, clock: newClock(s.Clock, stream(seed, "meter.clock")),
		start: stream(seed, "meter.start").Float64() * float64(s.PacketSamples) / s.RateHz,
		volts: channel{count: s.VoltsCount, noise: s.VoltsNoise, keep: s.Correlation, draws: stream(seed, "meter.volts")},
		amps:  channel{curvature: s.Curvature, count: s.AmpsCount, noise: s.AmpsNoise, keep: s.Correlation, draws: stream(seed, "meter.amps")},
	}
	draws := stream(campaign, "meter.limits")
	m.volts.within(limits.Volts, draws)
	m.amps.within(limits.Amps, draws)
	m.input = newFilter(s.Filter, s.FilterSeconds, amps, m.start)
	return m, nil
}

// within draws gain and offset from rectangular limits.
func (c *channel) within(l *meters.Limit, draws *rand.Rand) {
	g, o := 2*draws.Float64()-1, 2*draws.Float64()-1
	if l != nil {
		c.gain, c.offset = g*l.Gain, o*l.Offset
	}
}

// info describes the meter as it would describe itself.
func (m *meter) info() meters.Info {
	kind := meters.SampleKind(m.Says)
	// The limits were parsed when the meter was made.
	accuracy, _ := meters.ParseAccuracy(m.Accuracy)
	accuracy.Source = "virtual bench"
	columns := []string{meters.Volts, meters.Amps}
	if m.Pin != NoPin {
		columns = append(columns, pinColumns[m.Pin])
	}
	return meters.Info{
		Stream: "usb", Driver: "virtual", Model: "virtual USB meter", Serial: "0", Firmware: "bench",
		Columns: columns, Wide: m.VoltsCount == 0 || m.AmpsCount == 0,
		RateHz: m.RateHz, PacketSamples: m.PacketSamples, Sample: kind,
		Clock: meters.ByArrival, Accuracy: accuracy,
	}
}

// ready returns the true second at which n samples have been taken.
func (m *meter) ready(n int64) float64 { return m.start + m.clock.when(float64(n)/m.RateHz) }

// packet takes the samples of the next packet.
func (m *meter) packet() (volts, amps []float64) {
	n := m.PacketSamples
	volts, amps = make([]float64, n), make([]float64, n)
	if m.Hold == NoHold {
		for i := range n {
			m.convert(1)
			volts[i], amps[i] = m.volts.quantise(m.v), m.amps.quantise(m.a)
		}
		return volts, amps
	}
	v0, a0, first := m.v, m.a, !m.started
	m.convert(n)
	if first || m.Hold == Repeat {
		v0, a0 = m.v, m.a
	}
	for i := range n {
		part := float64(i+1) / float64(n)
		volts[i] = m.volts.quantise(v0 + (m.v-v0)*part)
		amps[i] = m.amps.quantise(a0 + (m.a-a0)*part)
	}
	return volts, amps
}

// convert makes one conversion over the next n samples.
func (m *meter) convert(n int) {
	value := m.input.level()
	m.samples += int64(n)
	mean := m.input.mean(m.ready(m.samples))
	if m.Kind == "mean" {
		value = mean
	}
	// The voltage is linear in the current, so its mean is that of the mean.
	m.v = m.volts.read(m.supply.volts(value))
	m.a = m.amps.read(value)
	m.started = true
}

// delay returns the mean time from a change of the current to its centroid in
// the samples, as a reader sees it who takes sample i for the mean over its
// period (or for the instant i, if the meter says so), in nominal seconds.
func (m *meter) delay() float64 {
	// All in sample periods from the start of a conversion.
	n := float64(m.PacketSamples)
	span, shown := 1.0, 0.5
	switch m.Hold {
	case Repeat:
		span, shown = n, n/2
	case Interpolate:
		// It rises over its own packet and falls over the next one.
		span, shown = n, n-0.5
	}
	seen := span / 2
	if m.Kind == "point" {
		seen = 0
	}
	if m.Says == "point" {
		shown -= 0.5
	}
	d := (shown - seen) / m.RateHz
	switch m.Filter {
	case Boxcar:
		d += m.FilterSeconds / 2
	case OnePole:
		d += m.FilterSeconds
	}
	return d
}
