// Package record joins meters and marks into one run while they happen.
//
// Its core, a Track, decides where the segments of a meter's stream begin; it
// has no goroutines and reads no clock. A Recorder puts meters, mark sources
// and the disk around it.
package record

import (
	"fmt"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// Codes of the notes that the recorder writes itself; others come from the
// meters.
const (
	MeterLost   = "meter-lost"   // it failed in the middle of a recording
	NotRecorded = "not-recorded" // samples that the disk was too slow for
	MarksLost   = "marks-lost"   // lines or edges that were not recorded
	Remark      = "remark"       // of the person who records
)

// Break says why a new segment begins.
type Break struct {
	Reason string // code of the note that tells of it; "" where nothing is missing
	HostNs int64  // ns since the run's start
	Rows   int64  // samples known to be missing; 0 where that is not known
}

// Sink takes down what a Track decides.
type Sink interface {
	// Begin opens a segment of the stream, the first one or the next.
	Begin(info meters.Info, why Break) error
	// Block appends to the segment that was opened last.
	Block(meters.Block) error
	// Note takes a remark about the stream.
	Note(meters.Notice) error
}

// Track is one meter's stream on its way into a run: it begins a segment with
// the first samples, and another one after each interruption across which
// nobody should count samples. It is not for several goroutines.
type Track struct {
	to     Sink
	info   meters.Info
	open   bool // samples go on in the open segment
	begun  bool // there is a segment
	again  bool // the meter was opened again since the last samples
	why    Break
	lastNs int64 // host ns of the last samples
}

// NewTrack makes the track of a meter that is still to be opened.
func NewTrack(to Sink) *Track { return &Track{to: to} }

// Open says that the meter was opened, for the first time or again. Its next
// samples begin a segment.
func (t *Track) Open(info meters.Info) {
	t.info, t.open, t.again = info, false, t.begun
}

// Notice takes a remark of the meter. A long interruption ends the segment.
func (t *Track) Notice(n meters.Notice) error {
	if n.GapNs > meters.SegmentGapNs && t.begun {
		t.end(Break{Reason: n.Code, HostNs: n.HostNs})
	}
	return t.to.Note(n)
}

// end ends the segment. What ended it first is the reason for the next one.
func (t *Track) end(why Break) {
	t.open = false
	if t.why.Reason == "" {
		t.why = why
		return
	}
	t.why.Rows += why.Rows
}

// Lost says that the meter has failed at a host time, ns since the run's start.
func (t *Track) Lost(hostNs int64, cause error) error {
	t.end(Break{Reason: MeterLost, HostNs: hostNs})
	return t.to.Note(meters.Notice{HostNs: hostNs, Code: MeterLost, Count: 1, Warn: true, Text: cause.Error()})
}

// Dropped says that rows samples before the next block were received and could
// not be kept.
func (t *Track) Dropped(hostNs, rows int64) error {
	t.end(Break{Reason: NotRecorded, HostNs: hostNs, Rows: rows})
	return t.to.Note(meters.Notice{HostNs: hostNs, Code: NotRecorded, Count: rows, Warn: true,
		Text: fmt.Sprintf("%d samples of %s were not recorded: the disk was too slow", rows, t.info.Stream)})
}

// Block takes a block of the meter. One without samples is evidence, and needs
// a segment that it can follow.
func (t *Track) Block(b meters.Block) error {
	if b.Len() == 0 {
		if !t.begun {
			return nil
		}
		return t.to.Block(b)
	}
	hostNs := t.hostNs(b)
	if gapNs := hostNs - t.lastNs; t.again {
		t.again = false
		err := t.to.Note(meters.Notice{HostNs: hostNs, Code: meters.Interrupted, Count: 1, Warn: true, GapNs: gapNs,
			Text: fmt.Sprintf("there are no samples for %.2f s; a new segment begins", float64(gapNs)/1e9)})
		if err != nil {
			return err
		}
	}
	if !t.open {
		if err := t.to.Begin(t.info, t.why); err != nil {
			return err
		}
		t.open, t.begun, t.why = true, true, Break{}
	}
	t.lastNs = hostNs
	return t.to.Block(b)
}

// hostNs is when the samples of a block were there.
func (t *Track) hostNs(b meters.Block) int64 {
	switch {
	case b.ArrivalNs >= 0:
		return b.ArrivalNs
	case t.info.Clock == meters.Shared && len(b.TimesNs) > 0:
		return t.info.FirstHostNs + b.TimesNs[len(b.TimesNs)-1]
	}
	return t.lastNs
}

// Stream is the Sink that writes to a run.
type Stream struct {
	to      *run.Writer
	stream  *run.Stream // nil before the first segment
	touched bool        // since it was last looked at
}

// NewStream makes the sink of one meter of a run.
func NewStream(to *run.Writer) *Stream { return &Stream{to: to} }

// Begin opens a segment, and says what is missing before it.
func (s *Stream) Begin(info meters.Info, why Break) error {
	next, err := s.to.Stream(info)
	if err != nil {
		return err
	}
	s.stream = next
	if why.Reason == "" {
		return nil
	}
	return s.to.Gap(run.Gap{Stream: info.Stream, Segment: next.Segment(), Rows: why.Rows, HostNs: why.HostNs, Reason: why.Reason})
}

// Block appends to the segment.
func (s *Stream) Block(b meters.Block) error {
	s.touched = true
	return s.stream.Write(b)
}

// Note writes a note.
func (s *Stream) Note(n meters.Notice) error {
	return s.to.Note(run.Note{HostNs: n.HostNs, Code: n.Code, Text: n.Text, Count: n.Count, Warn: n.Warn})
}

// flushSilent puts on disk what is pending, if nothing came since the last
// call.
func (s *Stream) flushSilent() error {
	silent := !s.touched
	s.touched = false
	if s.stream == nil || !silent {
		return nil
	}
	return s.stream.Flush()
}
