package polled

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
)

const ms = int64(time.Millisecond)

// scripted is a source that takes tookNs for an answer and does what ask says.
type scripted struct {
	hostNs, tookNs int64
	asked          []int64
	ask            func(n int) error
	cancel         func()
	untilNs        int64
	closeErr       error
	closed         int
}

func (s *scripted) HostNs() int64 { return s.hostNs }

func (s *scripted) Wait(ctx context.Context, untilNs int64) error {
	s.hostNs = max(s.hostNs, untilNs)
	if s.hostNs >= s.untilNs {
		s.cancel()
	}
	return ctx.Err()
}

func (s *scripted) Ask(context.Context) (Reading, error) {
	s.asked = append(s.asked, s.hostNs)
	s.hostNs += s.tookNs
	r := Reading{ArrivalNs: s.hostNs, SampleNs: s.hostNs, Values: []float64{float64(len(s.asked))}}
	if err := s.ask(len(s.asked)); err != nil {
		r.Values = nil
		return r, err
	}
	return r, nil
}

func (s *scripted) Close() error {
	s.closed++
	return s.closeErr
}

type outcome struct {
	watts   []float64
	times   []int64
	notices []meters.Notice
	err     error
}

func stream(t *testing.T, s *scripted, every time.Duration, untilNs int64, first ...meters.Notice) (out outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.cancel, s.untilNs = cancel, untilNs
	m := New(s, meters.Info{Driver: "x", Columns: []string{meters.Watts}}, every, func(n meters.Notice) { out.notices = append(out.notices, n) })
	m.First(first...)
	if i := m.Info(); i.Clock != meters.Shared || i.RateHz != 0 || i.FirstHostNs != s.hostNs {
		t.Errorf("%+v at %d ns", i, s.hostNs)
	}
	out.err = m.Stream(ctx, func(b meters.Block) error {
		out.watts = append(out.watts, b.Values[0][0])
		out.times = append(out.times, b.TimesNs[0])
		return nil
	})
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.closed != 1 {
		t.Errorf("closed %d times", s.closed)
	}
	return out
}

// TestPace: questions stand on a grid that does not drift, and follow each other
// where answers take longer.
func TestPace(t *testing.T) {
	s := &scripted{hostNs: 7 * ms, tookNs: 3 * ms, ask: func(int) error { return nil }}
	out := stream(t, s, 10*time.Millisecond, 50*ms)
	if !slices.Equal(s.asked, []int64{7 * ms, 17 * ms, 27 * ms, 37 * ms, 47 * ms}) || out.err != nil {
		t.Errorf("asked at %v, %v", s.asked, out.err)
	}
	if !slices.Equal(out.times, []int64{3 * ms, 13 * ms, 23 * ms, 33 * ms, 43 * ms}) {
		t.Errorf("samples at %v", out.times)
	}
	s = &scripted{tookNs: 12 * ms, ask: func(int) error { return nil }}
	stream(t, s, 10*time.Millisecond, 60*ms)
	if !slices.Equal(s.asked, []int64{0, 12 * ms, 24 * ms, 36 * ms, 48 * ms}) {
		t.Errorf("asked at %v", s.asked)
	}
}

// TestMisses: what each failure becomes.
func TestMisses(t *testing.T) {
	odd := func(err error) func(int) error {
		return func(n int) error {
			if n%2 == 1 {
				return fmt.Errorf("x: %w", err)
			}
			return nil
		}
	}
	nan := math.NaN()
	for _, c := range []struct {
		name  string
		ask   func(int) error
		watts []float64
		code  string
		err   string
	}{
		{"damaged", odd(ErrDamaged), []float64{2, nan, 4, nan, 6}, meters.BadPackets, ""},
		{"unanswered", odd(ErrUnanswered), []float64{2, nan, 4, nan, 6}, Unanswered, ""},
		{"unread", odd(ErrUnread), []float64{2, 4, 6}, Unread, ""},
		{"nothing new", odd(ErrNothingNew), []float64{2, 4, 6}, "", ""},
		{"final", func(n int) error {
			if n == 3 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}, []float64{1, 2}, "", "unexpected EOF"},
	} {
		out := stream(t, &scripted{ask: c.ask}, 10*time.Millisecond, 60*ms)
		if !slices.EqualFunc(out.watts, c.watts, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
			t.Errorf("%s: %v, want %v", c.name, out.watts, c.watts)
		}
		if c.code == "" && len(out.notices) != 0 || c.code != "" && (len(out.notices) != 1 || out.notices[0].Code != c.code || out.notices[0].Count != 3) {
			t.Errorf("%s: %+v", c.name, out.notices)
		}
		if (c.err == "") != (out.err == nil) || out.err != nil && !strings.Contains(out.err.Error(), c.err) {
			t.Errorf("%s: %v", c.name, out.err)
		}
	}
}

