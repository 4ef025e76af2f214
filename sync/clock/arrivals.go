package clock

import (
	"fmt"
	"math"
	"slices"
)

// How a loss is told from a delay. A loss shifts all later arrivals by whole
// packet periods, a stall of the host only some of them: so a shift is a loss
// if it has lasted for confirmSeconds and confirmPackets.
const (
	confirmSeconds = 1.5
	confirmPackets = 24
	settleSeconds  = 1.0 // the last second and two thirds of the packets only confirm the rest
	// confirmDoubt is -ln of the probability that all packets are late by
	// chance while a shift is confirmed.
	confirmDoubt = 14
	promptWeight = 1.0 / 256 // of one packet in the share of prompt ones
	promptLeast  = 1e-2
	sameSteps    = 8       // show the size of packets
	leastPackets = 8       // show a shift, undecided, at the end of a stream
	mergePackets = 12      // losses closer than this are one
	pendingMost  = 1 << 16 // packets that wait for a decision, a bound on memory
	// leastShift is the smallest shift that is seen in arrivals at all, s:
	// delays of USB and of schedulers vary slowly by about as much.
	leastShift = 2e-3
)

// How the running lower envelope of the arrivals is kept: minima of equal
// stretches of time. The recent ones say when the next packet is due, the
// others, whose number is bounded, make the Map.
const (
	recentPoints  = 64
	recentSeconds = 20
	historyPoints = 4096
	// nominalRate is how far a nominal rate may be off, relative. Meters are
	// off by up to 0.5 %.
	nominalRate = 6e-3
	// The stream is watched for startSeconds at least, startMost at most,
	// before the first decision; longer than the least where the delays
	// scatter by more than the threshold over startScatter.
	startSeconds = 3
	startMost    = 60
	startScatter = 3
)

// Gap says that a stream lost rows. Within a burst after a stall, arrivals
// cannot show where: the loss lies between From and Row then, most likely at
// Row. Jitter above half a packet may misplace it by a packet.
type Gap struct {
	From        int64   // the first row that may have arrived after it
	Row         int64   // the first row that did, as counted by the receiver
	Rows        int64   // rows lost
	HostSeconds float64 // arrival of Row
	// Undecided: the shift is no whole number of packets, or the stream ended
	// before it could be confirmed.
	Undecided bool
}

// Arrivals follows the packets of a meter that samples on a clock of its own
// and tells lost packets from late ones. It needs bounded memory for any
// length of stream and constant time for a packet.
//
// It cannot see losses shorter than 2 ms or than the scatter of the delays, see
// Resolution, and takes losses that follow each other within about 1.5 s for
// one now and then. The true rate must be within 0.6 % of the nominal one.
type Arrivals struct {
	rateHz     float64
	packetRows int64
	step       int64 // rows from packet to packet, as long as they agree
	steps      int   // how many did

	packets, disordered int64
	lastRow             int64
	lastHost            float64
	lost                int64 // rows
	gaps                []Gap

	recent, history minima
	due             line // arrival after the smallest delay, over source seconds
	dueAtGap        line // due when the last gap was found
	started         bool
	scatter         float64 // of the delays where it hides packets, s
	startSpan       float64 // source seconds that the first line rests on
	pending         []arrival
	lookAt          int     // number of pending packets at which to decide next
	prompt          float64 // share of packets that come before the threshold

	rate, rateLimit float64 // what the slope of due may be, and how far off
}

type arrival struct {
	row  int64
	host float64
}

// NewArrivals follows a stream of rateHz samples a second by its nominal rate,
// which arrive packetRows at a time; 0 where that is not known.
func NewArrivals(rateHz float64, packetRows int) (*Arrivals, error) {
	if !(rateHz > 0 && rateHz <= 1e9) || packetRows < 0 {
		return nil, fmt.Errorf("follow arrivals: %g samples a second in packets of %d: not above 0 and up to 1e9", rateHz, packetRows)
	}
	return &Arrivals{
		rateHz: rateHz, packetRows: int64(packetRows),
		recent:  minima{most: recentPoints, keepSeconds: recentSeconds},
		history: minima{most: historyPoints},
		rate:    1, rateLimit: nominalRate,
	}, nil
}

// Expect says what the rate is known to be, in host seconds per second of the
// sample clock, and how far off that may be, relative. Call it before Add.
func (a *Arrivals) Expect(rate, tolerance float64) { a.rate, a.rateLimit = rate, tolerance }

// Add takes one packet: row is the number of rows received before it or with
// it, always in the same way. Packets that do not come after the one before,
// by row or by time, are counted and passed over.
func (a *Arrivals) Add(row int64, hostSeconds float64) {
	if !finite(hostSeconds) || a.packets > 0 && (row <= a.lastRow || hostSeconds < a.lastHost) {
		a.disordered++
		return
	}
	if a.packets > 0 {
		a.learnSize(row - a.lastRow)
	}
	a.packets++
	a.lastRow, a.lastHost = row, hostSeconds
	a.take(arrival{row, hostSeconds})
}

