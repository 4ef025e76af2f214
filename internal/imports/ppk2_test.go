package imports

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const ppk2Header = "Timestamp(ms),Current(uA),D0-D7\n"

// TestPPK2Variants: the same samples in every form that the application has
// written them in.
func TestPPK2Variants(t *testing.T) {
	const want = "volts [3.3 3.3 3.3] amps [0.001 0.002 -1e-06] d0 [1 0 NaN] d7 [0 0 1] rate 100000"
	for _, c := range []struct {
		name, text string
		rateHz     float64
		notes      string
	}{
		{"string", ppk2Header + "0,1000.000,10000000\n0.01,2000.000,00000000\n0.02,-1.000,X0000001\n", 0, "stated-volts! unclear-pins"},
		{"old string", "Timestamp(ms),Current(uA),Bits\n0,1000.000,00000001\n0.01,2000.000,00000000\n0.02,-1.000,1000000-\n", 0, "stated-volts! unclear-pins"},
		{"columns", "Timestamp(ms),Current(uA),D0,D1,D2,D3,D4,D5,D6,D7\n0,1000,1,0,0,0,0,0,0,0\n0.01,2000,0,0,0,0,0,0,0,0\n0.02,-1,X,0,0,0,0,0,0,1\n", 0, "stated-volts! unclear-pins"},
		{"both", "Timestamp(ms),Current(uA),D0-D7,D0,D1,D2,D3,D4,D5,D6,D7\n0,1000,10000000,1,0,0,0,0,0,0,0\n0.01,2000,00000000,0,0,0,0,0,0,0,0\n0.02,-1,-0000001,-,0,0,0,0,0,0,1\n", 0, "stated-volts! unclear-pins"},
		{"no time", "Current(uA),D0-D7\n1000.000,10000000\n2000.000,00000000\n-1.000,X0000001\n", 100_000, "stated-volts! unclear-pins"},
		{"BOM, CRLF, blank first line", "\ufeff\r\n" + strings.ReplaceAll(ppk2Header+"0,1000.000,10000000\n0.01,2000.000,00000000\n0.02,-1.000,X0000001\n", "\n", "\r\n"), 0, "stated-volts! unclear-pins"},
		{"decimal comma", "Timestamp(ms);Current(uA);D0-D7\n0;1000,000;10000000\n0,01;2000,000;00000000\n0,02;-1,000;X0000001\n", 0, "stated-volts! unclear-pins"},
		{"padded, quoted, commented", ppk2Header + "# c\n 0 , 1.0e3 ,10000000\n\"0.01\",+2000,00000000\n\n0.02,-1.000,X0000001\n", 0, "stated-volts! unclear-pins"},
		{"late start", ppk2Header + "5120.33,1000.000,10000000\n5120.34,2000.000,00000000\n5120.35,-1.000,X0000001\n", 0, "stated-volts! unclear-pins"},
	} {
		got, err := importText(t, Options{Volts: 3.3, RateHz: c.rateHz}, "f", c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.summary.Format != "ppk2" || show(got, "volts", "amps", "d0", "d7") != want || codes(got.notes) != c.notes {
			t.Errorf("%s: %s: %s, notes %s\nwant %s", c.name, got.summary.Format, show(got, "volts", "amps", "d0", "d7"), codes(got.notes), want)
		}
	}
}

// show prints columns of an imported run to six digits.
func show(got imported, columns ...string) string {
	var b strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&b, "%s %.6g ", c, got.columns[c])
	}
	fmt.Fprintf(&b, "rate %.6g", got.info.RateHz)
	return b.String()
}

