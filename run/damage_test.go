package run

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/joulemark/joulemark/meters"
)

// whole is a small run and where everything in it lies.
type whole struct {
	contents
	dir   string
	files map[string]string
	lines []int // ends of the records in run.jsonl, without line ends
	marks []*Checkpoint
	at    []int // which record each mark is
}

func newWhole(t *testing.T) *whole {
	w := &whole{dir: filepath.Join(t.TempDir(), "whole")}
	small(t, w.dir)
	w.files = files(t, w.dir)
	var r *Run
	w.contents, r = read(t, w.dir)
	if len(w.damage) > 0 {
		t.Fatal(w.damage)
	}
	for rec := range r.Records() {
		if rec.Checkpoint != nil {
			w.marks, w.at = append(w.marks, rec.Checkpoint), append(w.at, len(w.lines))
		}
		w.lines = append(w.lines, int(rec.Offset)+strings.IndexByte(w.files[LogName][rec.Offset:], '\n'))
	}
	return w
}

// left returns what must come back when files were cut to the given lengths.
func (w *whole) left(cut map[string]int) contents {
	c := contents{rows: map[string]string{}}
	for i, end := range w.lines {
		if end <= cut[LogName] {
			c.records = append(c.records, w.records[i])
		}
	}
	for i, m := range w.marks {
		if w.at[i] >= len(c.records) || m.Offset+m.Length > int64(cut[m.File]) {
			continue
		}
		for row := m.Row; row < m.Row+m.Rows; row++ {
			key := rowKey(m.Stream, m.Kind, m.Segment, row)
			c.rows[key] = w.rows[key]
		}
	}
	return c
}

// write makes the run's folder anew with the given files.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *whole) lengths() map[string]int {
	n := map[string]int{}
	for name, b := range w.files {
		n[name] = len(b)
	}
	return n
}

// expect reads what depends on file in dir, and compares.
func (w *whole) expect(t *testing.T, dir, file string, want contents, what string) *Run {
	t.Helper()
	if len(want.records) == 0 {
		if _, err := Open(dir); !errors.Is(err, ErrNotRun) {
			t.Fatalf("%s: error %v, want ErrNotRun", what, err)
		}
		return nil
	}
	got, r := readFile(t, dir, file)
	if file != LogName {
		for _, m := range w.marks {
			if !depends(file, m.Stream, m.Kind) {
				maps.DeleteFunc(want.rows, func(key, _ string) bool {
					return strings.HasPrefix(key, m.Stream+"/"+string(m.Kind)+"/")
				})
			}
		}
	} else if !slices.Equal(got.records, want.records) {
		t.Fatalf("%s: records\n%s\nwant\n%s", what, strings.Join(got.records, "\n"), strings.Join(want.records, "\n"))
	}
	if !maps.Equal(got.rows, want.rows) {
		t.Fatalf("%s: rows %v\nwant %v", what, got.rows, want.rows)
	}
	return r
}

// skip thins out the tests that try every byte, with -short.
func skip(i int) bool { return testing.Short() && i%11 != 0 }

// TestCutAtEveryByte cuts each file on its own.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	dir := filepath.Join(t.TempDir(), "cut")
	write(t, dir, w.files)
	for name, b := range w.files {
		for n := len(b) - 1; n >= 0; n-- {
			if skip(n) {
				continue
			}
			if err := os.Truncate(filepath.Join(dir, name), int64(n)); err != nil {
				t.Fatal(err)
			}
			cut := w.lengths()
			cut[name] = n
			r := w.expect(t, dir, name, w.left(cut), fmt.Sprintf("%s cut to %d bytes", name, n))
			if r == nil {
				continue
			}
			p := r.Check()
			// Without its last line end run.jsonl says all that it said.
			if p.OK() != (name == LogName && n == len(b)-1) || !p.TailOnly {
				t.Fatalf("%s cut to %d bytes: report %+v", name, n, p)
			}
		}
		write(t, dir, w.files)
	}
}

