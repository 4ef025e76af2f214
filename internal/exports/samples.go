package exports

import (
	"maps"
	"path/filepath"
	"strconv"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
)

// Samples is the table of all samples of one meter of one run, read while it
// is written: memory does not grow with the run. t_s is on the clock of t0_s
// and t1_s of results.
func Samples(t *align.Timeline) Table {
	info := t.Meter.Info
	table := Table{
		Columns: []Column{{Name: "segment", Kind: Integer}, {Name: "t_s", Unit: "s", Kind: Real}},
		About: map[string]string{
			"table": "samples", "run": filepath.Base(t.Run.Dir), "simulated": strconv.FormatBool(t.Run.Header.Simulated),
			"meter": info.Stream, "meter_driver": info.Driver, "meter_model": info.Model,
			"meter_accuracy": info.Accuracy.String(), "sample": string(info.Sample),
			"rate_hz": strconv.FormatFloat(t.RateHz, 'g', -1, 64),
		},
	}
	if c := info.Calibration; c != nil {
		table.About["meter_calibration"] = c.Name
	}
	maps.DeleteFunc(table.About, func(_, v string) bool { return v == "" })
	kind := Single
	if info.Wide {
		kind = Real
	}
	for _, name := range info.Columns {
		table.Columns = append(table.Columns, Column{Name: name, Unit: units[name], Kind: kind})
	}
	table.Blocks = func(yield func(Block, error) bool) {
		b := Block{Values: make([]Values, len(table.Columns))}
		for p, err := range t.Samples() {
			if err != nil {
				yield(Block{}, err)
				return
			}
			b.Rows = p.Rows
			segment := int64(p.Segment)
			b.Values[0].Integers = b.Values[0].Integers[:0]
			for range p.Rows {
				b.Values[0].Integers = append(b.Values[0].Integers, &segment)
			}
			b.Values[1].Reals = p.Seconds
			for i, name := range info.Columns {
				b.Values[2+i].Reals = p.Columns[name]
			}
			if !yield(b, nil) {
				return
			}
		}
	}
	return table
}

// units of the columns that meters share.
var units = map[string]string{
	meters.Volts: "V", meters.Amps: "A", meters.Watts: "W",
	meters.DPVolts: "V", meters.DNVolts: "V", meters.Celsius: "°C",
}
