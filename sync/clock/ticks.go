package clock

import (
	"fmt"
	"math"
	"sort"
)

// Tolerances of Unwrapper.
const (
	// tickTolerance is how far a tick rate may be off, relative.
	tickTolerance = 0.01
	// tickSlack is how much later than another one a beacon may arrive, s.
	tickSlack = 2
	// wandering is how far the rate may move from the mean of an epoch.
	wandering = 100e-6
)

// EventKind names what happened to a tick counter.
type EventKind string

const (
	Wrap  EventKind = "wrap"  // it passed its largest value
	Reset EventKind = "reset" // it restarted
	Jump  EventKind = "jump"  // it changed by what no wrap or restart explains
	Lost  EventKind = "lost"  // too long without a reading to count its wraps
	Stray EventKind = "stray" // one reading fitted neither before nor after it
)

// Event is something that happened to a tick counter before a reading; a
// Stray is about the reading before it.
type Event struct {
	Kind  EventKind
	Index int   // of the reading, counted from 0
	Wraps int64 // for Wrap
}

// Reading is a value of a tick counter on the time line of its epoch: a
// stretch in which the counter ran on. Epochs have clock maps of their own
// and are never joined.
type Reading struct {
	Epoch   int
	Ticks   int64   // since the first reading of the epoch
	Seconds float64 // the same by the nominal rate
}

// Unwrapper puts the readings of a counter that wraps, restarts or jumps on
// one time line an epoch. It keeps every reading, 16 bytes for each.
type Unwrapper struct {
	tickHz  float64
	mask    uint64
	wrap    float64 // ticks in a wrap; +Inf where it never does
	epochs  []epoch
	current int // epoch of the last reading
	count   int // readings so far
	events  []Event
}

type epoch struct {
	fromHost float64 // known to have begun by then
	base     uint64  // its first reading
	readings []tickReading
	stray    bool // of one reading that was none
}

type tickReading struct {
	ticks int64 // since base
	host  float64
}

// NewUnwrapper makes an Unwrapper of a counter of tickBits bits that counts at
// tickHz by its nominal rate. 0 bits and more than 62 never wrap.
func NewUnwrapper(tickHz float64, tickBits int) (*Unwrapper, error) {
	if !(tickHz > 0 && tickHz <= 1e12) {
		return nil, fmt.Errorf("unwrap ticks: rate of %g Hz is not above 0 and up to 1e12 Hz", tickHz)
	}
	if tickBits < 0 || tickBits > 64 {
		return nil, fmt.Errorf("unwrap ticks: %d bits are not within 0 to 64", tickBits)
	}
	u := &Unwrapper{tickHz: tickHz, mask: math.MaxUint64, wrap: math.Inf(1)}
	if tickBits > 0 {
		u.mask >>= 64 - tickBits
	}
	if tickBits > 0 && tickBits < 63 {
		u.wrap = math.Ldexp(1, tickBits)
	}
	return u, nil
}

// Events returns what happened so far, in order.
func (u *Unwrapper) Events() []Event { return append([]Event(nil), u.events...) }

// Epochs returns the number of epochs so far.
func (u *Unwrapper) Epochs() int { return len(u.epochs) }

// Restart says that the target restarted before hostSeconds, as a hello that
// nobody asked for tells. The next reading begins a new epoch.
func (u *Unwrapper) Restart(hostSeconds float64) {
	if n := len(u.epochs); n > 0 && len(u.epochs[n-1].readings) == 0 {
		return // it said so twice
	}
	if u.count > 0 {
		u.event(Reset, 0)
	}
	u.begin(hostSeconds)
}

func (u *Unwrapper) begin(hostSeconds float64) {
	u.epochs = append(u.epochs, epoch{fromHost: hostSeconds})
	u.current = len(u.epochs) - 1
}

func (u *Unwrapper) event(kind EventKind, wraps int64) {
	u.events = append(u.events, Event{kind, u.count, wraps})
}

