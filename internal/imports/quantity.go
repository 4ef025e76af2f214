package imports

import (
	"fmt"
	"math"
	"strings"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/si"
)

// Quantities of a column beside those of package meters.
const (
	timeOf   = "time"
	energyOf = "energy" // J; compared, never used
	chargeOf = "charge" // C; compared, never used
	packetOf = "packet" // index of a sample in its packet
)

// exampleHeader ends the errors about headers.
const exampleHeader = "a header names quantities and units, such as time_s,volts,amps or Time (ms);Current (uA);Voltage (V)"

// synonyms maps names of quantities (lower case, single spaces) to them.
var synonyms = map[string]string{
	"time": timeOf, "t": timeOf, "timestamp": timeOf, "ts": timeOf, "epoch": timeOf, "elapsed": timeOf,
	"elapsed time": timeOf, "datetime": timeOf, "date time": timeOf, "time stamp": timeOf, "host time": timeOf,
	"volts": meters.Volts, "volt": meters.Volts, "voltage": meters.Volts, "v": meters.Volts, "u": meters.Volts,
	"vbus": meters.Volts, "bus voltage": meters.Volts,
	"amps": meters.Amps, "amp": meters.Amps, "ampere": meters.Amps, "amperes": meters.Amps, "current": meters.Amps,
	"i": meters.Amps, "ibus": meters.Amps, "bus current": meters.Amps,
	"watts": meters.Watts, "watt": meters.Watts, "power": meters.Watts, "p": meters.Watts,
	"dp": meters.DPVolts, "d+": meters.DPVolts, "dplus": meters.DPVolts, "data+": meters.DPVolts,
	"dn": meters.DNVolts, "d-": meters.DNVolts, "dminus": meters.DNVolts, "data-": meters.DNVolts,
	"temp": meters.Celsius, "temperature": meters.Celsius,
	"energy": energyOf, "acc energy": energyOf, "accumulated energy": energyOf, "accumulated power": energyOf,
	"capacity": chargeOf, "charge": chargeOf, "accumulated current": chargeOf,
	"sample in packet": packetOf,
}

// bases are the units that quantities must have.
var bases = map[string]string{
	timeOf: "s", meters.Volts: "V", meters.Amps: "A", meters.Watts: "W", meters.DPVolts: "V", meters.DNVolts: "V",
	meters.Celsius: "degC", energyOf: "J", chargeOf: "C", packetOf: "",
}

// unitWords are unit names in full; a prefix in full may stand before them.
var unitWords = map[string]string{
	"volt": "V", "volts": "V", "amp": "A", "amps": "A", "ampere": "A", "amperes": "A", "watt": "W", "watts": "W",
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "joule": "J", "joules": "J", "celsius": "degC",
}

var prefixWords = []struct{ word, prefix string }{
	{"milli", "m"}, {"micro", "u"}, {"nano", "n"}, {"kilo", "k"}, {"m", "m"}, {"u", "u"}, {"n", "n"}, {"", ""},
}

// column is what a header says of one column.
type column struct {
	index    int // of the field in a row, from 0
	name     string
	at       int     // column of the name in its line, from 1
	quantity string  // "" where it is none that is known
	scale    float64 // of the unit, to the base unit
	exp      int     // scale is 10^exp where decimal
	decimal  bool
	// wrong says why the unit is not known; nil if it is.
	wrong error
}

// setUnit gives a column a unit that is known.
func (c *column) setUnit(u si.Unit) {
	c.wrong = nil
	c.scale = u.Scale
	c.exp = int(math.Round(math.Log10(u.Scale)))
	c.decimal = math.Abs(u.Scale/math.Pow10(c.exp)-1) < 1e-12
}

