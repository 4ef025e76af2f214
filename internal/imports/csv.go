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
	Import:  layout{sample: meters.UnknownKind}.importTable,
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
	layout *layout
	time   *column // nil where there is none
	values []column
	power  int      // how many of values make up the power: watts, or volts and amps
	volts  float64  // stated, where the file has none; 0 otherwise
	joined *channel // another file that has the volts; nil for none
	fields int      // that a row must have
	sums   []*sumCheck
}

// plan picks volts and amps, or else watts, and what else a run can hold.
// stated is the voltage of a file that has none, 0 for none.
func (t *table) plan(l *layout, stated float64, joined *channel) (csvPlan, error) {
	p := csvPlan{layout: l, volts: stated, joined: joined}
	if err := p.pickPower(t); err != nil {
		return p, err
	}
	p.power = len(p.values)
	extra := []string{meters.DPVolts, meters.DNVolts, meters.Celsius}
	if l.meanPower {
		extra = append(extra, meters.Volts)
	}
	for _, q := range extra {
		if c, err := t.pick(q); err == nil && c != nil && c.wrong == nil {
			p.values = append(p.values, *c)
		}
	}
	var err error
	if p.time, err = t.pick(timeOf); err != nil {
		return p, err
	}
	for _, c := range p.values[:p.power] {
		p.fields = max(p.fields, c.index+1)
	}
	if p.time != nil {
		p.fields = max(p.fields, p.time.index+1)
	}
	if !p.foreignVolts() {
		p.sums = t.newSumChecks(p.values[:p.power])
	}
	return p, nil
}

// pickPower picks the columns that make up the power.
func (p *csvPlan) pickPower(t *table) error {
	volts, err := t.need(meters.Volts)
	if err != nil {
		return err
	}
	amps, err := t.need(meters.Amps)
	if err != nil {
		return err
	}
	switch {
	case p.foreignVolts() && volts != nil:
		return fmt.Errorf("%s: has a column of volts, %q; leave --volts out", t.name, volts.name)
	case p.foreignVolts() && amps == nil:
		return fmt.Errorf("%s: a voltage needs a column of amps; the header (%s) has none", t.name, t.names())
	case p.foreignVolts():
		p.values = []column{*amps}
		return nil
	case volts != nil && amps != nil && !p.layout.meanPower:
		p.values = []column{*volts, *amps}
		return nil
	}
	watts, err := t.need(meters.Watts)
	switch {
	case err != nil:
		return err
	case watts != nil:
		p.values = []column{*watts}
		return nil
	case amps != nil:
		return fmt.Errorf("%s: the header (%s) names amps, but neither volts nor watts; state the voltage with --volts, such as --volts 3.3V", t.name, t.names())
	}
	return fmt.Errorf("%s: the header (%s) names neither volts and amps nor watts; %s", t.name, t.names(), exampleHeader)
}

// foreignVolts reports whether the volts are not in the table.
func (p *csvPlan) foreignVolts() bool { return p.volts != 0 || p.joined != nil }

// columns names what the run holds of each sample: volts that are not in the
// table come first.
func (p *csvPlan) columns() []string {
	var names []string
	if p.foreignVolts() {
		names = append(names, meters.Volts)
	}
	for _, c := range p.values {
		names = append(names, c.quantity)
	}
	return names
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
		ns, err := parseStamp(string(f.text), t.local)
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
	dates           bool // times are dates, not numbers
	gaps            gapCount
}

// jitter is how far, in periods, the samples of an equidistant stream may
// stand from their places.
const jitter = 1e-3

