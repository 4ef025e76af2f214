package bench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

const (
	// Horizon is the last true second of a live world, a day.
	Horizon = 24 * 3600.0
	// MaxRunSeconds is the longest window that a live target runs before it
	// answers with a timeout, s.
	MaxRunSeconds = 600.0
	// MaxWaiting is the number of commands that a live target keeps while it
	// is at work.
	MaxWaiting = 64

	maxErrorText = 200 // bytes
)

// ErrOver says that a live world has come to its Horizon.
var ErrOver = errors.New("a day of the virtual bench is over")

// Packet is what the meter sends at once.
type Packet struct {
	ArrivalNs int64 // at the host, ns
	// First counts the samples before this packet, those of lost packets
	// included.
	First       int64
	Volts, Amps []float64 // V, A
}

// Live is a world that obeys commands: the target does what it is told to, and
// the meter sees what it does. Its time is virtual: whoever holds it says how
// far it has gone. Equal commands at equal times make equal worlds.
type Live struct {
	firmware
	*power
	meter   *meter
	packets *link
	wire    *wire

	work    *order // what the steps are for; nil for nothing
	steps   []step
	busy    bool    // the first of the steps has begun
	until   float64 // it ends then
	cut     bool    // it is being ended early
	waiting []order
	runs    int // windows begun

	taken int64 // packets
	sent  []Packet
	said  []run.Line
}

// order is a command as it arrived.
type order struct {
	mark.Statement
	damage   error // it could not be read
	answered bool
}

// step is one thing that the target does.
type step struct {
	begin func() (seconds float64)
	end   func() // also where it is cut short
	whole bool   // it is never cut short
}

// servable reports why the meter of a scenario cannot be watched while time
// passes.
func (s *Scenario) servable() error {
	switch {
	case s.Meter.Driver != Direct:
		return fmt.Errorf("a meter behind a driver (meter.driver = %s) cannot be served", s.Meter.Driver)
	case s.Meter.Pin != NoPin:
		return fmt.Errorf("a meter that records a pin (meter.pin = %s) cannot be served", s.Meter.Pin)
	}
	return nil
}

// NewLive makes a live world of a scenario: the operations of its plan are not
// run, all operations of its target can be. It fails if the scenario
// contradicts itself or wants a meter behind a driver.
func NewLive(s Scenario, seed uint64) (*Live, error) {
	s.Plan.Ops = []string{"all"}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("make live world: %w", err)
	}
	if err := s.servable(); err != nil {
		return nil, fmt.Errorf("make live world: %w", err)
	}
	t, err := s.target()
	if err != nil {
		return nil, fmt.Errorf("make live world: %w", err)
	}
	rows, err := s.rows()
	if err != nil {
		return nil, fmt.Errorf("make live world: %w", err)
	}
	own := stream(seed, "target "+s.Target).Uint64()
	sup := supply{emf: t.emfVolts, ohms: s.Supply.Ohms}
	l := &Live{
		firmware: firmware{
			s: s, t: t, rows: rows, clock: newClock(s.Ticks.Clock, stream(own, "ticks.clock")),
			powers: stream(own, "load.scatter"), times: stream(own, "load.times"),
		},
		power:   newPower(sup, -1-s.Meter.FilterSeconds, t.idleWatts, background(s.Load, own, Horizon)),
		packets: newLink(s.Samples, own, "samples"),
		wire:    newWire(s.Lines, s.Faults, own),
	}
	// The target is quiet before its first line, so that the meter has
	// something to begin with.
	if err := l.grow(min(bootSeconds, float64(s.Meter.PacketSamples)/s.Meter.RateHz)); err != nil {
		return nil, err
	}
	if l.meter, err = newMeter(s.Meter, sup, &l.amps, seed, own); err != nil {
		return nil, fmt.Errorf("make live world: %w", err)
	}
	l.boot()
	return l, l.err
}

// Meter describes the emulated meter as a driver would.
func (l *Live) Meter() meters.Info { return l.meter.info() }

