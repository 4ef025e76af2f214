package imports

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// imported is an imported run as read back.
type imported struct {
	summary  Summary
	header   run.Header
	info     meters.Info
	segments int
	columns  map[string][]float64
	timesNs  []int64
	arrivals []run.Arrival
	lines    []run.Line
	windows  []run.Window
	edges    []run.Edge
	inband   []run.InBand
	notes    []run.Note
	env      map[string]string
	log      []string // what Import told
}

func readBack(t *testing.T, dir string) imported {
	t.Helper()
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if report := r.Check(); len(report.Damage) > 0 || r.Closing == nil {
		t.Fatalf("the imported run is damaged or open: %+v", report.Damage)
	}
	got := imported{header: r.Header, notes: r.Notes, env: r.Env, columns: map[string][]float64{}}
	got.info, got.segments = r.Streams[0].Info, len(r.Streams[0].Segments)
	for b, err := range r.Samples("meter") {
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range b.Columns {
			got.columns[name] = append(got.columns[name], values...)
		}
		got.timesNs = append(got.timesNs, b.TimesNs...)
	}
	for a, err := range r.Arrivals("meter") {
		if err != nil {
			t.Fatal(err)
		}
		got.arrivals = append(got.arrivals, a)
	}
	for rec, err := range r.Records() {
		switch {
		case err != nil:
			t.Fatal(err)
		case rec.Line != nil:
			got.lines = append(got.lines, *rec.Line)
		case rec.InBand != nil:
			got.inband = append(got.inband, *rec.InBand)
		case rec.Edge != nil:
			got.edges = append(got.edges, *rec.Edge)
		case rec.Window != nil:
			got.windows = append(got.windows, *rec.Window)
		}
	}
	return got
}

// importFiles writes files into a folder of its own and imports them: the
// first name that o does not set is Samples.
func importFiles(t *testing.T, o Options, files map[string]string) (imported, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o.Samples = filepath.Join(dir, o.Samples)
	for i, name := range o.Also {
		o.Also[i] = filepath.Join(dir, name)
	}
	if o.Marks != "" {
		o.Marks = filepath.Join(dir, o.Marks)
	}
	o.Edges = o.Edges.in(dir)
	o.Out, o.Tool = filepath.Join(dir, "out", "Run 1"), "test"
	var log []string
	sum, err := Import(context.Background(), o, func(s string) { log = append(log, strings.ReplaceAll(s, dir+"/", "")) })
	if err != nil {
		if _, statErr := os.Lstat(o.Out); statErr == nil {
			t.Errorf("%s exists after the error %v", o.Out, err)
		}
		return imported{log: log}, &shortError{err, strings.ReplaceAll(err.Error(), dir+"/", "")}
	}
	got := readBack(t, o.Out)
	got.summary, got.log = sum, log
	if !slices.Equal(sum.Notes, got.notes) {
		t.Errorf("notes in the summary %v, in the run %v", sum.Notes, got.notes)
	}
	return got, nil
}

// shortError prints without the test's folder.
type shortError struct {
	error
	text string
}

func (e *shortError) Error() string { return e.text }
func (e *shortError) Unwrap() error { return e.error }

// importText imports one file of samples.
func importText(t *testing.T, o Options, name, text string) (imported, error) {
	t.Helper()
	o.Samples = name
	return importFiles(t, o, map[string]string{name: text})
}

// codes lists the codes of notes, warnings with a !.
func codes(notes []run.Note) string {
	var s []string
	for _, n := range notes {
		code := n.Code
		if n.Warn {
			code += "!"
		}
		s = append(s, code)
	}
	return strings.Join(s, " ")
}

// TestDetect: a format is told by what is in the file, not by its name.
func TestDetect(t *testing.T) {
	for _, c := range []struct{ name, text, format string }{
		{"power.csv", "\n" + fnirsiHeader + "1671208326.775 0 5.0 0.1 3 0 28 0.005 0.001\n", "fnirsi"},
		{"fnirsi.txt", "time_s,watts\n0,1\n", "csv"},
		{"x", "# a comment\n\nPower (W);Time (s)\n1;0\n", "csv"},
	} {
		got, err := importText(t, Options{}, c.name, c.text)
		if err != nil || got.summary.Format != c.format || got.header.From != c.format || got.summary.Saw == "" {
			t.Errorf("%s: %+v, %v", c.name, got.summary, err)
		}
	}
}

// TestMarksBesideFnirsi: stamps and marks count on one clock, the run from the
// whole second before the first stamp.
func TestMarksBesideFnirsi(t *testing.T) {
	accuracy, err := meters.ParseAccuracy("v=0.5%+20uV,a=0.5%+20uA")
	if err != nil {
		t.Fatal(err)
	}
	got, err := importFiles(t, Options{Samples: "p", Marks: "m", Accuracy: accuracy, AccuracyGiven: true}, map[string]string{
		"p": "\n" + fnirsiHeader + "1671208326.775 0 5.0 0.1 3 0 28 0.005 0.001\n1671208326.785 1 5.0 0.1 3 0 28 0.010 0.002\n",
		"m": "# timestamp event_fields...\n1671208326.790123456 @jm begin op=sign\n1671208325 \xff\n1671208327.5\t\tHELLO 1 \r\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.header.Started != "2022-12-16T16:32:06Z" || got.arrivals[0].HostNs != 815e6 || got.info.Accuracy.String() != accuracy.String() {
		t.Errorf("started %s, arrivals %v, accuracy %s", got.header.Started, got.arrivals, got.info.Accuracy)
	}
	want := []run.Line{
		{HostNs: 790123456, Source: "marks", Text: []byte("@jm begin op=sign")},
		{HostNs: -1e9, Source: "marks", Text: []byte("\xff")},
		{HostNs: 15e8, Source: "marks", Text: []byte("\tHELLO 1 ")},
	}
	if !slices.EqualFunc(got.lines, want, func(a, b run.Line) bool {
		return a.HostNs == b.HostNs && a.Source == b.Source && string(a.Text) == string(b.Text)
	}) {
		t.Errorf("lines %+v", got.lines)
	}
	if got.summary.Lines != 3 || got.summary.Statements != 1 {
		t.Errorf("summary %+v", got.summary)
	}
}