// Beacon takes a reading that was made just before it arrived at hostSeconds,
// in order of arrival. Host time tells how often the counter wrapped since the
// reading before. A reading that cannot follow begins a new epoch; if the next
// one follows the old epoch after all, that is continued and the reading was a
// Stray.
func (u *Unwrapper) Beacon(raw uint64, hostSeconds float64) (Reading, error) {
	if err := u.check(raw, hostSeconds); err != nil {
		return Reading{}, err
	}
	defer func() { u.count++ }()
	if len(u.epochs) == 0 {
		u.begin(hostSeconds)
	}
	e := &u.epochs[u.current]
	if len(e.readings) == 0 {
		e.base = raw
		return u.put(u.current, 0, hostSeconds), nil
	}
	ticks, why := u.follow(e, raw, hostSeconds)
	if why == "" {
		return u.put(u.current, ticks, hostSeconds), nil
	}
	if back := u.before(u.current); len(e.readings) == 1 && back >= 0 {
		if ticks, why := u.follow(&u.epochs[back], raw, hostSeconds); why == "" {
			u.event(Stray, 0)
			e.stray = true
			u.current = back
			return u.put(back, ticks, hostSeconds), nil
		}
	}
	u.event(why, 0)
	u.begin(hostSeconds)
	u.epochs[u.current].base = raw
	return u.put(u.current, 0, hostSeconds), nil
}

// before returns the epoch that epoch i cut off, -1 if there is none or if
// Restart ended it.
func (u *Unwrapper) before(i int) int {
	if e := u.epochs[i]; e.fromHost < e.readings[0].host {
		return -1
	}
	for i--; i >= 0 && u.epochs[i].stray; i-- {
	}
	return i
}

func (u *Unwrapper) check(raw uint64, hostSeconds float64) error {
	if raw > u.mask {
		return fmt.Errorf("unwrap ticks: reading %d is above the largest of the counter, %d: is tick_bits right?", raw, u.mask)
	}
	if !finite(hostSeconds) {
		return fmt.Errorf("unwrap ticks: host time %g is not finite", hostSeconds)
	}
	return nil
}

// put adds a reading to an epoch.
func (u *Unwrapper) put(i int, ticks int64, hostSeconds float64) Reading {
	e := &u.epochs[i]
	if n := len(e.readings); n > 0 && !math.IsInf(u.wrap, 1) {
		wraps := func(t int64) float64 { return math.Floor((float64(e.base) + float64(t)) / u.wrap) }
		if passed := wraps(ticks) - wraps(e.readings[n-1].ticks); passed > 0 {
			u.event(Wrap, int64(passed))
		}
	}
	e.readings = append(e.readings, tickReading{ticks, hostSeconds})
	return u.reading(i, ticks)
}

func (u *Unwrapper) reading(i int, ticks int64) Reading {
	return Reading{i, ticks, float64(ticks) / u.tickHz}
}

// follow unwraps a reading that comes after those of an epoch, or says why it
// cannot be one.
func (u *Unwrapper) follow(e *epoch, raw uint64, hostSeconds float64) (ticks int64, why EventKind) {
	last := e.readings[len(e.readings)-1]
	elapsed := hostSeconds - last.host
	rate, tolerance := u.rate(e)
	slack := elapsed*tolerance + u.slack()
	if slack*u.tickHz > u.wrap/2 {
		return 0, Lost
	}
	ticks = u.nearest(raw, e.base, last.ticks, elapsed*rate)
	apart := float64(ticks-last.ticks) - elapsed*rate
	switch {
	case math.Abs(apart) <= slack*u.tickHz && ticks >= last.ticks:
		return ticks, ""
	case float64(raw) <= (elapsed+tickSlack)*u.tickHz*(1+tickTolerance):
		return 0, Reset // it may have counted from 0 since the reading before
	}
	return 0, Jump
}

// slack is how much later than another one a reading may arrive, in seconds.
func (u *Unwrapper) slack() float64 { return min(tickSlack, u.wrap/u.tickHz/4) }

// rate is the number of ticks a host second in an epoch so far, and how far
// this may be off, relative.
func (u *Unwrapper) rate(e *epoch) (ticksPerSecond, tolerance float64) {
	first, last := e.readings[0], e.readings[len(e.readings)-1]
	span := last.host - first.host
	if doubt := wandering + 2*u.slack()/span; span > 0 && doubt < tickTolerance {
		return float64(last.ticks) / span, doubt
	}
	return u.tickHz, tickTolerance
}

