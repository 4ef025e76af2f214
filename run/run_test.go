package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/joulemark/joulemark/meters"
)

func usbInfo() meters.Info {
	return meters.Info{Stream: "usb", Driver: "fnb58", Columns: []string{meters.Volts, meters.Amps},
		RateHz: 100, PacketSamples: 4, Sample: meters.Mean, Clock: meters.ByArrival}
}

// usbBlock is packet i of a meter that counts its samples.
func usbBlock(i int) meters.Block {
	b := meters.Block{ArrivalNs: int64(i+1) * 40_000_000, Values: make([][]float64, 2), Raw: []byte{0xaa, byte(i)}}
	for j := range 4 {
		b.Values[0] = append(b.Values[0], 5+float64(j)/4)
		b.Values[1] = append(b.Values[1], float64(4*i+j)/1024)
	}
	return b
}

func logInfo() meters.Info {
	return meters.Info{Stream: "log", Driver: "import", Columns: []string{meters.Watts, "d0"}, Wide: true,
		Sample: meters.Point, Clock: meters.Shared}
}

func logBlock() meters.Block {
	return meters.Block{ArrivalNs: -1, Values: [][]float64{{1.1, math.NaN(), 1.3}, {0, 1, math.NaN()}},
		TimesNs: []int64{0, 10, 25}}
}

// recorder hides the errors of a Writer that must not fail.
type recorder struct {
	testing.TB
	*Writer
}

