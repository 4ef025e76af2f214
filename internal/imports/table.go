package imports

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// field is one field of a row: its bytes, without quotes and padding, and the
// column of the line where it begins, from 1.
type field struct {
	text []byte
	at   int
}

// table reads rows of separated fields below a header.
type table struct {
	*lines
	sep    byte // ',', ';', '\t', or ' ' for any run of spaces and tabs
	header []column
	local  bool // dates need no time zone

	headerLine int // its number

	row     []field // the current row
	pending bool    // row was read ahead
	point   byte    // '.' or ',', once a number has shown it
	text    []byte  // of the pending row
}

// openTable opens a file of rows and reads its header: the first line that is
// neither blank nor a comment, or the last comment before the first row of
// numbers.
func openTable(ctx context.Context, path string) (*table, error) {
	l, err := openLines(ctx, os.Stat, os.Open, path, path)
	if err != nil {
		return nil, err
	}
	t := &table{lines: l}
	if err := t.readHeader(); err != nil {
		l.close()
		return nil, err
	}
	return t, nil
}

func (t *table) readHeader() error {
	header, headerLine, at, err := t.findHeader()
	if err == io.EOF {
		return fmt.Errorf("%s: holds no line but blanks and comments; %s", t.name, exampleHeader)
	}
	if err != nil {
		return err
	}
	t.text, err = t.dataLine()
	if err == io.EOF {
		return posError(t.name, headerLine, 0, "the file ends after its header: no samples")
	}
	if err != nil {
		return err
	}
	t.text, t.headerLine = bytes.Clone(t.text), headerLine
	t.pending = true
	t.sep = separator(header, t.text)
	if t.row, err = split(t.row[:0], []byte(header), t.sep); err != nil {
		return posError(t.name, headerLine, at, "%v", err)
	}
	for i, f := range joinUnits(t.row, t.sep) {
		c := parseColumn(string(f.text))
		c.index, c.at = i, at+f.at-1
		t.header = append(t.header, c)
	}
	return nil
}

// findHeader returns the header, the number of its line and the column where
// it begins.
func (t *table) findHeader() (header string, line, at int, err error) {
	for {
		b, err := t.lines.next()
		if err != nil {
			return "", 0, 0, err
		}
		trimmed := bytes.TrimSpace(b)
		if len(trimmed) == 0 {
			continue
		}
		if trimmed[0] == '#' {
			rest := bytes.TrimLeft(trimmed, "# \t")
			header, line, at = text(rest), t.line, 1+bytes.Index(b, rest)
			continue
		}
		if !strings.ContainsRune("0123456789+-.", rune(trimmed[0])) {
			return text(b), t.line, 1, nil
		}
		if len(quantitiesOf(header)) == 0 {
			return "", 0, 0, posError(t.name, t.line, 1, "numbers without a header above them: %s", exampleHeader)
		}
		t.text, t.pending = bytes.Clone(b), true
		return header, line, at, nil
	}
}

// quantitiesOf lists the quantities that a line names.
func quantitiesOf(header string) []string {
	var found []string
	sep := separator(header, nil)
	row, _ := split(nil, []byte(header), sep)
	for _, f := range joinUnits(row, sep) {
		if c := parseColumn(string(f.text)); c.quantity != "" && !slices.Contains(found, c.quantity) {
			found = append(found, c.quantity)
		}
	}
	return found
}

// text returns a header as UTF-8; other bytes are taken for Latin-1, in which
// old loggers write µ.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

// separator finds what separates the fields: the first candidate that splits
// header and row into equally many fields, else the first that splits the
// header at all.
func separator(header string, row []byte) byte {
	first := byte(0)
	for _, sep := range []byte(";\t, ") {
		h, err := split(nil, []byte(header), sep)
		h = joinUnits(h, sep)
		if err != nil || len(h) < 2 {
			continue
		}
		if first == 0 {
			first = sep
		}
		if r, err := split(nil, row, sep); err == nil && len(r) == len(h) {
			return sep
		}
	}
	if first == 0 {
		return ','
	}
	return first
}

// joinUnits joins "Time" and "(ms)" where spaces separate the fields.
func joinUnits(row []field, sep byte) []field {
	if sep != ' ' {
		return row
	}
	out := row[:0:0]
	for _, f := range row {
		if len(out) > 0 && len(f.text) > 0 && (f.text[0] == '(' || f.text[0] == '[') {
			last := &out[len(out)-1]
			last.text = bytes.Join([][]byte{last.text, f.text}, []byte(" "))
			continue
		}
		out = append(out, f)
	}
	return out
}

