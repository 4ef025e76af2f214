package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Report says what a run holds and what is damaged or missing.
type Report struct {
	Schema    string           `json:"schema"` // CheckSchema
	Run       string           `json:"run"`    // the folder
	Name      string           `json:"name"`
	Tool      string           `json:"tool"`
	Simulated bool             `json:"simulated"`
	Closed    bool             `json:"closed"` // ended in order
	Reason    string           `json:"reason"` // of the end; "" where not closed
	Streams   []StreamReport   `json:"streams"`
	Records   map[string]int64 `json:"records"` // by type
	Unknown   int64            `json:"unknown"` // records of types not known here
	Lines     int64            `json:"lines"`
	Edges     int64            `json:"edges"`
	Windows   int64            `json:"windows"` // window records, not statements
	// Damage holds the first 100; DamageCount counts all.
	Damage      []Damage `json:"damage"`
	DamageCount int64    `json:"damage_count"`
	TailOnly    bool     `json:"tail_only"` // nothing worse than a missing end
}

// CheckSchema is the version of a Report's JSON.
const CheckSchema = "joulemark.check/1"

// StreamReport is what Check has verified of one stream.
type StreamReport struct {
	Stream   string  `json:"stream"`
	Driver   string  `json:"driver"`
	Segments int     `json:"segments"`
	Samples  int64   `json:"samples"` // read back
	Seconds  float64 `json:"seconds"` // of samples, by the nominal rate or their times
	Arrivals int64   `json:"arrivals"`
	Packets  int64   `json:"packets"`
}

// OK reports whether nothing is damaged or missing.
func (r Report) OK() bool { return r.DamageCount == 0 }

// Check reads everything again and verifies it: each record's CRC, each
// checkpoint, the form and the number of rows of each batch, and that no bytes
// are left over. What cannot be read at all is damage too. The run is not
// changed.
func (r *Run) Check() Report {
	fresh, err := Open(r.Dir)
	if err != nil {
		fresh = &Run{Dir: r.Dir}
		fresh.damage(Damage{File: LogName, What: err.Error()})
		return fresh.report(nil)
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		fresh.damage(Damage{What: err.Error()})
		return fresh.report(nil)
	}
	defer root.Close()
	v := &verifier{run: fresh, root: root, tracks: map[trackKey]*track{}, seen: map[string]bool{}}
	for _, s := range fresh.Streams {
		v.streams = append(v.streams, StreamReport{Stream: s.Stream, Driver: s.Driver, Segments: len(s.Segments)})
	}
	fresh.scan(onlyCheckpoints, func(rec Record, _ []byte, err error) bool {
		if err == nil {
			v.checkpoint(rec.Checkpoint)
		} else if !isDamage(err) { // damage is known from Open
			v.fail(LogName, err)
		}
		return true
	})
	v.ends()
	return fresh.report(v.streams)
}

func (r *Run) report(streams []StreamReport) Report {
	p := Report{Schema: CheckSchema, Run: r.Dir, Name: r.Header.Name, Tool: r.Header.Tool,
		Simulated: r.Header.Simulated, Closed: r.Closing != nil, Streams: append([]StreamReport{}, streams...),
		Records: r.Counts, Unknown: r.Unknown,
		Lines: r.Counts["line"], Edges: r.Counts["edge"], Windows: r.Counts["window"],
		Damage: append([]Damage{}, r.Damage...), DamageCount: r.DamageCount, TailOnly: r.TailOnly}
	if p.Closed {
		p.Reason = r.Closing.Reason
	}
	return p
}

type trackKey struct {
	stream string
	kind   StreamKind
}

// verifier is what Check knows while it reads.
type verifier struct {
	run     *Run
	root    *os.Root
	tracks  map[trackKey]*track
	streams []StreamReport  // as run.Streams
	seen    map[string]bool // files that a checkpoint names
	list    []Arrival
}

// fail notes an error as damage of file.
func (v *verifier) fail(file string, err error) {
	var d *DamageError
	switch {
	case errors.As(err, &d):
		v.run.damage(d.Damage)
	case err != errSkip:
		v.run.damage(Damage{File: file, What: err.Error()})
	}
}

