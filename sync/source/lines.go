// Package source is where marks come from: lines over whatever carries bytes.
package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/mark"
)

// Lines reads what a target prints, and sends it commands. A line is stamped
// with the host time right after the read that brought its end: later than the
// target wrote it, never earlier.
type Lines struct {
	name string
	port meters.Port

	writing sync.Mutex

	line []byte
	buf  [4096]byte
}

// NewLines makes a source of a port. name tells it apart within a run. The
// port is closed by Close.
func NewLines(name string, port meters.Port) *Lines { return &Lines{name: name, port: port} }

// Name names the source, as in the lines of the run.
func (l *Lines) Name() string { return l.name }

// patienceNs is how often a read looks whether it is still wanted, host ns.
const patienceNs = 200 * int64(time.Millisecond)

// keepLine is how much of a line is kept: a mark is never longer, and what is
// longer stays recognisable as such.
const keepLine = mark.MaxLine + 1

// Watch hands over the lines that arrive until ctx ends, which is no error. What
// was received of a line that never ended is handed over last. The text is used
// again afterwards.
func (l *Lines) Watch(ctx context.Context, line func(hostNs int64, text []byte)) error {
	var last int64
	for ctx.Err() == nil {
		n, hostNs, err := l.port.Read(l.buf[:], l.port.HostNs()+patienceNs)
		for _, b := range l.buf[:n] {
			l.add(b, hostNs, line)
		}
		if n > 0 {
			last = hostNs
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			l.rest(last, line)
			return fmt.Errorf("read marks of %s: %w", l.name, err)
		}
	}
	l.rest(last, line)
	return nil
}

func (l *Lines) add(b byte, hostNs int64, line func(hostNs int64, text []byte)) {
	switch {
	case b == '\n':
		line(hostNs, l.line)
		l.line = l.line[:0]
	case len(l.line) < keepLine:
		l.line = append(l.line, b)
	}
}

// rest hands over a line without an end. A mark in it was cut short.
func (l *Lines) rest(hostNs int64, line func(hostNs int64, text []byte)) {
	if len(l.line) > 0 {
		line(hostNs, l.line)
		l.line = l.line[:0]
	}
}

// Send sends a command to the target.
func (l *Lines) Send(s mark.Statement) error {
	text, err := mark.Append(nil, s)
	if err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.port.Write(text); err != nil {
		return fmt.Errorf("send %s to %s: %w", s.Kind, l.name, err)
	}
	return nil
}

// Close closes the port.
func (l *Lines) Close() error {
	if err := l.port.Close(); err != nil {
		return fmt.Errorf("close %s: %w", l.name, err)
	}
	return nil
}