// Truth returns what is true of the meter. Windows are told by Settled.
func (l *Live) Truth() Truth {
	m := l.meter
	return Truth{
		Target: l.t.Name, IdleWatts: l.t.idleWatts, OverheadJoules: l.s.Load.Overhead, FirstSampleSeconds: m.start,
		SampleHz: m.RateHz * m.clock.rate, TickHz: l.t.TickHz * l.clock.rate,
		VoltsGain: m.volts.gain, VoltsOffset: m.volts.offset, AmpsGain: m.amps.gain, AmpsOffset: m.amps.offset,
	}
}

// Settled returns the windows that are over since it was called last.
func (l *Live) Settled() []TrueWindow {
	var over []TrueWindow
	end := l.watts.at[len(l.watts.at)-1]
	for len(l.windows) > 0 && l.windows[0].T1 <= end {
		w := l.windows[0]
		l.windows = l.windows[1:]
		idle := l.power.idle.integral(w.T0, w.T1)
		w.IdleWatts = idle / (w.T1 - w.T0)
		w.GrossJoules = w.NetJoules + idle
		over = append(over, w)
	}
	return over
}

// Waiting is the number of commands that the target has not looked at.
func (l *Live) Waiting() int { return len(l.waiting) }

// Next is the true second at which something happens next of itself.
func (l *Live) Next() float64 {
	next := l.meter.ready((l.taken + 1) * int64(l.meter.PacketSamples))
	if l.busy {
		next = min(next, l.until)
	}
	if len(l.sent) > 0 {
		next = min(next, float64(l.sent[0].ArrivalNs)/1e9)
	}
	if len(l.said) > 0 {
		next = min(next, float64(l.said[0].HostNs)/1e9)
	}
	return next
}

// Advance lets time pass until a true second and hands over what arrives at
// the host up to then. The error is one of the callbacks, ErrOver, or that the
// supply cannot deliver the load.
func (l *Live) Advance(until float64, packet func(Packet) error, line func(run.Line) error) error {
	until = max(until, l.now)
	if until > Horizon {
		return ErrOver
	}
	for {
		l.begin()
		if !l.busy || l.until > until {
			break
		}
		l.now = l.until
		l.finish()
	}
	l.now = until
	if err := errors.Join(l.err, l.sample()); err != nil {
		return err
	}
	now := int64(math.Round(l.now * 1e9))
	for len(l.said) > 0 && l.said[0].HostNs <= now {
		if err := line(l.said[0]); err != nil {
			return err
		}
		l.said = l.said[1:]
	}
	for len(l.sent) > 0 && l.sent[0].ArrivalNs <= now {
		if err := packet(l.sent[0]); err != nil {
			return err
		}
		l.sent = l.sent[1:]
	}
	return nil
}

// sample takes the packets that are complete by now.
func (l *Live) sample() error {
	n := int64(l.meter.PacketSamples)
	for {
		ready := l.meter.ready((l.taken + 1) * n)
		if ready > l.now {
			return nil
		}
		if err := l.grow(ready); err != nil {
			return err
		}
		volts, amps := l.meter.packet()
		if at, ok := l.packets.carry(ready); ok {
			l.sent = append(l.sent, Packet{ArrivalNs: nanoseconds(at), First: l.taken * n, Volts: volts, Amps: amps})
		}
		l.taken++
	}
}

// begin begins the next step, taking up the next command if there is none.
func (l *Live) begin() {
	for !l.busy {
		if len(l.steps) == 0 {
			if l.work = nil; len(l.waiting) == 0 {
				return
			}
			o := l.waiting[0]
			l.waiting = l.waiting[1:]
			l.work = &o
			l.obey(o)
			continue
		}
		l.busy = true
		l.until = l.now + l.steps[0].begin()
	}
}

// finish ends the step that has begun.
func (l *Live) finish() {
	s := l.steps[0]
	l.steps, l.busy = l.steps[1:], false
	if s.end != nil {
		s.end()
	}
}

