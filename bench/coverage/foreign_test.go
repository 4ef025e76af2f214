package coverage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/internal/imports"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
	"github.com/joulemark/joulemark/sync/mark"
)

// The virtual bench and the analysis come from one hand and may share an
// error. This file is a second source of recordings that has nothing of the
// bench and of sync/mark: power as cells of a millisecond instead of curves,
// lines and checksums of its own, the text of an open FNIRSI logger and a file
// of marks as the way in.

// foreignOp is one operation of the second target.
type foreignOp struct {
	alg, op        string
	watts, seconds float64 // above idle; of one operation
}

var foreignOps = []foreignOp{
	{"ML-DSA-65", "verify", 0.182, 0.0374},
	{"ML-KEM-512", "decaps", 0.171, 0.0121},
	{"Ed25519", "sign", 0.159, 0.0093},
	{"X25519", "derive", 0.164, 0.0287},
}

// foreign is everything that is true of a recording but its seed. Times are
// true seconds, which the host's clock shows.
type foreign struct {
	windows       int     // of each operation
	windowSeconds float64 // about
	idleWatts     float64
	wanderWatts   float64 // standard deviation of the idle level
	burstHz       float64 // of background work, 25 ms at 0.09 W
	beaconWatts   float64 // radio pulses of 2.5 ms each 102.4 ms
	uartWatts     float64 // while the target sends
	rampSeconds   float64
	poleSeconds   float64 // the meter's smoothing, one pole
	boxSeconds    float64 // or a running mean
	quarter       bool    // 25 conversions in 100 samples
	loss          float64 // of packets
	stallHz       float64 // of the host, 0.2 to 0.7 s
	lineFaults    float64 // share of lines lost or damaged
	wattHours     bool    // the logger's header of 2022
	tickHz        float64
	tickBits      int
	tickStart     float64
	resetIn       int       // the target restarts in the middle of this window
	jumps         []float64 // s, of the ticks, spread over the run
	void          bool      // the claim must be void: what happened cannot be told
}

var plainForeign = foreign{
	windows: 7, windowSeconds: 2, idleWatts: 0.26, uartWatts: 0.04, tickHz: 16e6, tickBits: 64, tickStart: 52e6,
}

// foreignStrata changes one thing each.
var foreignStrata = map[string]func(f *foreign){
	"plain":      func(f *foreign) {},
	"header2022": func(f *foreign) { f.wattHours = true },
	"wander":     func(f *foreign) { f.wanderWatts = 0.003 },
	"ramp":       func(f *foreign) { f.rampSeconds = 0.015 },
	"pole30":     func(f *foreign) { f.poleSeconds = 0.03 },
	"pole50":     func(f *foreign) { f.poleSeconds = 0.05 },
	"box120":     func(f *foreign) { f.boxSeconds = 0.12 },
	"quarter":    func(f *foreign) { f.quarter = true },
	"bursts":     func(f *foreign) { f.burstHz = 1.2 },
	"beacons":    func(f *foreign) { f.beaconWatts = 0.22 },
	"net7":       func(f *foreign) { f.idleWatts = 2.25 },
	"three":      func(f *foreign) { f.windows = 3 },
	"twenty":     func(f *foreign) { f.windows = 20 },
	"loss1":      func(f *foreign) { f.loss = 0.01 },
	"stalls":     func(f *foreign) { f.stallHz = 0.06 },
	"tails":      func(f *foreign) { f.uartWatts, f.poleSeconds = 0.17, 0.04 },
	"lines3":     func(f *foreign) { f.lineFaults = 0.03 },
	"lines12":    func(f *foreign) { f.lineFaults = 0.12 },
	"wrap32":     func(f *foreign) { f.tickHz, f.tickBits, f.tickStart = 160e6, 32, 4.1e9 },
	"wraplines":  func(f *foreign) { f.tickHz, f.tickBits, f.tickStart, f.lineFaults = 160e6, 32, 4.1e9, 0.08 },
	"reset":      func(f *foreign) { f.resetIn = 13 },
	"forward":    func(f *foreign) { f.jumps = []float64{47, 3600} },
	"backward":   func(f *foreign) { f.jumps = []float64{-71, -20} },
	// A jump of less than the 2 s that a beacon may be late.
	"jump1": func(f *foreign) { f.jumps, f.void = []float64{0.9, -0.6}, true },
	"all": func(f *foreign) {
		f.wanderWatts, f.rampSeconds, f.poleSeconds, f.quarter = 0.002, 0.005, 0.03, true
		f.loss, f.stallHz, f.lineFaults, f.resetIn = 0.005, 0.03, 0.05, 9
	},
}

