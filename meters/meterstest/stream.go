package meterstest

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// StreamSuite is a driver under test whose meter sends a stream of bytes, in
// virtual time. Reads cut it anywhere.
type StreamSuite struct {
	Driver  meters.Driver
	Options meters.Options
	// Parts are what the meter sends, in order.
	Parts []Part
	// Want are the samples in it, a row each, as the driver must yield them;
	// Tolerance is how far off they may be, relative.
	Want      [][]float64
	Tolerance float64

	// The bytes from From of the last part on, up to To, are damaged. Up to
	// Reach samples from there on may be wrong or unknown, and no other; none
	// may be missing. There is no such test where Reach is 0.
	From, To, Reach int
	// SampleBytes of each sample. Whole samples that are lost are unknown and
	// counted as meters.LostSamples; there is no such test where it is 0.
	SampleBytes int
}

// Part is bytes that the meter sends when it is sent a command: at once where
// On is nil.
type Part struct{ On, Bytes []byte }

// Run runs all tests as subtests of t.
func (s StreamSuite) Run(t *testing.T) {
	t.Run("chunks", s.chunks)
	t.Run("stops", s.stops)
	if s.Reach > 0 {
		t.Run("damaged", s.damaged)
		t.Run("garbage", s.garbage)
	}
	if s.SampleBytes > 0 {
		t.Run("lost", s.lost)
	}
}

// streamPort plays parts back in virtual time, a piece each millisecond.
type streamPort struct {
	parts  []Part
	size   func() int // of the next piece
	hostNs int64
	out    []byte
	left   int64 // host ns since when all has been read
	closed int
	passed func(p *streamPort)
}

func (p *streamPort) advance() {
	for len(p.parts) > 0 && p.parts[0].On == nil {
		p.out = append(p.out, p.parts[0].Bytes...)
		p.parts = p.parts[1:]
	}
}

func (p *streamPort) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	defer func() { p.passed(p) }()
	p.advance()
	switch {
	case p.closed > 0:
		return 0, p.hostNs, os.ErrClosed
	case len(p.out) == 0:
		p.hostNs = max(p.hostNs, untilNs)
		return 0, p.hostNs, os.ErrDeadlineExceeded
	}
	p.hostNs += int64(time.Millisecond)
	p.left = p.hostNs
	n = copy(b[:min(len(b), p.size())], p.out)
	p.out = p.out[n:]
	return n, p.hostNs, nil
}

func (p *streamPort) Write(b []byte) error {
	p.advance()
	if len(p.parts) > 0 && bytes.Equal(b, p.parts[0].On) {
		p.out = append(p.out, p.parts[0].Bytes...)
		p.parts = p.parts[1:]
	}
	return nil
}

func (p *streamPort) HostNs() int64 { return p.hostNs }

func (p *streamPort) Close() error {
	p.closed++
	return nil
}

// stream plays parts to the driver, cancels half a second after the last byte
// was read or at the piece stop, if that is above 0, and closes the meter twice.
func (s StreamSuite) stream(t *testing.T, parts []Part, size func() int, stop int) recording {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pieces, cancelNs := 0, int64(0)
	port := &streamPort{parts: parts}
	port.size = func() int {
		if pieces++; pieces == stop {
			cancelNs = port.hostNs
			cancel()
		}
		return size()
	}
	port.passed = func(p *streamPort) {
		if len(p.parts)+len(p.out) == 0 && p.hostNs > p.left+int64(time.Second)/2 {
			cancel()
		}
	}
	r := recording{}
	o := s.Options
	o.Notify = func(n meters.Notice) { r.notices = append(r.notices, n) }
	m, err := s.Driver.Open(ctx, port, o)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Stream(ctx, func(b meters.Block) error {
		r.info = m.Info() // some meters say in their stream what they are
		r.add(t, b)
		return nil
	})
	if err != nil {
		t.Errorf("stream: %v", err)
	}
	r.returned = port.hostNs - cancelNs
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if port.closed != 1 {
		t.Errorf("the port was closed %d times", port.closed)
	}
	return r
}

func size(n int) func() int { return func() int { return n } }

