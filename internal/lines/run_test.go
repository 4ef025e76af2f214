package lines

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench/benchtest"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// From lines to J/op: a computer takes 1 W, and 3 W while openssl speed signs;
// each second of it is one window.
func TestFromLinesToEnergy(t *testing.T) {
	const windows, n, apart = 6, 5000, 3
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Name: "speed"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Columns: []string{meters.Watts}, RateHz: 100, Sample: meters.Mean, Clock: meters.Shared, Accuracy: meters.Accuracy{Exact: true}})
	if err != nil {
		t.Fatal(err)
	}
	busy := func(second float64) bool { return second >= apart && math.Mod(second, apart) < 1 }
	watts := make([]float64, 100*apart*(windows+1))
	for i := range watts {
		watts[i] = 1
		if busy(float64(i)/100 + 1e-9) {
			watts[i] = 3
		}
	}
	if err := s.Write(meters.Block{ArrivalNs: -1, Values: [][]float64{watts}}); err != nil {
		t.Fatal(err)
	}
	m, err := New("openssl-speed", Config{Source: "exec"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(windows) {
		begin := (i + 1) * apart * 1e9
		for _, l := range append(m.Feed([]byte("+DTP:ML-DSA-44:signs:1"), begin), m.Feed(fmt.Appendf(nil, "+R19:%d:ML-DSA-44:1.00", n), begin+1e9)...) {
			if err := w.Line(l); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close("done", (windows+1)*apart*1e9); err != nil {
		t.Fatal(err)
	}
	line := benchtest.Align(t, benchtest.Open(t, dir))
	res := benchtest.Analyze(t, line, analysis.Options{})
	if len(res.Operations) != 1 {
		t.Fatalf("operations are %v", res.Operations)
	}
	op := res.Operations[0]
	if op.Alg != "ML-DSA-44" || op.Op != "sign" || op.Windows != windows || op.Count != windows*n {
		t.Errorf("%s/%s, %d windows of %d in all", op.Alg, op.Op, op.Windows, op.Count)
	}
	if want := 2.0 / n; math.Abs(float64(op.Net.Value)/want-1) > 0.01 {
		t.Errorf("net is %g J/op, want %g", op.Net.Value, want)
	}
}
