//go:build !unix

package process

import "os/exec"

func ownGroup(*exec.Cmd) {}

// signal makes a program end; it cannot be asked here, and its children are
// left alone.
func signal(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }
