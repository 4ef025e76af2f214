package powerz

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
)

func TestConformance(t *testing.T) {
	meterstest.PolledSuite{
		Driver: Driver, Captures: "testdata/*.frames",
		Unprotected: func(_ []byte, at int) bool {
			return slices.ContainsFunc(fields[:], func(f field) bool { return at >= blockAt+f.at && at < blockAt+f.at+f.size })
		},
	}.Run(t)
}

// Answers of real meters, from the tests of okhsunrog/km003c-rs.
var realAnswers = map[string]Sample{
	"410c82020100000be08d4d001e000000218e4d00eaffffff278e4d00480000001c0c9502737e000001007b7e0080a40c00000000": {5.082592, 30e-6, 24.21875, 0.0661, 3.2371, 0, 0.0001},
	"410a82020100000b5c0f0000faffffffa00f0000f2ffffff04100000500000007e0d7b7ed40471014201837e0080780025002100": {3932e-6, -6e-6, 26.984375, 3.2379, 0.1236, 0.0369, 0.0322},
}

func TestRealAnswers(t *testing.T) {
	for text, want := range realAnswers {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, transaction, err := Decode(b)
		if err != nil || transaction != b[1] {
			t.Fatal(transaction, err)
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-12 {
				t.Errorf("%s is %g, want %g", Columns()[i], got[i], want[i])
			}
		}
		for n := range b {
			if _, _, err := Decode(b[:n]); !errors.Is(err, ErrShort) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	}
}

// TestLate: an answer that comes after the next request is not taken for that
// one's.
func TestLate(t *testing.T) {
	c, err := meterstest.ReadPolledCapture("testdata/real.frames")
	if err != nil {
		t.Fatal(err)
	}
	c.Exchanges[0].Answer[0].HostNs = 101e6 // the driver waits for 100 ms
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	port := &meterstest.Answering{Exchanges: c.Exchanges}
	port.Passed = func(int64) {
		if port.Spent() {
			cancel()
		}
	}
	m, err := Driver.Open(ctx, port, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var volts []float64
	if err := m.Stream(ctx, func(b meters.Block) error {
		volts = append(volts, b.Values[0][0])
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(volts, []float64{20, 19.99}) {
		t.Errorf("%v V", volts)
	}
}

func TestKinds(t *testing.T) {
	for text := range realAnswers {
		for at, wrong := range map[int]byte{0: 0x06, 4: 0x02, 5: 0x01, 6: 0x01, 7: 0x0c} {
			b, _ := hex.DecodeString(text)
			b[at] = wrong
			if _, _, err := Decode(b); !errors.Is(err, ErrKind) {
				t.Errorf("byte %d is %02x: %v", at, wrong, err)
			}
		}
	}
}

func TestOpen(t *testing.T) {
	for _, m := range Driver.Models {
		meter, err := Driver.Open(context.Background(), &meterstest.Answering{}, meters.Options{Model: m.Name, Serial: "7", Firmware: "1.9"})
		if err != nil {
			t.Fatal(err)
		}
		if i := meter.Info(); i.Model != m.Name || i.Serial != "7" || i.Firmware != "1.9" {
			t.Errorf("%+v", i)
		}
	}
	for _, bad := range []meters.Options{{Model: "KM001"}, {Settings: map[string]string{"rate": "0"}}, {Settings: map[string]string{"rate": "1e9"}}, {Settings: map[string]string{"rate": "NaN"}}} {
		if _, err := Driver.Open(context.Background(), &meterstest.Answering{}, bad); err == nil {
			t.Errorf("%+v was opened", bad)
		}
	}
	if !bytes.Equal(Request(7), []byte{0x0c, 7, 2, 0}) {
		t.Errorf("request %x", Request(7))
	}
}

func FuzzDecode(f *testing.F) {
	for text := range realAnswers {
		b, _ := hex.DecodeString(text)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, err := Decode(b)
		if err == nil && !(s[0] <= 60 && math.Abs(s[1]) <= 10) {
			t.Fatalf("%v", s)
		}
		for i, v := range s {
			if math.IsNaN(v) || math.Abs(v) > math.MaxInt32 {
				t.Fatalf("%s is %g", Columns()[i], v)
			}
		}
	})
}
