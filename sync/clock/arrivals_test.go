package clock

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// stream simulates the packets of a meter.
type stream struct {
	rng        *rand.Rand
	rateHz     float64 // nominal
	ppm        float64 // the true rate is higher by this
	packetRows int64
	jitter     func(*rand.Rand) float64
	stallShare float64 // stalls a packet
	stallMost  float64 // s
	lossShare  float64 // losses a packet
	lossMost   int     // packets
	apart      int64   // least number of packets between losses

	// State and truth.
	packet int64 // sent
	rows   int64 // received
	until  float64
	last   float64
	since  int64
	losses []Gap
}

// next sends packets until one arrives.
func (s *stream) next() arrival {
	if s.since++; s.since > s.apart && s.rng.Float64() < s.lossShare {
		n := int64(1 + s.rng.IntN(s.lossMost))
		s.packet += n
		s.since = 0
		s.losses = append(s.losses, Gap{Row: s.rows + s.packetRows, Rows: n * s.packetRows})
	}
	sent := float64((s.packet+1)*s.packetRows) / (s.rateHz * (1 + s.ppm*1e-6))
	at := sent + s.jitter(s.rng)
	if s.rng.Float64() < s.stallShare {
		s.until = sent + s.rng.Float64()*s.stallMost
	}
	at = max(at, s.until, s.last) // in order, and not while the host stalls
	s.last = at
	s.rows += s.packetRows
	s.packet++
	return arrival{s.rows, at}
}

func expJitter(mean float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return r.ExpFloat64() * mean }
}

func uniformJitter(most float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return r.Float64() * most }
}

// score compares gaps with the truth: losses found at most nearRows from where
// the gap says with the right number of rows, missed ones, and false gaps.
func score(truth, got []Gap, nearRows int64) (found, missed, wrong int) {
	used := make([]bool, len(got))
next:
	for _, l := range truth {
		for i, g := range got {
			if !used[i] && g.Rows == l.Rows && !g.Undecided && g.From-l.Row <= nearRows && l.Row-g.Row <= nearRows {
				used[i] = true
				found++
				continue next
			}
		}
		missed++
	}
	return found, missed, len(got) - found
}

func follow(t *testing.T, s *stream, packets int) *Arrivals {
	t.Helper()
	a, err := NewArrivals(s.rateHz, int(s.packetRows))
	if err != nil {
		t.Fatal(err)
	}
	for range packets {
		p := s.next()
		a.Add(p.row, p.host)
	}
	for range 200 { // no losses at the end, so that all can be confirmed
		s.lossShare = 0
		p := s.next()
		a.Add(p.row, p.host)
	}
	a.Close()
	return a
}

// Losses of one to three packets are found among jitter of up to half a
// packet and stalls; nothing else is taken for one.
func TestLossesAreFound(t *testing.T) {
	const packets = 200_000
	for name, s := range map[string]stream{
		"exponential":      {rateHz: 100, packetRows: 4, jitter: expJitter(5e-3)},
		"uniform":          {rateHz: 100, packetRows: 4, jitter: uniformJitter(20e-3)},
		"slow clock":       {rateHz: 100, packetRows: 4, jitter: expJitter(5e-3), ppm: -5000},
		"fast clock":       {rateHz: 100, packetRows: 4, jitter: expJitter(5e-3), ppm: 5000},
		"stalls":           {rateHz: 100, packetRows: 4, jitter: expJitter(1e-3), stallShare: 1e-3, stallMost: 3},
		"one sample":       {rateHz: 100, packetRows: 1, jitter: expJitter(2e-3), ppm: 300},
		"one sample, fast": {rateHz: 100, packetRows: 1, jitter: uniformJitter(5e-3), ppm: 5000},
		"polled":           {rateHz: 100, packetRows: 4, jitter: uniformJitter(40e-3), ppm: 300},
	} {
		t.Run(name, func(t *testing.T) {
			seed := newSeed()
			t.Logf("seed %d", seed)
			for _, lossShare := range []float64{0, 2e-3} {
				s := s
				s.rng = rand.New(rand.NewPCG(seed, 1))
				s.lossShare, s.lossMost, s.apart = lossShare, 3, 300
				a := follow(t, &s, packets)
				found, missed, wrong := score(s.losses, a.Gaps(), 2*s.packetRows)
				t.Logf("%d losses in %d packets: %d found, %d missed, %d gaps wrong or misplaced", len(s.losses), packets, found, missed, wrong)
				// 1 % missed are allowed on average, with three standard deviations.
				allowed := 0.01*float64(len(s.losses)) + 3*math.Sqrt(0.01*float64(len(s.losses)))
				if float64(missed) > allowed || float64(wrong) > 1e-5*packets+allowed {
					t.Errorf("too many")
				}
				m, err := a.Map(Options{})
				if err != nil {
					t.Fatal(err)
				}
				// Three packets missed in 8,000 s are 15 ppm.
				if ppm := (1/m.Quality().Rate - 1) * 1e6; math.Abs(ppm-s.ppm) > 1+25*float64(missed) {
					t.Errorf("rate off by %.3f ppm, true is %g", ppm, s.ppm)
				}
			}
		})
	}
}

