package coverage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// Known loads, and how well they are known: a good multimeter and a bench
// supply (assumed).
var (
	knownVolts = []float64{3, 5, 9}                              // V
	knownAmps  = []float64{0, 0.02, 0.1, 0.5}                    // A
	voltsLimit = meters.Limit{Gain: 0.0002, Offset: 100e-6}      // V
	ampsLimit  = meters.Limit{Gain: 0.0005, Offset: 10e-6}       // A
	readNoise  = map[string]float64{"volts": 8e-6, "amps": 4e-6} // of a mean reading
)

// calibration measures known loads with the meter of a campaign, against a
// reference that is off within its limits.
func calibration(truth bench.Truth, seed uint64) (*meters.Calibration, error) {
	draws := rand.New(rand.NewPCG(seed, 99))
	fit := func(values []float64, gain, offset, noise float64, limit meters.Limit) (*meters.Correction, error) {
		refGain, refOffset := limit.Gain*(2*draws.Float64()-1), limit.Offset*(2*draws.Float64()-1)
		var ps []analysis.Point
		for _, x := range values {
			ps = append(ps, analysis.Point{Reading: (1+gain)*x + offset + noise*draws.NormFloat64(), UReading: noise, Value: (1+refGain)*x + refOffset, Limit: limit})
		}
		c, err := analysis.Fit(ps)
		return &c, err
	}
	v, err := fit(knownVolts, truth.VoltsGain, truth.VoltsOffset, readNoise["volts"], voltsLimit)
	if err != nil {
		return nil, err
	}
	a, err := fit(knownAmps, truth.AmpsGain, truth.AmpsOffset, readNoise["amps"], ampsLimit)
	return &meters.Calibration{Name: "bench", Reference: "drawn", Volts: v, Amps: a}, err
}

// TestCoverageCalibrated asks whether the total interval holds the truth once a
// meter was corrected by known loads, and whether that makes it narrower.
func TestCoverageCalibrated(t *testing.T) {
	if *only != "" && *only != "calibrated" {
		t.Skip("another scenario is asked for")
	}
	s, err := bench.LoadScenario("calibrated")
	if err != nil {
		t.Fatal(err)
	}
	o, raw := &outcome{}, &outcome{}
	o.failures = each(t, *campaigns, *firstSeed, func(seed uint64, dir string) error {
		truth, err := bench.Play(s, seed, dir)
		if err != nil {
			return err
		}
		cal, err := calibration(truth, seed)
		if err != nil {
			return err
		}
		r, err := run.Open(dir)
		if err != nil {
			return err
		}
		for _, x := range []struct {
			o  *outcome
			by align.Options
		}{{o, align.Options{Calibration: cal}}, {raw, align.Options{}}} {
			line, err := align.AlignBy(r, r.Streams[0].Stream, x.by)
			if err != nil {
				return err
			}
			res, err := analysis.Analyze(line, analysis.Options{})
			if err != nil {
				return err
			}
			x.o.Lock()
			x.o.count(res, trueOps(truth, res))
			x.o.Unlock()
		}
		return nil
	})
	for _, f := range o.failures {
		t.Error(f)
	}
	fmt.Printf("%-11s %5d    total  %s %s   uncorrected: half %.3f %%\n", "calibrated", *campaigns, o.perOp.String(), o.ratio.String(), 100*median(raw.perOp.halves))
	o.judge(t, "J/op", &o.perOp, mostBias)
	// The meter's part cancels in ratios: what is left is repeatability.
	(&outcome{exact: true}).judge(t, "ratios", &o.ratio, mostBias)
	if after, before := median(o.perOp.halves), median(raw.perOp.halves); !(after < before/3) {
		t.Errorf("the calibration leaves a half width of %.3f %% of %.3f %%", 100*after, 100*before)
	}
}
