package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/joulemark/joulemark/sync/mark"
)

// host is the other end of a target, which runs in real time.
type host struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan mark.Statement
	ended chan error
	began chan struct{} // takes what endless operations say
}

// newHost starts a target with few operations, and passes over what it says at
// the start.
func newHost(t *testing.T, change func(*Target)) *host {
	t.Helper()
	jt := New()
	jt.Machine = Machine{fstest.MapFS{cpufreq + "scaling_governor": file("powersave")}}
	began := make(chan struct{}, 1)
	jt.Ops = slices.Concat(Ops(), testOps, []Op{{mark.Op{Alg: "endless", Op: "run"}, own, func(Params) (Batch, error) { return endless{began}, nil }}})
	if change != nil {
		change(jt)
	}
	in, write := io.Pipe()
	read, out := io.Pipe()
	h := &host{t: t, in: write, lines: make(chan mark.Statement, 16384), ended: make(chan error, 1), began: began}
	go func() {
		err := jt.Serve(t.Context(), in, out, 0)
		out.Close()
		h.ended <- err
	}()
	go func() {
		defer close(h.lines)
		for text := bufio.NewScanner(read); text.Scan(); {
			s, err := mark.Parse(text.Bytes())
			if err != nil || !s.Checked {
				t.Errorf("target sent %q: %v", text.Text(), err)
			}
			h.lines <- s
		}
	}()
	t.Cleanup(func() { write.Close() })
	for s := h.next(); s.Kind != "sync" || number(t, s, "seq") != bootBeacons-1; s = h.next() {
		if s.Kind != "hello" && s.Kind != "sync" {
			t.Errorf("at the start: %v", s)
		}
	}
	return h
}

// Operations that misbehave.
var testOps = []Op{
	{mark.Op{Alg: "wrong", Op: "run"}, own, func(Params) (Batch, error) { return wrong{}, nil }},
	{mark.Op{Alg: "broken", Op: "run"}, own, func(Params) (Batch, error) { return nil, errors.New("no key") }},
}

// wrong gives no answer each third time.
type wrong struct{}

func (wrong) Do(i int64) bool       { return i%3 != 0 }
func (wrong) Check() (int64, int64) { return 1, 1 }

// endless says that it began.
type endless struct{ began chan struct{} }

func (e endless) Do(int64) bool {
	select {
	case e.began <- struct{}{}:
	default:
	}
	return true
}

func (endless) Check() (int64, int64) { return 0, 0 }

func (h *host) next() mark.Statement {
	h.t.Helper()
	select {
	case s, ok := <-h.lines:
		if !ok {
			h.t.Fatal("the target is gone")
		}
		return s
	case <-time.After(time.Minute):
		h.t.Fatal("the target says nothing")
	}
	return mark.Statement{}
}

// answer returns the next statement that is not a note.
func (h *host) answer() mark.Statement {
	h.t.Helper()
	for {
		if s := h.next(); s.Kind != "note" {
			return s
		}
	}
}

func (h *host) write(text string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, text); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) send(s mark.Statement) {
	h.t.Helper()
	line, err := mark.Append(nil, s)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(string(line))
}

func (h *host) wantErr(cmd, code string) mark.Statement {
	h.t.Helper()
	s := h.answer()
	a, err := mark.ParseAnswer(s)
	if err != nil || a.OK || a.Cmd != cmd || a.Code != code {
		h.t.Errorf("got %v (%v), want err cmd=%s code=%s", s, err, cmd, code)
	}
	return s
}

func number(t *testing.T, s mark.Statement, key string) int64 {
	t.Helper()
	n, err := s.Int(key)
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	return n
}

func TestHello(t *testing.T) {
	h := newHost(t, nil)
	h.send(mark.HelloCmd{}.Statement())
	var all mark.Hello
	for all.More = true; all.More; {
		one, err := mark.ParseHello(h.answer())
		if err != nil {
			t.Fatal(err)
		}
		all = all.Merge(one)
	}
	if all.ISA != runtime.GOARCH || all.TickHz != tickHz || all.TickBits != 64 || !strings.Contains(all.Impl, "circl") || len(all.Ops) < 60 {
		t.Errorf("%+v", all)
	}
}

