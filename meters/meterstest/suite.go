package meterstest

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Suite is one driver under test.
type Suite struct {
	Driver  meters.Driver
	Options meters.Options // for all captures
	// Captures matches the files, relative to the test's folder. Each holds
	// three reports or more, whose packets of samples all differ.
	Captures string
}

// Run runs all tests as subtests of t.
func (s Suite) Run(t *testing.T) {
	paths, err := filepath.Glob(s.Captures)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no captures match %s: %v", s.Captures, err)
	}
	for _, path := range paths {
		c, err := ReadCapture(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Run("decodes", func(t *testing.T) { s.decodes(t, c) })
			t.Run("stops", func(t *testing.T) { s.stops(t, c) })
			t.Run("damaged", func(t *testing.T) { s.damaged(t, c) })
			t.Run("garbage", func(t *testing.T) { s.garbage(t, c) })
		})
	}
}

// recording is what a driver made of reports.
type recording struct {
	info     meters.Info
	rows     [][]float64 // a sample each
	blocks   []meters.Block
	notices  []meters.Notice
	returned int64 // host ns at which Stream returned
	port     *Port
}

// measured are the rows that hold something.
func (r recording) measured() [][]float64 {
	return slices.DeleteFunc(slices.Clone(r.rows), func(row []float64) bool {
		return !slices.ContainsFunc(row, func(v float64) bool { return !math.IsNaN(v) })
	})
}

func (r recording) bad() int64 {
	n := int64(0)
	for _, notice := range r.notices {
		if notice.Code == meters.BadPackets {
			n += notice.Count
		}
	}
	return n
}

// stream plays frames to the driver, cancels half a second after the last one
// or at cancelNs, if that is not 0, and closes the meter twice.
func (s Suite) stream(t *testing.T, frames []Frame, cancelNs int64) recording {
	t.Helper()
	if cancelNs == 0 {
		cancelNs = frames[len(frames)-1].HostNs + int64(time.Second)/2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := recording{port: &Port{Frames: frames}}
	r.port.Passed = func(hostNs int64) {
		if hostNs >= cancelNs {
			cancel()
		}
	}
	o := s.Options
	o.Notify = func(n meters.Notice) { r.notices = append(r.notices, n) }
	m, err := s.Driver.Open(ctx, r.port, o)
	if err != nil {
		t.Fatal(err)
	}
	r.info = m.Info()
	err = m.Stream(ctx, func(b meters.Block) error {
		r.add(t, b)
		return nil
	})
	if err != nil {
		t.Errorf("stream: %v", err)
	}
	r.returned = r.port.HostNs()
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if r.port.Closed != 1 {
		t.Errorf("the port was closed %d times", r.port.Closed)
	}
	return r
}

func (r *recording) add(t *testing.T, b meters.Block) {
	t.Helper()
	if len(b.Values) != len(r.info.Columns) {
		t.Fatalf("a block of %d columns, the meter says %d", len(b.Values), len(r.info.Columns))
	}
	for k := range b.Len() {
		row := make([]float64, len(b.Values))
		for i, v := range b.Values {
			row[i] = v[k]
		}
		r.rows = append(r.rows, row)
	}
	b.Values, b.Raw = nil, slices.Clone(b.Raw)
	r.blocks = append(r.blocks, b)
}

func (s Suite) decodes(t *testing.T, c Capture) {
	r := s.stream(t, c.Frames, 0)
	for column, want := range c.Want {
		i := slices.Index(r.info.Columns, column)
		if i < 0 {
			t.Errorf("the meter has no column %s", column)
			continue
		}
		var got []float64
		for _, row := range r.rows {
			got = append(got, row[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", column, got, want)
		}
	}
	if n := r.bad(); n != 0 {
		t.Errorf("%d bad packets counted in a good capture", n)
	}
	for _, b := range r.blocks {
		i := slices.IndexFunc(c.Frames, func(f Frame) bool { return slices.Equal(f.Bytes, b.Raw) })
		if i < 0 || b.Len() > 0 && b.ArrivalNs != c.Frames[i].HostNs {
			t.Errorf("a block of %d samples arrived at %d ns, its report is frame %d", b.Len(), b.ArrivalNs, i)
		}
	}
}

// stops: the stream ends within a second of its context.
func (s Suite) stops(t *testing.T, c Capture) {
	cancelNs := c.Frames[1].HostNs
	r := s.stream(t, c.Frames, cancelNs)
	if late := r.returned - cancelNs; late > int64(time.Second) {
		t.Errorf("the stream ended %d ns after its context", late)
	}
}

// damaged: whatever byte of a report is wrong, and wherever it is cut, no
// sample is, and the report is counted.
func (s Suite) damaged(t *testing.T, c Capture) {
	victim := len(c.Frames) / 2
	without := s.stream(t, slices.Delete(slices.Clone(c.Frames), victim, victim+1), 0).measured()
	check := func(what string, at int, b []byte) {
		frames := slices.Clone(c.Frames)
		frames[victim].Bytes = b
		r := s.stream(t, frames, 0)
		if got := r.measured(); !equal(got, without) {
			t.Errorf("%s at byte %d: samples are %v, want %v", what, at, got, without)
		}
		if n := r.bad(); n != 1 {
			t.Errorf("%s at byte %d: %d bad packets counted, want 1", what, at, n)
		}
	}
	good := c.Frames[victim].Bytes
	for i := range good {
		b := slices.Clone(good)
		b[i] ^= 0x10
		check("wrong", i, b)
		check("cut", i, good[:i])
	}
}

// garbage: reports of random bytes and lengths between good ones change
// nothing about those.
func (s Suite) garbage(t *testing.T, c Capture) {
	seed := uint64(time.Now().UnixNano())
	draws := rand.New(rand.NewPCG(seed, 0))
	want := s.stream(t, c.Frames, 0).measured()
	var frames []Frame
	var junk int64
	for _, f := range c.Frames {
		frames = append(frames, f)
		for range draws.IntN(4) {
			b := make([]byte, draws.IntN(100))
			for i := range b {
				b[i] = byte(draws.Uint32())
			}
			frames = append(frames, Frame{f.HostNs + 1, b})
			junk++
		}
	}
	r := s.stream(t, frames, 0)
	if got := r.measured(); !equal(got, want) {
		t.Errorf("seed %d: samples are %v, want %v", seed, got, want)
	}
	if n := r.bad(); n != junk {
		t.Errorf("seed %d: %d bad packets counted, want %d", seed, n, junk)
	}
}

func equal(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(x, y []float64) bool { return slices.Equal(x, y) })
}