func create(t testing.TB, dir string) recorder {
	t.Helper()
	w, err := Create(dir, Header{Name: "small", Tool: "test"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return recorder{t, w}
}

func (r recorder) must(errs ...error) {
	r.Helper()
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
}

func (r recorder) stream(info meters.Info, blocks ...meters.Block) *Stream {
	r.Helper()
	s, err := r.Writer.Stream(info)
	r.must(err)
	for _, b := range blocks {
		r.must(s.Write(b))
	}
	return s
}

// small records a run that holds everything, in as few bytes as possible.
func small(t testing.TB, dir string) {
	w := create(t, dir)
	w.must(w.Target(Target{Name: "c6", Bits: 32}), w.Target(Target{ISA: "rv32imac"}),
		w.Env(map[string]string{"os": "linux", "type": "x"}))
	s := w.stream(usbInfo(), usbBlock(0))
	w.must(s.Flush())
	w.must(w.Line(Line{HostNs: 5, Source: "uart", Text: []byte("@jm note text=<\u2028&>")}),
		w.Line(Line{HostNs: 6, Source: "uart", Text: []byte("\xff\x00")}),
		w.Line(Line{HostNs: 7, Source: "uart"}),
		w.Edge(Edge{HostNs: 8, Source: "gpio", Pin: "17", Level: 1, Seq: 1}))
	w.must(s.Write(usbBlock(1)))
	w.stream(usbInfo(), meters.Block{ArrivalNs: -1, Values: usbBlock(2).Values})
	w.stream(logInfo(), logBlock())
	w.must(w.InBand(InBand{Stream: "usb", Column: "d0", Active: 1, Alg: "empty"}))
	w.must(w.Window(Window{Stream: "log", W: 1, Alg: "empty", Op: "run", N: 1, From: 0.5, To: 2}),
		w.Gap(Gap{Stream: "usb", Segment: 2, Row: 0, Rows: 4, Reason: "replug"}),
		w.Note(Note{Code: "x", Text: "y", Warn: true}),
		w.record("future", map[string]int{"a": 1}),
		w.Close("done", 120_000_000))
}

// contents is what a run gives back: rows by file kind, segment and number.
type contents struct {
	records []string
	rows    map[string]string
	damage  []error
}

func rowKey(stream string, kind StreamKind, segment int, row int64) string {
	return fmt.Sprintf("%s/%s/%d/%d", stream, kind, segment, row)
}

// read reads a whole run.
func read(t testing.TB, dir string) (contents, *Run) {
	t.Helper()
	return readFile(t, dir, LogName)
}

// readFile reads what depends on one file of a run; all depends on the records.
func readFile(t testing.TB, dir, file string) (contents, *Run) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := contents{rows: map[string]string{}}
	failed := func(err error) bool {
		var d *DamageError
		if err != nil && !errors.As(err, &d) {
			t.Fatal(err)
		}
		if err != nil {
			c.damage = append(c.damage, err)
		}
		return err != nil
	}
	if file == LogName {
		for rec, err := range r.Records() {
			if failed(err) {
				continue
			}
			text, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			c.records = append(c.records, string(text))
		}
	}
	for _, s := range r.Streams {
		if depends(file, s.Stream, SampleData) {
			for b, err := range r.Samples(s.Stream) {
				if !failed(err) {
					c.samples(s.Info, b)
				}
			}
		}
		if depends(file, s.Stream, ArrivalData) {
			for a, err := range r.Arrivals(s.Stream) {
				if !failed(err) {
					c.rows[rowKey(s.Stream, ArrivalData, a.Segment, a.Index)] = fmt.Sprint(a.Row, a.HostNs)
				}
			}
		}
		if depends(file, s.Stream, RawData) {
			for p, err := range r.Packets(s.Stream) {
				if !failed(err) {
					c.rows[rowKey(s.Stream, RawData, p.Segment, p.Index)] = fmt.Sprintf("%x", p.Bytes)
				}
			}
		}
	}
	return c, r
}

func (c contents) samples(info meters.Info, b *Batch) {
	for i := range b.Rows {
		text := ""
		if info.RateHz == 0 {
			text = fmt.Sprint(b.TimesNs[i])
		}
		for _, name := range info.Columns {
			text += fmt.Sprintf(" %v", b.Columns[name][i])
		}
		c.rows[rowKey(info.Stream, SampleData, b.Segment, b.Row+int64(i))] = text
	}
}

// depends reports whether rows of a stream and kind may lie in file.
func depends(file, stream string, kind StreamKind) bool {
	for segment := range 3 {
		if file == LogName || file == fileName(stream, segment+1, kind) {
			return true
		}
	}
	return false
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	small(t, dir)
	got, r := read(t, dir)
	want := map[string]string{
		"usb/samples/1/0": " 5 0", "usb/samples/1/1": " 5.25 0.0009765625", "usb/samples/1/2": " 5.5 0.001953125",
		"usb/samples/1/3": " 5.75 0.0029296875", "usb/samples/1/4": " 5 0.00390625", "usb/samples/1/5": " 5.25 0.0048828125",
		"usb/samples/1/6": " 5.5 0.005859375", "usb/samples/1/7": " 5.75 0.0068359375",
		"usb/samples/2/0": " 5 0.0078125", "usb/samples/2/1": " 5.25 0.0087890625", "usb/samples/2/2": " 5.5 0.009765625",
		"usb/samples/2/3":  " 5.75 0.0107421875",
		"usb/arrivals/1/0": "4 40000000", "usb/arrivals/1/1": "8 80000000",
		"usb/raw/1/0": "aa00", "usb/raw/1/1": "aa01",
		"log/samples/1/0": "0 1.1 0", "log/samples/1/1": "10 NaN 1", "log/samples/1/2": "25 1.3 NaN",
	}
	if !maps.Equal(got.rows, want) {
		t.Errorf("rows %v\nwant %v", got.rows, want)
	}
	var lines []string
	for rec := range r.Records() {
		if rec.Line != nil {
			lines = append(lines, string(rec.Line.Text))
		}
	}
	if want := []string{"@jm note text=<\u2028&>", "\xff\x00", ""}; !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if want := (Target{Name: "c6", Bits: 32, ISA: "rv32imac"}); r.Target != want {
		t.Errorf("target %+v, want %+v", r.Target, want)
	}
	if r.Env["os"] != "linux" || r.Env["type"] != "x" {
		t.Errorf("env %v", r.Env)
	}
	if len(r.Notes) != 1 || !r.Notes[0].Warn || r.Unknown != 1 || r.Closing == nil || r.Closing.Reason != "done" {
		t.Errorf("run %+v", r)
	}
	if len(r.Streams) != 2 || r.Streams[0].Rows != 12 || len(r.Streams[0].Segments) != 2 {
		t.Errorf("streams %+v", r.Streams)
	}
	p := r.Check()
	if !p.OK() || len(got.damage) > 0 {
		t.Errorf("damage %v, %v", p.Damage, got.damage)
	}
	if u := p.Streams[0]; u.Samples != 12 || u.Seconds != 0.12 || u.Arrivals != 2 || u.Packets != 2 || u.Segments != 2 {
		t.Errorf("usb %+v", u)
	}
	if l := p.Streams[1]; l.Samples != 3 || l.Seconds != 25e-9 || p.Lines != 3 || p.Edges != 1 || p.Windows != 1 || p.Unknown != 1 {
		t.Errorf("report %+v", p)
	}
}

// TestAnyArrowReader reads files that ended in order without joulemark.
func TestAnyArrowReader(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	small(t, dir)
	for name, want := range map[string]struct {
		rows    int64
		columns string
	}{
		"usb.arrows":          {8, "volts float32 V, amps float32 A"},
		"usb.2.arrows":        {4, "volts float32 V, amps float32 A"},
		"usb.arrivals.arrows": {2, "row uint64 1, host_ns int64 ns"},
		"log.arrows":          {3, "t_ns int64 ns, watts float64 W, d0 uint8 1"},
	} {
		r, err := ipc.NewReader(strings.NewReader(files(t, dir)[name]))
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, f := range r.Schema().Fields() {
			unit, _ := f.Metadata.GetValue("unit")
			columns = append(columns, fmt.Sprint(f.Name, " ", f.Type, " ", unit))
		}
		rows := int64(0)
		for r.Next() {
			rows += r.RecordBatch().NumRows()
		}
		if got := strings.Join(columns, ", "); r.Err() != nil || rows != want.rows || got != want.columns {
			t.Errorf("%s: %d rows of %s, %v", name, rows, got, r.Err())
		}
	}
}

// TestStreamsDoNotMix checks streams of different form whose batches alternate.
func TestStreamsDoNotMix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir)
	usb, log := w.stream(usbInfo()), w.stream(logInfo())
	for i := range 3 {
		b := logBlock()
		for j := range b.TimesNs {
			b.TimesNs[j] += int64(100 * i)
		}
		w.must(log.Write(b), log.Flush(), usb.Write(usbBlock(i)), usb.Flush())
	}
	w.must(w.Close("done", 0))
	r, err := Open(dir)
	w.must(err)
	if p := r.Check(); !p.OK() || math.Abs(p.Streams[1].Seconds-225e-9) > 1e-15 {
		t.Errorf("report %+v", p)
	}
}

