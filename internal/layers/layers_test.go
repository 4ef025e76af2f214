// Package layers holds the test of the arrows between packages: data flows
// one way, and imports follow it.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/joulemark/joulemark/"

// rooms in the order of the flow: a package may import its own room and rooms
// of a lower level.
var rooms = []struct {
	prefix string
	level  int
}{
	{"si", 0},
	{"sync/clock", 1},
	{"meters", 2},
	{"sync/mark", 2},
	{"marks", 3},
	{"sync/source", 3},
	{"run", 3},
	{"target", 3},
	{"sync/align", 4},
	{"analysis", 5},
	{"plots", 6},
	{"internal/imports", 7},
	{"internal/exports", 7},
	{"internal/record", 7},
	{"internal/campaign", 7},
	{"internal/doctor", 7},
	{"internal/lines", 7},
	{"bench", 8},
	{"internal/cli", 9},
	{"cmd", 10},
	{"internal/layers", 10},
	{"firmware", 10},
}

func room(path string) (prefix string, level int, ok bool) {
	for _, r := range rooms {
		if path == r.prefix || strings.HasPrefix(path, r.prefix+"/") {
			return r.prefix, r.level, true
		}
	}
	return "", 0, false
}

type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func list(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsFollowTheData(t *testing.T) {
	packages := list(t)
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages", len(packages))
	}
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, module)
		from, level, ok := room(path)
		if !ok {
			t.Errorf("%s belongs to no room: add it to the list, and to ARCHITECTURE.md", path)
			continue
		}
		for _, i := range p.Imports {
			check(t, path, from, level, i)
		}
		// Tests may stand on the bench, but never on the command line.
		for _, i := range append(p.TestImports, p.XTestImports...) {
			if strings.HasPrefix(i, module+"internal/cli") && from != "internal/cli" && from != "cmd" {
				t.Errorf("test of %s imports %s", path, i)
			}
		}
	}
}

func check(t *testing.T, path, from string, level int, imported string) {
	t.Helper()
	name, ours := strings.CutPrefix(imported, module)
	if !ours {
		return
	}
	to, toLevel, ok := room(name)
	switch {
	case !ok:
		t.Errorf("%s imports %s, which belongs to no room", path, name)
	case to == from:
	case to == "bench" && from != "internal/cli":
		t.Errorf("%s imports %s: only internal/cli and tests may", path, name)
	case toLevel >= level:
		t.Errorf("%s imports %s against the flow of data", path, name)
	}
}

// The analysis opens no device and reads no wall clock.
func TestAnalysisIsPure(t *testing.T) {
	forbidden := []string{"time", "net", "os/exec", "go.bug.st/serial", "github.com/google/gousb"}
	found := 0
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if from, _, _ := room(path); from != "analysis" && from != "sync/align" && from != "sync/clock" {
			continue
		}
		found++
		for _, i := range p.Imports {
			for _, f := range forbidden {
				if i == f {
					t.Errorf("%s imports %s", path, i)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("found %d of the packages this test is about", found)
	}
}
