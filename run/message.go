package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
)

// arrow-go allocates by lengths that a message states before it looks whether
// they can be true (a schema's fields, any metadata, a codec's window), which
// no recover catches. So a schema is read here, and a batch is let through only
// in the plain form that a run has. Types, fields and numbers are those of
// Arrow's format/Message.fbs and Schema.fbs; these functions panic on bytes
// that are no FlatBuffers, and their callers recover.

const (
	headerSchema = 1
	headerBatch  = 3
	typeInt      = 2
	typeFloat    = 3
)

// slot is where a table's vtable names its field i (FlatBuffers internals,
// "Tables").
func slot(i int) flatbuffers.VOffsetT { return flatbuffers.VOffsetT(4 + 2*i) }

// message returns the tables of an encapsulated message, the Message and its
// header, which must be of the given type.
func message(b []byte, headerType byte) (m, header flatbuffers.Table, err error) {
	if len(b) < 12 || !bytes.Equal(b[:4], eos[:4]) {
		return m, header, errors.New("not an Arrow message")
	}
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	if n > int64(len(b)-8) {
		return m, header, errors.New("an Arrow message longer than its bytes")
	}
	m.Bytes = b[8 : 8+n]
	m.Pos = flatbuffers.GetUOffsetT(m.Bytes)
	if got := m.GetByteSlot(slot(1), 0); got != headerType {
		return m, header, fmt.Errorf("an Arrow message of type %d, want %d", got, headerType)
	}
	at := m.Offset(slot(2))
	if at == 0 {
		return m, header, errors.New("an Arrow message without a header")
	}
	m.Union(&header, flatbuffers.UOffsetT(at))
	return m, header, nil
}

// plainBatch reports whether b is a record batch without compression or
// metadata.
func plainBatch(b []byte) error {
	m, batch, err := message(b, headerBatch)
	switch {
	case err != nil:
		return err
	case m.Offset(slot(4)) != 0:
		return errors.New("a batch with metadata")
	case batch.Offset(slot(3)) != 0:
		return errors.New("a compressed batch")
	}
	return nil
}

// schemaColumns returns the name and type of each column of a schema message.
func schemaColumns(b []byte) ([]string, error) {
	_, schema, err := message(b, headerSchema)
	if err != nil {
		return nil, err
	}
	fields := flatbuffers.UOffsetT(schema.Offset(slot(1)))
	if schema.GetInt16Slot(slot(0), 0) != 0 || fields == 0 {
		return nil, errors.New("a schema without columns, or big-endian")
	}
	n := schema.VectorLen(fields)
	if n > MaxColumns+1 {
		return nil, fmt.Errorf("%d columns", n)
	}
	var columns []string
	for i := range n {
		at := schema.Vector(fields) + flatbuffers.UOffsetT(i*flatbuffers.SizeUOffsetT)
		f := flatbuffers.Table{Bytes: schema.Bytes, Pos: schema.Indirect(at)}
		c, err := fieldColumn(f)
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", i, err)
		}
		columns = append(columns, c)
	}
	return columns, nil
}

func fieldColumn(f flatbuffers.Table) (string, error) {
	name, typ := f.Offset(slot(0)), f.Offset(slot(3))
	if name == 0 || typ == 0 || f.Offset(slot(4)) != 0 {
		return "", errors.New("no name or type, or a dictionary")
	}
	var t flatbuffers.Table
	f.Union(&t, flatbuffers.UOffsetT(typ))
	column := string(f.ByteVector(f.Pos + flatbuffers.UOffsetT(name)))
	switch kind := f.GetByteSlot(slot(2), 0); kind {
	case typeInt:
		if t.GetBoolSlot(slot(1), false) {
			return fmt.Sprintf("%s int%d", column, t.GetInt32Slot(slot(0), 0)), nil
		}
		return fmt.Sprintf("%s uint%d", column, t.GetInt32Slot(slot(0), 0)), nil
	case typeFloat:
		return fmt.Sprintf("%s float%d", column, 16<<(t.GetInt16Slot(slot(0), 0)&3)), nil
	default:
		return "", fmt.Errorf("type %d", kind)
	}
}
