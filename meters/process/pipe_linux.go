package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// grow makes a pipe hold more, if the system allows it.
func grow(pipe *os.File, bytes int) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bytes) })
	}
}
