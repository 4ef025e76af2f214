package run

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/joulemark/joulemark/meters"
)

// timeColumn holds the times of samples that are not equidistant.
const timeColumn = "t_ns"

// MaxArrowBytes bounds the memory that decoding one batch may take beyond the
// bytes of the batch.
const MaxArrowBytes = 256 << 20

// notMeasured stands for NaN in a digital column.
const notMeasured = 255

// eos ends an Arrow IPC stream (Arrow columnar format, "IPC Streaming Format").
var eos = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

var units = map[string]string{
	meters.Volts: "V", meters.Amps: "A", meters.Watts: "W",
	meters.DPVolts: "V", meters.DNVolts: "V", meters.Celsius: "degC",
}

// digital reports whether a column is one of d0 to d7.
func digital(column string) bool {
	return len(column) == 2 && column[0] == 'd' && column[1] >= '0' && column[1] <= '7'
}

func columnType(info meters.Info, column string) arrow.DataType {
	switch {
	case digital(column):
		return arrow.PrimitiveTypes.Uint8
	case info.Wide:
		return arrow.PrimitiveTypes.Float64
	}
	return arrow.PrimitiveTypes.Float32
}

// sampleSchema returns the Arrow schema of a stream's samples.
func sampleSchema(info meters.Info) *arrow.Schema {
	var fields []arrow.Field
	if info.RateHz == 0 {
		fields = append(fields, arrow.Field{Name: timeColumn, Type: arrow.PrimitiveTypes.Int64, Metadata: unit("ns")})
	}
	for _, c := range info.Columns {
		u := units[c]
		if digital(c) {
			u = "1"
		}
		fields = append(fields, arrow.Field{Name: c, Type: columnType(info, c), Metadata: unit(u)})
	}
	meta := arrow.NewMetadata(
		[]string{"schema", "stream", "driver", "rate_hz", "sample"},
		[]string{Schema, info.Stream, info.Driver, strconv.FormatFloat(info.RateHz, 'g', -1, 64), string(info.Sample)})
	return arrow.NewSchema(fields, &meta)
}

// arrivalSchema returns the Arrow schema of a stream's arrivals.
func arrivalSchema(info meters.Info) *arrow.Schema {
	meta := arrow.NewMetadata([]string{"schema", "stream"}, []string{Schema, info.Stream})
	return arrow.NewSchema([]arrow.Field{
		{Name: "row", Type: arrow.PrimitiveTypes.Uint64, Metadata: unit("1")},
		{Name: "host_ns", Type: arrow.PrimitiveTypes.Int64, Metadata: unit("ns")},
	}, &meta)
}

func unit(u string) arrow.Metadata {
	return arrow.NewMetadata([]string{"unit"}, []string{u})
}

// schemaBytes returns the IPC message at the head of a stream.
func schemaBytes(s *arrow.Schema) ([]byte, error) {
	var b bytes.Buffer
	if err := ipc.NewWriter(&b, ipc.WithSchema(s)).Close(); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), eos), nil
}

// encodeBatch writes the IPC message of one batch to b, which it empties
// first. head is schemaBytes(s).
func encodeBatch(b *bytes.Buffer, s *arrow.Schema, head []byte, columns []arrow.Array, rows int) ([]byte, error) {
	b.Reset()
	rec := array.NewRecordBatch(s, columns, int64(rows))
	defer rec.Release()
	if err := ipc.NewWriter(b, ipc.WithSchema(s)).Write(rec); err != nil {
		return nil, err
	}
	return b.Bytes()[len(head):], nil
}

