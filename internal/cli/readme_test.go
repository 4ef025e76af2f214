package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What README.md shows of the demo is what the demo prints.
func TestReadmeShowsTheDemo(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```\n")
	block, _, closed := strings.Cut(block, "```\n")
	if !ok || !closed {
		t.Fatal("README.md holds no block of output")
	}
	var out, log strings.Builder
	code := Main(&Env{Args: []string{"demo", "-o", filepath.Join(t.TempDir(), "set")}, Stdin: strings.NewReader(""),
		Stdout: &out, Stderr: &log, Interrupt: context.Background()})
	if code != exitDone {
		t.Fatalf("demo exits with %d: %s", code, log.String())
	}
	printed := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		printed[line] = true
	}
	lines := 0
	for line := range strings.Lines(block) {
		if line == "...\n" {
			continue
		}
		lines++
		if !printed[line] {
			t.Errorf("the demo does not print %q", line)
		}
	}
	if lines < 20 {
		t.Errorf("README.md shows %d lines only", lines)
	}
}