// Jitter of several packets hides losses, but must not make up many.
func TestJitterAbovePackets(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	for i := range uint64(10) {
		s := stream{rng: rand.New(rand.NewPCG(seed, i)), rateHz: 100, packetRows: 1, jitter: uniformJitter(40e-3), ppm: 300}
		a := follow(t, &s, 50_000)
		if n := len(a.Gaps()); n > 5 {
			t.Errorf("%d gaps in a stream without losses", n)
		}
		if r := a.Resolution(); r < 10e-3 || r > 40e-3 {
			t.Errorf("losses from %g s on are said to show", r)
		}
	}
}

// feed sends packets [from, to) of four rows on time, with little jitter, as
// rows that begin at row.
func feed(a *Arrivals, rng *rand.Rand, from, to int, row int64) int64 {
	for i := from; i < to; i++ {
		row += 4
		a.Add(row, 5+float64(i+1)*0.04+rng.ExpFloat64()*1e-3)
	}
	return row
}

func newArrivals(t testing.TB, rateHz float64, packetRows int) *Arrivals {
	t.Helper()
	a, err := NewArrivals(rateHz, packetRows)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestGaps(t *testing.T) {
	type loss struct{ at, packets int }
	for name, c := range map[string]struct {
		losses []loss
		want   []Gap // HostSeconds is not compared
	}{
		"none":                {nil, nil},
		"one":                 {[]loss{{500, 1}}, []Gap{{From: 2004, Row: 2004, Rows: 4}}},
		"at once":             {[]loss{{20, 2}}, []Gap{{From: 84, Row: 84, Rows: 8}}},
		"unplugged for 5 min": {[]loss{{1000, 7500}}, []Gap{{From: 4004, Row: 4004, Rows: 30000}}},
		"two within a second": {[]loss{{500, 1}, {520, 3}}, []Gap{{From: 2004, Row: 2004, Rows: 4}, {From: 2080, Row: 2080, Rows: 12}}},
		"two within 0.2 s":    {[]loss{{500, 1}, {505, 1}}, []Gap{{From: 2020, Row: 2020, Rows: 8}}},
		"near the end":        {[]loss{{1985, 1}}, []Gap{{From: 7944, Row: 7944, Rows: 4, Undecided: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			a := newArrivals(t, 100, 0)
			var row int64
			from := 0
			for _, l := range c.losses {
				row = feed(a, rng, from, l.at, row)
				from = l.at + l.packets
			}
			feed(a, rng, from, from+2000-int(row/4), row)
			a.Close()
			got := a.Gaps()
			for i := range got {
				got[i].HostSeconds = 0
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// A host that drains its buffer slowly delays packets for longer than it takes
// to confirm a loss; the packets after it show that none was lost.
func TestSlowDrainIsTakenBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := newArrivals(t, 100, 4)
	row := feed(a, rng, 0, 500, 0)
	for i := 500; i < 600; i++ {
		row += 4
		a.Add(row, 5+float64(i+1)*0.04+0.040+rng.ExpFloat64()*1e-3)
	}
	if gaps := a.Gaps(); len(gaps) != 1 {
		t.Fatalf("%+v: the test does not test what it says", gaps)
	}
	feed(a, rng, 600, 2000, row)
	a.Close()
	if gaps := a.Gaps(); len(gaps) != 0 {
		t.Errorf("%+v", gaps)
	}
	m, err := a.Map(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if y, _, err := m.Host(22); err != nil || math.Abs(y-27) > 1e-3 {
		t.Errorf("22 s is %g s, %v", y, err)
	}
}

// While the host stalls, its buffer keeps the oldest 64 packets, which then
// arrive at once.
func TestLossInAStall(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := newArrivals(t, 100, 4)
	row := feed(a, rng, 0, 500, 0)
	for range 64 {
		row += 4
		a.Add(row, 5+600*0.04)
	}
	feed(a, rng, 600, 1000, row)
	a.Close()
	want := []Gap{{From: 2004, Row: row, Rows: 144, HostSeconds: 29}}
	if got := a.Gaps(); len(got) != 1 || got[0].Rows != 144 || got[0].From != 2004 || got[0].Row < row-4 || got[0].Row > row+4 {
		t.Errorf("%+v, want about %+v", got, want)
	}
}

// Two stalls in a row look like a lasting shift until the second one is over.
func TestStallAfterStall(t *testing.T) {
	for second := 560; second < 620; second++ {
		rng := rand.New(rand.NewPCG(1, 1))
		a := newArrivals(t, 100, 4)
		row := feed(a, rng, 0, 500, 0)
		for i := 500; i < second; i++ {
			row += 4
			host := 5 + 540*0.04
			if i >= 539 { // one packet short of the level before
				host = 5 + float64(second)*0.04
			}
			a.Add(row, host)
			if gaps := a.Gaps(); len(gaps) != 0 {
				t.Fatalf("second stall until packet %d: %+v at packet %d", second, gaps, i)
			}
		}
		feed(a, rng, second, 1000, row)
		a.Close()
		if gaps := a.Gaps(); len(gaps) != 0 {
			t.Errorf("second stall until packet %d: %+v at the end", second, gaps)
		}
	}
}

func TestDisorderIsPassedOver(t *testing.T) {
	a := newArrivals(t, 100, 4)
	for i := range 1000 {
		row, host := int64(4*i), float64(i)*0.04
		a.Add(row, host)
		a.Add(row, host)
		a.Add(row+4, host-1)
		a.Add(row-4, host+100)
		a.Add(row+4, math.NaN())
	}
	a.Close()
	if in, out := a.Packets(); in != 1000 || out != 4000 {
		t.Errorf("%d packets, %d passed over", in, out)
	}
	if len(a.Gaps()) > 0 {
		t.Errorf("%+v", a.Gaps())
	}
}

// Packets of any size: what was lost is a number of rows.
func TestVaryingPackets(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	a := newArrivals(t, 1000, 0)
	var row, lost int64
	for i := range 5000 {
		if i == 2500 {
			lost = 100
		}
		row += 5 + rng.Int64N(10)
		a.Add(row, float64(row+lost)/1000+rng.ExpFloat64()*1e-4)
	}
	a.Close()
	gaps := a.Gaps()
	if len(gaps) != 1 || gaps[0].Rows < 90 || gaps[0].Rows > 110 || !gaps[0].Undecided {
		t.Errorf("%+v", gaps)
	}
}

// Few packets say little, but never wrongly.
func TestFewPackets(t *testing.T) {
	for n := range 30 {
		a := newArrivals(t, 100, 4)
		feed(a, rand.New(rand.NewPCG(1, 1)), 0, n, 0)
		a.Close()
		a.Close()
		if len(a.Gaps()) != 0 {
			t.Errorf("%d packets: %+v", n, a.Gaps())
		}
		m, err := a.Map(Options{})
		if (err == nil) != (n >= 2) {
			t.Errorf("%d packets: %v", n, err)
		}
		if n < 3 {
			continue
		}
		if q := m.Quality(); math.Abs(q.Rate-1) > 6*q.URate {
			t.Errorf("%d packets: %+v", n, q)
		}
	}
	for _, c := range []struct {
		hz   float64
		rows int
	}{{0, 4}, {-1, 4}, {math.NaN(), 4}, {math.Inf(1), 4}, {100, -1}} {
		if _, err := NewArrivals(c.hz, c.rows); err == nil {
			t.Errorf("%g rows a second in packets of %d accepted", c.hz, c.rows)
		}
	}
}

// Whatever comes, memory stays bounded and the map finite.
func FuzzArrivals(f *testing.F) {
	f.Add([]byte("\x04\x28\x04\x28\x04\xff\x04\x00\x04\x28"), 100.0, uint8(4))
	f.Add([]byte("\x01\x01\x00\x80\xff\xff"), 1.0, uint8(0))
	f.Fuzz(func(t *testing.T, steps []byte, rateHz float64, packetRows uint8) {
		a, err := NewArrivals(rateHz, int(packetRows))
		if err != nil {
			return
		}
		var row int64
		host := 0.0
		for i := 0; i+1 < len(steps); i += 2 {
			row += int64(int8(steps[i]))
			host += float64(int8(steps[i+1])) / 1000
			a.Add(row, host)
		}
		a.Close()
		if n := len(a.history.points) + len(a.recent.points) + len(a.pending); n > historyPoints+recentPoints {
			t.Fatalf("%d points are kept", n)
		}
		for _, g := range a.Gaps() {
			if g.Rows <= 0 || g.From > g.Row {
				t.Fatalf("%+v", g)
			}
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := newArrivals(t, 100, 4)
	feed(a, rng, 0, 1_000_000, 0)
	if h, r := len(a.history.points), len(a.recent.points); h > historyPoints || h < historyPoints/4 || r > recentPoints {
		t.Errorf("%d and %d points are kept", h, r)
	}
	m, err := a.Map(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if q := m.Quality(); math.Abs(q.PPM) > 0.01 || q.Nodes < 100 {
		t.Errorf("%+v", q)
	}
}

func BenchmarkArrivals(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := newArrivals(b, 100, 4)
	b.ReportAllocs()
	i := 0
	var row int64
	for b.Loop() {
		row = feed(a, rng, i, i+1, row)
		i++
	}
}