// Command gives the target a line from the host, at the second that Advance
// has reached. A line that is no command says nothing to it.
func (l *Live) Command(text []byte) {
	s, err := mark.ParseCommand(text)
	switch {
	case errors.Is(err, mark.ErrNone), !bytes.Contains(text, []byte("@jh ")): // noise
	case err != nil:
		l.waiting = append(l.waiting, order{damage: err})
	case s.Kind == "stop":
		l.stop(s)
	default:
		l.waiting = append(l.waiting, order{Statement: s})
	}
}

// stop ends what can be ended, refuses what waits, and then says so.
func (l *Live) stop(s mark.Statement) {
	if l.work != nil && !l.work.answered {
		keep := 0
		if l.busy && l.steps[0].whole {
			keep = 1
		} else if l.busy {
			l.cut = true
			l.finish()
			l.cut = false
		}
		l.steps = l.steps[:min(keep, len(l.steps))]
		l.refuse(*l.work, "stopped", "")
	}
	for _, o := range l.waiting {
		l.refuse(o, "stopped", "")
	}
	l.waiting = nil
	l.work = &order{Statement: s, answered: true}
	l.say(mark.Answer{OK: true, Cmd: "stop"}.Statement())
}

// refuse answers a command that is not carried out.
func (l *Live) refuse(o order, code, text string) {
	a := mark.Answer{Cmd: cmp.Or(o.Kind, "unknown"), Code: code, Text: text[:min(len(text), maxErrorText)]}
	if w, err := o.Int("w"); err == nil && w >= 0 {
		a.W = &w
	}
	l.say(a.Statement())
}

// obey sets the steps of a command.
func (l *Live) obey(o order) {
	if o.damage != nil {
		l.refuse(o, "damaged", o.damage.Error())
		return
	}
	var err error
	switch o.Kind {
	case "hello":
		for _, h := range l.hello() {
			l.say(h)
		}
	case "sync":
		var c mark.SyncCmd
		if c, err = mark.ParseSyncCmd(o.Statement); err == nil {
			l.beacons(c.N, float64(c.GapUs)*1e-6)
		}
	case "idle":
		var c mark.IdleCmd
		if c, err = mark.ParseIdleCmd(o.Statement); err == nil {
			l.rest(o, c)
		}
	case "run":
		var c mark.Run
		if c, err = mark.ParseRun(o.Statement); err == nil {
			l.run(o, c)
		}
	case "level":
		if _, err = mark.ParseLevel(o.Statement); err == nil {
			l.say(mark.Answer{OK: true, Cmd: "level"}.Statement())
		}
	default:
		l.refuse(o, "unknown", "the target knows no such command")
	}
	if err != nil {
		l.refuse(o, "bad", err.Error())
	}
}

// say sends a statement, which answers the command at work.
func (l *Live) say(s mark.Statement) { l.send(true, func() mark.Statement { return s }) }

// send sends a statement that is made when it goes on the wire.
func (l *Live) send(answers bool, s func() mark.Statement) {
	var line []byte
	l.add(step{whole: true, begin: func() float64 {
		if l.work != nil && answers {
			l.work.answered = true
		}
		var err error
		if line, err = mark.Append(nil, s()); err != nil {
			l.err = err
			return 0
		}
		l.edge(0, l.s.Load.UARTWatts)
		return wireSeconds(line)
	}, end: func() {
		l.edge(0, -l.s.Load.UARTWatts)
		l.said = append(l.said, l.wire.carry(sent{end: l.now, text: line[:max(0, len(line)-1)]})...)
	}})
	l.wait(lineGap)
}

func (l *Live) add(s step) { l.steps = append(l.steps, s) }

func (l *Live) wait(seconds float64) {
	l.add(step{begin: func() float64 { return seconds }})
}

// edge changes the load now, over a ramp.
func (l *Live) edge(ramp, watts float64) {
	if ramp == 0 {
		l.watts.put(change{at: l.now, jump: watts})
		return
	}
	l.watts.put(change{at: l.now, slope: watts / ramp}, change{at: l.now + ramp, slope: -watts / ramp})
}

