package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// track reads the checkpointed bytes of one kind of one stream, segment after
// segment.
type track struct {
	root   *os.Root
	stream *StreamInfo
	kind   StreamKind

	segment int      // 0 before the first
	file    *os.File // of the segment; nil where it cannot be read
	size    int64    // of the file when last looked at; it may grow
	refused bool     // the segment's columns are not those of its meter
	end     int64    // of the last checkpoint
	row     int64    // after the last checkpoint
	lastNs  int64    // time of the segment's last sample, noNs before the first
	batches *batchReader
	ahead   []byte // of the file, from aheadAt on
	aheadAt int64
	batch   Batch // of samples, reused
}

func newTrack(root *os.Root, s *StreamInfo, kind StreamKind) *track {
	return &track{root: root, stream: s, kind: kind, batch: Batch{Columns: map[string][]float64{}}}
}

// errSkip marks bytes that are not read because of a damage told earlier.
var errSkip = errors.New("skip")

// take returns the bytes of the next checkpoint, verified. gap reports bytes
// before it that no checkpoint covers. The error is a *DamageError, or errSkip
// where there is nothing to use.
func (t *track) take(c *Checkpoint) (b []byte, gap *DamageError, err error) {
	if c.Segment != t.segment {
		if err := t.open(c); err != nil {
			return nil, nil, err
		}
	}
	if t.file == nil || t.refused {
		return nil, nil, errSkip
	}
	lost := c.Offset - t.end
	if lost < 0 {
		return nil, nil, damaged(c, "it overlaps the checkpoint before it")
	}
	if lost > 0 {
		gap = &DamageError{Damage{File: c.File, Offset: t.end, What: fmt.Sprintf("%d bytes without a checkpoint", lost)}}
	}
	// A row takes at least one bit.
	if c.Row < t.row || c.Row-t.row > 8*lost {
		return nil, gap, damaged(c, fmt.Sprintf("row %d does not follow row %d", c.Row, t.row))
	}
	t.end, t.row = c.Offset+c.Length, c.Row+c.Rows
	b, err = t.read(c)
	if err == nil && c.Rows == 0 && t.kind != RawData {
		if err := t.batches.checkHead(b); err != nil {
			t.refused = true
			return nil, gap, damaged(c, fmt.Sprintf("schema: %v", err))
		}
	}
	return b, gap, err
}

func damaged(c *Checkpoint, what string) *DamageError {
	return &DamageError{Damage{File: c.File, Offset: c.Offset, What: what}}
}

// open turns to the segment of c.
func (t *track) open(c *Checkpoint) error {
	if c.Segment < t.segment {
		return damaged(c, fmt.Sprintf("a checkpoint of segment %d after one of segment %d", c.Segment, t.segment))
	}
	t.close()
	t.segment, t.size, t.refused, t.end, t.row, t.lastNs = c.Segment, 0, false, 0, 0, noNs
	t.ahead = t.ahead[:0]
	i := slices.IndexFunc(t.stream.Segments, func(s Segment) bool { return s.Segment == c.Segment })
	if i < 0 {
		return damaged(c, fmt.Sprintf("segment %d has no meter record", c.Segment))
	}
	var err error
	switch t.kind {
	case SampleData:
		t.batches, err = newBatchReader(sampleSchema(t.stream.Segments[i].Info))
	case ArrivalData:
		t.batches, err = newBatchReader(arrivalSchema(t.stream.Segments[i].Info))
	}
	if err != nil {
		return err
	}
	if t.file, err = openIn(t.root, c.File); err != nil {
		return damaged(c, err.Error())
	}
	return nil
}

func (t *track) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

// read returns the bytes of c if their CRC is right.
func (t *track) read(c *Checkpoint) ([]byte, error) {
	if end := c.Offset + c.Length; end > t.size {
		info, err := t.file.Stat()
		if err != nil {
			return nil, err
		}
		if t.size = info.Size(); end > t.size {
			d := damaged(c, fmt.Sprintf("the checkpoint ends at byte %d, the file at %d", end, t.size))
			d.Tail = true
			return nil, d
		}
	}
	b, err := t.bytes(c.Offset, c.Length)
	if err != nil {
		return nil, err
	}
	if crcText(b) != c.CRC {
		return nil, damaged(c, "the CRC does not match")
	}
	return b, nil
}

// readAhead is how many bytes are read at once: the batches of a live recording
// are small.
const readAhead = 256 << 10

// bytes returns n bytes of the file, which holds them, valid until the next
// call.
func (t *track) bytes(offset, n int64) ([]byte, error) {
	if offset < t.aheadAt || offset+n > t.aheadAt+int64(len(t.ahead)) {
		size := min(max(n, readAhead), t.size-offset)
		t.ahead, t.aheadAt = slices.Grow(t.ahead[:0], int(size))[:size], offset
		if _, err := t.file.ReadAt(t.ahead, offset); err != nil {
			t.ahead = t.ahead[:0]
			return nil, err
		}
	}
	return t.ahead[offset-t.aheadAt:][:n], nil
}

