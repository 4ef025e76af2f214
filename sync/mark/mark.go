// Package mark is the wire protocol between target and host, version 1: ASCII
// lines "@jm KIND key=value ... *HHHH" beside whatever else the target prints.
//
// Parse and Append are pure. They decide as follows where the wire is unclear:
//
//   - A line is at most MaxLine bytes, its line end not counted, log prefix
//     included.
//   - Whatever follows the last "*" is the check. A check that is cut short or
//     followed by more text has failed: such a line was sent with a CRC, so it
//     must never pass as one without. Its hex digits may be of either case.
//   - A key that occurs twice makes a line malformed: it would hold two truths.
//   - An escape is "%" and two hex digits of either case; more bytes than
//     necessary may be escaped. Append escapes "@" too, so that a value never
//     looks like the opening of a statement.
//   - One or more spaces separate the words; spaces, CR, LF and the colour
//     reset of a log ("ESC [0m") at the end of a line are dropped.
package mark

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// MaxLine is the longest line, in bytes, without its line end.
const MaxLine = 1024

// maxName is the longest kind or key, in bytes.
const maxName = 32

// What Parse and ParseCommand may find; test with errors.Is.
var (
	ErrNone      = errors.New("no statement")
	ErrChecksum  = errors.New("wrong checksum")
	ErrMalformed = errors.New("malformed statement")
	ErrTooLong   = fmt.Errorf("line is longer than %d bytes", MaxLine)
)

// Field is one key=value of a statement, decoded.
type Field struct{ Key, Value string }

// Statement is one line of the protocol.
type Statement struct {
	Kind    string
	Fields  []Field
	Command bool // from the host ("@jh"), not from the target ("@jm")
	Checked bool // carried a CRC, and it was right
}

// Get returns the value of a key.
func (s Statement) Get(key string) (string, bool) {
	for _, f := range s.Fields {
		if f.Key == key {
			return f.Value, true
		}
	}
	return "", false
}

// String is the statement as a line without CRC and line end, for messages.
func (s Statement) String() string { return string(appendBody(nil, s)) }

// Append appends s to dst as one line with its CRC and LF. It refuses names
// that are no kinds or keys, a key given twice, and lines above MaxLine; dst is
// returned unchanged then. Statement.Checked is ignored: a CRC is always
// written.
func Append(dst []byte, s Statement) ([]byte, error) {
	if !isName(s.Kind) {
		return dst, fmt.Errorf("write statement: kind %q: %w", s.Kind, ErrMalformed)
	}
	for i, f := range s.Fields {
		if !isName(f.Key) {
			return dst, fmt.Errorf("write %s statement: key %q: %w", s.Kind, f.Key, ErrMalformed)
		}
		if hasKey(s.Fields[:i], f.Key) {
			return dst, fmt.Errorf("write %s statement: key %s given twice: %w", s.Kind, f.Key, ErrMalformed)
		}
	}
	start := len(dst)
	line := appendBody(dst, s)
	line = fmt.Appendf(line, " *%04X", CRC(line[start:]))
	if len(line)-start > MaxLine {
		return dst, fmt.Errorf("write %s statement of %d bytes: %w", s.Kind, len(line)-start, ErrTooLong)
	}
	return append(line, '\n'), nil
}

func appendBody(dst []byte, s Statement) []byte {
	dst = append(dst, opening(s.Command)...)
	dst = append(dst, s.Kind...)
	for _, f := range s.Fields {
		dst = append(dst, ' ')
		dst = append(dst, f.Key...)
		dst = append(dst, '=')
		dst = appendEscaped(dst, f.Value)
	}
	return dst
}

func opening(command bool) string {
	if command {
		return "@jh "
	}
	return "@jm "
}

// Parse reads the statement of a target that line holds, with or without its
// line end. The last "@jm " counts. A line without a CRC yields a statement
// with Checked == false; whether to believe it is for a Decoder to say. If a
// line is malformed in spite of a right CRC, Checked is set beside the error.
func Parse(line []byte) (Statement, error) { return parse(line, false) }

