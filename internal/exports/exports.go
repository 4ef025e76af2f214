// Package exports writes what runs say in the formats of other tools: tidy
// tables as CSV and Parquet, and the Go benchmark format. docs/export.md has
// the columns.
package exports

import (
	"iter"
	"math"
)

// Format names a format of files.
type Format string

// The formats.
const (
	CSV       Format = "csv"
	Parquet   Format = "parquet"
	JSON      Format = "json" // what 'joulemark analyze --json' prints
	Benchmark Format = "benchfmt"
)

// Formats lists all formats.
func Formats() []Format { return []Format{CSV, Parquet, JSON, Benchmark} }

// Kind is the kind of the values of a column.
type Kind int

// The kinds.
const (
	Text Kind = iota
	Integer
	Real
	Single // a Real that was recorded with 24 bits of mantissa
	Flag
)

// Column describes a column of a table.
type Column struct {
	Name string `json:"name"`           // ends in its unit where it has one
	Unit string `json:"unit,omitempty"` // SI; "" for what has none
	Kind Kind   `json:"-"`
}

// Table is a tidy table: one row an observation, one column a quantity.
type Table struct {
	Columns []Column
	// About says what the table is, in formats that have a place for it.
	About map[string]string
	// Blocks yields the rows in order. An error is the last.
	Blocks iter.Seq2[Block, error]
}

// Block is consecutive rows. It is overwritten by the next one.
type Block struct {
	Rows   int
	Values []Values // by column
}

// Values are the values of a column in a block; the member of the column's
// kind is set.
type Values struct {
	Texts    []string // "" where not stated
	Integers []*int64 // nil where not stated
	Reals    []float64
	Flags    []bool
}

// stated reports whether a real number can be stated; what cannot is left
// empty, or null.
func stated(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// field is a column with the value that a record T has in it: string, int64,
// *int64, float64 or bool.
type field[T any] struct {
	Column
	value func(T) any
}

// tableOf makes a table with one row a record.
func tableOf[T any](records []T, about map[string]string, fields []field[T]) Table {
	t := Table{About: about}
	b := Block{Rows: len(records), Values: make([]Values, len(fields))}
	for i, f := range fields {
		t.Columns = append(t.Columns, f.Column)
		for _, r := range records {
			b.Values[i].add(f.value(r))
		}
	}
	t.Blocks = func(yield func(Block, error) bool) { yield(b, nil) }
	return t
}

func (v *Values) add(value any) {
	switch value := value.(type) {
	case string:
		v.Texts = append(v.Texts, value)
	case int64:
		v.Integers = append(v.Integers, &value)
	case *int64:
		v.Integers = append(v.Integers, value)
	case float64:
		v.Reals = append(v.Reals, value)
	case bool:
		v.Flags = append(v.Flags, value)
	}
}

// Constructors of fields.

func text[T any](name string, value func(T) string) field[T] {
	return field[T]{Column{Name: name, Kind: Text}, func(r T) any { return value(r) }}
}

func integer[T any](name string, value func(T) int64) field[T] {
	return field[T]{Column{Name: name, Kind: Integer}, func(r T) any { return value(r) }}
}

// positive is an integer of which 0 says that it is not stated.
func positive[T any](name string, value func(T) int) field[T] {
	return field[T]{Column{Name: name, Kind: Integer}, func(r T) any {
		n := int64(value(r))
		if n == 0 {
			return (*int64)(nil)
		}
		return n
	}}
}

func real[T any](name, unit string, value func(T) float64) field[T] {
	return field[T]{Column{Name: name, Unit: unit, Kind: Real}, func(r T) any { return value(r) }}
}

func truth[T any](name string, value func(T) bool) field[T] {
	return field[T]{Column{Name: name, Kind: Flag}, func(r T) any { return value(r) }}
}