// nearest returns the ticks since base of the value of raw that is nearest to
// from+ahead.
func (u *Unwrapper) nearest(raw, base uint64, from int64, ahead float64) int64 {
	step := raw - base - uint64(from)
	if math.IsInf(u.wrap, 1) {
		return from + int64(step)
	}
	step &= u.mask
	wraps := math.Round((ahead - float64(step)) / u.wrap)
	return from + int64(step) + int64(wraps)*int64(u.mask+1)
}

// Past places a reading that a statement makes of its past: one that arrived
// at hostSeconds and tells of a time about lagSeconds before. Of the values
// that fit the counter it takes the nearest. Where lagSeconds is negative, the
// lag is unknown, and the latest time before the arrival is taken: right if
// less than one wrap, but for the 2 s that arrivals may differ, went by.
//
// A counter that jumped after the last beacon before the statement shows it
// only with the next one. Of the two epochs it is then the one in which the
// statement was made as long after as it says.
//
// Beacons of all the run may have been taken before, later ones included.
func (u *Unwrapper) Past(raw uint64, hostSeconds, lagSeconds float64) (Reading, error) {
	if err := u.check(raw, hostSeconds); err != nil {
		return Reading{}, err
	}
	i := sort.Search(len(u.epochs), func(i int) bool { return u.epochs[i].fromHost > hostSeconds }) - 1
	for i = max(i, 0); i > 0 && u.epochs[i].stray; i-- {
	}
	r, off, err := u.pastIn(i, raw, hostSeconds, lagSeconds)
	if j := u.after(i, hostSeconds); j > 0 {
		if s, offThere, errThere := u.pastIn(j, raw, hostSeconds, lagSeconds); errThere == nil && (err != nil || offThere < off) {
			return s, nil
		}
	}
	return r, err
}

// after returns the epoch that a jump of the counter began after the last
// reading of epoch i, where that came before hostSeconds; 0 if there is none.
func (u *Unwrapper) after(i int, hostSeconds float64) int {
	if i >= len(u.epochs) {
		return 0
	}
	if r := u.epochs[i].readings; len(r) == 0 || r[len(r)-1].host > hostSeconds {
		return 0
	}
	for j := i + 1; j < len(u.epochs); j++ {
		if e := u.epochs[j]; !e.stray {
			if len(e.readings) > 0 && e.fromHost == e.readings[0].host {
				return j
			}
			break
		}
	}
	return 0
}

// pastIn does what Past says within one epoch, and returns how far the lag is
// from what was stated, or from 0 where it is unknown, in seconds.
func (u *Unwrapper) pastIn(i int, raw uint64, hostSeconds, lagSeconds float64) (r Reading, off float64, err error) {
	if i >= len(u.epochs) || len(u.epochs[i].readings) == 0 {
		return Reading{}, 0, fmt.Errorf("place tick %d that arrived at %.3f s: no clock beacon in its epoch", raw, hostSeconds)
	}
	e := &u.epochs[i]
	j := sort.Search(len(e.readings), func(j int) bool { return e.readings[j].host > hostSeconds }) - 1
	near := e.readings[max(j, 0)]
	rate, _ := u.rate(e)
	slack := u.slack()
	arrival := (hostSeconds - near.host) * rate // ticks after near
	target := arrival - lagSeconds*u.tickHz
	if lagSeconds < 0 {
		target = arrival + slack*u.tickHz - u.wrap/2
	}
	ticks := u.nearest(raw, e.base, near.ticks, target)
	lag := (arrival - float64(ticks-near.ticks)) / u.tickHz
	if -lag > slack {
		return Reading{}, 0, fmt.Errorf("place tick %d that arrived at %.3f s: it lies %.3f s after its arrival: did the counter jump or restart?",
			raw, hostSeconds, -lag)
	}
	return u.reading(i, ticks), math.Abs(lag - max(lagSeconds, 0)), nil
}
