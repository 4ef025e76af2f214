package imports

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// sharedData finds a folder of recordings beside the module, or skips.
func sharedData(t *testing.T, name string) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if path := filepath.Join(dir, "shared", "data", name); isDir(path) {
			return path
		}
	}
	t.Skipf("no folder shared/data/%s in any parent: the published recordings are not here", name)
	return ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// TestPublishedRecordings imports every recording of the MLPerf Tiny results
// that is at hand, and finds the published energy of every window in the
// imported run, or a warning that says why not.
func TestPublishedRecordings(t *testing.T) {
	folders := 0
	windows := 0
	err := filepath.WalkDir(sharedData(t, "energyrunner"), func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "trace1"+energySuffix {
			return err
		}
		folders++
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			windows += checkPublished(t, filepath.Dir(path))
		})
		return nil
	})
	if err != nil || folders == 0 {
		t.Fatalf("%d folders, %v", folders, err)
	}
	t.Logf("%d folders, %d windows", folders, windows)
}

var published = regexp.MustCompile(`(?s)window (\d+) at time.*?Energy +: +([\d.]+) uJ`)

func checkPublished(t *testing.T, dir string) (windows int) {
	out := filepath.Join(t.TempDir(), "run")
	sum, err := Import(context.Background(), Options{Samples: dir, Out: out, Tool: "test"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	results, err := os.ReadFile(filepath.Join(dir, "results.txt"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]float64{}
	r := readBack(t, out)
	for _, w := range r.windows {
		got[w.W] = 0
		for i := int64(math.Ceil(w.From)); float64(i) < w.To; i++ {
			got[w.W] += r.columns[meters.Watts][i] / r.info.RateHz
		}
		if w.Op != "infer" || w.N < 1 || w.Alg == "" {
			t.Errorf("window %+v", w)
		}
	}
	for _, m := range published.FindAllSubmatch(results, -1) {
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		uj, _ := strconv.ParseFloat(string(m[2]), 64)
		if diff := got[n]/(uj*1e-6) - 1; math.Abs(diff) > 1e-6 {
			t.Errorf("window %d: %.9g J, published %.9g J (%.2g off)", n, got[n], uj*1e-6, diff)
		}
		windows++
	}
	if int(sum.Windows) != windows {
		t.Errorf("%d windows, %d published", sum.Windows, windows)
	}
	for _, n := range sum.Notes {
		if n.Warn {
			t.Errorf("warning %s: %s", n.Code, n.Text)
		}
	}
	return windows
}
