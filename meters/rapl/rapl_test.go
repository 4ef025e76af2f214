package rapl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
)

const rangeUJ = 262143328850 // as processors with a unit of 61 uJ show it

// machine has one package of watts(hostSeconds) integrated by joules, dram with
// a tenth of it, a core in the package, and the package once more over mmio.
// Counters stand at startUJ and are updated every millisecond.
func machine(startUJ int64, joules func(hostSeconds float64) float64) *meterstest.Host {
	return updated(1e6, startUJ, joules)
}

// updated is a machine whose counters are updated every updateNs.
func updated(updateNs, startUJ int64, joules func(hostSeconds float64) float64) *meterstest.Host {
	energy := func(share float64) meterstest.File {
		return func(hostNs int64) (string, error) {
			j := joules(float64(hostNs-hostNs%updateNs) * 1e-9)
			return fmt.Sprintln((startUJ + int64(share*j*1e6)) % rangeUJ), nil
		}
	}
	h := &meterstest.Host{OpenNs: 5000, Files: map[string]meterstest.File{}}
	zone := func(dir, name string, share float64) {
		h.Files[class+"/"+dir+"/name"] = meterstest.Text(name + "\n")
		h.Files[class+"/"+dir+"/energy_uj"] = energy(share)
		h.Files[class+"/"+dir+"/max_energy_range_uj"] = meterstest.Text(fmt.Sprintln(rangeUJ))
	}
	zone("intel-rapl:0", "package-0", 1)
	zone("intel-rapl:0:0", "core", 0.7)
	zone("intel-rapl:0:1", "dram", 0.1)
	zone("intel-rapl-mmio:0", "package-0", 1)
	h.Files[class+"/intel-rapl/enabled"] = meterstest.Text("1\n")
	return h
}

func constant(watts float64) func(float64) float64 {
	return func(s float64) float64 { return watts * s }
}

const energyFile = class + "/intel-rapl:0/energy_uj"

func TestConformance(t *testing.T) {
	meterstest.HostSuite{
		Driver: Driver,
		Host:   func() *meterstest.Host { return machine(rangeUJ-30e6, constant(20)) },
		Values: []string{energyFile},
		// A value of the counter is up to a millisecond old: a tenth of the time
		// between reads.
		Watts: 20, Tolerance: 3,
	}.Run(t)
}

// outcome is what the driver made of a machine.
type outcome struct {
	info    meters.Info
	times   []int64     // host ns of each sample's beginning
	arrival []int64     // host ns of its end
	values  [][]float64 // by sample
	notices []meters.Notice
	err     error
}

func stream(t *testing.T, h *meterstest.Host, o meters.Options, untilNs int64) outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var s outcome
	o.Notify = func(n meters.Notice) { s.notices = append(s.notices, n) }
	h.Passed = func(hostNs int64) {
		if hostNs >= untilNs {
			cancel()
		}
	}
	m, err := Driver.OpenHost(ctx, h, o)
	if err != nil {
		t.Fatal(err)
	}
	s.info = m.Info()
	s.err = m.Stream(ctx, func(b meters.Block) error {
		var row []float64
		for _, v := range b.Values {
			row = append(row, v[0])
		}
		s.values = append(s.values, row)
		s.times = append(s.times, s.info.FirstHostNs+b.TimesNs[0])
		s.arrival = append(s.arrival, b.ArrivalNs)
		return nil
	})
	return s
}

const second = int64(time.Second)

// TestEnergy: the samples hold the counters' energy to the microjoule, whatever
// the moments of reading, through a wrap, and each begins where the one before
// ended.
func TestEnergy(t *testing.T) {
	const seed = 7
	draws := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	joules := func(s float64) float64 { return 30*s + 15*math.Sin(s) }
	h := machine(rangeUJ-100e6, joules)
	h.Late = func() int64 { return int64(20e6 * draws.ExpFloat64()) }
	s := stream(t, h, meters.Options{}, 30*second)
	if s.err != nil || len(s.notices) != 0 {
		t.Fatal(s.err, s.notices)
	}
	if got := strings.Join(s.info.Columns, " "); got != "watts core_watts dram_watts" || s.info.Model != "package-0" {
		t.Fatalf("columns %s of %s", got, s.info.Model)
	}
	sums := make([]float64, 3)
	for i, row := range s.values {
		if i > 0 && s.times[i] != s.arrival[i-1] {
			t.Fatalf("sample %d begins at %d ns, the one before ended at %d", i, s.times[i], s.arrival[i-1])
		}
		for k, w := range row {
			sums[k] += w * float64(s.arrival[i]-s.times[i]) * 1e-9
		}
	}
	for k, share := range []float64{1, 0.7, 0.1} {
		want := share * (joules(float64(s.arrival[len(s.arrival)-1])*1e-9) - joules(float64(s.times[0])*1e-9))
		if math.Abs(sums[k]-want) > 0.05*share {
			t.Errorf("%s: %.6f J, want %.6f", s.info.Columns[k], sums[k], want)
		}
	}
}

