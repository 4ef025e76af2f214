package campaign

import (
	"context"
	"errors"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// restHost is a host in virtual time.
type restHost struct {
	meters.Host
	*fake
}

func (h restHost) HostNs() int64                                 { return h.fake.HostNs() }
func (h restHost) Wait(ctx context.Context, untilNs int64) error { return h.fake.Wait(ctx, untilNs) }

func TestRest(t *testing.T) {
	m := &fake{ns: 7e9}
	var said []mark.Statement
	var at []int64
	r := Rest{Host: restHost{fake: m}, Seconds: 3, Emit: func(l run.Line) {
		s, err := mark.Parse(l.Text)
		if err != nil || !s.Checked || l.Source != RestSource {
			t.Errorf("%+v: %v", l, err)
		}
		said, at = append(said, s), append(at, l.HostNs)
	}}
	if err := r.Pause(context.Background()); err != nil || len(said) != 0 || m.ns != 10e9 {
		t.Errorf("a pause before the machine is known states %v, ends at %d, %v", said, m.ns, err)
	}
	if err := r.Hello(mark.Hello{Target: "laptop"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Pause(context.Background()); err != nil {
			t.Fatal(err)
		}
		m.ns += 5e9 // the program
	}
	var idle []mark.Idle
	for i, s := range said {
		switch s.Kind {
		case "sync":
			if y, err := mark.ParseSync(s); err != nil || int64(y.Ticks) != at[i] {
				t.Errorf("%+v at %d, %v", y, at[i], err)
			}
		case "idle":
			x, err := mark.ParseIdle(s)
			if err != nil {
				t.Error(err)
			}
			idle = append(idle, x)
		}
	}
	want := []mark.Idle{{W: 1, T0: 10e9, T1: 13e9, Mode: "os"}, {W: 2, T0: 18e9, T1: 21e9, Mode: "os"}}
	if len(idle) != 2 || idle[0] != want[0] || idle[1] != want[1] {
		t.Errorf("stated %+v, want %+v", idle, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Pause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}
