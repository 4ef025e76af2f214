package polled

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/joulemark/joulemark/meters"
)

// maxAttribute is the size of a page, which no attribute of sysfs exceeds
// (Documentation/filesystems/sysfs.rst).
const maxAttribute = 4096

// ReadText reads an attribute of sysfs: one line of printable text.
func ReadText(files fs.FS, name string) (string, error) {
	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAttribute+1))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	switch {
	case len(b) > maxAttribute:
		return "", fmt.Errorf("read %s: it is longer than %d bytes", name, maxAttribute)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", fmt.Errorf("read %s: it is not a line of text", name)
	}
	return text, nil
}

// ReadNumber reads an attribute of sysfs that is a whole number.
func ReadNumber(files fs.FS, name string) (int64, error) {
	text, err := ReadText(files, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return n, nil
}

// Named returns the folders in dir that have an attribute of that name, with
// its text, in the order of dir.
func Named(files fs.FS, dir, attribute string) (folders, texts []string) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		folder := path.Join(dir, e.Name())
		if text, err := ReadText(files, path.Join(folder, attribute)); err == nil && text != "" {
			folders, texts = append(folders, folder), append(texts, text)
		}
	}
	return folders, texts
}

// Denied returns err, with what would help where it is a matter of permissions.
func Denied(err error, hint string) error {
	if errors.Is(err, fs.ErrPermission) {
		return &meters.Problem{Err: err, Hint: hint}
	}
	return err
}

// Files is a source that reads files of a host.
type Files struct {
	meters.Host
	// Read reads once. Its errors are not final.
	Read func() (Reading, error)
}

// Ask reads once.
func (f Files) Ask(context.Context) (Reading, error) {
	r, err := f.Read()
	if err != nil && !errors.Is(err, ErrNothingNew) {
		err = fmt.Errorf("%w: %w", ErrUnread, err)
	}
	return r, err
}

// Close does nothing: files are open only while they are read.
func (f Files) Close() error { return nil }
