package record_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

var errUnplugged = errors.New("no such device")

// fake is a meter of 100 samples a second, four at a time, at 5 V and 0.1 A.
// Each session does one step of its script.
type fake struct {
	t        *testing.T
	hostNs   meters.HostClock
	script   []step // the last one is repeated
	info     func(*meters.Info)
	opened   int
	closed   int
	noticing func(meters.Notice)
}

// step is one session: how it opens, for how long it sends and how it ends.
type step struct {
	wait    time.Duration // before the first packet
	packets int           // -1: for ever
	every   time.Duration // 40 ms if 0
	hang    bool          // it then stays silent
	end     error         // of Stream; nil ends it as if the meter had no more
	open    error         // it does not open
	notices []meters.Notice
	last    []meters.Notice // told when the stream ends
}

func (f *fake) meter(name string) record.Meter { return record.Meter{Name: name, Open: f.open} }

func (f *fake) open(_ context.Context, notify func(meters.Notice)) (meters.Meter, error) {
	s := f.script[min(f.opened, len(f.script)-1)]
	f.opened++
	if s.open != nil {
		f.closed++
		return nil, s.open
	}
	f.noticing = notify
	return &session{f, s, false}, nil
}

type session struct {
	f      *fake
	s      step
	closed bool
}

func (m *session) Info() meters.Info {
	i := meters.Info{Driver: "fake", Columns: []string{meters.Volts, meters.Amps}, RateHz: 100, PacketSamples: 4,
		Sample: meters.Mean, Clock: meters.ByArrival, Simulated: true, Accuracy: meters.Accuracy{Exact: true}}
	if m.f.info != nil {
		m.f.info(&i)
	}
	return i
}

func (m *session) Close() error {
	if m.closed {
		m.f.t.Error("a meter was closed twice")
	}
	m.closed = true
	m.f.closed++
	time.Sleep(2 * time.Second) // virtual; as long as a FNB58 takes
	return nil
}

func (m *session) Stream(ctx context.Context, emit func(meters.Block) error) error {
	defer func() {
		for _, n := range m.s.last {
			n.HostNs = m.f.hostNs()
			m.f.noticing(n)
		}
	}()
	every := m.s.every
	if every == 0 {
		every = 40 * time.Millisecond
	}
	pause := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	if !pause(m.s.wait) {
		return nil
	}
	for _, n := range m.s.notices {
		n.HostNs = m.f.hostNs()
		m.f.noticing(n)
	}
	block := meters.Block{Values: [][]float64{{5, 5, 5, 5}, {0.1, 0.1, 0.1, 0.1}}, Raw: []byte("packet")}
	for i := 0; i != m.s.packets; i++ {
		if !pause(every) {
			return nil
		}
		block.ArrivalNs = m.f.hostNs()
		if err := emit(block); err != nil {
			return err
		}
	}
	if m.s.hang {
		pause(time.Hour)
	}
	return m.s.end
}

// recording is one in virtual time.
type recording struct {
	t      *testing.T
	o      record.Options
	dir    string
	meters []*fake
	after  time.Duration // when a person ends it; 0: never
}

// record records in a bubble of virtual time, and waits for all goroutines.
func newRecording(t *testing.T, scripts ...[]step) *recording {
	dir := filepath.Join(t.TempDir(), "run")
	r := &recording{t: t, dir: dir, o: record.Options{Dir: dir, Header: run.Header{Tool: "test", Name: "run"}}}
	for range scripts {
		r.meters = append(r.meters, &fake{t: t})
	}
	for i, s := range scripts {
		r.meters[i].script = s
	}
	return r
}

func (r *recording) run() (result record.Result, err error) {
	r.t.Helper()
	synctest.Test(r.t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if r.after > 0 {
			defer time.AfterFunc(r.after, cancel).Stop()
		}
		r.o.HostNs = meters.NewHostClock()
		for i, m := range r.meters {
			m.hostNs = r.o.HostNs
			r.o.Meters = append(r.o.Meters, m.meter([]string{"usb", "pkg"}[i]))
		}
		rec, e := record.New(r.o)
		if e != nil {
			err = e
			return
		}
		result, err = rec.Run(ctx)
	})
	for i, m := range r.meters {
		if m.opened != m.closed {
			r.t.Errorf("meter %d was opened %d times and closed %d times", i, m.opened, m.closed)
		}
	}
	return result, err
}

