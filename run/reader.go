package run

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/joulemark/joulemark/meters"
)

// Bounds of what Open keeps; the rest is only counted.
const (
	keptDamage = 100
	keptNotes  = 1000 // and resumes
	keptEnv    = 1000
)

// ErrNotRun is the cause when a folder holds no readable run.
var ErrNotRun = errors.New("not a run")

// Run is a run opened for reading. It holds no file open, and may be read
// while it grows: each method reads what is there when it is called.
type Run struct {
	Dir    string
	Header Header
	// HeaderCRC is the "crc" of the header record; "" where it was damaged.
	HeaderCRC string
	Streams   []StreamInfo // in the order of their first meter record
	Target    Target       // all target records, later ones over earlier ones
	Env       map[string]string
	Notes     []Note    // the first 1000
	Resumes   []Resumed // the first 1000
	Closing   *Close    // nil where the run did not end in order

	Counts  map[string]int64 // records of each known type
	Unknown int64            // records of other types, passed over

	Damage      []Damage // the first 100
	DamageCount int64
	TailOnly    bool // all damage, if any, is of a missing end
}

// StreamInfo is one meter's stream. What is known of the meter is what its
// last segment says.
type StreamInfo struct {
	meters.Info
	Segments []Segment
	Rows     int64 // samples in all segments, by the checkpoints
}

// DamageError reports one damage and lets the reading go on.
type DamageError struct{ Damage }

func (e *DamageError) Error() string {
	if e.Tail {
		return fmt.Sprintf("%s: byte %d: %s (the end is missing)", e.File, e.Offset, e.What)
	}
	return fmt.Sprintf("%s: byte %d: %s", e.File, e.Offset, e.What)
}

// Open reads the records of a run once and keeps what describes it. Damage is
// no error but listed. The error wraps fs.ErrNotExist or ErrNotRun where dir
// is not a run.
func Open(dir string) (*Run, error) {
	r := &Run{Dir: dir, Env: map[string]string{}, Counts: map[string]int64{}, TailOnly: true}
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("open run %s: %w", dir, err)
	}
	return r, nil
}

func (r *Run) load() error {
	var failed error
	records, end := 0, int64(0)
	r.scan(nil, func(rec Record, line []byte, err error) bool {
		var d *DamageError
		if errors.As(err, &d) {
			r.damage(d.Damage)
			return true
		}
		if failed = err; err != nil {
			return false
		}
		records++
		end = rec.Offset + int64(len(line)) + 1
		if what := r.keep(rec, line); what != "" {
			r.damage(Damage{File: LogName, Offset: rec.Offset, What: what})
		}
		if h := r.Header.Schema; h != "" && h != Schema {
			failed = fmt.Errorf("schema %s is not known here: read it with a newer joulemark", h)
		}
		return failed == nil
	})
	switch {
	case failed != nil:
		return failed
	case records == 0:
		return fmt.Errorf("%w: %s holds no record", ErrNotRun, LogName)
	case r.Closing == nil:
		r.damage(Damage{File: LogName, Offset: end, What: "no closing record", Tail: true})
		return nil
	}
	for _, s := range r.Streams {
		if n := r.Closing.Rows[s.Stream]; n != s.Rows {
			r.damage(Damage{File: LogName, Offset: end,
				What: fmt.Sprintf("stream %s has %d samples, the closing record says %d", s.Stream, s.Rows, n)})
		}
	}
	return nil
}

func (r *Run) damage(d Damage) {
	r.DamageCount++
	r.TailOnly = r.TailOnly && d.Tail
	if len(r.Damage) < keptDamage {
		r.Damage = append(r.Damage, d)
	}
}

