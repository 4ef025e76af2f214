package exports

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
)

var update = flag.Bool("update", false, "write the expected files anew")

// two runs as an analysis may state them: one complete, one of which little is
// known, with text that would break a careless writer.
func two() []analysis.Results {
	nan := analysis.Num(math.NaN())
	unstated := analysis.Quantity{Value: nan, U: nan, Lo95: nan, Hi95: nan, URepeat: nan, DofRepeat: nan, Lo95Repeat: nan, Hi95Repeat: nan, UShared: nan}
	value := func(v analysis.Num) analysis.Quantity {
		return analysis.Quantity{Value: v, U: v / 100, Lo95: v * 0.98, Hi95: v * 1.02,
			URepeat: v / 200, DofRepeat: 6, Lo95Repeat: v * 0.99, Hi95Repeat: v * 1.01, UShared: v / 1000}
	}
	return []analysis.Results{
		{
			Run: "pi1", Simulated: true, Baseline: analysis.Local,
			Meter:     analysis.Meter{Name: "usb", Driver: "fnb58", Model: "FNB58", Accuracy: "v=0.5%+20uV,a=0.5%+20uA"},
			Target:    analysis.Target{Name: "pi1", ISA: "armv6", Bits: 32, Impl: "circl v1.6.5", CC: "gcc 12.2", CFlags: "-O2"},
			Alignment: analysis.Alignment{Method: "edges", Offset: 0.0574, U: 0.0002},
			Operations: []analysis.Operation{{
				Alg: "Ed25519", Op: "sign", Windows: 1, Count: 5, IdleMode: "os", Net: value(0.001), Gross: value(0.002), NetWatts: unstated, Idle: unstated,
				IdleStep: unstated, Overhead: unstated, Latency: analysis.Latency{Mean: 0.01}, Voided: true, Warnings: []string{"timed out"},
			}, {
				Alg: "ML-DSA-44", Op: "sign", Windows: 2, Count: 300, IdleMode: "os", Keys: 4,
				Net: value(0.016), Gross: value(0.064), NetWatts: value(0.16), Idle: value(0.48), IdleStep: unstated, Overhead: unstated,
				Latency:  analysis.Latency{Mean: 0.1, P50: 0.09, P95: 0.2, Min: 0.05, Max: 0.4, SD: 0.04},
				Warnings: []string{"few windows, \"n\" is small", "one key"},
			}},
			Windows: []analysis.Window{
				{W: 1, Alg: "ML-DSA-44", Op: "sign", N: 100, IdleMode: "os", T0: 1, T1: 11, Gross: 6.4, Net: 1.6, Idle: 0.48, Coverage: 1},
				{W: 2, Alg: "ML-DSA-44", Op: "sign", N: 200, IdleMode: "os", T0: 20, T1: 40, Gross: 12.8, Net: 3.2, Idle: 0.48, Coverage: 1},
				{W: 3, Alg: "ML-DSA-44", Op: "sign", N: 100, IdleMode: "os", T0: 50, T1: 51, Gross: nan, Net: nan, Idle: nan, Coverage: 0.5, Excluded: "half of it is missing"},
				{W: 5, Alg: "Ed25519", Op: "sign", N: 5, IdleMode: "os", T0: 70, T1: 70.05, Gross: 0.01, Net: 0.005, Idle: 0.1, Coverage: 1},
				{W: 4, Alg: "spin", Op: "run", N: 100, IdleMode: "os", T0: 60, T1: 61, Gross: 1, Net: 0.5, Idle: 0.5, Coverage: 1, DutyCycle: true},
			},
			Warnings: []string{}, Voids: []string{"Ed25519 sign: see its warnings"},
		},
		{
			Run: "log", Baseline: analysis.None, Meter: analysis.Meter{Name: "usb"},
			Operations: []analysis.Operation{{
				Alg: "empty", Op: "two words/x", Windows: 1, Count: 1, Net: unstated, Gross: value(0.5), NetWatts: unstated, Idle: unstated,
				IdleStep: unstated, Overhead: unstated, Latency: analysis.Latency{Mean: 2, P50: nan, P95: nan, Min: nan, Max: nan, SD: nan}, Voided: true,
			}},
			Windows:  []analysis.Window{{W: 1, Alg: "empty", Op: "two words/x", N: 1, T0: 1, T1: 3, Gross: 0.5, Net: nan, Idle: nan, Coverage: 1}},
			Warnings: []string{"a line\nbreak"}, Voids: []string{"a line\nbreak"},
		},
	}
}

