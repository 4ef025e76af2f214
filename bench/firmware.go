package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/joulemark/joulemark/sync/mark"
)

const (
	baud        = 115200 // of the target's UART; a byte takes ten bits
	bootSeconds = 0.2    // from reset to the first line
	lineGap     = 0.0005 // s between two lines
	beaconGap   = 0.005  // s between two beacons
	bootBeacons = 8
	wakeSeconds = 0.001 // over which a window's overhead is spent
)

// job is one planned window.
type job struct {
	row Row
	n   int64
	key int
	// A duty cycle: n times busy for onUs and idle for the rest of periodUs.
	periodUs, onUs int64
}

// firmware plays the target's program: it lets true time pass, draws power and
// sends lines.
type firmware struct {
	s             Scenario
	t             target
	rows          []Row
	clock         *clock
	now           float64 // true second
	reset         float64 // clock second of the last reset
	jumped        float64 // ticks
	seq           uint64
	beaconSeconds float64 // on the wire, all beacons together
	beaconsSent   int
	load          []change // windows and traffic, W above idle
	pin           []change // 1 from t0 to t1 of each window
	lines         []sent
	windows       []TrueWindow
	err           error

	phases, powers, times *rand.Rand
}

// play runs the whole plan and returns what it left.
func play(s Scenario, t target, k *clock, rows []Row, seed uint64) (*firmware, error) {
	f := &firmware{
		s: s, t: t, rows: rows, clock: k,
		phases: stream(seed, "plan.phase"), powers: stream(seed, "load.scatter"), times: stream(seed, "load.times"),
	}
	f.boot()
	for i, j := range plan(s.Plan, rows, seed) {
		w := i + 1
		f.idle(w)
		if w == s.Ticks.ResetIn {
			f.die(w, j)
			continue
		}
		f.window(w, j)
		if w == s.Ticks.JumpAfter {
			f.jumped += math.Round(s.Ticks.JumpSeconds * f.t.TickHz)
		}
	}
	f.idle(len(rows)*s.Plan.Windows + 1)
	f.pass(bootSeconds)
	return f, f.err
}

// plan returns all windows in random order.
func plan(p Plan, rows []Row, seed uint64) []job {
	var jobs []job
	for _, r := range rows {
		if r.Alg == spin && len(p.Periods) > 0 {
			jobs = append(jobs, cycles(p, r)...)
			continue
		}
		for i := range p.Windows {
			seconds := p.WindowSeconds
			if i%2 == 1 && p.ShortSeconds > 0 {
				seconds = p.ShortSeconds
			}
			n := p.N
			if n == 0 {
				n = max(1, int(math.Round(seconds/r.Seconds)))
			}
			jobs = append(jobs, job{row: r, n: int64(n), key: i%p.Keys + 1})
		}
	}
	stream(seed, "plan.order").Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	return jobs
}

// cycles returns the windows of each period with each duty.
func cycles(p Plan, r Row) []job {
	var jobs []job
	for _, period := range p.Periods {
		for _, duty := range p.Duties {
			us := math.Round(1e6 * period)
			for range p.Windows {
				jobs = append(jobs, job{row: r, n: int64(max(1, math.Round(p.WindowSeconds/period))), key: 1,
					periodUs: int64(us), onUs: int64(max(1, math.Round(duty*us)))})
			}
		}
	}
	return jobs
}

func (f *firmware) pass(seconds float64) { f.now += seconds }

// ticks reads the target's counter now.
func (f *firmware) ticks() uint64 {
	t := math.Floor((f.clock.read(f.now)-f.reset)*f.t.TickHz) + f.jumped
	// A jump back below zero wraps, as a counter does.
	n := f.s.Ticks.Start + uint64(int64(t))
	if f.t.TickBits < 64 {
		n &= 1<<f.t.TickBits - 1
	}
	return n
}