// keep takes up one record and returns what is wrong with its place.
func (r *Run) keep(rec Record, line []byte) (wrong string) {
	first := len(r.Counts) == 0 && r.Unknown == 0
	switch {
	case first && rec.Header == nil:
		wrong = "the first record is not a header"
	case !first && rec.Header != nil:
		wrong = "a header that is not the first record"
	case r.Closing != nil && rec.Resume == nil:
		wrong = "a record after the closing record"
	}
	if probe := (Record{Type: rec.Type}); probe.members() == nil {
		r.Unknown++
		return wrong
	}
	r.Counts[rec.Type]++
	switch {
	case rec.Header != nil && r.Header.Schema == "":
		r.Header = *rec.Header
		r.HeaderCRC = string(line[len(line)-len(`xxxxxxxx"}`):][:8])
	case rec.Meter != nil:
		return cmp.Or(wrong, r.keepSegment(*rec.Meter))
	case rec.Target != nil:
		json.Unmarshal(line, &r.Target) // was decoded once already
	case rec.Env != nil:
		for k, v := range rec.Env.Values {
			if _, known := r.Env[k]; known || len(r.Env) < keptEnv {
				r.Env[k] = v
			}
		}
	case rec.Note != nil && len(r.Notes) < keptNotes:
		r.Notes = append(r.Notes, *rec.Note)
	case rec.Resume != nil:
		r.Closing = nil
		if len(r.Resumes) < keptNotes {
			r.Resumes = append(r.Resumes, *rec.Resume)
		}
	case rec.Checkpoint != nil && rec.Checkpoint.Kind == SampleData:
		if s := r.stream(rec.Checkpoint.Stream); s != nil {
			s.Rows += rec.Checkpoint.Rows
		}
	case rec.Close != nil:
		r.Closing = rec.Close
	}
	return wrong
}

func (r *Run) keepSegment(seg Segment) (wrong string) {
	if r.Counts["meter"] > MaxSegments {
		return fmt.Sprintf("more than %d meter records", MaxSegments)
	}
	s := r.stream(seg.Stream)
	if s == nil {
		r.Streams = append(r.Streams, StreamInfo{Info: seg.Info, Segments: []Segment{seg}})
		return ""
	}
	if err := sameForm(s.Info, seg.Info); err != nil {
		return err.Error()
	}
	if last := s.Segments[len(s.Segments)-1].Segment; seg.Segment <= last {
		return fmt.Sprintf("segment %d of %s after segment %d", seg.Segment, seg.Stream, last)
	}
	s.Info, s.Segments = seg.Info, append(s.Segments, seg)
	return ""
}

func (r *Run) stream(name string) *StreamInfo {
	for i := range r.Streams {
		if r.Streams[i].Stream == name {
			return &r.Streams[i]
		}
	}
	return nil
}

// Records yields the records in their order. An error that is a *DamageError
// stands for a line that could not be trusted; the records go on after it. Any
// other error is the last.
func (r *Run) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r.scan(nil, func(rec Record, _ []byte, err error) bool { return yield(rec, err) })
	}
}

// scan reads run.jsonl and yields the records of the wanted types (nil: all)
// with their lines. A bad line is the torn end of an earlier part if a resume
// follows, so it is held back until the next line is known.
func (r *Run) scan(want func(kind string) bool, yield func(Record, []byte, error) bool) {
	f, err := r.openLog()
	if err != nil {
		yield(Record{}, nil, err)
		return
	}
	defer f.Close()
	lines := lineReader{r: bufio.NewReaderSize(f, 1<<14)}
	part := 0
	var points checkpoints
	var held *DamageError
	for {
		line, offset, lineErr := lines.next()
		var kind string
		whole := lineErr == nil || lineErr == io.ErrUnexpectedEOF
		if whole {
			kind, err = lineKind(line)
		} else {
			err = lineErr
		}
		if held != nil {
			held.Tail = kind == "resume"
			if !yield(Record{}, nil, held) {
				return
			}
			held = nil
		}
		if !whole && lineErr != errLineLong {
			if lineErr != io.EOF {
				yield(Record{}, nil, fmt.Errorf("read %s: %w", LogName, lineErr))
			}
			return
		}
		if kind == "resume" {
			part++
		}
		var rec Record
		if err == nil {
			if want != nil && !want(kind) {
				continue
			}
			if kind == "checkpoint" {
				rec, err = points.decode(line)
			} else {
				rec, err = decodeLine(kind, line)
			}
		}
		switch {
		case err == nil:
			rec.Offset, rec.Part = offset, part
			if rec.Meter != nil {
				rec.Meter.Part = part
			}
			if !yield(rec, line, nil) {
				return
			}
		case lineErr == io.ErrUnexpectedEOF:
			yield(Record{}, nil, &DamageError{Damage{File: LogName, Offset: offset, What: "a torn line", Tail: true}})
			return
		default:
			held = &DamageError{Damage{File: LogName, Offset: offset, What: err.Error()}}
		}
	}
}

func (r *Run) openLog() (*os.File, error) {
	if info, err := os.Stat(r.Dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: not a folder", ErrNotRun)
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return openIn(root, LogName)
}

// openIn opens a regular file of the run's folder; a symbolic link must not
// lead out of it.
func openIn(root *os.Root, name string) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return root.Open(name)
}
