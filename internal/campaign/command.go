// Package campaign makes a target do operations in windows, while a recorder
// takes down what a meter sees.
package campaign

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// Command is something to measure on a machine with an operating system.
type Command struct {
	Alg, Op string   // what it is called in results
	Argv    []string // program and arguments; no shell sees them
	// Prepare and Conclude are run before and after each window of it, outside
	// all that is measured; nil for none.
	Prepare, Conclude []string
}

// Commands is a plan for measuring commands, each window with quiet zones
// around it.
type Commands struct {
	List    []Command
	Windows int // of each command
	Warmup  int // runs of each command before all windows; 1 at least
	// Batch is how often a command is run in a window; 0 chooses it so that a
	// window is WindowSeconds long.
	Batch         int64
	WindowSeconds float64
	// Quiet zones: PreSeconds and a random share of PhaseSeconds before a
	// window, PostSeconds after it. LeadSeconds of idle come before the first
	// window and after the last one.
	PreSeconds, PhaseSeconds, PostSeconds, LeadSeconds float64
	Seed                                               uint64 // of order and phases
	IgnoreFailure                                      bool   // counts a run that fails as one that did not
	// Hello describes the machine.
	Hello mark.Hello
	// Progress, if not nil, is told of each window before it begins.
	Progress func(done, all int, c Command, n int64)
}

// Machine is where commands are run. It has a clock of its own, whose ticks
// are ns.
type Machine interface {
	HostNs() int64
	Wait(ctx context.Context, untilNs int64) error
	// Clock reads the machine's clock. The host had the reading at hostNs, or
	// later than it was taken.
	Clock(ctx context.Context) (ticks, hostNs int64, err error)
	// Run runs a program n times, one after the other. A run that fails is an
	// error, unless failures are to be ignored.
	Run(ctx context.Context, argv []string, n int64, ignore bool) (Batch, error)
}

// Batch is consecutive runs of one command.
type Batch struct {
	From, To int64           // ticks
	Took     []time.Duration // each run; nil where that is not known
}

// Source is the name of the mark source of statements that this package makes.
const Source = "exec"

// maxBatch bounds what is kept of a window.
const maxBatch = 1_000_000

// Run carries out the plan. Each statement is handed to emit as a line from
// the target. The windows are in random order, so that drift of the machine
// meets all commands alike.
func (p Commands) Run(ctx context.Context, m Machine, emit func(run.Line) error) error {
	c := &commands{Commands: p, m: m, say: speaker{source: Source, emit: emit}, draws: rand.New(rand.NewPCG(p.Seed, 1))}
	return c.run(ctx)
}

type commands struct {
	Commands
	m     Machine
	say   speaker
	draws *rand.Rand
}

func (c *commands) run(ctx context.Context) error {
	batches := make([]int64, len(c.List))
	for i, cmd := range c.List {
		n, err := c.warm(ctx, cmd)
		if err != nil {
			return err
		}
		batches[i] = n
	}
	if err := c.say.hello(c.Hello, c.m.HostNs()); err != nil {
		return err
	}
	if err := c.pause(ctx, c.LeadSeconds); err != nil {
		return err
	}
	order := c.order()
	for w, i := range order {
		if c.Progress != nil {
			c.Progress(w, len(order), c.List[i], batches[i])
		}
		if err := c.window(ctx, int64(w+1), c.List[i], batches[i]); err != nil {
			return err
		}
	}
	return c.pause(ctx, c.LeadSeconds)
}

// order is each command once a round, in a random order within the round.
func (c *commands) order() []int {
	var all []int
	for range c.Windows {
		all = append(all, c.draws.Perm(len(c.List))...)
	}
	return all
}

