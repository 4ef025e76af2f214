package analysis

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// Characterise says what a run shows of its meter, for runs that cannot show
// it. Name and date are the caller's to fill in. The doubt of each value is a
// standard uncertainty: of rates that of the host's clock; of the effective
// rate that of the correlation it was told from (Sokal, Monte Carlo Methods in
// Statistical Mechanics (1997), 3: relative variance 2 (2 W + 1) / N of the
// integrated correlation over W = 2.5 T of N conversions); of noise that of a
// standard deviation of as many independent values (JCGM 100:2008, E.4.3).
func Characterise(t *align.Timeline, duty *DutyCycle) (meters.Characterisation, error) {
	m, c := t.Meter, t.Character
	out := meters.Characterisation{
		Driver: m.Driver, Model: m.Model, Serial: m.Serial, Run: t.Run.Header.Name,
		RateHz:        estimated(t.RateHz, t.RateHz*timeBase/math.Sqrt(3)),
		ConversionsHz: estimated(c.ConversionsHz, c.ConversionsHz*timeBase/math.Sqrt(3)),
	}
	if c.Values != align.UnknownValues {
		out.Values = string(c.Values)
	}
	if c.Kind != meters.UnknownKind {
		out.Sample = c.Kind
	}
	correlated := c.ConversionsHz / c.EffectiveHz // conversions an independent value
	n := float64(c.Samples) * c.ConversionsHz / t.RateHz
	out.EffectiveHz = estimated(c.EffectiveHz, c.EffectiveHz*math.Sqrt(2*(5*correlated+1)/n))
	out.NoiseWatts = estimated(c.NoiseWatts, c.NoiseWatts*math.Sqrt(correlated/(2*n)))
	response, u := t.Response()
	out.ResponseSeconds = estimated(response, u)
	if duty != nil && duty.Limit.Stated() {
		out.Duty = &meters.Residual{Limit: float64(duty.Limit), Significant: duty.Significant, P: float64(duty.P), Windows: duty.Windows}
	}
	var err error
	if slices.Contains(m.Columns, meters.Celsius) {
		out.Celsius, err = temperature(t.Run, m.Stream)
	}
	return out, err
}

// estimated is nil where a value or its doubt cannot be stated.
func estimated(value, u float64) *meters.Estimate {
	if v := Num(value); !v.Stated() || !Num(u).Stated() {
		return nil
	}
	return &meters.Estimate{Value: value, U: u}
}

// temperature is the mean over a stream, with how far it wandered.
func temperature(r *run.Run, stream string) (*meters.Estimate, error) {
	var n, sum, square float64
	for b, err := range r.Samples(stream) {
		var damage *run.DamageError
		if errors.As(err, &damage) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the temperature in %s: %w", r.Dir, err)
		}
		for _, v := range b.Columns[meters.Celsius] {
			if v == v {
				n++
				sum += v
				square += v * v
			}
		}
	}
	mean := sum / n
	return estimated(mean, math.Sqrt(math.Max(0, square/n-mean*mean))), nil
}