// whole opens the run and insists that nothing is damaged or missing.
func (r *recording) whole() *run.Run {
	r.t.Helper()
	got, err := run.Open(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	if p := got.Check(); !p.OK() || !p.Closed {
		r.t.Fatalf("the run is not whole: %+v", p)
	}
	return got
}

// absent insists that nothing was left behind.
func (r *recording) absent() {
	r.t.Helper()
	if _, err := os.Lstat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		r.t.Error("something was left behind")
	}
}

func segments(r *run.Run) (rows []int64) {
	for _, s := range r.Streams[0].Segments {
		rows = append(rows, 0)
		for b, err := range r.Samples(s.Stream) {
			if err == nil && b.Segment == s.Segment {
				rows[len(rows)-1] += int64(b.Rows)
			}
		}
	}
	return rows
}

func gaps(t *testing.T, r *run.Run) (all []run.Gap) {
	t.Helper()
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Gap != nil {
			all = append(all, *rec.Gap)
		}
	}
	return all
}

func codes(r *run.Run) string {
	var all []string
	for _, n := range r.Notes {
		all = append(all, n.Code)
	}
	return strings.Join(all, " ")
}

func TestRecordsForATime(t *testing.T) {
	r := newRecording(t, []step{{wait: 3 * time.Second, packets: -1}})
	r.o.For = 20 * time.Second
	r.o.Notes = []string{"a remark"}
	r.o.Env = map[string]string{"os": "test"}
	res, err := r.run()
	if err != nil || res.Reason != record.Done || res.Run != r.dir {
		t.Fatalf("got %+v, %v", res, err)
	}
	got := r.whole()
	if rows := segments(got); !slices.Equal(rows, []int64{2000}) && !slices.Equal(rows, []int64{2004}) {
		t.Errorf("rows are %v, want 2000 (20 s from the first samples on)", rows)
	}
	if got.Closing.Reason != "done" || !got.Header.Simulated || codes(got) != "remark" || got.Env["os"] != "test" {
		t.Errorf("run is %+v, notes %s", got.Header, codes(got))
	}
	s := res.Meters[0]
	if s.Samples != got.Streams[0].Rows || s.Gaps != 0 || s.Missing != 0 || s.Dropped != 0 || s.Segments != 1 || s.State != record.Ended {
		t.Errorf("status is %+v", s)
	}
	if math.Abs(s.Joules-float64(s.Samples)*0.005) > 1e-9 || math.Abs(s.Coulombs-float64(s.Samples)*0.001) > 1e-9 || math.Abs(s.RateHz-100) > 1e-6 {
		t.Errorf("%g J, %g C, %g Hz of %d samples", s.Joules, s.Coulombs, s.RateHz, s.Samples)
	}
	if res.Bytes == 0 || math.Abs(res.Seconds-20) > 0.1 {
		t.Errorf("%d bytes, %g s", res.Bytes, res.Seconds)
	}
}

func TestRecordsUntilATime(t *testing.T) {
	r := newRecording(t, []step{{packets: -1}})
	// A bubble's clock begins at this time.
	r.o.Until = time.Date(2000, 1, 1, 0, 0, 5, 0, time.UTC)
	if _, err := r.run(); err != nil {
		t.Fatal(err)
	}
	if rows := segments(r.whole()); rows[0] < 496 || rows[0] > 504 {
		t.Errorf("rows are %v, want 500", rows)
	}
}

// A meter that ends by itself ends the recording.
func TestMeterEnds(t *testing.T) {
	r := newRecording(t, []step{{packets: 10}})
	res, err := r.run()
	if err != nil || res.Reason != record.Done {
		t.Fatalf("got %+v, %v", res, err)
	}
	if rows := segments(r.whole()); !slices.Equal(rows, []int64{40}) {
		t.Errorf("rows are %v", rows)
	}
}

// What a meter sent before it fell silent is on disk within a second.
func TestSilentMeterIsFlushed(t *testing.T) {
	r := newRecording(t, []step{{packets: 10, hang: true}})
	r.o.For = 10 * time.Second
	r.o.Sources = []record.Source{spy(func() {
		got, err := run.Open(r.dir)
		if err != nil || got.Streams[0].Rows != 40 {
			t.Errorf("%+v, %v", got, err)
		}
	})}
	if _, err := r.run(); err != nil {
		t.Fatal(err)
	}
}

