//go:build unix

package execmeter_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/execmeter"
	"github.com/joulemark/joulemark/meters/process"
)

var fastSeconds = flag.Float64("seconds", 0, "record the program for so long in real time; 0: as fast as it goes")

// The test binary is the program, when it is told so: "program SAMPLES RATE".
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "program" {
		samples, _ := strconv.Atoi(os.Args[2])
		rate, _ := strconv.ParseFloat(os.Args[3], 64)
		generate(samples, rate)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	fastHz    = 2e6
	frameRows = 4000 // 2 ms
)

// generate writes samples in binary frames, amps counting them modulo 2^20: as
// fast as it can where rate is 0, and in real time otherwise. What cannot be
// written in time is left out, as a meter without much memory would do it.
func generate(samples int, rate float64) {
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	fmt.Fprintf(out, `{"schema":"joulemark.exec-meter/1","columns":["volts","amps"],"rate_hz":%g,"framing":"binary","simulated":true}`+"\n", fastHz)
	b := make([]byte, 12+2*4*frameRows)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	for k := range frameRows {
		binary.LittleEndian.PutUint32(b[12+4*k:], math.Float32bits(5))
	}
	start := time.Now()
	const held = fastHz / 4 // samples, as a meter with 4 MB would have it
	for i := 0; i < samples; i += frameRows {
		if rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(float64(i+frameRows) / rate * 1e9))))
			if due := int(time.Since(start).Seconds() * rate); due-i > held {
				i = due / frameRows * frameRows
			}
		}
		binary.LittleEndian.PutUint64(b[4:], uint64(i))
		for k := range frameRows {
			binary.LittleEndian.PutUint32(b[12+4*(frameRows+k):], math.Float32bits(float32((i+k)&(1<<20-1))))
		}
		if _, err := out.Write(b); err != nil {
			return
		}
		out.Flush()
	}
}

// runProgram records the program to its end.
func runProgram(t testing.TB, samples int, rate float64, emit func(meters.Block) error) []meters.Notice {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Open(fmt.Sprintf("'%s' program %d %g", me, samples, rate), meters.NewHostClock())
	if err != nil {
		t.Fatal(err)
	}
	var notices []meters.Notice
	m, err := execmeter.Driver.Open(context.Background(), p, meters.Options{Notify: func(n meters.Notice) { notices = append(notices, n) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Stream(context.Background(), emit); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return notices
}

// What another program sends arrives, each sample in its place: at two million
// a second in real time with go test ./meters/execmeter -run Fast -args -seconds=60.
func TestFast(t *testing.T) {
	want, rate := 2_000_000, 0.0
	if *fastSeconds > 0 {
		want, rate = int(*fastSeconds*fastHz)/frameRows*frameRows, fastHz
	}
	got := 0
	notices := runProgram(t, want, rate, func(b meters.Block) error {
		for _, amps := range b.Values[1] {
			if amps != float64(got&(1<<20-1)) {
				return fmt.Errorf("sample %d is %g", got, amps)
			}
			got++
		}
		return nil
	})
	if got != want || len(notices) > 0 {
		t.Errorf("%d samples, want %d: %+v", got, want, notices)
	}
	t.Logf("%d samples", got)
}

// BenchmarkFast is a program that sends as fast as it can, on the same core.
func BenchmarkFast(b *testing.B) {
	samples := 0
	b.ReportAllocs()
	b.ResetTimer()
	runProgram(b, b.N*frameRows, 0, func(block meters.Block) error {
		samples += block.Len()
		return nil
	})
	b.ReportMetric(float64(samples)/fastHz/b.Elapsed().Seconds(), "x-real-time")
}

// BenchmarkFrames is the driver alone.
func BenchmarkFrames(b *testing.B) {
	values := make([]float32, frameRows)
	text := frame(0, values, values)
	p := &frames{frame: []byte(text), header: []byte(header(`"framing":"binary"`))}
	m, err := execmeter.Driver.Open(context.Background(), p, meters.Options{})
	if err != nil {
		b.Fatal(err)
	}
	samples := 0
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	b.ResetTimer()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = m.Stream(ctx, func(block meters.Block) error {
		if samples += block.Len(); samples >= b.N*frameRows {
			cancel()
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	perFrame := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(frameRows/fastHz/perFrame, "x-real-time")
	const copies = 1 << 14
	to := make([]byte, len(text))
	start := time.Now()
	for i := range copies {
		p.frame[len(text)-1] = byte(i) // so that no copy is left out
		copy(to, p.frame)
	}
	b.ReportMetric(perFrame/(time.Since(start).Seconds()/copies), "plain-copies")
}

// frames is a port that hands over frames without end.
type frames struct {
	header, frame []byte
	index         uint64
	program
}

func (p *frames) Read(b []byte, untilNs int64) (int, int64, error) {
	if p.header != nil {
		n := copy(b, p.header)
		p.header = nil
		return n, 0, nil
	}
	n := 0
	for len(b)-n >= len(p.frame) && n < 1<<17 {
		binary.LittleEndian.PutUint64(p.frame[4:], p.index)
		p.index += frameRows
		n += copy(b[n:], p.frame)
	}
	return n, 0, nil
}
