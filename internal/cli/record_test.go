package cli

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// recordFor runs a command line in virtual time, and interrupts it after a while
// if after is not 0.
func recordFor(t *testing.T, after time.Duration, args ...string) (code int, out, log string) {
	t.Helper()
	var stdout, stderr strings.Builder
	synctest.Test(t, func(*testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if after > 0 {
			defer time.AfterFunc(after, cancel).Stop()
		}
		code = Main(&Env{Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Interrupt: ctx})
	})
	return code, stdout.String(), stderr.String()
}

// What is recorded of the virtual meter, marks included, is whole and gives
// the right answer.
func TestRecordedRunIsAnalyzed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	code, out, log := recordFor(t, 0, "record", "--meter", "usb=virtual:three,seed=5", "-o", dir)
	if code != exitDone || !strings.Contains(out, "ended: done  (simulated)") || !strings.Contains(log, "recording "+dir) {
		t.Fatalf("exit code %d, out %q, log %q", code, out, log)
	}
	if code, out, _ := recordFor(t, 0, "check", dir); code != exitDone || !strings.Contains(out, "whole, ended: done") {
		t.Errorf("check: exit code %d, %s", code, out)
	}
	code, out, log = recordFor(t, 0, "analyze", dir, "--json")
	if code != exitDone {
		t.Fatalf("analyze: exit code %d, %s", code, log)
	}
	var res struct {
		Simulated  bool
		Operations []struct {
			Alg, Op string
			Net     struct{ Value float64 } `json:"net_j_per_op"`
		}
	}
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatal(err)
	}
	s, err := bench.LoadScenario("three")
	if err != nil {
		t.Fatal(err)
	}
	w, err := bench.New(s, 5)
	if err != nil {
		t.Fatal(err)
	}
	truth := w.Truth()
	if len(res.Operations) != len(truth.Ops) || len(truth.Ops) == 0 || !res.Simulated {
		t.Fatalf("%d operations, truth has %d", len(res.Operations), len(truth.Ops))
	}
	for _, op := range res.Operations {
		joules, n := 0.0, int64(0)
		for _, w := range truth.Windows {
			if w.Alg == op.Alg && w.Op == op.Op {
				joules += w.NetJoules
				n += w.N
			}
		}
		// The meter's gain is off by 0.5 % at most, in volts and in amps.
		if off := op.Net.Value/(joules/float64(n)) - 1; !(math.Abs(off) < 0.012) {
			t.Errorf("%s/%s is off by %.2g", op.Alg, op.Op, off)
		}
	}
}

func TestRecordInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	code, out, log := recordFor(t, 7*time.Second, "record", "--meter", "virtual", "-o", dir, "--note", "a b", "--name", "desk", "--json")
	if code != exitInterrupted || !strings.Contains(log, "interrupted") {
		t.Fatalf("exit code %d, %s", code, log)
	}
	var got struct {
		Schema, Run, Reason string
		Simulated           bool
		Seconds             float64
		Lines               int64
		Meters              []struct {
			Name    string
			Samples int64
		}
		Notes []run.Note
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != "joulemark.record/1" || got.Reason != "interrupted" || !got.Simulated || got.Lines == 0 || len(got.Meters) != 1 ||
		got.Meters[0].Samples < 680 || got.Meters[0].Samples > 704 || len(got.Notes) != 1 || got.Notes[0].Text != "a b" {
		t.Errorf("got %+v", got)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Check(); !p.OK() || !p.Closed || r.Header.Name != "desk" || !r.Header.Simulated || r.Header.Started == "" {
		t.Errorf("report %+v, header %+v", p, r.Header)
	}
}

func TestParseUntil(t *testing.T) {
	now := time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{
		"17:30":                "2026-11-30T17:30:00Z",
		"17:00":                "2026-12-01T17:00:00Z",
		"08:15:30":             "2026-12-01T08:15:30Z",
		"2026-11-30 18:00":     "2026-11-30T18:00:00Z",
		"2026-12-01T08:00:00Z": "2026-12-01T08:00:00Z",
	} {
		if got, err := parseUntil(in, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "soon", "25:00", "2026-11-30 16:00"} {
		var f *failure
		if _, err := parseUntil(in, now); !errors.As(err, &f) || f.code != exitUsage {
			t.Errorf("%s: error %v", in, err)
		}
	}
}

// The one meter that is plugged in is taken before those that are built in.
func TestOnlyMeter(t *testing.T) {
	plugged := meters.Driver{Name: "p", Open: func(context.Context, meters.Port, meters.Options) (meters.Meter, error) { return nil, nil }}
	built := meters.Driver{Name: "b", OpenHost: func(context.Context, meters.Host, meters.Options) (meters.Meter, error) { return nil, nil }}
	finds := func(found ...meters.Found) func(meters.Host) []meters.Found {
		return func(meters.Host) []meters.Found { return found }
	}
	p1, p2 := meters.Found{Spec: "p:1", Driver: "p"}, meters.Found{Spec: "p:2", Driver: "p"}
	b1, bad := meters.Found{Spec: "b:1", Driver: "b"}, meters.Found{Spec: "p:3", Driver: "p", Problem: &meters.Problem{Err: os.ErrPermission, Hint: "add a rule"}}
	for _, c := range []struct {
		found      []meters.Found
		want, hint string
	}{
		{[]meters.Found{p1, b1}, "p:1", ""},
		{[]meters.Found{bad, p1}, "p:1", ""},
		{[]meters.Found{b1}, "b:1", ""},
		{[]meters.Found{p1, p2}, "", "p:1 or p:2"},
		{[]meters.Found{bad}, "", "p:3: add a rule"},
		{nil, "", "--meter virtual"},
	} {
		p, b := plugged, built
		p.Find = finds(c.found...)
		l := lab{drivers: []meters.Driver{p, b}, host: meters.NewHost}
		got, err := l.only()
		var f *failure
		if got != c.want || c.want == "" && (!errors.As(err, &f) || f.code != exitNoDevice || !strings.Contains(f.hint, c.hint)) {
			t.Errorf("%v: %q, %v (%+v), want %q with hint %q", c.found, got, err, f, c.want, c.hint)
		}
	}
}

// snapshot is one of a meter that has sent for a while.
func snapshot() record.Snapshot {
	m := record.Status{Name: "usb", State: record.Streaming, Volts: 5.1, Amps: 0.0573, Watts: 0.29223, Joules: 3.61, Coulombs: 0.71,
		RateHz: 100.02, Samples: 1240, Missing: 4, Gaps: 1, Segments: 1, Notice: "it \x1b[31msaid\n this",
		Info: meters.Info{Model: "FNB58", Serial: "1\a2", Columns: []string{meters.Volts, meters.Amps}}}
	for i := range m.Trace {
		m.Trace[i] = math.NaN()
		if i >= record.TraceSlots-16 {
			m.Trace[i] = 0.25 + 0.01*float64(i%8)
		}
	}
	return record.Snapshot{Recording: true, Seconds: 12.44, Bytes: 120_000, Lines: 3, Meters: []record.Status{m}}
}

func TestLiveLines(t *testing.T) {
	now := time.Now()
	o := viewOptions{run: "runs/x", length: 20 * time.Second}
	got := strings.Join(liveLines(snapshot(), o, 60, now), "\n")
	want := strings.Join([]string{
		"recording runs/x  0:12.4  0:07.6 left  120 kB  3 marks",
		"usb  FNB58 1?2",
		"    5.100 V   57.30 mA   292.2 mW    3.610 J   710.0 mC",
		"  1240 samples, 100.02 a second, 4 lost, 1 gap",
		"            ▁▂▃▄▅▆▇█▁▂▃▄▅▆▇█  250 mW to 320 mW in 6 s",
		"  it ?[31msaid? this",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for width := range 40 {
		for _, line := range liveLines(snapshot(), o, width, now) {
			if n := len([]rune(line)); n > width {
				t.Errorf("a line of %d columns, the terminal has %d: %q", n, width, line)
			}
		}
	}
	waiting := record.Snapshot{Meters: []record.Status{{Name: "usb", State: record.Waiting}}}
	if got := liveLines(waiting, o, 60, now); len(got) != 2 || got[0] != "waiting for samples of usb" {
		t.Errorf("got %q", got)
	}
}

func TestTimeLeft(t *testing.T) {
	now := time.Now()
	s := record.Snapshot{Seconds: 5}
	for _, c := range []struct {
		o    viewOptions
		want float64
	}{
		{viewOptions{}, -1},
		{viewOptions{length: 20 * time.Second}, 15},
		{viewOptions{length: time.Second}, 0},
		{viewOptions{length: 20 * time.Second, until: now.Add(3 * time.Second)}, 3},
	} {
		if got := timeLeft(s, c.o, now); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %g, want %g", c.o, got, c.want)
		}
	}
}

func TestTrace(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		watts []float64
		want  string
	}{
		{[]float64{nan, nan}, ""},
		{[]float64{1, nan, 2, 1.5}, "▁ █▄"},
		{[]float64{0, 0}, "▁▁"},
		{[]float64{1, 1.001}, "▄▅"}, // noise is no step
		{[]float64{-1, -2}, "█▁"},
	} {
		got, _, _ := strings.Cut(trace(c.watts, 80), "  ")
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.watts, got, c.want)
		}
	}
}

// The live view stays in its place.
func TestScreen(t *testing.T) {
	var b strings.Builder
	show := screen(&b, viewOptions{run: "runs/x"})
	show(snapshot())
	first := b.String()
	b.Reset()
	show(snapshot())
	if strings.Contains(first, "\r") || !strings.HasPrefix(b.String(), "\r\x1b[6A") || strings.Count(b.String(), "\n") != 6 {
		t.Errorf("drawn first as %q, then as %q", first, b.String())
	}
}
