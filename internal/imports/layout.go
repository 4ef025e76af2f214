package imports

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// layout is what is known of the tables of one tool beyond what their headers
// say.
type layout struct {
	model  string
	sample meters.SampleKind
	// names gives a meaning to columns whose header leaves it open, by name as
	// normal writes it: "quantity unit"; "" is a column to pass over.
	names map[string]string
	// times are columns of time, as normal writes them, the best one first.
	times []string
	// local says that dates carry no time zone: they count as UTC, and the run
	// does not say when it began.
	local bool
	// meanPower says that the column of power holds means of products, which
	// are right where products of means are not: power counts, not volts and
	// amps.
	meanPower bool
	// atEnd says that the time of a row is the end of what it covers, which
	// begins with the row before.
	atEnd bool
	// maxVolts and maxAmps are what the tool's meters can measure; 0 for no
	// bound.
	maxVolts, maxAmps float64
	// window says which columns name what ran; nil where none do.
	window *windowColumns
}

// tableFormat makes a format of tables that are told by columns they must have.
func tableFormat(name, summary string, l layout, must ...string) Format {
	return Format{
		Name: name, Summary: summary,
		Detect: detectHeader(must...),
		Import: l.importTable,
	}
}

// detectHeader tells a table by names that its header must have.
func detectHeader(must ...string) func(head []byte, path string) string {
	return func(head []byte, path string) string {
		names := headerNames(head, path)
		for _, m := range must {
			if !slices.Contains(names, m) {
				return ""
			}
		}
		return "a header that names " + strings.Join(must, ", ")
	}
}

// headerNames lists the names in the first line of a text that can be a header,
// as normal writes them.
func headerNames(head []byte, path string) []string {
	if len(head) == 0 || checkText(path, head) != nil {
		return nil
	}
	for line := range bytes.Lines(bytes.TrimPrefix(head, []byte(utf8BOM))) {
		line = bytes.TrimLeft(bytes.TrimSpace(line), "# \t")
		if len(line) == 0 {
			continue
		}
		var names []string
		row, _ := split(nil, []byte(text(line)), separator(text(line), nil))
		for _, f := range row {
			names = append(names, normal(string(f.text)))
		}
		return names
	}
	return nil
}

// apply gives the columns of a table the meanings that the layout knows.
func (l *layout) apply(t *table) error {
	t.local = l.local
	for i := range t.header {
		c := &t.header[i]
		meaning, ok := l.names[normal(c.name)]
		if !ok {
			continue
		}
		c.quantity, c.wrong = "", nil
		if meaning == "" {
			continue
		}
		quantity, unit, _ := strings.Cut(meaning, " ")
		u, err := parseUnit(unit, quantity)
		if err != nil || u.Base != bases[quantity] {
			return fmt.Errorf("layout: column %q is %q", c.name, meaning)
		}
		c.quantity = quantity
		c.setUnit(u)
	}
	l.chooseTime(t)
	return nil
}

// chooseTime leaves the best column of time only.
func (l *layout) chooseTime(t *table) {
	best := -1
	for i := range t.header {
		if k := slices.Index(l.times, normal(t.header[i].name)); k >= 0 && (best < 0 || k < best) {
			best = k
		}
	}
	for i := range t.header {
		c := &t.header[i]
		if best >= 0 && c.quantity == timeOf && normal(c.name) != l.times[best] {
			c.quantity = ""
		}
	}
}

// beyond reports whether a value is none that the tool's meters can have
// measured.
func (l *layout) beyond(quantity string, v float64) bool {
	switch quantity {
	case meters.Volts:
		return l.maxVolts > 0 && (v > l.maxVolts || v < -l.maxVolts)
	case meters.Amps:
		return l.maxAmps > 0 && (v > l.maxAmps || v < -l.maxAmps)
	}
	return false
}

// joulescope is what the user interface of a Joulescope writes of its
// statistics, two rows a second:
//
//	#time,current,voltage,power,charge,energy
//
// in SI units. Each row is a mean over the time since the row before, as the
// running charge and energy (of six digits) show. After lost samples rows hold NaN.
// Source: jetperch/pyjoulescope_ui, and files in silmae/hsi-smart.
var joulescope = tableFormat("joulescope", "statistics of a Joulescope's user interface (#time,current,voltage,power,...)", layout{
	model: "Joulescope", sample: meters.Mean, meanPower: true, atEnd: true,
	names: map[string]string{"time": "time s", "current": "amps A", "voltage": "volts V", "power": "watts W", "charge": "charge C", "energy": "energy J"},
}, "time", "current", "voltage", "power", "charge", "energy")

// rdUSB is the export of the program for RuiDeng meters (UM24C, UM25C, UM34C,
// TC66C); which columns there are depends on its version and settings. Times
// are local and in whole seconds, unless there is a column of Unix time.
// Sums are those of the meter's counters, in whole mAh and mWh.
// Source: kolinger/rd-usb, utils/formatting.py and webapp/index.py.
var rdUSB = tableFormat("rd-usb", "export of rd-usb, for RuiDeng meters (Time,Voltage (V),Current (A),...,Accumulated power (mWh))", layout{
	model: "RuiDeng", sample: meters.UnknownKind, local: true, maxVolts: maxVolts, maxAmps: maxAmps,
	names: map[string]string{"unix time": "time s", "accumulated time (seconds)": "", "time": "time s"},
	times: []string{"unix time", "run time (seconds)", "time"},
}, "time", "voltage (v)", "current (a)", "accumulated power (mwh)")

// pqcEnergyPi is one experiment of PQCEnergyPi, which reads a TC66C once a
// second. Its dates are local. Sample_Period is what was asked for, not what
// was kept, and passed over. The joules are the meter's mWh times 3.6, and so
// move in steps of 3.6 J.
// Source: supplemango/PQCEnergyPi, OutputFiles.
var pqcEnergyPi = tableFormat("pqcenergypi", "an experiment of PQCEnergyPi (Timestamp,Iterations,Algorithm,...,Joules,Volt,...)", layout{
	model: "RuiDeng TC66C", sample: meters.UnknownKind, local: true, maxVolts: maxVolts, maxAmps: maxAmps,
	names: map[string]string{"timestamp": "time s", "joules": "energy J", "volt": "volts V", "current": "amps A", "power": "watts W",
		"temp": "celsius C", "d plus": "dp_volts V", "d minus": "dn_volts V"},
	window: &windowColumns{alg: "algorithm", count: "iterations", op: "keygen"},
}, "timestamp", "iterations", "algorithm", "joules", "volt", "current")
