package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// csvFormat is any file of rows whose header names quantities and units.
var csvFormat = Format{
	Name:    "csv",
	Summary: "rows of numbers under a header that names quantities and units (time_s,volts,amps)",
	Detect:  detectCSV,
	Import:  importCSV,
}

func detectCSV(head []byte, path string) string {
	if len(head) == 0 || checkText(path, head) != nil {
		return ""
	}
	head = bytes.TrimPrefix(head, []byte(utf8BOM))
	for line := range bytes.Lines(head) {
		line = bytes.TrimLeft(bytes.TrimSpace(line), "# \t")
		if len(line) == 0 {
			continue
		}
		if seen := quantitiesOf(text(line)); len(seen) > 0 {
			return "a header that names " + strings.Join(seen, ", ")
		}
		if line[0] >= '0' && line[0] <= '9' {
			break // the samples begin
		}
	}
	return ""
}

// pick finds the one column of a quantity. Columns whose unit is not known
// count only where there is no better one.
func (t *table) pick(quantity string) (*column, error) {
	var found *column
	for i := range t.header {
		c := &t.header[i]
		switch {
		case c.quantity != quantity:
		case found == nil || found.wrong != nil && c.wrong == nil:
			found = c
		case found.wrong == nil && c.wrong == nil:
			return nil, fmt.Errorf("%s: columns %q and %q both give %s; leave one of them out of the file", t.name, found.name, c.name, quantity)
		}
	}
	return found, nil
}

// need is pick for a quantity whose unit must be known.
func (t *table) need(quantity string) (*column, error) {
	c, err := t.pick(quantity)
	if err == nil && c != nil && c.wrong != nil {
		err = fmt.Errorf("%s: column %d %q %w", t.name, c.index+1, c.name, c.wrong)
	}
	return c, err
}

// csvPlan says which columns of a file are used.
type csvPlan struct {
	time   *column // nil where there is none
	values []column
	power  int // how many of values make up the power: watts, or volts and amps
	fields int // that a row must have
}

// plan picks volts and amps, or else watts, and what else a run can hold.
func (t *table) plan() (csvPlan, error) {
	var p csvPlan
	volts, err := t.need(meters.Volts)
	if err != nil {
		return p, err
	}
	amps, err := t.need(meters.Amps)
	if err != nil {
		return p, err
	}
	if volts != nil && amps != nil {
		p.values = []column{*volts, *amps}
	} else {
		watts, err := t.need(meters.Watts)
		if err != nil {
			return p, err
		}
		if watts == nil {
			return p, fmt.Errorf("%s: the header (%s) names neither volts and amps nor watts; %s", t.name, t.names(), exampleHeader)
		}
		p.values = []column{*watts}
	}
	p.power = len(p.values)
	for _, q := range []string{meters.DPVolts, meters.DNVolts, meters.Celsius} {
		if c, err := t.pick(q); err == nil && c != nil && c.wrong == nil {
			p.values = append(p.values, *c)
		}
	}
	if p.time, err = t.pick(timeOf); err != nil {
		return p, err
	}
	for _, c := range p.values[:p.power] {
		p.fields = max(p.fields, c.index+1)
	}
	if p.time != nil {
		p.fields = max(p.fields, p.time.index+1)
	}
	return p, nil
}

// names lists the names of the header.
func (t *table) names() string {
	var names []string
	for _, c := range t.header {
		names = append(names, fmt.Sprintf("%q", c.name))
	}
	return strings.Join(names, ", ")
}

// passedOver lists the columns that an import does not use.
func (t *table) passedOver(used ...column) string {
	var names []string
	for _, c := range t.header {
		if !slices.ContainsFunc(used, func(u column) bool { return u.index == c.index }) {
			names = append(names, fmt.Sprintf("%q", c.name))
		}
	}
	return strings.Join(names, ", ")
}

