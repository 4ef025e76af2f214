package meters

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/si"
)

// Limit bounds the error of one quantity: the true value lies within
// Gain*reading + Offset of the reading. Both are half widths of rectangular
// distributions (JCGM 100:2008, 4.3.7: nothing else is known from a data
// sheet's "±").
type Limit struct {
	Gain   float64 `json:"gain"`   // relative, 0.005 is 0.5 %
	Offset float64 `json:"offset"` // in the quantity's base unit
}

// Accuracy is what is known of a meter's errors.
type Accuracy struct {
	// Exact says that the meter has no error at all. Only a simulated meter,
	// or a comparison within one recording, can say so.
	Exact bool `json:"exact,omitempty"`
	// Limits by quantity; nil where nothing is stated.
	Volts *Limit `json:"volts,omitempty"`
	Amps  *Limit `json:"amps,omitempty"`
	Watts *Limit `json:"watts,omitempty"`
	// Source is the data sheet, calibration or person the limits come from.
	Source string `json:"source,omitempty"`
}

// Known reports whether a total interval can be stated for power made of the
// given columns.
func (a Accuracy) Known(power bool) bool {
	if a.Exact {
		return true
	}
	if power {
		return a.Watts != nil
	}
	return a.Volts != nil && a.Amps != nil
}

// ParseAccuracy reads an accuracy in the form
//
//	exact | unknown | v=0.5%+20uV,a=0.5%+20uA | w=1%+1mW
//
// Gain or offset may be left out.
func ParseAccuracy(spec string) (Accuracy, error) {
	var a Accuracy
	switch spec {
	case "exact":
		return Accuracy{Exact: true}, nil
	case "unknown", "":
		return Accuracy{}, nil
	}
	for _, part := range strings.Split(spec, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return a, fmt.Errorf("accuracy %q: %q is not NAME=LIMIT", spec, part)
		}
		slots := map[string]struct {
			limit **Limit
			unit  string
		}{"v": {&a.Volts, "V"}, "a": {&a.Amps, "A"}, "w": {&a.Watts, "W"}}
		slot, ok := slots[strings.TrimSpace(name)]
		if !ok {
			return a, fmt.Errorf("accuracy %q: %q is none of v, a, w", spec, name)
		}
		if *slot.limit != nil {
			return a, fmt.Errorf("accuracy %q: %s is given twice", spec, name)
		}
		l, err := ParseLimit(value, slot.unit)
		if err != nil {
			return a, fmt.Errorf("accuracy %q: %w", spec, err)
		}
		*slot.limit = &l
	}
	return a, nil
}

// maxOffset (V, A or W) is beyond every meter that this program is for.
const maxOffset = 1e6

// ParseLimit reads a limit of a quantity in the given base unit, such as
// "0.5%+20uV". Gain or offset may be left out.
func ParseLimit(s, unit string) (Limit, error) {
	var l Limit
	gain, offset := false, false
	for _, term := range strings.Split(s, "+") {
		term = strings.TrimSpace(term)
		if pct, ok := strings.CutSuffix(term, "%"); ok {
			g, err := strconv.ParseFloat(strings.TrimSpace(pct), 64)
			if err != nil || !(g >= 0 && g <= 100) || gain {
				return l, fmt.Errorf("%q is not one gain between 0%% and 100%%", term)
			}
			l.Gain, gain = g/100, true
			continue
		}
		v, err := si.Parse(term, unit)
		if err != nil {
			return l, err
		}
		if !(v >= 0 && v <= maxOffset) || offset {
			return l, fmt.Errorf("%q is not one offset between 0 and %g %s", term, maxOffset, unit)
		}
		l.Offset, offset = v, true
	}
	return l, nil
}

// String writes the accuracy in the form that ParseAccuracy reads, with six
// significant digits.
func (a Accuracy) String() string {
	if a.Exact {
		return "exact"
	}
	var parts []string
	for _, q := range []struct {
		name, unit string
		l          *Limit
	}{{"v", "V", a.Volts}, {"a", "A", a.Amps}, {"w", "W", a.Watts}} {
		if q.l == nil {
			continue
		}
		parts = append(parts, q.name+"="+q.l.string(q.unit))
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, ",")
}

func (l Limit) string(unit string) string {
	var terms []string
	if l.Gain > 0 || l.Offset == 0 {
		terms = append(terms, strconv.FormatFloat(l.Gain*100, 'g', 6, 64)+"%")
	}
	if l.Offset > 0 {
		scale, prefix := si.Prefix(l.Offset, 6)
		prefix = strings.Replace(prefix, "µ", "u", 1)
		terms = append(terms, strconv.FormatFloat(l.Offset/scale, 'g', 6, 64)+prefix+unit)
	}
	return strings.Join(terms, "+")
}
