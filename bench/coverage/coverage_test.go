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
	"github.com/joulemark/joulemark/sync/mark"
)

var (
	campaigns = flag.Int("campaigns", 2, "campaigns a stratum; the limits hold from 200 on")
	firstSeed = flag.Uint64("seed", 1, "first seed")
	only      = flag.String("scenario", "", "only this scenario")
)

// strata are the scenarios in which the limits must hold.
var strata = []string{
	// Plain: jitter, drift, constant delay, correlated noise, drift of the idle
	// level, 5 to 14 windows.
	"default", "jitter", "drift", "delay", "noise", "idle-drift", "few", "many",
	// What cheap meters and noisy targets do.
	"amd64", "wander", "ramp", "boxcar30", "smoothing", "boxcar120", "hold25", "repeat25", "point", "bursts", "beacons", "lownet",
	"three", "twenty", "longop", "rejection", "fewops", "loss", "loss1", "stalls", "tails", "lines", "lines12",
	"inband", "wrap32", "reset", "jump", "long", "gain", "cheap",
}

// Limits of what must be true.
const (
	leastCoverage, mostCoverage = 0.93, 0.97 // repeatability, with an exact meter
	leastTotal, mostTotal       = 0.94, 0.99 // total, with gain and offset drawn from the meter's limits
	mostBias                    = 1e-3       // mean relative error against what really ran
	mostOracle                  = 1.3        // median half width against an oracle that knows the edges
	mostOffset                  = 1e-3       // s, rms error of the offset
	// decisive is the number of campaigns from which these limits are held
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
func (t *tally) add(lo, hi, value analysis.Num, truth, drawn float64) (held bool) {
	e := float64(value)/drawn - 1
	t.bias += e
	t.squares += e * e
	if !lo.Stated() {
		t.missing++
		return true
	}
	t.stated++
	t.halves = append(t.halves, float64(hi-lo)/2/truth)
	held = float64(lo) <= truth && truth <= float64(hi)
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
	return math.Sqrt(math.Max(0, t.squares/n-t.mean()*t.mean()) / n)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}

func rms(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return math.Sqrt(s / float64(len(v)))
}

// outcome is what one stratum gave.
type outcome struct {
	sync.Mutex
	exact        bool // the meter has no error: repeatability is judged, else total
	perOp, ratio tally
	refused      int       // operations whose claim a warning voids
	why          string    // one of those warnings
	offset       []float64 // errors of the offset, s
	oracle       []float64 // half widths against the oracle's
	failures     []string
	missed       []uint64 // seeds with an operation outside its interval
}

// operation is the truth of one operation, J.
type operation struct {
	population    float64 // mean energy
	joules, count float64 // of the windows that ran
}

func (o *operation) drawn() float64 { return o.joules / o.count }

// bounds returns the interval that is judged.
func (o *outcome) bounds(q analysis.Quantity) (lo, hi analysis.Num) {
	if o.exact {
		return q.Lo95Repeat, q.Hi95Repeat
	}
	return q.Lo95, q.Hi95
}

// record plays a campaign and puts its windows on the meter's time line.
func record(s bench.Scenario, seed uint64, dir string) (bench.Truth, *align.Timeline, error) {
	truth, err := bench.Play(s, seed, dir)
	if err != nil {
		return truth, nil, err
	}
	r, err := run.Open(dir)
	if err != nil {
		return truth, nil, err
	}
	line, err := align.Align(r, r.Streams[0].Stream)
	return truth, line, err
}

func (o *outcome) campaign(s bench.Scenario, seed uint64, dir string) error {
	truth, line, err := record(s, seed, dir)
	if err != nil {
		return err
	}
	res, err := analysis.Analyze(line, analysis.Options{})
	if err != nil {
		return err
	}
	o.Lock()
	defer o.Unlock()
	want := align.ByEdges
	if s.Meter.Pin != bench.NoPin {
		want = align.InBand
	}
	if res.Alignment.Method != want {
		return fmt.Errorf("aligned by %s: %v", res.Alignment.Method, res.Warnings)
	}
	if len(res.Voids) > 0 {
		o.why = res.Voids[0]
	}
	if want == align.ByEdges {
		o.offset = append(o.offset, float64(res.Alignment.Offset)-truth.OffsetSeconds)
	}
	o.oracle = append(o.oracle, newOracle(line, s, truth).relativeTo(res.Operations)...)
	if o.count(res, trueOps(truth, res)) {
		o.missed = append(o.missed, seed)
	}
	return nil
}

// trueOps returns the truth of each operation over the windows that count.
func trueOps(truth bench.Truth, res analysis.Results) map[mark.Op]*operation {
	ops := map[mark.Op]*operation{}
	for _, t := range truth.Ops {
		ops[mark.Op{Alg: t.Alg, Op: t.Op}] = &operation{population: t.JoulesPerOp}
	}
	counts := map[int64]bool{}
	for _, w := range res.Windows {
		counts[w.W] = counts[w.W] || w.Excluded == ""
	}
	for _, w := range truth.Windows {
		if counts[w.W] {
			t := ops[mark.Op{Alg: w.Alg, Op: w.Op}]
			t.joules += w.NetJoules
			t.count += float64(w.N)
		}
	}
	return ops
}

// count adds all operations and their ratios, and reports whether one lies
// outside its interval.
func (o *outcome) count(res analysis.Results, ops map[mark.Op]*operation) (missed bool) {
	for i, op := range res.Operations {
		if op.Voided {
			o.refused++
			o.why = op.Warnings[0]
			continue
		}
		t := ops[mark.Op{Alg: op.Alg, Op: op.Op}]
		lo, hi := o.bounds(op.Net)
		missed = !o.perOp.add(lo, hi, op.Net.Value, t.population, t.drawn()) || missed
		for _, other := range res.Operations[:i] {
			if other.Voided {
				continue
			}
			u := ops[mark.Op{Alg: other.Alg, Op: other.Op}]
			// Unlike operations are refused; on the bench all are comparable.
			other.Op = op.Op
			q, err := analysis.Ratio(op, other, true)
			if err != nil {
				o.failures = append(o.failures, err.Error())
				continue
			}
			lo, hi := o.bounds(q)
			o.ratio.add(lo, hi, q.Value, t.population/u.population, t.drawn()/u.drawn())
		}
	}
	return missed
}

func TestCoverage(t *testing.T) {
	names := strata
	if *only != "" {
		names = []string{*only}
	}
	fmt.Printf("%-11s %5s %8s  %-26s %-26s %9s %7s\n", "stratum", "runs", "interval", "J/op: held, bias, half", "ratios: held, bias, half", "offset", "oracle")
	for _, name := range names {
		t.Run(name, func(t *testing.T) { stratum(t, name) })
	}
}

func stratum(t *testing.T, name string) {
	s, err := bench.LoadScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	o := play(t, s, *campaigns, *firstSeed)
	kind := "total"
	if o.exact {
		kind = "repeat"
	}
	fmt.Printf("%-11s %5d %8s  %s %s %9s %7.2f", name, *campaigns, kind, o.perOp.String(), o.ratio.String(), o.offsets(), median(o.oracle))
	if o.refused > 0 {
		fmt.Printf("  refused %d: %s", o.refused, o.why)
	}
	fmt.Println()
	for _, f := range o.failures {
		t.Error(f)
	}
	if o.perOp.stated == 0 && o.refused > 0 {
		return // refused as a whole, and said so
	}
	o.judge(t, "J/op", &o.perOp, mostBias)
	if o.ratio.stated+o.ratio.missing > 0 {
		o.judge(t, "ratios", &o.ratio, mostBias)
	}
	if v := median(o.oracle); *campaigns >= decisive && !(v <= mostOracle) {
		t.Errorf("the median half width is %.2f times the oracle's, more than %.1f", v, mostOracle)
	}
	if v := rms(o.offset); len(o.offset) > 0 && *campaigns >= decisive && !(v <= mostOffset) {
		t.Errorf("the offset is off by %.2f ms rms, more than %.0f ms", 1e3*v, 1e3*mostOffset)
	}
	if t.Failed() {
		t.Logf("seeds with an operation outside: %v; one of them again: joulemark demo --scenario %s --seed N -o SET", o.missed[:min(len(o.missed), 20)], name)
	}
}

// offsets is the rms error of the offset; a pin needs none.
func (o *outcome) offsets() string {
	if len(o.offset) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f ms", 1e3*rms(o.offset))
}

func (t *tally) String() string {
	return fmt.Sprintf("%6.2f %% %+.3f %% %6.3f %%", 100*t.coverage(), 100*t.mean(), 100*median(t.halves))
}

// play runs the campaigns of a stratum.
func play(t *testing.T, s bench.Scenario, n int, first uint64) *outcome {
	t.Helper()
	o := &outcome{exact: s.Meter.Accuracy == "exact"}
	o.failures = append(each(t, n, first, func(seed uint64, dir string) error { return o.campaign(s, seed, dir) }), o.failures...)
	return o
}

// each runs campaigns on two cores, in a folder each, and returns what failed.
func each(t *testing.T, n int, first uint64, campaign func(seed uint64, dir string) error) (failures []string) {
	t.Helper()
	dir := t.TempDir()
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	var lock sync.Mutex
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for seed := range seeds {
				if err := campaign(seed, filepath.Join(dir, fmt.Sprint(seed))); err != nil {
					lock.Lock()
					failures = append(failures, fmt.Sprintf("seed %d: %v", seed, err))
					lock.Unlock()
				}
			}
		}()
	}
	for i := range uint64(n) {
		seeds <- first + i
	}
	close(seeds)
	wg.Wait()
	return failures
}

// judge holds the limits against a tally; with few campaigns, limits that a
// right program misses once in a million times.
func (o *outcome) judge(t *testing.T, what string, c *tally, bias float64) {
	t.Helper()
	if c.stated == 0 {
		t.Errorf("%s: no interval was stated", what)
		return
	}
	lo, hi := leastCoverage, mostCoverage
	if !o.exact {
		lo, hi = leastTotal, mostTotal
		bias = math.Inf(1) // the meter's own error is drawn with the campaign
	}
	if n := float64(c.stated); *campaigns < decisive {
		lo, hi = 0.95-5*math.Sqrt(0.95*0.05/n)-0.1, 1
		bias += 5 * c.uMean()
	}
	if v := c.coverage(); v < lo || v > hi {
		t.Errorf("%s: %.2f %% of %d intervals hold the truth, not %.0f to %.0f %%", what, 100*v, c.stated, 100*lo, 100*hi)
	}
	if v := c.mean(); math.Abs(v) > bias {
		t.Errorf("%s: bias %.3f %%, more than %.3f %%", what, 100*v, 100*bias)
	}
}
