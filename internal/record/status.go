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

// sum adds up what is no NaN.
type sum struct {
	total float64
	n     int64
}

func (s *sum) add(values []float64) {
	for _, v := range values {
		if v == v {
			s.total += v
			s.n++
		}
	}
}

func (s *sum) join(t sum) {
	s.total += t.total
	s.n += t.n
}

func (s sum) mean() float64 { return s.total / float64(s.n) }

// slot is what was measured in a stretch of host time.
type slot struct{ volts, amps, watts sum }

// gauge follows what a meter sends. Its methods may be called by several
// goroutines.
type gauge struct {
	mu     sync.Mutex
	status Status // without what is worked out when it is asked for
	index  struct{ volts, amps, watts int }
	power  []float64 // of the block at hand, W

	slots [TraceSlots]slot // by number, modulo their count
	last  int64            // number of the newest slot

	segment segmentGauge
	missing int64 // of earlier segments, as status.Gaps
}

// segmentGauge follows the clock of one segment.
type segmentGauge struct {
	arrivals        *clock.Arrivals // nil where it cannot be followed
	rows            int64
	firstRows       int64 // those of the first block
	firstNs, lastNs int64 // arrivals, host ns
	timeNs          int64 // of the last sample, where samples have times
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
		if len(b.TimesNs) > 0 {
			s.timeNs = b.TimesNs[0]
		}
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
	to.volts.add(volts)
	to.amps.add(amps)
	var power sum
	power.add(watts)
	to.watts.join(power)
	if watts != nil {
		g.status.Unknown += int64(len(watts)) - power.n
	}
	g.status.Joules += g.integral(watts, b.TimesNs)
	g.status.Coulombs += g.integral(amps, b.TimesNs)
	if n := len(b.TimesNs); n > 0 {
		g.segment.timeNs = b.TimesNs[n-1]
	}
}

// integral is the sum of values times their periods; a sample with a time of
// its own lasts from the one before.
func (g *gauge) integral(values []float64, timesNs []int64) float64 {
	if rateHz := g.status.Info.RateHz; rateHz > 0 {
		var s sum
		s.add(values)
		return s.total / rateHz
	}
	total, before := 0.0, g.segment.timeNs
	for i, v := range values {
		if v == v {
			total += v * float64(timesNs[i]-before) * 1e-9
		}
		before = timesNs[i]
	}
	return total
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
	missing, gaps := g.segment.lost()
	s.Missing = g.missing + missing
	s.Gaps += gaps
	s.RateHz = math.NaN()
	if seg := g.segment; seg.lastNs > seg.firstNs {
		s.RateHz = float64(seg.rows-seg.firstRows+missing) / (float64(seg.lastNs-seg.firstNs) * 1e-9)
	}
	newest := hostNs / TraceNs
	g.slot(newest)
	var mean slot
	for i := range int64(TraceSlots) {
		part := g.at(newest - i)
		s.Trace[TraceSlots-1-i] = part.watts.mean()
		if i < meanSlots {
			mean.volts.join(part.volts)
			mean.amps.join(part.amps)
			mean.watts.join(part.watts)
		}
	}
	s.Volts, s.Amps, s.Watts = mean.volts.mean(), mean.amps.mean(), mean.watts.mean()
	return s
}
