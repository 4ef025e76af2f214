package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// What was written to a run comes back in the same blocks, cut where a batch
// ends.
func TestTape(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := run.Create(dir, run.Header{Tool: "test", Name: "a", Simulated: true}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	info := meters.Info{Stream: "psu", Driver: "mine", Columns: []string{"watts"}, RateHz: 10, Sample: meters.Mean, Clock: meters.ByArrival}
	var want []string
	for segment := 1; segment <= 2; segment++ {
		s, err := w.Stream(info)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range [][]float64{{1, 2}, {3}, {4, 5, 6}} {
			arrivalNs := int64(segment)*10e9 + int64(i)*300e6 // some beyond a batch of half a second
			if i == 1 {
				arrivalNs = -1 // where a batch ends
			}
			if err := s.Write(meters.Block{ArrivalNs: arrivalNs, Values: [][]float64{block}}); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, fmt.Sprintf("%d:%d[1 2] %d:-1[3] %d:%d[4 5 6]", segment, segment*10000, segment, segment, segment*10000+600))
	}
	if err := w.Close("done", 30e9); err != nil {
		t.Fatal(err)
	}
	r, err := openTape(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if i := r.Info(); i.Driver != "mine" || !i.Simulated {
		t.Errorf("%+v", i)
	}
	var got []string
	for b, err := range r.Blocks() {
		if err != nil {
			t.Fatal(err)
		}
		if b.ArrivalNs >= 0 {
			b.ArrivalNs /= 1e6
		}
		got = append(got, fmt.Sprintf("%d:%d%v", b.Segment, b.ArrivalNs, b.Values[0]))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := openTape(dir, "other"); err == nil || meters.Hint(err) != "say which one: stream=psu" {
		t.Errorf("%v (%s)", err, meters.Hint(err))
	}
}
