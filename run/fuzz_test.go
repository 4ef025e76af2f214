package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRecordLine decodes members behind a right CRC. What is accepted is
// written again and read back the same.
func FuzzRecordLine(f *testing.F) {
	f.Add("line", `"host_ns":5,"source":"uart","text":"x"`)
	f.Add("line", `"host_ns":5,"source":"uart","hex":"ff"`)
	f.Add("window", `"stream":"a","w":1,"alg":"x","op":"y","n":2,"from":0.5,"to":1e3`)
	f.Add("inband", `"stream":"a","column":"dp_volts","active":1,"alg":"x","op":"y","n":2`)
	f.Add("close", `"host_ns":1,"reason":"done","rows":{"a":5}`)
	f.Add("future", `"x":[{}]`)
	f.Fuzz(func(t *testing.T, kind, members string) {
		raw := []byte(strings.TrimSuffix(line(kind, ","+members), "\n"))
		got, err := lineKind(raw)
		if err != nil {
			return
		}
		if len(kind) > 0 && !strings.HasPrefix(kind, got) {
			t.Fatalf("type %q of %q", got, raw)
		}
		rec, err := decodeLine(got, raw)
		if err != nil || (&Record{Type: got}).members() == nil {
			return
		}
		a := encodeRecord(t, rec)
		again, err := decodeLine(got, a)
		if err != nil {
			t.Fatalf("%s, written as %s: %v", raw, a, err)
		}
		if b := encodeRecord(t, again); !bytes.Equal(a, b) {
			t.Fatalf("%s and %s of one record", a, b)
		}
	})
}

// encodeRecord writes a record as a Writer does.
func encodeRecord(t *testing.T, rec Record) []byte {
	all, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(all, &members); err != nil {
		t.Fatal(err)
	}
	for name, m := range members {
		if strings.EqualFold(name, rec.Type) {
			l, err := encodeLine(rec.Type, m)
			if err != nil {
				t.Fatal(err)
			}
			return bytes.TrimSuffix(l, []byte("\n"))
		}
	}
	t.Fatalf("%s has no member for its type", all)
	return nil
}

// FuzzOpen reads any bytes as run.jsonl, as they are and with right CRCs.
func FuzzOpen(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "seed")
	small(f, dir)
	f.Add([]byte(files(f, dir)[LogName]), false)
	f.Add([]byte(files(f, dir)[LogName]), true)
	f.Add([]byte(`{"type":"header","schema":"joulemark.run/1","name":"x","crc":"00000000"}`), true)
	f.Fuzz(func(t *testing.T, log []byte, fix bool) {
		if fix {
			log = fixLines(log)
		}
		dir := filepath.Join(t.TempDir(), "r")
		write(t, dir, map[string]string{LogName: string(log), "usb.arrows": "x"})
		if r, err := Open(dir); err == nil {
			read(t, dir)
			r.Check()
		}
	})
}

// fixLines gives each line a right CRC in place of its last member.
func fixLines(log []byte) []byte {
	var out []byte
	for l := range bytes.Lines(log) {
		l = bytes.TrimSuffix(l, []byte("\n"))
		l = l[:max(0, len(l)-lineTail)]
		out = fmt.Appendf(out, "%s%s%08x\"}\n", l, lineMark, crc32.ChecksumIEEE(l))
	}
	return out
}

// FuzzArrow decodes any bytes as a schema and a batch whose CRCs were right.
func FuzzArrow(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "seed")
	small(f, dir)
	all := files(f, dir)
	_, r := read(f, dir)
	for rec := range r.Records() {
		if c := rec.Checkpoint; c != nil && c.Offset > 0 && c.Kind != RawData {
			b := []byte(all[c.File])
			f.Add(c.Stream == "log", c.Kind == ArrivalData, uint16(c.Rows), b[:c.Offset], b[c.Offset:c.Offset+c.Length])
		}
	}
	f.Fuzz(func(t *testing.T, wide, arrivals bool, rows uint16, head, batch []byte) {
		info := usbInfo()
		if wide {
			info = logInfo()
		}
		schema := sampleSchema(info)
		if arrivals {
			schema = arrivalSchema(info)
		}
		d, err := newBatchReader(schema)
		if err != nil {
			t.Fatal(err)
		}
		d.checkHead(head)
		tr := newTrack(nil, nil, SampleData)
		tr.batches, tr.lastNs = d, noNs
		c := &Checkpoint{Segment: 1, Rows: int64(rows)}
		for range 2 { // a second time after an error
			if arrivals {
				list, err := tr.arrivals(c, batch, nil)
				if err == nil && len(list) != int(rows) {
					t.Fatalf("%d arrivals of %d rows", len(list), rows)
				}
				continue
			}
			if err := tr.samples(c, batch); err != nil {
				continue
			}
			for _, name := range info.Columns {
				if len(tr.batch.Columns[name]) != int(rows) {
					t.Fatalf("%d values of %d rows", len(tr.batch.Columns[name]), rows)
				}
			}
		}
	})
}