// order returns the run's bytes in the order in which they were written.
func (w *whole) order(t *testing.T) []chunk {
	done := map[string]int{}
	var all []chunk
	take := func(name string, upTo int) {
		all = append(all, chunk{name, upTo - done[name]})
		done[name] = upTo
	}
	mark := 0
	for i, end := range w.lines {
		switch {
		case mark < len(w.marks) && w.at[mark] == i:
			m := w.marks[mark]
			take(m.File, int(m.Offset+m.Length))
			mark++
		case strings.Contains(w.records[i], `"segment":2,"file"`):
			for _, name := range []string{"usb.arrows", "usb.arrivals.arrows"} {
				take(name, len(w.files[name]))
			}
		case i == len(w.lines)-1:
			for name, b := range w.files {
				if name != LogName && done[name] < len(b) {
					take(name, len(b))
				}
			}
		}
		take(LogName, end+1)
	}
	if !maps.Equal(done, w.lengths()) {
		t.Fatalf("the order covers %v of %v", done, w.lengths())
	}
	return all
}

type chunk struct {
	name string
	n    int
}

// TestCrashAtEveryByte stops the writing at every byte of all files together.
func TestCrashAtEveryByte(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	dir := filepath.Join(t.TempDir(), "crash")
	now, state := map[string]string{}, map[string]int{}
	count := 0
	for _, c := range w.order(t) {
		for range c.n {
			state[c.name]++
			now[c.name] = w.files[c.name][:state[c.name]]
			grow(t, dir, c.name, now)
			what := fmt.Sprint("crash with ", state)
			if count++; skip(count) {
				continue
			}
			r := w.expect(t, dir, c.name, w.left(state), what)
			if r == nil {
				continue
			}
			complete := maps.Equal(now, w.files) || count == w.total()-1 // only the last line end is missing
			if p := r.Check(); !p.TailOnly || !r.TailOnly || p.OK() != complete {
				t.Fatalf("%s: report %+v", what, p)
			}
			if count%199 != 0 {
				continue
			}
			if after := files(t, dir); !maps.Equal(after, now) {
				t.Fatalf("%s: reading changed the files", what)
			}
			w.resume(t, dir, what)
			write(t, dir, now)
		}
	}
}

func (w *whole) total() int {
	n := 0
	for _, b := range w.files {
		n += len(b)
	}
	return n
}

