// Package target is the program of a target with an operating system: it obeys
// the commands of a host (package mark) and runs operations of cryptography in
// windows with quiet zones around them.
//
// While a window runs, the collector of garbage rests (unless the heap comes to
// its limit), nothing is said, and one goroutine works. What comes in
// meanwhile is only put into a queue.
package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/joulemark/joulemark/sync/mark"
)

// DefaultTimeout is the longest window.
const DefaultTimeout = 600 * time.Second

// DefaultHeapMax is the heap at which garbage is collected even in a window,
// bytes. Without a limit every operation would get memory that was never
// touched, and pay for its pages: 4,000 key pairs of ML-DSA-65, 82 kB each, took
// 98 µs each (amd64) with Go's own pace of collecting, 122 µs with this limit
// and 14 collections, 285 µs with 256 MiB and one.
const DefaultHeapMax = 32 << 20

const (
	bootBeacons  = 8
	beaconGap    = 5 * time.Millisecond
	maxErrorText = 200 // bytes

	// clockSeconds is about the least time between two latencies that are
	// taken, so that reading the clock twice (0.1 µs; assumed 4 µs on an ARMv6,
	// by system calls) costs a window less than 0.5 %.
	clockSeconds = 1e-3
)

// Idle modes: the system's own, or a loop that keeps one processor awake.
const (
	idleOS   = "os"
	idleSpin = "spin"
)

// Target obeys one host after the other.
type Target struct {
	Hello   mark.Hello    // what it says of itself
	Ops     []Op          // what it can do
	Timeout time.Duration // the longest window; a single operation is not interrupted
	Machine Machine       // where its state is read
	HeapMax int64         // heap at which garbage is collected even in a window, bytes
	clock   clock
	seq     uint64
}

// New returns a target with all operations on this machine.
func New() *Target {
	m := ThisMachine()
	ops := Ops()
	return &Target{
		Hello: m.Hello(ops), Ops: ops, Timeout: DefaultTimeout, Machine: m, HeapMax: DefaultHeapMax, clock: newClock(),
	}
}

// Serve introduces the target and obeys the commands that come in, until they
// end and all are carried out, ctx ends, or out takes no more. baud is the rate
// of a serial line, 0 for anything else. The reader of in is left behind where
// Serve ends before in does: close it.
func (t *Target) Serve(ctx context.Context, in io.Reader, out io.Writer, baud int) error {
	s := &session{Target: t, queue: newQueue(), wire: wire{to: out, baud: baud}}
	done := make(chan struct{})
	defer close(done)
	defer context.AfterFunc(ctx, s.queue.halt)()
	if err := s.boot(); errors.Is(err, errStopped) {
		return ctx.Err()
	} else if err != nil {
		return err
	}
	go s.queue.read(in, done)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c, ok := <-s.queue.waiting:
			if !ok {
				return nil
			}
			if err := s.obey(c); err != nil {
				return err
			}
		}
	}
}

// session is the time with one host.
type session struct {
	*Target
	queue     *queue
	wire      wire
	latencies latencies // of the last window
	collected int64     // how often garbage was, in the last window or its quiet zones
}

func (s *session) boot() error {
	if err := s.hello(); err != nil {
		return err
	}
	return s.beacons(bootBeacons, beaconGap)
}

func (s *session) hello() error {
	lines, err := s.Hello.Statements()
	if err != nil {
		return err
	}
	for _, l := range lines {
		if err := s.wire.send(l); err != nil {
			return err
		}
	}
	return nil
}

// obey carries out a command. The error is one of the wire: a refusal is none.
func (s *session) obey(c command) error {
	err := s.carryOut(c)
	if r := (*refusal)(nil); errors.As(err, &r) {
		return s.refuse(c, r)
	}
	return err
}

func (s *session) carryOut(c command) error {
	switch {
	case c.damage != nil:
		return &refusal{"damaged", c.damage.Error()}
	case c.Kind == "stop":
		s.queue.stops.Add(-1)
		return s.wire.send(mark.Answer{OK: true, Cmd: "stop"}.Statement())
	case s.queue.halted():
		return errStopped
	}
	switch c.Kind {
	case "hello":
		return s.hello()
	case "sync":
		m, err := mark.ParseSyncCmd(c.Statement)
		if err != nil {
			return bad(err)
		}
		return s.beacons(m.N, time.Duration(m.GapUs)*time.Microsecond)
	case "idle":
		m, err := mark.ParseIdleCmd(c.Statement)
		if err != nil {
			return bad(err)
		}
		return s.idle(m)
	case "run":
		m, err := mark.ParseRun(c.Statement)
		if err != nil {
			return bad(err)
		}
		return s.run(m)
	case "level":
		if _, err := mark.ParseLevel(c.Statement); err != nil {
			return bad(err)
		}
		return errNoPin
	}
	return &refusal{"unknown", "the target knows no such command"}
}

// beacons sends n of them.
func (s *session) beacons(n int64, gap time.Duration) error {
	for i := range n {
		if i > 0 && !s.quiet(idleOS, gap) {
			return errStopped
		}
		if err := s.wire.send(mark.Sync{Seq: s.seq, Ticks: uint64(s.clock.ticks())}.Statement()); err != nil {
			return err
		}
		s.seq++
	}
	return nil
}

