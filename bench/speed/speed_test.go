// Package speed holds the measurements of time and memory: how long the
// analysis of a long recording takes beside a plain scan of its columns, and
// how much memory it needs.
package speed

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

var (
	samples = flag.Int64("samples", 10_000_000, "samples of the long recording")
	days    = flag.Float64("days", 1, "length of the recording at 100 samples a second")
	peakOf  = flag.String("peak", "", "analyze this run and nothing else, for the measurement of memory")
)

// The long recording: 100,000 samples a second in full batches, a window of
// 2 s in each 5 s.
const (
	longRateHz    = 100e3
	longRows      = run.MaxBatchRows
	tickHz        = 1e6
	windowSeconds = 2.0
	everySeconds  = 5.0
	idleWatts     = 0.25
	stepWatts     = 0.17
)

// recorder writes a recording batch by batch in virtual time.
type recorder struct {
	w       *run.Writer
	rateHz  float64
	seconds float64 // so far
	windows int
	err     error
}

// line writes what the target says at a host second.
func (r *recorder) line(at float64, format string, args ...any) {
	if err := r.w.Line(run.Line{HostNs: int64(at * 1e9), Source: "uart", Text: fmt.Appendf(nil, format, args...)}); err != nil && r.err == nil {
		r.err = err
	}
}

// lines writes the statements of the time up to until.
func (r *recorder) lines(until float64) {
	for ; float64(r.windows+1)*everySeconds < until; r.windows++ {
		t0 := float64(r.windows)*everySeconds + 1
		ticks := func(t float64) int64 { return int64(t * tickHz) }
		r.line(t0-0.6, "@jm sync seq=%d t=%d", 2*r.windows, ticks(t0-0.6))
		r.line(t0+windowSeconds+0.4, "@jm win w=%d alg=ML-DSA-44 op=verify n=100 t0=%d t1=%d idle=wfi pre_us=300000 post_us=300000",
			r.windows+1, ticks(t0), ticks(t0+windowSeconds))
		r.line(t0+windowSeconds+0.5, "@jm sync seq=%d t=%d", 2*r.windows+1, ticks(t0+windowSeconds+0.5))
	}
}

// writeLong writes a recording of n samples, rows at a time.
func writeLong(dir string, rateHz float64, n int64, rows int) (err error) {
	w, err := run.Create(dir, run.Header{Tool: "speed", Name: "long", Simulated: true}, run.Options{})
	if err != nil {
		return err
	}
	s, err := w.Stream(meters.Info{Stream: "usb", Driver: "speed", Columns: []string{meters.Volts, meters.Amps}, RateHz: rateHz, PacketSamples: rows,
		Sample: meters.Mean, Clock: meters.ByArrival, Accuracy: meters.Accuracy{Exact: true}})
	if err != nil {
		return err
	}
	r := &recorder{w: w, rateHz: rateHz}
	r.line(0, "@jm hello proto=1 target=board tick_hz=%.0f tick_bits=64", tickHz)
	b := meters.Block{Values: [][]float64{make([]float64, rows), make([]float64, rows)}}
	noise := uint32(1)
	for at := int64(0); at < n; at += int64(rows) {
		for i := range rows {
			t := float64(at+int64(i)) / rateHz
			noise = noise*1664525 + 1013904223 // Numerical Recipes, 2nd ed., 7.1
			watts := idleWatts + 1e-3*(float64(noise)/(1<<32)-0.5)
			if in := math.Mod(t, everySeconds) - 1; in >= 0 && in < windowSeconds {
				watts += stepWatts
			}
			b.Values[0][i], b.Values[1][i] = 5, watts/5
		}
		r.seconds = float64(at+int64(rows)) / rateHz
		b.ArrivalNs = int64(r.seconds * 1e9)
		if err := s.Write(b); err != nil {
			return err
		}
		r.lines(r.seconds)
	}
	if r.err != nil {
		return r.err
	}
	return w.Close("done", b.ArrivalNs)
}

// analyze does what the verb does.
func analyze(dir string) (analysis.Results, error) {
	r, err := run.Open(dir)
	if err != nil {
		return analysis.Results{}, err
	}
	line, err := align.Align(r, r.Streams[0].Stream)
	if err != nil {
		return analysis.Results{}, err
	}
	return analysis.Analyze(line, analysis.Options{})
}

// scan is the least that any program must do: read both columns with the Arrow
// library and sum up their product.
func scan(dir string) (joules float64, err error) {
	f, err := os.Open(filepath.Join(dir, "usb.arrows"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := ipc.NewReader(f)
	if err != nil {
		return 0, err
	}
	defer r.Release()
	for r.Next() {
		rec := r.RecordBatch()
		v, a := rec.Column(0).(*array.Float32).Float32Values(), rec.Column(1).(*array.Float32).Float32Values()
		for i := range v {
			joules += float64(v[i]) * float64(a[i])
		}
	}
	if err := r.Err(); err != nil && err != io.EOF {
		return 0, err
	}
	return joules, nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *peakOf != "" {
		if _, err := analyze(*peakOf); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// peakBytes is the most memory that analyzing a run takes, in a process of its
// own.
func peakBytes(dir string) (int64, error) {
	cmd := exec.Command(os.Args[0], "-peak", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024, nil // Linux counts KiB
}

// cpuTime is what this process has used of all cores so far. Unlike the time on
// the wall it does not depend on what else runs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail: who and pointer are right
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compare measures the analysis of a recording beside the scan of its columns.
func compare(b *testing.B, dir string, n int64) {
	var whole, plain time.Duration
	rounds := 0
	for b.Loop() {
		start := cpuTime()
		res, err := analyze(dir)
		if err != nil {
			b.Fatal(err)
		}
		whole += cpuTime() - start
		if len(res.Operations) != 1 || math.Abs(float64(res.Operations[0].Net.Value)/(stepWatts*windowSeconds/100)-1) > 1e-3 {
			b.Fatalf("the result is wrong: %+v", res.Operations)
		}
		start = cpuTime()
		if _, err := scan(dir); err != nil {
			b.Fatal(err)
		}
		plain += cpuTime() - start
		rounds++
	}
	peak, err := peakBytes(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)*float64(rounds)/whole.Seconds()/1e6, "Msamples/s")
	b.ReportMetric(whole.Seconds()/plain.Seconds(), "plain-scans")
	b.ReportMetric(float64(peak)/1e6, "MB-peak")
}

// BenchmarkAnalyzeLong analyzes a fast meter's recording.
func BenchmarkAnalyzeLong(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "long")
	if err := writeLong(dir, longRateHz, *samples, longRows); err != nil {
		b.Fatal(err)
	}
	compare(b, dir, *samples)
}

// BenchmarkAnalyzeDay analyzes a day of a USB meter as it is recorded: packets of
// four, on the disk each half second.
func BenchmarkAnalyzeDay(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "day")
	n := int64(*days * 86400 * 100)
	if err := writeLong(dir, 100, n, 4); err != nil {
		b.Fatal(err)
	}
	compare(b, dir, n)
}