func TestSync(t *testing.T) {
	h := newHost(t, nil)
	h.send(mark.SyncCmd{N: 3, GapUs: 2000}.Statement())
	var last mark.Sync
	for i := range uint64(3) {
		y, err := mark.ParseSync(h.answer())
		if err != nil || y.Seq != bootBeacons+i || i > 0 && y.Ticks < last.Ticks+2_000_000 {
			t.Errorf("%+v after %+v, %v", y, last, err)
		}
		last = y
	}
}

// A window says what it did, and its quiet zones were kept by the target's own
// clock: from the beacon before it to t0, and from t1 to the beacon after it.
func TestRun(t *testing.T) {
	for _, mode := range []string{"", idleOS, idleSpin} {
		h := newHost(t, nil)
		h.send(mark.SyncCmd{N: 1}.Statement())
		h.send(mark.Run{W: 5, Alg: "ML-DSA-44", Op: "sign", N: 20, Warm: 2, Msg: 33, PreUs: 15_000, PostUs: 25_000, Key: "3", Idle: mode}.Statement())
		h.send(mark.SyncCmd{N: 1}.Statement())
		before, err := mark.ParseSync(h.next())
		if err != nil {
			t.Fatal(err)
		}
		if s := h.next(); s.Kind != "note" || !strings.Contains(s.String(), "before") {
			t.Errorf("before a window: %v", s)
		}
		w, err := mark.ParseWin(h.next())
		if err != nil {
			t.Fatal(err)
		}
		l, err := mark.ParseLat(h.next())
		if err != nil {
			t.Fatal(err)
		}
		if s := h.next(); s.Kind != "note" || !strings.Contains(s.String(), "after") {
			t.Errorf("after a window: %v", s)
		}
		after, err := mark.ParseSync(h.next())
		if err != nil {
			t.Fatal(err)
		}
		wantMode := mode
		if mode == "" {
			wantMode = idleOS
		}
		if w.W != 5 || w.N != 20 || w.Idle != wantMode || w.Key != "3" || w.PreUs != 15_000 || w.PostUs != 25_000 ||
			w.Checked == nil || *w.Checked < 1 || w.Fail == nil || *w.Fail != 0 {
			t.Errorf("%+v", w)
		}
		if w.T0 < before.Ticks+15_000_000 || w.T1 <= w.T0 || after.Ticks < w.T1+25_000_000 {
			t.Errorf("quiet zones were not kept: beacon %d, window [%d, %d), beacon %d", before.Ticks, w.T0, w.T1, after.Ticks)
		}
		if l.W != 5 || l.N < 1 || l.N > 20 || l.Max > float64(w.T1-w.T0) || l.Min <= 0 {
			t.Errorf("%+v", l)
		}
	}
}

func TestIdle(t *testing.T) {
	for _, mode := range []string{idleOS, idleSpin} {
		h := newHost(t, nil)
		h.send(mark.IdleCmd{W: 2, Us: 10_000, Mode: mode}.Statement())
		i, err := mark.ParseIdle(h.answer())
		if err != nil || i.W != 2 || i.Mode != mode || i.T1 < i.T0+10_000_000 {
			t.Errorf("%+v, %v", i, err)
		}
	}
}

// Operations that fail are counted, those that cannot begin are refused.
func TestWrongAnswers(t *testing.T) {
	h := newHost(t, nil)
	h.send(mark.Run{W: 1, Alg: "wrong", Op: "run", N: 9}.Statement())
	w, err := mark.ParseWin(h.answer())
	if err != nil || *w.Fail != 4 {
		t.Errorf("%+v, %v", w, err)
	}
	h.answer() // lat
	h.send(mark.Run{W: 2, Alg: "broken", Op: "run", N: 9}.Statement())
	if s := h.wantErr("run", "failed"); number(t, s, "w") != 2 {
		t.Errorf("%v", s)
	}
}

// Garbage is not collected in a window, unless the heap comes to its limit,
// which is said.
func TestGarbage(t *testing.T) {
	for limit, want := range map[int64]bool{1 << 30: false, 1: true} {
		h := newHost(t, func(jt *Target) { jt.HeapMax = limit })
		h.send(mark.Run{W: 1, Alg: "ML-DSA-65", Op: "keygen", N: 200}.Statement())
		h.send(mark.IdleCmd{W: 2, Us: 1, Mode: idleOS}.Statement())
		got := false
		for s := h.next(); s.Kind != "idle"; s = h.next() {
			got = got || strings.Contains(s.String(), "garbage")
		}
		if got != want {
			t.Errorf("with a limit of %d bytes, garbage was collected: %v", limit, got)
		}
	}
}

