package bench

import (
	"math"
	"math/rand/v2"
)

// clockStep is the time between two changes of a clock's rate, in seconds.
const clockStep = 10.0

// A clock runs from 0 at true second 0 with a rate error that is constant
// within a step: a fixed part and a wander that returns to zero
// (Ornstein-Uhlenbeck). True time is the host's.
type clock struct {
	draws    *rand.Rand
	rate     float64 // clock seconds a true second, without wander
	wander   float64 // standard deviation of the rate's wander, relative
	keep     float64 // correlation of the wander between two steps
	now      float64 // wander in the last step, relative
	readings []float64
}

func newClock(c Clock, draws *rand.Rand) *clock {
	k := &clock{draws: draws, rate: 1 + c.PPM*1e-6, wander: c.WanderPPM * 1e-6, readings: []float64{0}}
	k.keep = math.Exp(-clockStep / c.WanderSeconds)
	k.now = k.wander * draws.NormFloat64()
	return k
}

func (k *clock) extend() {
	last := k.readings[len(k.readings)-1]
	k.readings = append(k.readings, last+clockStep*(k.rate+k.now))
	k.now = k.keep*k.now + math.Sqrt(1-k.keep*k.keep)*k.wander*k.draws.NormFloat64()
}

// read returns the clock's seconds at a true second >= 0.
func (k *clock) read(trueSeconds float64) float64 {
	i := int(trueSeconds / clockStep)
	for len(k.readings) < i+2 {
		k.extend()
	}
	part := trueSeconds/clockStep - float64(i)
	return k.readings[i] + (k.readings[i+1]-k.readings[i])*part
}

// when returns the true second at which the clock shows clockSeconds >= 0.
func (k *clock) when(clockSeconds float64) float64 {
	for k.readings[len(k.readings)-1] <= clockSeconds {
		k.extend()
	}
	i := int(clockSeconds / (clockStep * k.rate))
	for i > 0 && (i+1 >= len(k.readings) || k.readings[i] > clockSeconds) {
		i--
	}
	for k.readings[i+1] <= clockSeconds {
		i++
	}
	part := (clockSeconds - k.readings[i]) / (k.readings[i+1] - k.readings[i])
	return clockStep * (float64(i) + part)
}

// meanRate is clock seconds a true second over the first trueSeconds.
func (k *clock) meanRate(trueSeconds float64) float64 { return k.read(trueSeconds) / trueSeconds }
