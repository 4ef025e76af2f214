package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench/fnb58"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/fnirsi"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// analyzed is a run of the bench with what the analysis makes of it.
type analyzed struct {
	truth Truth
	run   *run.Run
	res   analysis.Results
}

func analyze(t *testing.T, s Scenario, seed uint64) analyzed {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	truth, err := Play(s, seed, dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	line, err := align.Align(r, "usb")
	if err != nil {
		t.Fatal(err)
	}
	res, err := analysis.Analyze(line, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return analyzed{truth, r, res}
}

// drawn is what the operations of the windows that count cost on average, J.
func (a analyzed) drawn(alg, op string) float64 {
	counts := map[int64]bool{}
	for _, w := range a.res.Windows {
		counts[w.W] = w.Excluded == ""
	}
	joules, n := 0.0, int64(0)
	for _, w := range a.truth.Windows {
		if w.Alg == alg && w.Op == op && counts[w.W] {
			joules += w.NetJoules
			n += w.N
		}
	}
	return joules / float64(n)
}

// notes are the codes of the run's notes with their counts, warnings with a !.
func (a analyzed) notes() string {
	var all []string
	for _, n := range a.run.Notes {
		code := n.Code
		if n.Warn {
			code += "!"
		}
		all = append(all, fmt.Sprintf("%s:%d", code, n.Count))
	}
	return strings.Join(all, " ")
}

// rows counts the samples of a segment.
func (a analyzed) rows(t *testing.T, segment int) (n int64) {
	t.Helper()
	for b, err := range a.run.Samples("usb") {
		if err != nil {
			t.Fatal(err)
		}
		if b.Segment == segment {
			n += int64(b.Rows)
		}
	}
	return n
}

// A meter behind its bytes and the real driver gives what the bare samples
// give, but for what it rounds.
func TestDriverChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Scenario)
		limit  float64
	}{
		"its own counts": {func(*Scenario) {}, 1e-9},
		"no counts":      {func(s *Scenario) { s.Meter.VoltsCount, s.Meter.AmpsCount = 0, 0 }, 5e-5},
	} {
		s := Default()
		s.Plan.Windows = 5
		c.change(&s)
		bare := analyze(t, s, 3)
		s.Meter.Driver = FNB58
		driven := analyze(t, s, 3)
		if len(bare.res.Operations) != 4 || len(driven.res.Operations) != 4 {
			t.Fatalf("%s: %d and %d operations", name, len(bare.res.Operations), len(driven.res.Operations))
		}
		for i, op := range driven.res.Operations {
			want := float64(bare.res.Operations[i].Net.Value)
			if off := float64(op.Net.Value)/want - 1; math.Abs(off) > c.limit {
				t.Errorf("%s: %s/%s is off by %.2g", name, op.Alg, op.Op, off)
			}
		}
		if driven.res.Meter.Driver != "fnb58" || driven.res.Meter.Model != "FNB58" || !driven.res.Simulated {
			t.Errorf("%s: %+v, simulated %v", name, driven.res.Meter, driven.res.Simulated)
		}
		if n := driven.notes(); n != "" {
			t.Errorf("%s: notes %s", name, n)
		}
	}
}

