package speed

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/joulemark/joulemark/bench/fnb58"
	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/fnirsi"
	"github.com/joulemark/joulemark/run"
)

var recordSeconds = flag.Float64("record", 20, "seconds of a fast meter that are recorded; a hundred times as many of a slow one")

// waitMost is how much a meter that need not wait for time lets wait for the
// disk: the recorder may not lose anything then.
const waitMost = 16 << 20

// recordAll records until the meter ends and returns what it took.
func recordAll(b *testing.B, dir string, open func(r *record.Recorder) meters.Meter) (cpu, wall time.Duration, s record.Status) {
	b.Helper()
	var r *record.Recorder
	o := record.Options{Dir: dir, Header: run.Header{Tool: "speed", Name: "record", Simulated: true}, HostNs: meters.NewHostClock(),
		Meters: []record.Meter{{Name: "usb", Open: func(_ context.Context, notify func(meters.Notice)) (meters.Meter, error) {
			return open(r), nil
		}}}}
	r, err := record.New(o)
	if err != nil {
		b.Fatal(err)
	}
	start, began := cpuTime(), time.Now()
	result, err := r.Run(context.Background())
	cpu, wall = cpuTime()-start, time.Since(began)
	if err != nil {
		b.Fatal(err)
	}
	s = result.Meters[0]
	recorded, err := run.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	if s.Dropped > 0 || s.Missing > 0 || s.Gaps > 0 || recorded.Streams[0].Rows != s.Samples {
		b.Fatalf("%d samples on disk, of %d; %d not recorded, %d lost, %d gaps", recorded.Streams[0].Rows, s.Samples, s.Dropped, s.Missing, s.Gaps)
	}
	return cpu, wall, s
}

// breathe lets the writer catch up, from time to time.
func breathe(r *record.Recorder, block int64) {
	for block%64 == 0 && r.Snapshot().Queued > waitMost {
		runtime.Gosched()
	}
}

// fast is a meter that sends as fast as the recorder takes it, with the host
// times that its rate would give.
type fast struct {
	r     *record.Recorder
	info  meters.Info
	block int // samples
	raw   int // bytes of a block
	total int64
}

func (f *fast) Info() meters.Info { return f.info }
func (f *fast) Close() error      { return nil }

func (f *fast) Stream(_ context.Context, emit func(meters.Block) error) error {
	b := meters.Block{Values: make([][]float64, len(f.info.Columns)), Raw: make([]byte, f.raw)}
	if f.raw == 0 {
		b.Raw = nil
	}
	for i := range b.Values {
		b.Values[i] = make([]float64, f.block)
		for k := range b.Values[i] {
			b.Values[i][k] = float64(k&1) * float64(i+1) / 8
		}
	}
	for n := int64(0); n < f.total; {
		n += int64(f.block)
		b.ArrivalNs = int64(float64(n) / f.info.RateHz * 1e9)
		if err := emit(b); err != nil {
			return err
		}
		breathe(f.r, n/int64(f.block))
	}
	return nil
}

// plainWrite is the least that recording must do: write the same bytes, and
// sync them as often.
func plainWrite(b *testing.B, from, to string) (cpu, wall time.Duration) {
	b.Helper()
	files, err := os.ReadDir(from)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			b.Fatal(err)
		}
		start, began := cpuTime(), time.Now()
		out, err := os.Create(filepath.Join(to, f.Name()))
		if err != nil {
			b.Fatal(err)
		}
		for len(data) > 0 && err == nil {
			n := min(len(data), 1<<20)
			_, err = out.Write(data[:n])
			data = data[n:]
		}
		if err == nil {
			err = out.Sync()
		}
		if err != nil {
			b.Fatal(err)
		}
		out.Close()
		cpu += cpuTime() - start
		wall += time.Since(began)
	}
	return cpu, wall
}

