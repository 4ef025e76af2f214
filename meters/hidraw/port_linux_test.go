package hidraw

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/joulemark/joulemark/meters"
)

// far is a host time that no test comes to.
const far = int64(1) << 60

// pair returns a port and the device at its other end, which keeps reports
// apart as a node does.
func pair(t *testing.T) (meters.Port, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	device := os.NewFile(uintptr(fds[1]), "device")
	p, err := lock(os.NewFile(uintptr(fds[0]), "node"), meters.NewHostClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); device.Close() })
	return p, device
}

func TestPort(t *testing.T) {
	p, device := pair(t)
	b := make([]byte, 128)
	before := p.HostNs()
	if n, hostNs, err := p.Read(b, before+1e6); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || hostNs < before+1e6 {
		t.Errorf("nothing came, and read is %d bytes at %d ns, %v", n, hostNs, err)
	}
	for i := range 2 {
		device.Write(bytes.Repeat([]byte{byte(i + 1)}, 64))
	}
	for i, until := range []int64{0, far} { // what is there comes, however late it is
		before := p.HostNs()
		n, hostNs, err := p.Read(b, until)
		if n != 64 || b[0] != byte(i+1) || err != nil || hostNs < before || hostNs > p.HostNs() {
			t.Errorf("read %d bytes % x at %d ns, %v", n, b[:4], hostNs, err)
		}
	}
	if err := p.Write([]byte{0xaa, 0x82}); err != nil {
		t.Fatal(err)
	}
	if n, err := device.Read(b); err != nil || !bytes.Equal(b[:n], []byte{0, 0xaa, 0x82}) {
		t.Errorf("the device got % x, %v", b[:n], err)
	}
	if err := p.(*port).check(); err == nil {
		t.Error("a socket passes for a hidraw device")
	}
}

func TestPortUnplugged(t *testing.T) {
	p, device := pair(t)
	device.Write([]byte{1})
	device.Close()
	b := make([]byte, 64)
	if n, _, err := p.Read(b, far); n != 1 || err != nil {
		t.Errorf("what came before is %d bytes, %v", n, err)
	}
	if _, _, err := p.Read(b, far); !errors.Is(err, meters.ErrUnplugged) {
		t.Errorf("read without a device: %v", err)
	}
	if err := p.Write(b); err == nil {
		t.Error("written without a device")
	}
}

func TestPortClosed(t *testing.T) {
	p, _ := pair(t)
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := p.Read(make([]byte, 64), far); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read from a closed port: %v", err)
	}
	if err := p.Write(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write to a closed port: %v", err)
	}
}

// A device that takes nothing does not hold up the program for long.
func TestPortStuck(t *testing.T) {
	p, _ := pair(t)
	var err error
	writes := 0
	for ; err == nil && writes < 1e5; writes++ {
		err = p.Write(make([]byte, 64)) // until the socket is full
	}
	if !errors.Is(err, errStuck) {
		t.Fatalf("after %d writes: %v", writes, err)
	}
	if err := p.Write(nil); !errors.Is(err, errStuck) {
		t.Errorf("the next write: %v", err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node")
	open := func() (*port, error) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return lock(f, meters.NewHostClock())
	}
	if who := Holder(path); who != "" {
		t.Errorf("nobody's node is held by %q", who)
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	_, err = open()
	if !errors.Is(err, meters.ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", os.Getpid())) {
		t.Errorf("the second program is told %v", err)
	}
	first.Close()
	if _, err := open(); err != nil {
		t.Errorf("after the first one: %v", err)
	}
}

func TestHolder(t *testing.T) {
	const locks = `1: POSIX  ADVISORY  READ 12 00:06:77 128 128
2: FLOCK  ADVISORY  WRITE 34 00:06:7 0 EOF
3: FLOCK  ADVISORY  WRITE 56 00:06:77 0 EOF
4: -> FLOCK  ADVISORY  WRITE 78 00:06:77 0 EOF
`
	name := func(pid string) string { return map[string]string{"56": "joulemark"}[pid] }
	for file, want := range map[string]string{"00:06:77": "joulemark (process 56)", "00:06:7": another, "00:07:77": ""} {
		if got := holder(strings.NewReader(locks), file, name); got != want {
			t.Errorf("%s is held by %q, want %q", file, got, want)
		}
	}
}

func TestOpenProblems(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "hidraw9"), meters.NewHostClock())
	var p *meters.Problem
	if !errors.As(err, &p) || !errors.Is(err, os.ErrNotExist) || strings.Count(err.Error(), "open") != 1 {
		t.Errorf("a missing node: %v", err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, meters.NewHostClock()); err == nil || !strings.Contains(err.Error(), "no hidraw device") {
		t.Errorf("a file that is no node: %v", err)
	}
}
