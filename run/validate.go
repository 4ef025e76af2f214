package run

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// Bounds that a writer keeps and a reader insists on. They leave room for any
// meter and keep a hostile file from costing more than its own size.
const (
	MaxBatchRows       = 1 << 16  // rows of one checkpoint
	MaxCheckpointBytes = 64 << 20 // bytes of one checkpoint
	MaxPacketBytes     = 16 << 20 // one packet of a .raw file
	MaxColumns         = 64       // columns of one stream
	MaxSegments        = 4096     // meter records of one run
	maxRow             = 1 << 53  // rows of one segment: float64 still counts them
	maxNs              = 1 << 60  // 36 years

	noNs = math.MinInt64 // before any sample time
)

var (
	streamName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)
	// Such an end would collide with the file names of another stream.
	streamEnd  = regexp.MustCompile(`\.(arrivals|[0-9]+)$`)
	columnName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
)

// CheckName reports why name cannot name a run or a stream: names are 1 to 64
// of a-z, 0-9, _, . and -, and start with a letter or digit.
func CheckName(name string) error {
	if !streamName.MatchString(name) {
		return fmt.Errorf("name %q: want 1 to 64 of a-z 0-9 _ . -, a letter or digit first", name)
	}
	return nil
}

func checkStream(name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("stream %w", err)
	}
	if streamEnd.MatchString(name) {
		return fmt.Errorf("stream name %q: must not end in .arrivals or a number", name)
	}
	return nil
}

func checkNs(ns int64) error {
	if ns > maxNs || ns < -maxNs {
		return fmt.Errorf("host_ns %d is out of range", ns)
	}
	return nil
}

func checkCount(name string, n int64) error {
	if n < 0 || n > maxRow {
		return fmt.Errorf("%s %d is out of range", name, n)
	}
	return nil
}

func checkSegment(n int) error {
	if n < 1 || n > 1<<30 {
		return fmt.Errorf("segment %d is out of range", n)
	}
	return nil
}

func nonNegative(name string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return fmt.Errorf("%s %v is out of range", name, v)
	}
	return nil
}

func (h *Header) check() error {
	if !strings.HasPrefix(h.Schema, "joulemark.run/") {
		return fmt.Errorf("schema %q is not a run's", h.Schema)
	}
	return CheckName(h.Name)
}

func (s *Segment) check() error {
	if err := errors.Join(checkInfo(s.Info), checkSegment(s.Segment)); err != nil {
		return err
	}
	if s.File != fileName(s.Stream, s.Segment, SampleData) {
		return fmt.Errorf("file %q is not the name of segment %d of %s", s.File, s.Segment, s.Stream)
	}
	return nil
}

func checkInfo(i meters.Info) error {
	if err := errors.Join(checkStream(i.Stream), nonNegative("rate_hz", i.RateHz),
		checkCount("packet_samples", int64(i.PacketSamples)), checkNs(i.FirstHostNs)); err != nil {
		return err
	}
	if len(i.Columns) < 1 || len(i.Columns) > MaxColumns {
		return fmt.Errorf("stream %s has %d columns, want 1 to %d", i.Stream, len(i.Columns), MaxColumns)
	}
	seen := map[string]bool{timeColumn: true}
	for _, c := range i.Columns {
		if !columnName.MatchString(c) || seen[c] {
			return fmt.Errorf("column %q: want different names of a-z 0-9 _, not %s", c, timeColumn)
		}
		seen[c] = true
	}
	if c := i.Calibration; c != nil {
		if err := c.Check(); err != nil {
			return err
		}
	}
	if c := i.Characterisation; c != nil {
		if err := c.Check(); err != nil {
			return err
		}
	}
	for _, l := range []*meters.Limit{i.Accuracy.Volts, i.Accuracy.Amps, i.Accuracy.Watts} {
		if l == nil {
			continue
		}
		if err := errors.Join(nonNegative("gain", l.Gain), nonNegative("offset", l.Offset)); err != nil {
			return fmt.Errorf("accuracy: %w", err)
		}
	}
	return nil
}

func (t *Target) check() error {
	return errors.Join(checkCount("bits", int64(t.Bits)), nonNegative("clock_hz", t.ClockHz),
		nonNegative("tick_hz", t.TickHz), checkCount("tick_bits", int64(t.TickBits)))
}

func (e *Env) check() error { return nil }

func (l *Line) check() error { return checkNs(l.HostNs) }

func (e *Edge) check() error {
	if e.Level != 0 && e.Level != 1 {
		return fmt.Errorf("level %d is neither 0 nor 1", e.Level)
	}
	return checkNs(e.HostNs)
}

func (w *Window) check() error {
	if err := errors.Join(checkStream(w.Stream), checkCount("n", w.N),
		nonNegative("from", w.From), nonNegative("to", w.To)); err != nil {
		return err
	}
	if w.From > w.To || w.To > maxRow {
		return fmt.Errorf("window from %v to %v is not an interval", w.From, w.To)
	}
	return nil
}

func (i *InBand) check() error {
	if err := errors.Join(checkStream(i.Stream), checkCount("n", i.N)); err != nil {
		return err
	}
	switch {
	case !columnName.MatchString(i.Column):
		return fmt.Errorf("column %q: want a name of a-z 0-9 _", i.Column)
	case i.Column == meters.Volts || i.Column == meters.Amps || i.Column == meters.Watts:
		return fmt.Errorf("column %s holds what is measured, not the level of a pin", i.Column)
	case i.Active != 0 && i.Active != 1:
		return fmt.Errorf("active %d is neither 0 nor 1", i.Active)
	}
	return nil
}

func (g *Gap) check() error {
	return errors.Join(checkStream(g.Stream), checkSegment(g.Segment), checkCount("row", g.Row),
		checkCount("rows", g.Rows), checkNs(g.HostNs))
}

func (n *Note) check() error { return errors.Join(checkCount("count", n.Count), checkNs(n.HostNs)) }

func (r *Resumed) check() error { return nil }

func (c *Checkpoint) check() error {
	if err := errors.Join(checkStream(c.Stream), checkSegment(c.Segment)); err != nil {
		return err
	}
	switch c.Kind {
	case SampleData, ArrivalData, RawData:
	default:
		return fmt.Errorf("kind %q is unknown", c.Kind)
	}
	if c.File != fileName(c.Stream, c.Segment, c.Kind) {
		return fmt.Errorf("file %q is not the name of the %s of segment %d of %s", c.File, c.Kind, c.Segment, c.Stream)
	}
	return c.checkNumbers()
}

// checkNumbers checks all but the names.
func (c *Checkpoint) checkNumbers() error {
	if err := checkCount("offset", c.Offset); err != nil {
		return err
	}
	if err := checkCount("row", c.Row); err != nil {
		return err
	}
	if c.Length < 1 || c.Length > MaxCheckpointBytes {
		return fmt.Errorf("length %d is out of range", c.Length)
	}
	if c.Rows < 0 || c.Rows > MaxBatchRows {
		return fmt.Errorf("rows %d is out of range", c.Rows)
	}
	if _, err := strconv.ParseUint(c.CRC, 16, 32); err != nil || len(c.CRC) != 8 {
		return fmt.Errorf("crc32 %q is not 8 hex digits", c.CRC)
	}
	return nil
}

func (c *Close) check() error {
	for stream, rows := range c.Rows {
		if err := errors.Join(checkStream(stream), checkCount("rows", rows)); err != nil {
			return err
		}
	}
	return checkNs(c.HostNs)
}
