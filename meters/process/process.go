// Package process reads the output of a program as if it were a port. The
// program is a child of ours and dies with the port.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/joulemark/joulemark/meters"
)

const (
	// keptMessages bytes of what the program says to people are kept, the last.
	keptMessages = 4096
	// patience is how long a program may take to end when it is asked to.
	patience = 500 * time.Millisecond
	// leastWait is how long a read waits at least: what is in a pipe is not
	// handed over after a deadline.
	leastWait = 100 * time.Microsecond
	// pipeBytes is how much the program may write ahead, where the system lets
	// us say so; 64 kB are usual.
	pipeBytes = 1 << 20
)

// Split splits a command into words as a shell does. It is not one: nothing is
// expanded, and what only a shell could do is refused.
func Split(command string) ([]string, error) {
	p := shellwords.NewParser()
	words, err := p.Parse(command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("split %q: %w", command, err)
	case p.Position >= 0:
		return nil, &meters.Problem{Err: fmt.Errorf("split %q: what stands after %q is for a shell, and none reads it", command, strings.Join(words, " ")),
			Hint: `put it in quotes, or call a shell: sh -c "..."`}
	case len(words) == 0:
		return nil, fmt.Errorf("split %q: it holds no word", command)
	}
	return words, nil
}

// Port is the output of a running program, and its input where it was started
// by Talk.
type Port struct {
	name  string
	cmd   *exec.Cmd
	out   *os.File
	to    *os.File // its input; nil where it has none
	clock meters.HostClock

	closed   bool
	messages tail
	waited   error         // what Wait said
	ended    chan struct{} // the program has, and was waited for
}

var _ meters.Port = (*Port)(nil)

// Open starts a command, split as a shell splits words. It runs in a process
// group of its own, without input, so that Ctrl-C is ours to handle.
func Open(command string, clock meters.HostClock) (*Port, error) {
	words, err := Split(command)
	if err != nil {
		return nil, err
	}
	return start(words, how{}, clock)
}

// Both starts a program as Open does, and reads its error output as well, as it
// comes.
func Both(argv []string, clock meters.HostClock) (*Port, error) {
	return start(argv, how{both: true}, clock)
}

// Talk starts a program as Open does, and writes to its input.
func Talk(argv []string, clock meters.HostClock) (*Port, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p, err := start(argv, how{stdin: theirs, to: ours}, clock)
	theirs.Close()
	if err != nil {
		ours.Close()
	}
	return p, err
}

// how a program is started.
type how struct {
	stdin, to *os.File // both ends of its input; nil where it has none
	both      bool     // its error output goes where its output does
}

func start(argv []string, h how, clock meters.HostClock) (*Port, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p := &Port{name: argv[0], cmd: exec.Command(argv[0], argv[1:]...), out: out, to: h.to, clock: clock, ended: make(chan struct{})}
	if h.stdin != nil {
		p.cmd.Stdin = h.stdin
	}
	p.cmd.Stdout, p.cmd.Stderr = in, &p.messages
	if h.both {
		p.cmd.Stderr = in
	}
	p.cmd.WaitDelay = patience // for its children that keep stderr open
	ownGroup(p.cmd)
	grow(out, pipeBytes)
	err = p.cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		return nil, problem(argv[0], err)
	}
	go func() {
		p.waited = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// problem says what would help against an error of starting a program.
func problem(name string, err error) error {
	err = fmt.Errorf("start %s: %w", name, pathless(err))
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		return &meters.Problem{Err: err, Hint: "give its path, such as ./" + name + ", or add its folder to PATH"}
	case errors.Is(err, os.ErrPermission):
		return &meters.Problem{Err: err, Hint: "make it executable: chmod +x " + name}
	}
	return err
}

// pathless takes off the name that problem says itself.
func pathless(err error) error {
	var e *exec.Error
	var p *os.PathError
	switch {
	case errors.As(err, &e):
		return e.Err
	case errors.As(err, &p):
		return p.Err
	}
	return err
}

// HostNs reads the host clock.
func (p *Port) HostNs() int64 { return p.clock() }

// Read hands over what the program has written. At its end the error is io.EOF
// where the program ended in order, and what it said last where it did not.
func (p *Port) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	wait := max(leastWait, time.Duration(untilNs-p.clock()))
	if err := p.out.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return 0, p.clock(), fmt.Errorf("read %s: %w", p.name, err)
	}
	n, err = p.out.Read(b)
	hostNs = p.clock()
	switch {
	case n > 0:
		return n, hostNs, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, hostNs, os.ErrDeadlineExceeded
	case err == io.EOF:
		return 0, hostNs, p.end()
	}
	return 0, hostNs, fmt.Errorf("read %s: %w", p.name, err)
}

// end says how the program ended, now that it has closed its output.
func (p *Port) end() error {
	select {
	case <-p.ended:
	case <-time.After(patience):
		return io.EOF // it goes on without an output
	}
	if p.waited == nil {
		return io.EOF
	}
	if said := p.Messages(); said != "" {
		return fmt.Errorf("%s ended: %w: %q", p.name, p.waited, said)
	}
	return fmt.Errorf("%s ended: %w", p.name, p.waited)
}

// Messages is the last of what the program said on its stderr.
func (p *Port) Messages() string { return p.messages.String() }

// Write writes to the program's input, within a second. It fails where the
// program has none.
func (p *Port) Write(b []byte) error {
	if p.to == nil {
		return errors.ErrUnsupported
	}
	err := p.to.SetWriteDeadline(time.Now().Add(time.Second))
	if err == nil {
		_, err = p.to.Write(b)
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", p.name, err)
	}
	return nil
}

// Close asks the program and its children to end, makes them, and waits for
// the program. A second call does nothing.
func (p *Port) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	if p.to != nil {
		p.to.Close()
	}
	p.out.Close()
	signal(p.cmd, false)
	select {
	case <-p.ended:
	case <-time.After(patience):
	}
	signal(p.cmd, true)
	<-p.ended
	return nil
}

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[max(0, len(b)-keptMessages):]...)
	if n := len(t.kept) - keptMessages; n > 0 {
		t.kept = t.kept[:copy(t.kept, t.kept[n:])]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(bytes.TrimSpace(t.kept), []byte("?")))
}