// files returns the bytes of all files of a run.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func TestEqualInputGivesEqualBytes(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	small(t, a)
	small(t, b)
	if !maps.Equal(files(t, a), files(t, b)) {
		t.Error("the same run written twice differs")
	}
}

func TestFlushFollowsTheBlocksTimes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir)
	s := w.stream(usbInfo())
	onDisk := func() int64 {
		r, err := Open(dir)
		w.must(err)
		return r.Streams[0].Rows
	}
	// Packets 0 to 12 arrive within 480 ms, packet 13 at 520 ms after the first.
	for i := range 13 {
		w.must(s.Write(usbBlock(i)))
	}
	if n := onDisk(); n != 0 {
		t.Errorf("%d rows on disk before half a second", n)
	}
	w.must(s.Write(usbBlock(13)))
	if n := onDisk(); n != 56 {
		t.Errorf("%d rows on disk after half a second, want 56", n)
	}
	// A block larger than a batch is cut.
	big := usbBlock(14)
	for i := range big.Values {
		big.Values[i] = slices.Repeat(big.Values[i], MaxBatchRows/2)
	}
	w.must(s.Write(big), w.Close("done", 0))
	got, r := read(t, dir)
	if n := 56 + 2*MaxBatchRows; len(got.damage) > 0 || r.Streams[0].Rows != int64(n) || r.Counts["checkpoint"] > 20 {
		t.Errorf("%d rows in %d checkpoints, damage %v", r.Streams[0].Rows, r.Counts["checkpoint"], got.damage)
	}
}

