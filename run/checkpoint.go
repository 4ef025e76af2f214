package run

import (
	"bytes"
	"strconv"
)

// checkpoints decodes checkpoint records. A live recording writes four a second
// for each stream, and every pass over a run reads them all: lines of the form
// that our own writer gives them, with names that were seen before, are read
// without reflection.
type checkpoints struct {
	known []Checkpoint // checked, of different names
	next  int          // to be replaced once known is full
}

// knownNames is how many streams, segments and kinds are kept in mind.
const knownNames = 16

// decode does what decodeLine does for a checkpoint.
func (d *checkpoints) decode(line []byte) (Record, error) {
	for i := range d.known {
		if c, ok := plainCheckpoint(line, d.known[i]); ok {
			return Record{Type: "checkpoint", Checkpoint: &c}, nil
		}
	}
	rec, err := decodeLine("checkpoint", line)
	if err != nil {
		return rec, err
	}
	if len(d.known) < knownNames {
		d.known = append(d.known, *rec.Checkpoint)
	} else {
		d.known[d.next] = *rec.Checkpoint
		d.next = (d.next + 1) % knownNames
	}
	return rec, nil
}

// plainCheckpoint reads a line with the names of c, in the writer's order of
// members. It reports false for any other.
func plainCheckpoint(line []byte, c Checkpoint) (Checkpoint, bool) {
	p := plainLine{rest: line}
	p.skip(`{"type":"checkpoint","stream":"`)
	p.skip(c.Stream)
	p.skip(`","segment":`)
	segment := p.number()
	p.skip(`,"kind":"`)
	p.skip(string(c.Kind))
	p.skip(`","file":"`)
	p.skip(c.File)
	p.skip(`","offset":`)
	c.Offset = p.number()
	p.skip(`,"length":`)
	c.Length = p.number()
	p.skip(`,"row":`)
	c.Row = p.number()
	p.skip(`,"rows":`)
	c.Rows = p.number()
	p.skip(`,"crc32":"`)
	c.CRC = p.text(8)
	p.skip(`"` + lineMark)
	if p.bad || segment != int64(c.Segment) || len(p.rest) != lineTail-len(lineMark) || c.checkNumbers() != nil {
		return c, false
	}
	return c, true
}

// plainLine is what is left of a line; bad once it was not as expected.
type plainLine struct {
	rest []byte
	bad  bool
}

func (p *plainLine) skip(s string) {
	if p.bad = p.bad || !bytes.HasPrefix(p.rest, []byte(s)); !p.bad {
		p.rest = p.rest[len(s):]
	}
}

// text takes n bytes without a quote or an escape.
func (p *plainLine) text(n int) string {
	if p.bad = p.bad || len(p.rest) < n || bytes.ContainsAny(p.rest[:n], `"\`); p.bad {
		return ""
	}
	s := string(p.rest[:n])
	p.rest = p.rest[n:]
	return s
}

// number takes a JSON integer that is not negative.
func (p *plainLine) number() int64 {
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(string(p.rest[:n]), 10, 64)
	if p.bad = p.bad || err != nil || n > 1 && p.rest[0] == '0'; p.bad {
		return 0
	}
	p.rest = p.rest[n:]
	return v
}
