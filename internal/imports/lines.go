package imports

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxLine bounds a line of text in bytes.
const maxLine = 64 << 10

// utf8BOM is the byte order mark that some programs put before UTF-8.
const utf8BOM = "\xef\xbb\xbf"

// posError builds an error at a place in a file; line and column count from 1,
// the column in bytes. Column 0 means the whole line.
func posError(file string, line, column int, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if column == 0 {
		return fmt.Errorf("%s:%d: %s", file, line, msg)
	}
	return fmt.Errorf("%s:%d:%d: %s", file, line, column, msg)
}

// openRegular opens a file that can be read more than once. stat and open are
// those of package os or of an os.Root.
func openRegular(stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error), path string) (*os.File, error) {
	info, err := stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a folder, not a file", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is not a regular file; copy what it yields to one first", path)
	case info.Size() == 0:
		return nil, fmt.Errorf("%s: the file is empty", path)
	}
	f, err := open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	return f, nil
}

// fileError names the file once, and says what to do where something can be
// done.
func fileError(path string, err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		err = perr.Err
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w; make it readable for you (chmod u+r), or copy it", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// magics are the heads of files that are no text, with what to do about them.
var magics = []struct{ head, hint string }{
	{"\x1f\x8b", "compressed (gzip): unpack it first"},
	{"BZh", "compressed (bzip2): unpack it first"},
	{"\xfd7zXZ\x00", "compressed (xz): unpack it first"},
	{"\x28\xb5\x2f\xfd", "compressed (zstd): unpack it first"},
	{"PK\x03\x04", "a zip or Excel file: unpack it, or save it as CSV, first"},
	{"PAR1", "a Parquet file: export it as CSV first"},
	{"\xff\xfe", "text in UTF-16: save it as UTF-8 first"},
	{"\xfe\xff", "text in UTF-16: save it as UTF-8 first"},
}

// checkText refuses the head of a file that is no text in UTF-8 (or another
// superset of ASCII).
func checkText(path string, head []byte) error {
	if err := checkMagic(path, head); err != nil {
		return err
	}
	if i := bytes.IndexByte(head, 0); i >= 0 {
		if i <= 1 && len(head) > 3 && head[i+2] == 0 {
			return fmt.Errorf("%s: text in UTF-16 without a byte order mark: save it as UTF-8 first", path)
		}
		return fmt.Errorf("%s: binary data (a NUL at byte %d), not text", path, i+1)
	}
	return nil
}

// checkMagic refuses the head of a file that is known to be no text.
func checkMagic(path string, head []byte) error {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.head)) {
			return fmt.Errorf("%s: %s", path, m.hint)
		}
	}
	return nil
}

// lines reads a text file line by line.
type lines struct {
	name string
	ctx  context.Context
	f    *os.File
	r    *bufio.Reader
	wire bool // what came over a wire: a damaged byte may be a NUL
	line int  // number of the line last returned, from 1
	torn bool // the line last returned had no line end: the file may be cut off
}

// openLines opens a text file; stat and open as in openRegular.
func openLines(ctx context.Context, stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error), path, name string) (*lines, error) {
	return openChecked(ctx, stat, open, path, name, checkText)
}

// openWire opens a text file of lines as they came over a wire.
func openWire(ctx context.Context, path string) (*lines, error) {
	l, err := openChecked(ctx, os.Stat, os.Open, path, path, checkMagic)
	if err == nil {
		l.wire = true
	}
	return l, err
}

func openChecked(ctx context.Context, stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error), path, name string,
	check func(path string, head []byte) error) (*lines, error) {
	f, err := openRegular(stat, open, path)
	if err != nil {
		return nil, err
	}
	l := &lines{name: name, ctx: ctx, f: f, r: bufio.NewReaderSize(f, maxLine)}
	head, err := l.r.Peek(headBytes)
	if err != nil && err != io.EOF {
		l.close()
		return nil, fileError(name, err)
	}
	if err := check(name, head); err != nil {
		l.close()
		return nil, err
	}
	if bytes.HasPrefix(head, []byte(utf8BOM)) {
		l.r.Discard(len(utf8BOM))
	}
	return l, nil
}

func (l *lines) close() { l.f.Close() }

// next returns the next line without its line end (LF or CR LF), valid until
// the next call, or io.EOF.
func (l *lines) next() ([]byte, error) {
	b, err := l.rawLine()
	if err == nil {
		err = l.checkLine(b)
	}
	return b, err
}

// checkLine refuses a line that holds binary data.
func (l *lines) checkLine(b []byte) error {
	if i := bytes.IndexByte(b, 0); i >= 0 && !l.wire {
		return posError(l.name, l.line, i+1, "binary data (a NUL), not text")
	}
	return nil
}

// rawLine is next for who accepts no line with a NUL anyway.
func (l *lines) rawLine() ([]byte, error) {
	if l.line%1024 == 0 && l.ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", l.name, l.ctx.Err())
	}
	b, err := l.r.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return nil, posError(l.name, l.line+1, 0, "the line is longer than %d bytes; is this a text file?", maxLine)
	case err == io.EOF && len(b) > 0:
		l.torn = true
	case err == io.EOF:
		return nil, io.EOF
	case err != nil:
		return nil, fileError(l.name, err)
	default:
		b = b[:len(b)-1]
	}
	l.line++
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b, nil
}
