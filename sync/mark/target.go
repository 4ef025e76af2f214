package mark

import (
	"fmt"
	"slices"
	"strings"
)

// Version is the version of the protocol.
const Version = 1

// Op names an operation of an algorithm.
type Op struct{ Alg, Op string }

func (o Op) String() string { return o.Alg + "/" + o.Op }

// Hello is what a target says of itself. A member that is empty or 0 was not
// stated.
type Hello struct {
	Proto       int
	Target      string
	CPU         string
	ISA         string
	Bits        int
	ClockHz     float64
	TickHz      float64 // nominal rate of t, t0 and t1
	TickBits    int     // width of the tick counter; 64: it never wraps
	Firmware    string
	Impl        string
	ImplVersion string
	CC          string
	CFlags      string
	Ops         []Op
	More        bool // another hello line follows with more keys
}

// ParseHello reads one hello line. It refuses another version of the protocol.
func ParseHello(s Statement) (Hello, error) {
	v := open(s, false, "hello")
	h := Hello{
		Target: v.text("target"), CPU: v.text("cpu"), ISA: v.text("isa"),
		ClockHz: v.frequency("clock_hz"), TickHz: v.frequency("tick_hz"),
		Firmware: v.text("fw"), Impl: v.text("impl"), ImplVersion: v.text("impl_version"),
		CC: v.text("cc"), CFlags: v.text("cflags"), More: v.text("more") == "1",
	}
	if v.has("proto") {
		h.Proto = int(v.integer("proto", 1, 1<<31-1))
		if v.err == nil && h.Proto != Version {
			v.fail(fmt.Errorf("hello statement: target speaks version %d of the protocol, this program version %d: update the older one", h.Proto, Version))
		}
	}
	if v.has("bits") {
		h.Bits = int(v.integer("bits", 1, 1024))
	}
	if v.has("tick_bits") {
		h.TickBits = int(v.integer("tick_bits", 8, 64))
	}
	if ops := v.text("ops"); ops != "" {
		for _, item := range strings.Split(ops, ",") {
			alg, op, ok := strings.Cut(item, "/")
			if !ok || alg == "" || op == "" || strings.Contains(op, "/") {
				v.fail(fmt.Errorf("hello statement: %q in ops= is not ALG/OP", item))
			}
			h.Ops = append(h.Ops, Op{alg, op})
		}
	}
	return h, v.err
}

// Statement writes h as one line; see Statements for what is too long.
func (h Hello) Statement() Statement {
	s := Statement{Kind: "hello"}
	if h.Proto != 0 {
		s.addInt("proto", int64(h.Proto))
	}
	s.addText("target", h.Target)
	s.addText("cpu", h.CPU)
	s.addText("isa", h.ISA)
	if h.Bits != 0 {
		s.addInt("bits", int64(h.Bits))
	}
	if h.ClockHz != 0 {
		s.addFloat("clock_hz", h.ClockHz)
	}
	if h.TickHz != 0 {
		s.addFloat("tick_hz", h.TickHz)
	}
	if h.TickBits != 0 {
		s.addInt("tick_bits", int64(h.TickBits))
	}
	s.addText("fw", h.Firmware)
	s.addText("impl", h.Impl)
	s.addText("impl_version", h.ImplVersion)
	s.addText("cc", h.CC)
	s.addText("cflags", h.CFlags)
	names := make([]string, len(h.Ops))
	for i, o := range h.Ops {
		names[i] = o.String()
	}
	s.addText("ops", strings.Join(names, ","))
	if h.More {
		s.add("more", "1")
	}
	return s
}

// Statements shares the keys of h out to as few lines as hold them; each but
// the last carries more=1. It fails if one value is too long for a line.
func (h Hello) Statements() ([]Statement, error) {
	lines := []Statement{{Kind: "hello"}}
	for _, f := range h.parts() {
		last := &lines[len(lines)-1]
		if wider := last.with(f); wider.with(more).fits() {
			*last = wider
			continue
		}
		next := Statement{Kind: "hello"}.with(f)
		if !next.with(more).fits() {
			return nil, fmt.Errorf("write hello statement: %s=: %w", f.Key, ErrTooLong)
		}
		*last = last.with(more)
		lines = append(lines, next)
	}
	return lines, nil
}

var more = Field{"more", "1"}

// parts returns the keys of h, with one ops for each operation.
func (h Hello) parts() []Field {
	ops := h.Ops
	h.Ops, h.More = nil, false
	parts := h.Statement().Fields
	for _, o := range ops {
		parts = append(parts, Field{"ops", o.String()})
	}
	return parts
}

// with returns s with one more key; ops are joined.
func (s Statement) with(f Field) Statement {
	s.Fields = slices.Clone(s.Fields)
	if n := len(s.Fields) - 1; n >= 0 && s.Fields[n].Key == "ops" && f.Key == "ops" {
		s.Fields[n].Value += "," + f.Value
	} else {
		s.Fields = append(s.Fields, f)
	}
	return s
}

