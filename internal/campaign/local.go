package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Local runs programs on this machine.
type Local struct {
	meters.Host
	// Output gets what they print; nil throws it away. Error output is kept for
	// the message of a failure.
	Output *os.File
}

// Clock reads the host clock: this machine is the host.
func (l Local) Clock(context.Context) (ticks, hostNs int64, err error) {
	now := l.HostNs()
	return now, now, nil
}

// lastBytes of a program's error output are quoted when it fails.
const lastBytes = 400

// Run runs a program n times. A run lasts from just before the process is
// made until it has been waited for.
func (l Local) Run(ctx context.Context, argv []string, n int64, ignore bool) (Batch, error) {
	b := Batch{Took: make([]time.Duration, 0, n)}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return b, &meters.Problem{Err: fmt.Errorf("find %s: %w", argv[0], err), Hint: "give its path, or a name that is in PATH; no shell is involved: wrap a pipeline as sh -c '...'"}
	}
	said, err := os.CreateTemp("", "joulemark-*")
	if err != nil {
		return b, fmt.Errorf("keep its error output: %w", err)
	}
	defer func() {
		said.Close()
		os.Remove(said.Name())
	}()
	b.From = l.HostNs()
	last := b.From
	for range n {
		c := exec.CommandContext(ctx, path, argv[1:]...)
		c.Stdout, c.Stderr = l.Output, said
		if l.Output == nil {
			c.Stdout = nil // a nil *os.File is no nil io.Writer
		}
		err := c.Run()
		b.To = l.HostNs()
		b.Took = append(b.Took, time.Duration(b.To-last))
		last = b.To
		if ctx.Err() != nil {
			return b, ctx.Err()
		}
		var failed *exec.ExitError
		if err != nil && !(ignore && errors.As(err, &failed)) {
			return b, &meters.Problem{Err: fmt.Errorf("%s: %w%s", strings.Join(argv, " "), err, tail(said)), Hint: "it must end with exit code 0; --ignore-failure measures it anyway"}
		}
	}
	return b, nil
}

// tail quotes the end of what a program said.
func tail(f *os.File) string {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return ""
	}
	b := make([]byte, lastBytes)
	n, err := f.ReadAt(b, max(0, info.Size()-lastBytes))
	if err != nil && err != io.EOF {
		return ""
	}
	return fmt.Sprintf(" (it said: %q)", strings.TrimSpace(string(b[:n])))
}
