package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/joulemark/joulemark/sync/mark"
)

// patience bounds each wait for the served target; nothing waits that long.
const patience = 30 * time.Second

// lockedBuffer is written by the verb while a test reads it.
type lockedBuffer struct {
	lock  sync.Mutex
	bytes bytes.Buffer
	wrote chan struct{} // holds one token after a write
}

func newLockedBuffer() *lockedBuffer { return &lockedBuffer{wrote: make(chan struct{}, 1)} }

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	select {
	case b.wrote <- struct{}{}:
	default:
	}
	return b.bytes.Write(p)
}

func (b *lockedBuffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.bytes.String()
}

// await returns the first match of re in what was written.
func (b *lockedBuffer) await(t *testing.T, re string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		if m := regexp.MustCompile(re).FindStringSubmatch(b.String()); m != nil {
			return m[1]
		}
		select {
		case <-b.wrote:
		case <-deadline:
			t.Fatalf("no %q in %q", re, b.String())
		}
	}
}

// served is a running joulemark virtual.
type served struct {
	t       *testing.T
	stop    context.CancelFunc
	code    chan int
	out     *lockedBuffer
	log     *lockedBuffer
	conn    io.ReadWriteCloser
	in      *bufio.Scanner
	setDead func(time.Time) error
}

func startVirtual(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &served{t: t, stop: stop, code: make(chan int, 1), out: newLockedBuffer(), log: newLockedBuffer()}
	go func() {
		s.code <- Main(&Env{Args: append([]string{"virtual", "--speed", "50"}, args...), Stdin: strings.NewReader(""),
			Stdout: s.out, Stderr: s.log, Interrupt: ctx})
	}()
	t.Cleanup(stop)
	return s
}

func (s *served) connect(conn io.ReadWriteCloser, deadline func(time.Time) error) {
	s.conn, s.in, s.setDead = conn, bufio.NewScanner(conn), deadline
	s.t.Cleanup(func() { conn.Close() })
}

func onTerminal(t *testing.T, args ...string) *served {
	t.Helper()
	link := filepath.Join(t.TempDir(), "target")
	s := startVirtual(t, append(args, "--link", link)...)
	name := s.log.await(t, `target on (/dev/\S+) \(`)
	if to, err := os.Readlink(link); err != nil || to != name {
		t.Fatalf("the link leads to %q, %v; the terminal is %s", to, err, name)
	}
	f, err := os.OpenFile(link, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.connect(f, f.SetDeadline)
	return s
}

func onTCP(t *testing.T, args ...string) *served {
	t.Helper()
	s := startVirtual(t, append(args, "--tcp", ":0")...)
	address := s.log.await(t, `target on tcp:(\S+),`)
	if !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("the target listens at %s", address)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.connect(c, c.SetDeadline)
	return s
}

func (s *served) write(text string) {
	s.t.Helper()
	if _, err := s.conn.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) command(c mark.Statement) {
	s.t.Helper()
	line, err := mark.Append(nil, c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(string(line))
}

// hear returns the next statement.
func (s *served) hear() mark.Statement {
	s.t.Helper()
	s.setDead(time.Now().Add(patience))
	if !s.in.Scan() {
		s.t.Fatalf("the target is silent: %v; log %q", s.in.Err(), s.log.String())
	}
	got, err := mark.Parse(s.in.Bytes())
	if err != nil || !got.Checked {
		s.t.Fatalf("the target says %q: %v", s.in.Text(), err)
	}
	return got
}

// hearKind passes over the statements before one of a kind.
func (s *served) hearKind(kind string) mark.Statement {
	s.t.Helper()
	for {
		if got := s.hear(); got.Kind == kind {
			return got
		}
	}
}

// end interrupts the verb.
func (s *served) end() {
	s.t.Helper()
	s.stop()
	select {
	case code := <-s.code:
		if code != exitInterrupted {
			s.t.Errorf("exit code %d: %s", code, s.log.String())
		}
	case <-time.After(patience):
		s.t.Fatal("it does not end")
	}
}

// sampled is the first line of samples, and one of the others.
type sampled struct {
	Schema  string    `json:"schema"`
	RateHz  float64   `json:"rate_hz"`
	Packet  int       `json:"packet_samples"`
	Columns []string  `json:"columns"`
	Seconds float64   `json:"t_s"`
	Volts   []float64 `json:"volts"`
	Amps    []float64 `json:"amps"`
}

// told is the first line of a truth file, and one of the others.
type told struct {
	Schema      string  `json:"schema"`
	FirstSample float64 `json:"first_sample_s"`
	SampleHz    float64 `json:"sample_hz"`
	W           int64   `json:"w"`
	T0          float64 `json:"t0_s"`
	T1          float64 `json:"t1_s"`
	Net         float64 `json:"net_j"`
	Gross       float64 `json:"gross_j"`
	Idle        float64 `json:"idle_w"`
}

func jsonLines[T any](t *testing.T, text string) (out []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			continue // being written
		}
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, v)
	}
	return out
}

// netEnergy integrates samples above idle from t0 to t1 (s).
func netEnergy(samples []sampled, truth told, t0, t1, idle float64) float64 {
	joules := 0.0
	for _, p := range samples[1:] {
		for i := range p.Volts {
			at := truth.FirstSample + (p.Seconds*samples[0].RateHz+float64(i))/truth.SampleHz
			if at >= t0 && at < t1 {
				joules += (p.Volts[i]*p.Amps[i] - idle) / truth.SampleHz
			}
		}
	}
	return joules
}