func TestPlaces(t *testing.T) {
	two := func() *meterstest.Host {
		h := machine(0, constant(20))
		for name, f := range h.Files {
			if rest, ok := strings.CutPrefix(name, class+"/intel-rapl:0"); ok {
				h.Files[class+"/intel-rapl:1"+rest] = f
			}
		}
		h.Files[class+"/intel-rapl:1/name"] = meterstest.Text("package-1")
		h.Files[class+"/intel-rapl:2/name"] = meterstest.Text("psys")
		h.Files[class+"/intel-rapl:2/energy_uj"] = h.Files[energyFile]
		return h
	}
	for place, want := range map[string]struct {
		columns string
		watts   float64
	}{
		"":          {"watts core_watts dram_watts psys_watts", 40},
		"package":   {"watts core_watts dram_watts psys_watts", 40},
		"package-1": {"watts", 20},
		"dram":      {"watts", 4},
		"core":      {"watts", 28},
		"psys":      {"watts", 20},
	} {
		s := stream(t, two(), meters.Options{Place: place, Settings: map[string]string{"every": "100ms"}}, 2*second)
		if s.err != nil || len(s.notices) != 0 || strings.Join(s.info.Columns, " ") != want.columns {
			t.Fatalf("%q: %v %v %v", place, s.err, s.notices, s.info.Columns)
		}
		for _, row := range s.values[1:] {
			if math.Abs(row[0]-want.watts) > 0.02*want.watts {
				t.Errorf("%q: %g W, want %g", place, row[0], want.watts)
			}
		}
	}
	for _, bad := range []meters.Options{{Place: "gpu"}, {Place: "intel-rapl:0"}, {Settings: map[string]string{"every": "1us"}}, {Settings: map[string]string{"every": "x"}}} {
		if _, err := Driver.OpenHost(context.Background(), two(), bad); err == nil {
			t.Errorf("%+v was opened", bad)
		}
	}
}

// TestDenied: where the counters are for root alone, the fix is named.
func TestDenied(t *testing.T) {
	h := machine(0, constant(20))
	h.Files[energyFile] = meterstest.Refused(fs.ErrPermission)
	_, err := Driver.OpenHost(context.Background(), h, meters.Options{})
	var p *meters.Problem
	if !errors.As(err, &p) || !strings.Contains(p.Hint, "chmod a+r") || !strings.Contains(p.Hint, "udev") {
		t.Errorf("%v", err)
	}
	found := Driver.Find(h)
	if len(found) != 3 || !errors.As(found[0].Problem, &p) || found[1].Problem != nil {
		t.Errorf("%+v", found)
	}
}

// TestStream: what goes wrong in mid-stream.
func TestStream(t *testing.T) {
	after := func(h *meterstest.Host, name string, atNs int64, f meterstest.File) {
		before := h.Files[name]
		h.Files[name] = func(hostNs int64) (string, error) {
			if hostNs >= atNs {
				return f(hostNs)
			}
			return before(hostNs)
		}
	}
	for _, c := range []struct {
		name   string
		change func(h *meterstest.Host)
		notice string // its text holds
		err    string // likewise
		nan    int    // samples
		leftUJ int64  // to the wrap, at the start
		until  int64  // host s; 10 where it is 0
	}{
		{name: "still", change: func(h *meterstest.Host) { h.Files[energyFile] = meterstest.Text("5") }, err: "does not move"},
		{name: "stops", change: func(h *meterstest.Host) { after(h, energyFile, 2*second, meterstest.Text("5")) },
			notice: "more than 1000 W", err: "does not move", nan: 1},
		{name: "unplugged", change: func(h *meterstest.Host) { after(h, energyFile, 2*second, meterstest.Refused(fs.ErrNotExist)) },
			notice: "could not be read", err: "file does not exist"},
		{name: "reset", change: func(h *meterstest.Host) {
			after(h, energyFile, 2*second, func(ns int64) (string, error) { return fmt.Sprint((ns - 2*second) / 50), nil })
		}, notice: "more than 1000 W", nan: 1},
		{name: "long pause", change: func(h *meterstest.Host) {
			h.Late = func() int64 {
				if ns := h.HostNs(); ns > 2*second && ns < 3*second {
					return 300 * second
				}
				return 0
			}
		}, until: 400, notice: "wrapped more than once", nan: 1},
		{name: "no range", change: func(h *meterstest.Host) {
			delete(h.Files, class+"/intel-rapl:0/max_energy_range_uj")
		}, notice: "its range cannot be read", leftUJ: 60e6, nan: 1},
		{name: "extra gone for a while", change: func(h *meterstest.Host) {
			name := class + "/intel-rapl:0:1/energy_uj"
			good := h.Files[name]
			after(h, name, second, meterstest.Refused(fs.ErrNotExist))
			after(h, name, 2*second, good)
		}, notice: "dram (intel-rapl:0:1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.leftUJ == 0 {
				c.leftUJ = 300e6
			}
			h := machine(rangeUJ-c.leftUJ, constant(20))
			c.change(h)
			s := stream(t, h, meters.Options{}, max(c.until, 10)*second)
			if c.err == "" && s.err != nil || c.err != "" && (s.err == nil || !errors.Is(s.err, meters.ErrNoSamples) || !strings.Contains(s.err.Error(), c.err)) {
				t.Errorf("error %v, want %q", s.err, c.err)
			}
			if c.err != "" && h.HostNs() > 8*second {
				t.Errorf("given up at %d ns", h.HostNs())
			}
			said := ""
			for _, n := range s.notices {
				said += n.Text + "\n"
			}
			if !strings.Contains(said, c.notice) || c.notice == "" && said != "" {
				t.Errorf("said %q, want %q", said, c.notice)
			}
			nan := 0
			for i, row := range s.values {
				switch {
				case math.IsNaN(row[0]):
					nan++
				case i > 0 && math.Abs(row[0]-20) > 3:
					t.Fatalf("sample %d is %g W", i, row[0])
				}
				if d := row[2]; i > 0 && !math.IsNaN(d) && math.Abs(d-2) > 0.5 {
					t.Fatalf("sample %d of dram is %g W", i, d)
				}
			}
			if nan != c.nan {
				t.Errorf("%d samples without a value", nan)
			}
		})
	}
}