// foreignWindow is the truth of one window.
type foreignWindow struct {
	w          int
	op         foreignOp
	n          int
	start, end float64
	joules     float64 // above idle
	told       bool    // its statement came through whole
}

// foreignWorld plays one recording.
type foreignWorld struct {
	foreign
	r       *rand.Rand
	now     float64
	cells   []float64 // W, means over a millisecond
	tickOff float64   // ticks
	skew    float64   // of the ticks, relative
	seq     int
	windows []*foreignWindow
	sent    []foreignLine
}

// foreignLine is one line on the wire, for a window's statement with the
// window.
type foreignLine struct {
	end  float64
	text string
	win  *foreignWindow
}

const foreignCell = 1e-3

// spend adds a power over a time; cells at its ends get their share.
func (f *foreignWorld) spend(from, to, watts float64) {
	for k := int(from / foreignCell); float64(k)*foreignCell < to; k++ {
		for len(f.cells) <= k {
			f.cells = append(f.cells, 0)
		}
		lo, hi := float64(k)*foreignCell, float64(k+1)*foreignCell
		f.cells[k] += watts * (math.Min(hi, to) - math.Max(lo, from)) / foreignCell
	}
}

// ticks reads the counter.
func (f *foreignWorld) ticks() uint64 {
	t := math.Floor(f.now*f.tickHz*(1+f.skew) + f.tickOff)
	if f.tickBits < 64 {
		wrap := math.Ldexp(1, f.tickBits)
		t -= wrap * math.Floor(t/wrap)
	}
	return uint64(int64(t))
}

// foreignCheck is the checksum of a line, bit by bit (CRC-16/IBM-3740).
func foreignCheck(s string) uint16 {
	c := uint16(0xffff)
	for i := range len(s) {
		for bit := 7; bit >= 0; bit-- {
			top := c>>15 ^ uint16(s[i]>>bit&1)
			c <<= 1
			if top == 1 {
				c ^= 0x1021
			}
		}
	}
	return c
}

// print sends a line at 115200 baud, which costs power.
func (f *foreignWorld) print(text string, win *foreignWindow) {
	start := f.now
	f.now += float64(len(text)+1) * 10 / 115200
	f.spend(start, f.now, f.uartWatts)
	f.sent = append(f.sent, foreignLine{f.now, text, win})
	f.now += 0.0004
}

// state sends a statement, now and then behind the prefix of a log.
func (f *foreignWorld) state(win *foreignWindow, format string, args ...any) {
	s := fmt.Sprintf("@jm "+format, args...)
	s += fmt.Sprintf(" *%04X", foreignCheck(s))
	if f.r.IntN(3) == 0 {
		s = fmt.Sprintf("I (%d) bench: %s", int(f.now*1000), s)
	}
	f.print(s, win)
}

func (f *foreignWorld) beacons(n int) {
	for range n {
		f.now += f.r.Float64() * 0.01
		f.state(nil, "sync seq=%d t=%d", f.seq, f.ticks())
		f.seq++
	}
}

func (f *foreignWorld) boot() {
	f.now += 0.25
	f.print("ESP-ROM:esp32c6-20220919", nil)
	f.state(nil, "hello proto=1 target=second cpu=c6 isa=rv32imac bits=32 clock_hz=160000000 tick_hz=%.0f tick_bits=%d more=1", f.tickHz, f.tickBits)
	f.state(nil, "hello impl=other impl_version=1.0 cc=gcc%%2014 cflags=-O3%%20-march%%3Drv32imac")
	f.beacons(6)
}

func (f *foreignWorld) idle() {
	f.now += 0.02
	t0 := f.ticks()
	f.now += 1.3 + f.r.Float64()
	f.state(nil, "idle w=%d t0=%d t1=%d mode=wfi", len(f.windows), t0, f.ticks())
	f.beacons(2)
}