// split appends the fields of a line.
func split(row []field, line []byte, sep byte) ([]field, error) {
	i := 0
	for {
		for i < len(line) && (line[i] == ' ' || line[i] == '\t' && sep != '\t') {
			i++
		}
		if sep == ' ' && i == len(line) {
			return row, nil
		}
		if i < len(line) && line[i] == '"' {
			n := bytes.IndexByte(line[i+1:], '"')
			if n < 0 {
				return row, fmt.Errorf("the quote at column %d is not closed on this line", i+1)
			}
			row = append(row, field{bytes.TrimSpace(line[i+1 : i+1+n]), i + 2})
			i += n + 2
			for i < len(line) && (line[i] == ' ' || line[i] == '\t') && sep != line[i] {
				i++
			}
			if i < len(line) && line[i] != sep && !(sep == ' ' && line[i] == '\t') {
				return row, fmt.Errorf("column %d: something stands behind a closing quote", i+1)
			}
		} else {
			end := i
			if sep == ' ' {
				for end < len(line) && line[end] != ' ' && line[end] != '\t' {
					end++
				}
			} else if n := bytes.IndexByte(line[i:], sep); n >= 0 {
				end = i + n
			} else {
				end = len(line)
			}
			stop := end
			for stop > i && (line[stop-1] == ' ' || line[stop-1] == '\t') {
				stop--
			}
			row = append(row, field{line[i:stop], i + 1})
			i = end
		}
		if i >= len(line) {
			return row, nil
		}
		i++
	}
}

// dataLine returns the next line that is neither blank nor a comment.
func (t *table) dataLine() ([]byte, error) {
	if t.pending {
		t.pending = false
		return t.text, nil
	}
	for {
		b, err := t.lines.next()
		if err != nil {
			return nil, err
		}
		i := 0
		for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
			i++
		}
		if i == len(b) || b[i] == '#' {
			continue
		}
		return b, nil
	}
}

// rawLine is the next line of the rows, whatever it holds.
func (t *table) rawLine() ([]byte, error) {
	if t.pending {
		t.pending = false
		return t.text, nil
	}
	return t.lines.rawLine()
}

// buffered is what has been read of the file behind the current line. Who takes
// whole lines of it discards them, and counts them.
func (t *table) buffered() []byte {
	if t.pending {
		return nil
	}
	b, _ := t.r.Peek(t.r.Buffered())
	return b
}

func (t *table) discard(n int) { t.r.Discard(n) }

// errTorn says that the last line of the file is cut off.
var errTorn = fmt.Errorf("the last line is cut off")

// next reads the next row into t.row. A row may be short of fields at its end
// if at least need are there; at the end of the file a shorter one gives
// errTorn.
func (t *table) next(need int) error {
	b, err := t.dataLine()
	if err != nil {
		return err
	}
	return t.take(b, need)
}

// take makes a line the current row; need and errors as in next.
func (t *table) take(b []byte, need int) (err error) {
	if t.row, err = split(t.row[:0], b, t.sep); err != nil {
		return posError(t.name, t.line, 0, "%v", err)
	}
	n, want := len(t.row), len(t.header)
	if n == want+1 && len(t.row[want].text) == 0 {
		return nil // a separator at the end of the line
	}
	if n > want {
		hint := ""
		if t.sep == ',' && n >= 2*want-1 {
			hint = ": a decimal comma needs ; or a tab between the columns; export with decimal points, or with ;"
		}
		return posError(t.name, t.line, t.row[want].at, "%d fields, but the header names %d%s", n, want, hint)
	}
	if n < need {
		if t.torn {
			return errTorn
		}
		return posError(t.name, t.line, 0, "%d fields, but the header names %d", n, want)
	}
	return nil
}

// field returns a field of the current row, an empty one where the row is
// short.
func (t *table) field(index int) field {
	if index >= len(t.row) {
		return field{at: 1}
	}
	return t.row[index]
}

// decimal reads a field as a number, and holds the file to one decimal point.
func (t *table) decimal(f field) (decimal, error) {
	d, err := scanDecimal(f.text)
	if err == nil && d.point != 0 && d.point != t.point {
		err = t.setPoint(d.point)
	}
	if err != nil {
		return d, posError(t.name, t.line, f.at, "%q %v", clip(f.text), err)
	}
	return d, nil
}

func (t *table) setPoint(point byte) error {
	switch {
	case point == ',' && t.sep == ',':
		return fmt.Errorf("is a number with a decimal comma in a file separated by commas; export with decimal points, or with ;")
	case t.point == 0:
		t.point = point
		return nil
	}
	return errMixed
}

// float reads a field in the unit of its column, in base units; ok is false
// where the field says that there is no value.
func (t *table) float(c *column) (v float64, ok bool, err error) {
	f := t.field(c.index)
	if missing(f.text) {
		return 0, false, nil
	}
	d, err := t.decimal(f)
	if err != nil {
		return 0, false, err
	}
	if c.decimal {
		v, err = d.float(f.text, c.exp)
	} else {
		v, err = d.float(f.text, 0)
		v *= c.scale
	}
	if err != nil {
		return 0, false, posError(t.name, t.line, f.at, "%q %v", clip(f.text), err)
	}
	if implausible(v) {
		return 0, false, posError(t.name, t.line, f.at, "%q gives %g %s: is the unit in the header right?", clip(f.text), v, bases[c.quantity])
	}
	return v, true, nil
}

// clip shortens what a message quotes.
func clip(b []byte) string {
	if len(b) > 40 {
		return string(b[:40]) + "..."
	}
	return string(b)
}
