package imports

import (
	"bytes"
	"fmt"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// derivedSource is the mark source of statements that an importer makes of what
// a file says in another form; the file's own lines are never of this source.
const derivedSource = "derived"

// windowColumns are the names (as normal writes them) of columns that say what
// ran while a row was measured.
type windowColumns struct {
	alg, count string
	op         string // what the tool runs, where no column says it
}

// windowFields are such columns in a table.
type windowFields struct {
	alg, count int
	op         string
}

// in finds the columns in a table; nil where it has none.
func (w *windowColumns) in(t *table) *windowFields {
	if w == nil {
		return nil
	}
	f := &windowFields{alg: -1, count: -1, op: w.op}
	for _, c := range t.header {
		switch normal(c.name) {
		case w.alg:
			f.alg = c.index
		case w.count:
			f.count = c.index
		}
	}
	if f.alg < 0 || f.count < 0 {
		return nil
	}
	return f
}

// boundLines turns stretches of rows that say the same into begin and end
// statements, at the times of their first and last row.
type boundLines struct {
	job     *job
	columns *windowFields // nil for none

	open    bool
	bound   mark.Bound
	firstNs int64
	lastNs  int64
	windows int64
}

// row takes the current row of a table and its time on the clock of the samples.
func (b *boundLines) row(t *table, ns int64) error {
	if b.columns == nil {
		return nil
	}
	f := t.field(b.columns.count)
	n := count(f.text)
	if n < 1 {
		return posError(t.name, t.line, f.at, "%q is no number of iterations", clip(f.text))
	}
	alg := string(t.field(b.columns.alg).text)
	if b.open && (alg != b.bound.Alg || n != *b.bound.N) {
		if err := b.close(); err != nil {
			return err
		}
	}
	if !b.open {
		b.open, b.firstNs = true, ns
		b.bound = mark.Bound{Alg: alg, Op: b.columns.op, N: &n}
	}
	b.lastNs = ns
	return nil
}

// close ends the window that is open.
func (b *boundLines) close() error {
	if !b.open {
		return nil
	}
	b.open = false
	if err := b.job.derive(b.firstNs, b.bound); err != nil {
		return err
	}
	b.bound.End = true
	b.windows++
	return b.job.derive(b.lastNs, b.bound)
}

// note says where the windows come from.
func (b *boundLines) note() run.Note {
	return run.Note{Code: "derived-windows", Count: b.windows, Text: fmt.Sprintf(
		"%s been made of what the rows say; they begin and end with a row, and nothing is known of idle around them", have(b.windows, "window"))}
}

// derive writes a statement that an importer makes, at a time of the samples'
// clock.
func (j *job) derive(ns int64, b mark.Bound) error {
	text, err := mark.Append(nil, b.Statement())
	text = bytes.TrimSuffix(text, []byte("\n"))
	if err != nil {
		return fmt.Errorf("%s: %w", j.Samples, err)
	}
	j.summary.Lines++
	j.summary.Statements++
	return j.w.Line(run.Line{HostNs: ns - j.baseNs, Source: derivedSource, Text: text})
}
