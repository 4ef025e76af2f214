package hidraw

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/joulemark/joulemark/meters"
)

// Missing says why this program cannot use hidraw; it can.
const Missing = ""

// writeNs is how long Write waits. The kernel gives a device five seconds
// (USB_CTRL_SET_TIMEOUT in usbhid_output_report), and cannot be told to give it
// less.
const writeNs = int64(time.Second)

var errStuck = errors.New("it takes no commands")

// Open opens and locks a node. An error is a *meters.Problem where something
// helps. The port belongs to one goroutine.
func Open(path string, clock meters.HostClock) (meters.Port, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, problem(path, idOf(path), pathless(err))
	}
	p, err := lock(file, clock)
	if err != nil {
		file.Close()
		return nil, problem(path, idOf(path), err)
	}
	if err := p.check(); err != nil {
		p.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return p, nil
}

// idOf returns the id of the device behind a node.
func idOf(path string) meters.USBID {
	d, _ := describe(os.DirFS("/"), filepath.Base(path))
	return d.USB
}

// pathless takes off what problem says itself.
func pathless(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func access(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
}

type port struct {
	file  *os.File
	raw   syscall.RawConn
	clock meters.HostClock

	out     chan []byte // to the writing goroutine
	written chan error
	writing bool // it has not answered the last one
}

// lock makes a port of a file that no other program has locked.
func lock(file *os.File, clock meters.HostClock) (*port, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return nil, err
	}
	if errors.Is(locked, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w by %s", meters.ErrBusy, cmp.Or(Holder(file.Name()), another))
	}
	if locked != nil {
		return nil, fmt.Errorf("lock it: %w", locked)
	}
	p := &port{file: file, raw: raw, clock: clock, out: make(chan []byte), written: make(chan error, 1)}
	go p.write()
	return p, nil
}

// check asks whether the file is a hidraw node.
func (p *port) check() error {
	var asked error
	err := p.raw.Control(func(fd uintptr) {
		_, asked = unix.IoctlGetUint32(int(fd), unix.HIDIOCGRDESCSIZE)
	})
	if asked != nil {
		return fmt.Errorf("it is no hidraw device: %w", asked)
	}
	return err
}

func (p *port) HostNs() int64 { return p.clock() }

func (p *port) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	for {
		var poll, read error
		var events int16
		err = p.raw.Control(func(fd uintptr) {
			if events, poll = p.wait(int(fd), untilNs); events&unix.POLLIN != 0 {
				n, read = unix.Read(int(fd), b)
				hostNs = p.clock()
			}
		})
		switch {
		case err != nil:
			return 0, p.clock(), os.ErrClosed
		case poll != nil:
			return 0, p.clock(), fmt.Errorf("wait for a report: %w", poll)
		case events == 0:
			return 0, p.clock(), os.ErrDeadlineExceeded
		case events&unix.POLLIN == 0 || gone(read):
			return 0, p.clock(), meters.ErrUnplugged
		case read == nil && n > 0:
			return n, hostNs, nil
		case read == nil: // the other end of a pipe is closed
			return 0, hostNs, meters.ErrUnplugged
		case !errors.Is(read, unix.EAGAIN) && !errors.Is(read, unix.EINTR):
			return 0, hostNs, fmt.Errorf("read a report: %w", read)
		}
	}
}

// wait waits until there is something to read, and returns no events where
// there is nothing.
func (p *port) wait(fd int, untilNs int64) (int16, error) {
	for {
		left := max(0, untilNs-p.clock())
		timeout := unix.NsecToTimespec(left)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Ppoll(fds, &timeout, nil)
		if !errors.Is(err, unix.EINTR) {
			return fds[0].Revents, err
		}
	}
}

// gone reports whether an error is that of a device that was unplugged.
func gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EIO) || errors.Is(err, unix.ESHUTDOWN)
}

// Write sends one report, with the zero before it that stands for no report
// id. One that the device did not take in time goes on in the kernel.
func (p *port) Write(b []byte) error {
	timer := time.NewTimer(time.Duration(writeNs))
	defer timer.Stop()
	if p.writing {
		select {
		case <-p.written:
			p.writing = false
		default:
			return errStuck
		}
	}
	if p.out == nil {
		return os.ErrClosed
	}
	p.out <- append([]byte{0}, b...)
	select {
	case err := <-p.written:
		return err
	case <-timer.C:
		p.writing = true
		return errStuck
	}
}

// write writes what Write hands over, until the port is closed.
func (p *port) write() {
	for b := range p.out {
		_, err := p.file.Write(b)
		if gone(err) {
			err = meters.ErrUnplugged
		}
		p.written <- err
	}
}

// Close gives the node back.
func (p *port) Close() error {
	if p.out == nil {
		return nil
	}
	close(p.out)
	p.out = nil
	return p.file.Close()
}

// Holder says which program has locked a node; "another program" where that
// cannot be seen, and "" where none has.
func Holder(path string) string {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return ""
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(s.Dev)), unix.Minor(uint64(s.Dev)), s.Ino)
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer locks.Close()
	return holder(locks, file, func(pid string) string {
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		return strings.TrimSpace(string(name))
	})
}

// holder finds the lock of a file, MAJOR:MINOR:INODE, in the lines of
// /proc/locks: NUMBER: FLOCK ADVISORY WRITE PID FILE START END (proc(5)).
func holder(locks io.Reader, file string, name func(pid string) string) string {
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != file {
			continue
		}
		if n := name(f[4]); n != "" {
			return fmt.Sprintf("%s (process %s)", n, f[4])
		}
		return another
	}
	return ""
}

const another = "another program"