// learnSize takes the size of packets from the stream where nobody stated it:
// the first sameSteps steps must agree, otherwise a loss may be any number of
// rows.
func (a *Arrivals) learnSize(step int64) {
	if a.packetRows > 0 {
		return
	}
	if a.steps > 0 && step != a.step {
		a.packetRows = 1
		return
	}
	a.step = step
	if a.steps++; a.steps == sameSteps {
		a.packetRows = step
	}
}

// quantum is the shift that a loss of one packet makes, in seconds.
func (a *Arrivals) quantum() float64 { return float64(max(a.packetRows, 1)) / a.rateHz }

// threshold is the delay beyond which a packet may come after a loss.
func (a *Arrivals) threshold() float64 { return max(a.quantum()/2, leastShift, a.scatter) }

// Resolution is the shortest loss that the stream can show, in seconds; 0
// before the first decision.
func (a *Arrivals) Resolution() float64 {
	if !a.started {
		return 0
	}
	return max(a.threshold(), a.quantum())
}

func (a *Arrivals) source(row int64) float64 { return float64(row+a.lost) / a.rateHz }

// delay is how much later than due a packet came.
func (a *Arrivals) delay(p arrival) float64 { return p.host - a.due.at(a.source(p.row)) }

func (a *Arrivals) take(p arrival) {
	if !a.started {
		a.pending = append(a.pending, p)
		if len(a.pending) >= a.lookAt {
			a.start(false)
		}
		return
	}
	switch d := a.delay(p); {
	case d >= a.threshold():
		a.pending = append(a.pending, p)
		a.decide()
	default:
		a.learnPrompt(len(a.pending))
		a.pending, a.lookAt = a.pending[:0], 0
		if early := a.early(p); early >= a.threshold() {
			a.retract(early)
		}
		a.settle(p)
	}
}

// start makes a first line of the packets so far, if they suffice, or at any
// rate if forced, and takes them again. Its slope is that of short stretches of
// the packets, few of which a loss spoils.
func (a *Arrivals) start(force bool) {
	pending := a.pending
	span := a.source(pending[len(pending)-1].row) - a.source(pending[0].row)
	pairs := make([]Pair, len(pending))
	for i, p := range pending {
		pairs[i] = Pair{a.source(p.row), p.host}
	}
	slope := middle(pairs, groups/4)
	a.due = lineBelow(pairs, a.hold(slope))
	prompt, scatter := a.calmest(pending)
	enough := (slope == a.hold(slope) || a.rateLimit < nominalRate) &&
		span >= startSeconds*max(1, startScatter*scatter/a.threshold()) &&
		prompt*float64(len(pending)) >= confirmPackets
	if !force && !enough && span < startMost && len(pending) < pendingMost {
		a.lookAt = len(pending) + len(pending)/8 + 1
		return
	}
	a.started, a.startSpan, a.prompt = true, span, max(prompt, promptLeast)
	if scatter > a.quantum() {
		a.scatter = scatter // single packets do not stand out
	}
	a.pending, a.lookAt = nil, 0
	for _, p := range pending {
		a.take(p)
	}
}

// calmest returns, of the quarter of the packets whose delays scatter least,
// the share of packets that come less than the threshold after the first, and
// how far the median delay lies above the smallest.
func (a *Arrivals) calmest(pending []arrival) (prompt, scatter float64) {
	scatter = math.Inf(1)
	for i := range 4 {
		var delays []float64
		for _, p := range pending[i*len(pending)/4 : (i+1)*len(pending)/4] {
			delays = append(delays, a.delay(p))
		}
		slices.Sort(delays)
		if n := len(delays); n > 0 && delays[n/2]-delays[0] < scatter {
			near, _ := slices.BinarySearch(delays, delays[0]+a.threshold())
			prompt, scatter = float64(near)/float64(n), delays[n/2]-delays[0]
		}
	}
	return prompt, scatter
}

// hold keeps a slope within what the rate may be.
func (a *Arrivals) hold(slope float64) float64 {
	return min(max(slope, a.rate-a.rateLimit), a.rate+a.rateLimit)
}

// lineBelow is the highest line of a given slope below pairs.
func lineBelow(pairs []Pair, slope float64) line {
	start := math.Inf(1)
	for _, p := range pairs {
		start = min(start, p.HostSeconds-slope*p.SourceSeconds)
	}
	return line{start, slope}
}

// learnPrompt follows the share of packets that come before the threshold,
// given one that did after late ones that did not.
func (a *Arrivals) learnPrompt(late int) {
	keep := math.Pow(1-promptWeight, float64(min(late, 1/promptWeight)))
	a.prompt = max(a.prompt*keep, promptLeast)
	a.prompt += (1 - a.prompt) * promptWeight
}