// Rows that are not there leave a hole of their number, whatever the period.
func TestPPK2LostRows(t *testing.T) {
	for _, c := range []struct {
		name, text, want, notes string
	}{
		{"two lost", ppk2Header + "0,1,00000000\n0.01,2,00000000\n0.04,5,10000000\n", "amps [1e-06 2e-06 NaN NaN 5e-06] d0 [0 0 NaN NaN 1] rate 100000", "stated-volts! missing-rows!"},
		{"a thousandth", "Timestamp(ms),Current(uA)\n0,1\n1,2\n3,4\n", "amps [1e-06 2e-06 NaN 4e-06] d0 [] rate 1000", "stated-volts! missing-rows!"},
		{"no value", "Timestamp(ms),Current(uA)\n0,1\n1,NaN\n2,3\n", "amps [1e-06 NaN 3e-06] d0 [] rate 1000", "stated-volts! missing-values!"},
		{"misaligned stream", "Timestamp(ms),Current(uA)\n0,1\n1,930000000000\n2,3\n", "amps [1e-06 NaN 3e-06] d0 [] rate 1000", "stated-volts! impossible!"},
		{"torn", ppk2Header + "0,1,00000000\n0.01,2,00000000\n0.02,3,000", "amps [1e-06 2e-06] d0 [0 0] rate 100000", "torn-line stated-volts!"},
		{"current alone", "Timestamp(ms),Current(uA)\n0,1\n0.01,2\n", "amps [1e-06 2e-06] d0 [] rate 100000", "stated-volts!"},
	} {
		got, err := importText(t, Options{Volts: 3.3}, "f", c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if show(got, "amps", "d0") != c.want || codes(got.notes) != c.notes {
			t.Errorf("%s: %s, notes %s\nwant %s, %s", c.name, show(got, "amps", "d0"), codes(got.notes), c.want, c.notes)
		}
	}
}

func TestPPK2Errors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown column", "Timestamp(ms),Current(uA),Voltage(mV)\n0,1,2\n", `f:1:27: column "Voltage(mV)" is not known in a PPK2 export, or is there twice (want Timestamp(ms), Current(uA), D0-D7 or Bits, D0 to D7); try --from csv`},
		{"a pin too many", "Timestamp(ms),Current(uA),D8\n0,1,0\n", `f:1:27: column "D8" is not known in a PPK2 export, or is there twice (want Timestamp(ms), Current(uA), D0-D7 or Bits, D0 to D7); try --from csv`},
		{"twice", "Timestamp(ms),Current(uA),D1,D1\n0,1,0,0\n", `f:1:30: column "D1" is not known in a PPK2 export, or is there twice (want Timestamp(ms), Current(uA), D0-D7 or Bits, D0 to D7); try --from csv`},
		{"no time", "Current(uA),D0-D7\n1,00000000\n", `f: the export has no column Timestamp(ms); state the rate at which it was recorded with --rate (the application's own is 100000)`},
		{"one row", ppk2Header + "0,1,00000000\n", `f: fewer than two samples with different times`},
		{"not a number", ppk2Header + "0,1,00000000\n0.01,one,00000000\n", `f:3:6: "one" is not a number`},
		{"level", ppk2Header + "0,1,00000000\n0.01,2,0000000Y\n", `f:3:8: "0000000Y" is no level of a pin (0, 1, - or X)`},
		{"seven pins", ppk2Header + "0,1,00000000\n0.01,2,0000000\n0.02,3,00000000\n", `f:3:8: "0000000" is not one character for each of 8 pins`},
		{"level of one pin", "Timestamp(ms),Current(uA),D1\n0,1,0\n0.01,2,2\n", `f:3:8: "2" is no level of a pin (0, 1, - or X)`},
		{"levels of one pin", "Timestamp(ms),Current(uA),D1\n0,1,0\n0.01,2,01\n", `f:3:8: "01" is no level of a pin (0, 1, - or X)`},
		{"short row", ppk2Header + "0,1,00000000\n0.01,2\n0.02,3,00000000\n", `f:3: 2 fields, but the header names 3`},
		{"decimal comma", ppk2Header + "0,1,00000000\n0,01,2,00000000\n", `f:3:8: 4 fields, but the header names 3`},
		{"NUL", ppk2Header + "0,1,00000000\n0.01,\x002,00000000\n", `f: binary data (a NUL at byte 51), not text`},
		{"backwards", ppk2Header + "0,1,00000000\n0.01,2,00000000\n0,1,00000000\n", `f:4: time runs backwards or stands still: 0 s after 0.00001 s; split the file here if these are two recordings`},
		{"stands still", ppk2Header + "0,1,00000000\n0.01,2,00000000\n0.01,1,00000000\n", `f:4: time runs backwards or stands still: 0.00001 s after 0.00001 s; split the file here if these are two recordings`},
		{"off the grid", ppk2Header + "0,1,00000000\n0.01,2,00000000\n0.025,1,00000000\n", `f:4: time 0.000025 s is no multiple of the sample period of 0.00001 s after the first row's; try --from csv`},
		{"all missing", ppk2Header + "0,1,00000000\n0.01,2,00000000\n99000,1,00000000\n", `f: by the times 9899998 of 9900000 samples are missing: this is no whole recording; split it at its gaps, or import it with --from csv`},
		{"no value", "Timestamp(ms),Current(uA)\n0,NaN\n1,\n", `f: no sample has a value`},
		{"slow", "Timestamp(ms),Current(uA)\n0,1\n2000,1\n", `f: a sample period of 2 s is none of a PPK2; try --from csv`},
	} {
		_, err := importText(t, Options{Volts: 3.3, From: "ppk2"}, "f", c.text)
		if err == nil || err.Error() != "import "+c.want {
			t.Errorf("%s: got  %v\nwant import %s", c.name, err, c.want)
		}
	}
	_, err := importText(t, Options{}, "f", ppk2Header+"0,1,00000000\n")
	if want := "import f: a PPK2 records current only; state the voltage of the target's supply with --volts, such as --volts 3.3V"; err == nil || err.Error() != want {
		t.Errorf("no voltage: %v", err)
	}
}

