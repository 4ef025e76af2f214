//go:build unix

package serial

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/joulemark/joulemark/meters"
)

const permissionHint = "join the group that the line belongs to (ls -l shows it; dialout on Debian): sudo usermod -aG dialout $USER, then log out and in"

// lockFile opens a line and locks it. The lock ends when the file is closed.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		if err == unix.EBUSY {
			err = meters.ErrBusy
		}
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			err = meters.ErrBusy
		}
		return nil, err
	}
	return f, nil
}

// isGone reports whether an error of a read means that the device is unplugged.
func isGone(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EBADF)
}

// access reports why a line cannot be opened for its permissions.
func access(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) }

// Holder names the program that has a file open, as far as /proc shows it to
// us; "" where it does not.
func Holder(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == real {
			process := filepath.Dir(filepath.Dir(link))
			name, _ := os.ReadFile(filepath.Join(process, "comm"))
			return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
		}
	}
	return ""
}
