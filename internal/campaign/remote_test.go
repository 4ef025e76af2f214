package campaign

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
	"github.com/joulemark/joulemark/meters/process"
)

// shell is a Remote behind a shell of this machine.
func shell(t *testing.T) *Remote {
	t.Helper()
	if out, err := exec.Command("date", "+%N").Output(); err != nil || len(out) != 10 {
		t.Skip("no GNU date here")
	}
	clock := meters.NewHostClock()
	p, err := process.Talk([]string{"sh"}, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return NewRemote(meters.NewHost(clock), p)
}

func TestRemote(t *testing.T) {
	r := shell(t)
	ctx := context.Background()
	before := time.Now().UnixNano()
	ticks, hostNs, err := r.Clock(ctx)
	if after := time.Now().UnixNano(); err != nil || ticks < before || ticks > after || hostNs > r.HostNs() {
		t.Errorf("the clock says %d at %d, between %d and %d, %v", ticks, hostNs, before, after, err)
	}
	marker := t.TempDir() + "/it's $HOME; \"x\"\\n"
	b, err := r.Run(ctx, []string{"sh", "-c", `echo noise; echo noise >&2; echo x >>"$1"`, "sh", marker}, 3, false)
	if err != nil || b.To <= b.From || b.From < before || b.To > time.Now().UnixNano() || b.Took != nil {
		t.Errorf("batch %+v, %v", b, err)
	}
	if text, err := os.ReadFile(marker); err != nil || string(text) != "x\nx\nx\n" {
		t.Errorf("ran for %q, %v", text, err)
	}
	_, err = r.Run(ctx, []string{"sh", "-c", "exit 7"}, 3, false)
	if err == nil || !strings.Contains(err.Error(), "exit status 7 on the other machine") || meters.Hint(err) == "" {
		t.Errorf("a failure: %v", err)
	}
	if _, err := r.Run(ctx, []string{"false"}, 2, true); err != nil {
		t.Errorf("failures ignored: %v", err)
	}
	// A program that reads its input does not swallow the next commands.
	if _, err := r.Run(ctx, []string{"cat"}, 2, false); err != nil {
		t.Error(err)
	}
	if _, _, err := r.Clock(ctx); err != nil {
		t.Error(err)
	}
}

func TestRemoteEnds(t *testing.T) {
	r := shell(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := r.Run(ctx, []string{"sleep", "20"}, 1, false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// What the other machine says instead of an answer.
func TestRemoteRefuses(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"Welcome!\nLast login: never\n", "no answer from the other machine"},
		{answer + "17645N\n", `the remote clock says "17645N", not ns`},
		{answer + "1764500000000000000 7\n", "the other machine answers"},
		{strings.Repeat("x", 3*mostLine), "sends a line of more than 4096 bytes"},
		{answer + "5\n", `the remote clock says "5", not ns`},
	} {
		port := &meterstest.Port{}
		for i := 0; i < len(c.says); i += 1000 {
			port.Frames = append(port.Frames, meterstest.Frame{HostNs: int64(i), Bytes: []byte(c.says[i:min(i+1000, len(c.says))])})
		}
		_, _, err := NewRemote(ported{port: port}, port).Clock(context.Background())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30q: %v, want %s", c.says, err, c.want)
		}
	}
	gone := &meterstest.Port{Closed: 1}
	if _, _, err := NewRemote(ported{port: gone}, gone).Clock(context.Background()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a shell that is gone: %v", err)
	}
}

// ported is a host whose clock is that of a port.
type ported struct {
	meters.Host
	port *meterstest.Port
}

func (p ported) HostNs() int64 { return p.port.HostNs() }