// TestPPK2ScanAgrees: the fast reader and the careful one give the same bits.
func TestPPK2ScanAgrees(t *testing.T) {
	plain := ppk2Header + "0,0.001,00000000\n0.01,123456.789,00000001\n0.02,-17.5,11111111\n0.03,999999999.999,00000000\n0.04,.5,00000000\n"
	quoted := strings.NewReplacer("\n0", "\n\"0\"", "Timestamp", "Timestamp").Replace(plain)
	quoted = strings.ReplaceAll(quoted, "\"0\".0", "\"0.0")
	quoted = strings.NewReplacer("\"0.01", "\"0.01\"", "\"0.02", "\"0.02\"", "\"0.03", "\"0.03\"", "\"0.04", "\"0.04\"").Replace(quoted)
	a, errA := importText(t, Options{Volts: 3.3}, "f", plain)
	b, errB := importText(t, Options{Volts: 3.3}, "f", quoted)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if fmt.Sprint(a.columns) != fmt.Sprint(b.columns) || a.columns["amps"][1] != float64(float32(0.123456789)) {
		t.Errorf("%v\n%v", a.columns, b.columns)
	}
}

// TestPPK2Times: whatever the digits of the times, each row lands in its place.
func TestPPK2Times(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		first, decimals := rnd.Int64N(1e9)>>rnd.IntN(30), rnd.IntN(4)
		var b strings.Builder
		b.WriteString("Timestamp(ms),Current(uA)\n")
		place, places := first, []int64{}
		for i := range 300 {
			text := strconv.FormatFloat(float64(place)/100, 'f', -1, 64)
			if decimals > 1 {
				text = strconv.FormatFloat(float64(place)/100, 'f', decimals, 64)
			}
			fmt.Fprintf(&b, "%s,%d\n", text, i+1)
			places = append(places, place-first)
			place++
			if i > 2 && rnd.IntN(20) == 0 {
				place += rnd.Int64N(15)
			}
		}
		got, err := importText(t, Options{Volts: 3.3}, "f", b.String())
		if err != nil {
			t.Fatal(err)
		}
		amps := got.columns["amps"]
		for i, p := range places {
			if amps[p] != float64(float32(float64(i+1)/1e6)) {
				t.Fatalf("first %d, %d decimals: row %d is not at %d", first, decimals, i, p)
			}
		}
		if int64(len(amps)) != places[len(places)-1]+1 {
			t.Fatalf("%d samples, want %d", len(amps), places[len(places)-1]+1)
		}
	}
}

