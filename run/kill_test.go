package run

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// childEnv names the folder in which the test binary records when a test has
// started it as the recorder that is to be killed.
const childEnv = "JOULEMARK_RECORD_UNTIL_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, recordUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// recordUntilKilled records a virtual meter of 100 samples a second, in real
// time, and prints the number of packets handed over so far.
func recordUntilKilled(dir string) error {
	w, err := Create(dir, Header{Name: "killed"}, Options{Sync: true})
	if err != nil {
		return err
	}
	s, err := w.Stream(usbInfo())
	if err != nil {
		return err
	}
	start := time.Now()
	i := 0
	for range time.Tick(40 * time.Millisecond) {
		b := usbBlock(i)
		b.ArrivalNs = time.Since(start).Nanoseconds()
		if err := s.Write(b); err != nil {
			return err
		}
		if err := w.Line(Line{HostNs: b.ArrivalNs, Source: "uart", Text: fmt.Append(nil, i)}); err != nil {
			return err
		}
		i++
		fmt.Println(i)
	}
	return nil
}

// TestKill kills recorders at random moments: a run loses its last second at
// most.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := 50
	if testing.Short() {
		kills = 10
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var moments []kill
	for i := range kills {
		moments = append(moments, kill{
			dir:    filepath.Join(t.TempDir(), fmt.Sprint(i)),
			packet: 1 + random.IntN(40), // within 1.6 seconds
			after:  time.Duration(random.Int64N(int64(40 * time.Millisecond))),
		})
	}
	for ten := range slices.Chunk(moments, 10) {
		t.Run("", func(t *testing.T) {
			for _, k := range ten {
				t.Run(filepath.Base(k.dir), func(t *testing.T) {
					t.Parallel()
					k.run(t)
				})
			}
		})
	}
}

// kill says when to kill a recorder: a while after a packet.
type kill struct {
	dir    string
	packet int
	after  time.Duration
}

func (k kill) run(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+k.dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	packets := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		packets++
		if packets == k.packet {
			time.AfterFunc(k.after, func() { child.Process.Kill() })
		}
	}
	child.Wait()
	if packets < k.packet {
		t.Fatalf("the recorder died after %d packets", packets)
	}
	got, r := read(t, k.dir)
	// 100 samples a second; the last packet may have been handed over without
	// being printed.
	if lost := 4*packets - int(r.Streams[0].Rows); lost > 100 {
		t.Errorf("packet %d: %d samples lost", packets, lost)
	}
	if r.Counts["line"] < int64(packets) {
		t.Errorf("%d lines of %d", r.Counts["line"], packets)
	}
	for key, row := range got.rows {
		var n int
		if _, err := fmt.Sscanf(key, "usb/samples/1/%d", &n); err == nil && row != fmt.Sprintf(" %v %v", 5+float64(n%4)/4, float64(n)/1024) {
			t.Errorf("%s is %q", key, row)
		}
	}
	if p := r.Check(); !p.TailOnly || p.Closed || p.Streams[0].Samples != r.Streams[0].Rows {
		t.Errorf("report %+v", p)
	}
}