// spy looks at a recording after two seconds.
type spy func()

func (spy) Name() string { return "spy" }

func (look spy) Watch(context.Context, record.Marks) error {
	time.Sleep(2 * time.Second) // virtual
	look()
	return nil
}

// Whenever a person ends a recording, what there is of it is whole.
func TestInterruptedAtEveryStage(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  []step
		after   time.Duration
		nothing bool
	}{
		{"before the first samples", []step{{wait: 10 * time.Second, packets: -1}}, time.Second, true},
		{"right after them", []step{{packets: -1}}, 41 * time.Millisecond, false},
		{"in the middle", []step{{packets: -1}}, 5 * time.Second, false},
		{"while the meter is lost", []step{{packets: 25, end: errUnplugged}, {open: errUnplugged}}, 5500 * time.Millisecond, false},
		{"while it is closed to be opened again", []step{{packets: 25, end: errUnplugged}, {packets: -1}}, 1500 * time.Millisecond, false},
		{"while it is open again and silent", []step{{packets: 25, end: errUnplugged}, {wait: time.Hour}}, 10 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecording(t, c.script)
			r.after = c.after
			res, err := r.run()
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v", err)
			}
			if c.nothing {
				r.absent()
				return
			}
			if got := r.whole(); got.Closing.Reason != "interrupted" || res.Reason != record.Interrupted || got.Streams[0].Rows < 4 {
				t.Errorf("closed as %+v, result %+v", got.Closing, res.Reason)
			}
		})
	}
}

// A meter that cannot be used leaves nothing behind.
func TestUnusableMeter(t *testing.T) {
	for _, c := range []struct {
		name   string
		script [][]step
		want   error
		who    string
	}{
		{"does not open", [][]step{{{open: errUnplugged}}}, errUnplugged, "usb"},
		{"fails before samples", [][]step{{{wait: time.Second, end: meters.ErrNoSamples}}}, meters.ErrNoSamples, "usb"},
		{"never sends", [][]step{{{wait: time.Hour}}}, meters.ErrNoSamples, "usb"},
		{"one of two never sends", [][]step{{{packets: -1}}, {{wait: time.Hour}}}, meters.ErrNoSamples, "pkg"},
		{"ends without samples", [][]step{{{}}}, meters.ErrNoSamples, "usb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecording(t, c.script...)
			_, err := r.run()
			var unusable *record.MeterError
			if !errors.Is(err, c.want) || !errors.As(err, &unusable) || unusable.Name != c.who {
				t.Errorf("error %v", err)
			}
			r.absent()
		})
	}
}

// Invalid samples do not make a run.
func TestOnlyNaN(t *testing.T) {
	r := newRecording(t, []step{{packets: -1}})
	r.o.Meters = append(r.o.Meters, record.Meter{Name: "nan", Open: func(context.Context, func(meters.Notice)) (meters.Meter, error) {
		return nanMeter{}, nil
	}})
	_, err := r.run()
	var unusable *record.MeterError
	if !errors.As(err, &unusable) || unusable.Name != "nan" {
		t.Errorf("error %v", err)
	}
	r.absent()
}

type nanMeter struct{}

func (nanMeter) Info() meters.Info {
	return meters.Info{Columns: []string{meters.Watts}, RateHz: 10, Sample: meters.Mean, Clock: meters.ByArrival}
}
func (nanMeter) Close() error { return nil }
func (nanMeter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		emit(meters.Block{ArrivalNs: 1, Values: [][]float64{{math.NaN()}}})
	}
	return nil
}