// session makes a .ppk2 file of samples, each of a current in µA and the two
// bits of each pin.
func session(metadata string, samples ...any) []byte {
	var raw bytes.Buffer
	for i := 0; i < len(samples); i += 2 {
		binary.Write(&raw, binary.LittleEndian, float32(samples[i].(float64)))
		binary.Write(&raw, binary.BigEndian, uint16(samples[i+1].(int)))
	}
	return zipOf(map[string][]byte{sessionFile: raw.Bytes(), metadataFile: []byte(metadata)})
}

func zipOf(files map[string][]byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{sessionFile, metadataFile, "minimap.raw"} {
		if text, ok := files[name]; ok {
			w, _ := z.Create(name)
			w.Write(text)
		}
	}
	z.Close()
	return b.Bytes()
}

// claiming makes a .ppk2 file whose session of so many bytes claims another
// size.
func claiming(bytesThere int, claimed uint64) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, _ := z.Create(metadataFile)
	w.Write([]byte(sessionMetadata))
	w, _ = z.CreateRaw(&zip.FileHeader{Name: sessionFile, CompressedSize64: uint64(bytesThere), UncompressedSize64: claimed})
	w.Write(make([]byte, bytesThere))
	z.Close()
	return b.Bytes()
}

const sessionMetadata = `{"metadata":{"samplesPerSecond":100000,"startSystemTime":1700000000250.5},"formatVersion":2}`

var sessionSamples = []any{1000.0, 0x5555, 2000.0, 0x5556, math.NaN(), 0, -1.0, 0x9557, 930e9, 0x5555}

func TestPPK2Session(t *testing.T) {
	got, err := importText(t, Options{Volts: 1.8}, "trace.ppk2", string(session(sessionMetadata, sessionSamples...)))
	if err != nil {
		t.Fatal(err)
	}
	want := "volts [1.8 1.8 1.8 1.8 1.8] amps [0.001 0.002 NaN -1e-06 NaN] d0 [0 1 NaN NaN 0] d7 [0 0 NaN 1 0] rate 100000"
	if show(got, "volts", "amps", "d0", "d7") != want || codes(got.notes) != "stated-volts! missing-values! impossible! unclear-pins" {
		t.Errorf("%s\nwant %s, notes %s", show(got, "volts", "amps", "d0", "d7"), want, codes(got.notes))
	}
	if got.header.Started != "2023-11-14T22:13:20Z" || got.info.FirstHostNs != 250_500_000 {
		t.Errorf("started %s, first sample at %d ns", got.header.Started, got.info.FirstHostNs)
	}
}

func TestPPK2SessionErrors(t *testing.T) {
	good := session(sessionMetadata, sessionSamples...)
	deep := strings.Repeat("x", maxMetadata)
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"not a zip", "f: is no .ppk2 file: zip: not a valid zip file", []byte(zipMagic + "rest")},
		{"cut", "f: is no .ppk2 file: zip: not a valid zip file", good[:len(good)-30]},
		{"no session", "f: is no .ppk2 file: it lacks session.raw or metadata.json", zipOf(map[string][]byte{metadataFile: []byte(sessionMetadata)})},
		{"no samples", "f: session.raw holds no samples", session(sessionMetadata)},
		{"no JSON", "f: metadata.json: invalid character 'h' looking for beginning of value", session("hello", 1.0, 0x5555)},
		{"large metadata", "f: metadata.json: is larger than 1048576 bytes", session(`{"x":"`+deep+`"}`, 1.0, 0x5555)},
		{"no rate", "f: metadata.json: 0 samples a second, a PPK2 gives at most 100000", session("{}", 1.0, 0x5555)},
		{"rate", "f: metadata.json: 1e+09 samples a second, a PPK2 gives at most 100000", session(`{"metadata":{"samplesPerSecond":1e9}}`, 1.0, 0x5555)},
		{"bomb", "f: session.raw claims 600000000 bytes, packed into 600: this is no recording", claiming(600, 600_000_000)},
		{"endless", "f: session.raw claims 2000000000000 bytes, packed into 600: this is no recording", claiming(600, 2_000_000_000_000)},
		{"larger than it says", "f: session.raw: zip: not a valid zip file", claiming(600, 12)},
		{"nothing measured", "f: no sample has a value", session(sessionMetadata, math.NaN(), 0)},
	} {
		_, err := importText(t, Options{Volts: 3.3, From: "ppk2"}, "f", string(c.file))
		if err == nil || err.Error() != "import "+c.want {
			t.Errorf("%s: got  %v\nwant import %s", c.name, err, c.want)
		}
	}
}

