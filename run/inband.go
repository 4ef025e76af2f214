package run

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// digitalInput names a column of a meter's digital inputs.
var digitalInput = regexp.MustCompile(`^d[0-7]$`)

// ParseInBand reads what a mark spec says of a pin that the meter itself
// records,
//
//	dp | dn | d0 .. d7 [,active=low] [,alg=ALG] [,op=OP] [,n=N]
//
// with or without "inband:" before it: dp and dn are the data lines of a USB
// meter, d0 to d7 digital inputs. The pin is high within a window unless it
// says otherwise; alg, op and n name the windows that no statement names. The
// stream is for the recorder to fill in.
func ParseInBand(spec string) (InBand, error) {
	pin, rest, more := strings.Cut(strings.TrimPrefix(spec, "inband:"), ",")
	i := InBand{Column: pin, Active: 1}
	switch {
	case pin == "dp":
		i.Column = meters.DPVolts
	case pin == "dn":
		i.Column = meters.DNVolts
	case !digitalInput.MatchString(pin):
		return i, fmt.Errorf("in-band marks %q: pin %q is none of dp, dn, d0 to d7", spec, pin)
	}
	given := map[string]bool{}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		key, value, _ := strings.Cut(part, "=")
		if given[key] {
			return i, fmt.Errorf("in-band marks %q: %s is given twice", spec, key)
		}
		given[key] = true
		if err := i.set(key, value); err != nil {
			return i, fmt.Errorf("in-band marks %q: %w", spec, err)
		}
	}
	return i, nil
}

func (i *InBand) set(key, value string) error {
	if value == "" {
		return fmt.Errorf("%q is not KEY=VALUE with active, alg, op or n", key)
	}
	switch key {
	case "alg":
		i.Alg = value
	case "op":
		i.Op = value
	case "n":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 || n > maxRow {
			return fmt.Errorf("n %q is not a number of operations", value)
		}
		i.N = n
	case "active":
		switch value {
		case "high":
			i.Active = 1
		case "low":
			i.Active = 0
		default:
			return errors.New("active is high or low")
		}
	default:
		return fmt.Errorf("key %q is none of active, alg, op, n", key)
	}
	return nil
}