// say sends one line and waits until it is on the wire.
func (f *firmware) say(s mark.Statement) {
	line, err := mark.Append(nil, s)
	if err != nil {
		f.err = err
		return
	}
	start := f.now
	f.pass(wireSeconds(line))
	f.load = pulse(f.load, start, f.now, 0, f.s.Load.UARTWatts)
	f.lines = append(f.lines, sent{end: f.now, text: line[:len(line)-1]})
	f.pass(lineGap)
}

func wireSeconds(line []byte) float64 { return float64(10*len(line)) / baud }

func (f *firmware) beacons(n int) {
	for range n {
		start := f.now
		f.say(mark.Sync{Seq: f.seq, Ticks: f.ticks()}.Statement())
		f.beaconSeconds += f.now - lineGap - start
		f.beaconsSent++
		f.seq++
		f.pass(beaconGap - lineGap)
	}
}

func (f *firmware) boot() {
	f.reset, f.jumped, f.seq = f.clock.read(f.now), 0, 0
	f.pass(bootSeconds)
	for _, h := range f.hello() {
		f.say(h)
	}
	f.beacons(bootBeacons)
}

// hello introduces the target, in lines that are not too long.
func (f *firmware) hello() []mark.Statement {
	t := f.t
	said := []mark.Statement{
		mark.Hello{
			Proto: mark.Version, Target: t.Name, CPU: t.CPU, ISA: t.ISA, Bits: t.Bits,
			ClockHz: t.ClockHz, TickHz: t.TickHz, TickBits: t.TickBits, Firmware: t.Firmware, More: true,
		}.Statement(),
		mark.Hello{Impl: t.Impl, ImplVersion: t.ImplVersion, CC: t.CC, CFlags: t.CFlags, More: true}.Statement(),
	}
	var ops []mark.Op
	for _, r := range f.rows {
		ops = append(ops, mark.Op{Alg: r.Alg, Op: r.Op})
	}
	lines, err := mark.Hello{Ops: ops}.Statements()
	if err != nil {
		f.err = err
	}
	return append(said, lines...)
}

// idle states a quiet interval, the one before window w.
func (f *firmware) idle(w int) {
	t0 := f.ticks()
	f.pass(f.s.Plan.IdleSeconds)
	f.say(mark.Idle{W: int64(w), T0: t0, T1: f.ticks(), Mode: f.t.idleMode}.Statement())
	f.beacons(f.s.Plan.Beacons)
}

// window runs one window within its quiet zones and then states it.
func (f *firmware) window(w int, j job) {
	pre := f.quiet()
	watts, seconds, tries, lat := f.draw(j)
	t0, start := f.ticks(), f.now
	f.pass(seconds)
	t1 := f.ticks()
	busy := f.busy(j, start, f.now, watts)
	f.pin = pulse(f.pin, start, f.now, 0, 1)
	f.load = pulse(f.load, start, start+wakeSeconds, 0, f.s.Load.Overhead/wakeSeconds)
	f.heat(watts * busy / seconds)
	f.windows = append(f.windows, TrueWindow{
		W: int64(w), Alg: j.row.Alg, Op: j.row.Op, N: j.n, T0: start, T1: f.now,
		NetJoules: watts*busy + f.s.Load.Overhead,
	})
	f.pass(f.s.Plan.PostSeconds)

	none := int64(0)
	win := mark.Win{
		W: int64(w), Alg: j.row.Alg, Op: j.row.Op, N: j.n, T0: t0, T1: t1, Idle: f.t.idleMode,
		PreUs: int64(pre * 1e6), PostUs: int64(f.s.Plan.PostSeconds * 1e6),
		Key: strconv.Itoa(j.key), PeriodUs: j.periodUs, OnUs: j.onUs, Checked: &j.n, Fail: &none,
	}
	if tries > 0 {
		win.Retries = &tries
	}
	f.say(win.Statement())
	lat.W, lat.N = int64(w), j.n
	f.say(lat.Statement())
	f.beacons(f.s.Plan.Beacons)
}

