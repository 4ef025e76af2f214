package plots

import (
	"math"
	"strconv"

	"github.com/joulemark/joulemark/si"
)

// tick is a place on an axis; one without a label is minor.
type tick struct {
	at    float64
	label string
}

// label is what stands beside the axis: quantity and unit, with the prefix
// that its ticks share.
func (a Axis) label() string {
	unit := a.Unit
	if !a.Log && unit != "" {
		_, prefix := a.prefix()
		unit = prefix + unit
	}
	switch {
	case a.Quantity == "" || unit == "":
		return a.Quantity + unit
	case a.Log: // each tick has its own
		return a.Quantity
	}
	return a.Quantity + " (" + unit + ")"
}

// prefix is the one that the ticks of a linear axis share. Nobody counts in
// kiloseconds.
func (a Axis) prefix() (scale float64, symbol string) {
	if a.Unit == "" {
		return 1, ""
	}
	scale, symbol = si.Prefix(math.Max(math.Abs(a.Min), math.Abs(a.Max)), 3)
	if a.Unit == "s" && scale > 1 {
		return 1, ""
	}
	return scale, symbol
}

// share is where v lies between the ends of the axis: 0 is Min, 1 is Max.
func (a Axis) share(v float64) float64 {
	if a.Log {
		return math.Log(v/a.Min) / math.Log(a.Max/a.Min)
	}
	return (v - a.Min) / (a.Max - a.Min)
}

// ticks returns about n labelled ticks at most: a few more where fewer than two
// round numbers lie on the axis.
func (a Axis) ticks(n int) []tick {
	switch {
	case a.Categories != nil:
		return nil
	case a.Log:
		return a.logTicks(n)
	}
	step := roundStep((a.Max - a.Min) / float64(max(n, 1)))
	scale, _ := a.prefix()
	decimals := min(int(math.Max(0, -math.Floor(math.Log10(step/scale)+1e-9))), 12)
	var out []tick
	first := math.Ceil(a.Min/step - 1e-9)
	for k := range n + 2 {
		v := (first + float64(k)) * step
		if v > a.Max+1e-9*step {
			break
		}
		text := strconv.FormatFloat(v/scale, 'f', decimals, 64)
		if z, _ := strconv.ParseFloat(text, 64); z == 0 {
			text = "0" // never "-0.0"
		}
		out = append(out, tick{v, text})
	}
	if len(out) < 2 && n < 8 {
		return a.ticks(n + 1)
	}
	return out
}

// roundStep is the least of 1, 2, 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// logTicks labels powers of ten.
func (a Axis) logTicks(n int) []tick {
	from, to := int(math.Floor(math.Log10(a.Min)+1e-9)), int(math.Ceil(math.Log10(a.Max)-1e-9))
	every := 1 + (to-from)/max(n, 1)
	var out []tick
	for e := from; e <= to; e++ {
		for f := 1; f < 10; f++ {
			v := float64(f) * math.Pow(10, float64(e))
			if v < a.Min*(1-1e-9) || v > a.Max*(1+1e-9) || f > 1 && every > 1 {
				continue
			}
			t := tick{at: v}
			if f == 1 && (e-from)%every == 0 {
				t.label = si.Format(v, a.Unit, 1)
			}
			out = append(out, t)
		}
	}
	return out
}