// each reads run.jsonl and hands the verified bytes of each checkpoint of one
// stream and kind to use, which returns false to stop. Damage goes to fail,
// and so does any other error, which ends the reading.
func (r *Run) each(stream string, kind StreamKind, use func(*track, *Checkpoint, []byte) (bool, error), fail func(error) bool) {
	s := r.stream(stream)
	if s == nil {
		fail(r.noStream(stream))
		return
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		fail(err)
		return
	}
	defer root.Close()
	t := newTrack(root, s, kind)
	defer t.close()
	r.scan(onlyCheckpoints, func(rec Record, _ []byte, err error) bool {
		c := rec.Checkpoint
		if err == nil && (c.Stream != stream || c.Kind != kind) {
			return true
		}
		if err != nil {
			// A bad line is told by Open; a checkpoint lost with it shows as a gap.
			return isDamage(err) || fail(err)
		}
		b, gap, err := t.take(c)
		if gap != nil && !fail(gap) {
			return false
		}
		more := true
		if err == nil && c.Rows > 0 {
			more, err = use(t, c, b)
		}
		switch {
		case err == nil || err == errSkip:
			return more
		case isDamage(err):
			return fail(err)
		}
		fail(err)
		return false
	})
}

func onlyCheckpoints(kind string) bool { return kind == "checkpoint" }

func isDamage(err error) bool {
	var d *DamageError
	return errors.As(err, &d)
}

func (r *Run) noStream(name string) error {
	var names []string
	for _, s := range r.Streams {
		names = append(names, s.Stream)
	}
	return fmt.Errorf("run %s: no stream %q (it has: %s)", r.Dir, name, strings.Join(names, ", "))
}

// Samples yields the samples of a stream, batch by batch, over all segments. A
// batch and its slices are overwritten by the next one. An error that is a
// *DamageError stands for a batch that could not be trusted or is not there;
// the rows of those after it are right all the same. Any other error is the
// last.
func (r *Run) Samples(stream string) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		r.each(stream, SampleData, func(t *track, c *Checkpoint, b []byte) (bool, error) {
			if err := t.samples(c, b); err != nil {
				return true, err
			}
			return yield(&t.batch, nil), nil
		}, func(err error) bool { return yield(nil, err) })
	}
}

// samples decodes one batch into t.batch.
func (t *track) samples(c *Checkpoint, b []byte) error {
	t.batch.Segment, t.batch.Row = c.Segment, c.Row
	if err := t.batches.samples(b, c.Rows, &t.batch); err != nil {
		return damaged(c, err.Error())
	}
	for _, ns := range t.batch.TimesNs {
		if ns < max(t.lastNs, -maxNs) || ns > maxNs {
			return damaged(c, fmt.Sprintf("sample time %d ns after %d ns", ns, t.lastNs))
		}
		t.lastNs = ns
	}
	return nil
}

// Arrivals yields when the packets of a stream arrived, over all segments.
// Errors are those of Samples.
func (r *Run) Arrivals(stream string) iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		var list []Arrival
		r.each(stream, ArrivalData, func(t *track, c *Checkpoint, b []byte) (bool, error) {
			var err error
			if list, err = t.arrivals(c, b, list[:0]); err != nil {
				return true, err
			}
			for _, a := range list {
				if !yield(a, nil) {
					return false, nil
				}
			}
			return true, nil
		}, func(err error) bool { return yield(Arrival{}, err) })
	}
}

// arrivals appends one batch to list.
func (t *track) arrivals(c *Checkpoint, b []byte, list []Arrival) ([]Arrival, error) {
	err := t.batches.decode(b, c.Rows, func(rec arrow.RecordBatch) error {
		rows := rec.Column(0).(*array.Uint64).Uint64Values()
		times := rec.Column(1).(*array.Int64).Int64Values()
		for i, row := range rows {
			if row > maxRow {
				return fmt.Errorf("row %d is out of range", row)
			}
			if err := checkNs(times[i]); err != nil {
				return err
			}
			list = append(list, Arrival{c.Segment, c.Row + int64(i), int64(row), times[i]})
		}
		return nil
	})
	if err != nil {
		return list, damaged(c, err.Error())
	}
	return list, nil
}

// Packet is one packet of a meter as received.
type Packet struct {
	Segment int
	Index   int64 // within the segment
	Bytes   []byte
}

// Packets yields the packets of a stream as received, over all segments. The
// bytes are overwritten by later ones. Errors are those of Samples.
func (r *Run) Packets(stream string) iter.Seq2[Packet, error] {
	return func(yield func(Packet, error) bool) {
		r.each(stream, RawData, func(t *track, c *Checkpoint, b []byte) (bool, error) {
			packets, err := splitPackets(c, b)
			if err != nil {
				return true, err
			}
			for i, p := range packets {
				if !yield(Packet{c.Segment, c.Row + int64(i), p}, nil) {
					return false, nil
				}
			}
			return true, nil
		}, func(err error) bool { return yield(Packet{}, err) })
	}
}

// splitPackets returns the packets of one checkpoint: each is its length (u32,
// little endian) and its bytes.
func splitPackets(c *Checkpoint, b []byte) ([][]byte, error) {
	var packets [][]byte
	for len(b) > 0 && int64(len(packets)) < c.Rows {
		if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
			return nil, damaged(c, "a packet is longer than its batch")
		}
		n := 4 + int(binary.LittleEndian.Uint32(b))
		packets, b = append(packets, b[4:n]), b[n:]
	}
	if len(b) > 0 || int64(len(packets)) != c.Rows {
		return nil, damaged(c, fmt.Sprintf("not the %d packets that the checkpoint says", c.Rows))
	}
	return packets, nil
}
