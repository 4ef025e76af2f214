package clock

import (
	"math"
	"math/rand/v2"
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
	for lost := false; ; s.packet++ {
		if s.since++; !lost && s.since > s.apart && s.rng.Float64() < s.lossShare {
			n := int64(1 + s.rng.IntN(s.lossMost))
			s.packet += n
			s.since, lost = 0, true
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
			seed := rand.Uint64()
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
				if ppm := (1/m.Quality().Rate - 1) * 1e6; math.Abs(ppm-s.ppm) > 1 {
					t.Errorf("rate off by %.3f ppm, true is %g", ppm, s.ppm)
				}
			}
		})
	}
}

// Jitter of several packets hides losses, but must not make up many.
func TestJitterAbovePackets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := stream{rng: rand.New(rand.NewPCG(seed, 1)), rateHz: 100, packetRows: 1, jitter: uniformJitter(40e-3), ppm: 300}
	a := follow(t, &s, 200_000)
	if n := len(a.Gaps()); n > 10 {
		t.Errorf("%d gaps in a stream without losses", n)
	}
}
