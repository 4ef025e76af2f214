package ppk2

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// The worked sample of measurement.rs in hdoordt/ppk2-rs.
func TestConvert(t *testing.T) {
	c := uncalibrated
	c.R[0], c.O[0], c.GS[0], c.GI[0], c.S[0], c.I[0], c.UG[0] = 1003.3506, 112.942, 0, 1, 4.8e-8, -1.04e-7, 1
	got := c.converter(3.741).amps(108, 0)
	if want := 0.021454878e-6; math.Abs(got-want) > 1e-14 {
		t.Errorf("%g A, want %g A", got, want)
	}
}

const text = "Calibrated: 1\nR0: 1003.3506\nR1: 101.5865\nR2: 10.3027\nR3: 0.9636\nR4: 0.0564\nGS0: 0.0000\nGS1: 112.7890\n" +
	"GS2: 18.0115\nGS3: 2.4217\nGS4: 0.0729\nGI0: 1.0000\nGI1: 0.9695\nGI2: 0.9609\nGI3: 0.9519\nGI4: 0.9582\nO0: 112.9420\nO1: 75.4627\n" +
	"O2: 64.6020\nO3: 50.4983\nO4: 87.2177\nVDD: 3741\nHW: 9173\nmode: 2\nS0: 0.000000048\nS1: 0.000000596\nS2: 0.000005281\n" +
	"S3: 0.000062577\nS4: 0.002940743\nI0: -0.000000104\nI1: -0.000001443\nI2: 0.000036439\nI3: -0.000374119\nI4: -0.009388455\n" +
	"UG0: 1.00\nUG1: 1.00\nUG2: 1.00\nUG3: 1.00\nUG4: 1.00\nIA: 56\nEND\n"

func TestParseCalibration(t *testing.T) {
	good, ok := ParseCalibration([]byte(text))
	if !ok || len(good.Missing) > 0 || good.Mode != sourceMode || good.R[4] != 0.0564 || good.GS[0] != 0 || good.I[0] != -1.04e-7 || good.UG[3] != 1 {
		t.Fatalf("%+v, %v", good, ok)
	}
	for _, c := range []struct {
		name, text string
		complete   bool
		missing    string
	}{
		{"crlf", strings.ReplaceAll(text, "\n", "\r\n"), true, ""},
		{"left-overs before it", "\xff\x00: R0\n\xfeEND\nGS: \x80\x81" + text, true, ""},
		{"no end of line", strings.TrimSuffix(text, "\n"), true, ""},
		{"not a number", strings.ReplaceAll(text, "0.000005281", "-nan"), true, "S2"},
		{"infinite", strings.ReplaceAll(text, "10.3027", "inf"), true, "R2"},
		{"no shunt", strings.ReplaceAll(text, "R1: 101.5865", "R1: 0"), true, "R1"},
		{"huge", strings.ReplaceAll(text, "O3: 50.4983", "O3: 1e300"), true, "O3"},
		{"a line is missing", strings.ReplaceAll(text, "UG4: 1.00\n", ""), true, "UG4"},
		{"no END", strings.ReplaceAll(text, "END\n", ""), false, ""},
		{"nothing but END", "END\n", false, ""},
		{"nothing", "", false, ""},
	} {
		got, ok := ParseCalibration([]byte(c.text))
		if ok != c.complete || strings.Join(got.Missing, " ") != c.missing {
			t.Errorf("%s: complete %v, missing %v", c.name, ok, got.Missing)
		}
		if ok && c.missing == "" && fmt.Sprint(got) != fmt.Sprint(good) {
			t.Errorf("%s: %+v, want %+v", c.name, got, good)
		}
	}
	if got, _ := ParseCalibration([]byte(strings.ReplaceAll(text, "R1: 101.5865", "R1: 0"))); got.R[1] != 101.65 {
		t.Errorf("a missing shunt is %g ohm", got.R[1])
	}
}

// Samples after a change of range are replaced; worked by hand from the rule.
func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name  string
		on    bool
		in    []float64
		k     []int
		want  []float64
		after float64 // the mean
	}{
		{"off", false, []float64{1, 5, 9}, []int{0, 1, 1}, []float64{1, 5, 9}, 0},
		{"no change", true, []float64{1, 2}, []int{2, 2}, []float64{1, 2}, 1.18},
		{"up", true, []float64{1, 2, 2, 2, 2}, []int{0, 1, 1, 1, 1}, []float64{1, 1.18, 1.3276, 1.448632, 2}, 1.54787824},
		// The first two samples of the least sensitive range leave the means alone.
		{"to the last", true, []float64{1, 2, 2, 2, 2}, []int{3, 4, 4, 4, 4}, []float64{1, 1, 1, 1.06, 2}, 1.3276},
	} {
		s := spikes{on: c.on}
		for i := range c.in {
			if got := s.filter(c.in[i], c.k[i]); math.Abs(got-c.want[i]) > 1e-12 {
				t.Errorf("%s: sample %d is %g, want %g", c.name, i, got, c.want[i])
			}
		}
		if math.Abs(s.mean-c.after) > 1e-12 {
			t.Errorf("%s: the mean is %g, want %g", c.name, s.mean, c.after)
		}
	}
}

// words makes a stream in range 2 whose values count up.
func words(from, n int) []byte {
	var b []byte
	for i := from; i < from+n; i++ {
		b = binary.LittleEndian.AppendUint32(b, uint32(i%1000)|2<<rangeAt|uint32(i%turn)<<counterAt|uint32(i%256)<<inputsAt)
	}
	return b
}

func newDecoder() *decoder {
	return &decoder{convert: uncalibrated.converter(3), volts: 3, spikes: spikes{on: true}}
}

