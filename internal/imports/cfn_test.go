package imports

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// cfnText makes a cfn file: channels by type, every other one with a range,
// and points of a time and a value for each channel.
func cfnText(channels []uint16, points [][]float64) string {
	var b bytes.Buffer
	le := func(values ...any) {
		for _, v := range values {
			binary.Write(&b, binary.LittleEndian, v)
		}
	}
	le(10.0, int32(0), int32(0), int32(0), int16(len(channels)))
	for i, c := range channels {
		le(c, uint32(0xdeadbeef), uint8(i%2))
		if i%2 == 1 {
			le(9.0, 0.0)
		}
	}
	le(int32(len(points)))
	for _, p := range points {
		le(p)
	}
	return b.String()
}

// edit overwrites bytes of a text.
func edit(text string, at int, with ...byte) string {
	b := []byte(text)
	copy(b[at:], with)
	return string(b)
}

var cfnChannels = []uint16{5, 0, 4, 1, 2} // Ah, V, W, A, D+

var cfnPoints = [][]float64{
	{2.5, 0, 5.01, 0.5, 0.1, 2.7}, {2.6, 0, 5.02, 0.5, 0.11, 2.7}, {2.75, 0, 5.03, 0.5, math.NaN(), 2.7}, {2.75, 0, 5.04, 0.5, 0.13, 2.7},
}

func TestCFN(t *testing.T) {
	whole := cfnText(cfnChannels, cfnPoints)
	marks := "2.55 @jm note text=x\n2.7 hello\n"
	got, err := importFiles(t, Options{Samples: "REC01.CFN", Marks: "m"}, map[string]string{"REC01.CFN": whole, "m": marks})
	if err != nil {
		t.Fatal(err)
	}
	i := got.info
	if i.Driver != "cfn" || i.RateHz != 0 || i.Clock != meters.Shared || i.FirstHostNs != 2_500_000_000 ||
		strings.Join(i.Columns, " ") != "volts amps dp_volts" || got.summary.Format != "cfn" {
		t.Errorf("%+v", i)
	}
	if got := fmt.Sprint(got.columns, got.timesNs); got != "map[amps:[0.1 0.11 NaN 0.13] dp_volts:[2.7 2.7 2.7 2.7] volts:[5.01 5.02 5.03 5.04]] [0 100000000 250000000 250000000]" {
		t.Error(got)
	}
	if codes(got.notes) != "missing-values" || got.summary.Seconds != 0.25 || got.summary.Samples != 4 || len(got.lines) != 2 {
		t.Errorf("notes %s, %+v", codes(got.notes), got.summary)
	}
}

func TestCFNIsRecognised(t *testing.T) {
	whole := cfnText(cfnChannels, cfnPoints)
	for _, c := range []struct {
		name, file, text string
		rows             int
		notes            string
	}{
		{"by its size", "recording", whole, 4, "missing-values"},
		{"power only", "p", cfnText([]uint16{4}, [][]float64{{0, 1.5}, {1, 1.6}}), 2, ""},
		{"power, and D+ not always", "p", cfnText([]uint16{4, 2}, [][]float64{{0, 1.5, math.NaN()}, {1, 1.6, 0}}), 2, ""},
		{"cut off", "a.cfn", whole[:len(whole)-1], 3, "missing-values torn-file!"},
		{"with a tail", "a.cfn", whole + "tail", 4, "missing-values"},
	} {
		got, err := importText(t, Options{}, c.file, c.text)
		if err != nil || got.summary.Format != "cfn" || got.summary.Samples != int64(c.rows) || codes(got.notes) != c.notes {
			t.Errorf("%s: %+v, notes %s, %v", c.name, got.summary, codes(got.notes), err)
		}
	}
}