// TestSecondPackageStopped: a package whose counter stands still does not make
// the sum of packages smaller.
func TestSecondPackageStopped(t *testing.T) {
	h := machine(0, constant(20))
	h.Files[class+"/intel-rapl:1/name"] = meterstest.Text("package-1")
	h.Files[class+"/intel-rapl:1/energy_uj"] = meterstest.Text("77")
	s := stream(t, h, meters.Options{}, 10*second)
	if len(s.notices) != 1 || !strings.Contains(s.notices[0].Text, "has not moved") || !s.notices[0].Warn {
		t.Errorf("%+v", s.notices)
	}
	if last := s.values[len(s.values)-1]; !math.IsNaN(last[0]) {
		t.Errorf("%v", last)
	}
}

// TestSysfs: the class's entries are links, as in sysfs.
func TestSysfs(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const device = "sys/devices/virtual/powercap/intel-rapl/intel-rapl:0"
	for dir, name := range map[string]string{device: "package-0", device + "/intel-rapl:0:0": "core"} {
		write(dir+"/name", name+"\n")
		write(dir+"/energy_uj", "1234567\n")
		write(dir+"/max_energy_range_uj", "262143328850\n")
		link := filepath.Join(root, class, filepath.Base(dir))
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../"+dir, link); err != nil {
			t.Skip(err)
		}
	}
	h := meters.NewHostAt(root, meters.NewHostClock())
	found := Driver.Find(h)
	if len(found) != 2 || found[0].Spec != "rapl" || found[0].Model != "package-0" || found[0].Problem != nil || found[1].Spec != "rapl:core" {
		t.Errorf("%+v", found)
	}
	m, err := Driver.OpenHost(context.Background(), h, meters.Options{})
	if err != nil || strings.Join(m.Info().Columns, " ") != "watts core_watts" {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestOpenedLongBefore: the time between opening and streaming is no sample.
func TestOpenedLongBefore(t *testing.T) {
	h := machine(0, constant(20))
	m, err := Driver.OpenHost(context.Background(), h, meters.Options{Notify: func(n meters.Notice) { t.Errorf("%+v", n) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(context.Background(), 600*second); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = m.Stream(ctx, func(b meters.Block) error {
		if at := m.Info().FirstHostNs + b.TimesNs[0]; at < 600*second || math.Abs(b.Values[0][0]-20) > 3 {
			t.Errorf("the first sample is %g W from %d ns on", b.Values[0][0], at)
		}
		cancel()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func FuzzAdvance(f *testing.F) {
	f.Add(int64(rangeUJ), int64(rangeUJ-5), int64(1000), 0.01)
	f.Add(int64(0), int64(7), int64(3), 1.0)
	f.Add(int64(1<<62), int64(-1<<63), int64(1<<62), 1e-9)
	f.Fuzz(func(t *testing.T, rangeUJ, last, now int64, seconds float64) {
		if !(seconds > 0) {
			return
		}
		c := counter{rangeUJ: max(rangeUJ, 0), last: last, now: now}
		joules, err := c.advance(seconds)
		if err == nil && !(joules >= 0 && joules <= c.zone.maxWatts()*(seconds+updateSeconds)) {
			t.Fatalf("%g J in %g s", joules, seconds)
		}
		if c.last != now {
			t.Fatal("the counter did not go on")
		}
	})
}
