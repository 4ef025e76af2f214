package bench

import (
	"fmt"
	"math"
)

// supply is a source behind a resistance.
type supply struct {
	emf  float64 // V
	ohms float64
}

// amps solves watts = (emf - ohms*amps)*amps for the smaller current.
func (s supply) amps(watts float64) float64 {
	return 2 * watts / (s.emf + math.Sqrt(s.emf*s.emf-4*s.ohms*watts))
}

func (s supply) volts(amps float64) float64 { return s.emf - s.ohms*amps }

// current returns the current that a power draws. It is solved exactly at the
// ends of each piece and linear between them; where a piece rises by dA, the
// power in it is off by at most ohms*dA*dA/4.
func (s supply) current(watts *curve) (*curve, error) {
	for i := range watts.from {
		for _, w := range []float64{watts.from[i], watts.to[i]} {
			if !(w > 0) {
				return nil, fmt.Errorf("the load is %g W at %g s: a load that is not positive cannot be played", w, watts.at[i])
			}
			if s.emf*s.emf < 4*s.ohms*w {
				return nil, fmt.Errorf("%g V behind %g ohm cannot deliver %g W", s.emf, s.ohms, w)
			}
		}
	}
	return watts.through(s.amps), nil
}

// pulsePeriod is the beacon interval of Wi-Fi, 100 time units of 1024 µs
// (IEEE 802.11-2020, 9.4.1.3).
const pulsePeriod = 0.1024

// waveStep is the longest step of a polyline that stands for a smooth change.
const waveStep = 0.25

// background returns the load that is there whether or not a window runs, from
// true second 0 to end, without its constant level.
func background(l Load, seed uint64, end float64) []change {
	var b []change
	if l.DriftWatts != 0 {
		b = append(b, change{slope: l.DriftWatts})
	}
	if l.SineWatts > 0 {
		phase := stream(seed, "load.sine").Float64()
		step := min(waveStep, l.SineSeconds/64)
		b = polyline(b, 0, step, series(end, step, func(t float64) float64 {
			return l.SineWatts * math.Sin(2*math.Pi*(t/l.SineSeconds+phase))
		}))
	}
	if l.WalkWatts > 0 {
		draws, level := stream(seed, "load.walk"), 0.0
		b = polyline(b, 0, waveStep, series(end, waveStep, func(t float64) float64 {
			level += l.WalkWatts * math.Sqrt(waveStep/60) * draws.NormFloat64()
			return level
		}))
	}
	if l.BurstHz > 0 && l.BurstWatts > 0 {
		draws := stream(seed, "load.bursts")
		for t := draws.ExpFloat64() / l.BurstHz; t < end; t += draws.ExpFloat64() / l.BurstHz {
			b = pulse(b, t, t+l.BurstSeconds, 0, l.BurstWatts)
		}
	}
	if l.PulseWatts > 0 && l.PulseSeconds > 0 {
		for t := stream(seed, "load.pulses").Float64() * pulsePeriod; t < end; t += pulsePeriod {
			b = pulse(b, t, t+l.PulseSeconds, 0, l.PulseWatts)
		}
	}
	return b
}

// series returns f at each step from 0 to end.
func series(end, step float64, f func(t float64) float64) []float64 {
	values := make([]float64, int(end/step)+1)
	for i := range values {
		values[i] = f(float64(i) * step)
	}
	return values
}
