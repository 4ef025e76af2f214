package meterstest

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Exchange is one request and the pieces in which its answer came, each so long
// after the request, host ns.
type Exchange struct {
	Request []byte
	Answer  []Frame
	// Always: the request is answered so whenever it is sent.
	Always bool
}

// PolledCapture is what was asked of a meter, what it answered, and what that
// means. Its file has a line "> HEX" for each request, ">> HEX" for one that is
// always answered so, lines "< MS HEX" for the pieces of its answer, with the
// time since the request, and lines
// "want COLUMN VALUE..." as those of a Capture; "#" opens a comment.
type PolledCapture struct {
	Exchanges []Exchange
	Want      map[string][]float64
}

// ReadPolledCapture reads a capture.
func ReadPolledCapture(path string) (PolledCapture, error) {
	c := PolledCapture{Want: map[string][]float64{}}
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read capture: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if err := c.line(fields); err != nil {
			return c, fmt.Errorf("read capture %s:%d: %w", path, n, err)
		}
	}
	return c, lines.Err()
}

func (c *PolledCapture) line(fields []string) error {
	switch {
	case (fields[0] == ">" || fields[0] == ">>") && len(fields) == 2:
		b, err := hex.DecodeString(fields[1])
		c.Exchanges = append(c.Exchanges, Exchange{Request: b, Always: fields[0] == ">>"})
		return err
	case fields[0] == "<" && len(fields) == 3 && len(c.Exchanges) > 0:
		ms, err := strconv.ParseInt(fields[1], 10, 32)
		if err != nil {
			return err
		}
		b, err := hex.DecodeString(fields[2])
		last := &c.Exchanges[len(c.Exchanges)-1]
		last.Answer = append(last.Answer, Frame{ms * int64(time.Millisecond), b})
		return err
	}
	want := Capture{Want: c.Want}
	if fields[0] != "want" {
		return fmt.Errorf("%q is neither > HEX, < MS HEX nor want COLUMN and values", strings.Join(fields, " "))
	}
	return want.line(fields)
}

// Answering is a port to a meter that answers requests from exchanges, in
// virtual time. A request is answered by the next exchange that begins with it;
// those between are passed over. Other requests are not answered.
type Answering struct {
	Exchanges []Exchange
	// Written are the host times and bytes of what the driver sent.
	Written []Frame
	// Closed counts calls of Close.
	Closed int
	// Passed, if not nil, is told the host time before each read.
	Passed func(hostNs int64)

	hostNs  int64
	next    int
	lastNs  int64   // of the last request that was the next
	pending []Frame // of answers, at their host times
}

var _ meters.Port = (*Answering)(nil)

// Spent reports whether no more will be answered, but what always is.
func (p *Answering) Spent() bool {
	return len(p.pending) == 0 && !slices.ContainsFunc(p.Exchanges[p.next:], func(e Exchange) bool { return !e.Always })
}

// Read hands over the next piece that is there by untilNs, or what fits of it.
func (p *Answering) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	if p.Passed != nil {
		p.Passed(p.hostNs)
	}
	if p.Closed > 0 {
		return 0, p.hostNs, os.ErrClosed
	}
	if len(p.pending) == 0 || p.pending[0].HostNs > max(untilNs, p.hostNs) {
		p.hostNs = max(p.hostNs, untilNs)
		return 0, p.hostNs, os.ErrDeadlineExceeded
	}
	first := &p.pending[0]
	p.hostNs = max(p.hostNs, first.HostNs)
	n = copy(b, first.Bytes)
	if first.Bytes = first.Bytes[n:]; len(first.Bytes) == 0 {
		p.pending = p.pending[1:]
	}
	return n, p.hostNs, nil
}

// Write takes a request.
func (p *Answering) Write(b []byte) error {
	p.Written = append(p.Written, Frame{p.hostNs, slices.Clone(b)})
	for i, e := range p.Exchanges {
		if (e.Always || i >= p.next) && slices.Equal(e.Request, b) {
			if !e.Always {
				p.next, p.lastNs = i+1, p.hostNs
			}
			for _, f := range e.Answer {
				if len(f.Bytes) > 0 {
					p.pending = append(p.pending, Frame{p.hostNs + f.HostNs, f.Bytes})
				}
			}
			break
		}
	}
	return nil
}

// HostNs reads the virtual clock.
func (p *Answering) HostNs() int64 { return p.hostNs }

