package exports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// groupRows is how many rows are held in memory before they are written, as
// one row group.
const groupRows = 1 << 18

// WriteParquet writes t as Apache Parquet, compressed with zstd. All columns
// are optional: what is not stated is null. The footer holds what the table is
// (the keys of Table.About), and "columns": names and units as JSON.
func WriteParquet(w io.Writer, t Table) error {
	columns, err := json.Marshal(t.Columns)
	if err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	options := []parquet.WriterOption{
		schemaOf(t.Columns), parquet.Compression(&parquet.Zstd), parquet.CreatedBy("joulemark", "", ""),
		parquet.KeyValueMetadata("columns", string(columns)),
	}
	for _, key := range slices.Sorted(maps.Keys(t.About)) {
		options = append(options, parquet.KeyValueMetadata(key, t.About[key]))
	}
	out := parquet.NewGenericWriter[any](w, options...)
	if err := writeBlocks(out, t); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	return nil
}

func writeBlocks(out *parquet.GenericWriter[any], t Table) error {
	var values []parquet.Value
	rows := 0
	for b, err := range t.Blocks {
		if err != nil {
			return err
		}
		for i, c := range t.Columns {
			values = values[:0]
			for k := range b.Rows {
				values = append(values, b.Values[i].parquet(c.Kind, k, i))
			}
			if _, err := out.ColumnWriters()[i].WriteRowValues(values); err != nil {
				return err
			}
		}
		if rows += b.Rows; rows >= groupRows {
			if err := out.Flush(); err != nil {
				return err
			}
			rows = 0
		}
	}
	return nil
}

// parquet is value k of column i. A definition level of 1 says that an
// optional value is there.
func (v Values) parquet(kind Kind, k, i int) parquet.Value {
	switch x := parquet.NullValue(); kind {
	case Integer:
		if v.Integers[k] != nil {
			x = parquet.Int64Value(*v.Integers[k])
		}
		return x.Level(0, present(x), i)
	case Real:
		if stated(v.Reals[k]) {
			x = parquet.DoubleValue(v.Reals[k])
		}
		return x.Level(0, present(x), i)
	case Single:
		if stated(v.Reals[k]) {
			x = parquet.FloatValue(float32(v.Reals[k]))
		}
		return x.Level(0, present(x), i)
	case Flag:
		return parquet.BooleanValue(v.Flags[k]).Level(0, 1, i)
	default:
		if v.Texts[k] != "" {
			x = parquet.ByteArrayValue([]byte(v.Texts[k]))
		}
		return x.Level(0, present(x), i)
	}
}

func present(v parquet.Value) int {
	if v.IsNull() {
		return 0
	}
	return 1
}

// schemaOf is the schema of a table, its columns in their order.
func schemaOf(columns []Column) *parquet.Schema {
	root := ordered{parquet.Group{}, map[string]int{}}
	for i, c := range columns {
		root.Group[c.Name], root.order[c.Name] = parquet.Optional(node(c.Kind)), i
	}
	return parquet.NewSchema("joulemark", root)
}

func node(kind Kind) parquet.Node {
	switch kind {
	case Integer:
		return parquet.Int(64)
	case Real:
		return parquet.Leaf(parquet.DoubleType)
	case Single:
		return parquet.Leaf(parquet.FloatType)
	case Flag:
		return parquet.Leaf(parquet.BooleanType)
	}
	return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
}

// ordered is a group whose columns keep their order; the library's own sorts
// them by name.
type ordered struct {
	parquet.Group
	order map[string]int
}

func (o ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return cmp.Compare(o.order[a.Name()], o.order[b.Name()]) })
	return fields
}
