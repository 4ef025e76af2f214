package analysis_test

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/benchtest"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// calm is a world without noise, counts, source resistance or jitter.
const calm = `
plan.ops = ML-DSA-44/verify, Ed25519/sign
plan.windows = 5
load.scatter = 0
supply.ohms = 0
meter.volts_noise = 0
meter.amps_noise = 0
meter.volts_count = 0
meter.amps_count = 0
`

// play records a world, each block changed by edit, and puts it on a time line.
func play(t *testing.T, text string, edit func(b *meters.Block, truth bench.Truth)) (*align.Timeline, bench.Truth) {
	t.Helper()
	s, err := bench.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	world, err := bench.New(s, 11)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "run", Simulated: true}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	samples, err := w.Stream(world.Meter())
	if err != nil {
		t.Fatal(err)
	}
	err = world.Play(func(b meters.Block) error {
		if edit != nil {
			edit(&b, world.Truth())
		}
		return samples.Write(b)
	}, w.Line)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close("done", 0); err != nil {
		t.Fatal(err)
	}
	line := benchtest.Align(t, benchtest.Open(t, dir))
	return line, world.Truth()
}

// Every window's net, gross and idle against the closed form.
func TestWindowsAgainstClosedForm(t *testing.T) {
	for _, c := range []struct {
		name, text string
		rel        float64
	}{
		{"calm", "", 1e-4},
		{"idle that rises", "load.drift_watts = 0.0001\n", 1e-4},
		{"one pole", "meter.filter = one-pole\nmeter.filter_seconds = 0.03\n", 5e-4},
		{"boxcar", "meter.filter = boxcar\nmeter.filter_seconds = 0.1\n", 5e-4},
		{"ramps", "load.ramp_seconds = 0.01\n", 1e-4},
		{"late", "samples.delay_seconds = 0.09\n", 1e-4},
	} {
		line, truth := play(t, calm+c.text, nil)
		res := benchtest.Analyze(t, line, analysis.Options{})
		if len(res.Windows) != 10 {
			t.Fatalf("%s: %d windows", c.name, len(res.Windows))
		}
		for i, w := range res.Windows {
			x := truth.Windows[i]
			for _, q := range []struct {
				what      string
				got, want float64
			}{{"net", float64(w.Net), x.NetJoules}, {"gross", float64(w.Gross), x.GrossJoules}, {"idle", float64(w.Idle), x.IdleWatts}} {
				if w.Excluded != "" || math.Abs(q.got/q.want-1) > c.rel {
					t.Errorf("%s, window %d: %s %.8g, want %.8g (%.1e) %s", c.name, w.W, q.what, q.got, q.want, q.got/q.want-1, w.Excluded)
				}
			}
		}
	}
}

func TestBaselines(t *testing.T) {
	line, _ := play(t, calm, nil)
	local := benchtest.Analyze(t, line, analysis.Options{})
	global := benchtest.Analyze(t, line, analysis.Options{Baseline: analysis.Global})
	none := benchtest.Analyze(t, line, analysis.Options{Baseline: analysis.None})
	for i, op := range local.Operations {
		if g := global.Operations[i]; math.Abs(float64(g.Net.Value/op.Net.Value)-1) > 1e-4 {
			t.Errorf("steady idle: global %g, local %g", g.Net.Value, op.Net.Value)
		}
		n := none.Operations[i]
		if n.Net.Value.Stated() || n.Idle.Value.Stated() || n.NetWatts.Value.Stated() {
			t.Errorf("without a baseline there is a net: %+v", n)
		}
		if math.Abs(float64(n.Gross.Value/op.Gross.Value)-1) > 3e-3 {
			t.Errorf("gross %g without a baseline, %g with one", n.Gross.Value, op.Gross.Value)
		}
		if !op.Net.Lo95.Stated() || op.Net.Lo95 != op.Net.Lo95Repeat {
			t.Errorf("with an exact meter the intervals differ: %+v", op.Net)
		}
	}
	acc, err := meters.ParseAccuracy("v=0.5%+20uV,a=0.5%+20uA")
	if err != nil {
		t.Fatal(err)
	}
	wide := benchtest.Analyze(t, line, analysis.Options{Accuracy: &acc})
	unknown := benchtest.Analyze(t, line, analysis.Options{Accuracy: &meters.Accuracy{}})
	for i := range wide.Operations {
		q := wide.Operations[i].Net
		// Two rectangles of 0.5 %: a triangle whose 95 % half width is 0.776 %.
		if half := float64(q.Hi95-q.Value) / float64(q.Value); math.Abs(half-0.00776) > 0.0003 {
			t.Errorf("gains of 0.5 %% each give a half width of %.3f %%", 100*half)
		}
		if q := unknown.Operations[i].Net; q.Lo95.Stated() || !q.Lo95Repeat.Stated() {
			t.Errorf("an unknown meter has a total interval: %+v", q)
		}
	}
}