// warm runs a command as often as warming up wants, and says how often it is to
// be run in a window.
func (c *commands) warm(ctx context.Context, cmd Command) (int64, error) {
	took := 0.0
	for range max(c.Warmup, 1) {
		if err := c.aside(ctx, cmd, cmd.Prepare); err != nil {
			return 0, err
		}
		b, err := c.runs(ctx, cmd, 1)
		if err != nil {
			return 0, err
		}
		if err := c.aside(ctx, cmd, cmd.Conclude); err != nil {
			return 0, err
		}
		took = float64(b.To-b.From) * 1e-9 // of the last run: it is the warmest
	}
	if c.Batch > 0 {
		return c.Batch, nil
	}
	return int64(min(max(math.Ceil(c.WindowSeconds/took), 1), maxBatch)), nil
}

// runs runs a command n times.
func (c *commands) runs(ctx context.Context, cmd Command, n int64) (Batch, error) {
	b, err := c.m.Run(ctx, cmd.Argv, n, c.IgnoreFailure)
	if err == nil && b.To <= b.From {
		err = fmt.Errorf("it ends at %d, and begins at %d", b.To, b.From)
	}
	if err != nil {
		return b, fmt.Errorf("run %s: %w", cmd.Alg, err)
	}
	return b, nil
}

// aside runs a program that is not measured.
func (c *commands) aside(ctx context.Context, cmd Command, argv []string) error {
	if argv == nil {
		return nil
	}
	if _, err := c.m.Run(ctx, argv, 1, false); err != nil {
		return fmt.Errorf("prepare or conclude %s: %w", cmd.Alg, err)
	}
	return nil
}

// window makes one window and states it.
func (c *commands) window(ctx context.Context, w int64, cmd Command, n int64) error {
	if err := c.aside(ctx, cmd, cmd.Prepare); err != nil {
		return err
	}
	quiet, err := c.sync(ctx)
	if err != nil {
		return err
	}
	if err := c.pause(ctx, c.PreSeconds+c.PhaseSeconds*c.draws.Float64()); err != nil {
		return err
	}
	b, err := c.runs(ctx, cmd, n)
	if err != nil {
		return err
	}
	if err := c.pause(ctx, c.PostSeconds); err != nil {
		return err
	}
	if _, err := c.sync(ctx); err != nil { // the clocks are tied on both sides of a window
		return err
	}
	win := mark.Win{W: w, Alg: cmd.Alg, Op: cmd.Op, N: n, T0: uint64(b.From), T1: uint64(b.To), Idle: "os",
		PreUs: (b.From - quiet) / 1000, PostUs: int64(c.PostSeconds * 1e6)}
	if err := c.state(win.Statement()); err != nil {
		return err
	}
	if b.Took != nil {
		if err := c.state(latency(w, b.Took).Statement()); err != nil {
			return err
		}
	}
	return c.aside(ctx, cmd, cmd.Conclude)
}

// latency sums up single runs, in ticks.
func latency(w int64, took []time.Duration) mark.Lat {
	sorted := slices.Clone(took)
	slices.Sort(sorted)
	at := func(q float64) float64 { return float64(sorted[int(q*float64(len(sorted)-1)+0.5)]) }
	sum, squares := 0.0, 0.0
	for _, d := range sorted {
		sum += float64(d)
	}
	mean := sum / float64(len(sorted))
	for _, d := range sorted {
		squares += (float64(d) - mean) * (float64(d) - mean)
	}
	sd := 0.0
	if len(sorted) > 1 {
		sd = math.Sqrt(squares / float64(len(sorted)-1))
	}
	return mark.Lat{W: w, N: int64(len(sorted)), Min: at(0), P50: at(0.5), Mean: mean, P95: at(0.95), Max: at(1), SD: sd}
}

func (c *commands) pause(ctx context.Context, seconds float64) error {
	return c.m.Wait(ctx, c.m.HostNs()+int64(seconds*1e9))
}

// sync ties ticks to the host clock, and returns the ticks.
func (c *commands) sync(ctx context.Context) (int64, error) {
	ticks, hostNs, err := c.m.Clock(ctx)
	if err != nil {
		return 0, err
	}
	return ticks, c.say.beacon(ticks, hostNs)
}

func (c *commands) state(s mark.Statement) error { return c.say.state(s, c.m.HostNs()) }