// ParseCommand reads the command of a host ("@jh"), which always carries a
// CRC: without one the error is ErrChecksum.
func ParseCommand(line []byte) (Statement, error) {
	s, err := parse(line, true)
	if err == nil && !s.Checked {
		return Statement{Command: true}, fmt.Errorf("read %s command without a CRC: %w", s.Kind, ErrChecksum)
	}
	return s, err
}

func parse(line []byte, command bool) (Statement, error) {
	s := Statement{Command: command}
	line = trimEnd(line)
	if len(line) > MaxLine {
		return s, ErrTooLong
	}
	open := opening(command)
	at := bytes.LastIndex(line, []byte(open))
	if at < 0 {
		return s, ErrNone
	}
	body := line[at:]
	if star := bytes.LastIndexByte(body, '*'); star >= 0 {
		if star == len(open) || body[star-1] != ' ' || !isCheck(body[star+1:], CRC(body[:star-1])) {
			return s, fmt.Errorf("read statement: %w", ErrChecksum)
		}
		s.Checked = true
		body = body[:star-1]
	}
	if err := s.words(body[len(open):]); err != nil {
		return Statement{Command: command, Checked: s.Checked}, err
	}
	return s, nil
}

// words fills Kind and Fields from the words of a line.
func (s *Statement) words(text []byte) error {
	for len(text) > 0 {
		var word []byte
		word, text, _ = bytes.Cut(text, []byte(" "))
		if len(word) == 0 {
			continue
		}
		if s.Kind == "" {
			if s.Kind = string(word); !isName(s.Kind) {
				return fmt.Errorf("read statement: kind %q: %w", word, ErrMalformed)
			}
			continue
		}
		key, value, _ := bytes.Cut(word, []byte("="))
		f := Field{Key: string(key)}
		var ok bool
		if f.Value, ok = unescape(value); !ok || !isName(f.Key) || len(key) == len(word) {
			return fmt.Errorf("read %s statement: %q is not key=value: %w", s.Kind, word, ErrMalformed)
		}
		if hasKey(s.Fields, f.Key) {
			return fmt.Errorf("read %s statement: key %s given twice: %w", s.Kind, f.Key, ErrMalformed)
		}
		s.Fields = append(s.Fields, f)
	}
	if s.Kind == "" {
		return fmt.Errorf("read statement: no kind: %w", ErrMalformed)
	}
	return nil
}

func hasKey(fields []Field, key string) bool {
	_, ok := Statement{Fields: fields}.Get(key)
	return ok
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimRight(line, " \r\n")
	line = bytes.TrimSuffix(line, []byte("\x1b[0m"))
	return bytes.TrimRight(line, " ")
}

// isName reports whether s may be a kind or a key: a lower-case letter, then
// lower-case letters, digits and "_".
func isName(s string) bool {
	if len(s) == 0 || len(s) > maxName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}

// isCheck reports whether text is the four hex digits of crc.
func isCheck(text []byte, crc uint16) bool {
	if len(text) != 4 {
		return false
	}
	v, err := strconv.ParseUint(string(text), 16, 16)
	return err == nil && uint16(v) == crc
}

// isPlain reports whether a byte stands for itself in a value.
func isPlain(c byte) bool { return c >= '!' && c <= '~' && c != '%' && c != '=' && c != '*' }

func appendEscaped(dst []byte, value string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(value) {
		if c := value[i]; isPlain(c) && c != '@' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

func unescape(text []byte) (string, bool) {
	if bytes.IndexFunc(text, func(r rune) bool { return r > '~' || !isPlain(byte(r)) }) < 0 {
		return string(text), true
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case isPlain(c):
			out = append(out, c)
		case c == '%' && i+2 < len(text):
			hi, lo := unhex(text[i+1]), unhex(text[i+2])
			if hi < 0 || lo < 0 {
				return "", false
			}
			out = append(out, byte(hi<<4|lo))
			i += 2
		default:
			return "", false
		}
	}
	return string(out), true
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