// beacons sends n of them; the last one answers the command.
func (l *Live) beacons(n int64, gap float64) {
	l.send(n == 1, func() mark.Statement {
		s := mark.Sync{Seq: l.seq, Ticks: l.ticks()}.Statement()
		l.seq++
		return s
	})
	if n == 1 {
		return
	}
	// The rest is planned when it is due, so that a large n costs nothing.
	l.add(step{begin: func() float64 { return max(0, gap-lineGap) }, end: func() {
		if !l.cut {
			l.beacons(n-1, gap)
		}
	}})
}

func (l *Live) boot() {
	l.work = &order{answered: true}
	l.reset, l.jumped, l.seq = l.firmware.clock.read(l.now), 0, 0
	l.wait(bootSeconds)
	for _, h := range l.hello() {
		l.say(h)
	}
	l.beacons(bootBeacons, beaconGap)
}

// rest is quiet and then says so.
func (l *Live) rest(o order, c mark.IdleCmd) {
	if c.Mode != l.t.idleMode {
		l.refuse(o, "mode", "the target idles in "+l.t.idleMode)
		return
	}
	var t0 uint64
	l.add(step{begin: func() float64 { t0 = l.ticks(); return float64(c.Us) * 1e-6 }, end: func() {
		if !l.cut {
			l.say(mark.Idle{W: c.W, T0: t0, T1: l.ticks(), Mode: c.Mode}.Statement())
		}
	}})
}

// run runs one window within its quiet zones, and then states it.
func (l *Live) run(o order, c mark.Run) {
	var row Row
	for _, r := range l.rows {
		if r.Alg == c.Alg && r.Op == c.Op {
			row = r
		}
	}
	switch {
	case row.Alg == "":
		l.refuse(o, "op", "the target has no "+c.Alg+"/"+c.Op)
		return
	case c.Idle != "" && c.Idle != l.t.idleMode:
		l.refuse(o, "mode", "the target idles in "+l.t.idleMode)
		return
	}
	ramp := l.s.Load.RampSeconds
	if c.Warm > 0 {
		watts := row.Watts * l.s.Load.NetScale
		l.add(step{
			begin: func() float64 { l.edge(ramp, watts); return min(MaxRunSeconds, float64(c.Warm)*row.Seconds) },
			end:   func() { l.edge(ramp, -watts) },
		})
	}
	l.wait(float64(c.PreUs) * 1e-6)
	l.window(o, c, row)
}

// window adds the window itself; what follows depends on how it ends.
func (l *Live) window(o order, c mark.Run, row Row) {
	ramp := l.s.Load.RampSeconds
	var (
		watts, seconds, start float64
		tries                 int64
		lat                   mark.Lat
		t0                    uint64
		dies                  bool
	)
	l.add(step{begin: func() float64 {
		l.runs++
		dies = l.runs == l.s.Ticks.ResetIn
		// A window that cannot end in time need not be drawn.
		watts, seconds = row.Watts*l.s.Load.NetScale, math.Inf(1)
		if float64(c.N)*row.Seconds < 2*MaxRunSeconds {
			watts, seconds, tries, lat = l.draw(job{row: row, n: c.N})
		}
		t0, start = l.ticks(), l.now
		l.edge(ramp, watts)
		l.watts.put(change{at: start, jump: l.s.Load.Overhead / wakeSeconds}, change{at: start + wakeSeconds, jump: -l.s.Load.Overhead / wakeSeconds})
		if dies {
			return min(seconds, MaxRunSeconds) / 2
		}
		return min(seconds, MaxRunSeconds)
	}, end: func() {
		l.edge(ramp, -watts)
		switch {
		case l.cut:
		case dies:
			l.waiting = nil
			l.boot()
		case seconds > MaxRunSeconds:
			l.refuse(o, "timeout", fmt.Sprintf("it took longer than %g s", MaxRunSeconds))
		default:
			truth := TrueWindow{W: c.W, Alg: c.Alg, Op: c.Op, N: c.N, T0: start, T1: l.now, NetJoules: watts*seconds + l.s.Load.Overhead}
			none := int64(0)
			win := mark.Win{W: c.W, Alg: c.Alg, Op: c.Op, N: c.N, T0: t0, T1: l.ticks(), Idle: l.t.idleMode,
				PreUs: c.PreUs, PostUs: c.PostUs, Key: cmp.Or(c.Key, "1"), Checked: &c.N, Fail: &none}
			if tries > 0 {
				win.Retries = &tries
			}
			lat.W, lat.N = c.W, c.N
			l.wait(float64(c.PostUs) * 1e-6)
			l.state(win, lat, truth)
		}
	}})
}