// grow puts the last byte of one file on disk; all else is there.
func grow(t *testing.T, dir, name string, now map[string]string) {
	if _, err := os.Stat(dir); err != nil {
		write(t, dir, now)
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	b := now[name]
	_, err = f.WriteAt([]byte(b[len(b)-1:]), int64(len(b)-1))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// resume goes on with a run after a crash and ends it in order.
func (w *whole) resume(t *testing.T, dir, what string) {
	before, _ := read(t, dir)
	next, err := Resume(dir, Resumed{Reason: "crash"}, Options{})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	r := recorder{t, next}
	r.stream(usbInfo(), usbBlock(7))
	r.must(next.Close("done", 1))
	after, run := read(t, dir)
	for key, row := range before.rows {
		if after.rows[key] != row {
			t.Fatalf("%s: resumed, row %s is %q, was %q", what, key, after.rows[key], row)
		}
	}
	if len(after.rows) != len(before.rows)+6 || run.Closing == nil { // 4 samples, an arrival, a packet
		t.Fatalf("%s: resumed, %d rows after %d, closing %v", what, len(after.rows), len(before.rows), run.Closing)
	}
	if p := run.Check(); !p.TailOnly {
		t.Fatalf("%s: resumed, report %+v", what, p)
	}
}

// flipLimit bounds what reading a damaged small run may allocate.
const flipLimit = 16 << 20

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestFlipOneBitOfEveryByte finds each flip, or what is read is the same.
func TestFlipOneBitOfEveryByte(t *testing.T) {
	w := newWhole(t) // not parallel: it watches the memory
	dir := filepath.Join(t.TempDir(), "flip")
	write(t, dir, w.files)
	for name, b := range w.files {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(b) {
			if skip(i) {
				continue
			}
			what := fmt.Sprintf("%s: bit %d of byte %d flipped", name, i%8, i)
			f.WriteAt([]byte{b[i] ^ 1<<(i%8)}, int64(i))
			start := allocated()
			got, r := readFile(t, dir, name)
			p := r.Check()
			if n := allocated() - start; n > flipLimit {
				t.Fatalf("%s: %d bytes allocated", what, n)
			}
			if p.OK() {
				w.expect(t, dir, name, w.left(w.lengths()), what)
			}
			for key, row := range got.rows {
				if w.rows[key] != row {
					t.Fatalf("%s: row %s is %q, was %q", what, key, row, w.rows[key])
				}
			}
			f.WriteAt([]byte{b[i]}, int64(i))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// line makes a line with a right CRC of members.
func line(kind, members string) string {
	s := lineHead + kind + `"` + members
	return fmt.Sprintf("%s%s%08x\"}\n", s, lineMark, crc32.ChecksumIEEE([]byte(s)))
}

// TestHostile gives the reader files with right CRCs and evil contents.
func TestHostile(t *testing.T) {
	header := line("header", `,"schema":"joulemark.run/1","tool":"x","name":"x"`)
	meter := line("meter", `,"stream":"usb","driver":"x","columns":["volts"],"rate_hz":100,"sample":"mean","clock":"arrival","segment":1,"file":"usb.arrows"`)
	point := func(change string) string {
		old, value, _ := strings.Cut(change, "=")
		all := []string{`"stream":"usb"`, `"segment":1`, `"kind":"samples"`, `"file":"usb.arrows"`, `"offset":0`, `"length":8`,
			`"row":0`, `"rows":1`, `"crc32":"00000000"`}
		for i, m := range all {
			if strings.HasPrefix(m, `"`+old+`"`) {
				all[i] = fmt.Sprintf("%q:%s", old, value)
			}
		}
		return line("checkpoint", ","+strings.Join(all, ","))
	}
	end := line("close", `,"host_ns":1,"reason":"done","rows":{"usb":0}`)
	for name, c := range map[string]struct{ log, want string }{
		"no header":            {meter + end, "the first record is not a header"},
		"two headers":          {header + header + end, "not the first record"},
		"two runs":             {header + meter + end + header + meter + end, "after the closing record"},
		"records after close":  {header + end + line("note", `,"text":"x"`), "after the closing record"},
		"path in a file name":  {header + line("meter", `,"stream":"usb","driver":"x","columns":["volts"],"rate_hz":1,"segment":1,"file":"../../etc/passwd"`), "not the name"},
		"path in a stream":     {header + line("meter", `,"stream":"../usb","driver":"x","columns":["volts"],"rate_hz":1,"segment":1,"file":"../usb.arrows"`), "stream name"},
		"path in a checkpoint": {header + meter + point(`file="/etc/passwd"`), "not the name"},
		"huge length":          {header + meter + point("length=4611686018427387904"), "length 4611686018427387904 is out of range"},
		"length beyond int64":  {header + meter + point("length=1e30"), "cannot unmarshal"},
		"a length of 64 MiB":   {header + meter + point("length=67108864"), "the checkpoint ends at byte 67108864, the file at 16"},
		"huge offset":          {header + meter + point("offset=4611686018427387904"), "offset 4611686018427387904 is out of range"},
		"negative offset":      {header + meter + point("offset=-1"), "offset -1 is out of range"},
		"negative rows":        {header + meter + point("rows=-1"), "rows -1 is out of range"},
		"NaN rows":             {header + meter + point("rows=NaN"), "invalid character"},
		"too many rows":        {header + meter + point("rows=65537"), "rows 65537 is out of range"},
		"a row far ahead":      {header + meter + point("row=9007199254740991"), "does not follow row 0"},
		"segment 0":            {header + meter + point("segment=0"), "segment 0 is out of range"},
		"unknown kind":         {header + meter + point(`kind="x"`), `kind "x" is unknown`},
		"wrong CRC":            {header + meter + point("rows=1"), "the CRC does not match"},
		"overlap":              {header + meter + point("rows=1") + point("offset=7"), "overlaps"},
		"unknown stream":       {header + point("rows=1"), "a stream without a meter record"},
		"columns without end": {header + line("meter", `,"stream":"usb","driver":"x","rate_hz":1,"segment":1,"file":"usb.arrows","columns":["a`+
			strings.Repeat(`","a`, 100)+`"]`), "has 101 columns"},
		"rate beyond float64":            {header + line("meter", `,"stream":"b","driver":"x","columns":["volts"],"rate_hz":1e999,"segment":1,"file":"b.arrows"`), "cannot unmarshal"},
		"window at the end of the world": {header + line("window", `,"stream":"usb","from":0,"to":1e300`), "not an interval"},
		"time without end":               {header + line("line", `,"host_ns":9223372036854775807,"source":"x","text":""`), "out of range"},
		"deep nesting":                   {header + line("note", `,"text":`+strings.Repeat("[", 200_000)), "exceeded max depth"},
		"a line of 2 MiB":                {header + line("note", `,"text":"`+strings.Repeat("x", 2<<20)+`"`) + end, "longer than"},
		"samples that the end denies":    {header + meter + line("close", `,"host_ns":1,"reason":"done","rows":{"usb":7}`), "the closing record says 7"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "r")
			write(t, dir, map[string]string{LogName: c.log, "usb.arrows": strings.Repeat("x", 16)})
			start := allocated()
			_, r := read(t, dir)
			p := r.Check()
			if n := allocated() - start; n > 64<<20 {
				t.Errorf("%d bytes allocated", n)
			}
			if !slices.ContainsFunc(p.Damage, func(d Damage) bool { return strings.Contains(d.What, c.want) }) {
				t.Errorf("damage %+v, want %q", p.Damage, c.want)
			}
		})
	}
}

func TestHostileFolders(t *testing.T) {
	t.Run("newer schema", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "r")
		write(t, dir, map[string]string{LogName: line("header", `,"schema":"joulemark.run/2","name":"x"`)})
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "newer joulemark") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a file", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "r")
		if err := os.WriteFile(dir, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); !errors.Is(err, ErrNotRun) {
			t.Errorf("error %v", err)
		}
	})
	for _, name := range []string{"usb.arrows", LogName} {
		t.Run("link out of the folder: "+name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "r")
			small(t, dir)
			path := filepath.Join(dir, name)
			away := filepath.Join(t.TempDir(), name)
			if err := errors.Join(os.Rename(path, away), os.Symlink(away, path)); err != nil {
				t.Fatal(err)
			}
			r, err := Open(dir)
			if name == LogName {
				if err == nil {
					t.Error("the records were read")
				}
				return
			}
			for b := range r.Samples("usb") {
				if b != nil && b.Segment == 1 {
					t.Error("the samples were read")
				}
			}
			if p := r.Check(); p.OK() || p.TailOnly {
				t.Errorf("report %+v", p)
			}
		})
	}
}

