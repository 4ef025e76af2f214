package polled_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/hwmon"
	"github.com/joulemark/joulemark/meters/meterstest"
	"github.com/joulemark/joulemark/meters/powerz"
	"github.com/joulemark/joulemark/meters/rapl"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// load is idleWatts, and stepWatts more in windows of windowSeconds.
type load struct{ starts []float64 }

const (
	idleWatts, stepWatts = 2.0, 5.0
	windowSeconds        = 1.5
	operations           = 300
)

func (l load) joules(hostSeconds float64) float64 {
	j := idleWatts * hostSeconds
	for _, from := range l.starts {
		j += stepWatts * min(max(hostSeconds-from, 0), windowSeconds)
	}
	return j
}

// watts is the mean power over the last stretch of meanSeconds that ended on a
// grid of such.
func (l load) watts(hostSeconds, meanSeconds float64) float64 {
	end := math.Floor(hostSeconds/meanSeconds) * meanSeconds
	return (l.joules(end) - l.joules(end-meanSeconds)) / meanSeconds
}

// late draws how late the host reads, host ns.
type late func(r *rand.Rand) int64

func onTime(*rand.Rand) int64   { return 0 }
func jitter(r *rand.Rand) int64 { return int64(10e6 * r.ExpFloat64()) }
func stalls(r *rand.Rand) int64 {
	if r.IntN(20) == 0 {
		return int64(220e6 * r.Float64())
	}
	return 0
}

// bench is an opened meter of a load, in virtual time.
type bench struct {
	meter  meters.Meter
	hostNs func() int64
	// passed is to be told the host time again and again.
	passed func(func(hostNs int64))
}

