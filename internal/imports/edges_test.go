package imports

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/run"
)

// in returns the options with files of a folder.
func (o *EdgeOptions) in(dir string) *EdgeOptions {
	if o == nil {
		return nil
	}
	e := *o
	for _, name := range []*string{&e.File, &e.Names} {
		if *name != "" {
			*name = filepath.Join(dir, *name)
		}
	}
	return &e
}

func TestParseEdges(t *testing.T) {
	for spec, want := range map[string]string{
		"pin=d0": "{File: Channel: Sync: Pin:d0 OffsetSeconds:0 HaveOffset:false ActiveLow:false Alg: Op:unnamed N:0 Names:}",
		"a,b=c.vcd,channel=TRIG,sync=S,pin=d7,active=low,alg=ML-KEM-512,op=encaps,n=10": "edges \"a,b=c.vcd,channel=TRIG,sync=S,pin=d7,active=low,alg=ML-KEM-512,op=encaps,n=10\": unknown setting b (known: channel, sync, pin, offset, active, alg, op, n, names)",
		"a.vcd,channel=TRIG,sync=S,pin=d7,active=low,alg=ML-KEM-512,op=encaps,n=10":     "{File:a.vcd Channel:TRIG Sync:S Pin:d7 OffsetSeconds:0 HaveOffset:false ActiveLow:true Alg:ML-KEM-512 Op:encaps N:10 Names:}",
		"a.vcd,offset=-12.5ms": "{File:a.vcd Channel: Sync: Pin: OffsetSeconds:-0.0125 HaveOffset:true ActiveLow:false Alg: Op:unnamed N:0 Names:}",
		"a.vcd":                `edges "a.vcd": nothing says how the clock of the file goes with that of the samples; name a pin of the samples that saw the same edges (pin=d0), or state the sample time at which the file begins (offset=0s)`,
		"":                     `edges "": names neither a file nor a pin of the samples (pin=d0)`,
		"pin=d8":               `edges "pin=d8": pin "d8" is none of d0 to d7`,
		"pin=d0,offset=1s":     `edges "pin=d0,offset=1s": channel, sync and offset are about a file, and none is named`,
		"f,pin=d0,offset=1s":   `edges "f,pin=d0,offset=1s": pin and offset both say how file and samples go together; leave one out`,
		"f,offset=1":           `edges "f,offset=1": "1" has no unit (want s)`,
		"f,offset=2e9s":        `edges "f,offset=2e9s": offset 2e9s is beyond 1e9 s`,
		"f,offset=0s,n=0":      `edges "f,offset=0s,n=0": n=0 is no count`,
		"pin=d0,active=on":     `edges "pin=d0,active=on": active=on is neither low nor high`,
	} {
		o, err := ParseEdges(spec)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%+v", *o)
		}
		if got != want {
			t.Errorf("%s: got\n%s, want\n%s", spec, got, want)
		}
	}
}

// samplesWithPin makes an export of so many samples, pin D0 of which is high
// between places.
func samplesWithPin(n int, high ...[2]int) string {
	var b strings.Builder
	b.WriteString(ppk2Header)
	for i := range n {
		level := "0"
		for _, h := range high {
			if i >= h[0] && i < h[1] {
				level = "1"
			}
		}
		fmt.Fprintf(&b, "%g,1000.000,%s0000000\n", float64(i)/100, level)
	}
	return b.String()
}

// windowsOf prints the windows of a run in samples.
func windowsOf(got imported) string {
	var s []string
	for _, w := range got.windows {
		s = append(s, fmt.Sprintf("%s/%s x%d %.4g-%.4g", w.Alg, w.Op, w.N, w.From, w.To))
	}
	return strings.Join(s, " ")
}

