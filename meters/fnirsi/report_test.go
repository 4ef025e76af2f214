package fnirsi

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// steady holds four times 5 V, 1 A, 2.9 V, 0.1 V, 25 degrees.
const steady = "aa0420a10700a0860100540b640001fa0020a10700a0860100540b640001fa0020a10700a0860100540b640001fa0020a10700a0860100540b640001fa00009d"

func TestDecodeReport(t *testing.T) {
	zero := "aa04" + strings.Repeat("000000000000000000000000010000", 4) + "00"
	for _, c := range []struct {
		name, report string
		first, last  Sample
		kind         Kind
	}{
		{"steady", steady, Sample{5, 1, 2.9, 0.1, 25}, Sample{5, 1, 2.9, 0.1, 25}, SampleReport},
		// Rows of the log in the README of matthewgream/fnisri_logger.
		{"a real log's rows", "aa0435aa070090160000db0b4800011a0135aa0700a9160000dc0b4700011a0135aa070077160000dc0b4700011a0135aa070077160000dc0b4700011a01000e",
			Sample{5.02325, 0.05776, 3.035, 0.072, 28.2}, Sample{5.02325, 0.05751, 3.036, 0.071, 28.2}, SampleReport},
		{"zero", zero + "93", Sample{}, Sample{}, SampleReport},
		{"info", "aa03" + strings.Repeat("00", 61) + "7a", Sample{}, Sample{}, InfoReport},
		{"largest", "aa04" + strings.Repeat("ff", 61) + "53", Sample{42949.67295, 42949.67295, 65.535, 65.535, 6553.5},
			Sample{42949.67295, 42949.67295, 65.535, 65.535, 6553.5}, SampleReport},
	} {
		b := unhex(t, c.report)
		if c.name == "largest" {
			b[63] = slow(b[1:63])
		}
		s, kind, err := DecodeReport(b)
		if err != nil || kind != c.kind || s[0] != c.first || s[3] != c.last {
			t.Errorf("%s: %v, kind %02x, %v", c.name, s, kind, err)
		}
	}
	want := []string{"volts", "amps", "dp_volts", "dn_volts", "celsius"}
	if !slices.Equal(Columns(), want) {
		t.Errorf("columns are %v", Columns())
	}
}

// Every change of one byte, and every other length, is noticed.
func TestDecodeRefuses(t *testing.T) {
	good := unhex(t, steady)
	for i := range good {
		for x := 1; x < 256; x++ {
			b := slices.Clone(good)
			b[i] ^= byte(x)
			want := ErrCRC
			if i == 0 {
				want = ErrStart
			}
			if s, _, err := DecodeReport(b); err != want || s != ([ReportSamples]Sample{}) {
				t.Fatalf("byte %d ^ %02x: %v, %v", i, x, s, err)
			}
		}
		if _, _, err := DecodeReport(good[:i]); err != ErrLength {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
	if _, _, err := DecodeReport(append(good, 0)); err != ErrLength {
		t.Errorf("65 bytes: %v", err)
	}
}

func TestImpossible(t *testing.T) {
	for _, c := range []struct {
		s    Sample
		want bool
	}{{Sample{60, 10}, false}, {Sample{60.00001, 0}, true}, {Sample{0, 10.00001}, true}, {Sample{28, 7, 51.84, 0, 6553.5}, false}} {
		if got := c.s.impossible(); got != c.want {
			t.Errorf("%v: %v", c.s, got)
		}
	}
}

func TestCommands(t *testing.T) {
	for c, crc := range map[Command]byte{hello: 0x8e, start: 0x96, proceed: 0x9e} {
		want := make([]byte, ReportBytes)
		want[0], want[1], want[63] = 0xaa, byte(c), crc
		if got := c.report(); !bytes.Equal(got[:], want) {
			t.Errorf("command %02x is % x", byte(c), got)
		}
	}
}

// slow divides bit by bit.
func slow(data []byte) byte {
	c := byte(0x42)
	for _, x := range data {
		c ^= x
		for range 8 {
			carry := c >> 7
			c <<= 1
			if carry == 1 {
				c ^= 0x39
			}
		}
	}
	return c
}

func TestChecksum(t *testing.T) {
	if c := checksum([]byte("123456789")); c != 0x4b {
		t.Errorf("check value is %02x, want 4b", c)
	}
	if c := checksum(unhex(t, steady)[1:]); c != 0 {
		t.Errorf("over a report and its CRC it is %02x, want 0", c)
	}
}

func FuzzDecodeReport(f *testing.F) {
	f.Add(unhex(f, steady))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xaa}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, whole := range []bool{false, true} {
			if whole { // or nothing ever passes the CRC
				b = append(slices.Clone(b), make([]byte, ReportBytes)...)[:ReportBytes]
				b[0], b[1], b[63] = firstByte, byte(SampleReport), slow(append([]byte{4}, b[2:63]...))
			}
			s, kind, err := DecodeReport(b)
			if whole != (err == nil && kind == SampleReport) && whole {
				t.Fatalf("a good report of kind %02x: %v", kind, err)
			}
			for _, sample := range s {
				for i, v := range sample {
					if !(v >= 0 && v <= math.MaxUint32/1e5) {
						t.Fatalf("%s is %g", Columns()[i], v)
					}
				}
			}
		}
	})
}

// BenchmarkDecodeReport stands beside a plain copy of the same bytes.
func BenchmarkDecodeReport(b *testing.B) {
	report := unhex(b, steady)
	b.ReportAllocs()
	b.SetBytes(ReportBytes)
	for b.Loop() {
		if _, _, err := DecodeReport(report); err != nil {
			b.Fatal(err)
		}
	}
	perReport := float64(b.Elapsed()) / float64(b.N)
	const copies = 1 << 20
	to := make([]byte, ReportBytes)
	start := time.Now()
	for i := range copies {
		report[0] = byte(i) // so that no copy is left out
		copy(to, report)
	}
	b.ReportMetric(perReport/(float64(time.Since(start))/copies), "plain-copies")
}
