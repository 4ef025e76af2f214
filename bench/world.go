package bench

import (
	"cmp"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// Truth is what an analysis of the run should find. Host seconds count from
// the run's start and are true seconds.
type Truth struct {
	Target string
	Seed   uint64

	Ops     []TrueOp     // in the order of the plan
	Windows []TrueWindow // as they ran; those that a reboot voided are not among them

	// IdleWatts is the mean idle level over the whole run, W.
	IdleWatts float64
	// OffsetSeconds is the time from a mark to the centroid of the power
	// response, s, where sample and tick clock are tied to the host by their
	// earliest arrivals (a packet to the end of its last sample, a beacon to
	// its t): delay of the packets + response of the meter + half the ramp -
	// delay of the lines - mean time of a beacon on the wire.
	OffsetSeconds float64
	// FirstSampleSeconds is when the stream's first sample began, host s.
	FirstSampleSeconds float64
	// OverheadJoules is what each window costs beside its operations, J.
	OverheadJoules float64
	// SampleHz and TickHz are the true mean rates over the run, 1/s.
	SampleHz, TickHz float64
	// The meter's constant errors: reading = value*(1+Gain) + Offset.
	VoltsGain, AmpsGain     float64
	VoltsOffset, AmpsOffset float64 // V, A
	// LostPackets lists the rows of the recording before which packets were
	// lost, once for each packet.
	LostPackets []int64
}

// TrueOp is one operation.
type TrueOp struct {
	Alg, Op string
	Windows int
	Count   int64 // operations in all windows
	// JoulesPerOp is the net energy of an operation, J: the mean of the
	// population that the windows are drawn from.
	JoulesPerOp float64
	// GrossJoulesPerOp adds the idle level that was under this operation's
	// windows, J.
	GrossJoulesPerOp float64
	SecondsPerOp     float64 // population mean, s
	NetWatts         float64 // population mean, W
}

// TrueWindow is one window as it was, its scatter and tries included.
type TrueWindow struct {
	W           int64
	Alg, Op     string
	N           int64
	T0, T1      float64 // host s
	NetJoules   float64 // J, above the idle level, overhead included
	GrossJoules float64 // J, net and the idle level from T0 to T1
	IdleWatts   float64 // W, mean idle level from T0 to T1
}

// World is one scenario with one seed: a target that carries out its plan, and
// a meter that watches.
type World struct {
	s        Scenario
	target   target
	seed     uint64 // of everything but the meter's constant errors
	meter    *meter
	pin      *pin // nil where the meter records none
	lines    []run.Line
	arrivals []int64 // of the packets, host ns; 0: lost
	end      float64 // true second at which the recording ends
	truth    Truth

	watts, idle *curve // load at the measuring point, and the part of it that is idle
}

// New makes the world of a scenario. Equal scenarios and seeds make equal
// worlds. It fails if the scenario contradicts itself.
func New(s Scenario, seed uint64) (*World, error) {
	w := &World{s: s, seed: stream(seed, "target "+s.Target).Uint64(), truth: Truth{Target: s.Target, Seed: seed}}
	if err := w.build(seed); err != nil {
		return nil, fmt.Errorf("make world of %s: %w", s.Target, err)
	}
	return w, nil
}

func (w *World) build(campaign uint64) error {
	s := w.s
	if err := s.check(); err != nil {
		return err
	}
	rows, err := s.rows()
	if err != nil {
		return err
	}
	t, err := s.target()
	if err != nil {
		return err
	}
	w.target = t

	ticks := newClock(s.Ticks.Clock, stream(w.seed, "ticks.clock"))
	f, err := play(s, t, ticks, rows, w.seed)
	if err != nil {
		return err
	}
	w.end = f.now
	w.lines = deliver(f.lines, s.Lines, s.Faults, w.seed)

	start := -1 - s.Meter.FilterSeconds // what the meter's filter has seen before
	idle := background(s.Load, w.seed, w.end)
	w.idle = sum(idle, start, w.end, t.idleWatts)
	w.watts = sum(append(idle, f.load...), start, w.end, t.idleWatts)
	sup := supply{emf: t.emfVolts, ohms: s.Supply.Ohms}
	amps, err := sup.current(w.watts)
	if err != nil {
		return err
	}
	w.meter, err = newMeter(s.Meter, sup, amps, campaign, w.seed)
	if err != nil {
		return err
	}
	if s.Meter.Pin != NoPin {
		w.pin = &pin{m: w.meter, level: sum(f.pin, start, w.end, 0), draws: stream(w.seed, "meter.pin")}
	}
	w.settle(f, rows)
	w.carryPackets()
	return nil
}

// target returns the emulated target as the scenario has it.
func (s *Scenario) target() (target, error) {
	t, err := findTarget(s.Target)
	t.idleWatts = cmp.Or(s.Load.IdleWatts, t.idleWatts)
	t.emfVolts = cmp.Or(s.Supply.EMFVolts, t.emfVolts)
	t.TickHz = cmp.Or(s.Ticks.Hz, t.TickHz)
	t.TickBits = cmp.Or(s.Ticks.Bits, t.TickBits)
	return t, err
}

// settle works the truth out.
func (w *World) settle(f *firmware, rows []Row) {
	t, m := &w.truth, w.meter
	t.IdleWatts = w.idle.mean(0, w.end)
	t.FirstSampleSeconds = m.start
	t.OverheadJoules = w.s.Load.Overhead
	t.SampleHz = m.RateHz * m.clock.meanRate(w.end)
	t.TickHz = f.t.TickHz * f.clock.meanRate(w.end)
	t.VoltsGain, t.VoltsOffset = m.volts.gain, m.volts.offset
	t.AmpsGain, t.AmpsOffset = m.amps.gain, m.amps.offset
	t.OffsetSeconds = w.s.Samples.DelaySeconds + m.delay() + w.s.Load.RampSeconds/2 -
		w.s.Lines.DelaySeconds - f.beaconSeconds/float64(max(1, f.beaconsSent))

	for _, r := range rows {
		net := r.Watts * w.s.Load.NetScale
		op := TrueOp{Alg: r.Alg, Op: r.Op, JoulesPerOp: net * r.Seconds, SecondsPerOp: r.Seconds, NetWatts: net}
		var idleJoules, seconds, netJoules float64
		for i := range f.windows {
			win := &f.windows[i]
			if win.Alg != r.Alg || win.Op != r.Op {
				continue
			}
			idle := w.idle.integral(win.T0, win.T1)
			win.IdleWatts = idle / (win.T1 - win.T0)
			win.GrossJoules = win.NetJoules + idle
			op.Windows++
			op.Count += win.N
			idleJoules += idle
			seconds += win.T1 - win.T0
			netJoules += win.NetJoules - w.s.Load.Overhead
		}
		if r.Alg == spin && len(w.s.Plan.Periods) > 0 && op.Count > 0 {
			// Cycles of several periods: only what ran has a mean.
			n := float64(op.Count)
			op.JoulesPerOp, op.SecondsPerOp, op.NetWatts = netJoules/n, seconds/n, netJoules/seconds
		}
		op.GrossJoulesPerOp = op.JoulesPerOp
		if seconds > 0 {
			op.GrossJoulesPerOp += idleJoules / seconds * op.SecondsPerOp
		}
		t.Ops = append(t.Ops, op)
	}
	t.Windows = f.windows
}

// carryPackets decides when each packet arrives; 0 stands for never.
func (w *World) carryPackets() {
	k := newLink(w.s.Samples, w.seed, "samples")
	n := int64(w.meter.PacketSamples)
	row := int64(0)
	for i := n; ; i += n {
		ready := w.meter.ready(i)
		if ready > w.end {
			return
		}
		at, ok := k.carry(ready)
		if !ok {
			w.arrivals = append(w.arrivals, 0)
			w.truth.LostPackets = append(w.truth.LostPackets, row)
			continue
		}
		w.arrivals = append(w.arrivals, nanoseconds(at))
		row += n
	}
}

// Truth returns what is true of the world.
func (w *World) Truth() Truth { return w.truth }

// Joules returns the true energy that passed the measuring point from t0 to t1
// (host s), whatever it was for.
func (w *World) Joules(t0, t1 float64) float64 { return w.watts.integral(t0, t1) }

// Meter describes the emulated meter as a driver would.
func (w *World) Meter() meters.Info { return w.meter.info() }

// Target describes the emulated target as its hello does.
func (w *World) Target() run.Target { return w.target.Target }

// Play hands over what the host receives, in the order of its arrival. It may
// be called once.
func (w *World) Play(block func(meters.Block) error, line func(run.Line) error) error {
	return w.play(recorder{
		begin:  func(meters.Info, record.Break) error { return nil },
		block:  block,
		notice: func(meters.Notice) error { return nil },
	}, line)
}

func (w *World) play(to recorder, line func(run.Line) error) error {
	lines := w.lines
	until := func(ns int64) error {
		for len(lines) > 0 && lines[0].HostNs < ns {
			if err := line(lines[0]); err != nil {
				return err
			}
			lines = lines[1:]
		}
		return nil
	}
	inOrder := to
	inOrder.block = func(b meters.Block) error {
		if err := until(b.ArrivalNs); err != nil {
			return err
		}
		return to.block(b)
	}
	meter := w.direct
	if w.s.Meter.Driver == FNB58 {
		meter = w.drive
	}
	if err := meter(inOrder); err != nil {
		return err
	}
	return until(math.MaxInt64)
}

// direct hands the packets over as the meter took them.
func (w *World) direct(to recorder) error {
	if err := to.begin(w.Meter(), record.Break{}); err != nil {
		return err
	}
	for _, at := range w.arrivals {
		volts, amps := w.meter.packet()
		values := [][]float64{volts, amps}
		if w.pin != nil {
			values = append(values, w.pin.packet())
		}
		if at == 0 {
			continue
		}
		if err := to.block(meters.Block{ArrivalNs: at, Values: values}); err != nil {
			return err
		}
	}
	return nil
}