func onFiles(t *testing.T, d meters.Driver, h *meterstest.Host) bench {
	t.Helper()
	m, err := d.OpenHost(context.Background(), h, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return bench{m, h.HostNs, func(f func(int64)) { h.Passed = f }}
}

// counters are RAPL's, updated every updateNs.
func counters(updateNs int64) func(*testing.T, load, func() int64) bench {
	return func(t *testing.T, l load, late func() int64) bench {
		const zone = "sys/class/powercap/intel-rapl:0/"
		return onFiles(t, rapl.Driver, &meterstest.Host{Late: late, OpenNs: 5000, Files: map[string]meterstest.File{
			zone + "name":                meterstest.Text("package-0"),
			zone + "max_energy_range_uj": meterstest.Text("262143328850"),
			zone + "energy_uj": func(hostNs int64) (string, error) {
				return fmt.Sprint(int64(l.joules(float64(hostNs-hostNs%updateNs)*1e-9) * 1e6)), nil
			},
		}})
	}
}

// chip is an INA226 at 5 V that averages over 35 ms.
func chip(t *testing.T, l load, late func() int64) bench {
	const dir = "sys/class/hwmon/hwmon2/"
	return onFiles(t, hwmon.Driver, &meterstest.Host{Late: late, OpenNs: 500_000, Files: map[string]meterstest.File{
		dir + "name":            meterstest.Text("ina226"),
		dir + "update_interval": meterstest.Text("35"),
		dir + "in1_input":       meterstest.Text("5000"),
		dir + "curr1_input": func(hostNs int64) (string, error) {
			return fmt.Sprint(math.Round(l.watts(float64(hostNs)*1e-9, 35e-3) / 5 * 1000)), nil
		},
	}})
}

// tester answers as a KM003C does that converts every millisecond, at 5 V.
type tester struct {
	load   load
	late   func() int64
	passed func(hostNs int64)
	hostNs int64
	answer []byte
}

func (p *tester) HostNs() int64 { return p.hostNs }
func (p *tester) Close() error  { return nil }

func (p *tester) Write(b []byte) error {
	p.hostNs += p.late() / 10
	p.answer = make([]byte, 52)
	p.answer[0], p.answer[1] = 0x41, b[1]
	binary.LittleEndian.PutUint32(p.answer[4:], 44<<22|1)
	binary.LittleEndian.PutUint32(p.answer[8:], 5e6)
	binary.LittleEndian.PutUint32(p.answer[12:], uint32(math.Round(p.load.watts(float64(p.hostNs)*1e-9, 1e-3)/5*1e6)))
	return nil
}

func (p *tester) Read(b []byte, untilNs int64) (int, int64, error) {
	if p.passed != nil {
		p.passed(p.hostNs)
	}
	if n := copy(b, p.answer); n > 0 {
		p.answer = nil
		p.hostNs += 300_000
		return n, p.hostNs, nil
	}
	p.hostNs = max(p.hostNs, untilNs)
	return 0, p.hostNs, os.ErrDeadlineExceeded
}

func usb(t *testing.T, l load, late func() int64) bench {
	p := &tester{load: l, late: late}
	m, err := powerz.Driver.Open(context.Background(), p, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return bench{m, p.HostNs, func(f func(int64)) { p.passed = f }}
}

// record records the load with marks, of a target whose ticks are the host's
// microseconds.
func record(t *testing.T, b bench, l load) *run.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "run", Simulated: true}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := func(hostSeconds float64, format string, args ...any) {
		if err := w.Line(run.Line{HostNs: int64(hostSeconds * 1e9), Source: "pipe", Text: fmt.Appendf(nil, format, args...)}); err != nil {
			t.Fatal(err)
		}
	}
	ticks := func(hostSeconds float64) int64 { return int64(math.Round(hostSeconds * 1e6)) }
	line(0, "@jm hello proto=1 target=laptop tick_hz=1000000 tick_bits=64")
	for i, from := range l.starts {
		line(from-0.7, "@jm sync seq=%d t=%d", i, ticks(from-0.7))
		to := from + windowSeconds
		line(to+0.35, "@jm win w=%d alg=X op=run n=%d t0=%d t1=%d idle=os pre_us=600000 post_us=300000", i+1, operations, ticks(from), ticks(to))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	untilNs := int64((l.starts[len(l.starts)-1] + 4) * 1e9)
	b.passed(func(hostNs int64) {
		if hostNs >= untilNs {
			cancel()
		}
	})
	var s *run.Stream
	err = b.meter.Stream(ctx, func(block meters.Block) error {
		if s == nil {
			info := b.meter.Info()
			info.Stream = "meter"
			if s, err = w.Stream(info); err != nil {
				return err
			}
		}
		return s.Write(block)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close("done", b.hostNs()); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wholePower: all samples together hold the energy of the load while they were
// taken.
func wholePower(t *testing.T, line *align.Timeline, l load) {
	t.Helper()
	joules, from, to := 0.0, -1.0, 0.0
	for st, err := range line.Power() {
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range st.Watts {
			joules += w * st.PeriodSeconds
		}
		if from < 0 {
			from = st.StartSeconds
		}
		to = st.StartSeconds + float64(len(st.Watts))*st.PeriodSeconds
	}
	want := idleWatts*(to-from) + stepWatts*windowSeconds*float64(len(l.starts))
	if math.Abs(joules-want) > 0.01*want {
		t.Errorf("all samples hold %g J, want %g", joules, want)
	}
}

// TestEnergyPerOperation: meter, driver, run, alignment and analysis together
// give the energy of the load, whatever the moments of reading.
func TestEnergyPerOperation(t *testing.T) {
	const seed = 11
	for _, c := range []struct {
		name  string
		meter func(t *testing.T, l load, late func() int64) bench
		late  late
		// tolerance, relative, of a window and of their mean
		one, all float64
	}{
		{"counters, on time", counters(1), onTime, 1e-5, 1e-6},
		{"counters, jitter", counters(1), jitter, 1e-5, 1e-6},
		{"counters, stalls", counters(1), stalls, 1e-5, 1e-6},
		// A value up to 1 ms old is up to 7 mJ wrong in a window of 7.5 J, and so is
		// the level of idle beside it.
		{"counters with updates, jitter", counters(1e6), jitter, 3e-3, 3e-4},
		{"counters with updates, stalls", counters(1e6), stalls, 3e-3, 3e-4},
		// A value holds until the next is read: an edge shows late by up to the time
		// between reads. Over 40 seeds the mean of 12 windows is wrong by 0.2 % (chip)
		// and 0.02 % (usb), one standard deviation, without bias.
		{"chip, on time", chip, onTime, 1e-4, 1e-5},
		{"chip, jitter", chip, jitter, 0.03, 6e-3},
		{"usb, on time", usb, onTime, 0.003, 3e-4},
		{"usb, jitter", usb, jitter, 0.003, 3e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			draws := rand.New(rand.NewPCG(seed, 0))
			var l load
			for at := 2.0; len(l.starts) < 12; at += windowSeconds + 2 + draws.Float64() {
				l.starts = append(l.starts, at)
			}
			r := record(t, c.meter(t, l, func() int64 { return c.late(draws) }), l)
			line, err := align.Align(r, "meter")
			if err != nil {
				t.Fatal(err)
			}
			res, err := analysis.Analyze(line, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if line.Meter.Sample == meters.Mean {
				wholePower(t, line, l)
			}
			want, worst := stepWatts*windowSeconds, 0.0
			for _, w := range res.Windows {
				off := float64(w.Net)/want - 1
				worst = math.Max(worst, math.Abs(off))
				if w.Excluded != "" || !(math.Abs(off) <= c.one) {
					t.Errorf("window %d: %.6f J, want %.6f %s", w.W, w.Net, want, w.Excluded)
				}
			}
			net := res.Operations[0].Net
			if off := float64(net.Value)*operations/want - 1; !(math.Abs(off) <= c.all) {
				t.Errorf("%.8f J/op, want %.8f", net.Value, want/operations)
			}
			if res.Alignment.Method != align.ByEdges {
				t.Errorf("%+v", res.Alignment)
			}
			t.Logf("seed %d: %.8f J/op of %.8f, [%.8f, %.8f], windows within %.1e, offset %.5f s, response %.4f s, %.4g samples a second, warnings %q", seed, net.Value, want/operations,
				net.Lo95Repeat, net.Hi95Repeat, worst, res.Alignment.Offset, res.Meter.ResponseSeconds, res.Meter.SamplesHz, res.Warnings)
		})
	}
}
