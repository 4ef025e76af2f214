package fnirsi_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/bench/fnb58"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/fnirsi"
	"github.com/joulemark/joulemark/meters/meterstest"
)

func TestConformance(t *testing.T) {
	meterstest.Suite{Driver: fnirsi.Driver, Captures: "testdata/*.frames"}.Run(t)
}

func TestModels(t *testing.T) {
	for _, m := range fnirsi.Driver.Models {
		meter, err := fnirsi.Driver.Open(context.Background(), &meterstest.Port{}, meters.Options{Model: m.Name, Serial: "7", Firmware: "1.11"})
		if err != nil {
			t.Fatal(err)
		}
		if i := meter.Info(); i.Model != m.Name || i.Serial != "7" || i.Firmware != "1.11" || i.RateHz != 100 || i.Accuracy != m.Accuracy {
			t.Errorf("%s: %+v", m.Name, i)
		}
	}
	if _, err := fnirsi.Driver.Open(context.Background(), &meterstest.Port{}, meters.Options{Model: "FNB99"}); err == nil {
		t.Error("an unknown model was opened")
	}
}

// reading is different at every sample: amps count samples.
func reading(hostSeconds float64) fnb58.Reading {
	return fnb58.Reading{Volts: 5, Amps: math.Floor(hostSeconds*100) * 1e-5, DPVolts: 2.9, DNVolts: 0.1, Celsius: 25}
}

// session is one stream of an emulated meter.
type session struct {
	amps    []float64 // of all rows
	first   int       // samples of the first block
	notices map[string]meters.Notice
	order   []string // notices and blocks after a notice
	err     error
	closeNs int64 // host ns that Close took
}

func stream(t *testing.T, port meters.Port, untilNs int64, o meters.Options) session {
	t.Helper()
	s := session{notices: map[string]meters.Notice{}}
	o.Notify = func(n meters.Notice) {
		s.notices[n.Code] = n
		s.order = append(s.order, n.Code)
	}
	m, err := fnirsi.Driver.Open(context.Background(), port, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.err = m.Stream(ctx, func(b meters.Block) error {
		if b.Len() > 0 && s.amps == nil {
			s.first = b.Len()
		}
		s.amps = append(s.amps, b.Values[1]...)
		if n := len(s.order); n > 0 && s.order[n-1] != "block" {
			s.order = append(s.order, "block")
		}
		if b.ArrivalNs >= untilNs {
			cancel()
		}
		return nil
	})
	before := port.HostNs()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	s.closeNs = port.HostNs() - before
	return s
}

const second = int64(time.Second)

// holes returns how many samples are NaN, and how many a count that should
// rise by one jumps over.
func (s session) holes() (nan, missing int) {
	last := -1
	for _, a := range s.amps {
		if math.IsNaN(a) {
			nan++
			last++
			continue
		}
		n := int(math.Round(a * 1e5))
		if last >= 0 {
			missing += n - last - 1
		}
		last = n
	}
	return nan, missing
}

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name         string
		faults       fnb58.Faults
		firmware     string // that the driver is told
		nan, missing [2]int // from, to
		first        int    // samples of the first block
		notices      string
		err          error
	}{
		{name: "calm", first: 4},
		{name: "left over", faults: fnb58.Faults{Stale: 1}, first: 3, notices: "impossible-first"},
		{name: "a whole report left over", faults: fnb58.Faults{Stale: 4}, first: 4, notices: "impossible-first"},
		{name: "info between", faults: fnb58.Faults{Info: 0.3}, first: 4},
		{name: "damaged", faults: fnb58.Faults{Damaged: 0.02}, first: 4, nan: [2]int{4, 100}, notices: "bad-packets"},
		{name: "refusing", faults: fnb58.Faults{Refused: 0.3}, first: 4},
		{name: "pausing", faults: fnb58.Faults{PauseSeconds: 5.2, Stale: 1}, first: 3, nan: [2]int{1, 1}, missing: [2]int{20, 28},
			notices: "impossible-first impossible-samples interrupted"},
		{name: "pausing for long", faults: fnb58.Faults{PauseSeconds: 5, DeafSeconds: 2}, first: 4, missing: [2]int{200, 224}, notices: "interrupted!"},
		{name: "freezing", faults: fnb58.Faults{FreezeSeconds: 5}, first: 4, err: meters.ErrNoSamples},
		{name: "unplugged", faults: fnb58.Faults{UnplugSeconds: 5}, first: 4, err: fnb58.ErrAbsent},
		{name: "restless, not told", faults: fnb58.Faults{Firmware: "0.68"}, first: 4, err: meters.ErrNoSamples},
		{name: "restless, told", faults: fnb58.Faults{Firmware: "0.68"}, firmware: "0.68", first: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := fnb58.New(fnb58.Every(reading), c.faults, 1)
			s := stream(t, d.Open(), 20*second, meters.Options{Firmware: c.firmware})
			if c.err == nil && s.err != nil || !errors.Is(s.err, c.err) {
				t.Errorf("stream ended with %v, want %v", s.err, c.err)
			}
			if c.err == nil && (len(s.amps) < 1700 || d.HostNs() < 20*second) {
				t.Errorf("%d samples in %d ns", len(s.amps), d.HostNs())
			}
			nan, missing := s.holes()
			if nan < c.nan[0] || nan > c.nan[1] || missing < c.missing[0] || missing > c.missing[1] {
				t.Errorf("%d samples are NaN and %d are missing, want %v and %v", nan, missing, c.nan, c.missing)
			}
			if s.first != c.first {
				t.Errorf("the first block has %d samples, want %d", s.first, c.first)
			}
			var codes []string
			for _, code := range []string{meters.BadPackets, meters.ImpossibleFirst, meters.ImpossibleSamples, meters.Interrupted} {
				n, ok := s.notices[code]
				if !ok {
					continue
				}
				if code == meters.Interrupted && n.Warn {
					code += "!"
				}
				codes = append(codes, code)
			}
			if got := strings.Join(codes, " "); got != c.notices {
				t.Errorf("notices %q, want %q", got, c.notices)
			}
		})
	}
}