// parseColumn reads a name such as "current_mA", "Time (ms)", "U / V", "volts"
// or "mA".
func parseColumn(name string) column {
	c := column{name: name, scale: 1, decimal: true}
	base, unit, marked := splitUnit(name)
	if q, ok := synonyms[normal(base)]; ok && (unit != "" || marked) {
		u, err := parseUnit(unit, q)
		switch {
		case err != nil:
			c.quantity, c.wrong = q, err
		case u.Base == bases[q]:
			c.quantity = q
			c.setUnit(u)
		}
		return c // a known name in a foreign unit is another quantity
	}
	if u, err := parseUnit(name, ""); err == nil {
		for _, q := range []string{timeOf, meters.Volts, meters.Amps, meters.Watts, energyOf, chargeOf} {
			if bases[q] == u.Base {
				c.quantity = q
				c.setUnit(u)
				return c
			}
		}
	}
	if q, ok := synonyms[normal(name)]; ok {
		c.quantity = q
		if q != packetOf {
			c.wrong = fmt.Errorf("has no unit: write it as in %s", exampleUnit[q])
		}
	}
	return c
}

// exampleUnit shows how a unit is written.
var exampleUnit = map[string]string{
	timeOf: `"time_s" or "Time (ms)"`, meters.Volts: `"voltage_V" or "Voltage (mV)"`,
	meters.Amps: `"current_mA" or "Current (A)"`, meters.Watts: `"power_mW" or "Power (W)"`,
	meters.DPVolts: `"dp_V"`, meters.DNVolts: `"dn_V"`, meters.Celsius: `"temp_C"`,
	energyOf: `"energy_Wh"`, chargeOf: `"capacity_Ah"`,
}

// splitUnit splits "name (unit)", "name [unit]", "name/unit" and "name_unit";
// marked says that the unit stood in brackets or behind a slash.
func splitUnit(name string) (base, unit string, marked bool) {
	for _, pair := range []string{"()", "[]"} {
		open := strings.IndexByte(name, pair[0])
		if open > 0 && name[len(name)-1] == pair[1] {
			return name[:open], strings.TrimSpace(name[open+1 : len(name)-1]), true
		}
	}
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		return name[:i], strings.TrimSpace(name[i+1:]), true
	}
	// The open FNIRSI logger ends the name of a moving average so.
	name = strings.TrimSuffix(name, "_ema")
	if i := strings.LastIndexAny(name, "_ "); i > 0 {
		return name[:i], name[i+1:], false
	}
	return name, "", false
}

// normal brings a name to the form of the synonyms.
func normal(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return r == '_' || r == ' ' || r == '\t'
	}), " ")
}

// parseUnit reads a unit as found in headers: as package si does, in words, or
// in lower case where that leaves no doubt. Mega is refused: M for milli is a
// common slip, and no meter that this program is for counts in MA.
func parseUnit(s, quantity string) (si.Unit, error) {
	if rest, ok := strings.CutPrefix(s, "M"); ok {
		if _, err := parseUnit("m"+strings.ToLower(rest), quantity); err == nil && unitWords["m"+strings.ToLower(rest)] == "" {
			return si.Unit{}, fmt.Errorf("has the unit %q: milli or mega? Write milli as m", s)
		}
	}
	if quantity == meters.Celsius && (s == "C" || s == "c") {
		return si.Unit{Base: "degC", Scale: 1}, nil
	}
	if u, err := si.ParseUnit(s); err == nil {
		return u, nil
	}
	lower := strings.ToLower(s)
	for _, p := range prefixWords {
		if rest, ok := strings.CutPrefix(lower, p.word); ok {
			if u, ok := unitWords[rest]; ok {
				return si.ParseUnit(p.prefix + u)
			}
		}
	}
	// rb's loggers write voltage_v and current_ma.
	if n := len(s); n > 0 && n <= 3 && strings.ContainsRune("vaw", rune(s[n-1])) {
		if u, err := si.ParseUnit(s[:n-1] + strings.ToUpper(s[n-1:])); err == nil {
			return u, nil
		}
	}
	if s == "S" {
		return si.Unit{Base: "s", Scale: 1}, nil
	}
	return si.Unit{}, fmt.Errorf("has the unknown unit %q", s)
}
