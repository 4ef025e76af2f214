package analysis

import (
	"fmt"

	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/align"
)

// responseOf is the 10-90 % time of the meter, s: as the edges of a run show it,
// or else as it was characterised (known). It is 0 where neither tells.
func responseOf(t *align.Timeline) (seconds float64, known bool) {
	c := t.Meter.Characterisation
	if t.Offset.ResponseSeconds > 0 || c == nil || c.ResponseSeconds == nil {
		return t.Offset.ResponseSeconds, false
	}
	return c.ResponseSeconds.Value, true
}

// useKnown takes up what was known of the meter beforehand.
func (r *Results) useKnown(t *align.Timeline) {
	if c := t.Meter.Calibration; c != nil {
		r.Meter.Calibration = &Known{c.Name, c.Date}
		for _, text := range calibrationWarnings(c, t.Meter.Model, t.Meter.Serial, t.Run.Header.Started) {
			r.warn(text, false)
		}
	}
	c := t.Meter.Characterisation
	if c == nil {
		return
	}
	r.Meter.Characterisation = &Known{c.Name, c.Date}
	if !r.Meter.EffectiveRateHz.Stated() && c.EffectiveHz != nil {
		r.Meter.EffectiveRateHz = Num(c.EffectiveHz.Value)
	}
	if s, known := responseOf(t); known {
		r.Meter.ResponseSeconds = Num(s)
		r.warn(fmt.Sprintf("the edges do not show the meter's response: %s, as meter %s was characterised, is taken", si.Format(s, "s", 3), c.Name), false)
	}
}
