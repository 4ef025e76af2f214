package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/run"
)

// playLoad plays a meter whose load is what a kernel says of one program: it
// draws more while a process of that name exists. It is a truth that an
// analysis, which sees marks alone, does not know.
//
//	load-meter NAME
func playLoad() {
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, `{"schema":"joulemark.exec-meter/1","simulated":true,"driver":"load","columns":["volts","amps"],"rate_hz":%d,"packet_samples":4,"sample":"mean","accuracy":"exact"}`+"\n", loadHz)
	start := time.Now()
	looks, busy := 0, 0
	var amps []string
	for n := 1; ; {
		time.Sleep(time.Millisecond)
		looks++
		if alive(os.Args[1]) {
			busy++
		}
		if time.Since(start) < time.Duration(n)*time.Second/loadHz {
			continue
		}
		for ; time.Since(start) >= time.Duration(n)*time.Second/loadHz; n++ {
			amps = append(amps, strconv.FormatFloat(loadIdle+loadStep*float64(busy)/float64(looks), 'f', 5, 64))
		}
		looks, busy = 0, 0
		for ; len(amps) >= 4; amps = amps[4:] {
			fmt.Fprintf(out, `{"volts":[5,5,5,5],"amps":[%s]}`+"\n", strings.Join(amps[:4], ","))
		}
		if out.Flush() != nil {
			return
		}
	}
}

const (
	loadHz             = 100
	loadIdle, loadStep = 0.1, 0.4 // A, at 5 V
)

// alive reports whether a process of a name exists that has not ended.
func alive(name string) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		if _, rest, ok := strings.Cut(string(b), " ("+name+") "); ok && rest[0] != 'Z' {
			return true
		}
	}
	return false
}

// measured is what a test reads of results.
type measured struct {
	Operations []struct {
		Alg, Op string
		Windows int
		Count   int64
		Net     struct {
			Value, Lo95, Hi95 float64
		} `json:"net_j_per_op"`
		Latency struct{ Mean float64 } `json:"latency_s"`
	}
	Windows []struct{ Excluded string }
}

// runExec runs exec with a load meter and returns its results.
func runExec(t *testing.T, dir, program string, args ...string) measured {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test's own program is both: it plays what it is called.
	for _, name := range []string{"joulemark", "load-meter"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	args = append([]string{"exec", "--json", "--plain", "--meter", "exec:" + filepath.Join(dir, "load-meter") + " " + program,
		"-o", filepath.Join(dir, "run")}, args...)
	c := exec.Command(filepath.Join(dir, "joulemark"), args...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("exec: %v\n%s", err, errs.String())
	}
	var m measured
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A command's energy is what the kernel's own account of its life says.
func TestExecHoldsTheTruth(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the truth channel needs Linux's /proc")
	}
	m := runExec(t, t.TempDir(), "sleep", "--runs", "5", "--window", "600ms", "--lead", "1s", "--", "sleep", "0.3")
	if len(m.Operations) != 1 || m.Operations[0].Alg != "sleep" || m.Operations[0].Count != 10 {
		t.Fatalf("results are %+v", m)
	}
	// What lies between two runs in a window is not theirs, and on a busy machine
	// a process lives longer than it sleeps.
	op := m.Operations[0]
	truth := 5 * loadStep * 0.3
	if op.Net.Lo95 > truth*1.15 || op.Net.Hi95 < truth*0.85 || math.Abs(op.Net.Value/truth-1) > busyError {
		t.Errorf("%g J (%g to %g), want about %g", op.Net.Value, op.Net.Lo95, op.Net.Hi95, truth)
	}
}

// openssl speed as it is, its lines alone.
func TestExecReadsOpenSSL(t *testing.T) {
	if v, err := exec.Command("openssl", "version").Output(); err != nil || !strings.HasPrefix(string(v), "OpenSSL 3.0.") {
		t.Skip("no openssl 3.0 here, whose lines this test knows")
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the truth channel needs Linux's /proc")
	}
	dir := t.TempDir()
	m := runExec(t, dir, "openssl", "--runs", "3", "--lead", "2s", "--lines", "openssl-speed", "--",
		"openssl", "speed", "-mr", "-elapsed", "-seconds", "1", "rsa2048", "ecdsap256", "ed25519")
	if len(m.Operations) != 6 {
		t.Fatalf("results are %+v", m)
	}
	counts := counted(t, filepath.Join(dir, "run"))
	held := 0
	for _, op := range m.Operations {
		c, ok := counts[op.Alg+"/"+op.Op]
		if !ok || op.Windows != 3 || op.Count != c.n {
			t.Errorf("%s %s: %d windows of %d operations in all, openssl says %+v", op.Alg, op.Op, op.Windows, op.Count, c)
			continue
		}
		// The process draws the same power throughout.
		truth := 5 * loadStep * c.seconds / float64(c.n)
		if op.Net.Lo95 <= truth && truth <= op.Net.Hi95 {
			held++
		}
		t.Logf("%s %s: %g J (%g to %g), the truth is %g", op.Alg, op.Op, op.Net.Value, op.Net.Lo95, op.Net.Hi95, truth)
		if math.Abs(op.Net.Value/truth-1) > busyError {
			t.Errorf("%s %s: %g J, far from %g", op.Alg, op.Op, op.Net.Value, truth)
		}
	}
	// Of six intervals of 95 % all hold in three of four cases; on a machine so
	// busy that the meter itself is not let run, fewer.
	if held < 3 {
		t.Errorf("%d of 6 intervals hold the truth", held)
	}
}

// busyError is what a value may be off, relative, where other tests keep the
// machine from running the emulated meter in time; a wrong count or a wrong name
// is off by more.
const busyError = 0.4

type count struct {
	n       int64
	seconds float64
}

// announced is what openssl 3.0 prints before it measures an operation.
var announced = map[string]string{
	"2048:private:rsa": "RSA-2048-PKCS1/sign", "2048:public:rsa": "RSA-2048-PKCS1/verify",
	"256:sign:ecdsa": "ECDSA-P256/sign", "256:verify:ecdsa": "ECDSA-P256/verify",
	"253:sign:Ed25519": "Ed25519/sign", "253:verify:Ed25519": "Ed25519/verify",
}

// counted reads openssl's own lines from a run.
func counted(t *testing.T, dir string) map[string]count {
	t.Helper()
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]count{}
	op := ""
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Line == nil {
			continue
		}
		f := strings.Split(string(rec.Line.Text), ":")
		switch {
		case f[0] == "+DTP" && len(f) == 5:
			op = announced[strings.Join(f[1:4], ":")]
		case strings.HasPrefix(f[0], "+R"):
			n, err1 := strconv.ParseInt(f[1], 10, 64)
			s, err2 := strconv.ParseFloat(f[len(f)-1], 64)
			if err1 != nil || err2 != nil || op == "" {
				t.Fatalf("openssl says %q after %q", rec.Line.Text, op)
			}
			all[op] = count{all[op].n + n, all[op].seconds + s}
		}
	}
	return all
}
