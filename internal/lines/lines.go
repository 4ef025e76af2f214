// Package lines turns what other programs print while they benchmark into
// windows: openssl speed, liboqs speed_sig and speed_kem, logs of ESP-IDF, CSV
// with one line an operation. An adapter is a pure state machine; it opens
// nothing and reads no clock.
//
// Whatever a program prints is stored as it came, under its own source. What an
// adapter concludes from it are statements of the wire protocol (begin, end),
// each at the host time that it is about, under a source of their own, SOURCE/
// ADAPTER: evidence and conclusion stay apart, and a better adapter can read
// the evidence again.
package lines

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// Adapter describes how the lines of one kind of program are read.
type Adapter struct {
	Name    string
	Summary string // one line for help
	Options []Option
	New     func(Config) (Machine, error)
}

// Option is a setting of an adapter.
type Option struct{ Name, Default, Summary string }

// Config is what an adapter is made with.
type Config struct {
	Source  string            // mark source of the lines as they come
	Options map[string]string // by Option.Name; those left out have their default
}

// Machine reads the lines of one program.
type Machine interface {
	// Feed takes the next line, without its line end, and the host time at
	// which it arrived. It returns what the run stores: the line itself, then
	// the statements that follow from it.
	Feed(line []byte, hostNs int64) []run.Line
	// Close takes the end of the program and returns the statements that were
	// still waiting for it.
	Close() []run.Line
	// Notes returns what the run should say of the lines that could not be
	// used; to be asked after Close.
	Notes() []run.Note
}

// Adapters lists all adapters.
var Adapters = []Adapter{jm, opensslSpeed, liboqsSpeed, espIDFLog, csvIterations}

// New makes the machine of the adapter that is called name.
func New(name string, c Config) (Machine, error) {
	i := slices.IndexFunc(Adapters, func(a Adapter) bool { return a.Name == name })
	if i < 0 {
		var names []string
		for _, a := range Adapters {
			names = append(names, a.Name)
		}
		return nil, fmt.Errorf("lines %q: unknown; there are %s", name, strings.Join(names, ", "))
	}
	full := Config{Source: c.Source, Options: map[string]string{}}
	for _, o := range Adapters[i].Options {
		full.Options[o.Name] = o.Default
	}
	for key, value := range c.Options {
		if _, ok := full.Options[key]; !ok {
			return nil, fmt.Errorf("lines %s: no option %q", name, key)
		}
		full.Options[key] = value
	}
	m, err := Adapters[i].New(full)
	if err != nil {
		return nil, fmt.Errorf("lines %s: %w", name, err)
	}
	return m, nil
}

// jm leaves lines as they are.
var jm = Adapter{
	Name: "jm", Summary: "the program prints @jm lines itself",
	New: func(c Config) (Machine, error) { return &passing{newScribe("jm", c)}, nil },
}

type passing struct{ *scribe }

func (p *passing) Feed(line []byte, hostNs int64) []run.Line { return p.raw(line, hostNs) }
func (p *passing) Close() []run.Line                         { return nil }

// scribe writes down what adapters find.
type scribe struct {
	adapter, source string
	notes           []run.Note
}

func newScribe(adapter string, c Config) *scribe { return &scribe{adapter: adapter, source: c.Source} }

// Limits of what lines are believed.
const (
	// maxNotes bounds the different remarks.
	maxNotes = 100
	// Lines that lie closer together than the time that they state, by more
	// than this, were not handed over when they were printed. Programs state
	// their time with 10 ms, and the host adds some.
	lateShare, lateNs = 0.1, 50e6
)

// raw begins what Feed returns: the line as it came.
func (s *scribe) raw(line []byte, hostNs int64) []run.Line {
	return []run.Line{{HostNs: hostNs, Source: s.source, Text: bytes.Clone(line)}}
}

// window appends the statements of one window: n operations ran from fromNs to
// toNs, in which the program was busy for busyNs, as it says (0: it does not).
func (s *scribe) window(out []run.Line, op mark.Op, n, fromNs, toNs int64, busyNs float64) []run.Line {
	switch {
	case n < 1:
		s.note("no operation of %s was counted", op)
		return out
	case toNs <= fromNs || float64(toNs-fromNs) < (1-lateShare)*busyNs-lateNs:
		s.note("lines about %s arrived later than they were printed, and make no window: the program holds back its output (try it under 'stdbuf -oL')", op)
		return out
	}
	for _, b := range []mark.Bound{{Alg: op.Alg, Op: op.Op}, {End: true, Alg: op.Alg, Op: op.Op, N: &n}} {
		text, err := mark.Append(nil, b.Statement())
		if err != nil {
			s.note("no window of a name this long: %.40q", op.Alg)
			return out
		}
		at := fromNs
		if b.End {
			at = toNs
		}
		out = append(out, run.Line{HostNs: at, Source: s.source + "/" + s.adapter, Text: bytes.TrimSuffix(text, []byte("\n"))})
	}
	return out
}

// note remarks something, and counts how often.
func (s *scribe) note(format string, args ...any) {
	text := s.adapter + ": " + fmt.Sprintf(format, args...)
	i := slices.IndexFunc(s.notes, func(n run.Note) bool { return n.Text == text })
	if i < 0 {
		if len(s.notes) == maxNotes {
			return
		}
		i = len(s.notes)
		s.notes = append(s.notes, run.Note{Code: "lines", Text: text, Warn: true})
	}
	s.notes[i].Count++
}

// Notes implements Machine.
func (s *scribe) Notes() []run.Note { return s.notes }

// usable reports whether a line may hold something: what is longer than any
// program prints is evidence, and nothing else.
func usable(line []byte) bool { return len(line) <= mark.MaxLine }