// scanTimes reads the times of a whole file, and finds whether they are
// equidistant: whether one period puts every sample within jitter of its place.
func scanTimes(t *table, p csvPlan) (timeLine, error) {
	var l timeLine
	low, high := 0.0, math.Inf(1) // bounds of the period in ns
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
			l.firstNs, l.lastNs, l.dates = ns, ns, iso
		}
		if iso != l.dates {
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
			l.gaps.add(ns - l.lastNs)
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

// typicalAfter is how many intervals between samples are looked at before one
// is called typical, and maxHold how many of them make a gap; analysis takes a
// longer silence as not measured.
const (
	typicalAfter = 64
	maxHold      = 2.5
)

// gapCount counts the gaps between samples that carry their own times.
type gapCount struct {
	first     []int64 // intervals, ns
	typicalNs int64
	gaps      int64
	lostNs    int64 // time in gaps beyond the typical interval
	allNs     int64
}

// add takes the interval between two samples.
func (g *gapCount) add(ns int64) {
	if ns == 0 {
		return // a repeated time says nothing of the period
	}
	g.allNs += ns
	if g.typicalNs == 0 {
		g.first = append(g.first, ns)
		if len(g.first) == typicalAfter {
			g.settle()
		}
		return
	}
	g.judge(ns)
}

// settle finds the typical interval, and judges those that were seen before.
func (g *gapCount) settle() {
	if g.typicalNs != 0 || len(g.first) == 0 {
		return
	}
	sorted := slices.Clone(g.first)
	slices.Sort(sorted)
	g.typicalNs = sorted[len(sorted)/2]
	for _, ns := range g.first {
		g.judge(ns)
	}
}

func (g *gapCount) judge(ns int64) {
	if float64(ns) > maxHold*float64(g.typicalNs) {
		g.gaps++
		g.lostNs += ns - g.typicalNs
	}
}

// note says how much of a recording is gaps; false where there are none.
func (g *gapCount) note() (run.Note, bool) {
	g.settle()
	if g.gaps == 0 {
		return run.Note{}, false
	}
	return run.Note{Code: "gaps", Count: g.gaps, Text: fmt.Sprintf(
		"samples are missing in %d places (none for longer than %g times the typical %s s): %.3g %% of the recording is not measured",
		g.gaps, maxHold, seconds(g.typicalNs), 100*float64(g.lostNs)/float64(g.allNs))}, true
}

// importTable imports a table of one row a sample.
func (l layout) importTable(j *job) error {
	t, err := openTable(j.ctx, j.Samples)
	if err != nil {
		return err
	}
	defer t.close()
	if err := l.apply(t); err != nil {
		return err
	}
	p, err := t.plan(&l, j.Volts, j.joined)
	if err != nil {
		return err
	}
	line, err := j.timeLine(t, p)
	if err != nil {
		return err
	}
	j.tellColumns(t, p, line)
	startNs := line.firstNs
	if l.atEnd {
		startNs -= line.periodNs()
	}
	if err := j.startAt(startNs, l.local && line.dates); err != nil {
		return err
	}
	s, err := j.w.Stream(j.info(meters.Info{
		Model: l.model, Columns: p.columns(), RateHz: line.rateHz, Sample: l.sample,
		Clock: meters.Shared, FirstHostNs: startNs - j.baseNs,
	}))
	if err != nil {
		return err
	}
	c := &tableCopy{job: j, p: p, line: line, startNs: startNs, endNs: startNs, b: newBlock(s, len(p.columns()), line.rateHz == 0)}
	if err := c.copy(t.point); err != nil {
		return err
	}
	if p.time == nil {
		line.lastNs = int64(float64(c.b.n-1) / line.rateHz * 1e9)
	}
	j.summary.Samples, j.summary.RateHz = c.b.n, line.rateHz
	j.summary.Seconds = float64(line.lastNs-line.firstNs) / 1e9
	if err := c.conclude(); err != nil {
		return err
	}
	return j.end(startNs, line.lastNs)
}

// periodNs is the sample period, the typical one where samples carry their own
// times; 0 for a single sample.
func (l *timeLine) periodNs() int64 {
	if l.rateHz > 0 {
		return int64(math.Round(1e9 / l.rateHz))
	}
	l.gaps.settle()
	return l.gaps.typicalNs
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
	for _, s := range p.sums {
		names = append(names, fmt.Sprintf("%q is %s, to compare", s.column.name, s.column.quantity))
		used = append(used, s.column)
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

// tableCopy streams the values of a table into the run.
type tableCopy struct {
	*job
	p    csvPlan
	line timeLine
	b    *block

	startNs int64 // of the first sample
	endNs   int64 // of the row before, where times are those of the end

	values []float64
	holes  int64 // samples without a value for the power
	erased int64 // impossible ones
	bounds boundLines
}

// copy reads the file once more. point is the decimal point that the times have
// shown.
func (c *tableCopy) copy(point byte) error {
	t, err := openTable(c.ctx, c.Samples)
	if err != nil {
		return err
	}
	defer t.close()
	if err := c.p.layout.apply(t); err != nil {
		return err
	}
	t.point = point
	c.bounds = boundLines{job: c.job, columns: c.p.layout.window.in(t)}
	for {
		err := t.next(c.p.fields)
		if err == io.EOF {
			break
		}
		if err == errTorn {
			if err := c.noteTorn(t); err != nil {
				return err
			}
			break
		}
		if err == nil {
			err = c.row(t)
		}
		if err != nil {
			return err
		}
	}
	if c.holes == c.b.n {
		return fmt.Errorf("%s: no row has a value for %s", c.Samples, quantities(c.p.values[:c.p.power]))
	}
	if err := c.bounds.close(); err != nil {
		return err
	}
	return c.b.flush(-1)
}

// row adds the current row.
func (c *tableCopy) row(t *table) error {
	ns, err := c.time(t)
	if err != nil {
		return err
	}
	hole, beyond := false, false
	c.values = c.values[:0]
	if c.p.foreignVolts() {
		volts := c.p.volts
		if c.p.joined != nil {
			if volts, err = c.p.joined.at(ns); err != nil {
				return err
			}
			hole = volts != volts
		}
		c.values = append(c.values, volts)
	}
	for i := range c.p.values {
		v, ok, err := t.float(&c.p.values[i])
		if err != nil {
			return err
		}
		if !ok {
			v = math.NaN()
			hole = hole || i < c.p.power
		}
		beyond = beyond || c.p.layout.beyond(c.p.values[i].quantity, v)
		c.values = append(c.values, v)
	}
	if beyond {
		c.erased++
		for i := range c.values {
			c.values[i] = math.NaN()
		}
	}
	if hole || beyond {
		c.holes++
	}
	if c.line.rateHz == 0 {
		at := ns
		if c.p.layout.atEnd {
			at, c.endNs = c.endNs, ns
		}
		c.b.b.TimesNs = append(c.b.b.TimesNs, at-c.startNs)
	}
	if !beyond {
		for _, s := range c.p.sums {
			if err := s.add(t, ns); err != nil {
				return err
			}
		}
	}
	if err := c.bounds.row(t, ns); err != nil {
		return err
	}
	c.b.add(c.values)
	if c.b.b.Len() == blockRows {
		return c.b.flush(-1)
	}
	return nil
}

// time is the time of the current row, where anything needs it.
func (c *tableCopy) time(t *table) (int64, error) {
	switch {
	case c.p.time == nil:
		return int64(float64(c.b.n) / c.line.rateHz * 1e9), nil
	case c.line.rateHz == 0 || len(c.p.sums) > 0 || c.bounds.columns != nil || c.p.joined != nil:
		ns, _, err := t.stamp(c.p.time)
		return ns, err
	}
	return 0, nil
}

// conclude writes the notes on what was found.
func (c *tableCopy) conclude() error {
	notes := []run.Note{}
	if n := c.holes - c.erased; n > 0 {
		notes = append(notes, run.Note{Code: "missing-values", Count: n, Text: fmt.Sprintf(
			"%d of %s no value and count as not measured", n, have(c.b.n, "sample"))})
	}
	if c.erased > 0 {
		notes = append(notes, impossibleNote(c.erased, c.p.layout.maxVolts, c.p.layout.maxAmps))
	}
	if c.line.repeated > 0 {
		notes = append(notes, run.Note{Code: "repeated-times", Count: c.line.repeated, Warn: true, Text: fmt.Sprintf(
			"%s the time of the sample before: the times are coarser than the sampling", have(c.line.repeated, "sample"))})
	}
	if n, ok := c.line.gaps.note(); ok && c.line.rateHz == 0 {
		notes = append(notes, n)
	}
	if c.p.volts != 0 {
		notes = append(notes, statedVolts(c.p.volts))
	}
	if c.p.layout.local && c.line.dates {
		notes = append(notes, run.Note{Code: "local-times", Count: 1, Text: "the dates have no time zone: when the recording was made is not known, only how long it took"})
	}
	if c.bounds.windows > 0 {
		notes = append(notes, c.bounds.note())
	}
	for _, n := range notes {
		if err := c.note(n); err != nil {
			return err
		}
	}
	return c.noteSums(c.p.sums)
}

// impossibleNote says that samples were taken out.
func impossibleNote(n int64, volts, amps float64) run.Note {
	return run.Note{Code: "impossible", Count: n, Warn: true, Text: fmt.Sprintf(
		"%s an impossible value (beyond %g V or %g A); taken as not measured", have(n, "sample"), volts, amps)}
}

// statedVolts says that the voltage was not measured.
func statedVolts(volts float64) run.Note {
	return run.Note{Code: "stated-volts", Count: 1, Warn: true, Text: fmt.Sprintf(
		"the recording holds current only: power is that current times %g V, a voltage that was stated, not measured", volts)}
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