// busy draws the power of a window and returns for how long it was drawn, s.
func (f *firmware) busy(j job, from, to, watts float64) float64 {
	if j.periodUs == 0 {
		f.load = pulse(f.load, from, to, f.s.Load.RampSeconds, watts)
		return to - from
	}
	on := float64(j.onUs) * 1e-6
	for i := range j.n {
		start := from + float64(i*j.periodUs)*1e-6
		f.load = pulse(f.load, start, start+on, f.s.Load.RampSeconds, watts)
	}
	return on * float64(j.n)
}

// heat raises the idle level from now on by what a window of that mean power
// leaves behind; it is gone after ten time constants.
func (f *firmware) heat(watts float64) {
	if f.s.Load.HeatShare == 0 {
		return
	}
	const steps, span = 160, 10.0
	step := f.s.Load.HeatSeconds * span / steps
	levels := make([]float64, steps+1)
	for i := range steps {
		levels[i] = watts * f.s.Load.HeatShare * math.Exp(-span*float64(i)/steps)
	}
	f.load = polyline(f.load, f.now, step, levels)
}

// quiet passes the quiet zone before a window and returns its length.
func (f *firmware) quiet() float64 {
	pre := f.s.Plan.GuardSeconds + f.s.Plan.PhaseSeconds*f.phases.Float64()
	f.pass(pre)
	return pre
}

// die reboots in the middle of a window, which is then never stated.
func (f *firmware) die(w int, j job) {
	f.quiet()
	watts, seconds, _, _ := f.draw(j)
	start := f.now
	f.pass(seconds / 2)
	f.load = pulse(f.load, start, f.now, f.s.Load.RampSeconds, watts)
	f.pin = pulse(f.pin, start, f.now, 0, 1)
	f.boot()
}

// draw decides what one window costs: its power above idle, its length, its
// tries (0 if the operation has none) and the latency of its operations in
// ticks.
func (f *firmware) draw(j job) (watts, seconds float64, tries int64, lat mark.Lat) {
	r := j.row
	if j.periodUs > 0 {
		r.Seconds, r.RelativeSD = float64(j.periodUs)*1e-6, 0
	}
	watts = r.Watts * f.s.Load.NetScale * (1 + f.s.Load.Scatter*f.powers.NormFloat64())
	n := float64(j.n)
	ticks := f.t.TickHz * f.clock.rate
	if r.Tries == 0 {
		sd := r.RelativeSD * r.Seconds
		seconds = n*r.Seconds + math.Sqrt(n)*sd*f.times.NormFloat64()
		mean := seconds / n
		far := math.Sqrt2 * math.Erfinv(1-2/(n+1)) // expected place of the most distant of n, in sd
		lat = mark.Lat{
			Min: (mean - far*sd) * ticks, P50: mean * ticks, Mean: mean * ticks,
			P95: (mean + min(far, 1.645)*sd) * ticks, Max: (mean + far*sd) * ticks, SD: sd * ticks,
		}
		return watts, seconds, 0, lat
	}
	try, once := r.perTry()
	counts := make([]int64, j.n)
	squares := 0.0
	for i := range counts {
		counts[i] = geometric(f.times, r.Tries)
		tries += counts[i]
		squares += float64(counts[i]) * float64(counts[i])
	}
	slices.Sort(counts)
	at := func(q float64) float64 { return (once + try*float64(counts[int(q*(n-1))])) * ticks }
	mean := float64(tries) / n
	seconds = n*once + float64(tries)*try
	lat = mark.Lat{
		Min: at(0), P50: at(0.5), Mean: seconds / n * ticks, P95: at(0.95), Max: at(1),
		SD: math.Sqrt(max(0, squares/n-mean*mean)) * try * ticks,
	}
	return watts, seconds, tries, lat
}

// geometric draws the number of tries up to the first success, where mean are
// expected.
func geometric(draws *rand.Rand, mean float64) int64 {
	return 1 + int64(draws.ExpFloat64()/-math.Log(1-1/mean))
}
