package record

import (
	"math"
	"slices"
	"sync"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/clock"
)

const (
	// TraceSlots is how many slots of TraceNs a Status keeps: a minute.
	TraceSlots = 240
	// TraceNs is the length of a slot, host ns.
	TraceNs = 250_000_000

	meanSlots = 4 // a second
)

// State says what a meter is doing.
type State string

const (
	Waiting   State = "waiting" // for the first samples
	Streaming State = "streaming"
	Gone      State = "gone" // it is tried again
	Ended     State = "ended"
)

// Status is what is known of a meter while it is recorded. What cannot be
// stated is NaN.
type Status struct {
	Name  string
	Info  meters.Info // zero before the first samples
	State State

	// Volts, Amps and Watts are means over about the last second, in V, A, W.
	Volts, Amps, Watts float64
	// Joules and Coulombs are sums over all samples, J and C, at the nominal
	// rate; what was not measured adds nothing.
	Joules, Coulombs float64
	// RateHz is samples per host second in the segment that goes on.
	RateHz float64

	Samples  int64  // received, and handed to the disk
	Unknown  int64  // of those: without a value
	Dropped  int64  // received, but the disk was too slow
	Missing  int64  // never came, as the arrivals tell
	Gaps     int    // that the arrivals show, and breaks between segments
	Segments int    // begun
	Notice   string // the last remark; may hold what the meter sent
	// Trace is the mean power of the last TraceSlots slots, W, the newest
	// last; NaN where there was none.
	Trace [TraceSlots]float64
}

// sum adds up what is no NaN, with the time that it stands for.
type sum struct {
	total   float64 // value x s
	seconds float64
	n       int64
}

func (s *sum) join(t sum) {
	s.total += t.total
	s.seconds += t.seconds
	s.n += t.n
}

func (s sum) mean() float64 { return s.total / s.seconds }

// slot is what was measured in a stretch of host time.
type slot struct{ volts, amps, watts sum }

func (s slot) filled() bool { return s.volts.n+s.amps.n+s.watts.n > 0 }

// gauge follows what a meter sends. Its methods may be called by several
// goroutines.
type gauge struct {
	mu     sync.Mutex
	status Status // without what is worked out when it is asked for
	index  struct{ volts, amps, watts int }
	power  []float64 // of the block at hand, W

	slots   [TraceSlots]slot // by number, modulo their count
	last    int64            // number of the newest slot
	everyNs int64            // between the last two blocks, host ns

	segment segmentGauge
	missing int64 // of earlier segments, as status.Gaps
}

// segmentGauge follows the clock of one segment.
type segmentGauge struct {
	arrivals        *clock.Arrivals // nil where it cannot be followed
	rows            int64
	firstRows       int64 // those of the first block
	firstNs, lastNs int64 // arrivals, host ns
	// Where samples have times: that of the last one, and its values, which
	// stand until the next.
	timeNs int64
	held   [3]struct {
		value float64
		known bool
	}
}

func newGauge(name string) *gauge {
	return &gauge{status: Status{Name: name, State: Waiting}}
}

// open says that the meter's next samples begin a segment.
func (g *gauge) open(info meters.Info) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.Info, g.status.State = info, Streaming
	g.index.volts = slices.Index(info.Columns, meters.Volts)
	g.index.amps = slices.Index(info.Columns, meters.Amps)
	g.index.watts = slices.Index(info.Columns, meters.Watts)
	g.begin()
}

// resume says that a new segment begins while the meter goes on.
func (g *gauge) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin()
}

// begin begins a segment.
func (g *gauge) begin() {
	missing, gaps := g.segment.lost()
	g.missing += missing
	g.status.Gaps += gaps
	if g.status.Segments > 0 {
		g.status.Gaps++
	}
	g.status.Segments++
	g.segment = segmentGauge{}
	if info := g.status.Info; info.RateHz > 0 {
		// A rate that cannot be followed shows no losses.
		g.segment.arrivals, _ = clock.NewArrivals(info.RateHz, info.PacketSamples)
	}
}

// lost returns what the arrivals say is missing.
func (s *segmentGauge) lost() (rows int64, gaps int) {
	if s.arrivals == nil {
		return 0, 0
	}
	for _, gap := range s.arrivals.Gaps() {
		rows += gap.Rows
		gaps++
	}
	return rows, gaps
}

