package exports

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/analysis"
)

func benchmarksOf(t *testing.T, runs []analysis.Results) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteBenchmark(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBenchmark(t *testing.T) { golden(t, "benchmarks.txt", benchmarksOf(t, two())) }

// benchstat is fetched in this version.
const benchstat = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"

// benchstat itself reads the lines, without a complaint, finds the repeats and
// compares two runs.
func TestBenchstat(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches and builds benchstat")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "benchstat")
	c := exec.Command("go", "install", benchstat)
	c.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod")
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("benchstat cannot be fetched here: %v\n%s", err, out)
	}
	// Six windows each; the second run takes half the energy.
	write := func(name string, factor float64) {
		r := two()[0]
		r.Windows = nil
		for i := range 6 {
			net := analysis.Num(factor * (1.6 + 0.001*float64(i)))
			r.Windows = append(r.Windows, analysis.Window{W: int64(i), Alg: "ML-DSA-44", Op: "sign", N: 100, IdleMode: "os", T0: 1, T1: 11, Net: net, Coverage: 1})
		}
		if err := os.WriteFile(filepath.Join(dir, name), benchmarksOf(t, []analysis.Results{r}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old", 1)
	write("new", 0.5)
	c = exec.Command(program, "old", "new")
	c.Dir = dir
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("benchstat: %v\n%s", err, complaints.Bytes())
	}
	for _, want := range []string{`(?m)^simulated: true$`, `(?m)^energy: net$`, `(?m)^idle-mode: os$`, `J/op`, `sec/op`,
		`ML-DSA-44/op=sign/bits=32 +16\.025m .* 8\.012m .* -50\.00% \(p=0\.002 n=6\)`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("benchstat says nothing like %s:\n%s", want, out)
		}
	}
	// Two runs that are not comparable are not put side by side.
	if err := os.WriteFile(filepath.Join(dir, "both"), benchmarksOf(t, two()), 0o600); err != nil {
		t.Fatal(err)
	}
	c = exec.Command(program, "both")
	c.Dir, c.Stderr = dir, &complaints
	if out, err = c.Output(); err != nil || strings.Contains(complaints.String(), "both:") {
		t.Fatalf("benchstat: %v\n%s", err, complaints.Bytes())
	}
	if n := strings.Count(string(out), "energy: "); n != 2 {
		t.Errorf("net and gross stand in %d tables:\n%s", n, out)
	}
}
