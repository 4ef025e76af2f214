package coverage

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/sync/mark"
)

// mostOverheadBias is the limit for the relative error of the overhead. It is
// spent in a pulse that is shorter than a sample, and the product of mean
// volts and mean amps misses R var(I): 14 µJ of the scenario's 2 mJ.
const mostOverheadBias = 0.012

// overheadOutcome is what windows of two lengths gave.
type overheadOutcome struct {
	sync.Mutex
	overhead tally   // of a window
	raw      outcome // energies with the windows' overhead in them
	without  outcome // and without it
}

// Windows of two lengths tell what a window costs beside its operations; with
// that subtracted, the energies are those of the operations.
func TestOverheadCoverage(t *testing.T) {
	s, err := bench.LoadScenario("overhead")
	if err != nil {
		t.Fatal(err)
	}
	o := overheadOutcome{raw: outcome{exact: true}, without: outcome{exact: true}}
	failures := each(t, *campaigns, *firstSeed, func(seed uint64, dir string) error { return o.campaign(s, seed, dir) })
	fmt.Printf("overhead of a window  %s\nJ/op with it          %s  ratios %s\nJ/op without          %s  ratios %s\n",
		o.overhead.String(), o.raw.perOp.String(), o.raw.ratio.String(), o.without.perOp.String(), o.without.ratio.String())
	for _, f := range slices.Concat(failures, o.raw.failures, o.without.failures) {
		t.Error(f)
	}
	o.raw.judge(t, "overhead", &o.overhead, mostOverheadBias)
	o.raw.judge(t, "J/op with the overhead", &o.raw.perOp, mostBias)
	o.raw.judge(t, "ratios with the overhead", &o.raw.ratio, mostBias)
	o.without.judge(t, "J/op without the overhead", &o.without.perOp, mostBias)
	o.without.judge(t, "ratios without the overhead", &o.without.ratio, mostBias)
}

func (o *overheadOutcome) campaign(s bench.Scenario, seed uint64, dir string) error {
	truth, line, err := record(s, seed, dir)
	if err != nil {
		return err
	}
	raw, err := analysis.Analyze(line, analysis.Options{})
	if err != nil {
		return err
	}
	without, err := analysis.Analyze(line, analysis.Options{SubtractOverhead: true})
	if err != nil {
		return err
	}
	o.Lock()
	defer o.Unlock()
	c := raw.Operations[0].Overhead
	o.overhead.add(c.Lo95Repeat, c.Hi95Repeat, c.Value, truth.OverheadJoules, truth.OverheadJoules)
	ops := trueOps(truth, raw)
	windows := map[mark.Op]float64{}
	for _, op := range raw.Operations {
		windows[mark.Op{Alg: op.Alg, Op: op.Op}] = float64(op.Windows)
	}
	for k, op := range ops {
		op.population += truth.OverheadJoules * windows[k] / op.count
	}
	o.raw.count(raw, ops)
	for k, op := range ops {
		op.population -= truth.OverheadJoules * windows[k] / op.count
		op.joules -= truth.OverheadJoules * windows[k]
	}
	o.without.count(without, ops)
	return nil
}