func (s Statement) fits() bool {
	_, err := Append(nil, s)
	return err == nil
}

// Merge adds what the next line of the same answer says; where both state a
// member, the later one wins.
func (h Hello) Merge(next Hello) Hello {
	m := h
	set(&m.Proto, next.Proto)
	set(&m.Target, next.Target)
	set(&m.CPU, next.CPU)
	set(&m.ISA, next.ISA)
	set(&m.Bits, next.Bits)
	set(&m.ClockHz, next.ClockHz)
	set(&m.TickHz, next.TickHz)
	set(&m.TickBits, next.TickBits)
	set(&m.Firmware, next.Firmware)
	set(&m.Impl, next.Impl)
	set(&m.ImplVersion, next.ImplVersion)
	set(&m.CC, next.CC)
	set(&m.CFlags, next.CFlags)
	m.Ops = slices.Clone(h.Ops)
	for _, o := range next.Ops {
		if !slices.Contains(m.Ops, o) {
			m.Ops = append(m.Ops, o)
		}
	}
	m.More = next.More
	return m
}

func set[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

// Sync is a clock beacon: Ticks was read immediately before the line was
// handed to the wire.
type Sync struct {
	Seq   uint64
	Ticks uint64
}

// ParseSync reads a sync statement.
func ParseSync(s Statement) (Sync, error) {
	v := open(s, false, "sync")
	y := Sync{Seq: v.ticks("seq"), Ticks: v.ticks("t")}
	return y, v.err
}

// Statement writes the beacon.
func (y Sync) Statement() Statement {
	s := Statement{Kind: "sync"}
	s.addTicks("seq", y.Seq)
	s.addTicks("t", y.Ticks)
	return s
}

// Win says that N operations ran in [T0, T1) of the target's clock, which may
// have wrapped between them.
type Win struct {
	W       int64
	Alg, Op string
	N       int64 // at least 1
	T0, T1  uint64
	Idle    string // idle mode around the window; "" where not stated
	PreUs   int64  // quiet before T0, µs; 0 where not stated
	PostUs  int64  // quiet after T1, µs; 0 where not stated
	Key     string // which key was used; "" where not stated
	// A window of a duty cycle: N times busy for OnUs and idle for the rest of
	// PeriodUs, µs; both 0 where the target is busy throughout.
	PeriodUs, OnUs int64
	// Not every target knows these; nil where not stated.
	Checked *int64 // results that were verified
	Fail    *int64 // operations that gave a wrong answer
	Retries *int64 // rejection-sampling tries of the whole window
}

// ParseWin reads a win statement.
func ParseWin(s Statement) (Win, error) {
	v := open(s, false, "win")
	w := Win{
		W: v.integer("w", 0, maxCount), Alg: v.word("alg"), Op: v.word("op"), N: v.integer("n", 1, maxCount),
		T0: v.ticks("t0"), T1: v.ticks("t1"), Idle: v.text("idle"), Key: v.text("key"),
	}
	if v.has("pre_us") {
		w.PreUs = v.micros("pre_us")
	}
	if v.has("post_us") {
		w.PostUs = v.micros("post_us")
	}
	if v.has("period_us") || v.has("on_us") {
		w.PeriodUs = v.integer("period_us", 1, maxMicros)
		w.OnUs = v.integer("on_us", 1, max(1, w.PeriodUs))
	}
	w.Checked = v.optional("checked", 0, maxCount)
	w.Fail = v.optional("fail", 0, maxCount)
	w.Retries = v.optional("retries", 0, maxCount)
	return w, v.err
}

// Statement writes the window.
func (w Win) Statement() Statement {
	s := Statement{Kind: "win"}
	s.addInt("w", w.W)
	s.add("alg", w.Alg)
	s.add("op", w.Op)
	s.addInt("n", w.N)
	s.addTicks("t0", w.T0)
	s.addTicks("t1", w.T1)
	s.addText("idle", w.Idle)
	s.addInt("pre_us", w.PreUs)
	s.addInt("post_us", w.PostUs)
	s.addText("key", w.Key)
	if w.PeriodUs != 0 {
		s.addInt("period_us", w.PeriodUs)
		s.addInt("on_us", w.OnUs)
	}
	s.addOptional("checked", w.Checked)
	s.addOptional("fail", w.Fail)
	s.addOptional("retries", w.Retries)
	return s
}

// Lat is the latency of the single operations of a window, in ticks.
type Lat struct {
	W, N                         int64
	Min, P50, Mean, P95, Max, SD float64
}

// ParseLat reads a lat statement. Its quantiles must not contradict each other.
func ParseLat(s Statement) (Lat, error) {
	v := open(s, false, "lat")
	l := Lat{
		W: v.integer("w", 0, maxCount), N: v.integer("n", 1, maxCount),
		Min: v.real("min"), P50: v.real("p50"), Mean: v.real("mean"),
		P95: v.real("p95"), Max: v.real("max"), SD: v.real("sd"),
	}
	if l.Min > l.P50 || l.P50 > l.P95 || l.P95 > l.Max {
		v.fail(fmt.Errorf("lat statement: min=%g p50=%g p95=%g max=%g do not rise", l.Min, l.P50, l.P95, l.Max))
	}
	return l, v.err
}

// Statement writes the latencies.
func (l Lat) Statement() Statement {
	s := Statement{Kind: "lat"}
	s.addInt("w", l.W)
	s.addInt("n", l.N)
	s.addFloat("min", l.Min)
	s.addFloat("p50", l.P50)
	s.addFloat("mean", l.Mean)
	s.addFloat("p95", l.P95)
	s.addFloat("max", l.Max)
	s.addFloat("sd", l.SD)
	return s
}

// Mem is the peak use of memory of a window, in bytes; nil where not stated.
type Mem struct {
	W                  int64
	Stack, Heap, Flash *int64
}

// ParseMem reads a mem statement.
func ParseMem(s Statement) (Mem, error) {
	v := open(s, false, "mem")
	m := Mem{
		W: v.integer("w", 0, maxCount), Stack: v.optional("stack", 0, maxCount),
		Heap: v.optional("heap", 0, maxCount), Flash: v.optional("flash", 0, maxCount),
	}
	return m, v.err
}

// Statement writes the memory use.
func (m Mem) Statement() Statement {
	s := Statement{Kind: "mem"}
	s.addInt("w", m.W)
	s.addOptional("stack", m.Stack)
	s.addOptional("heap", m.Heap)
	s.addOptional("flash", m.Flash)
	return s
}

// Idle says that the target did nothing in [T0, T1).
type Idle struct {
	W      int64
	T0, T1 uint64
	Mode   string // wfi, spin, sleep, os
}

// ParseIdle reads an idle statement.
func ParseIdle(s Statement) (Idle, error) {
	v := open(s, false, "idle")
	i := Idle{W: v.integer("w", 0, maxCount), T0: v.ticks("t0"), T1: v.ticks("t1"), Mode: v.word("mode")}
	return i, v.err
}

// Statement writes the interval.
func (i Idle) Statement() Statement {
	s := Statement{Kind: "idle"}
	s.addInt("w", i.W)
	s.addTicks("t0", i.T0)
	s.addTicks("t1", i.T1)
	s.add("mode", i.Mode)
	return s
}

// Bound is a begin or an end, the simple form for firmware that is
// instrumented by hand.
type Bound struct {
	End     bool
	Alg, Op string  // Alg is "" where not stated
	N       *int64  // nil where not stated
	Ticks   *uint64 // nil where the target has no clock
}

// ParseBound reads a begin or end statement.
func ParseBound(s Statement) (Bound, error) {
	b := Bound{End: s.Kind == "end"}
	v := open(s, false, b.kind())
	b.Alg, b.Op, b.N = v.text("alg"), v.word("op"), v.optional("n", 1, maxCount)
	if v.has("t") {
		t := v.ticks("t")
		b.Ticks = &t
	}
	return b, v.err
}

func (b Bound) kind() string {
	if b.End {
		return "end"
	}
	return "begin"
}

// Statement writes the bound.
func (b Bound) Statement() Statement {
	s := Statement{Kind: b.kind()}
	s.add("op", b.Op)
	s.addText("alg", b.Alg)
	s.addOptional("n", b.N)
	if b.Ticks != nil {
		s.addTicks("t", *b.Ticks)
	}
	return s
}

// Answer is the answer to a command that has no statement of its own, or the
// refusal of any command.
type Answer struct {
	OK   bool
	Cmd  string
	W    *int64 // nil where not stated
	Code string // of a refusal: stopped, timeout, ...
	Text string
}

// ParseAnswer reads an ok or err statement.
func ParseAnswer(s Statement) (Answer, error) {
	a := Answer{OK: s.Kind == "ok"}
	v := open(s, false, a.kind())
	a.Cmd, a.W = v.word("cmd"), v.optional("w", 0, maxCount)
	if !a.OK {
		a.Code, a.Text = v.word("code"), v.text("text")
	}
	return a, v.err
}

func (a Answer) kind() string {
	if a.OK {
		return "ok"
	}
	return "err"
}

// Statement writes the answer.
func (a Answer) Statement() Statement {
	s := Statement{Kind: a.kind()}
	s.add("cmd", a.Cmd)
	s.addOptional("w", a.W)
	if !a.OK {
		s.add("code", a.Code)
		s.addText("text", a.Text)
	}
	return s
}

// Note is a remark of the target.
type Note struct{ Text string }

// ParseNote reads a note statement.
func ParseNote(s Statement) (Note, error) {
	v := open(s, false, "note")
	n := Note{Text: v.word("text")}
	return n, v.err
}

// Statement writes the remark.
func (n Note) Statement() Statement {
	return Statement{Kind: "note", Fields: []Field{{"text", n.Text}}}
}