func TestEdges(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", "edges", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	// SYNC of sigrok.vcd rises and falls at 50, 120, 150 µs: places 12, 19, 22
	// when the file begins at 70 µs.
	synced := samplesWithPin(100, [2]int{12, 19}, [2]int{22, 100})
	for _, c := range []struct {
		name, samples, edges, spec, windows, notes string
		count                                      int
	}{
		{"offset", samplesWithPin(30), read("sigrok.vcd"), "f.vcd,channel=TRIG,offset=10us,n=5", "/unnamed x5 3-6 /unnamed x5 21-27", "stated-volts! glitches", 6},
		{"low", samplesWithPin(30), read("saleae.csv"), "f.csv,offset=10us,active=low", "/unnamed x1 6-8", "stated-volts! count-assumed!", 3},
		{"offset, partly outside", samplesWithPin(30), read("sigrok.vcd"), "f.vcd,channel=TRIG,offset=70us,n=5", "/unnamed x5 9-12", "stated-volts! glitches windows-outside!", 6},
		{"shared edges", synced, read("sigrok.vcd"), "f.vcd,channel=TRIG,sync=SYNC,pin=d0,n=1", "/unnamed x1 9-12 /unnamed x1 27-33", "stated-volts! glitches", 6},
		{"sigrok CSV", samplesWithPin(30), read("sigrok.csv"), "f.csv,channel=TRIG,offset=0s,n=1", "/unnamed x1 2-4", "stated-volts!", 2},
		{"time column", samplesWithPin(30), read("saleae.csv"), "f.csv,offset=10us,n=1", "/unnamed x1 3-6", "stated-volts!", 3},
	} {
		o, err := ParseEdges(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		got, err := importEdgeFiles(t, o, c.samples, c.edges)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if windowsOf(got) != c.windows || codes(got.notes) != c.notes || len(got.edges) != c.count || got.summary.Windows != int64(len(got.windows)) {
			t.Errorf("%s: windows %s, notes %s, %d edges\nwant %s, %s, %d", c.name, windowsOf(got), codes(got.notes), len(got.edges), c.windows, c.notes, c.count)
		}
	}
}

// A pin of the samples alone is declared, and its windows are left to analysis.
func TestPinDeclared(t *testing.T) {
	for spec, want := range map[string]run.InBand{
		"pin=d0":                              {Stream: "meter", Column: "d0", Active: 1, N: 7},
		"pin=d0,active=low,alg=A,op=sign,n=3": {Stream: "meter", Column: "d0", Active: 0, Alg: "A", Op: "sign", N: 3},
	} {
		o, err := ParseEdges(spec)
		if err != nil {
			t.Fatal(err)
		}
		got, err := importFiles(t, Options{Samples: "s", Volts: 3.3, Edges: o, Count: 7}, map[string]string{"s": samplesWithPin(30, [2]int{3, 8})})
		if err != nil || len(got.inband) != 1 || got.inband[0] != want || len(got.windows)+len(got.edges) > 0 {
			t.Errorf("%s: %+v, %v", spec, got.inband, err)
		}
	}
}

func importEdgeFiles(t *testing.T, o *EdgeOptions, samples, edges string) (imported, error) {
	files := map[string]string{"s": samples}
	if o.File != "" {
		files[o.File] = edges
	}
	return importFiles(t, Options{Samples: "s", Volts: 3.3, Edges: o}, files)
}

// Where samples carry their own times, windows are statements.
func TestEdgesBesideTimes(t *testing.T) {
	got, err := importFiles(t, Options{Samples: "s", Edges: &EdgeOptions{File: "f", HaveOffset: true, OffsetSeconds: 1, Op: "sign", N: 3}}, map[string]string{
		"s": "time_s,watts\n5,1\n6,1\n7.5,1\n9,1\n",
		"f": "Time [s],X\n0,0\n0.5,1\n2,0\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.lines) != 2 || got.lines[0].HostNs != 6_500_000_000 || got.lines[1].HostNs != 8_000_000_000 || !strings.HasPrefix(string(got.lines[1].Text), "@jm end op=sign n=3 ") {
		t.Errorf("%+v", got.lines)
	}
}

func TestEdgeErrors(t *testing.T) {
	flat := samplesWithPin(30)
	vcd := func(body string) string {
		return "$timescale 1 us $end $var wire 1 ! A $end $var wire 1 \" B $end $enddefinitions $end\n" + body
	}
	for _, c := range []struct{ name, samples, edges, spec, want string }{
		{"no edges on the pin", flat, "", "pin=d0", "s: its pin d0 never changes"},
		{"two channels", flat, vcd("#1 1!"), "f,offset=0s", `f: its channels are ["A" "B"]; choose one with channel=NAME`},
		{"unknown channel", flat, vcd("#1 1!"), "f,channel=C,offset=0s", `f: its channels are ["A" "B"]; choose one with channel=NAME`},
		{"not the same signal", samplesWithPin(30, [2]int{3, 8}), vcd("#1 0!\n#10 1!"), "f,channel=A,pin=d0", "f: 1 edges in the file and 2 in the samples: these are not the same signal; name another pin or sync channel, or state offset="},
		{"another length", samplesWithPin(30, [2]int{3, 8}), vcd("#0 0!\n#10 1!\n#110 0!"), "f,channel=A,pin=d0", "f: the edges lie 0.5 times as far apart in the samples as in the file: these are not the same signal, or a clock is wrong"},
		{"another shape", samplesWithPin(90, [2]int{3, 8}, [2]int{20, 60}), vcd("#0 0!\n#10 1!\n#300 0!\n#310 1!\n#580 0!"), "f,channel=A,pin=d0", "f: edge 2 lies 0.00024 s off in the samples: these are not the same signal"},
		{"inverted", samplesWithPin(30, [2]int{3, 8}), vcd("#0 1!\n#10 0!\n#60 1!"), "f,channel=A,pin=d0", "f: edge 1 lies 0 s off in the samples: these are not the same signal"},
		{"timescale", flat, "$timescale 3 us $end\n", "f,offset=0s", `f:1: timescale "3us" is none (want 1, 10 or 100 and s, ms, us, ns, ps or fs)`},
		{"no timescale", flat, "$var wire 1 ! A $end\n$enddefinitions $end\n", "f,offset=0s", "f:2: no $timescale: the unit of its times is not known"},
		{"no definitions", flat, "$var wire 1 ! A $end\n", "f,offset=0s", "f: ends within its declarations ($enddefinitions)"},
		{"short var", flat, "$var wire 1 $end\n", "f,offset=0s", "f:1: a $var of 2 words, want type, size, code and name"},
		{"early change", flat, "$timescale 1 us $end\n#0\n", "f,offset=0s", `f:2: "#0" before the end of the declarations`},
		{"VCD backwards", flat, vcd("#5 1!\n#4 0!"), "f,channel=A,offset=0s", "f:3: time runs backwards: 0.000004 s after 0.000005 s"},
		{"VCD time", flat, vcd("#x"), "f,channel=A,offset=0s", `f:2: "#x" is no time`},
		{"VCD huge time", flat, vcd("#18446744073709551615"), "f,channel=A,offset=0s", `f:2: "#18446744073709551615" is no time`},
		{"VCD change", flat, vcd("#1 hello"), "f,channel=A,offset=0s", `f:2: "hello" is neither a time nor a change of level`},
		{"CSV level", flat, "Time [s],X\n0,0\n1,2\n", "f,offset=0s", `f:3:3: "2" is no level (0 or 1)`},
		{"CSV without time", flat, "X,Y\n0,1\n", "f,channel=X,offset=0s", "f:1: no column of time and no comment of the sample rate: the times of the levels are not known"},
		{"CSV time without unit", flat, "Time,X\n0,1\n", "f,offset=0s", `f:1:1: column "Time" has no unit: write it as in "time_s" or "Time (ms)"`},
		{"CSV rate", flat, "; Samplerate: fast\nX\n0\n", "f,offset=0s", `f:1: sample rate " fast" is none`},
		{"CSV fields", flat, "Time [s],X\n0,0,1\n1,1\n", "f,offset=0s", "f:2: 3 fields, but the header names 2"},
		{"CSV backwards", flat, "Time [s],X\n1,0\n0,1\n", "f,offset=0s", "f:3: time runs backwards: 0 s after 1 s"},
		{"CSV time", flat, "Time [s],X\nsoon,0\n", "f,offset=0s", `f:2:1: time "soon" is not a number`},
		{"CSV empty", flat, "; nothing\n", "f,offset=0s", "f: holds no header of channels, such as Time [s],D0"},
		{"outside", flat, vcd("#0 0!\n#10 1!\n#60 0!"), "f,channel=A,offset=10s", "f: the pin A bounds no window within the samples (2 edges, 0 pulses too short, 1 outside)"},
	} {
		o, err := ParseEdges(c.spec)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_, err = importEdgeFiles(t, o, c.samples, c.edges)
		if err == nil || err.Error() != "import "+c.want {
			t.Errorf("%s: got  %v\nwant import %s", c.name, err, c.want)
		}
	}
	o := &EdgeOptions{Pin: "d0"}
	if _, err := importFiles(t, Options{Samples: "s", Edges: o}, map[string]string{"s": "time_s,watts\n0,1\n1,1\n"}); err == nil || err.Error() != "import s: its samples hold no pin d0" {
		t.Errorf("no pins: %v", err)
	}
	if _, err := importFiles(t, Options{Samples: "s", Edges: o}, map[string]string{"s": fnirsiHeader + "1671208326.775 0 5 0.1 3 0 28 0.005 0.001\n"}); err == nil || err.Error() != "import s: a recording of format fnirsi takes no edges beside it" {
		t.Errorf("fnirsi: %v", err)
	}
}

// TestVCDCrowded: a channel with more edges than are kept is refused.
func TestLevelsBounded(t *testing.T) {
	l := levelsOf{name: "X", last: -1, edges: make([]level, maxLevels)}
	if err := l.add(1, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.add(2, 1); err == nil {
		t.Error("one edge more was taken")
	}
}

func FuzzEdges(f *testing.F) {
	corpus(f, "testdata/edges/*.*")
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{Samples: "s", Edges: &EdgeOptions{File: "e", Channel: "TRIG", HaveOffset: true}},
			map[string][]byte{"s": []byte("time_s,watts\n0,1\n1,1\n2,1\n"), "e": b})
	})
}
