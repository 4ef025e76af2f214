package bench

import (
	"math/rand/v2"

	"github.com/joulemark/joulemark/meters"
)

// pinColumns names the column of the samples that holds a pin.
var pinColumns = map[string]string{DataPlus: meters.DPVolts, DataMinus: meters.DNVolts, Digital: "d0"}

// pin is the target's pin as the meter records it, with every conversion of
// the current. The meter's filter is none of it.
type pin struct {
	m       *meter
	level   *curve  // 0 and 1
	samples int64   // taken so far
	last    float64 // the last conversion
	draws   *rand.Rand
}

// packet takes the samples of the next packet: V, or 0 and 1.
func (p *pin) packet() []float64 {
	n := p.m.PacketSamples
	values := make([]float64, n)
	if p.m.Hold == NoHold {
		for i := range values {
			values[i] = p.read(p.convert(1))
		}
		return values
	}
	before := p.last
	p.last = p.convert(n)
	for i := range values {
		part := 1.0
		if p.m.Hold == Interpolate {
			part = float64(i+1) / float64(n)
		}
		values[i] = p.read(before + (p.last-before)*part)
	}
	return values
}

// convert returns the level over the next n samples, or where they begin if
// samples are points.
func (p *pin) convert(n int) float64 {
	from, to := p.m.ready(p.samples), p.m.ready(p.samples+int64(n))
	p.samples += int64(n)
	if p.m.Kind == "point" || p.m.Pin == Digital {
		v, _ := p.level.value(p.level.piece(from), from)
		return v
	}
	return p.level.mean(from, to)
}

// read returns what the meter shows of a level.
func (p *pin) read(level float64) float64 {
	// Drawn for every sample, so that a glitch more leaves the others.
	glitch, noise := p.draws.Float64() < p.m.PinGlitches, p.m.PinNoise*p.draws.NormFloat64()
	if glitch {
		level = 1 - level
	}
	if p.m.Pin == Digital {
		if level >= 0.5 {
			return 1
		}
		return 0
	}
	return p.m.PinVolts*level + noise
}
