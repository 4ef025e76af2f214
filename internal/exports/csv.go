package exports

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// WriteCSV writes t as RFC 4180 has it, with LF at the ends of lines: a header,
// then one line a row. What is not stated is empty.
func WriteCSV(w io.Writer, t Table) error {
	out := csv.NewWriter(w)
	row := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		row[i] = c.Name
	}
	if err := out.Write(row); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	for b, err := range t.Blocks {
		if err != nil {
			return err
		}
		for k := range b.Rows {
			for i, c := range t.Columns {
				row[i] = b.Values[i].cell(c.Kind, k)
			}
			if err := out.Write(row); err != nil {
				return fmt.Errorf("write csv: %w", err)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

// cell is value k as text: as many digits as tell it from its neighbours.
func (v Values) cell(kind Kind, k int) string {
	switch kind {
	case Integer:
		if v.Integers[k] != nil {
			return strconv.FormatInt(*v.Integers[k], 10)
		}
	case Real, Single:
		bits := 64
		if kind == Single {
			bits = 32
		}
		if x := v.Reals[k]; stated(x) {
			return strconv.FormatFloat(x, 'g', -1, bits)
		}
	case Flag:
		return strconv.FormatBool(v.Flags[k])
	default:
		return v.Texts[k]
	}
	return ""
}
