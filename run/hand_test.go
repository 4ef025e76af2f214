package run

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// handRun writes a run of a few samples and opens it.
func handRun(t *testing.T, dir, name string) *Run {
	t.Helper()
	w, err := Create(dir, Header{Tool: "test", Name: name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Driver: "test", Columns: []string{meters.Watts}, RateHz: 100, Sample: meters.Mean, Clock: meters.Shared})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(meters.Block{Values: [][]float64{{1, 2, 3}}, ArrivalNs: -1}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close("done", 30e6); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHandIsKeptBesideTheRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	r := handRun(t, dir, "a")
	if h, err := r.Hand(); err != nil || len(h.Streams) != 0 {
		t.Fatalf("a fresh run has %+v, %v", h, err)
	}
	var h Hand
	offset := 0.057
	h.Stream("usb").OffsetSeconds = &offset
	late := HandWindow{W: 2, Alg: "A", Op: "run", N: 1, StartSeconds: 2, EndSeconds: 3, Idle: "wfi", PreSeconds: 0.3, PostSeconds: 0.2}
	early := HandWindow{W: 1, Alg: "A", Op: "run", N: 5, StartSeconds: 1, EndSeconds: 2}
	if err := h.Stream("usb").Add(late, early); err != nil {
		t.Fatal(err)
	}
	if err := r.SetHand(h); err != nil {
		t.Fatal(err)
	}
	got, err := r.Hand()
	if err != nil {
		t.Fatal(err)
	}
	if want := []HandWindow{early, late}; !reflect.DeepEqual(got.Streams[0].Windows, want) || *got.Streams[0].OffsetSeconds != offset {
		t.Errorf("read back %+v, want windows %+v", got.Streams[0], want)
	}
	if report := r.Check(); !report.OK() {
		t.Errorf("the run is damaged now: %+v", report.Damage)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the run lie %v, %v", entries, err)
	}
	if err := r.SetHand(Hand{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(HandPath(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is set and the file is still there: %v", err)
	}
}

func TestHandOfAnotherRunIsRefused(t *testing.T) {
	parent := t.TempDir()
	a, b := handRun(t, filepath.Join(parent, "a"), "a"), handRun(t, filepath.Join(parent, "b"), "b")
	var h Hand
	if err := h.Stream("usb").Add(HandWindow{Alg: "A", Op: "run", N: 5, StartSeconds: 1, EndSeconds: 2}); err != nil {
		t.Fatal(err)
	}
	if err := a.SetHand(h); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(HandPath(a.Dir), HandPath(b.Dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Hand(); !errors.Is(err, ErrForeign) {
		t.Errorf("windows of run a in the place of b's: %v", err)
	}
}

func TestHandPath(t *testing.T) {
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"runs/a": "runs/a.windows.json", "runs/a/": "runs/a.windows.json",
		".": work + ".windows.json", "..": filepath.Dir(work) + ".windows.json",
	} {
		if got := HandPath(dir); got != want {
			t.Errorf("HandPath(%q) = %q, want %q", dir, got, want)
		}
	}
}

const goodHand = `{"schema":"joulemark.windows/1","header_crc":"0123abcd","streams":[{"stream":"usb","offset_s":0.05,"windows":[` +
	`{"w":1,"alg":"A","op":"run","n":5,"start_s":1,"end_s":2},{"w":2,"alg":"A","op":"run","n":5,"start_s":2,"end_s":3.5,"idle":"wfi","pre_s":0.3,"post_s":0.3}]}]}`

func TestHandRefusesWhatCannotBe(t *testing.T) {
	if _, err := parseHand([]byte(goodHand)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`windows/1`, `windows/2`, "schema"},
		{`"end_s":2}`, `"end_s":2.1}`, "overlaps"},
		{`"end_s":2}`, `"end_s":1}`, "before it begins"},
		{`"start_s":1`, `"start_s":-1`, "start"},
		{`"start_s":1`, `"start_s":1e400`, "1e400"},
		{`"end_s":3.5`, `"end_s":1e12`, "end"},
		{`"pre_s":0.3`, `"pre_s":-0.3`, "pre"},
		{`"n":5`, `"n":0`, "n is 0"},
		{`"n":5`, `"n":-5`, "n -5"},
		{`"alg":"A"`, `"alg":""`, "alg"},
		{`"op":"run"`, `"op":"a b"`, "op"},
		{`"idle":"wfi"`, `"idle":"\n"`, "idle"},
		{`"stream":"usb"`, `"stream":"../usb"`, "stream"},
		{`"offset_s":0.05`, `"offset_s":1e10`, "offset"},
		{`]}]}`, `]}]}x`, "follows"},
		{`]}]}`, `]}`, "EOF"},
	} {
		_, err := parseHand([]byte(strings.Replace(goodHand, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s instead of %s: error %v, want one with %q", c.to, c.from, err, c.want)
		}
	}
}

func FuzzHand(f *testing.F) {
	f.Add([]byte(goodHand))
	f.Add([]byte(`{"schema":"joulemark.windows/1","streams":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHand(data)
		if err != nil {
			return
		}
		for _, s := range h.Streams {
			for i, w := range s.Windows {
				if !(w.EndSeconds > w.StartSeconds) || w.N < 1 || i > 0 && w.StartSeconds < s.Windows[i-1].EndSeconds {
					t.Errorf("accepted %+v", s.Windows)
				}
			}
		}
	})
}