// A session whose bytes are damaged says so, or is refused.
func TestPPK2SessionDamaged(t *testing.T) {
	var raw bytes.Buffer
	for range 100 {
		raw.Write([]byte{0, 0, 0x80, 0x3f, 0x55, 0x55})
	}
	raw.WriteByte(0)
	got, err := importText(t, Options{Volts: 3.3}, "f", string(zipOf(map[string][]byte{sessionFile: raw.Bytes(), metadataFile: []byte(sessionMetadata)})))
	if err != nil || got.summary.Samples != 100 || codes(got.notes) != "stated-volts! torn-file!" {
		t.Errorf("torn: %+v, %v", got.summary, err)
	}
}

func FuzzPPK2(f *testing.F) {
	f.Add([]byte(ppk2Header + "0,1000.000,10000000\n0.01,2000.000,00000000\n0.04,-1.000,X0000001\n"))
	f.Add([]byte("Timestamp(ms);Current(uA);Bits\n0;1000,000;10000000\n0,01;2e3;00000000\n"))
	f.Add([]byte("Timestamp(ms),Current(uA),D3\n0,1,1\n\n# c\n1,,X\n3,4,-"))
	f.Add(session(sessionMetadata, sessionSamples...))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{Samples: "f", From: "ppk2", Volts: 3.3}, map[string][]byte{"f": b})
	})
}

// writePPK2 writes an export of about so many bytes.
func writePPK2(tb testing.TB, size int) string {
	var b bytes.Buffer
	b.WriteString(ppk2Header)
	levels := "00000000"
	for i := 0; b.Len() < size; i++ {
		if i%20000 == 0 {
			levels = []string{"10000000", "00000000"}[i/20000%2]
		}
		fmt.Fprintf(&b, "%g,%.3f,%s\n", float64(i)/100, 12000+float64(i*7919%1000000)/1000, levels)
	}
	path := filepath.Join(tb.TempDir(), "ppk2.csv")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		tb.Fatal(err)
	}
	return path
}

// TestPPK2FlatMemory: an import holds no more of a large export than of a small
// one.
func TestPPK2FlatMemory(t *testing.T) {
	path := writePPK2(t, 16<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Import(context.Background(), Options{Samples: path, Volts: 3.3, Out: filepath.Join(t.TempDir(), "out")}, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 48<<20 {
		t.Errorf("%d bytes allocated for a file of 16 MiB", allocated)
	}
}

// BenchmarkImportPPK2 stands beside encoding/csv and strconv over the same
// bytes: the whole import, with the run that it writes.
func BenchmarkImportPPK2(b *testing.B) {
	path := writePPK2(b, *ppk2Bytes)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	whole, plain := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for b.Loop() {
		out := filepath.Join(b.TempDir(), "out")
		start := time.Now()
		if _, err := Import(context.Background(), Options{Samples: path, Volts: 3.3, Out: out}, nil); err != nil {
			b.Fatal(err)
		}
		whole = min(whole, time.Since(start))
		b.StopTimer()
		start = time.Now()
		readEncodingCSV(b, path)
		plain = min(plain, time.Since(start))
		b.StartTimer()
	}
	b.ReportMetric(plain.Seconds()/whole.Seconds(), "x-encoding-csv")
}
