package imports

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// recording makes the files of a small energyrunner folder: 1 kHz, an edge for
// the timestamp command, then three windows of 8, 8 and 6 inferences.
type recording struct {
	version byte
	rateHz  float64
	edges   []float64
	seconds float64
	cut     int // bytes taken from the end of the trace
	log     []string
}

func sound() recording {
	return recording{
		version: traceVersion, rateHz: 1000, seconds: 12,
		edges: []float64{0.014, 2.711, 4.045, 5.85, 7.184, 8.99, 9.5},
		log: []string{
			"00097.420 session: m-session-start-id[20230517164301]",
			"00097.933 parser: m-bm-cfg-name[ulp-ml]-key[iterInfer]-val[8]",
			"00097.933 parser: m-bm-cfg-name[ulp-ml]-key[model]-val[kws01]",
			"00098.128 io: [dut]: m-model-[kws01]",
			"00100.000 emon: m-trace[on]",
			"00102.690 parser: Command \"io dut infer 8 1\"",
			"00102.723 io: [dut]: m-infer-start-8",
			"00104.065 io: [dut]: m-infer-done",
			"00105.840 parser: Command \"io dut infer 8 1\"",
			"00105.862 io: [dut]: m-infer-start-8",
			"00107.203 io: [dut]: m-infer-done",
			"00108.960 parser: Command \"io dut infer 6 1\"",
			"00109.001 io: [dut]: m-infer-start-6",
			"00109.521 io: [dut]: m-infer-done",
			"00113.000 emon: m-regfile-fn[trace1-energy.bin]-type[emon]-name[lpm01a]",
			"00113.010 emon: m-voltage-mv[3000]",
		},
	}
}

// microjoules is the energy of sample i of the recordings.
func microjoules(i int) float32 { return 100 + float32(i%7) }

func (r recording) bin() string {
	b := []byte{r.version}
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(r.rateHz)))
	for i := range int(r.seconds * r.rateHz) {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(microjoules(i)))
	}
	return string(b[:len(b)-r.cut])
}

func (r recording) json() string {
	var s []string
	for _, e := range r.edges {
		s = append(s, fmt.Sprint(e))
	}
	return "[\n\t" + strings.Join(s, ",\n\t") + "\n]"
}

func (r recording) files(dir string) map[string]string {
	return map[string]string{
		dir + "/trace1-energy.bin":      r.bin(),
		dir + "/trace1-timestamps.json": r.json(),
		dir + "/log.txt":                strings.Join(r.log, "\n") + "\n",
	}
}

// results is what the runner writes of the given windows, each off by uj.
func (r recording) results(uj float64, windows ...int) string {
	var b strings.Builder
	for _, w := range windows {
		sum := 0.0
		t := 0.0
		for i := range int(r.seconds * r.rateHz) {
			if t >= r.edges[w-1] && t < r.edges[w] {
				sum += float64(microjoules(i))
			}
			t += 1 / r.rateHz
		}
		fmt.Fprintf(&b, "00176.016 ulp-ml: Energy data for window %d at time 2.71 for 13.33 sec.:\r\n", w)
		fmt.Fprintf(&b, "00176.016 ulp-ml:   Energy       :  %.3f uJ\r\n", sum+uj)
		fmt.Fprintf(&b, "00176.016 ulp-ml:   Energy/Inf.  :     1.000 uJ/inf.\r\n")
	}
	return b.String()
}

// without returns the log without the lines that hold text.
func (r recording) without(text string) []string {
	return slices.DeleteFunc(slices.Clone(r.log), func(line string) bool { return strings.Contains(line, text) })
}