// settle adds a packet to the envelope.
func (a *Arrivals) settle(p arrival) {
	pair := Pair{a.source(p.row), p.host}
	fresh := a.recent.add(pair, a.due.slope)
	a.history.add(pair, a.due.slope)
	if fresh || pair.HostSeconds < a.due.at(pair.SourceSeconds) {
		a.foresee()
	}
}

// foresee renews the line on which packets are due.
func (a *Arrivals) foresee() {
	points := a.recent.points
	if len(points) < 2 || points[len(points)-1].SourceSeconds-points[0].SourceSeconds < a.startSpan {
		a.due = lineBelow(points, a.due.slope)
		return
	}
	l, _ := below(points)
	a.due = lineBelow(points, a.hold(l.slope))
}

// decide makes a gap of the shift of the pending packets once they have waited
// long enough. Since looking costs time in proportion to their number, it
// looks ever less often.
func (a *Arrivals) decide() {
	n := len(a.pending)
	confirm := max(confirmPackets, int(confirmDoubt/a.prompt))
	full := n >= pendingMost
	if !full && (n < confirm || n < a.lookAt || a.pending[n-1].host-a.pending[0].host < confirmSeconds) {
		return
	}
	a.lookAt = n + n/8
	last := n - confirm*2/3
	for last >= 0 && !full && a.pending[n-1].host-a.pending[last].host < settleSeconds {
		last--
	}
	if last >= 0 && (full || a.steady(last)) {
		a.book(last, false)
	}
}

// steady reports whether the pending packets from index last on stay on one
// level: early and late ones of them come close to the lowest. Within a burst
// after a stall only one packet does, since each is less late than the one
// before by a period.
func (a *Arrivals) steady(last int) bool {
	waiting := a.pending[last:]
	near := a.levels(waiting)[0] + a.threshold()
	var count [2]int
	for i, p := range waiting {
		if a.delay(p) < near {
			count[2*i/len(waiting)]++
		}
	}
	return count[0] >= 2 && count[1] >= 2
}

// book makes a gap of the first step in the level of the pending packets, of
// which those up to index last are confirmed by the rest, and takes the
// packets after it once more.
func (a *Arrivals) book(last int, undecided bool) {
	pending, quantum := a.pending, a.quantum()
	levels := a.levels(pending)
	whole := func(i int) float64 { return math.Floor(levels[i]/quantum + 0.25) }
	inBurst := func(i int) bool { return a.delay(pending[i]) > levels[i]+1.5*quantum }
	i := 0
	for i < last && whole(i) < 1 {
		i++
	}
	if !undecided && !inBurst(0) && (whole(i) < 1 || i > mergePackets) {
		a.restart()
		return
	}
	// A late packet right before a loss is no loss of its own.
	for j := i + 1; j <= min(i+mergePackets, last); j++ {
		if whole(j) > whole(i) {
			i = j
		}
	}
	count := max(whole(i), 1)
	apart := math.Abs(levels[i]/quantum - count)
	undecided = undecided || apart > 0.3 || a.threshold() > quantum/2 || levels[i]*a.rateDoubt() > quantum/4
	from := pending[i].row
	if inBurst(i) {
		// Buffers keep the oldest packets, so that a loss during a stall lies
		// where the burst after it ends.
		for i < last && a.delay(pending[i]) > levels[i]+quantum/2 {
			i++
		}
	}
	g := Gap{From: from, Row: pending[i].row, Rows: int64(count) * max(a.packetRows, 1), HostSeconds: pending[i].host, Undecided: undecided}
	a.gaps = append(a.gaps, g)
	a.lost += g.Rows
	a.dueAtGap = a.due
	a.pending, a.lookAt = nil, 0
	// The first packets may belong before the loss; counted after it they would
	// seem early, and bend the envelope.
	for _, p := range pending[min(i+mergePackets, len(pending)):] {
		a.take(p)
	}
}

// restart watches the stream anew, from the pending packets on: they are late,
// but by no whole packet or more and more, so that it is the line on which
// they were due that is wrong.
func (a *Arrivals) restart() {
	a.started = false
	a.recent = minima{most: recentPoints, keepSeconds: recentSeconds}
	a.lookAt = len(a.pending) + 1
}

// levels returns the smallest delay of each packet and all after it.
func (a *Arrivals) levels(pending []arrival) []float64 {
	levels := make([]float64, len(pending))
	least := math.Inf(1)
	for i := len(pending) - 1; i >= 0; i-- {
		least = min(least, a.delay(pending[i]))
		levels[i] = least
	}
	return levels
}

// rateDoubt is how well the rate is known when the length of a gap is
// computed from it, relative.
func (a *Arrivals) rateDoubt() float64 {
	points := a.recent.points
	if len(points) < recentPoints/2 {
		return a.rateLimit
	}
	return 20e-6
}

