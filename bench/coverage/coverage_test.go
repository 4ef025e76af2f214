// Package coverage asks whether the intervals hold the truth as often as they
// say: seeded campaigns on the virtual bench, analyzed as real runs are.
package coverage

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

var (
	campaigns = flag.Int("campaigns", 3, "campaigns a scenario; limits on coverage hold from 200 on")
	firstSeed = flag.Uint64("seed", 1, "first seed")
	only      = flag.String("scenario", "", "only this scenario")
)

// plain scenarios: jitter, drift, constant delay, correlated noise, drift of
// the idle level, 5 to 14 windows.
var plain = []string{"default", "jitter", "drift", "delay", "noise", "idle-drift", "few", "many"}

// Limits of what must be true (share of intervals that hold the truth, and
// mean relative error against what really ran).
const (
	leastCoverage, mostCoverage = 0.93, 0.97
	mostBias                    = 1e-3
	// decisive is the number of campaigns from which the limits are held
	// against the result; below, only what is impossible by chance is.
	decisive = 200
)

// tally counts intervals of one kind.
type tally struct {
	held, stated, missing int
	bias                  float64   // sum of relative errors
	squares               float64   // of relative errors
	halves                []float64 // relative half widths
}

// add counts one interval. truth is the mean of the population, which the
// interval must hold; drawn is the mean of the operations that really ran,
// against which bias is told from the luck of the draw.
func (t *tally) add(q analysis.Quantity, truth, drawn float64) (held bool) {
	e := float64(q.Value)/drawn - 1
	t.bias += e
	t.squares += e * e
	if !q.Lo95Repeat.Stated() {
		t.missing++
		return true
	}
	t.stated++
	t.halves = append(t.halves, float64(q.Hi95Repeat-q.Lo95Repeat)/2/truth)
	held = float64(q.Lo95Repeat) <= truth && truth <= float64(q.Hi95Repeat)
	if held {
		t.held++
	}
	return held
}

func (t *tally) coverage() float64 { return float64(t.held) / float64(t.stated) }
func (t *tally) mean() float64     { return t.bias / float64(t.stated+t.missing) }

// uMean is the standard error of the mean relative error.
func (t *tally) uMean() float64 {
	n := float64(t.stated + t.missing)
	return math.Sqrt(t.squares/n-t.mean()*t.mean()) / math.Sqrt(n)
}

func (t *tally) medianHalf() float64 {
	slices.Sort(t.halves)
	if len(t.halves) == 0 {
		return math.NaN()
	}
	return t.halves[len(t.halves)/2]
}

// outcome is what one scenario gave.
type outcome struct {
	sync.Mutex
	perOp, ratio tally
	offset       []float64 // errors of the offset, s
	failures     []string
	missed       []uint64 // seeds with an operation outside its interval
}

// operation is the truth of one operation, J.
type operation struct {
	population    float64 // mean energy
	joules, count float64 // of the windows that ran
}

func (o *operation) drawn() float64 { return o.joules / o.count }

func (o *outcome) campaign(s bench.Scenario, seed uint64, dir string) error {
	truth, err := bench.Play(s, seed, dir)
	if err != nil {
		return err
	}
	r, err := run.Open(dir)
	if err != nil {
		return err
	}
	line, err := align.Align(r, r.Streams[0].Stream)
	if err != nil {
		return err
	}
	res, err := analysis.Analyze(line, analysis.Options{})
	if err != nil {
		return err
	}
	trueOps := map[[2]string]*operation{}
	for _, t := range truth.Ops {
		trueOps[[2]string{t.Alg, t.Op}] = &operation{population: t.JoulesPerOp}
	}
	for _, w := range truth.Windows {
		t := trueOps[[2]string{w.Alg, w.Op}]
		t.joules += w.NetJoules
		t.count += float64(w.N)
	}
	o.Lock()
	defer o.Unlock()
	if len(res.Operations) != len(truth.Ops) {
		return fmt.Errorf("%d operations of %d", len(res.Operations), len(truth.Ops))
	}
	if res.Alignment.Method != align.ByEdges {
		return fmt.Errorf("aligned by %s: %v", res.Alignment.Method, res.Warnings)
	}
	o.offset = append(o.offset, float64(res.Alignment.Offset)-truth.OffsetSeconds)
	missed := false
	for i, op := range res.Operations {
		t := trueOps[[2]string{op.Alg, op.Op}]
		missed = !o.perOp.add(op.Net, t.population, t.drawn()) || missed
		for _, other := range res.Operations[:i] {
			// Ratios of unlike operations are refused; on the bench all are comparable.
			u := trueOps[[2]string{other.Alg, other.Op}]
			other.Op = op.Op
			q, err := analysis.Ratio(op, other, true)
			if err != nil {
				return err
			}
			o.ratio.add(q, t.population/u.population, t.drawn()/u.drawn())
		}
	}
	if missed {
		o.missed = append(o.missed, seed)
	}
	return nil
}