// quiet does nothing for at least that long. It reports false where it was
// halted before.
func (s *session) quiet(mode string, d time.Duration) bool {
	end := time.Now().Add(d)
	if mode == idleSpin {
		for time.Now().Before(end) && !s.queue.halted() {
		}
		return !s.queue.halted()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !s.queue.halted() {
		select {
		case <-timer.C:
			return true
		case <-s.queue.wake: // perhaps by a stop that is answered already
		}
	}
	return false
}

func (s *session) idle(c mark.IdleCmd) error {
	if !isMode(c.Mode) {
		return errMode
	}
	t0 := s.clock.ticks()
	if !s.quiet(c.Mode, time.Duration(c.Us)*time.Microsecond) {
		return errStopped
	}
	t1 := s.clock.ticks()
	return s.wire.send(mark.Idle{W: c.W, T0: uint64(t0), T1: uint64(t1), Mode: c.Mode}.Statement())
}

func isMode(mode string) bool { return mode == idleOS || mode == idleSpin }

// run runs one window within its quiet zones, checks it, and then states it.
func (s *session) run(c mark.Run) error {
	op, ok := find(s.Ops, c.Alg, c.Op)
	c.Idle, c.Key = cmp.Or(c.Idle, idleOS), cmp.Or(c.Key, defaultKey)
	switch {
	case !ok:
		return &refusal{"op", "the target has no " + c.Alg + "/" + c.Op}
	case !isMode(c.Idle):
		return errMode
	case c.Level:
		return errNoPin
	case c.Msg > MaxMsgBytes:
		return &refusal{"bad", fmt.Sprintf("run command: msg=%d is above %d bytes", c.Msg, MaxMsgBytes)}
	}
	if err := s.note(c.W, "before"); err != nil {
		return err
	}
	batch, err := op.Prepare(Params{Key: c.Key, MsgBytes: int(c.Msg), N: c.N, Halted: s.queue.halted})
	if err != nil {
		return &refusal{"failed", err.Error()}
	}
	win, err := s.window(c, batch)
	if err != nil {
		return err
	}
	checked, fail := batch.Check()
	fail = min(fail+*win.Fail, c.N)
	win.Checked, win.Fail = &checked, &fail
	if s.queue.halted() {
		return errStopped
	}
	if err := s.wire.send(win.Statement()); err != nil {
		return err
	}
	if err := s.wire.send(s.latencies.statement(c.W).Statement()); err != nil {
		return err
	}
	if s.collected > 0 {
		text := fmt.Sprintf("w=%d: garbage was collected, %d times: the heap came to %d bytes", c.W, s.collected, s.HeapMax)
		if err := s.wire.send(mark.Note{Text: text}.Statement()); err != nil {
			return err
		}
	}
	return s.note(c.W, "after")
}

// collections is how often garbage was collected since the start.
func collections() int64 {
	var m debug.GCStats
	debug.ReadGCStats(&m)
	return m.NumGC
}

// window warms up, is quiet, runs the operations, and is quiet again. Fail
// counts the operations that said so themselves.
func (s *session) window(c mark.Run, batch Batch) (mark.Win, error) {
	w := worker{batch: batch, halted: s.queue.halted, clock: s.clock, latencies: &s.latencies}
	w.limit(s.Timeout)
	if !w.warm(c.Warm) {
		return mark.Win{}, w.reason()
	}
	w.timer.Stop()

	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // of what warming up left
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(s.HeapMax))
	collected := collections()
	s.latencies.reset()
	if !s.quiet(c.Idle, time.Duration(c.PreUs)*time.Microsecond) {
		return mark.Win{}, errStopped
	}
	w.limit(s.Timeout)
	t0, t1, fail, whole := w.run(c.N)
	w.timer.Stop()
	if !whole {
		return mark.Win{}, w.reason()
	}
	if !s.quiet(c.Idle, time.Duration(c.PostUs)*time.Microsecond) {
		return mark.Win{}, errStopped
	}
	s.collected = collections() - collected
	return mark.Win{
		W: c.W, Alg: c.Alg, Op: c.Op, N: c.N, T0: uint64(t0), T1: uint64(t1), Idle: c.Idle,
		PreUs: c.PreUs, PostUs: c.PostUs, Key: c.Key, Fail: &fail,
	}, nil
}

// note states the state of the machine, where it can be read.
func (s *session) note(w int64, when string) error {
	state := s.Machine.state()
	if state == "" {
		return nil
	}
	return s.wire.send(mark.Note{Text: fmt.Sprintf("w=%d %s: %s", w, when, state)}.Statement())
}

// refuse answers a command that is not carried out.
func (s *session) refuse(c command, r *refusal) error {
	a := mark.Answer{Cmd: cmp.Or(c.Kind, "unknown"), Code: r.code, Text: r.text[:min(len(r.text), maxErrorText)]}
	if w, err := c.Int("w"); err == nil && w >= 0 {
		a.W = &w
	}
	return s.wire.send(a.Statement())
}