// chunks: the pieces in which the stream is read change nothing.
func (s StreamSuite) chunks(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	draws := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct {
		name string
		size func() int
	}{
		{"all at once", size(1 << 30)}, {"bytes", size(1)}, {"3 bytes", size(3)}, {"packets", size(64)},
		{"random", func() int { return 1 + draws.IntN(200) }},
	} {
		r := s.stream(t, s.Parts, c.size, 0)
		if i := s.differs(r.rows, s.Want); i >= 0 {
			t.Errorf("%s, seed %d: %d samples, the first wrong one is %d, want %d", c.name, seed, len(r.rows), i, len(s.Want))
		}
		if n := r.counted(meters.LostSamples) + r.bad(); n != 0 {
			t.Errorf("%s, seed %d: %d samples or packets counted as lost in a good stream", c.name, seed, n)
		}
	}
}

func (r recording) counted(code string) (n int64) {
	for _, notice := range r.notices {
		if notice.Code == code {
			n += notice.Count
		}
	}
	return n
}

// differs returns the first row in which got is not want, -1 where there is
// none.
func (s StreamSuite) differs(got, want [][]float64) int {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !slices.EqualFunc(got[i], want[i], s.near) {
			return i
		}
	}
	return -1
}

func (s StreamSuite) near(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= s.Tolerance*math.Abs(b)
}

// stops: the stream ends within a second of its context.
func (s StreamSuite) stops(t *testing.T) {
	total := 0
	for _, p := range s.Parts {
		total += len(p.Bytes)
	}
	r := s.stream(t, s.Parts, size(64), total/64/2)
	if r.returned > int64(time.Second) {
		t.Errorf("the stream ended %d ns after its context", r.returned)
	}
	if len(r.rows) >= len(s.Want) {
		t.Errorf("all %d samples were read", len(r.rows))
	}
}

// with returns the parts with other bytes in the last one.
func (s StreamSuite) with(b []byte) []Part {
	parts := slices.Clone(s.Parts)
	parts[len(parts)-1].Bytes = b
	return parts
}

func (s StreamSuite) last() []byte { return s.Parts[len(s.Parts)-1].Bytes }

// damaged: whatever byte is wrong or lost, samples that lie further are right,
// and none is missing.
func (s StreamSuite) damaged(t *testing.T) {
	good := s.last()
	for at := s.From; at < s.To; at++ {
		wrong := slices.Clone(good)
		wrong[at] ^= 0x11
		s.check(t, "wrong", at, wrong)
		s.check(t, "lost", at, slices.Delete(slices.Clone(good), at, at+1))
	}
}

// garbage: bytes that the meter has not sent change no sample that lies further
// on.
func (s StreamSuite) garbage(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	draws := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		at := s.From + draws.IntN(s.To-s.From)
		junk := make([]byte, 1+draws.IntN(60))
		for i := range junk {
			junk[i] = byte(draws.Uint32())
		}
		r := s.stream(t, s.with(slices.Insert(slices.Clone(s.last()), at, junk...)), size(1000), 0)
		before := s.stream(t, s.with(s.last()[:at]), size(1000), 0).rows
		after := s.Want[min(len(before)+s.Reach, len(s.Want)):]
		if len(r.rows) < len(after) || s.differs(r.rows[len(r.rows)-len(after):], after) >= 0 {
			t.Errorf("seed %d: %d bytes of garbage at byte %d: the last %d of %d samples are not right", seed, len(junk), at, len(after), len(r.rows))
		}
	}
}

// check plays a stream that is damaged at a byte.
func (s StreamSuite) check(t *testing.T, what string, at int, b []byte) {
	t.Helper()
	r := s.stream(t, s.with(b), size(1000), 0)
	if len(r.rows) != len(s.Want) {
		t.Errorf("%s at byte %d: %d samples, want %d", what, at, len(r.rows), len(s.Want))
		return
	}
	first, last := -1, -1
	for i := range r.rows {
		if !slices.EqualFunc(r.rows[i], s.Want[i], s.near) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first >= 0 && last-first >= s.Reach {
		t.Errorf("%s at byte %d: samples %d to %d are wrong", what, at, first, last)
	}
}

// lost: samples that are lost are unknown and counted.
func (s StreamSuite) lost(t *testing.T) {
	for n := 1; n < 60; n += 7 {
		b := slices.Delete(slices.Clone(s.last()), s.From, s.From+n*s.SampleBytes)
		r := s.stream(t, s.with(b), size(1000), 0)
		if len(r.rows) != len(s.Want) {
			t.Errorf("%d lost: %d samples, want %d", n, len(r.rows), len(s.Want))
		}
		if k := len(r.rows) - len(r.measured()); k != n {
			t.Errorf("%d lost: %d are unknown", n, k)
		}
		if k := r.counted(meters.LostSamples); k != int64(n) {
			t.Errorf("%d lost: %d counted", n, k)
		}
	}
}
