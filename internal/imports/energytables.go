package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/mark"
)

// energiBridge is the output of EnergiBridge: a row each 200 ms, with times in
// ms since 1970 and counters of energy that run since the machine started:
//
//	Delta,Time,CPU_FREQUENCY_0,...,DRAM_ENERGY (J),PACKAGE_ENERGY (J),...
//
// On AMD it is CPU_ENERGY (J), on a Mac SYSTEM_POWER (Watts), a power.
// Counters begin anew at their range. Source: tdurieux/EnergiBridge.
var energiBridge = Format{
	Name:    "energibridge",
	Summary: "output of EnergiBridge (Delta,Time,...,PACKAGE_ENERGY (J))",
	Detect: func(head []byte, path string) string {
		names := headerNames(head, path)
		i := slices.IndexFunc(names, func(n string) bool { return slices.Contains(energiBridgeColumns, n) })
		if i < 0 || !slices.Contains(names, "delta") || !slices.Contains(names, "time") {
			return ""
		}
		return "a header that names Delta, Time and " + names[i]
	},
	Import: importEnergiBridge,
}

// energiBridgeColumns are the columns that can give power, the best one first:
// what holds the others, before its parts.
var energiBridgeColumns = []string{"package energy (j)", "cpu energy (j)", "system power (watts)", "cpu power (watts)"}

func importEnergiBridge(j *job) error {
	t, err := j.openEnergyTable()
	if err != nil {
		return err
	}
	defer t.close()
	at, err := t.mustName("time")
	if err != nil {
		return err
	}
	at.setUnit(si.Unit{Base: "s", Scale: 1e-3})
	var c *column
	for _, name := range energiBridgeColumns {
		if c = t.named(name); c != nil {
			break
		}
	}
	if c == nil {
		return fmt.Errorf("%s: the header (%s) has no column PACKAGE_ENERGY (J), nor any other that gives the machine's power", t.name, t.names())
	}
	j.log(fmt.Sprintf("%s: power from %q; passed over: %s", j.Samples, c.name, t.passedOver(*at, *c)))
	isPower := strings.HasSuffix(normal(c.name), "(watts)")
	p := &powerWriter{job: j, model: "EnergiBridge"}
	lastNs, last, first := int64(0), 0.0, true
	return t.eachRow(j, max(at.index, c.index)+1, func() error {
		ns, _, err := t.stamp(at)
		if err != nil {
			return err
		}
		v, ok, err := t.number(c)
		if err != nil {
			return err
		}
		if !ok {
			v = math.NaN()
		}
		if !first {
			if ns <= lastNs {
				return t.backwards(at, ns, lastNs)
			}
			dt := float64(ns-lastNs) / 1e9
			watts := v
			if !isPower {
				joules := v - last
				if joules < 0 {
					joules = p.unwrap(joules, dt)
				}
				watts = joules / dt
			}
			if err := p.addPossible(lastNs, ns, watts); err != nil {
				return err
			}
		}
		lastNs, last, first = ns, v, false
		return nil
	}, p.finish)
}

// pyRAPL is the output of pyRAPL's CSV: a row for each measured piece of code
// and each socket,
//
//	label,timestamp,duration,pkg,dram,socket
//
// with the time at its begin in s since 1970, its duration in µs and energies in
// µJ. The sockets of one measurement are added up; dram is no part of pkg and
// passed over. Source: powerapi-ng/pyRAPL; that the time is that of the begin is
// how its Measurement is written.
var pyRAPL = Format{
	Name:    "pyrapl",
	Summary: "output of pyRAPL (label,timestamp,duration,pkg,dram,socket)",
	Detect:  detectHeader("label", "timestamp", "duration", "pkg", "socket"),
	Import:  importPyRAPL,
}

// rapl is one measurement of pyRAPL.
type rapl struct {
	label          string
	startNs, endNs int64
	microjoules    float64
}

func importPyRAPL(j *job) error {
	t, err := j.openEnergyTable()
	if err != nil {
		return err
	}
	defer t.close()
	var columns [4]*column
	for i, name := range []string{"label", "timestamp", "duration", "pkg"} {
		if columns[i], err = t.mustName(name); err != nil {
			return err
		}
	}
	label, at, duration, pkg := columns[0], columns[1], columns[2], columns[3]
	at.setUnit(si.Unit{Base: "s", Scale: 1})
	p := &powerWriter{job: j, model: "RAPL"}
	var open *rapl
	end := func() error {
		if open == nil {
			return nil
		}
		if open.startNs < p.endNs && p.b != nil {
			return posError(t.name, t.line, 0, "the measurement %q before this row begins within the one before it: they cannot be told apart", clip([]byte(open.label)))
		}
		watts := open.microjoules * 1e-6 / (float64(open.endNs-open.startNs) / 1e9)
		if err := p.addPossible(open.startNs, open.endNs, watts); err != nil {
			return err
		}
		return j.deriveWindow(open.startNs, open.endNs, mark.Op{Op: open.label}, max(j.Count, 1))
	}
	return t.eachRow(j, len(t.header), func() error {
		ns, _, err := t.stamp(at)
		if err != nil {
			return err
		}
		us, ok, err := t.number(duration)
		if err != nil {
			return err
		}
		f := t.field(duration.index)
		if !ok || !(us > 0 && us <= 1e12) {
			return posError(t.name, t.line, f.at, "%q is no duration in µs", clip(f.text))
		}
		uj, ok, err := t.number(pkg)
		if err != nil {
			return err
		}
		if !ok || uj < 0 {
			uj = math.NaN() // the counter began anew, and pyRAPL does not see it
		}
		name := string(t.field(label.index).text)
		if open != nil && open.label == name && open.startNs == ns {
			open.microjoules += uj
			return nil
		}
		if err := end(); err != nil {
			return err
		}
		open = &rapl{name, ns, ns + int64(us*1e3), uj}
		return nil
	}, func() error {
		if err := end(); err != nil {
			return err
		}
		return p.finish()
	})
}

