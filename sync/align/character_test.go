package align_test

import (
	"strings"
	"testing"

	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// character plays a scenario and returns what its run shows of the meter.
func character(t *testing.T, s bench.Scenario, seed uint64) align.Character {
	t.Helper()
	dir := t.TempDir() + "/run"
	if _, err := bench.Play(s, seed, dir); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	line, err := align.Align(r, r.Streams[0].Stream)
	if err != nil {
		t.Fatal(err)
	}
	return line.Character
}

func TestProbe(t *testing.T) {
	for _, name := range []string{"point","noise","alone","repeat25","lines","wander","cheap","hold25"} {
		s, err := bench.LoadScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(8) {
			if name == "long" || strings.HasPrefix(name, "fnb58-") {
				continue
			}
			c := character(t, s, seed)
			t.Logf("%-12s %-12s %5d conv %.2f eff %.2f %s %d %.2f noise %.3g %.3g lag %.2f", name, c.Values, c.Samples, c.ConversionsHz, c.EffectiveHz, c.Kind, c.Edges, c.EdgeConversions, c.NoiseWatts, c.ConversionNoiseWatts, c.Lag1)
		}
	}
}
