//go:build unix

package serial

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/joulemark/joulemark/meters"
)

// device opens a pseudo terminal; what is written to it comes in over the line.
func device(t *testing.T) (device *os.File, path string) {
	t.Helper()
	device, line, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminal here: %v", err)
	}
	t.Cleanup(func() { device.Close() })
	path = line.Name()
	line.Close()
	return device, path
}

func open(t *testing.T, path string) *Port {
	t.Helper()
	p, err := Open(path, 115200, meters.NewHostClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

const second = int64(time.Second)

func TestReadAndWrite(t *testing.T) {
	d, path := device(t)
	p := open(t, path)
	all := make([]byte, 256) // no byte may be changed on the way
	for i := range all {
		all[i] = byte(i)
	}
	d.Write(all)
	var got []byte
	b := make([]byte, 100)
	for len(got) < len(all) {
		before := p.HostNs()
		n, hostNs, err := p.Read(b, before+second)
		if err != nil || hostNs < before || hostNs > p.HostNs() {
			t.Fatalf("%d bytes at %d ns: %v", n, hostNs, err)
		}
		got = append(got, b[:n]...)
	}
	if string(got) != string(all) {
		t.Errorf("% x arrived", got)
	}
	if err := p.Write(all); err != nil {
		t.Fatal(err)
	}
	n, err := d.Read(b)
	if err != nil || string(b[:n]) != string(all[:n]) {
		t.Errorf("the device got % x: %v", b[:n], err)
	}
}

func TestDeadline(t *testing.T) {
	d, path := device(t)
	p := open(t, path)
	until := p.HostNs() + 20*int64(time.Millisecond)
	if n, hostNs, err := p.Read(make([]byte, 10), until); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || hostNs < until {
		t.Errorf("%d bytes at %d ns, until %d ns: %v", n, hostNs, until, err)
	}
	// What is there is handed over, however late it is. A pseudo terminal hands
	// bytes on in a moment of its own.
	d.Write([]byte("x"))
	for {
		n, _, err := p.Read(make([]byte, 10), 0)
		if n == 1 && err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

func TestUnplugged(t *testing.T) {
	d, path := device(t)
	p := open(t, path)
	d.Close()
	if _, _, err := p.Read(make([]byte, 10), p.HostNs()+second); !errors.Is(err, meters.ErrUnplugged) {
		t.Errorf("read: %v", err)
	}
}

// A line that is open is refused to everybody else, with who has it.
func TestBusy(t *testing.T) {
	_, path := device(t)
	p := open(t, path)
	_, err := Open(path, 115200, meters.NewHostClock())
	if !errors.Is(err, meters.ErrBusy) || meters.Hint(err) == "" || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", os.Getpid())) {
		t.Errorf("error %v (%s)", err, meters.Hint(err))
	}
	p.Close()
	open(t, path)
}

func TestProblems(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want string
	}{
		{filepath.Join(dir, "none"), "open " + dir + "/none: file does not exist"},
		{file, "open " + file + ": Invalid serial port"},
	} {
		_, err := Open(c.path, 0, meters.NewHostClock())
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || meters.Hint(err) == "" {
			t.Errorf("%s: error %v (%s), want %s", c.path, err, meters.Hint(err), c.want)
		}
	}
	for _, c := range []struct{ err, is error }{{syscall.EACCES, fs.ErrPermission}, {syscall.ENOENT, fs.ErrNotExist}, {meters.ErrBusy, meters.ErrBusy}} {
		if err := problem("/dev/ttyACM0", c.err); !errors.Is(err, c.is) || meters.Hint(err) == "" {
			t.Errorf("%v: %v (%s)", c.err, err, meters.Hint(err))
		}
	}
}

// On this machine, too, lines are found; which ones is not known.
func TestFind(t *testing.T) {
	devices, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range devices {
		if at.Transport != meters.Serial || !strings.HasPrefix(at.Path, "/dev/") {
			t.Errorf("%+v", at)
		}
	}
}