// newArray makes an array without nulls of the bytes of n values.
func newArray(t arrow.DataType, values []byte, n int) arrow.Array {
	data := array.NewData(t, n, []*memory.Buffer{nil, memory.NewBufferBytes(values)}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// column is the values of one column that are not yet on disk.
type column struct {
	kind arrow.DataType
	f32  []float32
	f64  []float64
	u8   []uint8
}

func (c *column) append(values []float64) {
	switch c.kind.ID() {
	case arrow.FLOAT32:
		var to []float32
		c.f32, to = extend(c.f32, len(values))
		for i, v := range values {
			to[i] = float32(v)
		}
	case arrow.FLOAT64:
		c.f64 = append(c.f64, values...)
	default:
		var to []uint8
		c.u8, to = extend(c.u8, len(values))
		for i, v := range values {
			to[i] = notMeasured
			switch v {
			case 0:
				to[i] = 0
			case 1:
				to[i] = 1
			}
		}
	}
}

// extend makes s longer by n, and returns the new part too.
func extend[T any](s []T, n int) (all, part []T) {
	all = slices.Grow(s, n)[:len(s)+n]
	return all, all[len(s):]
}

func (c *column) array() arrow.Array {
	switch c.kind.ID() {
	case arrow.FLOAT32:
		return newArray(c.kind, arrow.Float32Traits.CastToBytes(c.f32), len(c.f32))
	case arrow.FLOAT64:
		return newArray(c.kind, arrow.Float64Traits.CastToBytes(c.f64), len(c.f64))
	}
	return newArray(c.kind, c.u8, len(c.u8))
}

func (c *column) reset() {
	c.f32, c.f64, c.u8 = c.f32[:0], c.f64[:0], c.u8[:0]
}

// batchReader decodes the batches of one Arrow stream, whose schema it knows
// beforehand and which are given to it one by one, after their CRC.
type batchReader struct {
	schema *arrow.Schema
	head   []byte
	feed   bytes.Reader
	memory boundedMemory
	ipc    *ipc.Reader // nil before the first batch and after an error
}

func newBatchReader(s *arrow.Schema) (*batchReader, error) {
	head, err := schemaBytes(s)
	return &batchReader{schema: s, head: head}, err
}

// checkHead reports whether b, the head of a file, declares the same columns.
func (d *batchReader) checkHead(b []byte) (err error) {
	defer recoverArrow(&err)
	got, err := schemaColumns(b)
	if err != nil {
		return err
	}
	want, err := schemaColumns(d.head)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("columns %s, the meter has %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
	return err
}

// open makes an Arrow reader that has read our own schema, not the file's.
func (d *batchReader) open() (*ipc.Reader, error) {
	d.memory.left = MaxArrowBytes
	d.feed.Reset(d.head)
	limits := []ipc.Option{ipc.WithAllocator(&d.memory),
		ipc.WithMetadataSizeLimit(MaxCheckpointBytes), ipc.WithBodySizeLimit(MaxCheckpointBytes)}
	return ipc.NewReaderFromMessageReader(ipc.NewMessageReader(&d.feed, limits...), limits...)
}

// decode hands the columns of one batch to use. They are gone once use has
// returned.
func (d *batchReader) decode(b []byte, rows int64, use func(arrow.RecordBatch) error) (err error) {
	defer func() {
		if err != nil {
			d.ipc = nil
		}
	}()
	defer recoverArrow(&err)
	if err := plainBatch(b); err != nil {
		return err
	}
	if d.ipc == nil {
		if d.ipc, err = d.open(); err != nil {
			return err
		}
	}
	d.memory.left = MaxArrowBytes
	d.feed.Reset(b)
	rec, err := d.ipc.Read()
	if err != nil {
		return err
	}
	if d.feed.Len() != 0 {
		return errors.New("bytes after the batch")
	}
	if rec.NumRows() != rows {
		return fmt.Errorf("%d rows, the checkpoint says %d", rec.NumRows(), rows)
	}
	for i, c := range rec.Columns() {
		if c.NullN() != 0 || c.Len() != int(rows) {
			return fmt.Errorf("column %s has nulls or a length of its own", rec.ColumnName(i))
		}
	}
	return use(rec)
}

// recoverArrow turns a panic of the Arrow reader over hostile bytes into an
// error.
func recoverArrow(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow: %v", p)
	}
}

// boundedMemory is an allocator that panics beyond a limit.
type boundedMemory struct {
	memory.GoAllocator
	left int
}

func (m *boundedMemory) Allocate(size int) []byte {
	m.take(size)
	return m.GoAllocator.Allocate(size)
}

func (m *boundedMemory) Reallocate(size int, b []byte) []byte {
	m.take(size)
	return m.GoAllocator.Reallocate(size, b)
}

func (m *boundedMemory) take(size int) {
	if size < 0 || size > m.left {
		panic(fmt.Sprintf("a batch takes more than %d bytes", MaxArrowBytes))
	}
	m.left -= size
}

// samples decodes one batch of samples into b, whose slices it reuses.
func (d *batchReader) samples(bytes []byte, rows int64, b *Batch) error {
	return d.decode(bytes, rows, func(rec arrow.RecordBatch) error {
		b.Rows = int(rows)
		for i, c := range rec.Columns() {
			name := d.schema.Field(i).Name
			if name == timeColumn {
				b.TimesNs = append(b.TimesNs[:0], c.(*array.Int64).Int64Values()...)
				continue
			}
			values, err := appendValues(b.Columns[name][:0], c)
			if err != nil {
				return fmt.Errorf("column %s: %w", name, err)
			}
			b.Columns[name] = values
		}
		return nil
	})
}

// appendValues appends the values of a column to dst, as float64.
func appendValues(dst []float64, c arrow.Array) ([]float64, error) {
	at := len(dst)
	dst = slices.Grow(dst, c.Len())[:at+c.Len()]
	out := dst[at:]
	finite := true
	switch c := c.(type) {
	case *array.Float32:
		// The bits of a number without its sign rise with the number, up to those
		// of infinity and then NaN: one look at the largest tells a good block.
		largest := uint32(0)
		for i, v := range c.Float32Values() {
			out[i] = float64(v)
			largest = max(largest, math.Float32bits(v)&^(1<<31))
		}
		finite = largest < math.Float32bits(float32(math.Inf(1)))
	case *array.Float64:
		largest := uint64(0)
		for i, v := range c.Float64Values() {
			out[i] = v
			largest = max(largest, math.Float64bits(v)&^(1<<63))
		}
		finite = largest < math.Float64bits(math.Inf(1))
	case *array.Uint8:
		for i, v := range c.Uint8Values() {
			out[i] = float64(v)
			if v > 1 {
				out[i] = math.NaN()
			}
		}
	}
	if !finite && slices.ContainsFunc(out, func(v float64) bool { return math.IsInf(v, 0) }) {
		return dst, errors.New("an infinite value")
	}
	return dst, nil
}