// Damage before the first good sample is no hole, nor is what is no report;
// every report from then on is kept.
func TestHoles(t *testing.T) {
	c, err := meterstest.ReadCapture("testdata/vectors.frames")
	if err != nil {
		t.Fatal(err)
	}
	stale, err := meterstest.ReadCapture("testdata/all-stale.frames")
	if err != nil {
		t.Fatal(err)
	}
	good, info := c.Frames[1].Bytes, c.Frames[0].Bytes
	bad := append([]byte(nil), good...)
	bad[5]++
	var frames []meterstest.Frame
	for i, b := range [][]byte{stale.Frames[0].Bytes, bad, good, bad, info, good[:20], good} {
		frames = append(frames, meterstest.Frame{HostNs: (240 + 40*int64(i)) * 1e6, Bytes: b})
	}
	ctx, cancel := context.WithCancel(context.Background())
	port := &meterstest.Port{Frames: frames, Passed: func(hostNs int64) {
		if hostNs > 700e6 {
			cancel()
		}
	}}
	m, err := fnirsi.Driver.Open(ctx, port, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := m.Stream(ctx, func(b meters.Block) error {
		got = append(got, fmt.Sprintf("%d@%d:%v/%d", len(b.Raw), b.ArrivalNs/1e6, b.Values[0], len(b.Values)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := "64@320:[5 5 5 5]/5 64@360:[NaN NaN NaN NaN]/5 64@0:[]/5 20@0:[]/5 64@480:[5 5 5 5]/5"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// The interruption is told before the block that follows it.
func TestInterruptionComesFirst(t *testing.T) {
	d := fnb58.New(fnb58.Every(reading), fnb58.Faults{PauseSeconds: 3, DeafSeconds: 1.5}, 1)
	s := stream(t, d.Open(), 10*second, meters.Options{})
	if got := strings.Join(s.order, " "); got != "interrupted block" {
		t.Errorf("order is %s", got)
	}
	gap := s.notices[meters.Interrupted].GapNs
	if _, missing := s.holes(); math.Abs(float64(gap)/1e7-float64(missing)-4) > 1 {
		t.Errorf("a gap of %d ns for %d missing samples", gap, missing)
	}
}

// A meter that is closed in order is silent then, and at once ready for the
// next stream.
func TestCloseDrains(t *testing.T) {
	d := fnb58.New(fnb58.Every(reading), fnb58.Faults{Stale: 1}, 1)
	for i := range 3 {
		s := stream(t, d.Open(), d.HostNs()+5*second, meters.Options{})
		if s.err != nil || s.first != 3 {
			t.Fatalf("stream %d: first block of %d samples, %v", i, s.first, s.err)
		}
		if s.closeNs < second || s.closeNs > 5*second/2 {
			t.Errorf("close took %d ns", s.closeNs)
		}
		if _, _, err := d.Open().Read(make([]byte, 64), d.HostNs()+2*second); err == nil {
			t.Error("the meter sends after it was closed")
		}
	}
}

// A program that died leaves its stream running: the next one drains it.
func TestStreamAfterKill(t *testing.T) {
	d := fnb58.New(fnb58.Every(reading), fnb58.Faults{}, 1)
	p := d.Open()
	b := make([]byte, 64)
	b[0], b[1], b[63] = 0xaa, 0x82, 0x96
	if err := p.Write(b); err != nil {
		t.Fatal(err)
	}
	s := stream(t, p, 5*second, meters.Options{})
	if nan, missing := s.holes(); s.err != nil || nan+missing > 0 {
		t.Errorf("%d samples are missing: %v", nan+missing, s.err)
	}
	if first := s.amps[0] * 100000; first < 100 {
		t.Errorf("sample %g of the old stream was taken", first)
	}
}

// An error of emit ends the stream as it is.
func TestEmitFails(t *testing.T) {
	d := fnb58.New(fnb58.Every(reading), fnb58.Faults{}, 1)
	m, err := fnirsi.Driver.Open(context.Background(), d.Open(), meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if err := m.Stream(context.Background(), func(meters.Block) error { return full }); err != full {
		t.Errorf("got %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