// A meter that is unplugged goes on in a new segment.
func TestUnpluggedAndBack(t *testing.T) {
	r := newRecording(t, []step{{packets: 50, end: errUnplugged}, {open: errUnplugged}, {open: errUnplugged},
		{wait: time.Second, packets: -1, last: []meters.Notice{{Code: "counted", Count: 2}}}})
	r.o.For = 20 * time.Second
	res, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	got := r.whole()
	rows := segments(got)
	if len(rows) != 2 || rows[0] != 200 || rows[1] < 1000 {
		t.Errorf("rows are %v", rows)
	}
	if codes(got) != "meter-lost interrupted counted" {
		t.Errorf("notes are %s", codes(got))
	}
	g := gaps(t, got)
	if len(g) != 1 || g[0].Reason != record.MeterLost || g[0].Segment != 2 || g[0].Row != 0 || g[0].Rows != 0 {
		t.Errorf("gaps are %+v", g)
	}
	if s := res.Meters[0]; s.Gaps != 1 || s.Segments != 2 {
		t.Errorf("status is %+v", s)
	}
}

// One that stays away ends the recording, which is kept.
func TestStaysAway(t *testing.T) {
	r := newRecording(t, []step{{packets: 50, end: errUnplugged}, {open: errUnplugged}})
	r.o.Absence = 10 * time.Second
	res, err := r.run()
	var lost *record.MeterError
	if !errors.As(err, &lost) || !errors.Is(err, errUnplugged) || !strings.Contains(err.Error(), "did not come back within 10s") {
		t.Errorf("error %v", err)
	}
	if got := r.whole(); got.Closing.Reason != record.MeterLost || got.Streams[0].Rows != 200 {
		t.Errorf("closed as %+v", got.Closing)
	}
	if res.Run != r.dir || r.meters[0].opened != 9 {
		t.Errorf("run %q after %d openings", res.Run, r.meters[0].opened)
	}
}

// So does one that is there again and does not send. One that does has all the
// time in the world.
func TestStaysSilent(t *testing.T) {
	r := newRecording(t, []step{{packets: 50, end: errUnplugged}, {packets: 500, end: errUnplugged}, {wait: time.Hour}})
	r.o.Absence = 10 * time.Second
	_, err := r.run()
	var lost *record.MeterError
	if !errors.As(err, &lost) || !errors.Is(err, meters.ErrNoSamples) || !strings.Contains(err.Error(), "did not come back within 10s") {
		t.Errorf("error %v", err)
	}
	if got := r.whole(); got.Closing.Reason != record.MeterLost || got.Streams[0].Rows != 2200 || got.Closing.HostNs > int64(45*time.Second) {
		t.Errorf("closed as %+v", got.Closing)
	}
}

// Samples that a run cannot hold end the recording.
func TestImpossibleSamples(t *testing.T) {
	first := newRecording(t)
	first.o.Meters = []record.Meter{{Name: "bad", Open: func(context.Context, func(meters.Notice)) (meters.Meter, error) {
		return badMeter(0), nil
	}}}
	if _, err := first.run(); err == nil || !strings.Contains(err.Error(), "cannot be stored") {
		t.Errorf("error %v", err)
	}
	first.absent()

	later := newRecording(t)
	later.o.Meters = []record.Meter{{Name: "bad", Open: func(context.Context, func(meters.Notice)) (meters.Meter, error) {
		return badMeter(20), nil
	}}}
	if res, err := later.run(); err == nil || res.Reason != record.Failed || res.Run != later.dir {
		t.Errorf("%+v, error %v", res.Reason, err)
	}
	if got := later.whole(); got.Closing.Reason != record.Failed || got.Streams[0].Rows != 20 {
		t.Errorf("closed as %+v", got.Closing)
	}
}

// badMeter sends so many good samples, ten a second, and then one that is none.
type badMeter int

func (badMeter) Info() meters.Info { return nanMeter{}.Info() }
func (badMeter) Close() error      { return nil }
func (n badMeter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	for i := range int(n) + 1 {
		time.Sleep(100 * time.Millisecond)
		v := 1.
		if i == int(n) {
			v = math.Inf(1)
		}
		emit(meters.Block{ArrivalNs: int64(i+1) * 1e8, Values: [][]float64{{v}}})
	}
	<-ctx.Done()
	return nil
}

// A long interruption that the driver tells of begins a segment.
func TestNotices(t *testing.T) {
	r := newRecording(t, []step{{packets: 50, end: errUnplugged}, {packets: -1, notices: []meters.Notice{
		{Code: meters.Interrupted, GapNs: 2 * meters.SegmentGapNs, Warn: true, Text: "it slept"}}}})
	r.o.For = 10 * time.Second
	if _, err := r.run(); err != nil {
		t.Fatal(err)
	}
	got := r.whole()
	if g := gaps(t, got); len(g) != 1 || len(got.Streams[0].Segments) != 2 {
		t.Errorf("gaps are %+v", g)
	}
}