// raplTable is a table that readers of RAPL in the manner of perf write:
//
//	#timestamp,interval,socket,domain,energy,power
//
// in s, s, J and W, a row for each domain of each socket in turn; the timestamp
// is the end of the interval. The packages are added up.
// Source: lukalt/icpe-2024-rapl-validation.
var raplTable = Format{
	Name:    "rapl-table",
	Summary: "table of RAPL readings (#timestamp,interval,socket,domain,energy,power)",
	Detect:  detectHeader("timestamp", "interval", "socket", "domain", "energy", "power"),
	Import:  importRAPLTable,
}

func importRAPLTable(j *job) error {
	t, err := j.openEnergyTable()
	if err != nil {
		return err
	}
	defer t.close()
	var columns [5]*column
	for i, name := range []string{"timestamp", "interval", "socket", "domain", "energy"} {
		if columns[i], err = t.mustName(name); err != nil {
			return err
		}
	}
	at, interval, socket, domain, energy := columns[0], columns[1], columns[2], columns[3], columns[4]
	at.setUnit(si.Unit{Base: "s", Scale: 1})
	j.log(fmt.Sprintf("%s: power from the packages of all sockets; other domains are passed over", j.Samples))
	p := &powerWriter{job: j, model: "RAPL"}
	var first []byte // the socket that opens a round
	var startNs, endNs int64
	watts := 0.0
	round := func() error {
		if first == nil {
			return nil
		}
		if p.b != nil {
			startNs = max(startNs, p.endNs)
		}
		return p.addPossible(startNs, endNs, watts)
	}
	return t.eachRow(j, len(t.header), func() error {
		if string(t.field(domain.index).text) != "package" {
			return nil
		}
		ns, _, err := t.stamp(at)
		if err != nil {
			return err
		}
		dt, ok, err := t.number(interval)
		if err != nil {
			return err
		}
		f := t.field(interval.index)
		if !ok || !(dt > 0 && dt < 1e6) {
			return posError(t.name, t.line, f.at, "%q is no interval in s", clip(f.text))
		}
		joules, ok, err := t.number(energy)
		if err != nil {
			return err
		}
		if !ok {
			joules = math.NaN()
		}
		if joules < 0 {
			joules = p.unwrap(joules, dt)
		}
		name := t.field(socket.index).text
		if first == nil || bytes.Equal(name, first) {
			if first != nil && ns <= endNs {
				return t.backwards(at, ns, endNs)
			}
			if err := round(); err != nil {
				return err
			}
			first = bytes.Clone(name)
			startNs, endNs, watts = ns-int64(dt*1e9), ns, 0
		}
		watts += joules / dt
		return nil
	}, func() error {
		if err := round(); err != nil {
			return err
		}
		return p.finish()
	})
}

// openEnergyTable opens a table whose rows are intervals.
func (j *job) openEnergyTable() (*table, error) {
	if j.RateHz != 0 {
		return nil, fmt.Errorf("%s: its rows carry times of their own; leave --rate out", j.Samples)
	}
	if j.Volts != 0 {
		return nil, fmt.Errorf("%s: its rows carry energies; leave --volts out", j.Samples)
	}
	return openTable(j.ctx, j.Samples)
}

// named returns the column of a name as normal writes it; nil for none.
func (t *table) named(name string) *column {
	for i := range t.header {
		if normal(t.header[i].name) == name {
			return &t.header[i]
		}
	}
	return nil
}

// mustName is named for a column that must be there.
func (t *table) mustName(name string) (*column, error) {
	c := t.named(name)
	if c == nil {
		return nil, fmt.Errorf("%s: the header (%s) has no column %s", t.name, t.names(), name)
	}
	return c, nil
}

// number reads a field as it stands, in the unit that it has.
func (t *table) number(c *column) (v float64, ok bool, err error) {
	f := t.field(c.index)
	if missing(f.text) {
		return 0, false, nil
	}
	d, err := t.decimal(f)
	if err == nil {
		if v, err = d.float(f.text, 0); err != nil {
			err = posError(t.name, t.line, f.at, "%q %v", clip(f.text), err)
		}
	}
	return v, err == nil, err
}

// backwards is the error of a time that does not rise.
func (t *table) backwards(at *column, ns, lastNs int64) error {
	return posError(t.name, t.line, t.field(at.index).at, "time runs backwards or stands still: %s s after %s s; split the file here if these are two recordings",
		seconds(ns), seconds(lastNs))
}

// eachRow calls row for each row of at least need fields, and then end.
func (t *table) eachRow(j *job, need int, row, end func() error) error {
	for {
		err := t.next(need)
		if err == io.EOF {
			return end()
		}
		if err == errTorn {
			if j.w == nil {
				return fmt.Errorf("%s: holds no whole row", j.Samples)
			}
			if err = j.noteTorn(t); err == nil {
				return end()
			}
		}
		if err == nil {
			err = row()
		}
		if err != nil {
			return err
		}
	}
}

// addPossible is add for a power that may be impossible.
func (p *powerWriter) addPossible(startNs, endNs int64, watts float64) error {
	if implausible(watts) {
		watts = math.NaN()
	}
	return p.add(startNs, endNs, watts)
}

// deriveWindow writes the statements of a window.
func (j *job) deriveWindow(startNs, endNs int64, op mark.Op, n int64) error {
	b := mark.Bound{Alg: op.Alg, Op: op.Op, N: &n}
	if err := j.derive(startNs, b); err != nil {
		return err
	}
	b.End = true
	return j.derive(endNs, b)
}
