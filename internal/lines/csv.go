package lines

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"regexp"
	"strings"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// csvIterations reads programs that print one line of CSV an operation, when it
// has ended. Consecutive lines about one operation are one window. Printing is
// part of it: such a window holds the cost of its lines.
//
// Where lines say how long their operation took, a window reaches back to the
// begin of its first one, and ends where the program paused. Otherwise it
// begins with its first line, whose operation is not counted.
var csvIterations = Adapter{
	Name: "csv-iterations", Summary: "CSV, one line an operation, printed when it has ended",
	Options: []Option{
		{"alg", "1", "column of the algorithm, counted from 1, or =NAME"},
		{"op", "2", "column of the operation, counted from 1, or =NAME"},
		{"us", "", "column of the time that the operation took, µs"},
		{"match", "", "regular expression of the lines that count"},
		{"separator", ",", "what separates columns"},
	},
	New: newIterations,
}

type iterations struct {
	*scribe
	alg, op, us cell
	match       *regexp.Regexp
	separator   rune

	now          mark.Op // of the window under way
	n            int64
	fromNs, toNs int64
	busyNs       float64
}

// cell is where a value stands: in a column from 1, or, of column 0, fixed.
type cell struct {
	column int
	fixed  string
}

func newIterations(c Config) (Machine, error) {
	it := &iterations{scribe: newScribe("csv-iterations", c)}
	for _, x := range []struct {
		name string
		to   *cell
	}{{"alg", &it.alg}, {"op", &it.op}, {"us", &it.us}} {
		text := c.Options[x.name]
		switch fixed, ok := strings.CutPrefix(text, "="); {
		case ok && fixed != "" && x.name != "us":
			x.to.fixed = fixed
		case isNumber(text, false) && count(text) >= 1 && count(text) <= mark.MaxLine:
			x.to.column = int(count(text))
		case text != "" || x.name != "us":
			return nil, fmt.Errorf("%s=%q is neither a column, counted from 1, nor =NAME", x.name, text)
		}
	}
	separator := []rune(c.Options["separator"])
	if len(separator) != 1 || strings.ContainsRune("\"\r\n\uFFFD", separator[0]) {
		return nil, fmt.Errorf("separator=%q is not one character", c.Options["separator"])
	}
	it.separator = separator[0]
	var err error
	if it.match, err = regexp.Compile(c.Options["match"]); err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	return it, nil
}

// pauseShare and pauseNs say how much longer than its operation the time since
// the line before may be, before the program is taken to have paused.
const pauseShare, pauseNs = 0.2, 100e6

// Feed implements Machine.
func (it *iterations) Feed(line []byte, hostNs int64) []run.Line {
	out := it.raw(line, hostNs)
	if !usable(line) || !it.match.Match(line) {
		return out
	}
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma, r.LazyQuotes, r.TrimLeadingSpace = it.separator, true, it.separator != ' ' && it.separator != '\t'
	cells, err := r.Read()
	if err != nil {
		return out
	}
	op := mark.Op{Alg: algName(it.alg.in(cells)), Op: opName(it.op.in(cells))}
	us := it.us.in(cells)
	timed := it.us.column > 0
	if op.Alg == "" || op.Op == "" || timed && !isNumber(us, true) {
		return out // a header, or another line
	}
	busyNs := seconds(us) * 1e3
	paused := timed && float64(hostNs-it.toNs) > (1+pauseShare)*busyNs+pauseNs
	if op != it.now || paused {
		out = it.end(out)
		it.now, it.n, it.busyNs, it.fromNs = op, 0, 0, hostNs-int64(busyNs)
		if !timed {
			it.n = -1 // the first line merely begins the window
		}
	}
	it.n++
	it.busyNs += busyNs
	it.toNs = hostNs
	return out
}

// Close implements Machine.
func (it *iterations) Close() []run.Line { return it.end(nil) }

// end appends the window under way, if there is one.
func (it *iterations) end(out []run.Line) []run.Line {
	if it.now.Alg != "" {
		out = it.window(out, it.now, it.n, it.fromNs, it.toNs, it.busyNs)
	}
	it.now = mark.Op{}
	return out
}

func (c cell) in(cells []string) string {
	switch {
	case c.column == 0:
		return c.fixed
	case c.column <= len(cells):
		return strings.TrimSpace(cells[c.column-1])
	}
	return ""
}