// Whatever the meter does wrong, the run says so, and no energy is wrong.
func TestFaultsEndInTheRightRun(t *testing.T) {
	for _, c := range []struct {
		scenario string
		notes    string
		segments int
		lost     [2]int // packets, from and to
		excluded [2]int // windows
		limit    float64
	}{
		{"fnb58", "", 1, [2]int{0, 0}, [2]int{0, 0}, 5e-4},
		{"fnb58-faults", "impossible-first:1 bad-packets:7", 1, [2]int{1, 10}, [2]int{0, 0}, 5e-4},
		{"fnb58-pause", "impossible-first:1 impossible-samples!:1 interrupted:1", 1, [2]int{12, 20}, [2]int{0, 0}, 5e-4},
		{"fnb58-deaf", "interrupted!:1 impossible-first:1 impossible-samples!:1", 2, [2]int{50, 60}, [2]int{1, 2}, 5e-4},
		{"fnb58-freeze", "meter-lost!:1 interrupted!:1", 2, [2]int{150, 190}, [2]int{1, 3}, 5e-4},
		{"fnb58-unplug", "meter-lost!:1 interrupted!:1", 2, [2]int{125, 135}, [2]int{1, 3}, 5e-4},
		{"fnb58-restless", "", 1, [2]int{0, 0}, [2]int{0, 0}, 5e-4},
		{"fnb58-late", "interrupted:24", 1, [2]int{0, 0}, [2]int{0, 0}, 5e-4},
		{"fnb58-slow", "", 1, [2]int{0, 0}, [2]int{0, 0}, 5e-4},
		// Its packets are blurred: single windows scatter more.
		{"fnac28", "", 1, [2]int{0, 0}, [2]int{0, 0}, 1e-3},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			t.Parallel()
			s, err := LoadScenario(c.scenario)
			if err != nil {
				t.Fatal(err)
			}
			a := analyze(t, s, 1)
			if got := a.notes(); got != c.notes {
				t.Errorf("notes %q, want %q", got, c.notes)
			}
			if n := len(a.run.Streams[0].Segments); n != c.segments {
				t.Errorf("%d segments, want %d", n, c.segments)
			}
			if n := len(a.truth.LostPackets); n < c.lost[0] || n > c.lost[1] {
				t.Errorf("%d packets were lost, want %v", n, c.lost)
			}
			if lost := a.truth.LostPackets; c.segments == 2 && lost[0] != a.rows(t, 1) {
				t.Errorf("packets are missing before row %d, want %d", lost[0], a.rows(t, 1))
			}
			excluded := 0
			for _, w := range a.res.Windows {
				if w.Excluded != "" {
					excluded++
				}
			}
			if excluded < c.excluded[0] || excluded > c.excluded[1] || len(a.res.Windows) != 28 {
				t.Errorf("%d of %d windows are excluded, want %v", excluded, len(a.res.Windows), c.excluded)
			}
			if a.res.Alignment.Method != align.ByEdges || math.Abs(float64(a.res.Alignment.Offset)-a.truth.OffsetSeconds) > 1e-3 {
				t.Errorf("aligned by %s with an offset of %.5f s, truth %.5f s", a.res.Alignment.Method, float64(a.res.Alignment.Offset), a.truth.OffsetSeconds)
			}
			for _, op := range a.res.Operations {
				if off := float64(op.Net.Value)/a.drawn(op.Alg, op.Op) - 1; !(math.Abs(off) < c.limit) {
					t.Errorf("%s/%s is off by %.2g", op.Alg, op.Op, off)
				}
			}
			if others := a.rawHoldsSamples(t); others > 0 != (s.Device.Info > 0) {
				t.Errorf("%d packets without samples were kept", others)
			}
		})
	}
}

// rawHoldsSamples decodes the packets that the run keeps, compares them with
// its samples, and counts those that are none of samples.
func (a analyzed) rawHoldsSamples(t *testing.T) (others int) {
	t.Helper()
	var amps []float64
	for p, err := range a.run.Packets("usb") {
		if err != nil {
			t.Fatal(err)
		}
		samples, kind, err := fnirsi.DecodeReport(p.Bytes)
		if err == nil && kind != fnirsi.SampleReport {
			others++
			continue
		}
		for _, s := range samples {
			if err != nil || s[1] > 10 {
				s[1] = math.NaN()
			}
			amps = append(amps, s[1])
		}
	}
	var rows []float64
	for b, err := range a.run.Samples("usb") {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, b.Columns["amps"]...)
	}
	left := len(amps) - len(rows) // at the start
	if left < 0 || left > 1 {
		t.Fatalf("packets hold %d samples, the run %d", len(amps), len(rows))
	}
	for i, want := range amps[left:] {
		if got := rows[i]; !(got == float64(float32(want)) || math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("row %d is %g A, its packet says %g A", i, got, want)
		}
	}
	return others
}

// Equal seeds give equal bytes, through the driver too.
func TestDrivenBytes(t *testing.T) {
	s, err := LoadScenario("fnb58-faults")
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Windows = 1
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if _, err := Play(s, 7, filepath.Join(dir, name, "run")); err != nil {
			t.Fatal(err)
		}
	}
	a, b := files(t, filepath.Join(dir, "a")), files(t, filepath.Join(dir, "b"))
	if len(a) != 4 {
		t.Errorf("%d files, want run.jsonl, samples, arrivals and packets", len(a))
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs between two plays of one seed", name)
		}
	}
}

// A meter that never sends anything makes no run.
func TestDeadMeter(t *testing.T) {
	for name, faults := range map[string]fnb58.Faults{
		"unplugged": {UnplugSeconds: 0.01, AbsentSeconds: 86400},
		"deaf":      {PauseSeconds: 0.01, DeafSeconds: 86400},
	} {
		s := Default()
		s.Plan.Ops, s.Plan.Windows, s.Plan.WindowSeconds = []string{"Ed25519/sign"}, 1, 1
		s.Meter.Driver, s.Device = FNB58, faults
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := Play(s, 1, dir); !errors.Is(err, meters.ErrNoSamples) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s: a run was left behind", name)
		}
	}
}