// A whole conversation, garbage included; the samples hold what the target did.
func TestVirtualConverses(t *testing.T) {
	for name, connect := range map[string]func(*testing.T, ...string) *served{"terminal": onTerminal, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			truthFile := filepath.Join(t.TempDir(), "truth.jsonl")
			s := connect(t, "--truth", truthFile, "--seed", "3")
			s.command(mark.HelloCmd{}.Statement())
			h, err := mark.ParseHello(s.hearKind("hello"))
			if err != nil || h.Target != "rv32" {
				t.Fatalf("hello %+v, %v", h, err)
			}
			// The boot's own lines may come first: a marker ends them.
			s.command(mark.Level{Pin: 1, V: 1}.Statement())
			if a, err := mark.ParseAnswer(s.hearKind("ok")); err != nil || a.Cmd != "level" {
				t.Fatalf("level: %+v, %v", a, err)
			}
			s.command(mark.SyncCmd{N: 2, GapUs: 10_000}.Statement())
			if a, b := s.hear(), s.hear(); a.Kind != "sync" || b.Kind != "sync" {
				t.Errorf("sync: %s, %s", a, b)
			}
			s.write("\x00\xffgarbage\r\nlog: nothing\n@jh hello *00")
			s.write("00\n@jh run w=3 al\n" + strings.Repeat("y", 5000) + "\n@jh " + strings.Repeat("x", 5000) + "\n")
			for range 3 {
				if a, err := mark.ParseAnswer(s.hear()); err != nil || a.OK || a.Code != "damaged" {
					t.Errorf("a damaged command: %+v, %v", a, err)
				}
			}
			for w := range int64(3) {
				s.command(mark.Run{W: w, Alg: "ML-DSA-44", Op: "verify", N: 80, PreUs: 310_000, PostUs: 300_000}.Statement())
				win, err := mark.ParseWin(s.hear())
				if err != nil || win.W != w || win.N != 80 || s.hear().Kind != "lat" {
					t.Fatalf("window %+v, %v", win, err)
				}
			}
			s.command(mark.IdleCmd{W: 9, Us: 500_000, Mode: "wfi"}.Statement())
			if got := s.hear(); got.Kind != "idle" {
				t.Errorf("idle: %s", got)
			}
			s.command(mark.Run{W: 10, Alg: "ML-DSA-44", Op: "verify", N: 20_000}.Statement())
			s.command(mark.Stop{}.Statement())
			a, err := mark.ParseAnswer(s.hear())
			if b, err := mark.ParseAnswer(s.hear()); err != nil || !b.OK || b.Cmd != "stop" {
				t.Errorf("stop: %+v, %v", b, err)
			}
			if err != nil || a.Cmd != "run" || a.Code != "stopped" || *a.W != 10 {
				t.Errorf("a stopped window: %+v, %v", a, err)
			}
			s.end()

			text, err := os.ReadFile(truthFile)
			if err != nil {
				t.Fatal(err)
			}
			samples, truth := jsonLines[sampled](t, s.out.String()), jsonLines[told](t, string(text))
			if samples[0].Schema != "joulemark.exec-meter/1" || truth[0].Schema != "joulemark.virtual-truth/1" || len(truth) != 4 {
				t.Fatalf("samples begin with %+v, truth is %+v", samples[0], truth)
			}
			for _, w := range truth[1:] {
				got := netEnergy(samples, truth[0], w.T0-0.25, w.T1+0.25, w.Idle)
				if math.Abs(got/w.Net-1) > 0.005 {
					t.Errorf("window %d: the samples hold %v J, true %v J", w.W, got, w.Net)
				}
			}
		})
	}
}

// Hosts come and go; a second one is turned away.
func TestVirtualServesOneConnection(t *testing.T) {
	s := onTCP(t)
	s.command(mark.HelloCmd{}.Statement())
	s.hearKind("hello")
	address := s.conn.(net.Conn).RemoteAddr().String()
	second, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	second.SetDeadline(time.Now().Add(patience))
	if n, err := second.Read(make([]byte, 10)); !errors.Is(err, io.EOF) {
		t.Errorf("the second host reads %d bytes, %v", n, err)
	}
	second.Close()
	s.conn.Close()
	for deadline := time.Now().Add(patience); ; { // until the target has noticed
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		s.connect(c, c.SetDeadline)
		s.setDead(time.Now().Add(patience))
		line, _ := mark.Append(nil, mark.HelloCmd{}.Statement())
		c.Write(line)
		if s.in.Scan() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no host is served after the first has gone")
		}
	}
	s.end()
}

// The plan begins with the first connection, and ends by itself.
func TestVirtualPlaysThePlan(t *testing.T) {
	dir := t.TempDir()
	s := startVirtual(t, "--plan", "--speed", "100", "--scenario", "three", "--target", "amd64", "--tcp", "127.0.0.1:0",
		"-o", filepath.Join(dir, "samples.jsonl"), "--truth", filepath.Join(dir, "truth.jsonl"))
	c, err := net.Dial("tcp", s.log.await(t, `target on tcp:(\S+),`))
	if err != nil {
		t.Fatal(err)
	}
	s.connect(c, c.SetDeadline)
	s.setDead(time.Now().Add(patience))
	windows := 0
	for s.in.Scan() {
		if got, err := mark.Parse(s.in.Bytes()); err != nil {
			t.Errorf("%q: %v", s.in.Text(), err)
		} else if got.Kind == "win" {
			windows++
		}
	}
	if code := <-s.code; code != exitDone || windows != 12 {
		t.Errorf("exit code %d, %d windows: %s", code, windows, s.log.String())
	}
	for name, least := range map[string]int{"samples.jsonl": 1000, "truth.jsonl": 13} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if n := bytes.Count(text, []byte("\n")); err != nil || n < least {
			t.Errorf("%s has %d lines, %v", name, n, err)
		}
	}
}
