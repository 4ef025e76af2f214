package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

func calibration(gain float64) *meters.Calibration {
	return &meters.Calibration{Name: "desk", Date: "2026-11-30", Amps: &meters.Correction{Gain: gain, To: 1, Points: 2}}
}

func set(gain float64) func(*Entry) error {
	return func(e *Entry) error {
		e.Calibration = calibration(gain)
		return nil
	}
}

func TestUpdateAndLoad(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "a", "b")}
	if all, err := s.List(); err != nil || len(all) > 0 {
		t.Fatal(all, err)
	}
	if _, err := s.Load("desk"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := s.Update("desk", set(1.01)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update("desk", func(e *Entry) error {
		e.Characterisation = &meters.Characterisation{Name: "desk", Values: "independent", EffectiveHz: &meters.Estimate{Value: 25, U: 1}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Load("desk")
	if err != nil || e.Calibration.Amps.Gain != 1.01 || e.Characterisation.EffectiveHz.Value != 25 {
		t.Fatalf("%+v, %v", e, err)
	}
	// What is refused leaves the file and nothing else.
	before, err := os.ReadFile(s.Path("desk"))
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if _, err := s.Update("desk", func(*Entry) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	if _, err := s.Update("desk", set(7)); err == nil {
		t.Error("a gain of 7 was kept")
	}
	after, err := os.ReadFile(s.Path("desk"))
	if err != nil || string(after) != string(before) {
		t.Error("a refused change changed the file", err)
	}
	files, err := os.ReadDir(s.Dir)
	if err != nil || len(files) != 1 {
		t.Errorf("the store holds %v, %v", files, err)
	}
}

func TestNames(t *testing.T) {
	s := Store{t.TempDir()}
	for _, name := range []string{"", "none", ".", "..", "../x", "a/b", `a\b`, "A", "-x", "a.json", "a b", "ä", strings.Repeat("a", 65)} {
		if _, err := s.Update(name, set(1)); err == nil {
			t.Errorf("%q: kept", name)
		}
		if _, err := s.Load(name); err == nil {
			t.Errorf("%q: read", name)
		}
	}
	for _, name := range []string{"a", "0", "my-fnb58_2", strings.Repeat("a", 64)} {
		if _, err := s.Update(name, set(1)); err != nil {
			t.Error(err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	s := Store{t.TempDir()}
	if _, err := s.Update("good", set(1)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"future": `{"schema":"joulemark.meter/2","name":"future"}`,
		"other":  `{"schema":"joulemark.meter/1","name":"good"}`,
		"gain":   `{"schema":"joulemark.meter/1","name":"gain","calibration":{"name":"x","amps":{"gain":1e99,"points":2}}}`,
		"empty":  `{"schema":"joulemark.meter/1","name":"empty","calibration":{"name":"x"}}`,
		"u":      `{"schema":"joulemark.meter/1","name":"u","characterisation":{"noise_w":{"value":-1,"u":0}}}`,
		"large":  strings.Repeat(" ", maxBytes+1),
		"text":   "no JSON",
	} {
		if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(name); err == nil {
			t.Errorf("%s: read", name)
		}
		// Nor is it replaced by a change that could not know what it held.
		if _, err := s.Update(name, set(1)); err == nil {
			t.Errorf("%s: replaced", name)
		}
	}
	if err := os.Mkdir(s.Path("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load("folder"); err == nil {
		t.Error("a folder was read")
	}
	all, err := s.List()
	if len(all) != 1 || all[0].Name != "good" || err == nil || !strings.Contains(err.Error(), "future") {
		t.Errorf("%v, %v", all, err)
	}
}

// FuzzDecode: what is read can be written and read again.
func FuzzDecode(f *testing.F) {
	good, err := json.Marshal(Entry{Schema: Schema, Name: "desk", Calibration: calibration(1.002),
		Characterisation: &meters.Characterisation{Duty: &meters.Residual{Limit: 0.001, P: 0.3, Windows: 75}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"schema":"joulemark.meter/1","name":"desk"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b, "desk")
		if err != nil {
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again, "desk"); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