// Close closes the port.
func (p *Answering) Close() error {
	p.Closed++
	return nil
}

// PolledSuite is one driver of a meter that answers requests, under test.
type PolledSuite struct {
	Driver  meters.Driver
	Options meters.Options // for all captures
	// Captures matches the files, relative to the test's folder. Each holds
	// three samples or more, all different.
	Captures string
	// Unprotected reports whether nothing shows that a byte of an answer is
	// wrong, since the meter sends no checksum over it; nil: of none.
	Unprotected func(answer []byte, at int) bool
}

// Run runs all tests as subtests of t.
func (s PolledSuite) Run(t *testing.T) {
	paths, err := filepath.Glob(s.Captures)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no captures match %s: %v", s.Captures, err)
	}
	for _, path := range paths {
		c, err := ReadPolledCapture(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Run("decodes", func(t *testing.T) { s.decodes(t, c) })
			t.Run("stops", func(t *testing.T) { s.stops(t, c) })
			t.Run("silent", func(t *testing.T) { s.silent(t, c) })
			t.Run("damaged", func(t *testing.T) { s.damaged(t, c) })
			t.Run("garbage", func(t *testing.T) { s.garbage(t, c) })
			t.Run("pieces", func(t *testing.T) { s.pieces(t, c) })
		})
	}
}

// polled is what a driver made of exchanges.
type polled struct {
	recording
	port *Answering
	err  error
}

// missed is how often the driver says that it got no right answer.
func (r polled) missed() (n int64) {
	for _, notice := range r.notices {
		n += notice.Count
	}
	return n
}