// What is refused, and with which code; the target obeys afterwards.
func TestRefusals(t *testing.T) {
	h := newHost(t, nil)
	line := func(s mark.Statement) string {
		text, err := mark.Append(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	good := line(mark.SyncCmd{N: 1}.Statement())
	command := func(kind string, fields ...mark.Field) string {
		return line(mark.Statement{Kind: kind, Fields: fields, Command: true})
	}
	for _, c := range []struct{ text, cmd, code string }{
		{line(mark.Run{W: 1, Alg: "Falcon-512", Op: "sign", N: 1}.Statement()), "run", "op"},
		{line(mark.Run{W: 1, Alg: "ML-DSA-44", Op: "encaps", N: 1}.Statement()), "run", "op"},
		{line(mark.Run{W: 1, Alg: "empty", Op: "run", N: 1, Idle: "wfi"}.Statement()), "run", "mode"},
		{line(mark.Run{W: 1, Alg: "empty", Op: "run", N: 1, Level: true}.Statement()), "run", "pin"},
		{line(mark.Run{W: 1, Alg: "sha256", Op: "run", N: 1, Msg: MaxMsgBytes + 1}.Statement()), "run", "bad"},
		{line(mark.IdleCmd{W: 1, Us: 1, Mode: "sleep"}.Statement()), "idle", "mode"},
		{line(mark.Level{Pin: 4, V: 1}.Statement()), "level", "pin"},
		{command("run", mark.Field{Key: "w", Value: "1"}), "run", "bad"},
		{command("sync", mark.Field{Key: "n", Value: "-1"}), "sync", "bad"},
		{command("idle"), "idle", "bad"},
		{command("level"), "level", "bad"},
		{command("dance"), "dance", "unknown"},
		{strings.Replace(good, "n=1", "n=9", 1), "unknown", "damaged"},
		{"@jh hello\n", "unknown", "damaged"}, // without a CRC
		{"@jh hello *12", "", ""},             // cut, the next line is stuck to it
		{"\n", "unknown", "damaged"},
		{"@jh " + strings.Repeat("x", 5000) + "\n", "unknown", "damaged"},
	} {
		h.write(c.text)
		if c.code != "" {
			h.wantErr(c.cmd, c.code)
		}
	}
	h.write("\x00\xff\n\nlogin: @jm hello *0000\n" + good)
	if s := h.answer(); s.Kind != "sync" {
		t.Errorf("after noise and a command: %v", s)
	}
}

// A stop ends what is under way and what waits, and is answered last; then the
// target obeys again.
func TestStop(t *testing.T) {
	for _, long := range []mark.Statement{
		mark.Run{W: 1, Alg: "endless", Op: "run", N: 1 << 40}.Statement(),
		mark.Run{W: 1, Alg: "endless", Op: "run", N: 1, Warm: 1 << 40}.Statement(),
		mark.Run{W: 1, Alg: "empty", Op: "run", N: 1, PreUs: 3_600_000_000}.Statement(),
		mark.Run{W: 1, Alg: "empty", Op: "run", N: 1, PostUs: 3_600_000_000, Idle: idleSpin}.Statement(),
		mark.IdleCmd{W: 1, Us: 3_600_000_000, Mode: idleOS}.Statement(),
		mark.IdleCmd{W: 1, Us: 3_600_000_000, Mode: idleSpin}.Statement(),
	} {
		h := newHost(t, nil)
		h.send(long)
		if alg, _ := long.Get("alg"); alg == "endless" {
			<-h.began
		} else if alg != "" {
			h.next() // its note
		}
		h.send(mark.IdleCmd{W: 2, Us: 3_600_000_000, Mode: idleOS}.Statement())
		h.send(mark.Stop{}.Statement())
		h.send(mark.Stop{}.Statement())
		h.wantErr(long.Kind, "stopped")
		if s := h.wantErr("idle", "stopped"); number(t, s, "w") != 2 {
			t.Errorf("%v", s)
		}
		for range 2 {
			if a, err := mark.ParseAnswer(h.answer()); err != nil || !a.OK || a.Cmd != "stop" {
				t.Errorf("%+v, %v", a, err)
			}
		}
		h.send(mark.IdleCmd{W: 3, Us: 1, Mode: idleOS}.Statement())
		if s := h.answer(); s.Kind != "idle" || number(t, s, "w") != 3 {
			t.Errorf("after a stop: %v", s)
		}
	}
}

// Quiet ends with a stop, and with nothing else before its time.
func TestQuiet(t *testing.T) {
	for _, mode := range []string{idleOS, idleSpin} {
		s := &session{Target: New(), queue: newQueue()}
		s.queue.stir() // left over from a stop that is answered
		if !s.quiet(mode, time.Millisecond) {
			t.Errorf("%s: it was halted by nothing", mode)
		}
		ended := make(chan bool)
		go func() { ended <- s.quiet(mode, time.Hour) }()
		s.queue.stops.Add(1)
		s.queue.stir()
		if <-ended {
			t.Errorf("%s: an hour has passed", mode)
		}
	}
}

func TestTimeout(t *testing.T) {
	for _, c := range []mark.Run{{N: 1 << 40}, {N: 1, Warm: 1 << 40}} {
		h := newHost(t, func(jt *Target) { jt.Timeout = 20 * time.Millisecond })
		c.W, c.Alg, c.Op = 9, "spin", "run"
		h.send(c.Statement())
		if s := h.wantErr("run", "timeout"); number(t, s, "w") != 9 {
			t.Errorf("%v", s)
		}
	}
}

// Commands that wait when their end is reached are carried out; a target that
// is ended, or whose host takes nothing more, ends.
func TestServeEnds(t *testing.T) {
	h := newHost(t, nil)
	h.send(mark.IdleCmd{W: 1, Us: 1000, Mode: idleOS}.Statement())
	h.send(mark.IdleCmd{W: 2, Us: 1, Mode: idleOS}.Statement())
	h.in.Close()
	for w := range int64(2) {
		if s := h.answer(); s.Kind != "idle" || number(t, s, "w") != w+1 {
			t.Errorf("%v", s)
		}
	}
	if err := <-h.ended; err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	in, write := io.Pipe()
	defer write.Close()
	cancel()
	if err := New().Serve(ctx, in, io.Discard, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after an end: %v", err)
	}
	full := errors.New("full")
	if err := New().Serve(t.Context(), in, refusing{full}, 0); !errors.Is(err, full) {
		t.Errorf("where nothing can be said: %v", err)
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

// A thousand commands leave neither goroutines nor memory behind.
func TestThousandCommands(t *testing.T) {
	h := newHost(t, nil)
	use := func() (goroutines int, heap uint64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	round := func(i int64) {
		h.send(mark.Run{W: i, Alg: "Ed25519", Op: "sign", N: 2, Warm: 1, Msg: 8, Key: fmt.Sprint(i)}.Statement())
		if s := h.answer(); s.Kind != "win" {
			t.Fatalf("%v", s)
		}
		h.answer() // lat
		h.send(mark.SyncCmd{N: 1}.Statement())
		h.answer()
	}
	for i := range int64(50) {
		round(i)
	}
	goroutines, heap := use()
	for i := range int64(500) {
		round(i)
	}
	now, grown := use()
	if now > goroutines+1 || grown > heap+512<<10 {
		t.Errorf("%d goroutines and %d bytes before, %d and %d after", goroutines, heap, now, grown)
	}
}

// Whatever comes in, the target reads on and remembers little.
func FuzzRead(f *testing.F) {
	f.Add([]byte("@jh hello *C7B6\n"))
	f.Add([]byte("@jh stop *0000\n@jh stop\n"))
	f.Add([]byte("log @jh run w=1 alg=x op=y n=1 *\n\n\r\n"))
	f.Add(append(bytes.Repeat([]byte("x"), 3000), "\n@jh "...))
	f.Fuzz(func(t *testing.T, data []byte) {
		q := newQueue()
		done := make(chan struct{})
		go q.read(bytes.NewReader(data), done)
		stops := int32(0)
		for c := range q.waiting {
			if c.damage == nil && (!c.Command || !c.Checked) {
				t.Errorf("%q is obeyed", c)
			}
			if c.Kind == "stop" {
				stops++
			}
		}
		if q.stops.Load() != stops {
			t.Errorf("%d stops, %d counted", stops, q.stops.Load())
		}
	})
}
