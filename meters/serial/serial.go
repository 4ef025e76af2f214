// Package serial reaches devices over serial lines, USB ones included: 8 data
// bits, no parity, one stop bit, no flow control.
//
// Everything works without cgo on Linux, FreeBSD, OpenBSD and Windows. On macOS
// lines open all the same, but without cgo they can only be listed by name,
// without what is plugged in there. Where a device is on its bus, only Linux
// says. Lines are locked against other programs by
// TIOCEXCL, and by flock against our own, where the system has these; Windows
// does so by itself.
package serial

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"go.bug.st/serial"

	"github.com/joulemark/joulemark/meters"
)

// Port is an open serial line. Reads belong to one goroutine, writes to
// another or the same.
type Port struct {
	path    string
	line    serial.Port
	lock    *os.File
	clock   meters.HostClock
	writing atomic.Bool // a write has not returned yet
}

var _ meters.Port = (*Port)(nil)

// Open opens and locks a line. DTR and RTS are off, as far as the system allows
// it: a board that they reset sees a short pulse. An error is a *meters.Problem
// where something helps.
func Open(path string, baud int, clock meters.HostClock) (*Port, error) {
	lock, err := lockFile(path)
	if err != nil {
		return nil, problem(path, err)
	}
	mode := serial.Mode{BaudRate: cmp.Or(baud, 115200), InitialStatusBits: &serial.ModemOutputBits{}}
	line, err := serial.Open(path, &mode)
	if is(err, serial.InvalidSerialPort) {
		// A pseudo terminal has no such lines and answers ENOTTY.
		mode.InitialStatusBits = nil
		line, err = serial.Open(path, &mode)
	}
	if err != nil {
		unlock(lock)
		return nil, problem(path, err)
	}
	return &Port{path: path, line: line, lock: lock, clock: clock}, nil
}

func is(err error, code serial.PortErrorCode) bool {
	p := (*serial.PortError)(nil)
	return errors.As(err, &p) && p.Code() == code
}

// problem says what would help against an error of opening a line.
func problem(path string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, meters.ErrBusy) || is(err, serial.PortBusy):
		err = fmt.Errorf("%w by %s", meters.ErrBusy, cmp.Or(Holder(path), "another program"))
		hint = "close that program; ModemManager probes new lines for some seconds, and a rule of udev keeps it away"
	case errors.Is(err, fs.ErrPermission) || is(err, serial.PermissionDenied):
		err = fs.ErrPermission
		hint = permissionHint
	case errors.Is(err, fs.ErrNotExist) || is(err, serial.PortNotFound):
		err = fs.ErrNotExist
		hint = "is it plugged in? joulemark meters and doctor list the lines that there are"
	case is(err, serial.InvalidSerialPort):
		hint = "is it a serial line?"
	case is(err, serial.InvalidSpeed):
		hint = "use a rate that the device and its driver know, such as 115200"
	}
	err = fmt.Errorf("open %s: %w", path, err)
	if hint == "" {
		return err
	}
	return &meters.Problem{Err: err, Hint: hint}
}

// HostNs reads the host clock.
func (p *Port) HostNs() int64 { return p.clock() }

// Read hands over what has arrived, or waits for it until the host clock shows
// untilNs.
func (p *Port) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	if err := p.line.SetReadTimeout(max(0, time.Duration(untilNs-p.clock()))); err != nil {
		return 0, p.clock(), fmt.Errorf("read %s: %w", p.path, err)
	}
	n, err = p.line.Read(b)
	hostNs = p.clock()
	switch {
	case n > 0:
		return n, hostNs, nil
	case err == nil:
		return 0, hostNs, os.ErrDeadlineExceeded
	case is(err, serial.PortClosed) || isGone(err):
		return 0, hostNs, fmt.Errorf("read %s: %w", p.path, meters.ErrUnplugged)
	}
	return 0, hostNs, fmt.Errorf("read %s: %w", p.path, err)
}

// writeSeconds is how long Write waits.
const writeSeconds = 1

// errStuck is the error of a write that the device does not take.
var errStuck = errors.New("it takes no bytes")

// Write sends bytes, within a second.
func (p *Port) Write(b []byte) error {
	if !p.writing.CompareAndSwap(false, true) {
		return fmt.Errorf("write %s: %w", p.path, errStuck)
	}
	done := make(chan error, 1)
	go func(b []byte) {
		var err error
		for n := 0; len(b) > 0 && err == nil; b = b[n:] {
			n, err = p.line.Write(b)
		}
		p.writing.Store(false)
		done <- err
	}(append([]byte(nil), b...))
	timer := time.NewTimer(writeSeconds * time.Second)
	defer timer.Stop()
	err := errStuck
	select {
	case err = <-done:
	case <-timer.C:
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", p.path, err)
	}
	return nil
}

// SetDTR sets the line by which a program says that it listens. Many a USB
// device sends nothing until then; a board may be reset by it.
func (p *Port) SetDTR(on bool) error { return p.line.SetDTR(on) }

// SetRTS sets the line by which a program asks for bytes; a board may be reset
// by it.
func (p *Port) SetRTS(on bool) error { return p.line.SetRTS(on) }

// Close gives the line up.
func (p *Port) Close() error {
	err := p.line.Close()
	unlock(p.lock)
	if err != nil {
		return fmt.Errorf("close %s: %w", p.path, err)
	}
	return nil
}

func unlock(f *os.File) {
	if f != nil {
		f.Close()
	}
}
