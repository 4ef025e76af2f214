package run

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

func usbInfo() meters.Info {
	return meters.Info{Stream: "usb", Driver: "fnb58", Columns: []string{meters.Volts, meters.Amps},
		RateHz: 100, PacketSamples: 4, Sample: meters.Mean, Clock: meters.ByArrival}
}

func usbBlock(i int) meters.Block {
	b := meters.Block{ArrivalNs: int64(i+1) * 40_000_000, Values: make([][]float64, 2), Raw: []byte{0xaa, byte(i)}}
	for j := range 4 {
		b.Values[0] = append(b.Values[0], 5+float64(j)/4)
		b.Values[1] = append(b.Values[1], float64(4*i+j)/1024)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	w, err := Create(dir, Header{Name: "x", Tool: "test"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream(usbInfo())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := s.Write(usbBlock(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Line(Line{HostNs: 5, Source: "uart", Text: []byte("a\xffb")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close("done", 1e9); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for b, err := range r.Samples("usb") {
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range b.Columns[meters.Amps] {
			if want := float64(int(b.Row)+i) / 1024; v != want {
				t.Fatal(v, want)
			}
		}
		n += b.Rows
	}
	if n != 400 || math.IsNaN(1) {
		t.Fatal(n)
	}
}
