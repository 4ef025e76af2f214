// Package benchtest takes tests from a scenario, or a recorded run, to results.
// Whatever fails on the way fails the test.
package benchtest

import (
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

// Play plays a scenario into a run, and returns it with what is true of it.
func Play(t testing.TB, s bench.Scenario, seed uint64) (*run.Run, bench.Truth) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	truth, err := bench.Play(s, seed, dir)
	if err != nil {
		t.Fatal(err)
	}
	return Open(t, dir), truth
}

// Open opens a run.
func Open(t testing.TB, dir string) *run.Run {
	t.Helper()
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Align puts the windows of a run on the time line of its first stream.
func Align(t testing.TB, r *run.Run) *align.Timeline {
	t.Helper()
	line, err := align.Align(r, r.Streams[0].Stream)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// Analyze turns windows into results.
func Analyze(t testing.TB, line *align.Timeline, o analysis.Options) analysis.Results {
	t.Helper()
	res, err := analysis.Analyze(line, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