// play lets the target run all windows in random order.
func (f *foreignWorld) play() {
	f.tickOff = f.tickStart
	f.boot()
	f.idle()
	var order []foreignOp
	for _, op := range foreignOps {
		order = append(order, slices.Repeat([]foreignOp{op}, f.foreign.windows)...)
	}
	f.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, op := range order {
		f.window(i+1, op)
		f.idle()
		for k, jump := range f.jumps {
			if i+1 == (k+1)*len(order)/(len(f.jumps)+1) {
				f.tickOff += math.Round(jump * f.tickHz)
			}
		}
	}
	f.now += 0.5
}

func (f *foreignWorld) window(w int, op foreignOp) {
	pre := 0.3 + 0.08*f.r.Float64()
	f.now += pre
	n := int(math.Round(f.windowSeconds * (0.8 + 0.4*f.r.Float64()) / op.seconds))
	length := float64(n) * op.seconds * (1 + 0.02*f.r.NormFloat64()/math.Sqrt(float64(n)))
	watts := op.watts * (1 + 0.001*f.r.NormFloat64())
	if w == f.resetIn {
		f.spend(f.now, f.now+length/2, watts)
		f.now += length / 2
		f.tickOff = -(f.now + 0.05) * f.tickHz * (1 + f.skew)
		f.now += 0.05
		f.boot()
		return
	}
	win := &foreignWindow{w: w, op: op, n: n, start: f.now, end: f.now + length, joules: watts * length}
	f.windows = append(f.windows, win)
	t0 := f.ticks()
	f.now += length
	t1 := f.ticks()
	const parts = 20 // a ramp is a stair of small windows, one after the other
	for k := range parts {
		shift := f.rampSeconds * (float64(k) + 0.5) / parts
		f.spend(win.start+shift, win.end+shift, watts/parts)
	}
	f.now += 0.3
	f.state(win, "win w=%d alg=%s op=%s n=%d t0=%d t1=%d idle=wfi pre_us=%d post_us=300000 key=%d checked=4 fail=0",
		w, op.alg, op.op, n, t0, t1, int(pre*1e6), w%3)
	m := op.seconds * f.tickHz
	f.state(nil, "lat w=%d n=%d min=%.1f p50=%.1f mean=%.1f p95=%.1f max=%.1f sd=%.2f", w, n, m*0.96, m, m, m*1.03, m*1.06, m*0.02)
	f.beacons(2)
}

// background adds what is there whether or not a window runs.
func (f *foreignWorld) background() {
	end := float64(len(f.cells)) * foreignCell
	for t := f.r.ExpFloat64(); f.burstHz > 0 && t < end; t += f.r.ExpFloat64() / f.burstHz {
		f.spend(t, t+0.025, 0.09)
	}
	for t := 0.1 * f.r.Float64(); f.beaconWatts > 0 && t < end; t += 0.1024 {
		f.spend(t, t+0.0025, f.beaconWatts)
	}
	// The idle level wanders as a red sum of sines, from 9 s to 300 s.
	type wave struct{ rate, phase, watts float64 }
	var waves []wave
	norm := 0.0
	for period := 9.0; period < 300; period *= 1.5 {
		waves = append(waves, wave{2 * math.Pi / period, 2 * math.Pi * f.r.Float64(), math.Sqrt(period) * f.r.ExpFloat64()})
		norm += period
	}
	for k := range f.cells {
		f.cells[k] += f.idleWatts
		for _, w := range waves {
			if f.wanderWatts > 0 {
				f.cells[k] += f.wanderWatts * w.watts / math.Sqrt(norm) * math.Sin(w.rate*float64(k)*foreignCell+w.phase)
			}
		}
	}
}

// amps is the current of each cell as the meter's smoothing shows it, from a
// source of 5.15 V behind 0.14 ohm.
const foreignVolts, foreignOhms = 5.15, 0.14

