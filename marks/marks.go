// Package marks states windows from a Go program that is being measured, on the
// machine under test: the program says what it runs and when, as lines that
// joulemark records beside the power.
//
//	port, err := os.OpenFile("/dev/ttyUSB0", os.O_WRONLY, 0) // or os.Stdout
//	m := marks.New(port, marks.Options{})
//	m.Hello(mark.Hello{Target: "pi1", Impl: "circl", ImplVersion: "v1.6.5"})
//	m.Window(marks.Load{Alg: "ML-DSA-44", Op: "sign", N: 1000}, func() error {
//		for range 1000 {
//			sign()
//		}
//		return nil
//	})
//
// The same in Python is joulemark.py, in a shell joulemark.sh, beside this
// file. docs/recipes/instrument.md says how to choose n.
package marks

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"github.com/joulemark/joulemark/sync/mark"
)

// Defaults and limits of the quiet zones.
const (
	// DefaultQuiet is the quiet zone on either side of a window: more than the
	// response of a cheap meter and the doubt of the alignment.
	DefaultQuiet = 350 * time.Millisecond
	// phase: the zone before a window is longer by a random time below this, two
	// packets of an FNB58, so that windows do not always meet the same part of a
	// packet.
	phase = 80 * time.Millisecond
	// drain is what a line may need to leave the serial port after it was
	// written: 200 bytes at 115,200 baud take 17 ms.
	drain = 20 * time.Millisecond
	// tickHz: ticks are nanoseconds of the monotonic clock.
	tickHz = 1e9
)

// Options of a Writer; the zero value is ready to use.
type Options struct {
	Quiet time.Duration // on either side of a window; 0: DefaultQuiet
	Idle  string        // idle mode between windows; "": os
}

// Load is what runs in a window.
type Load struct {
	Alg, Op string // names as docs/recipes/instrument.md lists them, or others
	N       int64  // operations, at least 1
	Key     string // which key is used; "" where not stated
}

// Writer states windows on one wire. It is not for several goroutines, and
// nothing else should print to the wire within windows and their quiet zones.
type Writer struct {
	to   io.Writer
	o    Options
	w    int64  // windows and idle intervals so far
	seq  uint64 // beacons so far
	line []byte
	open *Load // begun by Begin

	// The world, replaced by tests.
	now   func() uint64 // ticks
	sleep func(time.Duration)
	phase func() time.Duration
}

// New returns a Writer to a wire: a serial port, a pipe, standard output. Each
// statement is one Write.
func New(to io.Writer, o Options) *Writer {
	start := time.Now()
	o.Quiet = cmp.Or(max(o.Quiet, 0), DefaultQuiet)
	o.Idle = cmp.Or(o.Idle, "os")
	return &Writer{
		to: to, o: o, line: make([]byte, 0, 2*mark.MaxLine),
		now:   func() uint64 { return uint64(time.Since(start)) },
		sleep: time.Sleep,
		phase: func() time.Duration { return rand.N(phase) },
	}
}

// Hello says what the target is. Protocol and ticks are filled in, and so are
// isa, bits and cc where they are empty.
func (m *Writer) Hello(h mark.Hello) error {
	h.Proto, h.TickHz, h.TickBits = mark.Version, tickHz, 64
	h.ISA = cmp.Or(h.ISA, runtime.GOARCH)
	h.Bits = cmp.Or(h.Bits, strconv.IntSize)
	h.CC = cmp.Or(h.CC, "gc "+runtime.Version())
	lines, err := h.Statements()
	if err != nil {
		return err
	}
	for _, s := range lines {
		if err := m.Statement(s); err != nil {
			return err
		}
	}
	return m.Sync()
}

// Statement writes any statement, such as a note.
func (m *Writer) Statement(s mark.Statement) error {
	line, err := mark.Append(m.line[:0], s)
	if err != nil {
		return err
	}
	return m.write(line)
}

func (m *Writer) write(line []byte) error {
	if _, err := m.to.Write(line); err != nil {
		return fmt.Errorf("write statement: %w", err)
	}
	return nil
}

// Sync writes a clock beacon. Windows bring their own; a program that is silent
// for minutes may add some.
func (m *Writer) Sync() error {
	s := mark.Statement{Kind: "sync", Fields: []mark.Field{{Key: "seq", Value: strconv.FormatUint(m.seq, 10)}}}
	m.seq++
	return m.stamped(s)
}

// stamped writes a statement whose last key is the time. All but the time is
// made before the clock is read, and nothing is allocated after it.
func (m *Writer) stamped(s mark.Statement) error {
	line, err := mark.Append(m.line[:0], s)
	if err != nil {
		return err
	}
	line = line[:bytes.LastIndex(line, []byte(" *"))]
	line = append(line, " t="...)
	return m.write(appendCheck(strconv.AppendUint(line, m.now(), 10)))
}

// appendCheck ends a line with its CRC.
func appendCheck(line []byte) []byte {
	const hex = "0123456789ABCDEF"
	c := mark.CRC(line)
	return append(line, ' ', '*', hex[c>>12], hex[c>>8&15], hex[c>>4&15], hex[c&15], '\n')
}

// Window keeps quiet, runs work, which does l.N operations and nothing else,
// keeps quiet again, and states it all. If work fails, its error is returned and
// no window is stated.
func (m *Writer) Window(l Load, work func() error) error {
	w := mark.Win{W: m.w, Alg: l.Alg, Op: l.Op, N: l.N, Idle: m.o.Idle, Key: l.Key}
	if _, err := mark.ParseWin(w.Statement()); err != nil {
		return err
	}
	m.w++
	pre := m.o.Quiet + m.phase()
	m.sleep(drain + pre)
	t0 := m.now()
	err := work()
	t1 := m.now()
	if err != nil {
		return err
	}
	m.sleep(m.o.Quiet)
	w.T0, w.T1, w.PreUs, w.PostUs = t0, t1, pre.Microseconds(), m.o.Quiet.Microseconds()
	if err := m.Sync(); err != nil {
		return err
	}
	return m.Statement(w.Statement())
}

// Idle does nothing for d and states it.
func (m *Writer) Idle(d time.Duration) error {
	i := mark.Idle{W: m.w, Mode: m.o.Idle}
	m.w++
	m.sleep(drain)
	i.T0 = m.now()
	m.sleep(d)
	i.T1 = m.now()
	return m.Statement(i.Statement())
}

// Begin begins a window in the simple form, for work that cannot be handed over
// as a function. It holds the cost of its own line; keep quiet around it.
func (m *Writer) Begin(l Load) error {
	b := mark.Bound{Alg: l.Alg, Op: l.Op, N: &l.N}
	s := b.Statement()
	if _, err := mark.ParseBound(s); err != nil {
		return err
	}
	m.open = &l
	return m.stamped(s)
}

// End ends the window of the last Begin.
func (m *Writer) End() error {
	t := m.now()
	if m.open == nil {
		return fmt.Errorf("end a window: none was begun")
	}
	b := mark.Bound{End: true, Alg: m.open.Alg, Op: m.open.Op, N: &m.open.N, Ticks: &t}
	m.open = nil
	return m.Statement(b.Statement())
}