func rms(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return math.Sqrt(s / float64(len(v)))
}

func TestCoverage(t *testing.T) {
	names := plain
	if *only != "" {
		names = []string{*only}
	}
	fmt.Printf("%-12s %9s  %-28s %-28s %10s\n", "scenario", "campaigns", "J/op: held, bias, half width", "ratios: held, bias, half", "offset rms")
	for _, name := range names {
		s, err := bench.LoadScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		o := play(t, s, *campaigns, *firstSeed)
		fmt.Printf("%-12s %9d  %6.2f %% %+.3f %% %.3f %%     %6.2f %% %+.3f %% %.3f %%     %7.3f ms\n", name, *campaigns,
			100*o.perOp.coverage(), 100*o.perOp.mean(), 100*o.perOp.medianHalf(),
			100*o.ratio.coverage(), 100*o.ratio.mean(), 100*o.ratio.medianHalf(), 1e3*rms(o.offset))
		for _, f := range o.failures {
			t.Errorf("%s: %s", name, f)
		}
		judge(t, name, "J/op", &o.perOp)
		judge(t, name, "ratios", &o.ratio)
		if t.Failed() {
			t.Logf("%s: seeds with an operation outside: %v; one of them again: joulemark demo --scenario %s --seed N -o SET", name, o.missed[:min(len(o.missed), 20)], name)
		}
	}
}

// play runs campaigns on two cores.
func play(t *testing.T, s bench.Scenario, n int, first uint64) *outcome {
	t.Helper()
	o := &outcome{}
	dir := t.TempDir()
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for seed := range seeds {
				if err := o.campaign(s, seed, filepath.Join(dir, fmt.Sprint(seed))); err != nil {
					o.Lock()
					o.failures = append(o.failures, fmt.Sprintf("seed %d: %v", seed, err))
					o.Unlock()
				}
			}
		}()
	}
	for i := range uint64(n) {
		seeds <- first + i
	}
	close(seeds)
	wg.Wait()
	return o
}

// judge holds the limits against a tally; with few campaigns, limits that a
// right program misses once in a million times.
func judge(t *testing.T, name, what string, c *tally) {
	t.Helper()
	if c.stated == 0 {
		t.Errorf("%s: %s: no interval was stated", name, what)
		return
	}
	lo, hi, bias := leastCoverage, mostCoverage, mostBias
	if n := float64(c.stated); *campaigns < decisive {
		lo, hi = 0.95-5*math.Sqrt(0.95*0.05/n)-0.05, 1
		bias = mostBias + 5*c.uMean()
	}
	if v := c.coverage(); v < lo || v > hi {
		t.Errorf("%s: %s: %.2f %% of %d intervals hold the truth, not %.0f to %.0f %%", name, what, 100*v, c.stated, 100*lo, 100*hi)
	}
	if v := c.mean(); math.Abs(v) > bias {
		t.Errorf("%s: %s: bias %.3f %%, more than %.3f %%", name, what, 100*v, 100*bias)
	}
}