func csvOf(t *testing.T, table Table) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCSV(&b, table); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is otherwise (go test ./internal/exports -update, then look at it):\n%s", name, got)
	}
}

func TestCSV(t *testing.T) {
	golden(t, "results.csv", csvOf(t, Results(two())))
	golden(t, "windows.csv", csvOf(t, Windows(two())))
}

// dicts reads CSV with a header as one map a row.
func dicts(t *testing.T, text []byte) []map[string]string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, name := range rows[0] {
			m[name] = row[i]
		}
		out = append(out, m)
	}
	return out
}

func TestWhatIsNotStatedIsEmpty(t *testing.T) {
	rows := dicts(t, csvOf(t, Results(two())))
	for column, want := range map[string]string{
		"net_j_per_op": "", "net_j_per_op_lo95": "", "gross_j_per_op": "0.5", "bits": "", "keys": "", "latency_s": "2",
		"latency_s_p50": "", "voided": "true", "run_voided": "true", "simulated": "false", "run_warnings": "a line\nbreak",
	} {
		if got, ok := rows[2][column]; !ok || got != want {
			t.Errorf("%s is %q (there: %v), want %q", column, got, ok, want)
		}
	}
	if rows[0]["voided"] != "true" || rows[0]["run_voided"] != "false" || rows[1]["voided"] != "false" {
		t.Errorf("one operation is voided, and the rest of its run with it: %v", rows[:2])
	}
	if got := rows[1]["net_j_per_op_hi95_repeat"]; got != "0.01616" {
		t.Errorf("net_j_per_op_hi95_repeat is %q", got)
	}
}

// A second reader, of another hand, reads the same.
func TestPythonReadsCSV(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: its csv module is the reader of this test")
	}
	for _, table := range []Table{Results(two()), Windows(two())} {
		text := csvOf(t, table)
		c := exec.Command(python, "-c", `import csv, io, json, sys
text = sys.stdin.buffer.read().decode("utf-8")
json.dump(list(csv.DictReader(io.StringIO(text, newline=""), strict=True)), sys.stdout)`)
		c.Stdin = bytes.NewReader(text)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got []map[string]string
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(dicts(t, text))
		if !bytes.Equal(a, b) {
			t.Errorf("python reads\n%s\nwant\n%s", a, b)
		}
	}
}

// Each column that has a unit says so in its name.
func TestNamesCarryUnits(t *testing.T) {
	ends := map[string]string{"J": "_j", "W": "_w", "s": "_s"}
	for _, table := range []Table{Results(two()), Windows(two())} {
		var names []string
		for _, c := range table.Columns {
			if slices.Contains(names, c.Name) {
				t.Errorf("column %s occurs twice", c.Name)
			}
			names = append(names, c.Name)
			if c.Unit != "" && !strings.Contains(c.Name+"_", ends[c.Unit]+"_") {
				t.Errorf("column %s does not say its unit %s", c.Name, c.Unit)
			}
		}
	}
}

// docs/export.md names every column.
func TestColumnsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/export.md")
	if err != nil {
		t.Fatal(err)
	}
	quantities := []string{"net_j_per_op", "gross_j_per_op", "net_w", "idle_w", "overhead_j_per_window"}
	for _, table := range []Table{Results(two()), Windows(two())} {
		for _, c := range table.Columns {
			name := c.Name
			for _, q := range quantities {
				if suffix, ok := strings.CutPrefix(name, q+"_"); ok {
					name = "_" + suffix
				}
			}
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/export.md says nothing of `%s`", name)
			}
		}
	}
}