// TestGivingUp: five seconds without a sample, or three questions.
func TestGivingUp(t *testing.T) {
	for every, wantNs := range map[time.Duration]int64{10 * time.Millisecond: giveUpNs, 3 * time.Second: 9e9} {
		s := &scripted{ask: func(n int) error {
			if n > 4 {
				return ErrUnanswered
			}
			return nil
		}}
		out := stream(t, s, every, 1e12)
		lastNs := s.asked[3]
		if !errors.Is(out.err, meters.ErrNoSamples) || !errors.Is(out.err, ErrUnanswered) || s.hostNs-lastNs < wantNs || s.hostNs-lastNs > wantNs+int64(every) {
			t.Errorf("every %v: %v after %d ns", every, out.err, s.hostNs-lastNs)
		}
	}
}

func TestFirst(t *testing.T) {
	out := stream(t, &scripted{hostNs: 5, ask: func(int) error { return nil }}, time.Second, 1e9, meters.Notice{Code: "a"}, meters.Notice{Code: "b"})
	if len(out.notices) != 2 || out.notices[0] != (meters.Notice{HostNs: 5, Code: "a"}) || out.notices[1].Code != "b" {
		t.Errorf("%+v", out.notices)
	}
}

func TestCloseFails(t *testing.T) {
	m := New(&scripted{closeErr: os.ErrClosed}, meters.Info{Model: "X1"}, time.Second, nil)
	if err := m.Close(); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "X1") {
		t.Error(err)
	}
}

// TestStale: what came before the request is no answer to it.
func TestStale(t *testing.T) {
	port := &meterstest.Port{Frames: []meterstest.Frame{{HostNs: 0, Bytes: []byte("old")}, {HostNs: 0, Bytes: []byte("er")}, {HostNs: 5 * ms, Bytes: []byte("ne")}, {HostNs: 6 * ms, Bytes: []byte("w+")}}}
	l := Link{Port: port, AnswerNs: 10 * ms}
	whole := func(b []byte) (int, error) { return len(b) / 3 * 3, nil }
	answer, hostNs, err := l.Query(context.Background(), []byte("?"), whole)
	if string(answer) != "new" || hostNs != 6*ms || err != nil {
		t.Errorf("%q at %d ns, %v", answer, hostNs, err)
	}
	// What follows begins the next answer.
	port.Frames = []meterstest.Frame{{HostNs: 7 * ms, Bytes: []byte("1")}, {HostNs: 8 * ms, Bytes: []byte("2")}}
	answer, hostNs, err = l.Next(context.Background(), whole)
	if string(answer) != "+12" || hostNs != 8*ms || err != nil {
		t.Errorf("%q at %d ns, %v", answer, hostNs, err)
	}
	if answer, _, err = l.Query(context.Background(), []byte("?"), whole); !errors.Is(err, ErrUnanswered) || len(answer) != 0 {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestReadText(t *testing.T) {
	files := fstest.MapFS{"n": {Data: []byte(" package-0 \n")}}
	if text, err := ReadText(files, "n"); text != "package-0" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	for _, text := range []string{"a\x1b[2J", "a\nb", "a\x00", "\xff"} {
		files["n"] = &fstest.MapFile{Data: []byte(text)}
		if got, err := ReadText(files, "n"); err == nil {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}

func TestReadNumber(t *testing.T) {
	files := fstest.MapFS{}
	for text, want := range map[string]int64{"5\n": 5, " -12 ": -12, "9223372036854775807": math.MaxInt64} {
		files["n"] = &fstest.MapFile{Data: []byte(text)}
		if n, err := ReadNumber(files, "n"); n != want || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "\n", "5 6", "5\n6", "0x5", "1e3", "5.0", "9223372036854775808", "\x00", strings.Repeat("0", 5000)} {
		files["n"] = &fstest.MapFile{Data: []byte(text)}
		if n, err := ReadNumber(files, "n"); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
}
