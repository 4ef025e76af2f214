// Package bench is the virtual bench: an emulated meter and an emulated target
// whose truth is known. Time in it is virtual: nothing sleeps and no clock is
// read; a scenario and a seed decide every byte.
//
// Everything is made of true seconds, which the host's clock shows without
// error. The load is a piecewise linear function of them (smooth changes are
// polylines), and so is the current, so that energies, the response of a
// meter's filter and the mean over a sample are all computed in closed form.
package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// Progress is told how many of a run's windows are over. It may be nil.
type Progress func(target string, windows, of int)

// Play records one run of the scenario into the folder dir, which must not
// exist, and returns what is true of it. A recording that fails leaves nothing
// behind.
func Play(s Scenario, seed uint64, dir string) (Truth, error) {
	return playRun(s, seed, dir, nil)
}

// PlaySet plays the scenario once for each target, into dir/TARGET: a set. The
// meter is the same for all: its constant errors come from the seed alone. If
// one run fails, those before it stay.
func PlaySet(s Scenario, targets []string, seed uint64, dir string, progress Progress) ([]Truth, error) {
	var truths []Truth
	for _, t := range targets {
		s.Target = t
		truth, err := playRun(s, seed, filepath.Join(dir, t), progress)
		if err != nil {
			return nil, err
		}
		truths = append(truths, truth)
	}
	return truths, nil
}

// asked is the header's account of what was asked for: the scenario by the
// keys of its files.
func asked(s Scenario, seed uint64) (json.RawMessage, error) {
	bench := map[string]any{}
	for _, m := range s.members() {
		bench[m.key] = m.value.Interface()
	}
	return json.Marshal(map[string]any{"bench": bench, "seed": seed})
}

func playRun(s Scenario, seed uint64, dir string, progress Progress) (Truth, error) {
	world, err := New(s, seed)
	if err != nil {
		return Truth{}, err
	}
	plan, err := asked(s, seed)
	if err != nil {
		return Truth{}, fmt.Errorf("record %s: %w", dir, err)
	}
	h := run.Header{Tool: "joulemark bench", Name: s.Target, Simulated: true, Plan: plan}
	w, err := run.Create(dir, h, run.Options{})
	if err != nil {
		return Truth{}, err
	}
	if err := world.record(w, progress); err != nil {
		return Truth{}, errors.Join(err, w.Abandon())
	}
	return world.truth, nil
}

func (w *World) record(to *run.Writer, progress Progress) error {
	if err := to.Target(w.Target()); err != nil {
		return err
	}
	if w.pin != nil {
		if err := to.InBand(run.InBand{Stream: w.Meter().Stream, Column: pinColumns[w.s.Meter.Pin], Active: 1}); err != nil {
			return err
		}
	}
	sink := record.NewStream(to)
	last, over := int64(0), 0
	err := w.play(recorder{
		begin: sink.Begin,
		block: func(b meters.Block) error {
			last = max(last, b.ArrivalNs)
			for over < len(w.truth.Windows) && w.truth.Windows[over].T1*1e9 < float64(last) {
				over++
				if progress != nil {
					progress(w.truth.Target, over, len(w.truth.Windows))
				}
			}
			return sink.Block(b)
		},
		notice: sink.Note,
	}, func(l run.Line) error {
		last = max(last, l.HostNs)
		return to.Line(l)
	})
	if err != nil {
		return err
	}
	return to.Close("done", last)
}