// benchmarkFast measures a fast meter: how much faster than real time it can be
// recorded, in processor time of one core and by the wall clock, and beside a
// plain write of the same bytes.
func benchmarkFast(b *testing.B, info meters.Info, block, raw int) {
	var cpu, wall, plainCPU, plainWall time.Duration
	n, i := int64(0), 0
	dir := b.TempDir()
	for b.Loop() {
		to := filepath.Join(dir, strconv.Itoa(i))
		c, w, s := recordAll(b, to, func(r *record.Recorder) meters.Meter {
			return &fast{r: r, info: info, block: block, raw: raw, total: int64(*recordSeconds * info.RateHz)}
		})
		cpu, wall, n = cpu+c, wall+w, n+s.Samples
		c, w = plainWrite(b, to, to+".plain")
		plainCPU, plainWall = plainCPU+c, plainWall+w
		os.RemoveAll(to)
		os.RemoveAll(to + ".plain")
		i++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/wall.Seconds()/1e6, "Msamples/s")
	b.ReportMetric(float64(n)/info.RateHz/wall.Seconds(), "x-real-time")
	b.ReportMetric(100*cpu.Seconds()*info.RateHz/float64(n), "%core")
	b.ReportMetric(wall.Seconds()/plainWall.Seconds(), "plain-writes")
	b.ReportMetric(cpu.Seconds()/plainCPU.Seconds(), "plain-writes-cpu")
}

// BenchmarkRecord2M records 2 million samples a second, in blocks of 32,768.
func BenchmarkRecord2M(b *testing.B) {
	benchmarkFast(b, meters.Info{Driver: "fast", Columns: []string{meters.Volts, meters.Amps}, RateHz: 2e6, PacketSamples: 1 << 15,
		Sample: meters.Mean, Clock: meters.ByArrival}, 1<<15, 0)
}

// BenchmarkRecordPPK2 records what a PPK2 sends: 100,000 samples a second with
// eight digital inputs, in reads of 4 KiB, which are kept.
func BenchmarkRecordPPK2(b *testing.B) {
	benchmarkFast(b, meters.Info{Driver: "fast", Columns: []string{meters.Volts, meters.Amps, "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"},
		RateHz: 1e5, PacketSamples: 1024, Sample: meters.Mean, Clock: meters.ByArrival}, 1024, 4096)
}

// throttled is an emulated FNB58 that runs as fast as it is read, for a while.
type throttled struct {
	meters.Port
	r      *record.Recorder
	endNs  int64
	cancel context.CancelFunc
	reads  int64
}

func (p *throttled) Read(b []byte, untilNs int64) (int, int64, error) {
	n, hostNs, err := p.Port.Read(b, untilNs)
	if hostNs >= p.endNs {
		p.cancel()
	}
	p.reads++
	breathe(p.r, p.reads)
	return n, hostNs, err
}

// ending is a meter whose stream ends with its port.
type ending struct {
	meters.Meter
	ctx context.Context
}

func (e ending) Stream(_ context.Context, emit func(meters.Block) error) error {
	return e.Meter.Stream(e.ctx, emit)
}

// BenchmarkRecordFNB58 records an emulated FNB58 through its driver, and says
// which share of a core that takes in real time.
func BenchmarkRecordFNB58(b *testing.B) {
	var cpu time.Duration
	seconds, i := 0.0, 0
	dir := b.TempDir()
	for b.Loop() {
		device := fnb58.New(fnb58.Every(func(float64) fnb58.Reading { return fnb58.Reading{Volts: 5, Amps: 0.1} }), fnb58.Faults{}, 1)
		c, _, s := recordAll(b, filepath.Join(dir, strconv.Itoa(i)), func(r *record.Recorder) meters.Meter {
			ctx, cancel := context.WithCancel(context.Background())
			port := &throttled{Port: device.Open(), r: r, endNs: int64(100 * *recordSeconds * 1e9), cancel: cancel}
			m, err := fnirsi.Driver.Open(ctx, port, meters.Options{})
			if err != nil {
				b.Fatal(err)
			}
			return ending{m, ctx}
		})
		cpu += c
		seconds += float64(s.Samples) / 100
		i++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*cpu.Seconds()/seconds, "%core")
}