func TestEnergyRunner(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(r *recording, files map[string]string)
		windows string // W:N:From-To
		notes   string
	}{
		{"sound", func(r *recording, files map[string]string) {
			files["run one/results.txt"] = r.results(0, 2, 4, 6)
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "results-agree"},
		{"no results", nil, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"results off", func(r *recording, files map[string]string) {
			files["run one/results.txt"] = r.results(150, 2, 4, 6)
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "results-differ!"},
		{"results off by one sample", func(r *recording, files map[string]string) {
			files["run one/results.txt"] = r.results(99, 2, 4, 6)
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "results-agree"},
		{"results of a window that is not there", func(r *recording, files map[string]string) {
			files["run one/results.txt"] = strings.ReplaceAll(r.results(0, 2), "window 2", "window 12")
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "results-differ!"},
		{"results unreadable", func(r *recording, files map[string]string) {
			files["run one/results.txt"] = "\x00\x01"
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "results-unread"},
		{"CRLF and another log name", func(r *recording, files map[string]string) {
			delete(files, "run one/log.txt")
			files["run one/energy_log.txt"] = strings.Join(r.log, "\r\n")
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"another target name", func(r *recording, files map[string]string) {
			files["run one/log.txt"] = strings.ReplaceAll(strings.Join(r.log, "\n"), "dut", "dut0")
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"first edge missed", func(r *recording, files map[string]string) {
			r.edges = slices.Delete(r.edges, 1, 2)
		}, "3:8:5850-7184 5:6:8990-9500", "edges-missed! inferences-unbounded!"},
		{"edge missed in the middle", func(r *recording, files map[string]string) {
			r.edges = slices.Delete(r.edges, 3, 4)
		}, "2:8:2712-4046 5:6:8990-9500", "edges-missed! inferences-unbounded!"},
		{"last edge missed", func(r *recording, files map[string]string) {
			r.edges = r.edges[:6]
		}, "2:8:2712-4046 4:8:5850-7184", "edges-missed! inferences-unbounded!"},
		{"first edge missed of even commands", func(r *recording, files map[string]string) {
			// Moved by one command, the log fits the edges just as often.
			r.edges = []float64{0.1, 2, 4, 5, 7, 8, 10, 11}
			r.log = []string{"1.0 io: [dut]: m-model-[kws01]", "100.0 emon: m-trace[on]"}
			for i, n := range []int{1, 2, 3, 4} {
				r.log = append(r.log, fmt.Sprintf("%d.0 io: [dut]: m-infer-start-%d", 101+3*i, n), fmt.Sprintf("%d.0 io: [dut]: m-infer-done", 102+3*i))
			}
		}, "3:2:4001-5000 5:3:7000-8000 7:4:10001-11001", "edges-missed! inferences-unbounded!"},
		{"extra edge at boot", func(r *recording, files map[string]string) {
			r.edges = slices.Insert(r.edges, 1, 0.5)
		}, "2:8:500-2712 4:8:4046-5850 6:6:7184-8990", "edges-missed!"},
		{"extra edge at the end", func(r *recording, files map[string]string) {
			r.edges = append(r.edges, 10)
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"a line came late", func(r *recording, files map[string]string) {
			r.log[7] = "00104.865 io: [dut]: m-infer-done"
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"counts from the runner's commands", func(r *recording, files map[string]string) {
			r.log = r.without("m-infer")
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"counts from the configuration", func(r *recording, files map[string]string) {
			r.log = r.without("infer ")
			r.log = slices.DeleteFunc(r.log, func(s string) bool { return strings.Contains(s, "m-infer") })
		}, "2:8:2712-4046 4:8:5850-7184 6:8:8990-9500", ""},
		{"log of another run", func(r *recording, files map[string]string) {
			for i, line := range r.log {
				r.log[i] = strings.Replace(line, "0010", "0050", 1)
			}
			r.log = r.without("m-trace[on]")
			r.edges = []float64{0.1, 0.2, 3.2, 4, 9, 10, 11.5}
		}, "2:8:200-3201 4:8:4001-9000 6:6:10001-11501", "log-differs!"},
		{"cut within a sample", func(r *recording, files map[string]string) { r.cut = 3 },
			"2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "torn-trace!"},
		{"cut before the last window ends", func(r *recording, files map[string]string) { r.seconds = 9.2 },
			"2:8:2712-4046 4:8:5850-7184", "window-cut!"},
		{"window ends with the trace", func(r *recording, files map[string]string) { r.seconds = 9.5 },
			"2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"other rate", func(r *recording, files map[string]string) { r.rateHz = 250 },
			"2:8:678-1012 4:8:1463-1797 6:6:2248-2376", ""},
		{"other version, confirmed", func(r *recording, files map[string]string) {
			r.version = 0xF2
			files["run one/results.txt"] = r.results(0, 2, 4, 6)
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "trace-version! results-agree"},
		{"dropped packets and errors", func(r *recording, files map[string]string) {
			r.log = append(r.log, "00113.1 emon: m-[Dropped 12 packets out of 1283584, 0%]", "00113.2 emon: e-[trouble]", "no stamp", "")
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "meter-dropped! log-error!"},
		{"edges only in the log", func(r *recording, files map[string]string) {
			for _, e := range r.edges {
				r.log = append(r.log, fmt.Sprintf("%09.3f emon: m-lap-us-%.0f", 100+e, e*1e6))
			}
			r.edges = r.edges[:3]
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "edges-from-log!"},
		{"laps of another clock", func(r *recording, files map[string]string) {
			for _, e := range r.edges {
				r.log = append(r.log, fmt.Sprintf("%09.3f io: m-lap-us-%.0f", 100+e, 3e7+e*1e6))
			}
		}, "2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", ""},
		{"no model", func(r *recording, files map[string]string) { r.log = r.without("model") },
			"2:8:2712-4046 4:8:5850-7184 6:6:8990-9500", "model-unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sound()
			extra := map[string]string{}
			if c.change != nil {
				c.change(&r, extra)
			}
			files := r.files("run one")
			if _, other := extra["run one/energy_log.txt"]; other {
				delete(files, "run one/log.txt")
			}
			maps.Copy(files, extra)
			got, err := importFiles(t, Options{Samples: "run one"}, files)
			if err != nil {
				t.Fatal(err)
			}
			var windows []string
			for _, w := range got.windows {
				windows = append(windows, fmt.Sprintf("%d:%d:%g-%g", w.W, w.N, w.From, w.To))
				if wantAlg := map[bool]string{true: "unknown", false: "kws01"}[c.name == "no model"]; w.Alg != wantAlg || w.Op != "infer" || w.Stream != "meter" {
					t.Errorf("window %+v", w)
				}
			}
			if s := strings.Join(windows, " "); s != c.windows {
				t.Errorf("windows %s\nwant    %s", s, c.windows)
			}
			if s := codes(got.notes); s != c.notes {
				t.Errorf("notes %q, want %q: %+v", s, c.notes, got.notes)
			}
		})
	}
}

// TestEnergyRunnerRecord: what else an imported recording holds.
func TestEnergyRunnerRecord(t *testing.T) {
	r := sound()
	got, err := importFiles(t, Options{Samples: "a/trace1-energy.bin"}, r.files("a"))
	if err != nil {
		t.Fatal(err)
	}
	watts := got.columns[meters.Watts]
	if len(watts) != 12000 || watts[6] != float64(microjoules(6))*1e-6*1000 {
		t.Errorf("%d samples, the seventh of %g W", len(watts), watts[6])
	}
	i := got.info
	if i.Model != "ST X-NUCLEO-LPM01A" || i.Sample != meters.Mean || i.RateHz != 1000 || i.Clock != meters.Shared || i.FirstHostNs != 3e9 || i.Accuracy.Known(true) {
		t.Errorf("meter %+v", i)
	}
	if len(got.lines) != len(r.log) || string(got.lines[3].Text) != r.log[3] || got.lines[3].HostNs != 1128000000 || got.lines[3].Source != "log" {
		t.Errorf("%d lines, the fourth %+v", len(got.lines), got.lines[3])
	}
	if got.env["runner_session"] != "20230517164301" || got.env["supply_mv"] != "3000" {
		t.Errorf("env %v", got.env)
	}
}

func TestEnergyRunnerErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      Options
		change func(r *recording, files map[string]string)
		want   string
	}{
		{"no log", Options{}, func(r *recording, files map[string]string) { delete(files, "a/log.txt") },
			"a: how many inferences a window holds is not known; put the log.txt of this recording (with its lines m-infer-start-N) into the folder"},
		{"counts without an order", Options{}, func(r *recording, files map[string]string) {
			files["a/log.txt"] = "1.0 parser: Command \"io dut infer 8 1\"\n2.0 parser: Command \"io dut infer 6 1\"\n"
		}, "a: 3 windows, but 2 inference commands of different counts in log.txt: which belongs to which is not known"},
		{"no edges file", Options{}, func(r *recording, files map[string]string) { delete(files, "a/trace1-timestamps.json") },
			"a: trace1-timestamps.json: no such file or directory"},
		{"edges are no JSON", Options{}, func(r *recording, files map[string]string) { files["a/trace1-timestamps.json"] = "[1, 2" },
			"a/trace1-timestamps.json: is no JSON array of seconds: unexpected end of JSON input"},
		{"edges fall", Options{}, func(r *recording, files map[string]string) { files["a/trace1-timestamps.json"] = "[1, 3, 2]" },
			"a/trace1-timestamps.json: edge 3 at 2 s is not after edge 2 at 3 s"},
		{"edges negative", Options{}, func(r *recording, files map[string]string) { files["a/trace1-timestamps.json"] = "[-1]" },
			"a/trace1-timestamps.json: edge 1 at -1 s is not within a recording"},
		{"too many edges", Options{}, func(r *recording, files map[string]string) {
			files["a/trace1-timestamps.json"] = "[0" + strings.Repeat(",0", maxEdges) + "]"
		}, "a/trace1-timestamps.json: holds 1001 edges, at most 1000 are read"},
		{"huge edges file", Options{}, func(r *recording, files map[string]string) {
			files["a/trace1-timestamps.json"] = strings.Repeat(" ", maxEdgesFile+1)
		}, "a/trace1-timestamps.json: is larger than 1048576 bytes"},
		{"two edges", Options{}, func(r *recording, files map[string]string) { files["a/trace1-timestamps.json"] = "[1, 2]" },
			"a/trace1-timestamps.json: 2 edges bound no window of inferences"},
		{"empty trace", Options{}, func(r *recording, files map[string]string) { files["a/trace1-energy.bin"] = "" },
			"a: trace1-energy.bin: the file is empty"},
		{"short trace", Options{}, func(r *recording, files map[string]string) { files["a/trace1-energy.bin"] = "\xf1\x00" },
			"a/trace1-energy.bin: 2 bytes are no energy trace"},
		{"no samples", Options{}, func(r *recording, files map[string]string) { files["a/trace1-energy.bin"] = r.bin()[:5] },
			"a/trace1-energy.bin: holds no samples"},
		{"rate of nonsense", Options{}, func(r *recording, files map[string]string) {
			files["a/trace1-energy.bin"] = "\xf1\xff\xff\xff\xff1234"
		}, "a/trace1-energy.bin: a sample rate of NaN Hz: this is no energy trace"},
		{"all NaN", Options{}, func(r *recording, files map[string]string) {
			files["a/trace1-energy.bin"] = r.bin()[:5] + "\x00\x00\xc0\x7f\x00\x00\xc0\x7f"
		}, "a/trace1-energy.bin: no sample has a value"},
		{"trace before the first window", Options{}, func(r *recording, files map[string]string) {
			files["a/trace1-energy.bin"] = r.bin()[:5+4*2000]
		}, "a/trace1-energy.bin: the samples end before the first window does"},
		{"other version", Options{}, func(r *recording, files map[string]string) { files["a/trace1-energy.bin"] = "\xf2" + r.bin()[1:] },
			"a/trace1-energy.bin: version F2 of the trace format is not known (want F1), and no results.txt confirms that its samples mean the same"},
		{"two traces", Options{}, func(r *recording, files map[string]string) { files["a/trace2-energy.bin"] = r.bin() },
			"a: holds 2 files *-energy.bin, want one; name the one to import"},
		{"marks given", Options{Marks: "m"}, nil, "a: an energyrunner folder brings its own marks; leave --marks out"},
		{"rate given", Options{RateHz: 5}, nil, "a: an energyrunner trace states its rate; leave --rate out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sound()
			files := r.files("a")
			if c.change != nil {
				c.change(&r, files)
			}
			c.o.Samples = "a"
			if c.o.Marks != "" {
				files[c.o.Marks] = "1 @jm ok\n"
			}
			_, err := importFiles(t, c.o, files)
			if err == nil || err.Error() != "import "+c.want {
				t.Errorf("error %v\nwant  import %s", err, c.want)
			}
		})
	}
}
