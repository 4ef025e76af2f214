package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// fake is a machine in virtual time, on which a program takes as long as its
// last argument says.
type fake struct {
	ns   int64
	did  []string // what happened: programs, pauses of a second and more
	fail string   // program that fails
}

func (f *fake) HostNs() int64 { return f.ns }

func (f *fake) Wait(ctx context.Context, untilNs int64) error {
	f.ns = max(f.ns, untilNs)
	return ctx.Err()
}

func (f *fake) Clock(context.Context) (ticks, hostNs int64, err error) { return f.ns, f.ns, nil }

func (f *fake) Run(ctx context.Context, argv []string, n int64, _ bool) (Batch, error) {
	f.did = append(f.did, fmt.Sprintf("%s x%d", argv[0], n))
	took, err := time.ParseDuration(argv[len(argv)-1])
	if err != nil {
		took = time.Millisecond
	}
	b := Batch{From: f.ns}
	for range n {
		f.ns += int64(took)
		b.Took = append(b.Took, took)
	}
	b.To = f.ns
	if argv[0] == f.fail {
		return b, errors.New("exit status 1")
	}
	return b, ctx.Err()
}

func plan() Commands {
	return Commands{Windows: 3, Warmup: 2, WindowSeconds: 2, PreSeconds: 0.5, PhaseSeconds: 0.08, PostSeconds: 0.3, LeadSeconds: 3, Seed: 7,
		Hello: mark.Hello{Target: "laptop"},
		List: []Command{
			{Alg: "slow", Op: "run", Argv: []string{"slow", "3s"}},
			{Alg: "fast", Op: "run", Argv: []string{"fast", "150ms"}, Prepare: []string{"sync"}, Conclude: []string{"rm"}},
		}}
}

func TestCommands(t *testing.T) {
	m := &fake{}
	var wins []mark.Win
	var last run.Line
	decoder := mark.Decoder{}
	var beacons []int64 // host ns: one before the quiet zone of a window, one after its last
	err := plan().Run(context.Background(), m, func(l run.Line) error {
		s, ok := decoder.Decode(l.Text)
		if !ok || l.HostNs < last.HostNs || l.Source != Source {
			t.Errorf("line %+v after %+v", l, last)
		}
		last = l
		switch s.Kind {
		case "sync":
			y, _ := mark.ParseSync(s)
			if int64(y.Ticks) != l.HostNs {
				t.Errorf("a beacon of %d arrives at %d", y.Ticks, l.HostNs)
			}
			beacons = append(beacons, l.HostNs)
		case "win":
			w, err := mark.ParseWin(s)
			if err != nil {
				t.Fatal(err)
			}
			idle := beacons[len(beacons)-2]
			if after := beacons[len(beacons)-1]; after-int64(w.T1) != w.PostUs*1000 {
				t.Errorf("window %d to %d has a beacon at %d", w.W, w.T1, after)
			}
			if (int64(w.T0)-idle)/1000 != w.PreUs || w.PreUs < 500_000 || w.PreUs > 580_000 || l.HostNs-int64(w.T1) != w.PostUs*1000 || w.PostUs != 300_000 {
				t.Errorf("window %d from %d to %d: zones of %d and %d µs, quiet since %d, stated at %d", w.W, w.T0, w.T1, w.PreUs, w.PostUs, idle, l.HostNs)
			}
			wins = append(wins, w)
		case "lat":
			lat, err := mark.ParseLat(s)
			if want := map[int64]float64{1: 3e9, 14: 150e6}[lat.N]; err != nil || lat.Mean != want || lat.SD != 0 || lat.Max != want {
				t.Errorf("latency %+v, %v", lat, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(wins) != 6 {
		t.Fatalf("%d windows, want 6", len(wins))
	}
	for i := range 3 {
		if pair := []string{wins[2*i].Alg, wins[2*i+1].Alg}; pair[0] == pair[1] {
			t.Errorf("round %d holds %v", i, pair)
		}
	}
	// 14 runs of 150 ms are the first number that reaches 2 s.
	for _, w := range wins {
		if w.N != map[string]int64{"slow": 1, "fast": 14}[w.Alg] {
			t.Errorf("%s ran %d times in a window", w.Alg, w.N)
		}
	}
	if got, want := count(m.did, "sync x1"), 2+3; got != want || count(m.did, "rm x1") != want {
		t.Errorf("prepared %d times, want %d: %v", got, want, m.did)
	}
	if m.ns-last.HostNs < 3e9 {
		t.Errorf("ends %d ns after its last statement", m.ns-last.HostNs)
	}
}

func count(in []string, what string) int {
	n := 0
	for _, s := range in {
		if s == what {
			n++
		}
	}
	return n
}

func TestCommandsFail(t *testing.T) {
	for _, c := range []struct{ fail, want string }{
		{"slow", "run slow: exit status 1"},
		{"sync", "prepare or conclude fast: exit status 1"},
	} {
		lines := 0
		err := plan().Run(context.Background(), &fake{fail: c.fail}, func(run.Line) error { lines++; return nil })
		if err == nil || err.Error() != c.want || lines != 0 {
			t.Errorf("%s fails: %v after %d lines, want %s", c.fail, err, lines, c.want)
		}
	}
	full := errors.New("disk full")
	if err := plan().Run(context.Background(), &fake{}, func(run.Line) error { return full }); !errors.Is(err, full) {
		t.Errorf("error of emit: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := plan().Run(ctx, &fake{}, func(run.Line) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

func TestLocal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	l := Local{Host: meters.NewHost(meters.NewHostClock())}
	b, err := l.Run(context.Background(), []string{"true"}, 3, false)
	if err != nil || len(b.Took) != 3 || b.To <= b.From || slices.Min(b.Took) <= 0 {
		t.Errorf("three runs: %+v, %v", b, err)
	}
	if b, err = l.Run(context.Background(), []string{"false"}, 3, true); err != nil || len(b.Took) != 3 {
		t.Errorf("failures ignored: %+v, %v", b, err)
	}
	for _, c := range []struct{ argv, want string }{
		{"sh -c echo_nothing", `echo_nothing`}, // quotes what the program said
		{"no-such-program", `find no-such-program: `},
	} {
		_, err := l.Run(context.Background(), strings.Fields(c.argv), 1, false)
		if err == nil || !strings.Contains(err.Error(), c.want) || meters.Hint(err) == "" {
			t.Errorf("%s: %v, want %s and a hint", c.argv, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Run(ctx, []string{"true"}, 1, false); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if strings.HasPrefix(f.Name(), "joulemark-") {
			t.Errorf("%s is left over", f.Name())
		}
	}
}
