package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/joulemark/joulemark/meters"
)

const (
	flushNs       = 500_000_000 // after this much of a stream's time a batch goes to the disk
	flushRawBytes = 16 << 20    // or after this many bytes of packets
)

// Stream records one segment of a meter's stream. Its methods may be called by
// several goroutines.
type Stream struct {
	w       *Writer
	info    meters.Info
	segment int
	before  int64 // rows of earlier segments

	mu       sync.Mutex // guards what follows
	ended    bool
	samples  *dataFile
	arrivals *dataFile // nil before the first of its kind, as packets
	packets  *dataFile
	rows     int64 // samples of this segment, pending ones included
	lastNs   int64 // time of the last sample, where samples have one

	// Pending, not yet on disk.
	waiting     bool
	sinceNs     int64 // blockNs of the first pending block
	times       []int64
	columns     []column
	arrivalRows []uint64
	arrivalNs   []int64
	raw         []byte
	rawPackets  int
}

// Stream opens the stream of a meter: segment 1, or the next one where the run
// holds a stream of this name already, as after a replug; the earlier segment
// is ended then.
func (w *Writer) Stream(info meters.Info) (*Stream, error) {
	w.opening.Lock()
	defer w.opening.Unlock()
	s, err := w.openStream(info)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	return s, nil
}

