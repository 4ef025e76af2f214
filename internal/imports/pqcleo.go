package imports

import (
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// pqcLEO is a table of PQC-LEO's energy tests, which polls a TC66C while a
// number of operations run:
//
//	Algorithm Name,Operation,Voltage (V),Current (A),Power (W),mWh,mAh,Joules,Elapsed Time (ms)
//
// Rows are sorted by algorithm and operation, and the time begins anew with
// each test, so how the tests followed each other is lost: here they follow
// with a pause. How many operations a test made is not in the file.
// Source: crt26/PQC-LEO, energy_data_parse.py.
var pqcLEO = Format{
	Name:    "pqc-leo",
	Summary: "energy tests of PQC-LEO (Algorithm Name,Operation,Voltage (V),...); needs --count",
	Detect:  detectHeader("algorithm name", "operation", "voltage (v)", "current (a)", "elapsed time (ms)"),
	Import:  importPQCLEO,
}

// leoPauseNs stands between tests; any pause that no sample lasts for would do.
const leoPauseNs = 10_000_000_000

// leoImport is an import under way.
type leoImport struct {
	*job
	t       *table
	time    *column
	values  []column
	columns []string
	b       *block // nil before the first row
	sums    []*sumCheck
	op      mark.Op
	startNs int64 // of the test, where its time is 0
	lastNs  int64
	tests   int64
	holes   int64
}

func importPQCLEO(j *job) error {
	if j.Count == 0 {
		return fmt.Errorf("%s: how many operations each test made is not in the file: state it with --count (1 gives the energy of a whole test)", j.Samples)
	}
	t, err := j.openEnergyTable()
	if err != nil {
		return err
	}
	defer t.close()
	alg, err := t.mustName("algorithm name")
	if err != nil {
		return err
	}
	op, err := t.mustName("operation")
	if err != nil {
		return err
	}
	l := layout{sample: meters.UnknownKind, maxVolts: maxVolts, maxAmps: maxAmps}
	p, err := t.plan(&l, 0, nil)
	if err != nil {
		return err
	}
	if p.time == nil || p.time.wrong != nil {
		return fmt.Errorf("%s: the header (%s) has no column Elapsed Time (ms)", t.name, t.names())
	}
	x := &leoImport{job: j, t: t, time: p.time, values: p.values[:p.power], columns: p.columns()[:p.power], sums: p.sums}
	return t.eachRow(j, p.fields, func() error {
		return x.row(&l, mark.Op{Alg: string(t.field(alg.index).text), Op: string(t.field(op.index).text)})
	}, x.finish)
}

// row adds the current row.
func (x *leoImport) row(l *layout, op mark.Op) error {
	ns, _, err := x.t.stamp(x.time)
	if err != nil {
		return err
	}
	if ns < 0 || ns > maxEdgeNs {
		f := x.t.field(x.time.index)
		return posError(x.t.name, x.t.line, f.at, "%q is no elapsed time", clip(f.text))
	}
	if x.b == nil {
		err = x.open()
	} else if op != x.op || ns+x.startNs < x.lastNs {
		err = x.end()
		x.startNs = x.lastNs + leoPauseNs
		x.lastNs = x.startNs
	}
	if err != nil {
		return err
	}
	x.op = op
	if x.lastNs == x.startNs && ns > 0 { // nothing was measured before the first row
		x.sample(x.startNs, slices.Repeat([]float64{math.NaN()}, len(x.values)))
	}
	x.lastNs = ns + x.startNs
	values := make([]float64, len(x.values))
	for i := range x.values {
		v, ok, err := x.t.float(&x.values[i])
		if err != nil {
			return err
		}
		if !ok || l.beyond(x.values[i].quantity, v) {
			v = math.NaN()
		}
		values[i] = v
	}
	for _, s := range x.sums {
		if err := s.add(x.t, x.lastNs); err != nil {
			return err
		}
	}
	x.sample(x.lastNs, values)
	if x.b.b.Len() == blockRows {
		return x.b.flush(-1)
	}
	return nil
}

// sample adds a sample at a time.
func (x *leoImport) sample(ns int64, values []float64) {
	if math.IsNaN(values[0] + values[len(values)-1]) {
		x.holes++
	}
	x.b.b.TimesNs = append(x.b.b.TimesNs, ns)
	x.b.add(values)
}

// open begins the run at the begin of the first test.
func (x *leoImport) open() error {
	if err := x.startAt(0, false); err != nil {
		return err
	}
	s, err := x.w.Stream(x.info(meters.Info{
		Model: "RuiDeng TC66C", Columns: x.columns, Sample: meters.UnknownKind, Clock: meters.Shared}))
	x.b = newBlock(s, len(x.values), true)
	return err
}

// end writes the window of the test that is open: it began when its time was 0,
// before the first row, and is taken to end with the last one.
func (x *leoImport) end() error {
	for _, s := range x.sums {
		s.restart = true
	}
	x.tests++
	return x.deriveWindow(x.startNs, x.lastNs, x.op, x.Count)
}

func (x *leoImport) finish() error {
	if x.b == nil {
		return fmt.Errorf("%s: holds no rows", x.Samples)
	}
	if err := x.end(); err != nil {
		return err
	}
	if err := x.b.flush(-1); err != nil {
		return err
	}
	if x.holes == x.b.n {
		return fmt.Errorf("%s: no row has a possible voltage and current", x.Samples)
	}
	notes := []run.Note{
		{Code: "tests-in-a-row", Count: x.tests, Text: fmt.Sprintf(
			"%d tests, each with times of its own, follow each other with a pause here; when they really ran is not in the file, nor is idle beside them, nor when the last operation ended after the last row", x.tests)},
		{Code: "count-stated", Count: x.Count, Text: fmt.Sprintf("%d operations a test, as stated", x.Count)},
	}
	if x.holes > 0 {
		notes = append(notes, run.Note{Code: "missing-values", Count: x.holes, Text: have(x.holes, "sample") + " no possible value, the begins of tests counted; taken as not measured"})
	}
	for _, n := range notes {
		if err := x.note(n); err != nil {
			return err
		}
	}
	if err := x.noteSums(x.sums); err != nil {
		return err
	}
	x.summary.Samples = x.b.n
	x.summary.Seconds = float64(x.lastNs) / 1e9
	return x.job.end(0, x.lastNs)
}