// stamp reads the time of the current row: a number in the column's unit, or
// an RFC 3339 time, which tells iso.
func (t *table) stamp(c *column) (ns int64, iso bool, err error) {
	f := t.field(c.index)
	if len(f.text) > 8 && f.text[4] == '-' {
		ns, err := parseStamp(string(f.text))
		if err != nil {
			return 0, true, posError(t.name, t.line, f.at, "%q %v", clip(f.text), err)
		}
		return ns, true, nil
	}
	if missing(f.text) {
		return 0, false, posError(t.name, t.line, f.at, "the row has no time")
	}
	if c.wrong != nil && normal(c.name) != "epoch" {
		return 0, false, fmt.Errorf("%s: column %d %q %w", t.name, c.index+1, c.name, c.wrong)
	}
	d, err := t.decimal(f)
	if err != nil {
		return 0, false, err
	}
	ns, err = d.nanos(c.exp)
	if err != nil {
		return 0, false, posError(t.name, t.line, f.at, "time %q %v", clip(f.text), err)
	}
	return ns, false, nil
}

// epochNs tells times since 1970 from times since the start of something: no
// recording is 30 years long.
const epochNs = 30 * 365 * 86400 * int64(time.Second)

// timeLine is what one pass over the times of a file finds.
type timeLine struct {
	firstNs, lastNs int64
	rows            int64
	repeated        int64 // rows with the time of the row before
	rateHz          float64
}

// jitter is how far, in periods, the samples of an equidistant stream may
// stand from their places.
const jitter = 1e-3

// scanTimes reads the times of a whole file, and finds whether they are
// equidistant: whether one period puts every sample within jitter of its place.
func scanTimes(t *table, p csvPlan) (timeLine, error) {
	var l timeLine
	low, high := 0.0, math.Inf(1) // bounds of the period in ns
	anyISO := false
	for {
		err := t.next(p.fields)
		if err == io.EOF || err == errTorn {
			break
		}
		if err != nil {
			return l, err
		}
		ns, iso, err := t.stamp(p.time)
		if err != nil {
			return l, err
		}
		if l.rows == 0 {
			l.firstNs, l.lastNs, anyISO = ns, ns, iso
		}
		if iso != anyISO {
			return l, posError(t.name, t.line, t.field(p.time.index).at, "numbers and dates are mixed in the time column")
		}
		if ns < l.lastNs {
			return l, posError(t.name, t.line, t.field(p.time.index).at,
				"time runs backwards: %s s after %s s; split the file here if these are two recordings, or sort it", seconds(ns), seconds(l.lastNs))
		}
		if l.rows > 0 {
			if ns == l.lastNs {
				l.repeated++
			}
			since, i := float64(ns-l.firstNs), float64(l.rows)
			low, high = max(low, since/(i+jitter)), min(high, since/(i-jitter))
		}
		l.lastNs = ns
		l.rows++
	}
	period := float64(l.lastNs-l.firstNs) / float64(l.rows-1)
	if l.rows < 2 || !(period > 0 && low <= period && period <= high) {
		return l, nil
	}
	l.rateHz = 1e9 / period
	if r := math.Round(l.rateHz); r > 0 && low <= 1e9/r && 1e9/r <= high {
		l.rateHz = r // stamps with few digits hide a whole rate
	}
	return l, nil
}

func importCSV(j *job) error {
	t, err := openTable(j.ctx, j.Samples)
	if err != nil {
		return err
	}
	defer t.close()
	p, err := t.plan()
	if err != nil {
		return err
	}
	line, err := j.timeLine(t, p)
	if err != nil {
		return err
	}
	j.tellColumns(t, p, line)

	var baseNs int64
	started := ""
	if line.firstNs >= epochNs {
		baseNs = line.firstNs - line.firstNs%int64(time.Second)
		started = time.Unix(0, baseNs).UTC().Format(time.RFC3339)
	}
	if err := j.create(started); err != nil {
		return err
	}
	info := j.info(meters.Info{
		RateHz: line.rateHz, Sample: meters.UnknownKind, Clock: meters.Shared, FirstHostNs: line.firstNs - baseNs,
	})
	for _, c := range p.values {
		info.Columns = append(info.Columns, c.quantity)
	}
	s, err := j.w.Stream(info)
	if err != nil {
		return err
	}
	n, err := j.copyRows(p, s, line, t.point)
	if err != nil {
		return err
	}
	lastNs := line.lastNs
	if p.time == nil {
		lastNs = int64(float64(n-1) / line.rateHz * 1e9)
	}
	j.summary.Samples, j.summary.RateHz = n, line.rateHz
	j.summary.Seconds = float64(lastNs-line.firstNs) / 1e9
	if line.repeated > 0 {
		if err := j.note(run.Note{Code: "repeated-times", Count: line.repeated, Warn: true, Text: fmt.Sprintf(
			"%s the time of the sample before: the times are coarser than the sampling", have(line.repeated, "sample"))}); err != nil {
			return err
		}
	}
	endNs, err := j.importMarks(baseNs, line.firstNs, lastNs)
	if err != nil {
		return err
	}
	return j.finish(max(endNs, lastNs-baseNs))
}

