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

// FuzzArrow reads any bytes as a schema and a batch behind right checkpoints.
func FuzzArrow(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "seed")
	small(f, dir)
	all := files(f, dir)
	_, r := read(f, dir)
	for rec := range r.Records() {
		if c := rec.Checkpoint; c != nil && c.Offset > 0 {
			b := []byte(all[c.File])
			head := b[:c.Offset]
			if c.Kind == RawData {
				head = b[:0]
			}
			for i, s := range r.Streams {
				if s.Stream == c.Stream {
					f.Add(i == 1, string(c.Kind), c.Rows, head, b[c.Offset:c.Offset+c.Length])
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, wide bool, kind string, rows int64, head, batch []byte) {
		info := usbInfo()
		if wide {
			info = logInfo()
		}
		pieces := [][]byte{head, batch}
		if len(head) == 0 {
			pieces = pieces[1:]
		}
		dir := filepath.Join(t.TempDir(), "r")
		forge(t, dir, info, StreamKind(kind), rows, pieces...)
		read(t, dir)
	})
}