// stream plays exchanges to the driver, cancels when all are spent or at
// cancelNs, if that is not 0, and closes the meter twice.
func (s PolledSuite) stream(t *testing.T, exchanges []Exchange, cancelNs int64) polled {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := polled{port: &Answering{Exchanges: exchanges}}
	r.port.Passed = func(hostNs int64) {
		// A driver that has lost an answer may not ask for what is left.
		stuck := r.port.next > 0 && hostNs > r.port.lastNs+3*int64(time.Second)
		if cancelNs == 0 && (r.port.Spent() || stuck) || cancelNs > 0 && hostNs >= cancelNs {
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
	if r.info.Clock != meters.Shared || r.info.RateHz != 0 {
		t.Errorf("a polled meter has the host's clock and no rate, not %+v", r.info)
	}
	lastNs := int64(math.MinInt64)
	r.err = m.Stream(ctx, func(b meters.Block) error {
		r.add(t, b)
		if b.Len() != 1 || len(b.TimesNs) != 1 || b.TimesNs[0] < lastNs || b.TimesNs[0]+r.info.FirstHostNs > b.ArrivalNs || b.ArrivalNs > r.port.hostNs {
			t.Fatalf("sample times %d after %d ns, arrival %d ns at %d ns", b.TimesNs, lastNs, b.ArrivalNs, r.port.hostNs)
		}
		lastNs = b.TimesNs[0]
		if b.Raw == nil && !math.IsNaN(r.power(r.rows[len(r.rows)-1])) {
			t.Error("a sample without the answer that it is from")
		}
		return nil
	})
	r.returned = r.port.hostNs
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

func (s PolledSuite) decodes(t *testing.T, c PolledCapture) {
	r := s.stream(t, c.Exchanges, 0)
	if r.err != nil {
		t.Fatal(r.err)
	}
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
	if n := r.missed(); n != 0 {
		t.Errorf("%d misses in a good capture: %+v", n, r.notices)
	}
}

// stops: the stream ends within a second of its context.
func (s PolledSuite) stops(t *testing.T, c PolledCapture) {
	for _, exchanges := range [][]Exchange{c.Exchanges, nil} {
		cancelNs := 3 * int64(time.Second) / 2
		r := s.stream(t, exchanges, cancelNs)
		if r.err != nil {
			t.Error(r.err)
		}
		if late := r.returned - cancelNs; late > int64(time.Second) {
			t.Errorf("the stream ended %d ns after its context", late)
		}
	}
}

// silent: a meter that never answers, or no longer, is given up.
func (s PolledSuite) silent(t *testing.T, c PolledCapture) {
	for _, exchanges := range [][]Exchange{nil, c.Exchanges} {
		r := s.stream(t, exchanges, 600*int64(time.Second))
		if r.err == nil || !strings.Contains(r.err.Error(), meters.ErrNoSamples.Error()) {
			t.Errorf("after %d exchanges: %v", len(exchanges), r.err)
		}
		if r.returned > 60*int64(time.Second) {
			t.Errorf("given up after %d ns", r.returned)
		}
	}
}

// within: got is want without some of its rows.
func within(got, want [][]float64) bool {
	for _, row := range want {
		if len(got) > 0 && slices.Equal(got[0], row) {
			got = got[1:]
		}
	}
	return len(got) == 0
}

// damaged: whatever byte of an answer is wrong, and wherever it is cut, no
// sample is, one at most is missing, and it is counted.
func (s PolledSuite) damaged(t *testing.T, c PolledCapture) {
	want := s.stream(t, c.Exchanges, 0).measured()
	check := func(what string, victim, at int, b []byte) {
		exchanges := slices.Clone(c.Exchanges)
		exchanges[victim].Answer = []Frame{{c.Exchanges[victim].Answer[0].HostNs, b}}
		r := s.stream(t, exchanges, 0)
		if got := r.measured(); r.err != nil || !within(got, want) || len(got) < len(want)-1 {
			t.Errorf("answer %d, %s at byte %d: samples are %v, %v", victim, what, at, got, r.err)
		}
		// After the last exchange the stream is cancelled at once.
		if victim < len(c.Exchanges)-1 && len(r.measured()) < len(want) && r.missed() == 0 {
			t.Errorf("answer %d, %s at byte %d: nothing is counted", victim, what, at)
		}
	}
	for victim, e := range c.Exchanges {
		good := joined(e.Answer)
		for i := range good {
			if s.Unprotected == nil || !s.Unprotected(good, i) {
				b := slices.Clone(good)
				b[i] ^= 0x10
				check("wrong", victim, i, b)
			}
			check("cut", victim, i, good[:i])
		}
	}
}

func joined(answer []Frame) (b []byte) {
	for _, f := range answer {
		b = append(b, f.Bytes...)
	}
	return b
}

// garbage: random bytes before and after every fifth answer harm no sample but
// that one, and never make one. They hold no digits, which may make a number.
func (s PolledSuite) garbage(t *testing.T, c PolledCapture) {
	seed := uint64(time.Now().UnixNano())
	draws := rand.New(rand.NewPCG(seed, 0))
	junk := func(atNs int64) Frame {
		b := make([]byte, 1+draws.IntN(200))
		for i := range b {
			for b[i] = byte(draws.Uint32()); b[i] >= '0' && b[i] <= '9'; {
				b[i] = byte(draws.Uint32())
			}
		}
		return Frame{atNs, b}
	}
	want := s.stream(t, c.Exchanges, 0).measured()
	for phase := range 5 {
		exchanges := slices.Clone(c.Exchanges)
		spoilt := 0
		for i := range exchanges {
			if i%5 != phase || len(exchanges[i].Answer) == 0 || exchanges[i].Always {
				continue
			}
			spoilt++
			a := exchanges[i].Answer
			a = append([]Frame{junk(a[0].HostNs)}, a...)
			exchanges[i].Answer = append(a, junk(a[len(a)-1].HostNs+1))
		}
		r := s.stream(t, exchanges, 0)
		if got := r.measured(); r.err != nil || !within(got, want) || len(got) < len(want)-spoilt {
			t.Errorf("seed %d: samples are %v, want %v, %v", seed, got, want, r.err)
		}
		if r.missed() == 0 && len(r.measured()) < len(want) {
			t.Errorf("seed %d: nothing is counted", seed)
		}
	}
}

// pieces: an answer that comes byte by byte is the same.
func (s PolledSuite) pieces(t *testing.T, c PolledCapture) {
	if slices.Contains(s.Driver.Transports, meters.USB) || slices.Contains(s.Driver.Transports, meters.HID) {
		t.Skip("a transfer is never cut")
	}
	want := s.stream(t, c.Exchanges, 0).measured()
	exchanges := slices.Clone(c.Exchanges)
	for i, e := range exchanges {
		exchanges[i].Answer = nil
		for _, f := range e.Answer {
			for _, x := range f.Bytes {
				exchanges[i].Answer = append(exchanges[i].Answer, Frame{f.HostNs, []byte{x}})
			}
		}
	}
	if got := s.stream(t, exchanges, 0).measured(); !equal(got, want) {
		t.Errorf("samples are %v, want %v", got, want)
	}
}
