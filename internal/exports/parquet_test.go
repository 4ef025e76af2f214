package exports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// readParquet reads a file with another library than the one that wrote it:
// one map a row, what is null left out; the numbers of rows by row group.
func readParquet(t *testing.T, data []byte) (rows []map[string]any, groups []int64, r *file.Reader) {
	t.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for g := range r.NumRowGroups() {
		group := r.RowGroup(g)
		first := len(rows)
		groups = append(groups, group.NumRows())
		for range group.NumRows() {
			rows = append(rows, map[string]any{})
		}
		for c := range group.NumColumns() {
			column, err := group.Column(c)
			if err != nil {
				t.Fatal(err)
			}
			readColumn(t, column, rows[first:])
		}
	}
	return rows, groups, r
}

func readColumn(t *testing.T, column file.ColumnChunkReader, rows []map[string]any) {
	t.Helper()
	switch r := column.(type) {
	case *file.ByteArrayColumnChunkReader:
		readValues(t, column, rows, r.ReadBatch, func(v parquet.ByteArray) any { return v.String() })
	case *file.Int64ColumnChunkReader:
		readValues(t, column, rows, r.ReadBatch, func(v int64) any { return v })
	case *file.Float64ColumnChunkReader:
		readValues(t, column, rows, r.ReadBatch, func(v float64) any { return v })
	case *file.Float32ColumnChunkReader:
		readValues(t, column, rows, r.ReadBatch, func(v float32) any { return float64(v) })
	case *file.BooleanColumnChunkReader:
		readValues(t, column, rows, r.ReadBatch, func(v bool) any { return v })
	default:
		t.Fatalf("column %s is a %T", column.Descriptor().Name(), r)
	}
}

func readValues[T any](t *testing.T, column file.ColumnChunkReader, rows []map[string]any,
	read func(int64, []T, []int16, []int16) (int64, int, error), plain func(T) any) {
	t.Helper()
	n := len(rows)
	values, levels := make([]T, n), make([]int16, n)
	for done := 0; done < n; {
		total, _, err := read(int64(n-done), values, levels, nil)
		if err != nil || total == 0 {
			t.Fatalf("column %s: read %d: %v", column.Descriptor().Name(), total, err)
		}
		k := 0
		for i := range int(total) {
			if levels[i] == 1 {
				rows[done+i][column.Descriptor().Name()] = plain(values[k])
				k++
			}
		}
		done += int(total)
	}
}

// rowsOf are the rows of a table as readParquet returns them.
func rowsOf(t *testing.T, table Table) []map[string]any {
	t.Helper()
	var rows []map[string]any
	for b, err := range table.Blocks {
		if err != nil {
			t.Fatal(err)
		}
		for k := range b.Rows {
			row := map[string]any{}
			for i, c := range table.Columns {
				switch v := b.Values[i]; c.Kind {
				case Integer:
					if v.Integers[k] != nil {
						row[c.Name] = *v.Integers[k]
					}
				case Real, Single:
					if stated(v.Reals[k]) {
						row[c.Name] = v.Reals[k]
					}
				case Flag:
					row[c.Name] = v.Flags[k]
				default:
					if v.Texts[k] != "" {
						row[c.Name] = v.Texts[k]
					}
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func parquetOf(t *testing.T, table Table) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteParquet(&b, table); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParquet(t *testing.T) {
	for _, table := range []Table{Results(two()), Windows(two())} {
		got, _, r := readParquet(t, parquetOf(t, table))
		want := rowsOf(t, table)
		if len(want) < 2 || len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		for i := range want {
			// fmt prints maps in the order of their keys.
			if g, w := fmt.Sprint(got[i]), fmt.Sprint(want[i]); g != w {
				t.Errorf("row %d is\n%s\nwant\n%s", i, g, w)
			}
		}
		schema := r.MetaData().Schema
		if schema.NumColumns() != len(table.Columns) {
			t.Fatalf("%d columns, want %d", schema.NumColumns(), len(table.Columns))
		}
		for i, c := range table.Columns {
			if name := schema.Column(i).Name(); name != c.Name {
				t.Errorf("column %d is %s, want %s", i, name, c.Name)
			}
		}
		about := r.MetaData().KeyValueMetadata()
		if v := about.FindValue("table"); v == nil || *v != table.About["table"] {
			t.Errorf("the footer calls the table %v", v)
		}
		var columns []Column
		if v := about.FindValue("columns"); v == nil || json.Unmarshal([]byte(*v), &columns) != nil || len(columns) != len(table.Columns) {
			t.Errorf("the footer's columns are %v", v)
		} else if i := len(columns) - 1; columns[0] != (Column{Name: "run"}) || columns[i].Name != table.Columns[i].Name {
			t.Errorf("the footer's columns are %v", columns)
		}
	}
}

// Many rows go into several row groups, so that memory stays bounded.
func TestRowGroups(t *testing.T) {
	const blocks, size = 4, 100_000
	table := Table{Columns: []Column{{Name: "t_s", Unit: "s", Kind: Real}, {Name: "amps", Unit: "A", Kind: Single}}}
	table.Blocks = func(yield func(Block, error) bool) {
		for i := range blocks {
			b := Block{Rows: size, Values: []Values{{}, {}}}
			for k := range size {
				n := i*size + k
				b.Values[0].add(float64(n) / 100)
				b.Values[1].add(float64(float32(n%977) / 1000))
			}
			if !yield(b, nil) {
				return
			}
		}
	}
	rows, groups, _ := readParquet(t, parquetOf(t, table))
	if fmt.Sprint(groups) != "[300000 100000]" {
		t.Errorf("row groups of %v rows", groups)
	}
	for n, row := range rows {
		if row["t_s"] != float64(n)/100 || row["amps"] != float64(float32(n%977)/1000) {
			t.Fatalf("row %d is %v", n, row)
		}
	}
}