// forge makes a run of one stream whose file holds the given bytes, each piece
// behind a right checkpoint.
func forge(t testing.TB, dir string, info meters.Info, kind StreamKind, rows int64, pieces ...[]byte) {
	seg, err := json.Marshal(Segment{Info: info, Segment: 1, File: fileName(info.Stream, 1, SampleData)})
	if err != nil {
		t.Fatal(err)
	}
	log := line("header", `,"schema":"joulemark.run/1","name":"x"`) + line("meter", ","+string(seg[1:len(seg)-1]))
	c := Checkpoint{Stream: info.Stream, Segment: 1, Kind: kind, File: fileName(info.Stream, 1, kind)}
	for i, b := range pieces {
		c.Length, c.CRC, c.Rows = int64(len(b)), fmt.Sprintf("%08x", crc32.ChecksumIEEE(b)), rows
		if i < len(pieces)-1 {
			c.Rows = 0
		}
		l, err := encodeLine("checkpoint", c)
		if err != nil {
			t.Fatal(err)
		}
		log += string(l)
		c.Offset += c.Length
	}
	write(t, dir, map[string]string{LogName: log, c.File: string(bytes.Join(pieces, nil))})
}

// TestHostileData gives the reader data files with right checkpoints and evil
// contents.
func TestHostileData(t *testing.T) {
	usb, log := usbInfo(), logInfo()
	head := func(info meters.Info) []byte {
		b, err := schemaBytes(sampleSchema(info))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	batch := func(info meters.Info, values []byte, times []int64, o ...ipc.Option) []byte {
		s := sampleSchema(info)
		var arrays []arrow.Array
		if times != nil {
			arrays = append(arrays, newArray(arrow.PrimitiveTypes.Int64, arrow.Int64Traits.CastToBytes(times), len(times)))
		}
		for _, f := range s.Fields()[len(arrays):] {
			arrays = append(arrays, newArray(f.Type, values, 2))
		}
		var b bytes.Buffer
		w := ipc.NewWriter(&b, append(o, ipc.WithSchema(s))...)
		if err := w.Write(array.NewRecordBatch(s, arrays, 2)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()[len(head(info)):]
	}
	// patch puts a number where the FlatBuffers of a message hold another.
	patch := func(b []byte, from, to uint32) []byte {
		old := binary.LittleEndian.AppendUint32(nil, from)
		i := bytes.LastIndex(b, old)
		if i < 0 {
			t.Fatalf("no %d in %x", from, b)
		}
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[i:], to)
		return b
	}
	zeros := make([]byte, 16)
	wide := usb
	wide.Wide = true
	inf := bytes.Repeat([]byte{0, 0, 0x80, 0x7f}, 4)
	metadata := arrow.NewMetadata([]string{"a"}, []string{"b"})
	withMeta := func() []byte {
		s := sampleSchema(usb)
		column := newArray(arrow.PrimitiveTypes.Float32, zeros, 2)
		var b bytes.Buffer
		w := ipc.NewWriter(&b, ipc.WithSchema(s))
		if err := w.Write(array.NewRecordBatchWithMetadata(s, []arrow.Array{column, column}, 2, metadata)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()[len(head(usb)):]
	}
	for name, c := range map[string]struct {
		info   meters.Info
		kind   StreamKind
		rows   int64
		pieces [][]byte
		want   string
	}{
		"a good one":         {usb, SampleData, 2, [][]byte{head(usb), batch(usb, zeros, nil)}, ""},
		"other columns":      {usb, SampleData, 2, [][]byte{head(wide), batch(wide, zeros, nil)}, "columns volts float64, amps float64, the meter has volts float32, amps float32"},
		"a schema of 2^31":   {usb, SampleData, 2, [][]byte{patch(head(usb), 2, 1<<31-1), batch(usb, zeros, nil)}, "2147483647 columns"},
		"no schema":          {usb, SampleData, 2, [][]byte{zeros, batch(usb, zeros, nil)}, "not an Arrow message"},
		"other rows":         {usb, SampleData, 3, [][]byte{head(usb), batch(usb, zeros, nil)}, "2 rows, the checkpoint says 3"},
		"two batches":        {usb, SampleData, 2, [][]byte{head(usb), slices.Repeat(batch(usb, zeros, nil), 2)}, "bytes after the batch"},
		"half a batch":       {usb, SampleData, 2, [][]byte{head(usb), batch(usb, zeros, nil)[:150]}, "message"},
		"the end mark":       {usb, SampleData, 2, [][]byte{head(usb), eos}, "not an Arrow message"},
		"a compressed batch": {usb, SampleData, 2, [][]byte{head(usb), batch(usb, zeros, nil, ipc.WithZstd())}, "a compressed batch"},
		"metadata":           {usb, SampleData, 2, [][]byte{head(usb), withMeta()}, "a batch with metadata"},
		"infinity":           {usb, SampleData, 2, [][]byte{head(usb), batch(usb, inf, nil)}, "an infinite value"},
		"times back":         {log, SampleData, 2, [][]byte{head(log), batch(log, zeros, []int64{5, 4})}, "sample time 4 ns after 5 ns"},
		"a time too late":    {log, SampleData, 2, [][]byte{head(log), batch(log, zeros, []int64{5, 1 << 62})}, "sample time"},
		"a huge packet":      {usb, RawData, 1, [][]byte{{255, 255, 255, 255, 0}}, "a packet is longer"},
		"empty packets":      {usb, RawData, 3, [][]byte{make([]byte, 1<<20)}, "not the 3 packets"},
		"half a length":      {usb, RawData, 1, [][]byte{{1, 0}}, "a packet is longer"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "r")
			forge(t, dir, c.info, c.kind, c.rows, c.pieces...)
			start := allocated()
			got, _ := read(t, dir)
			if n := allocated() - start; n > flipLimit {
				t.Errorf("%d bytes allocated", n)
			}
			found := slices.ContainsFunc(got.damage, func(err error) bool { return strings.Contains(err.Error(), c.want) })
			if found != (c.want != "") || (len(got.rows) == 0) != (c.want != "") {
				t.Errorf("damage %v, rows %v, want %q", got.damage, got.rows, c.want)
			}
		})
	}
}