func (f *foreignWorld) amps() []float64 {
	out := make([]float64, len(f.cells))
	for k, p := range f.cells {
		out[k] = (foreignVolts - math.Sqrt(foreignVolts*foreignVolts-4*foreignOhms*p)) / (2 * foreignOhms)
	}
	if f.poleSeconds > 0 {
		keep, level := math.Exp(-foreignCell/f.poleSeconds), out[0]
		for k := range out {
			level = keep*level + (1-keep)*out[k]
			out[k] = level
		}
	}
	if n := int(f.boxSeconds / foreignCell); n > 0 {
		sums := cumulate(out)
		for k := range out {
			from := max(0, k+1-n)
			out[k] = (sums[k+1] - sums[from]) / float64(k+1-from)
		}
	}
	return out
}

func cumulate(v []float64) []float64 {
	sums := make([]float64, len(v)+1)
	for k, x := range v {
		sums[k+1] = sums[k] + x
	}
	return sums
}

// stalls returns when the host does not read.
func (f *foreignWorld) stalls() [][2]float64 {
	var out [][2]float64
	for t := 3 + f.r.ExpFloat64()/f.stallHz; f.stallHz > 0 && t < f.now; t += 0.7 + f.r.ExpFloat64()/f.stallHz {
		out = append(out, [2]float64{t, t + 0.2 + 0.5*f.r.Float64()})
	}
	return out
}

// arrive delays what is ready at a time, after what came before it.
func arrive(ready, before float64, stalls [][2]float64) float64 {
	at := math.Max(ready, before)
	for _, s := range stalls {
		if at >= s[0] && at < s[1] {
			return s[1]
		}
	}
	return at
}

const foreignEpoch = 1700000123.0 // s since 1970 at true second 0

// samples writes the logger's file and returns when the first sample began.
func (f *foreignWorld) samples(stalls [][2]float64) (text []byte, first float64) {
	var b bytes.Buffer
	if f.wattHours {
		b.WriteString("\ntimestamp  sample_in_packet  voltage_V  current_A  dp_V  dn_V  temp_C_ema  energy_Wh  capacity_Ah\n")
	} else {
		b.WriteString("\ntimestamp sample_in_packet voltage_V current_A dp_V dn_V temp_C_ema energy_Ws capacity_As\n")
	}
	current := cumulate(f.amps())
	upTo := func(t float64) float64 { // ampere cells
		x := t / foreignCell
		k := min(int(x), len(current)-2)
		return current[k] + (x-float64(k))*(current[k+1]-current[k])
	}
	mean := func(from, to float64) float64 { return (upTo(to) - upTo(from)) / ((to - from) / foreignCell) }
	period := 0.01 * (1 + 30e-6*f.r.NormFloat64())
	begin := 0.1 + 0.01*f.r.Float64()
	last, conversion := 0.0, mean(begin, begin+4*period)
	energy, charge := 0.0, 0.0
	for k := 0; begin+float64(4*k+5)*period < f.now; k++ {
		start := begin + float64(4*k)*period
		var a [4]float64
		whole := mean(start, start+4*period) + 40e-6*f.r.NormFloat64()
		for i := range a {
			if f.quarter {
				a[i] = conversion + float64(i+1)/4*(whole-conversion)
			} else {
				a[i] = mean(start+float64(i)*period, start+float64(i+1)*period) + 80e-6*f.r.NormFloat64()
			}
		}
		conversion = whole
		if f.r.Float64() < f.loss {
			continue
		}
		if first == 0 {
			first = start
		}
		last = arrive(start+4*period+0.003+0.0006*f.r.ExpFloat64(), last, stalls)
		for i, amps := range a {
			volts := foreignVolts - foreignOhms*amps + 150e-6*f.r.NormFloat64()
			energy += volts * amps * 0.01
			charge += amps * 0.01
			stamp := foreignEpoch + last - 0.04 + 0.01*float64(i)
			if f.wattHours {
				fmt.Fprintf(&b, "%.3f   %d   %.5f   %.5f   %.3f   %.3f   %.3f   %.6f   %.6f\n", stamp, i, volts, amps, 0.6, 0.6, 31.2, energy/3600, charge/3600)
			} else {
				fmt.Fprintf(&b, "%.3f %d %.5f %.5f %.3f %.3f %.3f %.6f %.6f\n", stamp, i, volts, amps, 0.6, 0.6, 31.2, energy, charge)
			}
		}
	}
	return b.Bytes(), first
}