func (w *Writer) openStream(info meters.Info) (*Stream, error) {
	if err := checkInfo(info); err != nil {
		return nil, err
	}
	s := &Stream{w: w, info: info, segment: 1, lastNs: noNs}
	if old := w.stream(info.Stream); old != nil {
		if err := sameForm(old.info, info); err != nil {
			return nil, err
		}
		if err := old.end(); err != nil {
			return nil, err
		}
		s.segment, s.before = old.segment+1, old.before+old.rows
	}
	for _, c := range info.Columns {
		s.columns = append(s.columns, column{kind: columnType(info, c)})
	}
	f, err := s.firstFile()
	if err != nil {
		return nil, w.poison(err)
	}
	err = w.checked("meter", &Segment{Info: info, Segment: s.segment, File: filepath.Base(f.Name())})
	if err == nil {
		s.samples, err = s.dataFile(f, SampleData, sampleSchema(info))
	}
	if err == nil && w.o.Sync {
		err = w.log.Sync()
	}
	if err != nil {
		f.Close()
		return nil, w.poison(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[info.Stream] = s
	return s, nil
}

// sameForm reports whether two segments may belong to one stream.
func sameForm(a, b meters.Info) error {
	if !slices.Equal(a.Columns, b.Columns) || a.Wide != b.Wide || a.RateHz != b.RateHz {
		return fmt.Errorf("stream %s: columns or rate differ from its earlier segment's; use another stream name", b.Stream)
	}
	return nil
}

// firstFile makes the samples' file. It passes over numbers that a crash left
// on disk without a record.
func (s *Stream) firstFile() (*os.File, error) {
	for ; s.segment <= MaxSegments; s.segment++ {
		f, err := s.w.createFile(fileName(s.info.Stream, s.segment, SampleData))
		if !errors.Is(err, os.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("stream %s has more than %d segments", s.info.Stream, MaxSegments)
}

// Segment is the number of the segment, from 1.
func (s *Stream) Segment() int { return s.segment }

// Write appends a block to the pending batch and, where the batch is full or
// half a second old by the blocks' own times, puts it on disk. A block that
// does not fit the meter's Info is refused as a whole.
func (s *Stream) Write(b meters.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkBlock(b); err != nil {
		return fmt.Errorf("write stream %s: %w", s.info.Stream, err)
	}
	err := s.writable()
	if err == nil {
		err = s.write(b)
	}
	if err != nil {
		return fmt.Errorf("write stream %s: %w", s.info.Stream, err)
	}
	return nil
}

func (s *Stream) writable() error {
	if s.ended {
		return ErrClosed
	}
	return s.w.failure()
}

func (s *Stream) write(b meters.Block) error {
	nowNs := s.blockNs(b)
	for from, n := 0, b.Len(); from < n; {
		take := min(n-from, MaxBatchRows-s.pending())
		for i := range s.columns {
			s.columns[i].append(b.Values[i][from : from+take])
		}
		if b.TimesNs != nil {
			s.times = append(s.times, b.TimesNs[from:from+take]...)
			s.lastNs = b.TimesNs[from+take-1]
		}
		from += take
		s.rows += int64(take)
		if s.pending() == MaxBatchRows {
			if err := s.flushSamples(); err != nil {
				return s.w.poison(err)
			}
		}
	}
	if b.ArrivalNs >= 0 {
		s.arrivalRows = append(s.arrivalRows, uint64(s.rows))
		s.arrivalNs = append(s.arrivalNs, b.ArrivalNs)
	}
	if b.Raw != nil {
		s.raw = binary.LittleEndian.AppendUint32(s.raw, uint32(len(b.Raw)))
		s.raw = append(s.raw, b.Raw...)
		s.rawPackets++
	}
	if !s.waiting {
		s.waiting, s.sinceNs = true, nowNs
	}
	age := nowNs - s.sinceNs
	if age >= flushNs || age < 0 || len(s.raw) >= flushRawBytes ||
		max(len(s.arrivalNs), s.rawPackets) == MaxBatchRows {
		return s.flush()
	}
	return nil
}

// pending returns the number of samples not yet on disk.
func (s *Stream) pending() int { return int(s.rows - s.samples.row) }

// blockNs is the time that ages a batch: the block's arrival, or its first
// sample where that is not known.
func (s *Stream) blockNs(b meters.Block) int64 {
	switch {
	case b.ArrivalNs >= 0:
		return b.ArrivalNs
	case len(b.TimesNs) > 0:
		return b.TimesNs[0]
	case s.info.RateHz > 0:
		return int64(float64(s.rows) / s.info.RateHz * 1e9)
	}
	return s.sinceNs
}

func (s *Stream) checkBlock(b meters.Block) error {
	if len(b.Values) != len(s.columns) {
		return fmt.Errorf("a block of %d columns, the meter has %d", len(b.Values), len(s.columns))
	}
	limit := math.MaxFloat32
	if s.info.Wide {
		limit = math.MaxFloat64
	}
	for i, values := range b.Values {
		if len(values) != b.Len() {
			return fmt.Errorf("column %s has %d values, %s has %d", s.info.Columns[i], len(values), s.info.Columns[0], b.Len())
		}
		if s.columns[i].kind.ID() == arrow.UINT8 {
			continue // any value can be stored
		}
		for _, v := range values {
			if v > limit || v < -limit {
				return fmt.Errorf("column %s: %v cannot be stored", s.info.Columns[i], v)
			}
		}
	}
	if want := s.info.RateHz == 0; want && len(b.TimesNs) != b.Len() || !want && b.TimesNs != nil {
		return fmt.Errorf("%d times for %d samples at a rate of %g Hz", len(b.TimesNs), b.Len(), s.info.RateHz)
	}
	last := s.lastNs
	for _, t := range b.TimesNs {
		if t < last || t > maxNs || t < -maxNs {
			return fmt.Errorf("sample time %d ns after %d ns: times must not go back", t, last)
		}
		last = t
	}
	if len(b.Raw) > MaxPacketBytes {
		return fmt.Errorf("a packet of %d bytes, at most %d are stored", len(b.Raw), MaxPacketBytes)
	}
	return checkNs(b.ArrivalNs)
}

// Flush puts what is pending on disk. A recorder calls it when a meter has
// fallen silent; Write does the rest.
func (s *Stream) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.writable()
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		return fmt.Errorf("flush stream %s: %w", s.info.Stream, err)
	}
	return nil
}

func (s *Stream) flush() error {
	if !s.waiting && s.pending() == 0 {
		return nil
	}
	err := s.flushSamples()
	if err == nil && len(s.arrivalNs) > 0 {
		err = s.flushArrivals()
	}
	if err == nil && s.rawPackets > 0 {
		err = s.flushPackets()
	}
	for _, d := range []*dataFile{s.samples, s.arrivals, s.packets} {
		if err == nil && d != nil {
			err = d.commit()
		}
	}
	if err == nil && s.w.o.Sync {
		err = s.w.log.Sync()
	}
	if err != nil {
		return s.w.poison(err)
	}
	s.waiting = false
	return nil
}

func (s *Stream) flushSamples() error {
	n := s.pending()
	if n == 0 {
		return nil
	}
	var arrays []arrow.Array
	if s.info.RateHz == 0 {
		arrays = append(arrays, newArray(arrow.PrimitiveTypes.Int64, arrow.Int64Traits.CastToBytes(s.times), n))
	}
	for i := range s.columns {
		arrays = append(arrays, s.columns[i].array())
	}
	if err := s.samples.batch(arrays, n); err != nil {
		return err
	}
	s.times = s.times[:0]
	for i := range s.columns {
		s.columns[i].reset()
	}
	return nil
}

func (s *Stream) flushArrivals() error {
	if s.arrivals == nil {
		f, err := s.w.createFile(fileName(s.info.Stream, s.segment, ArrivalData))
		if err == nil {
			s.arrivals, err = s.dataFile(f, ArrivalData, arrivalSchema(s.info))
		}
		if err != nil {
			return err
		}
	}
	n := len(s.arrivalNs)
	err := s.arrivals.batch([]arrow.Array{
		newArray(arrow.PrimitiveTypes.Uint64, arrow.Uint64Traits.CastToBytes(s.arrivalRows), n),
		newArray(arrow.PrimitiveTypes.Int64, arrow.Int64Traits.CastToBytes(s.arrivalNs), n),
	}, n)
	s.arrivalRows, s.arrivalNs = s.arrivalRows[:0], s.arrivalNs[:0]
	return err
}

func (s *Stream) flushPackets() error {
	if s.packets == nil {
		f, err := s.w.createFile(fileName(s.info.Stream, s.segment, RawData))
		if err == nil {
			s.packets, err = s.dataFile(f, RawData, nil)
		}
		if err != nil {
			return err
		}
	}
	err := s.packets.append(s.raw, s.rawPackets)
	s.raw, s.rawPackets = s.raw[:0], 0
	return err
}

// end puts what is pending on disk, with the ends of the files, and closes
// them. A second call does nothing.
func (s *Stream) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	err := s.w.failure()
	if err == nil {
		err = s.flush()
	}
	s.ended = true
	for _, d := range []*dataFile{s.samples, s.arrivals, s.packets} {
		if d == nil {
			continue
		}
		if err == nil {
			if err = d.finish(); err != nil {
				s.w.poison(err)
			}
		}
		err = errors.Join(err, d.f.Close())
	}
	return err
}

// dataFile is one file of one segment, with a checkpoint for each batch.
type dataFile struct {
	w      *Writer
	f      *os.File
	at     Checkpoint    // the next one
	row    int64         // rows written
	unsaid []Checkpoint  // of what was written since the last commit
	schema *arrow.Schema // nil for packets
	head   []byte
	buf    bytes.Buffer
}

func (s *Stream) dataFile(f *os.File, kind StreamKind, schema *arrow.Schema) (*dataFile, error) {
	d := &dataFile{w: s.w, f: f, schema: schema, at: Checkpoint{Stream: s.info.Stream, Segment: s.segment,
		Kind: kind, File: filepath.Base(f.Name())}}
	if schema == nil {
		return d, nil
	}
	var err error
	if d.head, err = schemaBytes(schema); err != nil {
		return nil, err
	}
	if err := d.append(d.head, 0); err != nil {
		return nil, err
	}
	return d, d.commit()
}

func (d *dataFile) batch(columns []arrow.Array, rows int) error {
	b, err := encodeBatch(&d.buf, d.schema, d.head, columns, rows)
	if err != nil {
		return err
	}
	return d.append(b, rows)
}

// append writes b, which the next commit tells of.
func (d *dataFile) append(b []byte, rows int) error {
	if _, err := d.f.Write(b); err != nil {
		return err
	}
	c := d.at
	c.Length, c.Row, c.Rows = int64(len(b)), d.row, int64(rows)
	c.CRC = crcText(b)
	d.unsaid = append(d.unsaid, c)
	d.at.Offset += c.Length
	d.row += c.Rows
	return nil
}

// commit writes the checkpoints of what was appended: they never come first. A
// fast meter fills many batches in between; syncing each would cost more time
// than writing it.
func (d *dataFile) commit() error {
	if len(d.unsaid) == 0 {
		return nil
	}
	if d.w.o.Sync {
		if err := d.f.Sync(); err != nil {
			return err
		}
	}
	for i := range d.unsaid {
		if err := d.w.checked("checkpoint", &d.unsaid[i]); err != nil {
			return err
		}
	}
	d.unsaid = d.unsaid[:0]
	return nil
}

func (d *dataFile) finish() error {
	if d.schema != nil {
		if _, err := d.f.Write(eos); err != nil {
			return err
		}
	}
	return d.f.Sync()
}