func (v *verifier) checkpoint(c *Checkpoint) {
	i := slices.IndexFunc(v.run.Streams, func(s StreamInfo) bool { return s.Stream == c.Stream })
	if i < 0 {
		v.fail(c.File, damaged(c, "a stream without a meter record"))
		return
	}
	v.seen[c.File] = true
	key := trackKey{c.Stream, c.Kind}
	t := v.tracks[key]
	if t == nil {
		t = newTrack(v.root, &v.run.Streams[i], c.Kind)
		v.tracks[key] = t
	}
	if c.Segment > t.segment {
		v.end(t)
	}
	b, gap, err := t.take(c)
	if gap != nil {
		v.fail(c.File, gap)
	}
	if err == nil && c.Rows > 0 {
		err = v.decode(t, c, b, &v.streams[i])
	}
	if err != nil {
		v.fail(c.File, err)
	}
}

// decode decodes one batch and counts what is in it.
func (v *verifier) decode(t *track, c *Checkpoint, b []byte, s *StreamReport) (err error) {
	switch c.Kind {
	case SampleData:
		before := t.lastNs
		if err := t.samples(c, b); err != nil {
			return err
		}
		s.Samples += c.Rows
		if rate := t.stream.RateHz; rate > 0 {
			s.Seconds += float64(c.Rows) / rate
			return nil
		}
		if before == noNs {
			before = t.batch.TimesNs[0]
		}
		s.Seconds += float64(t.lastNs-before) / 1e9
	case ArrivalData:
		if v.list, err = t.arrivals(c, b, v.list[:0]); err == nil {
			s.Arrivals += c.Rows
		}
	case RawData:
		if _, err = splitPackets(c, b); err == nil {
			s.Packets += c.Rows
		}
	}
	return err
}

// ends looks at what lies behind the last checkpoints, and for files that no
// checkpoint names.
func (v *verifier) ends() {
	for _, s := range v.run.Streams {
		for _, kind := range []StreamKind{SampleData, ArrivalData, RawData} {
			if t := v.tracks[trackKey{s.Stream, kind}]; t != nil {
				v.end(t)
			}
		}
	}
	entries, err := fs.ReadDir(v.root.FS(), ".")
	if err != nil {
		v.fail("", err)
	}
	for _, e := range entries {
		name := e.Name()
		data := strings.HasSuffix(name, ".arrows") || strings.HasSuffix(name, ".raw")
		if info, err := e.Info(); data && !v.seen[name] && err == nil && info.Size() > 0 {
			v.run.damage(Damage{File: name, What: "no checkpoint covers the file", Tail: true})
		}
	}
}

// endedInOrder reports whether a segment was ended by its writer: it was there
// when the run was closed, or when the stream went on.
func (v *verifier) endedInOrder(t *track) bool {
	segs := t.stream.Segments
	i := slices.IndexFunc(segs, func(s Segment) bool { return s.Segment == t.segment })
	if i == len(segs)-1 {
		return v.run.Closing != nil && segs[i].Part == int(v.run.Counts["resume"])
	}
	return segs[i].Part == segs[i+1].Part
}

// end looks at what follows the last checkpoint of a segment, and closes its
// file. A segment that ended in order has the mark of the end there.
func (v *verifier) end(t *track) {
	if t.file == nil {
		return
	}
	defer t.close()
	name := fileName(t.stream.Stream, t.segment, t.kind)
	info, err := t.file.Stat()
	if err != nil {
		v.fail(name, err)
		return
	}
	rest := info.Size() - t.end
	tail := make([]byte, min(max(rest, 0), int64(len(eos))))
	if _, err := t.file.ReadAt(tail, t.end); len(tail) > 0 && err != nil {
		v.fail(name, err)
		return
	}
	switch {
	case t.refused || rest < 0: // told already
	case t.kind != RawData && rest == int64(len(eos)) && bytes.Equal(tail, eos):
	case t.kind != RawData && rest == 0 && v.endedInOrder(t):
		v.run.damage(Damage{File: name, Offset: t.end, What: "no end mark", Tail: true})
	case rest > 0:
		v.run.damage(Damage{File: name, Offset: t.end,
			What: fmt.Sprintf("%d bytes after the last checkpoint", rest), Tail: true})
	}
}