// Two meters make two streams of one run, which begins when both send.
func TestTwoMeters(t *testing.T) {
	r := newRecording(t, []step{{packets: -1}}, []step{{wait: 4 * time.Second, packets: -1, every: time.Second}})
	r.meters[1].info = func(i *meters.Info) { i.RateHz = 4 }
	r.o.For = 10 * time.Second
	if _, err := r.run(); err != nil {
		t.Fatal(err)
	}
	got := r.whole()
	if len(got.Streams) != 2 {
		t.Fatalf("%d streams", len(got.Streams))
	}
	// What the first one sent before the second was there is kept.
	for i, want := range [][2]int64{{1490, 1510}, {40, 48}} {
		if n := got.Streams[i].Rows; n < want[0] || n > want[1] {
			t.Errorf("stream %s has %d rows, want %v", got.Streams[i].Stream, n, want)
		}
	}
}

func TestTwoOfOneName(t *testing.T) {
	r := newRecording(t, []step{{packets: -1}})
	r.o.Meters = []record.Meter{{Name: "usb"}}
	if _, err := r.run(); err == nil || !strings.Contains(err.Error(), `two meters are named "usb"`) {
		t.Errorf("error %v", err)
	}
}

// What the disk is too slow for is counted, and never shifts what follows.
func TestTooSlow(t *testing.T) {
	// The second meter takes its time, and nothing is written before.
	r := newRecording(t, []step{{packets: -1}}, []step{{wait: 20 * time.Second, packets: -1}})
	r.o.For = 10 * time.Second
	r.o.QueueBytes = 40_000
	res, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	got := r.whole()
	rows, g := segments(got), gaps(t, got)
	if len(rows) != 2 || len(g) != 1 || g[0].Reason != record.NotRecorded || g[0].Segment != 2 || codes(got) != "not-recorded" {
		t.Fatalf("rows %v, gaps %+v, notes %s", rows, g, codes(got))
	}
	if total := rows[0] + g[0].Rows + rows[1]; total < 2990 || total > 3010 || g[0].Rows < 1000 {
		t.Errorf("%d recorded, %d lost, %d recorded: not what 30 s hold", rows[0], g[0].Rows, rows[1])
	}
	if s := res.Meters[0]; s.Dropped != g[0].Rows || s.Samples != rows[0]+rows[1] || s.Gaps != 1 || s.Segments != 2 {
		t.Errorf("status is %+v", s)
	}
}

// Losses to the end of the recording are told, too.
func TestTooSlowToTheEnd(t *testing.T) {
	r := newRecording(t, []step{{packets: 200}}, []step{{wait: 20 * time.Second, packets: -1}})
	r.o.For = time.Second
	r.o.QueueBytes = 40_000
	res, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	if got := r.whole(); codes(got) != "not-recorded" || got.Notes[0].Count+got.Streams[0].Rows != 800 || res.Meters[0].Dropped != got.Notes[0].Count {
		t.Errorf("notes %+v, %d rows", got.Notes, got.Streams[0].Rows)
	}
}

// script is a source of marks.
type script struct {
	hostNs *meters.HostClock
	n      int
	end    error
}

func (s script) Name() string { return "uart" }

func (s script) Watch(ctx context.Context, to record.Marks) error {
	text := []byte("line 0")
	for i := range s.n {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
		text[5] = byte('0' + i%10)
		to.Line(run.Line{HostNs: (*s.hostNs)(), Source: "uart", Text: text})
		to.Edge(run.Edge{HostNs: (*s.hostNs)(), Source: "gpio", Pin: "17", Level: i % 2})
	}
	if s.end != nil {
		return s.end
	}
	<-ctx.Done()
	return nil
}

