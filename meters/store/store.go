// Package store keeps what is known of single meters, one JSON file a name.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// Schema is the version of a file.
const Schema = "joulemark.meter/1"

// maxBytes bounds a file.
const maxBytes = 1 << 20

// Entry is what is known of one meter.
type Entry struct {
	Schema           string                   `json:"schema"`
	Name             string                   `json:"name"`
	Calibration      *meters.Calibration      `json:"calibration,omitempty"`
	Characterisation *meters.Characterisation `json:"characterisation,omitempty"`
}

// Store is a folder of entries. It need not exist before the first is saved.
type Store struct{ Dir string }

// Default is the store of this user.
func Default() (Store, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Store{}, fmt.Errorf("find what is known of meters: %w", err)
	}
	return Store{filepath.Join(dir, "joulemark", "meters")}, nil
}

var name = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CheckName reports why a meter cannot have a name: 1 to 64 of a-z, 0-9, _ and
// -, a letter or digit first, and not "none", which stands for no calibration.
func CheckName(s string) error {
	if !name.MatchString(s) || s == "none" {
		return fmt.Errorf("name %q: want 1 to 64 of a-z 0-9 _ -, a letter or digit first, and not none", s)
	}
	return nil
}

// Path is the file of a name.
func (s Store) Path(name string) string { return filepath.Join(s.Dir, name+".json") }

// Load reads the entry of a name. The error wraps fs.ErrNotExist where there is
// none.
func (s Store) Load(name string) (Entry, error) {
	if err := CheckName(name); err != nil {
		return Entry{}, err
	}
	e, err := s.read(name)
	if err != nil {
		return Entry{}, fmt.Errorf("read what is known of meter %s: %w", name, err)
	}
	return e, nil
}

func (s Store) read(name string) (Entry, error) {
	var e Entry
	info, err := os.Stat(s.Path(name))
	if err != nil {
		return e, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBytes {
		return e, fmt.Errorf("%s is not a file of at most %d bytes", s.Path(name), maxBytes)
	}
	f, err := os.Open(s.Path(name))
	if err != nil {
		return e, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return e, err
	}
	return decode(b, name)
}

func decode(b []byte, name string) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return e, err
	}
	if e.Schema != Schema {
		return e, fmt.Errorf("schema %q is not known here: read it with a newer joulemark", e.Schema)
	}
	if e.Name != name {
		return e, fmt.Errorf("the file is of meter %q", e.Name)
	}
	return e, e.check()
}

func (e *Entry) check() error {
	if e.Calibration != nil {
		if err := e.Calibration.Check(); err != nil {
			return err
		}
	}
	if e.Characterisation != nil {
		return e.Characterisation.Check()
	}
	return nil
}

// Update changes the entry of a name, or makes it, and returns it. What change
// refuses stays as it was.
func (s Store) Update(name string, change func(*Entry) error) (Entry, error) {
	if err := CheckName(name); err != nil {
		return Entry{}, err
	}
	e, err := s.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		e, err = Entry{Schema: Schema, Name: name}, nil
	}
	if err == nil {
		err = change(&e)
	}
	if err == nil {
		err = e.check()
	}
	if err == nil {
		err = s.write(e)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("keep what is known of meter %s: %w", name, err)
	}
	return e, nil
}

// write replaces a file as a whole.
func (s Store) write(e Entry) (err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), s.Path(e.Name))
}

// List reads all entries, in the order of their names. A file that cannot be
// read gives an error and does not hide the others.
func (s Store) List() ([]Entry, error) {
	files, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list what is known of meters: %w", err)
	}
	var all []Entry
	var broken error
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || CheckName(name) != nil {
			continue
		}
		e, err := s.Load(name)
		if err != nil {
			broken = errors.Join(broken, err)
			continue
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, broken
}
