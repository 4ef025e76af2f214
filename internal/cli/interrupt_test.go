package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An interrupted verb ends with 130 and leaves nothing half-written.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	samples := filepath.Join(dir, "power.csv")
	if err := os.WriteFile(samples, []byte("time_s,volts,amps\n"+strings.Repeat("0,5,0.1\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "run")
	var stdout, stderr strings.Builder
	code := Main(&Env{Args: []string{"import", "--samples", samples, "-o", out}, Stdin: strings.NewReader(""),
		Stdout: &stdout, Stderr: &stderr, Interrupt: ctx})
	if code != exitInterrupted || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
	if _, err := os.Lstat(out); err == nil {
		t.Error("an interrupted import left a run")
	}
}
