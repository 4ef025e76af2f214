package imports

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden imports every file of testdata and compares what the run holds
// with the golden file beside it.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.*")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		if filepath.Base(filepath.Dir(path)) == "edges" || slices.Contains([]string{".golden", ".marks", ".volts"}, filepath.Ext(path)) {
			continue
		}
		t.Run(path[len("testdata/"):], func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Samples: filepath.Base(path)}
			files := map[string]string{o.Samples: string(text)}
			if marks, err := os.ReadFile(path + ".marks"); err == nil {
				o.Marks = "marks"
				files["marks"] = string(marks)
			}
			if strings.Contains(path, "no-time") {
				o.RateHz = 1000
			}
			if strings.Contains(path, "counted") {
				o.Count = 1000
			}
			if strings.Contains(path, "current") {
				o.Volts = 3.3
			}
			if volts, err := os.ReadFile(path + ".volts"); err == nil {
				o.Also, o.Volts = []string{"volts"}, 0
				files["volts"] = string(volts)
			}
			got, err := importFiles(t, o, files)
			if err != nil {
				t.Fatal(err)
			}
			want := path + ".golden"
			if *update {
				if err := os.WriteFile(want, []byte(describe(got)), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if describe(got) != string(golden) {
				t.Errorf("imported\n%swant\n%s", describe(got), golden)
			}
		})
	}
}

// describe prints what an import gave.
func describe(got imported) string {
	var b strings.Builder
	for _, line := range got.log {
		fmt.Fprintf(&b, "log: %s\n", line)
	}
	i := got.info
	fmt.Fprintf(&b, "header: from %s, name %s, started %q\n", got.header.From, got.header.Name, got.header.Started)
	fmt.Fprintf(&b, "meter: %s %q columns %v wide %v, %g Hz, packets of %d, %s, clock %s from %d ns, accuracy %s\n",
		i.Driver, i.Model, i.Columns, i.Wide, i.RateHz, i.PacketSamples, i.Sample, i.Clock, i.FirstHostNs, i.Accuracy)
	s := got.summary
	fmt.Fprintf(&b, "summary: %s, %d samples at %g Hz, %g s, %d lines, %d statements\n", s.Saw, s.Samples, s.RateHz, s.Seconds, s.Lines, s.Statements)
	fmt.Fprintf(&b, "segments: %d\n", got.segments)
	for _, name := range i.Columns {
		fmt.Fprintf(&b, "%s: %v\n", name, got.columns[name])
	}
	if len(got.timesNs) > 0 {
		fmt.Fprintf(&b, "t_ns: %v\n", got.timesNs)
	}
	for _, a := range got.arrivals {
		fmt.Fprintf(&b, "arrival: segment %d before row %d at %d ns\n", a.Segment, a.Row, a.HostNs)
	}
	for _, l := range got.lines {
		fmt.Fprintf(&b, "line: %d ns %s %q\n", l.HostNs, l.Source, l.Text)
	}
	for _, n := range got.notes {
		fmt.Fprintf(&b, "note: %d ns %s, count %d, warn %v: %s\n", n.HostNs, n.Code, n.Count, n.Warn, n.Text)
	}
	return b.String()
}
