package analysis_test

import (
	"math"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/benchtest"
)

// analyzed plays a scenario and analyzes its run.
func analyzed(t *testing.T, text string, seed uint64) (analysis.Results, bench.Truth) {
	t.Helper()
	s, err := bench.Parse(t.Name(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, truth := benchtest.Play(t, s, seed)
	return benchtest.Analyze(t, benchtest.Align(t, r), analysis.Options{}), truth
}

// quietMeter has no noise, and windows of one operation are alike.
const quietMeter = "meter.volts_noise = 0\nmeter.amps_noise = 0\nmeter.volts_count = 0\nmeter.amps_count = 0\nload.scatter = 0\n" +
	"plan.ops = ML-DSA-44/verify,Ed25519/sign\n"

func term(op analysis.Operation, name string) analysis.Term {
	for _, b := range op.Budget {
		if b.Name == name {
			return b
		}
	}
	return analysis.Term{}
}

// TestVoltsTimesAmps: the product of means is too high by what the budget says
// at most, and the interval holds the truth all the same.
func TestVoltsTimesAmps(t *testing.T) {
	for _, filter := range []string{"meter.filter = one-pole\nmeter.filter_seconds = 0.04\n", "meter.filter = boxcar\nmeter.filter_seconds = 0.12\n"} {
		for seed := uint64(1); seed <= 3; seed++ {
			res, truth := analyzed(t, quietMeter+filter+"supply.ohms = 1\nload.net_scale = 4\nload.uart_watts = 0", seed)
			if r, u := float64(res.Meter.SourceOhms), float64(res.Meter.USourceOhms); math.Abs(r-1) > math.Max(4*u, 1e-3) {
				t.Errorf("seed %d: the source has %.5f ohm, u %.5f, not 1", seed, r, u)
			}
			for i, op := range res.Operations {
				var joules, count float64
				for _, w := range truth.Windows {
					if w.Alg == op.Alg && w.Op == op.Op {
						joules += w.NetJoules
						count += float64(w.N)
					}
				}
				excess := float64(op.Net.Value) - joules/count
				limit := math.Sqrt(3) * float64(term(op, "volts times amps").U)
				if excess < 0.9*limit || excess > limit*1.02 {
					t.Errorf("seed %d, %s %s: too high by %.3g J, the limit is %.3g J (operation %d)", seed, op.Alg, op.Op, excess, limit, i)
				}
				if p := joules / count; p < float64(op.Net.Lo95Repeat) || p > float64(op.Net.Hi95Repeat) {
					t.Errorf("seed %d, %s %s: %.6g J is not within %.6g to %.6g", seed, op.Alg, op.Op, p, op.Net.Lo95Repeat, op.Net.Hi95Repeat)
				}
			}
		}
	}
}

// TestSourceOhms: what noise hides is stated with its doubt.
func TestSourceOhms(t *testing.T) {
	const seeds = 20
	far := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		res, _ := analyzed(t, "supply.ohms = 0.1", seed)
		if !(float64(res.Meter.USourceOhms) < 0.01) {
			t.Fatalf("seed %d: u of the source is %g ohm", seed, res.Meter.USourceOhms)
		}
		if math.Abs(float64(res.Meter.SourceOhms)-0.1) > 2*float64(res.Meter.USourceOhms) {
			far++
		}
	}
	// 1 is to be expected; 6 and more by chance once in a few thousand.
	if far > 5 {
		t.Errorf("%d of %d sources are further than 2 u from the truth", far, seeds)
	}
}

// TestPointSamples: the budget knows how point samples are counted, whatever
// the scatter between windows shows.
func TestPointSamples(t *testing.T) {
	res, _ := analyzed(t, quietMeter+"meter.rate_hz = 25\nmeter.packet_samples = 1\nmeter.kind = point", 1)
	for _, op := range res.Operations {
		w := float64(op.Latency.Mean) * float64(op.Count) / float64(op.Windows) // s
		_, f := math.Modf(25 * w)
		want := float64(op.NetWatts.Value) / 25 * math.Sqrt(f*(1-f)*float64(op.Windows)) / float64(op.Count)
		got, rest := float64(term(op, "point samples").U), float64(term(op, "repeats").U)
		if math.Abs(got-want) > 0.02*want {
			t.Errorf("%s %s: counting is worth %.4g J, not %.4g J", op.Alg, op.Op, got, want)
		}
		if rest > 0.1*got {
			t.Errorf("%s %s: the repeats still hold %.4g J of the counting's %.4g J", op.Alg, op.Op, rest, got)
		}
		if u := math.Hypot(got, rest); math.Abs(u-float64(op.Net.URepeat)) > 1e-3*u {
			t.Errorf("%s %s: the budget adds up to %.4g J, not %.4g J", op.Alg, op.Op, u, op.Net.URepeat)
		}
	}
	res, _ = analyzed(t, "", 1)
	for _, op := range res.Operations {
		if x := term(op, "point samples"); x.Name != "" {
			t.Errorf("%s %s: means are counted: %+v", op.Alg, op.Op, x)
		}
	}
}
