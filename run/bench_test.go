package run

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// writeLong writes rows samples in full batches.
func writeLong(tb testing.TB, dir string, rows int) {
	w, err := Create(dir, Header{Name: "long"}, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	info := usbInfo()
	info.RateHz = 1e6
	s, err := w.Stream(info)
	if err != nil {
		tb.Fatal(err)
	}
	b := meters.Block{ArrivalNs: -1, Values: [][]float64{make([]float64, MaxBatchRows), make([]float64, MaxBatchRows)}}
	for i := range MaxBatchRows {
		b.Values[0][i], b.Values[1][i] = 5, 0.1+0.05*math.Sin(float64(i)/100)
	}
	for range rows / MaxBatchRows {
		if err := s.Write(b); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close("done", 0); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkWrite(b *testing.B) {
	const rows = 64 * MaxBatchRows
	dir := b.TempDir()
	n := 0
	for b.Loop() {
		writeLong(b, filepath.Join(dir, strconv.Itoa(n)), rows)
		n++
	}
	b.ReportMetric(float64(rows)*float64(n)/b.Elapsed().Seconds()/1e6, "Msamples/s")
}

func BenchmarkSamples(b *testing.B) {
	const rows = 512 * MaxBatchRows
	dir := filepath.Join(b.TempDir(), "long")
	writeLong(b, dir, rows)
	r, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		for batch, err := range r.Samples("usb") {
			if err != nil {
				b.Fatal(err)
			}
			n += batch.Rows
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Msamples/s")
}

// BenchmarkSamplesLive reads what a live recording leaves: many small batches.
func BenchmarkSamplesLive(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "live")
	w, err := Create(dir, Header{Name: "live"}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := w.Stream(usbInfo())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 25 * 3600 {
		if err := s.Write(usbBlock(i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close("done", 0); err != nil {
		b.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		for batch, err := range r.Samples("usb") {
			if err != nil {
				b.Fatal(err)
			}
			n += batch.Rows
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Msamples/s")
}
