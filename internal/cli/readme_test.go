package cli

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the demo prints into README.md")

// shown are the rows of the demo that README.md shows.
var shown = []string{"ML-DSA-44", "ML-DSA-65", "SLH-DSA-SHA2-128f", "ECDSA-P256"}

// shorten keeps of the demo's output what README.md shows: the 32-bit target,
// and of all tables some rows.
func shorten(out string) string {
	var b strings.Builder
	elided, in := false, true
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "run "):
			in = words[1] == "rv32"
		case strings.HasPrefix(line, "32-bit against"):
			in = true
		case strings.HasPrefix(line, "The set is kept"):
			continue
		}
		if !in {
			continue
		}
		row := len(words) > 4 && slices.Contains([]string{"keygen", "sign", "verify", "encaps", "decaps"}, words[1])
		note := len(words) > 0 && strings.Trim(words[0], "⁰¹²³⁴⁵⁶⁷⁸⁹") == ""
		if row && (words[1] == "keygen" || !slices.Contains(shown, words[0])) || note && words[0] != "¹" {
			if !elided {
				b.WriteString("...\n")
			}
			elided = true
			continue
		}
		elided = false
		b.WriteString(line)
	}
	return b.String()
}

// What README.md shows of the demo is what the demo prints.
func TestReadmeShowsTheDemo(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), "```\n")
	block, tail, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("README.md holds no block of output")
	}
	var out, log strings.Builder
	code := Main(&Env{Args: []string{"demo", "-o", filepath.Join(t.TempDir(), "set")}, Stdin: strings.NewReader(""),
		Stdout: &out, Stderr: &log, Interrupt: context.Background()})
	if code != exitDone {
		t.Fatalf("demo exits with %d: %s", code, log.String())
	}
	want := shorten(out.String())
	if strings.Count(want, "\n") < 25 {
		t.Fatalf("the demo prints too little:\n%s", want)
	}
	if *update {
		if err := os.WriteFile("../../README.md", []byte(head+"```\n"+want+"```\n"+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if block != want {
		t.Errorf("README.md shows\n%s\nthe demo prints\n%s\n'go test ./internal/cli -run Readme -update' writes it", block, want)
	}
}
