package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// HandSchema is the version of the file that holds what was set by hand.
const HandSchema = "joulemark.windows/1"

// Bounds of what may be set by hand.
const (
	MaxHandWindows = 100_000
	maxHandBytes   = 64 << 20
	maxHandSeconds = 1e9 // 30 years
	maxHandName    = 64  // bytes of a name
)

// Hand is what a person added to a run: windows on the sample clock, and the
// offset from marks to power. It is kept in a file beside the run, so that the
// run stays as it was recorded.
type Hand struct {
	Schema string `json:"schema"`
	// HeaderCRC is that of the run's header: what was set for one run is not
	// taken for another that later has its place.
	HeaderCRC string       `json:"header_crc"`
	Streams   []HandStream `json:"streams"`
}

// HandStream is what was set for one stream.
type HandStream struct {
	Stream string `json:"stream"`
	// OffsetSeconds is the time from a mark to the power that it announces, s;
	// nil where none was set.
	OffsetSeconds *float64     `json:"offset_s,omitempty"`
	Windows       []HandWindow `json:"windows,omitempty"` // by time, apart from each other
}

// HandWindow says that N operations ran from StartSeconds to EndSeconds, which
// count from the stream's first sample, at the fitted rate (host s).
type HandWindow struct {
	W            int64   `json:"w"`
	Alg          string  `json:"alg"`
	Op           string  `json:"op"`
	N            int64   `json:"n"`
	StartSeconds float64 `json:"start_s"`
	EndSeconds   float64 `json:"end_s"`
	Idle         string  `json:"idle,omitempty"`   // idle mode around it; "" where not known
	PreSeconds   float64 `json:"pre_s,omitempty"`  // quiet before it, s; 0 where not known
	PostSeconds  float64 `json:"post_s,omitempty"` // quiet after it, s; 0 where not known
}

// ErrForeign is the cause where the file beside a run was made for another one.
var ErrForeign = errors.New("it was made for another run")

// HandPath names the file that holds what was set by hand for the run in dir:
// beside the folder, with the ending .windows.json.
func HandPath(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(dir) != filepath.Base(abs) {
		dir = abs // "." and ".." name no file beside them
	}
	return filepath.Clean(dir) + ".windows.json"
}

// Hand reads what was set by hand, nothing where there is no such file. The
// error wraps ErrForeign if the file was made for another run.
func (r *Run) Hand() (Hand, error) {
	h, err := readHand(HandPath(r.Dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Hand{}, nil
	case err == nil && h.HeaderCRC != r.HeaderCRC:
		err = ErrForeign
	}
	if err != nil {
		return Hand{}, fmt.Errorf("read %s: %w", HandPath(r.Dir), err)
	}
	return h, nil
}

// SetHand replaces what was set by hand, whole or not at all; nothing at all
// removes the file.
func (r *Run) SetHand(h Hand) error {
	h.Schema, h.HeaderCRC = HandSchema, r.HeaderCRC
	h.Streams = slices.DeleteFunc(slices.Clone(h.Streams), func(s HandStream) bool {
		return s.OffsetSeconds == nil && len(s.Windows) == 0
	})
	path := HandPath(r.Dir)
	if err := h.check(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if len(h.Streams) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear windows: %w", err)
		}
		return nil
	}
	data, err := json.MarshalIndent(h, "", "  ")
	if err == nil {
		err = replaceFile(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Stream returns what was set for a stream, adding an empty entry where there
// is none.
func (h *Hand) Stream(name string) *HandStream {
	for i := range h.Streams {
		if h.Streams[i].Stream == name {
			return &h.Streams[i]
		}
	}
	h.Streams = append(h.Streams, HandStream{Stream: name})
	return &h.Streams[len(h.Streams)-1]
}

// Add puts windows among those of the stream, in order of time. It refuses
// windows that cannot be, or that overlap.
func (s *HandStream) Add(windows ...HandWindow) error {
	all := append(slices.Clone(s.Windows), windows...)
	slices.SortStableFunc(all, func(a, b HandWindow) int { return cmp.Compare(a.StartSeconds, b.StartSeconds) })
	grown := HandStream{Stream: s.Stream, Windows: all}
	if err := grown.check(); err != nil {
		return err
	}
	s.Windows = all
	return nil
}

func readHand(path string) (h Hand, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxHandBytes+1))
	if err != nil {
		return h, err
	}
	if len(data) > maxHandBytes {
		return h, fmt.Errorf("it is longer than %d bytes", maxHandBytes)
	}
	return parseHand(data)
}

func parseHand(data []byte) (h Hand, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&h); err != nil {
		return Hand{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Hand{}, errors.New("something follows the object")
	}
	if err := h.check(); err != nil {
		return Hand{}, err
	}
	return h, nil
}

func (h *Hand) check() error {
	if h.Schema != HandSchema {
		return fmt.Errorf("schema %q is not %s", h.Schema, HandSchema)
	}
	seen, count := map[string]bool{}, 0
	for i := range h.Streams {
		s := &h.Streams[i]
		if count += len(s.Windows); count > MaxHandWindows {
			return fmt.Errorf("more than %d windows", MaxHandWindows)
		}
		if seen[s.Stream] {
			return fmt.Errorf("stream %s stands there twice", s.Stream)
		}
		seen[s.Stream] = true
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *HandStream) check() error {
	if err := checkStream(s.Stream); err != nil {
		return err
	}
	if o := s.OffsetSeconds; o != nil && !(math.Abs(*o) <= maxHandSeconds) {
		return fmt.Errorf("offset %v s is out of range", *o)
	}
	for i := range s.Windows {
		w := &s.Windows[i]
		if err := w.Check(); err != nil {
			return fmt.Errorf("window from %v s: %w", w.StartSeconds, err)
		}
		if i == 0 {
			continue
		}
		if p := s.Windows[i-1]; w.StartSeconds < p.EndSeconds {
			return fmt.Errorf("window from %v s to %v s overlaps the one from %v s to %v s", w.StartSeconds, w.EndSeconds, p.StartSeconds, p.EndSeconds)
		}
	}
	return nil
}

// Check reports what no window can be.
func (w *HandWindow) Check() error {
	if err := errors.Join(checkCount("w", w.W), checkCount("n", w.N), checkHandName("alg", w.Alg), checkHandName("op", w.Op)); err != nil {
		return err
	}
	for _, q := range []struct {
		name  string
		value float64
	}{{"start", w.StartSeconds}, {"end", w.EndSeconds}, {"pre", w.PreSeconds}, {"post", w.PostSeconds}} {
		if !(q.value >= 0 && q.value <= maxHandSeconds) {
			return fmt.Errorf("%s %v s is not from 0 to %g s", q.name, q.value, maxHandSeconds)
		}
	}
	switch {
	case w.N == 0:
		return errors.New("n is 0: it holds no operation")
	case w.EndSeconds <= w.StartSeconds:
		return fmt.Errorf("it ends at %v s, before it begins", w.EndSeconds)
	case w.Idle != "":
		return checkHandName("idle", w.Idle)
	}
	return nil
}

// checkHandName accepts what a statement of the wire protocol can name.
func checkHandName(key, name string) error {
	if name == "" || len(name) > maxHandName {
		return fmt.Errorf("%s %q: want 1 to %d bytes", key, name, maxHandName)
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' {
			return fmt.Errorf("%s %q: want printable ASCII without spaces", key, name)
		}
	}
	return nil
}

// replaceFile writes a file such that path holds the old bytes or the new ones,
// also after a crash.
func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".windows-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}