// early is how much earlier a packet came than any could after the last gap, by
// the line at the time of the gap: the present one may have sunk to such
// packets bit by bit.
func (a *Arrivals) early(p arrival) float64 {
	if !a.fresh() {
		return 0
	}
	return a.dueAtGap.at(a.source(p.row)) - p.host
}

// fresh reports whether the last gap may still be taken back.
func (a *Arrivals) fresh() bool {
	n := len(a.gaps)
	return n > 0 && a.lastHost-a.gaps[n-1].HostSeconds <= recentSeconds
}

// retract takes rows out of the last gaps that a packet proves false: it came
// early, which no delay allows. This happens after a stall that drained so
// slowly that it looked like a loss.
func (a *Arrivals) retract(earlySeconds float64) {
	rows := int64(math.Round(earlySeconds/a.quantum())) * max(a.packetRows, 1)
	for rows > 0 && a.fresh() {
		g := &a.gaps[len(a.gaps)-1]
		back := min(rows, g.Rows)
		g.Rows -= back
		rows -= back
		a.lost -= back
		a.recent.shift(g.HostSeconds, float64(back)/a.rateHz)
		a.history.shift(g.HostSeconds, float64(back)/a.rateHz)
		if g.Rows > 0 {
			break
		}
		a.gaps = a.gaps[:len(a.gaps)-1]
	}
	if len(a.recent.points) > 0 {
		a.foresee()
	}
}

// Close decides what is still open at the end of the stream.
func (a *Arrivals) Close() {
	if !a.started && len(a.pending) > 0 {
		a.start(true)
	}
	for len(a.pending) >= leastPackets {
		a.book(len(a.pending)-leastPackets, true)
	}
	a.pending = nil
}

// Gaps returns the losses found so far, by row. A gap is known 1.5 s after it
// at the earliest, and one of the last 20 s may yet be taken back.
func (a *Arrivals) Gaps() []Gap { return append([]Gap(nil), a.gaps...) }

// Packets returns how many packets came, and how many more were passed over
// because they did not come after the one before.
func (a *Arrivals) Packets() (in, disordered int64) { return a.packets, a.disordered }

// Map returns the map from sample time, (row + rows lost before it)/RateHz
// seconds, to the host clock, made of all packets so far. Its rate times the
// true rate of the samples is the nominal one.
func (a *Arrivals) Map(o Options) (*Map, error) {
	m, err := Fit(a.history.points, o)
	if err != nil {
		return nil, fmt.Errorf("fit %d packets: %w", a.packets, err)
	}
	return m, nil
}

// minima keeps the lowest points of equal stretches of source time. The
// stretches grow as points come, until most points cover keepSeconds; then
// the oldest are dropped. With keepSeconds 0 they grow without end.
type minima struct {
	points      []Pair
	most        int
	keepSeconds float64
	width       float64 // of a stretch, s
}

// add takes a point and reports whether it opened a new stretch. Lowest is
// relative to a line of the given slope.
func (m *minima) add(p Pair, slope float64) bool {
	if n := len(m.points); n > 0 && m.same(m.points[n-1], p) {
		m.points[n-1] = lower(m.points[n-1], p, slope)
		return false
	}
	m.points = append(m.points, p)
	if len(m.points) > m.most {
		m.thin(slope)
	}
	return true
}

func (m *minima) same(a, b Pair) bool {
	return m.width > 0 && math.Floor(a.SourceSeconds/m.width) == math.Floor(b.SourceSeconds/m.width)
}

func lower(a, b Pair, slope float64) Pair {
	if b.HostSeconds-a.HostSeconds < slope*(b.SourceSeconds-a.SourceSeconds) {
		return b
	}
	return a
}

func (m *minima) thin(slope float64) {
	full := 2 * m.keepSeconds / float64(m.most)
	if m.keepSeconds > 0 && m.width >= full {
		m.points = append(m.points[:0], m.points[m.most/2:]...)
		return
	}
	span := m.points[len(m.points)-1].SourceSeconds - m.points[0].SourceSeconds
	m.width = 2 * max(m.width, span/float64(m.most))
	if m.keepSeconds > 0 {
		m.width = min(m.width, full)
	}
	kept := m.points[:1]
	for _, p := range m.points[1:] {
		if last := &kept[len(kept)-1]; m.same(*last, p) {
			*last = lower(*last, p, slope)
		} else {
			kept = append(kept, p)
		}
	}
	m.points = kept
}

// shift moves the points since a host time back by seconds of source time.
func (m *minima) shift(sinceHost, seconds float64) {
	for i := range m.points {
		if m.points[i].HostSeconds >= sinceHost {
			m.points[i].SourceSeconds -= seconds
		}
	}
}