// TestFlushBoundsABatch writes what no meter sends within half a second.
func TestFlushBoundsABatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir)
	empty := meters.Block{ArrivalNs: 1, Values: [][]float64{{}, {}}, Raw: []byte{}}
	large := empty
	large.Raw = make([]byte, flushRawBytes/2)
	s := w.stream(usbInfo(), large, large, large)
	for range MaxBatchRows {
		w.must(s.Write(empty))
	}
	w.must(w.Close("done", 0))
	r, err := Open(dir)
	w.must(err)
	if p := r.Check(); !p.OK() || p.Streams[0].Packets != 3+MaxBatchRows || p.Streams[0].Arrivals != 3+MaxBatchRows {
		t.Errorf("report %+v", p)
	}
	var lengths []int64
	for rec := range r.Records() {
		if c := rec.Checkpoint; c != nil && c.Kind == RawData {
			lengths = append(lengths, c.Rows)
		}
	}
	if want := []int64{2, MaxBatchRows, 1}; !slices.Equal(lengths, want) {
		t.Errorf("batches of %v packets, want %v", lengths, want)
	}
}

func TestCreateRefusesAnExistingPath(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(dir, Header{Name: "x"}, Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want fs.ErrExist", err)
	}
	if len(files(t, dir)) > 0 {
		t.Error("something was written into it")
	}
}

func TestAbandonLeavesNothing(t *testing.T) {
	root := t.TempDir()
	w := create(t, filepath.Join(root, "a", "b", "run"))
	w.stream(usbInfo(), usbBlock(0))
	w.must(w.Abandon())
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := w.Line(Line{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a line after it: %v", err)
	}
	if err := w.Close("done", 0); !errors.Is(err, ErrClosed) {
		t.Errorf("close after it: %v", err)
	}
}

func TestResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir)
	s := w.stream(usbInfo(), usbBlock(0))
	w.must(s.Flush(), s.Write(usbBlock(1))) // the second block is lost
	log := filepath.Join(dir, LogName)
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	w.must(err)
	_, err = f.WriteString(`{"type":"line","host_ns":1`)
	w.must(err, f.Close(), os.WriteFile(filepath.Join(dir, "usb.2.arrows"), []byte("torn"), 0o666))

	for range 2 { // a run may be resumed after it was closed, too
		w2, err := Resume(dir, Resumed{Reason: "crash"}, Options{})
		w.must(err)
		r2 := recorder{t, w2}
		r2.stream(usbInfo(), usbBlock(5))
		r2.must(w2.Close("done", 1))
	}
	got, r := read(t, dir)
	if len(r.Streams) != 1 || r.Streams[0].Rows != 12 || len(r.Resumes) != 2 || r.Closing == nil {
		t.Fatalf("run %+v", r)
	}
	segs := r.Streams[0].Segments
	if len(segs) != 3 || segs[1].Segment != 3 || segs[1].Part != 1 || segs[2].Segment != 4 || segs[2].Part != 2 {
		t.Errorf("segments %+v, want 1, 3 (2 was on disk), 4", segs)
	}
	if got.rows["usb/samples/1/3"] == "" || got.rows["usb/samples/3/3"] == "" || got.rows["usb/samples/1/4"] != "" {
		t.Errorf("rows %v", got.rows)
	}
	p := r.Check()
	if p.OK() || !p.TailOnly || !p.Closed || p.DamageCount != 2 { // the torn line, the torn file
		t.Errorf("report %+v", p)
	}
}

func TestWriterRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir)
	s := w.stream(usbInfo())
	l := w.stream(logInfo(), logBlock())
	before := files(t, dir)
	info := func(change func(*meters.Info)) error {
		i := usbInfo()
		i.Stream = "other"
		change(&i)
		_, err := w.Stream(i)
		return err
	}
	block := func(change func(*meters.Block)) error {
		b := usbBlock(0)
		change(&b)
		return s.Write(b)
	}
	for name, err := range map[string]error{
		"stream with a path":       info(func(i *meters.Info) { i.Stream = "../x" }),
		"stream in upper case":     info(func(i *meters.Info) { i.Stream = "USB" }),
		"stream like a segment":    info(func(i *meters.Info) { i.Stream = "usb.2" }),
		"stream like arrivals":     info(func(i *meters.Info) { i.Stream = "usb.arrivals" }),
		"no columns":               info(func(i *meters.Info) { i.Columns = nil }),
		"a column twice":           info(func(i *meters.Info) { i.Columns = []string{"volts", "volts"} }),
		"a column t_ns":            info(func(i *meters.Info) { i.Columns = []string{"t_ns"} }),
		"a negative rate":          info(func(i *meters.Info) { i.RateHz = -1 }),
		"a rate that is no number": info(func(i *meters.Info) { i.RateHz = math.NaN() }),
		"a replug at another rate": info(func(i *meters.Info) { i.Stream, i.RateHz = "usb", 50 }),
		"an infinite value":        block(func(b *meters.Block) { b.Values[0][1] = math.Inf(1) }),
		"a value beyond float32":   block(func(b *meters.Block) { b.Values[0][1] = -1e39 }),
		"a missing column":         block(func(b *meters.Block) { b.Values = b.Values[:1] }),
		"a short column":           block(func(b *meters.Block) { b.Values[1] = b.Values[1][:1] }),
		"times at a rate":          block(func(b *meters.Block) { b.TimesNs = make([]int64, 4) }),
		"times that go back":       l.Write(logBlock()),
		"no times":                 l.Write(meters.Block{Values: [][]float64{{1}, {1}}}),
		"a window backwards":       w.Window(Window{Stream: "log", From: 2, To: 1}),
		"a window at NaN":          w.Window(Window{Stream: "log", To: math.NaN()}),
		"a level of 2":             w.Edge(Edge{Level: 2}),
		"a target at -1 Hz":        w.Target(Target{TickHz: -1}),
		"a line of 2 MiB":          w.Line(Line{Text: make([]byte, 2<<20)}),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if !maps.Equal(files(t, dir), before) {
		t.Error("a refused value was written")
	}
	w.must(s.Write(usbBlock(0)), w.Close("done", 0)) // none of it broke the writer
	for _, name := range []string{"", "A", "a/b", "..", ".a", strings.Repeat("a", 65)} {
		if _, err := Create(filepath.Join(t.TempDir(), "r"), Header{Name: name}, Options{}); err == nil {
			t.Errorf("name %q: accepted", name)
		}
	}
}

// TestDiskFull writes into the device that is always full.
func TestDiskFull(t *testing.T) {
	for name, breakIt := range map[string]func(*Writer, *Stream, *os.File){
		"samples": func(_ *Writer, s *Stream, full *os.File) { s.samples.f = full },
		"log":     func(w *Writer, _ *Stream, full *os.File) { w.log = full },
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("no /dev/full here")
		}
		w := create(t, filepath.Join(t.TempDir(), "r"))
		s := w.stream(usbInfo(), usbBlock(0))
		w.must(s.Flush(), s.Write(usbBlock(1)))
		breakIt(w.Writer, s, full)
		first := s.Flush()
		if !errors.Is(first, syscall.ENOSPC) || !strings.Contains(first.Error(), "/dev/full") {
			t.Errorf("%s: error %v, want no space left and the file", name, first)
		}
		for what, err := range map[string]error{"block": s.Write(usbBlock(2)), "line": w.Line(Line{}), "flush": s.Flush(), "close": w.Close("done", 0)} {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %s after the failure: %v", name, what, err)
			}
		}
		if r, err := Open(w.dir); err != nil || r.Streams[0].Rows != 4 || r.Check().Streams[0].Samples != 4 {
			t.Errorf("%s: what was on disk is not read: %+v, %v", name, r, err)
		}
		w.must(w.Abandon())
		if _, err := os.Stat(w.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: abandoned after the failure, the folder is still there: %v", name, err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir)
	var all sync.WaitGroup
	for k := range 3 {
		all.Go(func() {
			info := usbInfo()
			info.Stream = fmt.Sprint("m", k)
			s := w.stream(info)
			for i := range 200 {
				w.must(s.Write(usbBlock(i)), w.Line(Line{HostNs: int64(i), Source: info.Stream}))
			}
		})
	}
	all.Wait()
	w.must(w.Close("done", 0))
	r, err := Open(dir)
	w.must(err)
	if p := r.Check(); !p.OK() || p.Lines != 600 || r.Closing.Rows["m2"] != 800 {
		t.Errorf("report %+v", p)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	small(t, filepath.Join(root, "b"))
	small(t, filepath.Join(root, "a"))
	if err := os.Mkdir(filepath.Join(root, "figures"), 0o777); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	for path, want := range map[string][]string{root: {a, b}, a: {a}} {
		if got, err := Find(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("Find(%s) = %v, %v", path, got, err)
		}
	}
	if _, err := Find(filepath.Join(root, "figures")); !errors.Is(err, ErrNotRun) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := Find(filepath.Join(root, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}
