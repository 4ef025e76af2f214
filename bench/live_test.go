package bench

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

const liveSeed = 5

// host talks to a live world in virtual time.
type host struct {
	t       *testing.T
	l       *Live
	now     float64
	lines   []string
	packets []Packet
	truth   []TrueWindow
}

func newHost(t *testing.T, change func(*Scenario)) *host {
	t.Helper()
	s := Default()
	if change != nil {
		change(&s)
	}
	l, err := NewLive(s, liveSeed)
	if err != nil {
		t.Fatal(err)
	}
	return &host{t: t, l: l}
}

// pass lets time pass in steps, as a server does.
func (h *host) pass(seconds float64) {
	h.t.Helper()
	for end := h.now + seconds; h.now < end; {
		h.now = min(end, h.now+0.013)
		err := h.l.Advance(h.now, func(p Packet) error {
			h.packets = append(h.packets, p)
			return nil
		}, func(l run.Line) error {
			if float64(l.HostNs)/1e9 > h.now {
				h.t.Errorf("a line of %d ns arrives at %v s", l.HostNs, h.now)
			}
			h.lines = append(h.lines, string(l.Text))
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
		h.truth = append(h.truth, h.l.Settled()...)
	}
}

func (h *host) say(s mark.Statement) {
	line, err := mark.Append(nil, s)
	if err != nil {
		h.t.Fatal(err)
	}
	h.l.Command(line)
}

// heard returns the statements since it was called last, by kind.
func (h *host) heard() (all []mark.Statement) {
	h.t.Helper()
	for _, text := range h.lines {
		s, err := mark.Parse([]byte(text))
		if err != nil || !s.Checked {
			h.t.Fatalf("the target says %q: %v", text, err)
		}
		all = append(all, s)
	}
	h.lines = nil
	return all
}

func kinds(all []mark.Statement) string {
	var out []string
	for _, s := range all {
		out = append(out, s.Kind)
	}
	return strings.Join(out, " ")
}

func windowCommand(w int64) mark.Run {
	return mark.Run{W: w, Alg: "ML-DSA-44", Op: "verify", N: 50, PreUs: 320_000, PostUs: 300_000, Idle: "wfi", Key: "3"}
}

func TestLiveTargetAnswersEveryCommand(t *testing.T) {
	h := newHost(t, nil)
	h.pass(1)
	if got := kinds(h.heard()); got != "hello hello hello "+strings.TrimSpace(strings.Repeat("sync ", bootBeacons)) {
		t.Fatalf("the target boots with %s", got)
	}
	for _, c := range []struct {
		command mark.Statement
		seconds float64
		want    string
	}{
		{mark.HelloCmd{}.Statement(), 1, "hello hello hello"},
		{mark.SyncCmd{N: 3, GapUs: 20_000}.Statement(), 1, "sync sync sync"},
		{mark.IdleCmd{W: 4, Us: 700_000, Mode: "wfi"}.Statement(), 1, "idle"},
		{mark.IdleCmd{W: 4, Us: 700_000, Mode: "sleep"}.Statement(), 1, "err"},
		{windowCommand(7).Statement(), 3, "win lat"},
		{mark.Run{W: 8, Alg: "ML-DSA-44", Op: "decaps", N: 1}.Statement(), 1, "err"},
		{mark.Level{Pin: 2, V: 1}.Statement(), 1, "ok"},
		{mark.Stop{}.Statement(), 1, "ok"},
		{mark.Statement{Kind: "frobnicate", Command: true}, 1, "err"},
		{mark.Statement{Kind: "run", Command: true}, 1, "err"},
		{mark.Statement{Kind: "sync", Command: true, Fields: []mark.Field{{Key: "n", Value: strings.Repeat("9", 900)}}}, 1, "err"},
	} {
		h.say(c.command)
		h.pass(c.seconds)
		if got := kinds(h.heard()); got != c.want {
			t.Errorf("%s is answered by %q, want %q", c.command, got, c.want)
		}
	}
	// Noise, statements and cut lines.
	for text, want := range map[string]string{
		"": "", "hello?": "", "@jm win w=1": "", "\x00\xff\xfe": "", "@jh": "", strings.Repeat("y", 2000): "",
		"@jh run w=1 alg=ML-D": "err", "@jh hello *0000": "err", "@jh =": "err",
		"@jh " + strings.Repeat("x", 2000): "err",
	} {
		h.l.Command([]byte(text))
		h.pass(0.5)
		if got := kinds(h.heard()); got != want {
			t.Errorf("%.40q is answered by %q, want %q", text, got, want)
		}
	}
}

// The target is silent in quiet zones and windows, and its statement is true.
func TestLiveWindowKeepsItsQuietZones(t *testing.T) {
	h := newHost(t, nil)
	h.pass(1)
	h.heard()
	h.say(windowCommand(7).Statement())
	h.say(mark.HelloCmd{}.Statement()) // waits
	quiet := 0.32 + 50*0.0225 + 0.3
	h.pass(quiet - 0.01)
	if got := h.heard(); len(got) > 0 {
		t.Errorf("the target speaks in a quiet zone: %s", kinds(got))
	}
	h.pass(1)
	all := h.heard()
	if kinds(all) != "win lat hello hello hello" || len(h.truth) != 1 {
		t.Fatalf("heard %s, truth %+v", kinds(all), h.truth)
	}
	win, err := mark.ParseWin(all[0])
	if err != nil {
		t.Fatal(err)
	}
	true1 := h.truth[0]
	hz := h.l.Truth().TickHz
	if got := float64(win.T1-win.T0) / hz; win.W != 7 || win.Key != "3" || math.Abs(got-(true1.T1-true1.T0)) > 2/hz {
		t.Errorf("window %+v lasted %v s, true %v s", win, got, true1.T1-true1.T0)
	}
	if math.Abs(true1.T0-1.32) > 0.02 {
		t.Errorf("the window began at %v s, 0.32 s after the command of 1 s", true1.T0)
	}
}

// energy integrates the samples from t0 to t1 (true s), whole samples, less
// idle (W).
func (h *host) energy(t0, t1, idle float64) float64 {
	truth := h.l.Truth()
	joules := 0.0
	for _, p := range h.packets {
		for i := range p.Volts {
			at := truth.FirstSampleSeconds + float64(p.First+int64(i))/truth.SampleHz
			if at >= t0 && at+1/truth.SampleHz <= t1 {
				joules += (p.Volts[i]*p.Amps[i] - idle) / truth.SampleHz
			}
		}
	}
	return joules
}

// What the meter sees is what the target does.
func TestLiveSamplesHoldTheTruth(t *testing.T) {
	for name, change := range map[string]func(*Scenario){
		"calm": nil,
		"restless": func(s *Scenario) {
			s.Load.WalkWatts, s.Load.RampSeconds, s.Load.Overhead = 1e-4, 0.002, 0.002
			s.Meter.Filter, s.Meter.FilterSeconds = OnePole, 0.02
		},
		"boxcar":  func(s *Scenario) { s.Meter.Filter, s.Meter.FilterSeconds, s.Meter.Hold = Boxcar, 0.03, Interpolate },
		"sloping": func(s *Scenario) { s.Load.SineWatts, s.Load.PulseWatts = 1e-4, 0.001 },
		"amd64":   func(s *Scenario) { s.Target = "amd64" },
	} {
		h := newHost(t, change)
		h.pass(1)
		for w := range 3 {
			c := windowCommand(int64(w))
			if name == "amd64" {
				c.N, c.Idle = 50_000, "os"
			}
			h.say(c.Statement())
			h.pass(4)
		}
		if len(h.truth) != 3 {
			t.Fatalf("%s: %d windows", name, len(h.truth))
		}
		for _, w := range h.truth {
			got := h.energy(w.T0-0.25, w.T1+0.25, w.IdleWatts)
			if math.Abs(got/w.NetJoules-1) > 0.005 {
				t.Errorf("%s, seed %d, window %d: the samples hold %v J, true %v J", name, liveSeed, w.W, got, w.NetJoules)
			}
			if gross := w.NetJoules + w.IdleWatts*(w.T1-w.T0); math.Abs(gross/w.GrossJoules-1) > 1e-9 {
				t.Errorf("%s: gross %v J, net and idle make %v J", name, w.GrossJoules, gross)
			}
		}
	}
}

// A live world and one that is played from the same curves see the same load.
func TestGrowingCurveIsTheSum(t *testing.T) {
	draws := stream(liveSeed, "growing")
	var known, all []change
	for range 200 {
		known = append(known, change{at: 10 * draws.Float64(), jump: draws.NormFloat64(), slope: draws.NormFloat64()})
	}
	all = slices.Clone(known)
	g := newGrowing(-1, 5, known)
	for at := -1.0; at < 10; at += 0.1 * draws.Float64() {
		g.grow(at)
		var put []change
		if draws.IntN(2) == 0 {
			put = pulse(put, at, at+draws.Float64(), 0.01*float64(draws.IntN(2)), draws.NormFloat64())
		}
		g.put(put...)
		all = append(all, put...)
	}
	g.grow(10)
	want := sum(all, -1, 10, 5)
	for range 1000 {
		a, b := -1+11*draws.Float64(), -1+11*draws.Float64()
		if d := g.integral(a, b) - want.integral(a, b); math.Abs(d) > 1e-9 {
			t.Fatalf("seed %d: the integral from %v to %v s is %v off", liveSeed, a, b, d)
		}
	}
}

func TestLiveStop(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  []mark.Statement
		seconds float64 // from the commands to the stop
		want    string
	}{
		{"nothing", nil, 0.1, "ok"},
		{"quiet zone", []mark.Statement{windowCommand(1).Statement()}, 0.1, "err ok"},
		{"window", []mark.Statement{windowCommand(1).Statement()}, 0.8, "err ok"},
		{"quiet zone after it", []mark.Statement{windowCommand(1).Statement()}, 1.6, "err ok"},
		{"statement", []mark.Statement{windowCommand(1).Statement()}, 0.32 + 50*0.0225 + 0.3 + 0.005, "win lat ok"},
		{"idle", []mark.Statement{mark.IdleCmd{Us: 5e6, Mode: "wfi"}.Statement()}, 1, "err ok"},
		{"waiting", []mark.Statement{windowCommand(1).Statement(), mark.HelloCmd{}.Statement(), windowCommand(2).Statement()}, 0.8, "err err err ok"},
		{"beacons", []mark.Statement{mark.SyncCmd{N: 1 << 50, GapUs: 1e6}.Statement()}, 1.5, "sync sync err ok"},
		{"a second stop", []mark.Statement{windowCommand(1).Statement(), mark.Stop{}.Statement()}, 0.0001, "err ok ok"},
	} {
		h := newHost(t, nil)
		h.pass(1)
		h.heard()
		for _, s := range c.before {
			h.say(s)
		}
		h.pass(c.seconds)
		h.say(mark.Stop{}.Statement())
		h.pass(3)
		all := h.heard()
		if got := kinds(all); got != c.want {
			t.Errorf("%s: heard %q, want %q", c.name, got, c.want)
		}
		for _, s := range all {
			if a, err := mark.ParseAnswer(s); s.Kind == "err" && (err != nil || a.Code != "stopped") {
				t.Errorf("%s: %s", c.name, s)
			}
		}
		// It rests, and still obeys.
		if idle := h.energy(h.now-1, h.now, h.l.t.idleWatts); math.Abs(idle) > 0.001 {
			t.Errorf("%s: %v J above idle in the second after it", c.name, idle)
		}
		if stated := strings.Contains(c.want, "win"); stated != (len(h.truth) == 1) {
			t.Errorf("%s: truth %+v", c.name, h.truth)
		}
		h.say(windowCommand(9).Statement())
		h.pass(3)
		if got := kinds(h.heard()); got != "win lat" {
			t.Errorf("%s: then a window is answered by %q", c.name, got)
		}
	}
}

func TestLiveTimeout(t *testing.T) {
	h := newHost(t, nil)
	c := windowCommand(3)
	c.N = 1 << 50
	h.say(c.Statement())
	h.pass(2)
	h.heard()
	h.pass(MaxRunSeconds)
	all := h.heard()
	if len(all) != 1 {
		t.Fatalf("heard %q", kinds(all))
	}
	a, err := mark.ParseAnswer(all[0])
	if err != nil || a.OK || a.Code != "timeout" || a.W == nil || *a.W != 3 {
		t.Errorf("an endless window is answered by %s", all[0])
	}
}

func TestLiveReset(t *testing.T) {
	h := newHost(t, func(s *Scenario) { s.Ticks.ResetIn = 2 })
	h.pass(1)
	h.heard()
	h.say(windowCommand(1).Statement())
	h.pass(3)
	h.say(windowCommand(2).Statement())
	h.pass(3)
	if got := kinds(h.heard()); !strings.HasPrefix(got, "win lat hello hello hello sync") {
		t.Errorf("heard %q", got)
	}
}

// Equal commands at equal times make equal worlds, whatever the steps.
func TestLiveIsDeterministic(t *testing.T) {
	talk := func(step float64) (lines []run.Line, packets []Packet) {
		s, err := LoadScenario("cheap")
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewLive(s, liveSeed)
		if err != nil {
			t.Fatal(err)
		}
		command, err := mark.Append(nil, windowCommand(1).Statement())
		if err != nil {
			t.Fatal(err)
		}
		for k := 1; float64(k)*step <= 8; k++ {
			err := l.Advance(float64(k)*step, func(p Packet) error { packets = append(packets, p); return nil },
				func(l run.Line) error { lines = append(lines, l); return nil })
			if err != nil {
				t.Fatal(err)
			}
			if float64(k)*step == 2 || float64(k)*step == 5 {
				l.Command(command)
			}
		}
		return lines, packets
	}
	lines, packets := talk(1)
	fine, finePackets := talk(0.0625)
	if !slices.EqualFunc(lines, fine, func(a, b run.Line) bool { return a.HostNs == b.HostNs && string(a.Text) == string(b.Text) }) {
		t.Errorf("%d lines in steps of 1 s, %d others in steps of 62.5 ms", len(lines), len(fine))
	}
	same := slices.EqualFunc(packets, finePackets, func(a, b Packet) bool {
		return a.ArrivalNs == b.ArrivalNs && a.First == b.First && slices.Equal(a.Volts, b.Volts) && slices.Equal(a.Amps, b.Amps)
	})
	if len(packets) < 150 || !same {
		t.Errorf("%d packets in steps of 1 s differ from %d in steps of 62.5 ms", len(packets), len(finePackets))
	}
}

func TestLiveEnds(t *testing.T) {
	h := newHost(t, nil)
	h.pass(1)
	if err := h.l.Advance(Horizon+1, nil, nil); !errors.Is(err, ErrOver) {
		t.Errorf("after the last second: %v", err)
	}
	s := Default()
	s.Meter.Driver = FNB58
	if _, err := NewLive(s, liveSeed); err == nil {
		t.Error("a meter behind a driver is served")
	}
}

// A recital hands over what the played world does.
func TestRecitalIsThePlay(t *testing.T) {
	s, err := LoadScenario("loss")
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Ops, s.Plan.Windows = []string{"Ed25519/sign"}, 3
	r, err := NewRecital(s, liveSeed)
	if err != nil {
		t.Fatal(err)
	}
	w := r.w
	var lines, windows int
	var packets []Packet
	for err = nil; err == nil; windows += len(r.Settled()) {
		err = r.Advance(r.Next(), func(p Packet) error { packets = append(packets, p); return nil },
			func(run.Line) error { lines++; return nil })
	}
	if !errors.Is(err, ErrOver) || windows != 3 || lines != len(w.lines) || len(packets) != len(w.arrivals)-len(w.truth.LostPackets) {
		t.Fatalf("%v; %d windows, %d of %d lines, %d of %d packets", err, windows, lines, len(w.lines), len(packets), len(w.arrivals))
	}
	if len(w.truth.LostPackets) == 0 {
		t.Fatalf("seed %d loses no packet", liveSeed)
	}
	for i, p := range packets[1:] {
		if p.ArrivalNs < packets[i].ArrivalNs || p.First <= packets[i].First {
			t.Fatalf("packet %+v after %+v", p, packets[i])
		}
	}
}

// Whatever arrives on the wire, the target goes on and obeys.
func FuzzLiveCommand(f *testing.F) {
	for _, s := range []mark.Statement{
		mark.HelloCmd{}.Statement(), windowCommand(1).Statement(), mark.Stop{}.Statement(),
		mark.SyncCmd{N: 1 << 52, GapUs: 0}.Statement(), mark.IdleCmd{W: 1, Us: 1e12, Mode: "wfi"}.Statement(),
	} {
		line, err := mark.Append(nil, s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(line), "")
		f.Add(string(line[:len(line)/2]), string(line))
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		h := newHost(t, nil)
		h.pass(0.5)
		h.l.Command([]byte(first))
		h.pass(0.1)
		h.l.Command([]byte(second))
		h.pass(0.1)
		h.say(mark.Stop{}.Statement())
		h.pass(0.5)
		h.heard()
		h.say(mark.Level{Pin: 1, V: 0}.Statement())
		h.pass(0.1)
		if got := kinds(h.heard()); got != "ok" {
			t.Errorf("after %q and %q a command is answered by %q", first, second, got)
		}
	})
}