// state says what a window was. Only what is stated is true.
func (l *Live) state(win mark.Win, lat mark.Lat, truth TrueWindow) {
	l.send(true, func() mark.Statement {
		l.windows = append(l.windows, truth)
		return win.Statement()
	})
	l.say(lat.Statement())
	if l.runs == l.s.Ticks.JumpAfter {
		l.add(step{begin: func() float64 {
			l.jumped += math.Round(l.s.Ticks.JumpSeconds * l.t.TickHz)
			return 0
		}})
	}
}

// Recital is a world that carries out its own plan while time passes, as Live
// obeys commands.
type Recital struct {
	w     *World
	next  int // packet
	lines []run.Line
	told  int // windows
	now   float64
}

// NewRecital makes the world of a scenario, to be played as time passes. It
// fails as New does, or if the scenario wants a meter behind a driver.
func NewRecital(s Scenario, seed uint64) (*Recital, error) {
	if err := s.servable(); err != nil {
		return nil, fmt.Errorf("make world of %s: %w", s.Target, err)
	}
	w, err := New(s, seed)
	if err != nil {
		return nil, err
	}
	return &Recital{w: w, lines: w.lines}, nil
}

// Meter describes the emulated meter as a driver would.
func (r *Recital) Meter() meters.Info { return r.w.Meter() }

// Truth returns what is true of the world.
func (r *Recital) Truth() Truth { return r.w.truth }

// Settled returns the windows that are over since it was called last.
func (r *Recital) Settled() []TrueWindow {
	first := r.told
	for r.told < len(r.w.truth.Windows) && r.w.truth.Windows[r.told].T1 <= r.now {
		r.told++
	}
	return r.w.truth.Windows[first:r.told]
}

// Command is not listened to.
func (r *Recital) Command([]byte) {}

// Waiting is 0: nothing is listened to.
func (r *Recital) Waiting() int { return 0 }

// Next is the true second at which something arrives next; infinite at the end.
func (r *Recital) Next() float64 {
	next := int64(math.MaxInt64)
	for r.next < len(r.w.arrivals) && r.w.arrivals[r.next] == 0 {
		r.w.meter.packet() // lost
		r.next++
	}
	if r.next < len(r.w.arrivals) {
		next = r.w.arrivals[r.next]
	}
	if len(r.lines) > 0 {
		next = min(next, r.lines[0].HostNs)
	}
	if next == math.MaxInt64 {
		return math.Inf(1)
	}
	return float64(next) / 1e9
}

// Advance lets time pass until a true second and hands over what arrives at
// the host up to then. The error is one of the callbacks, or ErrOver after the
// last arrival.
func (r *Recital) Advance(until float64, packet func(Packet) error, line func(run.Line) error) error {
	r.now = until
	now := int64(math.Round(until * 1e9))
	for len(r.lines) > 0 && r.lines[0].HostNs <= now {
		if err := line(r.lines[0]); err != nil {
			return err
		}
		r.lines = r.lines[1:]
	}
	n := int64(r.w.meter.PacketSamples)
	for !math.IsInf(r.Next(), 1) && r.next < len(r.w.arrivals) && r.w.arrivals[r.next] <= now {
		volts, amps := r.w.meter.packet()
		p := Packet{ArrivalNs: r.w.arrivals[r.next], First: int64(r.next) * n, Volts: volts, Amps: amps}
		r.next++
		if err := packet(p); err != nil {
			return err
		}
	}
	if math.IsInf(r.Next(), 1) {
		return ErrOver
	}
	return nil
}
