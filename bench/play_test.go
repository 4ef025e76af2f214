package bench

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// files reads a folder, one level of subfolders included.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		all[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEqualScenariosEqualBytes(t *testing.T) {
	dir := t.TempDir()
	for name, seed := range map[string]uint64{"a": 1, "b": 1, "c": 2} {
		if _, err := Play(Default(), seed, filepath.Join(dir, name, "run")); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := files(t, filepath.Join(dir, "a")), files(t, filepath.Join(dir, "b")), files(t, filepath.Join(dir, "c"))
	if len(a) < 3 || len(a) != len(b) {
		t.Fatalf("%d and %d files", len(a), len(b))
	}
	for name, data := range a {
		if !bytes.Equal(data, b[name]) {
			t.Errorf("%s differs between two plays of one seed", name)
		}
		if bytes.Equal(data, c[name]) {
			t.Errorf("%s is the same for two seeds", name)
		}
	}
}

func TestPlaySet(t *testing.T) {
	dir := t.TempDir()
	s := Default()
	s.Plan.Windows = 2
	over := map[string]int{}
	truths, err := PlaySet(s, Targets(), 1, dir, func(target string, windows, of int) {
		over[target] = windows
		if of != 8 {
			t.Errorf("%d windows promised, want 8", of)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range Targets() {
		if truths[i].Target != name || over[name] != 8 {
			t.Errorf("%s: truth of %s, %d windows over", name, truths[i].Target, over[name])
		}
		log, err := os.ReadFile(filepath.Join(dir, name, "run.jsonl"))
		if err != nil || !strings.Contains(string(log), `"simulated":true`) {
			t.Errorf("%s: the run is not marked as simulated (%v)", name, err)
		}
	}
	if _, err := PlaySet(s, Targets(), 1, dir, func(string, int, int) {}); err == nil {
		t.Error("a set was played over an older one")
	}
}

// BenchmarkPlay records 150 windows.
func BenchmarkPlay(b *testing.B) {
	s := Default()
	s.Plan.Ops = []string{"all"}
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "run")
		if _, err := Play(s, 1, dir); err != nil {
			b.Fatal(err)
		}
	}
}

// Every scenario makes a run that reads back whole.
func TestScenariosPlay(t *testing.T) {
	for _, name := range Scenarios() {
		t.Run(name, func(t *testing.T) {
			s, err := LoadScenario(name)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "Any Name")
			if _, err := Play(s, 1, dir); err != nil {
				t.Fatal(err)
			}
			want := play1(t, s, 1)
			r, err := run.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if p := r.Check(); p.DamageCount > 0 || !p.Closed {
				t.Errorf("the run is damaged: %+v", p)
			}
			rows := 0
			for b, err := range r.Samples("usb") {
				if err != nil {
					t.Fatal(err)
				}
				for i, a := range b.Columns[meters.Amps] {
					if math.Abs(a-want.amps[rows+i]) > 1e-6 {
						t.Fatalf("row %d reads %g A, was %g A", rows+i, a, want.amps[rows+i])
					}
				}
				rows += b.Rows
			}
			if rows != len(want.amps) || int(r.Counts["line"]) != len(want.lines) {
				t.Errorf("%d rows and %d lines, want %d and %d", rows, r.Counts["line"], len(want.amps), len(want.lines))
			}
			if r.Target.Name != s.Target || !r.Header.Simulated {
				t.Errorf("target %q, simulated %v", r.Target.Name, r.Header.Simulated)
			}
		})
	}
}
