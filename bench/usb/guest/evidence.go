//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// sent is a report as the emulated meter sent it.
type sent struct {
	HostNs int64   `json:"host_ns"`
	Packet int64   `json:"packet"` // -1: none of samples
	Amps   float64 `json:"amps"`   // sum over its samples, A
	Lost   bool    `json:"lost"`
	Report []byte  `json:"report"`
}

// readSent reads what a meter sent so far, without what it could not send.
func readSent(path string) ([]sent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []sent
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all, nil // a line without an end is still being written
		}
		var s sent
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, err
		}
		if !s.Lost {
			all = append(all, s)
		}
	}
}

// recorded is what a run holds of the meter.
type recorded struct {
	*run.Run
	segments [][][]byte // reports as received
	samples  int64
	unknown  int64   // samples that are not measured
	coulombs float64 // of those that are
	volts    float64 // the highest one
}

// samplePeriod is that of a FNB58, s.
const samplePeriod = 0.01

func readRun(dir string) (recorded, error) {
	r, err := run.Open(dir)
	if err != nil {
		return recorded{}, err
	}
	if report := r.Check(); !report.OK() {
		return recorded{}, fmt.Errorf("%s is damaged: %+v", dir, report.Damage)
	}
	if len(r.Streams) != 1 {
		return recorded{}, fmt.Errorf("%s has %d streams", dir, len(r.Streams))
	}
	found := recorded{Run: r, segments: make([][][]byte, len(r.Streams[0].Segments))}
	name := r.Streams[0].Stream
	for p, err := range r.Packets(name) {
		if err != nil {
			return found, err
		}
		found.segments[p.Segment-1] = append(found.segments[p.Segment-1], bytes.Clone(p.Bytes))
	}
	for b, err := range r.Samples(name) {
		if err != nil {
			return found, err
		}
		found.samples += int64(b.Rows)
		for i, a := range b.Columns[meters.Amps] {
			if math.IsNaN(a) {
				found.unknown++
				continue
			}
			found.coulombs += a / r.Streams[0].RateHz
			found.volts = max(found.volts, b.Columns[meters.Volts][i])
		}
	}
	return found, nil
}

// note returns the number that a note of the run counts; 0 without such a note.
func (r recorded) note(code string) int64 {
	n := int64(0)
	for _, note := range r.Notes {
		if note.Code == code {
			n += max(1, note.Count)
		}
	}
	return n
}

// whole holds the reports of one segment against those that were sent: all of
// them, without a hole. It returns the ones that were sent.
func whole(segment [][]byte, all []sent) ([]sent, error) {
	if len(segment) == 0 {
		return nil, errors.New("a segment without reports")
	}
	best := 0
	for i := range all {
		n := 0
		for n < len(segment) && i+n < len(all) && bytes.Equal(segment[n], all[i+n].Report) {
			n++
		}
		if n == len(segment) {
			return all[i : i+n], nil
		}
		best = max(best, n)
	}
	next := slices.IndexFunc(all, func(s sent) bool { return bytes.Equal(s.Report, segment[best]) })
	return nil, fmt.Errorf("of %d reports the first %d are as the %d that were sent; the next one, of %d bytes, is number %d of those: % x",
		len(segment), best, len(all), len(segment[best]), next, segment[best])
}

// wholeRun holds a run against what was sent, and its charge too, where all
// samples count.
func wholeRun(r recorded, all []sent, segments int) ([][]sent, error) {
	if len(r.segments) != segments {
		return nil, fmt.Errorf("the run has %d segments, want %d", len(r.segments), segments)
	}
	var of [][]sent
	coulombs, packets := 0.0, int64(0)
	for i, s := range r.segments {
		m, err := whole(s, all)
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", i+1, err)
		}
		for _, p := range m {
			if p.Packet >= 0 {
				packets++
				coulombs += p.Amps * samplePeriod
			}
		}
		of = append(of, m)
	}
	if r.samples == 4*packets && r.unknown == 0 && math.Abs(r.coulombs/coulombs-1) > 1e-6 {
		return nil, fmt.Errorf("the run has a charge of %.9g C, the meter sent %.9g C", r.coulombs, coulombs)
	}
	return of, nil
}
