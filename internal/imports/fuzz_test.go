package imports

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/run"
)

// corpus adds the files of testdata that match a pattern.
func corpus(f *testing.F, pattern string) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		f.Fatalf("%d files match %s, %v", len(paths), pattern, err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// fuzzImport imports files and checks what must hold of any input: a run that
// reads back without damage and holds what the summary says, or an error and
// nothing left behind.
func fuzzImport(t *testing.T, o Options, files map[string][]byte) {
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o.Samples = filepath.Join(dir, o.Samples)
	if o.Marks != "" {
		o.Marks = filepath.Join(dir, o.Marks)
	}
	o.Edges = o.Edges.in(dir)
	o.Out = filepath.Join(dir, "out")
	sum, err := Import(context.Background(), o, nil)
	if err != nil {
		if isDir(o.Out) {
			t.Fatalf("left a run behind the error %v", err)
		}
		return
	}
	r, err := run.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	if report := r.Check(); len(report.Damage) > 0 || r.Closing == nil {
		t.Fatalf("damaged: %+v", report.Damage)
	}
	if r.Streams[0].Rows != sum.Samples || r.Counts["line"] != sum.Lines || r.Counts["window"] != sum.Windows {
		t.Fatalf("summary %+v, run of %d rows, %v", sum, r.Streams[0].Rows, r.Counts)
	}
	if !(sum.Seconds >= 0) || math.IsInf(sum.Seconds, 0) {
		t.Fatalf("%v s", sum.Seconds)
	}
}

func FuzzCSV(f *testing.F) {
	corpus(f, "testdata/csv/*[a-z].csv")
	corpus(f, "testdata/csv/*.txt")
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{Samples: "f", From: "csv"}, map[string][]byte{"f": b})
	})
}

func FuzzFnirsi(f *testing.F) {
	corpus(f, "testdata/fnirsi/*.txt")
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{Samples: "f", From: "fnirsi"}, map[string][]byte{"f": b})
	})
}

// FuzzFormats imports anything as a file of every other format.
func FuzzFormats(f *testing.F) {
	options := map[string]Options{"ppk2": {Volts: 3.3}, "otii": {Volts: 3.3}, "pqc-leo": {Count: 10}}
	for i, format := range Formats {
		o := options[format.Name]
		o.From = format.Name
		options[format.Name] = o
		paths, _ := filepath.Glob("testdata/" + strings.ReplaceAll(format.Name, "-", "") + "/*.*")
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			if filepath.Ext(path) != ".golden" {
				f.Add(uint8(i), b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, b []byte) {
		o := options[Formats[int(format)%len(Formats)].Name]
		o.Samples = "f"
		fuzzImport(t, o, map[string][]byte{"f": b})
	})
}

func FuzzMarks(f *testing.F) {
	corpus(f, "testdata/csv/*.marks")
	f.Add([]byte("\ufeff# c\r\n99.5\t\xff\xfe\r\n100 \n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{Samples: "f", Marks: "m"}, map[string][]byte{"f": []byte("time_s,watts\n100,1\n101,1\n"), "m": b})
	})
}

func FuzzEnergyRunner(f *testing.F) {
	r := sound()
	r.seconds = 10
	small := r
	small.rateHz = 20
	log := func(r recording) []byte { return []byte(r.files("")["/log.txt"]) }
	f.Add([]byte(small.bin()), []byte(r.json()), log(r), []byte(small.results(0, 2, 4)))
	r.log = r.without("m-infer")
	f.Add([]byte(small.bin()), []byte("[1,2,3]"), log(r), []byte{})
	f.Fuzz(func(t *testing.T, bin, edges, log, results []byte) {
		fuzzImport(t, Options{Samples: "t-energy.bin"}, map[string][]byte{
			"t-energy.bin": bin, "t-timestamps.json": edges, "log.txt": log, "results.txt": results})
	})
}

// FuzzDecimal holds the number reader against strconv, bit for bit.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-1.5", "+.5", "5.", "1e-3", "1E400", "123456789012345678901234567890", "1.7976931348623157e308",
		"9007199254740993", "0.1e23", "00000000000000000000000001", "1e", "--1", ".", "5e-324", "1700000000.123456789"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := scanDecimal([]byte(s))
		if err != nil || d.point == ',' {
			return
		}
		got, gotErr := d.float([]byte(s), 0)
		want, wantErr := strconv.ParseFloat(s, 64)
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%q: %v, %v, want %v, %v", s, got, gotErr, want, wantErr)
		}
		if ns, err := d.nanos(0); err == nil && math.Abs(want) > 1e-12 && math.Abs(float64(ns)-want*1e9) > 1+math.Abs(want*1e9)*1e-15 {
			t.Fatalf("%q: %d ns", s, ns)
		}
	})
}

// TestFloatsNearest: numbers of many digits are rounded once.
func TestFloatsNearest(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 100000 {
		s := strconv.FormatUint(rnd.Uint64()>>rnd.IntN(60), 10) + "e" + strconv.Itoa(rnd.IntN(50)-25)
		d, err := scanDecimal([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := strconv.ParseFloat(s, 64)
		if got, err := d.float([]byte(s), 0); err != nil || got != want {
			t.Fatalf("%s is %v, %v, want %v", s, got, err, want)
		}
	}
}

func TestNanosRounded(t *testing.T) {
	for s, want := range map[string]int64{
		"0.0000000004": 0, "0.0000000005": 1, "-0.0000000006": -1, "1.99999999951": 2e9, "1e-10": 0, "6e-10": 1,
		"1e-40": 0, "9.2233720368547758e9": 9223372036854775800, "0e99": 0,
	} {
		d, err := scanDecimal([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.nanos(0); err != nil || got != want {
			t.Errorf("%s s is %d ns, %v, want %d", s, got, err, want)
		}
	}
}

// TestNanosExact: times of today keep every nanosecond.
func TestNanosExact(t *testing.T) {
	seed := newSeed()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 10000 {
		want := rnd.Int64N(4e18)
		for _, unit := range []struct{ exp, digits int }{{0, 9}, {-3, 6}, {-6, 3}, {-9, 0}} {
			s := strconv.FormatInt(want, 10)
			for len(s) <= unit.digits {
				s = "0" + s
			}
			if unit.digits > 0 {
				s = s[:len(s)-unit.digits] + "." + s[len(s)-unit.digits:]
			}
			d, err := scanDecimal([]byte(s))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.nanos(unit.exp); err != nil || got != want {
				t.Fatalf("%s x 10^%d s: %d ns, %v, want %d", s, unit.exp, got, err, want)
			}
		}
	}
}
