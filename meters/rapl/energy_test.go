package rapl

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// load is idleWatts, and stepWatts more in windows of windowSeconds.
type load struct{ starts []float64 }

const (
	idleWatts, stepWatts = 6.0, 15.0
	windowSeconds        = 1.5
	operations           = 300
)

func (l load) joules(hostSeconds float64) float64 {
	j := idleWatts * hostSeconds
	for _, from := range l.starts {
		j += stepWatts * min(max(hostSeconds-from, 0), windowSeconds)
	}
	return j
}

// record records the load with marks, of a target whose ticks are the host's
// microseconds.
func record(t *testing.T, h *meterstest.Host, l load) *run.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "run", Simulated: true}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := func(hostSeconds float64, format string, args ...any) {
		if err := w.Line(run.Line{HostNs: int64(hostSeconds * 1e9), Source: "pipe", Text: fmt.Appendf(nil, format, args...)}); err != nil {
			t.Fatal(err)
		}
	}
	ticks := func(hostSeconds float64) int64 { return int64(math.Round(hostSeconds * 1e6)) }
	line(0, "@jm hello proto=1 target=laptop tick_hz=1000000 tick_bits=64")
	for i, from := range l.starts {
		line(from-0.7, "@jm sync seq=%d t=%d", i, ticks(from-0.7))
		to := from + windowSeconds
		line(to+0.35, "@jm win w=%d alg=X op=run n=%d t0=%d t1=%d idle=os pre_us=600000 post_us=300000", i+1, operations, ticks(from), ticks(to))
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	untilNs := int64((l.starts[len(l.starts)-1] + 4) * 1e9)
	h.Passed = func(hostNs int64) {
		if hostNs >= untilNs {
			cancel()
		}
	}
	m, err := Driver.OpenHost(ctx, h, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	info := m.Info()
	info.Stream = "cpu"
	s, err := w.Stream(info)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Stream(ctx, s.Write); err != nil {
		t.Fatal(err)
	}
	if err := w.Close("done", h.HostNs()); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEnergyPerOperation: counters, driver, run, alignment and analysis
// together give the energy of the load, whatever the moments of reading.
func TestEnergyPerOperation(t *testing.T) {
	const seed = 11
	jitter := func(r *rand.Rand) int64 { return int64(10e6 * r.ExpFloat64()) }
	stalls := func(r *rand.Rand) int64 {
		if r.IntN(20) == 0 {
			return int64(130e6 * r.Float64())
		}
		return 0
	}
	for _, c := range []struct {
		name     string
		updateNs int64 // of the counter
		late     func(r *rand.Rand) int64
		// tolerance, relative, of a window and of their mean
		one, all float64
	}{
		{"on time", 1, func(*rand.Rand) int64 { return 0 }, 1e-5, 1e-6},
		{"jitter", 1, jitter, 1e-5, 1e-6},
		{"stalls", 1, stalls, 1e-4, 1e-5},
		// A value up to 1 ms old is up to 21 mJ wrong in a window of 22.5 J, and so
		// is the level of idle beside it.
		{"updates, jitter", 1e6, jitter, 2.5e-3, 3e-4},
		{"updates, stalls", 1e6, stalls, 2.5e-3, 3e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			draws := rand.New(rand.NewPCG(seed, 0))
			var l load
			for at := 2.0; len(l.starts) < 12; at += windowSeconds + 2 + draws.Float64() {
				l.starts = append(l.starts, at)
			}
			h := updated(c.updateNs, 0, l.joules)
			h.Late = func() int64 { return c.late(draws) }
			r := record(t, h, l)
			line, err := align.Align(r, "cpu")
			if err != nil {
				t.Fatal(err)
			}
			res, err := analysis.Analyze(line, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := stepWatts * windowSeconds
			for _, w := range res.Windows {
				if w.Excluded != "" || math.Abs(float64(w.Net)/want-1) > c.one {
					t.Errorf("window %d: %.6f J, want %.6f %s", w.W, w.Net, want, w.Excluded)
				}
			}
			net := res.Operations[0].Net
			if math.Abs(float64(net.Value)*operations/want-1) > c.all {
				t.Errorf("%.8f J/op, want %.8f", net.Value, want/operations)
			}
			if res.Alignment.Method != align.ByEdges || math.Abs(float64(res.Alignment.Offset)) > 2e-3 {
				t.Errorf("%+v", res.Alignment)
			}
			t.Logf("seed %d: %.8f J/op of %.8f, offset %.5f s, response %.4f s, warnings %q", seed, net.Value, want/operations,
				res.Alignment.Offset, res.Meter.ResponseSeconds, res.Warnings)
		})
	}
}