// script decodes b and writes the inputs of the samples, runs of them as
// FROM-TO, and unknown ones as ?NUMBER.
func script(b []byte) string {
	d := newDecoder()
	d.take(b)
	var did []string
	for i := 0; i < d.rows; {
		n := 0
		if math.IsNaN(d.columns[1][i]) {
			for ; i+n < d.rows && math.IsNaN(d.columns[1][i+n]); n++ {
			}
			did = append(did, fmt.Sprintf("?%d", n))
		} else {
			first := d.inputs(i)
			for n = 1; i+n < d.rows && d.inputs(i+n) == first+n; n++ {
			}
			did = append(did, fmt.Sprintf("%d-%d", first, first+n-1))
		}
		i += n
	}
	return strings.Join(did, " ")
}

func (d *decoder) inputs(row int) (b int) {
	for i := range inputs {
		b |= int(d.columns[2+i][row]) << i
	}
	return b
}

func TestDecode(t *testing.T) {
	cat := slices.Concat[[]byte]
	junk := []byte{0xff, 0, 0xff, 0, 0xff, 0, 0xff}
	bad := func(at int) []byte {
		b := words(0, 100)
		b[at] ^= 0x40
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"good", words(0, 100), "0-98"}, // nothing proves the last one
		{"from the middle of a word", words(0, 100)[3:], "1-98"},
		{"after junk", cat(junk, words(0, 100)), "0-98"},
		{"too few to be sure", words(0, 7), ""},
		{"samples lost", cat(words(0, 50), words(53, 47)), "0-49 ?3 53-98"},
		{"most of a turn lost", cat(words(0, 50), words(113, 47)), "0-49 ?63 113-158"},
		{"a whole turn leaves no trace", cat(words(0, 50), words(114, 47)), "0-49 114-159"},
		{"a byte of a value lost", cat(words(0, 50)[:4*49], words(49, 50)[1:]), "0-47 ?2 50-97"},
		{"the byte of the inputs lost", cat(words(0, 50)[:4*50-1], words(50, 50)), "0-48 ?2 51-98"},
		{"a byte of a counter wrong", bad(4*50 + 2), "0-49 ?1 51-98"},
		{"junk within", cat(words(0, 50), junk, words(50, 50)), "0-48 ?1 50-98"},
		{"100 words wrong", cat(words(0, 50), make([]byte, 400), words(150, 50)), "0-49 ?100 150-198"},
	} {
		if got := script(c.b); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// After a second of bytes that are no words, the stream begins anew: nothing
// could be counted across.
func TestDecodeGivesUp(t *testing.T) {
	b := slices.Concat(words(0, 50), make([]byte, 2*mostSkipped), words(200, 50))
	if got := script(b); got != "0-48 200-248" {
		t.Errorf("got %s", got)
	}
}

// FuzzDecode: pieces change nothing, nothing is infinite, and what is decoded
// is bounded by what came.
func FuzzDecode(f *testing.F) {
	f.Add(words(0, 40), 7)
	f.Add(slices.Concat(words(0, 20), words(23, 20)), 1)
	f.Add(slices.Concat(words(0, 20), []byte{1, 2, 3}, words(20, 20)), 64)
	f.Add(words(0, 40)[1:], 3)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if size < 1 {
			size = 1
		}
		whole, pieces := newDecoder(), newDecoder()
		whole.take(b)
		for from := 0; from < len(b); from += size {
			pieces.take(b[from:min(from+size, len(b))])
			if size > len(b) {
				break
			}
		}
		if whole.rows != pieces.rows || whole.rows > len(b)/wordBytes+turn*(len(b)/(sureWords*wordBytes)+1) {
			t.Fatalf("%d samples of %d bytes, %d in pieces", whole.rows, len(b), pieces.rows)
		}
		for i := range whole.columns {
			for k := range whole.rows {
				x, y := whole.columns[i][k], pieces.columns[i][k]
				if x != y && !(math.IsNaN(x) && math.IsNaN(y)) || math.IsInf(x, 0) || math.Abs(x) > math.MaxFloat32 {
					t.Fatalf("column %d, sample %d: %g and %g", i, k, x, y)
				}
			}
		}
	})
}

// FuzzParseCalibration: whatever the text says, currents are finite.
func FuzzParseCalibration(f *testing.F) {
	f.Add([]byte(text))
	f.Add([]byte("R0: -nan\nEND"))
	f.Add([]byte("\xff\xfeR0: 1e-3\nUG0: 1e3\nGS0: 1e6\nEND\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := ParseCalibration(b)
		if !ok {
			return
		}
		convert := c.converter(mostVolts)
		for k := range ranges {
			for _, counts := range []float64{0, valueMask * countsPerBit} {
				if a := convert.amps(counts, k); !(math.Abs(a) < math.MaxFloat32) {
					t.Fatalf("%g counts in range %d are %g A", counts, k, a)
				}
			}
		}
	})
}

// BenchmarkDecode stands beside a plain copy of the same bytes, and beside real
// time: 100,000 samples a second.
func BenchmarkDecode(b *testing.B) {
	stream := words(0, turn*125) // 8000 samples, a whole number of turns
	d := newDecoder()
	d.take(stream)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		d.rows = 0
		d.take(stream)
	}
	perStream := b.Elapsed().Seconds() / float64(b.N)
	const copies = 1 << 14
	to := make([]byte, len(stream))
	start := time.Now()
	for i := range copies {
		stream[0] = byte(i) // so that no copy is left out
		copy(to, stream)
	}
	b.ReportMetric(perStream/(time.Since(start).Seconds()/copies), "plain-copies")
	b.ReportMetric(float64(len(stream)/wordBytes)/rateHz/perStream, "x-real-time")
}
