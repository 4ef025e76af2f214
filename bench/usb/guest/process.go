//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a program that runs.
type process struct {
	command *exec.Cmd
	log     string // what it says
	ended   chan struct{}
}

// start starts a program as a user; its output goes to a file.
func start(log string, uid uint32, program string, args ...string) (*process, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &process{command: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = f, f
	p.command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	p.command.Env = []string{"HOME=/tmp", "PATH=/bin"}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// running reports whether the program has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(s os.Signal) { p.command.Process.Signal(s) }

// end waits for the program and holds its exit code against the right one.
func (p *process) end(limit time.Duration, code int) error {
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %v: %s", p.command.Args, limit, p.said())
	}
	if got := p.command.ProcessState.ExitCode(); got != code {
		return fmt.Errorf("%s: exit code %d, want %d: %s", p.command.Args, got, code, p.said())
	}
	return nil
}

// kill ends the program at once.
func (p *process) kill() {
	p.command.Process.Kill()
	<-p.ended
}

// said is what the program has said so far.
func (p *process) said() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// says holds what the program said against what it should have.
func (p *process) says(words ...string) error {
	said := p.said()
	for _, w := range words {
		if !strings.Contains(said, w) {
			return fmt.Errorf("it does not say %q: %s", w, said)
		}
	}
	return nil
}

// await waits until something is true, and fails if it takes too long or the
// program ends before.
func (p *process) await(what string, is func() bool) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if is() {
			return nil
		}
		if !p.running() {
			return fmt.Errorf("it ended before %s: %s", what, p.said())
		}
	}
	return errors.New(what + " took too long: " + p.said())
}
