// Package replay plays a recorded run as if its meter were there: with the pace
// of the recording, another one, or as fast as it goes.
//
// Blocks keep the spacing of their arrivals whatever the pace is, since that is
// what ties the meter's clock to the host's. At another speed than 1 they are
// therefore not the host's times now.
package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/joulemark/joulemark/meters"
)

// Block is what arrived together.
type Block struct {
	meters.Block
	// Segment counts the interruptions before it.
	Segment int
}

// Recording is one stream of a recorded run.
type Recording interface {
	// Info describes the meter as recorded.
	Info() meters.Info
	// Blocks yields all blocks in their order. A block and its slices are used
	// again for the next one. An error is the last.
	Blocks() iter.Seq2[Block, error]
}

// New returns the driver. open opens a stream of the run at a path; "" stands
// for its only one.
func New(open func(path, stream string) (Recording, error)) meters.Driver {
	return meters.Driver{
		Name:       "replay",
		Summary:    "a recorded run, played as if its meter were there",
		Status:     meters.Emulated,
		Rate:       "as recorded",
		Digital:    "as recorded",
		Transports: []meters.Transport{meters.Recording},
		Models:     []meters.Model{{Name: "recording", Accuracy: meters.Accuracy{Source: "as recorded"}}},
		Settings: []meters.Setting{
			{Key: "speed", Help: "so many times as fast as recorded, or max"},
			{Key: "stream", Help: "which meter of the run, where it has several"},
		},
		OpenHost: func(_ context.Context, h meters.Host, o meters.Options) (meters.Meter, error) {
			speed, err := parseSpeed(o.Settings["speed"])
			if err != nil {
				return nil, fmt.Errorf("open replay: %w", err)
			}
			if o.Place == "" {
				return nil, &meters.Problem{Err: fmt.Errorf("open replay: no run is named"), Hint: "say which: replay:RUN"}
			}
			r, err := open(o.Place, o.Settings["stream"])
			if err != nil {
				return nil, fmt.Errorf("open replay: %w", err)
			}
			return &meter{host: h, notify: o.Notify, recording: r, info: r.Info(), speed: speed, zeroNs: r.Info().FirstHostNs}, nil
		},
	}
}

// parseSpeed reads a speed; infinity stands for max.
func parseSpeed(text string) (float64, error) {
	switch text {
	case "":
		return 1, nil
	case "max":
		return math.Inf(1), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 1e-3 && v <= 1e6) {
		return 0, fmt.Errorf("speed=%s is neither max nor a number from 0.001 to 1e6", text)
	}
	return v, nil
}

type meter struct {
	host      meters.Host
	notify    func(meters.Notice)
	recording Recording
	info      meters.Info
	speed     float64

	startNs int64 // host ns of the replay's begin
	nowNs   int64 // of the recording, since its begin
	zeroNs  int64 // host ns of the first sample as recorded, where its clock was shared
	lastNs  int64 // arrival of the last block, as recorded
	shiftNs int64 // from there to nowNs
	begun   bool
	stamped bool // the segment's blocks have arrivals
	segment int
	rows    int64 // of the segment
}

// Info describes the meter as recorded.
func (m *meter) Info() meters.Info { return m.info }

// Stream hands the recording over. Its end is no error.
func (m *meter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	m.startNs = m.host.HostNs()
	for b, err := range m.recording.Blocks() {
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		interrupted := m.begun && b.Segment != m.segment
		if interrupted && m.info.Clock == meters.Shared {
			return errors.New("replay: the recording was interrupted, and its clock is that of its marks: it cannot go on")
		}
		gapNs := m.place(b)
		if m.wait(ctx) != nil {
			return nil
		}
		if interrupted && m.notify != nil {
			m.notify(meters.Notice{HostNs: m.startNs + m.nowNs, Code: meters.Interrupted, Count: 1, Warn: true, GapNs: gapNs,
				Text: fmt.Sprintf("the recording was interrupted for %.2f s", float64(gapNs)/1e9)})
		}
		if b.ArrivalNs >= 0 {
			b.ArrivalNs = m.startNs + m.nowNs
		}
		if err := emit(b.Block); err != nil {
			return err
		}
	}
	return nil
}

// place moves the recording's time on to a block, and returns how long it was
// interrupted before it.
func (m *meter) place(b Block) (gapNs int64) {
	first := !m.begun || b.Segment != m.segment
	if first {
		m.rows, m.stamped = 0, b.ArrivalNs >= 0
	}
	m.rows += int64(b.Len())
	atNs := m.at(b)
	switch {
	case !m.begun:
		m.shiftNs = -atNs
		if m.info.Clock == meters.Shared {
			m.shiftNs = -min(atNs, m.zeroNs)
			m.info.FirstHostNs = m.startNs + m.zeroNs + m.shiftNs
		}
	case first:
		// After a resume host times begin anew.
		gapNs = max(atNs-m.lastNs, meters.SegmentGapNs+1)
		m.shiftNs = m.nowNs + gapNs - atNs
	}
	m.begun, m.segment, m.lastNs = true, b.Segment, atNs
	m.nowNs = max(m.nowNs, atNs+m.shiftNs)
	return gapNs
}

// at is when a block arrived as recorded. Where that is not known, it is when
// its last sample was complete.
func (m *meter) at(b Block) int64 {
	n := b.Len()
	switch {
	case b.ArrivalNs >= 0:
		return b.ArrivalNs
	case m.stamped:
		return m.lastNs
	case n > 0 && b.TimesNs != nil:
		return m.zeroNs + b.TimesNs[n-1]
	case m.info.RateHz > 0:
		return m.zeroNs + int64(float64(m.rows)/m.info.RateHz*1e9)
	}
	return m.lastNs
}

// wait waits until the recording's time has come.
func (m *meter) wait(ctx context.Context) error {
	if math.IsInf(m.speed, 1) {
		return ctx.Err()
	}
	return m.host.Wait(ctx, m.startNs+int64(float64(m.nowNs)/m.speed))
}

// Close has nothing to leave in order.
func (m *meter) Close() error { return nil }