// Missing samples within a window: their share is reported, the mean power of
// the rest stands for them, and below 80 % the window is excluded.
func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		missing float64 // s, from 0.5 s into the second window
		want    string
	}{{0.2, ""}, {0.8, "samples cover"}} {
		line, truth := play(t, calm, func(b *meters.Block, truth bench.Truth) {
			from := truth.Windows[1].T0 + 0.5
			at := float64(b.ArrivalNs) * 1e-9
			if at > from && at < from+c.missing {
				for _, column := range b.Values {
					for i := range column {
						column[i] = math.NaN()
					}
				}
			}
		})
		res := benchtest.Analyze(t, line, analysis.Options{})
		w, x := res.Windows[1], truth.Windows[1]
		share := 1 - c.missing/(x.T1-x.T0)
		if math.Abs(float64(w.Coverage)-share) > 0.03 {
			t.Errorf("%g s missing: coverage %.3f, want %.3f", c.missing, w.Coverage, share)
		}
		if c.want == "" && (w.Excluded != "" || math.Abs(float64(w.Net)/x.NetJoules-1) > 1e-3) || !strings.Contains(w.Excluded, c.want) {
			t.Errorf("%g s missing: net %g, want %g; excluded %q", c.missing, w.Net, x.NetJoules, w.Excluded)
		}
	}
}

// Keys are counted where they are stated; one that nobody stated is none.
func TestKeysAreCounted(t *testing.T) {
	line, _ := play(t, calm+"plan.keys = 3\n", nil)
	if op := benchtest.Analyze(t, line, analysis.Options{}).Operations[0]; op.Keys != 3 {
		t.Errorf("%d keys, want 3", op.Keys)
	}
	for i := range line.Windows {
		line.Windows[i].Key = ""
	}
	if op := benchtest.Analyze(t, line, analysis.Options{}).Operations[0]; op.Keys != 0 {
		t.Errorf("%d keys, and none was stated", op.Keys)
	}
}

func TestNothingUsable(t *testing.T) {
	line, _ := play(t, calm, func(b *meters.Block, _ bench.Truth) {
		for _, column := range b.Values {
			for i := range column {
				column[i] = math.NaN()
			}
		}
	})
	_, err := analysis.Analyze(line, analysis.Options{})
	if !errors.Is(err, analysis.ErrNoWindows) || !strings.Contains(err.Error(), "10 of 10") {
		t.Errorf("a run without values gives %v", err)
	}
}

// The keys that other programs read.
func TestResultsKeepTheirKeys(t *testing.T) {
	line, _ := play(t, calm, nil)
	text, err := json.Marshal(benchtest.Analyze(t, line, analysis.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	quantity := "value u lo95 hi95 u_repeat dof_repeat lo95_repeat hi95_repeat u_shared"
	for path, keys := range map[string]string{
		"":                                 "schema run simulated meter target alignment operations windows warnings",
		"meter":                            "name driver model serial effective_rate_hz response_s accuracy",
		"target":                           "name isa bits impl cc cflags",
		"alignment":                        "method offset_s u_s drift_ppm",
		"operations":                       "alg op windows count idle_mode keys net_j_per_op gross_j_per_op net_w idle_w overhead_j_per_window latency_s budget warnings",
		"operations net_j_per_op":          quantity,
		"operations gross_j_per_op":        quantity,
		"operations net_w":                 quantity,
		"operations idle_w":                quantity,
		"operations overhead_j_per_window": quantity,
		"operations latency_s":             "n mean p50 p95 min max sd",
		"operations budget":                "name u type shared source",
		"windows":                          "w alg op n t0_s t1_s gross_j net_j idle_w coverage excluded",
	} {
		node := tree
		for _, step := range strings.Fields(path) {
			node = first(node).(map[string]any)[step]
		}
		object, ok := first(node).(map[string]any)
		if !ok {
			t.Errorf("%q is no object", path)
			continue
		}
		for _, k := range strings.Fields(keys) {
			if _, ok := object[k]; !ok {
				t.Errorf("%q lacks %q", path, k)
			}
		}
	}
}

// first returns a node, of a list its first member.
func first(node any) any {
	if list, ok := node.([]any); ok && len(list) > 0 {
		return list[0]
	}
	return node
}
