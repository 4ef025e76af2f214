package run

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf8"
)

// LogName is the file of a run that holds its records.
const LogName = "run.jsonl"

// MaxLineBytes bounds one record of run.jsonl, line end not counted.
const MaxLineBytes = 1 << 20

// A line is {"type":"TYPE",members...,"crc":"8 hex digits"}: the type comes
// first, the CRC last.
const (
	lineHead = `{"type":"`
	lineMark = `,"crc":"`
	lineTail = len(lineMark) + 8 + len(`"}`)
)

// isTypeName reports whether a record's type is 1 to 32 of a-z, 0-9 and _, a
// letter first.
func isTypeName(b []byte) bool {
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_')) {
			return false
		}
	}
	return len(b) >= 1 && len(b) <= 32
}

// crcText is the CRC-32 of b as the 8 digits that a run holds.
func crcText(b []byte) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(b))
	return hex.EncodeToString(sum[:])
}

var (
	errLineCRC  = errors.New("the CRC does not match")
	errLineForm = errors.New("not a record")
	errLineLong = fmt.Errorf("longer than %d bytes", MaxLineBytes)
)

// encodeLine returns the line, with its line end, of a record whose members
// are those of the struct v.
func encodeLine(kind string, v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	members := b.Bytes()[1 : b.Len()-len("}\n")]
	line := append([]byte(lineHead), kind...)
	line = append(line, '"')
	if len(members) > 0 {
		line = append(append(line, ','), members...)
	}
	line = append(line, lineMark+crcText(line)+`"}`...)
	if len(line) > MaxLineBytes {
		return nil, errLineLong
	}
	return append(line, '\n'), nil
}

// lineKind checks the CRC of a line, given without its line end, and returns
// the record's type.
func lineKind(line []byte) (string, error) {
	body := len(line) - lineTail
	if body < 0 || !bytes.HasPrefix(line, []byte(lineHead)) {
		return "", errLineForm
	}
	if string(line[body:]) != lineMark+crcText(line[:body])+`"}` {
		return "", errLineCRC
	}
	kind, _, _ := bytes.Cut(line[len(lineHead):body], []byte(`"`))
	if !isTypeName(kind) {
		return "", errLineForm
	}
	return string(kind), nil
}

// decodeLine decodes the members of a line that lineKind has accepted, and
// checks their values.
func decodeLine(kind string, line []byte) (Record, error) {
	rec := Record{Type: kind}
	v := rec.members()
	if v == nil {
		return rec, nil
	}
	if err := json.Unmarshal(line, v); err != nil {
		return rec, err
	}
	return rec, v.check()
}

// checker is a record that knows which values it may have.
type checker interface{ check() error }

// members sets the member of the record that its type names and returns it,
// or nil where the type is not known.
func (rec *Record) members() checker {
	switch rec.Type {
	case "header":
		rec.Header = new(Header)
		return rec.Header
	case "meter":
		rec.Meter = new(Segment)
		return rec.Meter
	case "target":
		rec.Target = new(Target)
		return rec.Target
	case "env":
		rec.Env = new(Env)
		return rec.Env
	case "line":
		rec.Line = new(Line)
		return rec.Line
	case "edge":
		rec.Edge = new(Edge)
		return rec.Edge
	case "window":
		rec.Window = new(Window)
		return rec.Window
	case "inband":
		rec.InBand = new(InBand)
		return rec.InBand
	case "gap":
		rec.Gap = new(Gap)
		return rec.Gap
	case "note":
		rec.Note = new(Note)
		return rec.Note
	case "resume":
		rec.Resume = new(Resumed)
		return rec.Resume
	case "checkpoint":
		rec.Checkpoint = new(Checkpoint)
		return rec.Checkpoint
	case "close":
		rec.Close = new(Close)
		return rec.Close
	}
	return nil
}

// lineJSON is a Line on disk.
type lineJSON struct {
	HostNs int64   `json:"host_ns"`
	Source string  `json:"source"`
	Text   *string `json:"text,omitempty"`
	Hex    *string `json:"hex,omitempty"`
}

// MarshalJSON writes the text as "text" if it is valid UTF-8, else as "hex".
func (l Line) MarshalJSON() ([]byte, error) {
	j := lineJSON{HostNs: l.HostNs, Source: l.Source}
	if s := string(l.Text); utf8.ValidString(s) {
		j.Text = &s
	} else {
		s = hex.EncodeToString(l.Text)
		j.Hex = &s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(j)
	return b.Bytes(), err
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Line) UnmarshalJSON(b []byte) error {
	var j lineJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	l.HostNs, l.Source, l.Text = j.HostNs, j.Source, nil
	var err error
	switch {
	case j.Text != nil:
		l.Text = []byte(*j.Text)
	case j.Hex != nil:
		l.Text, err = hex.DecodeString(*j.Hex)
	default:
		err = errors.New("a line without text")
	}
	return err
}

// lineReader splits run.jsonl into lines of bounded length.
type lineReader struct {
	r      *bufio.Reader
	buf    []byte
	offset int64 // of the next line
}

// next returns a line without its line end, valid until the following call,
// and its offset. The error is errLineLong for a line that was passed over,
// io.ErrUnexpectedEOF with what there is of a last line without its end, and
// io.EOF after the last.
func (l *lineReader) next() (line []byte, offset int64, err error) {
	l.buf, offset = l.buf[:0], l.offset
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.offset += int64(len(part))
		if len(l.buf)+len(part) > MaxLineBytes+1 {
			long, l.buf = true, l.buf[:0]
		}
		if !long {
			l.buf = append(l.buf, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && l.offset > offset:
			return l.buf, offset, io.ErrUnexpectedEOF
		case err != nil:
			return nil, offset, err
		case long:
			return nil, offset, errLineLong
		}
		return l.buf[:len(l.buf)-1], offset, nil
	}
}