func TestCFNErrors(t *testing.T) {
	whole := cfnText(cfnChannels, cfnPoints)
	points := len(whole) - len(cfnPoints)*48
	count := points - 4
	for _, c := range []struct{ name, text, want string }{
		{"short", whole[:30], "f: is no cfn recording: the file ends within its head"},
		{"no count", whole[:count], "f: is no cfn recording: the file ends within its head"},
		{"no points", edit(whole, count, 0, 0, 0, 0), "f: is no cfn recording: 0 points"},
		{"negative count", edit(whole, count, 0xff, 0xff, 0xff, 0xff), "f: is no cfn recording: -1 points"},
		{"count beyond the file", edit(whole[:points], count, 0xff, 0xff, 0xff, 0x7f), "f: states 2147483647 points and holds none"},
		{"rate", edit(whole, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f), "f: is no cfn recording: a sample rate of NaN Hz"},
		{"no channels", edit(whole, 20, 0, 0), "f: is no cfn recording: 0 channels, want 1 to 7"},
		{"too many channels", edit(whole, 20, 0xff, 0x7f), "f: is no cfn recording: 32767 channels, want 1 to 7"},
		{"unknown channel", edit(whole, 22, 7), "f: is no cfn recording: a channel of type 7 with a range flag of 0"},
		{"unknown flag", edit(whole, 28, 2), "f: is no cfn recording: a channel of type 5 with a range flag of 2"},
		{"twice", cfnText([]uint16{0, 1, 0}, [][]float64{{0, 5, 1, 5}}), "f: is no cfn recording: two channels of volts"},
		{"no power", cfnText([]uint16{0, 6}, [][]float64{{0, 5, 1}}), "f: its channels (volts, watt-hours) are neither volts and amps nor watts"},
		{"time not finite", cfnText([]uint16{4}, [][]float64{{math.Inf(1), 1}}), "f: point 1 has a time of +Inf s"},
		{"time huge", cfnText([]uint16{4}, [][]float64{{1e10, 1}}), "f: point 1 has a time of 1e+10 s"},
		{"time backwards", cfnText([]uint16{4}, [][]float64{{0, 1}, {2, 1}, {1, 1}}), "f: time runs backwards at point 3: 1 s after 2 s"},
		{"infinite", cfnText([]uint16{4}, [][]float64{{0, 1}, {1, math.Inf(-1)}}), "f: point 2 has -Inf for watts: the file is damaged, or no cfn recording"},
		{"nothing measured", cfnText([]uint16{4}, [][]float64{{0, math.NaN()}, {1, math.NaN()}}), "f: no point has a value"},
	} {
		if _, err := importText(t, Options{From: "cfn"}, "f", c.text); err == nil || err.Error() != "import "+c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := importText(t, Options{From: "cfn", RateHz: 10}, "f", whole); err == nil || !strings.Contains(err.Error(), "leave --rate out") {
		t.Errorf("a rate: %v", err)
	}
}

// Cut anywhere, a recording is refused or says that it is cut.
func TestCFNCut(t *testing.T) {
	whole := cfnText(cfnChannels, cfnPoints)
	points := len(whole) - len(cfnPoints)*48
	for n := 1; n < len(whole); n += 5 {
		got, err := importText(t, Options{From: "cfn"}, "f", whole[:n])
		if want := (n - points) / 48; n < points+48 {
			if err == nil {
				t.Errorf("cut at %d: %d samples", n, got.summary.Samples)
			}
		} else if err != nil || got.summary.Samples != int64(want) || !strings.Contains(codes(got.notes), "torn-file!") {
			t.Errorf("cut at %d: %d samples, notes %s, %v", n, got.summary.Samples, codes(got.notes), err)
		}
	}
}

func FuzzCFN(f *testing.F) {
	f.Add([]byte(cfnText(cfnChannels, cfnPoints)))
	f.Add([]byte(cfnText([]uint16{4}, [][]float64{{0, 1}, {1, math.NaN()}})))
	f.Add([]byte(cfnText([]uint16{4}, [][]float64{{0, 1}})[:33]))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{Samples: "f", From: "cfn"}, map[string][]byte{"f": b})
	})
}
