//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a program that is about to start into a process group of its
// own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signal asks a program and its children to end, or makes them. The group may
// be gone, which is what was wanted.
func signal(cmd *exec.Cmd, kill bool) {
	s := syscall.SIGTERM
	if kill {
		s = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, s)
}