// block takes a block of samples that was there at a host time.
func (g *gauge) block(b meters.Block, hostNs int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := int64(b.Len())
	s := &g.segment
	if s.rows == 0 {
		s.firstRows, s.firstNs = n, hostNs
	} else {
		g.everyNs = hostNs - s.lastNs
	}
	s.rows += n
	s.lastNs = hostNs
	if s.arrivals != nil && b.ArrivalNs >= 0 {
		s.arrivals.Add(s.rows, float64(hostNs)*1e-9)
	}
	g.status.Samples += n
	g.measure(b, g.slot(hostNs/TraceNs))
}

// slot returns the slot of a number, and empties those that were passed over.
func (g *gauge) slot(no int64) *slot {
	for g.last = max(g.last, no-TraceSlots); g.last < no; {
		g.last++
		*g.at(g.last) = slot{}
	}
	return g.at(no)
}

// at is where the slot of a number stands.
func (g *gauge) at(no int64) *slot { return &g.slots[(no%TraceSlots+TraceSlots)%TraceSlots] }

// measure adds the values of a block up.
func (g *gauge) measure(b meters.Block, to *slot) {
	column := func(i int) []float64 {
		if i < 0 {
			return nil
		}
		return b.Values[i]
	}
	volts, amps, watts := column(g.index.volts), column(g.index.amps), column(g.index.watts)
	if watts == nil && volts != nil && amps != nil {
		g.power = g.power[:0]
		for i, v := range volts {
			g.power = append(g.power, v*amps[i])
		}
		watts = g.power
	}
	power := g.sum(2, watts, b.TimesNs)
	current := g.sum(1, amps, b.TimesNs)
	to.volts.join(g.sum(0, volts, b.TimesNs))
	to.amps.join(current)
	to.watts.join(power)
	for _, v := range watts {
		if v != v {
			g.status.Unknown++
		}
	}
	g.status.Joules += power.total
	g.status.Coulombs += current.total
	if n := len(b.TimesNs); n > 0 {
		g.segment.timeNs = b.TimesNs[n-1]
	}
}

// sum sums a quantity over the time that its values stand for: the period of
// the rate, or, where samples have times of their own, until the next one. The
// last of those is added when that comes.
func (g *gauge) sum(quantity int, values []float64, timesNs []int64) sum {
	var s sum
	if rateHz := g.status.Info.RateHz; rateHz > 0 {
		for _, v := range values {
			if v == v {
				s.total += v
				s.n++
			}
		}
		s.total /= rateHz
		s.seconds = float64(s.n) / rateHz
		return s
	}
	at := g.segment.timeNs
	held := &g.segment.held[quantity]
	for i, v := range values {
		if seconds := float64(timesNs[i]-at) * 1e-9; held.known && held.value == held.value {
			s.join(sum{held.value * seconds, seconds, 1})
		}
		held.value, held.known, at = v, true, timesNs[i]
	}
	return s
}

// change sets what else is known.
func (g *gauge) change(f func(*Status)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.status)
}

// notice takes a remark.
func (g *gauge) notice(text string) { g.change(func(s *Status) { s.Notice = text }) }

// read returns the status at a host time.
func (g *gauge) read(hostNs int64) Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	if s.Samples > 0 && s.Unknown == s.Samples {
		s.Joules, s.Coulombs = math.NaN(), math.NaN()
	}
	missing, gaps := g.segment.lost()
	s.Missing = g.missing + missing
	s.Gaps += gaps
	s.RateHz = math.NaN()
	if seg := g.segment; seg.lastNs > seg.firstNs {
		s.RateHz = float64(seg.rows-seg.firstRows+missing) / (float64(seg.lastNs-seg.firstNs) * 1e-9)
	}
	g.show(&s, hostNs/TraceNs)
	return s
}

// show fills in means and trace. What a slow meter has measured stands until
// its next block is overdue.
func (g *gauge) show(s *Status, newest int64) {
	g.slot(newest)
	hold := 2 * g.everyNs / TraceNs
	var second slot
	held, heldNo := slot{}, newest-TraceSlots-hold
	for i := range int64(TraceSlots) {
		no := newest - TraceSlots + 1 + i
		part := *g.at(no)
		switch {
		case part.filled():
			held, heldNo = part, no
		case no-heldNo <= hold:
			part = held
		}
		s.Trace[i] = part.watts.mean()
		if i >= TraceSlots-meanSlots {
			second.volts.join(part.volts)
			second.amps.join(part.amps)
			second.watts.join(part.watts)
		}
	}
	s.Volts, s.Amps, s.Watts = second.volts.mean(), second.amps.mean(), second.watts.mean()
}