func TestMarks(t *testing.T) {
	r := newRecording(t, []step{{packets: -1}})
	r.o.Sources = []record.Source{script{&r.o.HostNs, 10, nil}}
	r.o.For = 5 * time.Second
	res, err := r.run()
	if err != nil || res.Lines != 10 || res.Edges != 10 {
		t.Fatalf("%d lines, %d edges, %v", res.Lines, res.Edges, err)
	}
	got := r.whole()
	var lines []string
	for rec, err := range got.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Line != nil {
			lines = append(lines, string(rec.Line.Text))
		}
	}
	if len(lines) != 10 || lines[3] != "line 3" || got.Counts["edge"] != 10 {
		t.Errorf("lines are %q, %d edges", lines, got.Counts["edge"])
	}
}

// said is a source of lines that knows nothing of runs.
type said struct{ hostNs *meters.HostClock }

func (said) Name() string { return "tcp" }

func (s said) Watch(ctx context.Context, line func(int64, []byte)) error {
	text := []byte("@jm note text=hi")
	line((*s.hostNs)(), text)
	copy(text, "overwritten")
	line((*s.hostNs)(), text)
	<-ctx.Done()
	return nil
}

func TestLines(t *testing.T) {
	r := newRecording(t, []step{{packets: -1}})
	r.o.Sources = []record.Source{record.Lines(said{&r.o.HostNs})}
	r.o.For = time.Second
	if _, err := r.run(); err != nil {
		t.Fatal(err)
	}
	for rec := range r.whole().Records() {
		if l := rec.Line; l != nil && l.Source == "tcp" && string(l.Text) == "@jm note text=hi" {
			return
		}
	}
	t.Error("the line is not in the run")
}

// Marks that fail end a recording before it has begun, and only then.
func TestMarksFail(t *testing.T) {
	early := newRecording(t, []step{{wait: time.Second, packets: -1}})
	early.o.Sources = []record.Source{script{&early.o.HostNs, 0, errUnplugged}}
	_, err := early.run()
	var unusable *record.MeterError
	if !errors.As(err, &unusable) || unusable.Name != "uart" {
		t.Errorf("error %v", err)
	}
	early.absent()

	late := newRecording(t, []step{{packets: -1}})
	late.o.Sources = []record.Source{script{&late.o.HostNs, 3, errUnplugged}}
	late.o.For = 5 * time.Second
	if _, err := late.run(); err != nil {
		t.Fatal(err)
	}
	if got := late.whole(); codes(got) != "marks-lost" || !got.Notes[0].Warn || got.Streams[0].Rows < 490 {
		t.Errorf("notes %+v", got.Notes)
	}
}

func TestOutputRefused(t *testing.T) {
	exists := newRecording(t, []step{{packets: -1}})
	if err := os.WriteFile(exists.dir, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := exists.run(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(exists.dir); string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}

	if os.Getuid() == 0 {
		t.Log("permissions are not tested: root has all")
		return
	}
	forbidden := newRecording(t, []step{{packets: -1}})
	if err := os.Chmod(filepath.Dir(forbidden.dir), 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := forbidden.run(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
	forbidden.absent()
}

// A recording with work begins it when all meters send, and ends with it.
func TestWork(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, c := range []struct {
		what   string
		end    error
		after  time.Duration // 0: it is not interrupted
		reason string
		want   error
	}{
		{"done", nil, 0, record.Done, nil},
		{"failed", failed, 0, record.Failed, failed},
		{"interrupted", nil, 4 * time.Second, record.Interrupted, context.Canceled},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRecording(t, []step{{wait: 2 * time.Second, packets: -1}})
			r.after = c.after
			began := int64(0)
			r.o.Work = func(ctx context.Context, to record.Marks) error {
				began = r.o.HostNs()
				select {
				case <-time.After(5 * time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				to.Line(run.Line{HostNs: r.o.HostNs(), Source: "exec", Text: []byte("end")})
				return c.end
			}
			res, err := r.run()
			if !errors.Is(err, c.want) || res.Reason != c.reason {
				t.Errorf("ended %s, %v", res.Reason, err)
			}
			if began < int64(2*time.Second) {
				t.Errorf("the work began at %d ns", began)
			}
			got := r.whole()
			if lines := got.Counts["line"]; (lines == 1) != (c.after == 0) {
				t.Errorf("%d lines", lines)
			}
			if s := res.Seconds; c.after == 0 && (s < 4.9 || s > 5.2) {
				t.Errorf("recorded for %g s", s)
			}
		})
	}
}