// marks writes the file of marks with the faults of the wire.
func (f *foreignWorld) marks(stalls [][2]float64) []byte {
	var b bytes.Buffer
	last, glued := 0.0, ""
	put := func(text string) {
		// A damaged byte may end the line early.
		for part := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&b, "%.6f\t%s\n", foreignEpoch+last, part)
		}
	}
	for _, l := range f.sent {
		ready := l.end + 0.0008 + 0.0007*f.r.ExpFloat64()
		fault := ""
		if f.r.Float64() < f.lineFaults {
			fault = []string{"lost", "corrupted", "cut", "twice", "merged"}[f.r.IntN(5)]
		}
		if fault == "lost" {
			continue
		}
		last = arrive(ready, last, stalls)
		text, whole := l.text, true
		switch fault {
		case "corrupted":
			at := strings.Index(text, "@jm ") // what stands before it may change
			i := f.r.IntN(len(text))
			flipped := []byte(text)
			flipped[i] ^= 1 << f.r.IntN(8)
			text, whole = string(flipped), i < at
		case "cut":
			text, whole = text[:f.r.IntN(len(text))], false
		case "merged":
			// The line end is lost: only the statement that comes last counts.
			glued, whole = glued+text, false
			continue
		}
		put(glued + text)
		if fault == "twice" {
			put(glued + text)
		}
		glued = ""
		if l.win != nil {
			l.win.told = whole
		}
	}
	return b.Bytes()
}

// foreignRun makes, imports and analyzes one recording.
func foreignRun(f foreign, seed uint64, dir string) (*foreignWorld, float64, analysis.Results, error) {
	w := &foreignWorld{foreign: f, r: rand.New(rand.NewPCG(seed, 0x5eed)), now: 0.02}
	w.skew = 15e-6 * w.r.NormFloat64()
	w.play()
	w.spend(w.now, w.now+0.2, 0)
	w.background()
	stalls := w.stalls()
	samples, first := w.samples(stalls)
	marks := w.marks(stalls)
	files := filepath.Join(dir, "files")
	o := imports.Options{Samples: filepath.Join(files, "log.txt"), Marks: filepath.Join(files, "marks.txt"),
		Accuracy: meters.Accuracy{Exact: true}, AccuracyGiven: true, Out: filepath.Join(dir, "run"), Tool: "test"}
	fail := func(err error) (*foreignWorld, float64, analysis.Results, error) {
		return w, first, analysis.Results{}, err
	}
	if err := os.MkdirAll(files, 0o777); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(o.Samples, samples, 0o666); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(o.Marks, marks, 0o666); err != nil {
		return fail(err)
	}
	sum, err := imports.Import(context.Background(), o, nil)
	if err != nil {
		return fail(err)
	}
	if sum.Format != "fnirsi" {
		return fail(fmt.Errorf("taken for %s", sum.Format))
	}
	r, err := run.Open(o.Out)
	if err != nil {
		return fail(err)
	}
	line, err := align.Align(r, r.Streams[0].Stream)
	if err != nil {
		return fail(err)
	}
	res, err := analysis.Analyze(line, analysis.Options{})
	return w, first, res, err
}

// foreignTally is what one stratum gave.
type foreignTally struct {
	sync.Mutex
	perOp, ratio    tally
	failures        []string
	worst           float64 // error of a window, in half widths for one window
	refused         int
	missing, placed int
}