// timeLine finds the times of the samples, from the file or from the rate that
// the user gave.
func (j *job) timeLine(t *table, p csvPlan) (timeLine, error) {
	switch {
	case p.time == nil && j.RateHz == 0:
		return timeLine{}, fmt.Errorf("%s: the header (%s) names no time; add a time column, or state the rate with --rate", t.name, t.names())
	case p.time == nil:
		return timeLine{rateHz: j.RateHz}, nil
	case j.RateHz != 0:
		return timeLine{}, fmt.Errorf("%s: has a time column, %q; leave --rate out", t.name, p.time.name)
	}
	return scanTimes(t, p)
}

func (j *job) tellColumns(t *table, p csvPlan, line timeLine) {
	used := p.values
	if p.time != nil {
		used = append(slices.Clone(used), *p.time)
	}
	var names []string
	for _, c := range used {
		names = append(names, fmt.Sprintf("%q is %s", c.name, c.quantity))
	}
	j.log(fmt.Sprintf("%s: %s", j.Samples, strings.Join(names, ", ")))
	if rest := t.passedOver(used...); rest != "" {
		j.log(fmt.Sprintf("%s: passed over: %s", j.Samples, rest))
	}
	if line.rateHz > 0 {
		j.log(fmt.Sprintf("%s: equidistant, %g samples a second", j.Samples, line.rateHz))
	} else {
		j.log(fmt.Sprintf("%s: not equidistant: each sample keeps its time", j.Samples))
	}
}

// copyRows streams the values of the file into the run. point is the decimal
// point that the times have shown.
func (j *job) copyRows(p csvPlan, s *run.Stream, line timeLine, point byte) (int64, error) {
	t, err := openTable(j.ctx, j.Samples)
	if err != nil {
		return 0, err
	}
	defer t.close()
	t.point = point
	times := line.rateHz == 0
	b := newBlock(s, len(p.values), times)
	values := make([]float64, len(p.values))
	var holes int64
	for {
		err := t.next(p.fields)
		if err == io.EOF {
			break
		}
		if err == errTorn {
			if err := j.noteTorn(t); err != nil {
				return 0, err
			}
			break
		}
		if err != nil {
			return 0, err
		}
		hole := false
		for i := range p.values {
			v, ok, err := t.float(&p.values[i])
			if err != nil {
				return 0, err
			}
			if !ok {
				v = math.NaN()
				hole = hole || i < p.power
			}
			values[i] = v
		}
		if hole {
			holes++
		}
		if times {
			ns, _, err := t.stamp(p.time)
			if err != nil {
				return 0, err
			}
			b.b.TimesNs = append(b.b.TimesNs, ns-line.firstNs)
		}
		b.add(values)
		if b.b.Len() == blockRows {
			if err := b.flush(-1); err != nil {
				return 0, err
			}
		}
	}
	if holes == b.n {
		return 0, fmt.Errorf("%s: no row has a value for %s", j.Samples, quantities(p.values[:p.power]))
	}
	if holes > 0 {
		if err := j.note(run.Note{Code: "missing-values", Count: holes, Text: fmt.Sprintf(
			"%d of %s no value and count as not measured", holes, have(b.n, "sample"))}); err != nil {
			return 0, err
		}
	}
	return b.n, b.flush(-1)
}

func (j *job) noteTorn(t *table) error {
	return j.note(run.Note{Code: "torn-line", Count: 1, Text: fmt.Sprintf(
		"line %d, the last, is cut off and was left out", t.line)})
}

func quantities(columns []column) string {
	var names []string
	for _, c := range columns {
		names = append(names, c.quantity)
	}
	return strings.Join(names, " and ")
}