func (o *foreignTally) campaign(f foreign, seed uint64, dir string) {
	w, first, res, err := foreignRun(f, seed, dir)
	o.Lock()
	defer o.Unlock()
	fail := func(format string, args ...any) {
		o.failures = append(o.failures, fmt.Sprintf("seed %d: ", seed)+fmt.Sprintf(format, args...))
	}
	if err != nil {
		fail("%v", err)
		return
	}
	if f.void {
		if len(res.Voids) > 0 {
			o.refused++
		}
		return
	}
	if res.Alignment.Method != align.ByEdges {
		fail("aligned by %s: %v", res.Alignment.Method, res.Warnings)
		return
	}
	truth := map[int64]*foreignWindow{}
	for _, win := range w.windows {
		truth[int64(win.w)] = win
	}
	ops := map[mark.Op]*operation{}
	for _, op := range foreignOps {
		ops[mark.Op{Alg: op.alg, Op: op.op}] = &operation{population: op.watts * op.seconds}
	}
	half := map[mark.Op]float64{} // of one window's energy, relative
	for _, op := range res.Operations {
		q := op.Net
		half[mark.Op{Alg: op.Alg, Op: op.Op}] = float64((q.Hi95Repeat-q.Lo95Repeat)/2/q.Value) * math.Sqrt(float64(op.Windows))
	}
	seen := map[int64]bool{}
	for _, r := range res.Windows {
		win := truth[r.W]
		switch {
		case r.Excluded != "":
			continue
		case win == nil || !win.told:
			fail("window %d counts, and its statement was damaged", r.W)
			continue
		case seen[r.W]:
			fail("window %d counts twice", r.W)
		}
		seen[r.W] = true
		o.placed++
		// Power shows when the meter's smoothing and the target's ramp let it.
		at := win.start - first + w.rampSeconds/2 + w.poleSeconds + w.boxSeconds/2
		if w.quarter {
			at += 0.025 // a packet is led to, less half a sample
		}
		if off := float64(r.T0) - at; math.Abs(off) > 0.015 || r.Alg != win.op.alg || r.N != int64(win.n) {
			fail("window %d stands %.1f ms from its place as %s n=%d (%s n=%d)", r.W, 1e3*off, r.Alg, r.N, win.op.alg, win.n)
		}
		k := mark.Op{Alg: r.Alg, Op: r.Op}
		ops[k].joules += win.joules
		ops[k].count += float64(win.n)
		e := math.Abs(float64(r.Net)/win.joules-1) / half[k]
		o.worst = math.Max(o.worst, e)
		if e > 5 {
			fail("window %d: net %.6g J, true %.6g J: %.1f half widths", r.W, float64(r.Net), win.joules, e)
		}
	}
	for _, win := range w.windows {
		if win.told && !seen[int64(win.w)] {
			why := ""
			for _, r := range res.Windows {
				if r.W == int64(win.w) {
					why = r.Excluded
				}
			}
			fail("window %d is missing (%s), and its statement was whole", win.w, why)
		}
		if !win.told {
			o.missing++
		}
	}
	held := outcome{exact: true}
	held.count(res, ops)
	o.perOp.merge(held.perOp)
	o.ratio.merge(held.ratio)
	o.refused += held.refused
}

func (t *tally) merge(o tally) {
	t.held, t.stated, t.missing = t.held+o.held, t.stated+o.stated, t.missing+o.missing
	t.bias, t.squares = t.bias+o.bias, t.squares+o.squares
	t.halves = append(t.halves, o.halves...)
}

// TestForeign holds the limits against recordings that are not the bench's.
func TestForeign(t *testing.T) {
	names := slices.Sorted(maps.Keys(foreignStrata))
	if *only != "" {
		names = []string{*only}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			f := plainForeign
			foreignStrata[name](&f)
			o := &foreignTally{}
			dir := t.TempDir()
			seeds := make(chan uint64)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for seed := range seeds {
						at := filepath.Join(dir, fmt.Sprint(seed))
						o.campaign(f, seed, at)
						os.RemoveAll(at)
					}
				})
			}
			for i := range uint64(*campaigns) {
				seeds <- *firstSeed + i
			}
			close(seeds)
			wg.Wait()
			fmt.Printf("%-11s %5d  %s %s  windows %d, untold %d, worst %.2f half widths, refused %d\n", name, *campaigns, o.perOp.String(), o.ratio.String(),
				o.placed, o.missing, o.worst, o.refused)
			for i, why := range o.failures {
				if i == 20 {
					t.Errorf("and %d more", len(o.failures)-i)
					break
				}
				t.Error(why)
			}
			judge := outcome{exact: true}
			if f.void {
				if o.refused != *campaigns {
					t.Errorf("%d of %d claims are void", o.refused, *campaigns)
				}
				return
			}
			judge.judge(t, "J/op", &o.perOp, mostBias)
			judge.judge(t, "ratios", &o.ratio, mostBias)
		})
	}
}
