package imports

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// TestTimes: what of the times in a file becomes a rate, and what stays.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		name, times string
		rateHz      float64
		timesNs     string
		notes       string
	}{
		{"even", "0 0.1 0.2 0.3", 10, "", ""},
		{"one row", "5", 0, "[0]", ""},
		{"two rows", "5 5.5", 2, "", ""},
		{"offset epoch seconds", "1700000000.0001 1700000000.0002 1700000000.0003", 10000, "", ""},
		{"jitter within 1e-3", "0 1.0009 2 2.9991 4", 1, "", ""},
		{"jitter beyond 1e-3", "0 1.0011 2 3 4", 0, "[0 1001100000 2000000000 3000000000 4000000000]", ""},
		{"few digits of 1024 Hz", "0 0.000977 0.001953 0.002930 0.003906 0.004883", 1024, "", ""},
		{"a row missing", "0 1 2 4 5", 0, "[0 1000000000 2000000000 4000000000 5000000000]", ""},
		{"a large gap", "0 1 2 90000", 0, "[0 1000000000 2000000000 90000000000000]", "gaps"},
		{"repeated", "0 1 1 2", 0, "[0 1000000000 1000000000 2000000000]", "repeated-times!"},
		{"all the same", "3 3 3", 0, "[0 0 0]", "repeated-times!"},
		{"negative", "-0.2 -0.1 0", 10, "", ""},
		{"exponents", "1e0 2e0 3e0", 1, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "time_s,watts\n"
			for _, s := range strings.Fields(c.times) {
				text += s + ",1\n"
			}
			got, err := importText(t, Options{}, "f", text)
			if err != nil {
				t.Fatal(err)
			}
			timesNs := ""
			if len(got.timesNs) > 0 {
				timesNs = fmt.Sprint(got.timesNs)
			}
			if got.info.RateHz != c.rateHz || timesNs != c.timesNs || codes(got.notes) != c.notes || got.info.Clock != meters.Shared {
				t.Errorf("rate %g, times %s, notes %s; want %g, %s, %s", got.info.RateHz, timesNs, codes(got.notes), c.rateHz, c.timesNs, c.notes)
			}
		})
	}
}

// TestRows: what may differ from row to row.
func TestRows(t *testing.T) {
	for _, text := range []string{
		"time_s,watts\n0,1,\n1,2,\n",
		"time_s,watts,\n0,1,\n1,2,\n",
		"time_s,watts,note\n0,1\n1,2,x\n",
		"time_s,watts\n\n  # paused\n0,1\n \n1,2",
		"time_s , watts\n 0 , 1 \n\"1\" , \"2\" \n",
		"time_s;watts\n0;1,0\n1;2,0\n",
		"\"time_s\"\t\"watts\"\n0\t1\n1\t2\n",
	} {
		got, err := importText(t, Options{}, "f", text)
		if err != nil || fmt.Sprint(got.columns[meters.Watts]) != "[1 2]" || got.info.RateHz != 1 || len(got.notes) > 0 {
			t.Errorf("%q: %v, %v, %v", text, got.columns, got.notes, err)
		}
	}
}

// TestHeaders: how columns may be called.
func TestHeaders(t *testing.T) {
	for header, want := range map[string]string{
		"volts": "volts 1", "Voltage (V)": "volts 1", "VOLTAGE [mV]": "volts 0.001", "voltage_V": "volts 1", "U/V": "volts 1",
		"vbus_V": "volts 1", "V": "volts 1", "mV": "volts 0.001", "bus_voltage_mV": "volts 0.001", "voltage (volts)": "volts 1",
		"Current mA": "amps 0.001", "current_uA": "amps 1e-06", "Current (µA)": "amps 1e-06", "I / mA": "amps 0.001",
		"A": "amps 1", "microamps": "amps 1e-06", "amps": "amps 1", "current_a": "amps 1", "current_ma": "amps 0.001",
		"watts": "watts 1", "Power [mW]": "watts 0.001", "power_w": "watts 1", "P_uW": "watts 1e-06", "milliwatts": "watts 0.001",
		"time_s": "time 1", "Time (ms)": "time 0.001", "t_us": "time 1e-06", "timestamp_ms": "time 0.001", "us": "time 1e-06",
		"seconds": "time 1", "Timestamp (s)": "time 1", "time (sec)": "time 1", "Elapsed Time (s)": "time 1", "ns": "time 1e-09",
		"temp_C": "celsius 1", "Temperature (°C)": "celsius 1", "temp_C_ema": "celsius 1",
		"dp_V": "dp_volts 1", "D- (mV)": "dn_volts 0.001",
		"energy_Wh": "energy 3600", "capacity_mAh": "charge 3.6", "energy_Ws": "energy 1",
		"epoch": "time ?", "Voltage": "volts ?", "current (bananas)": "amps ?", "current_MA": "amps ?",
		"mAh": "charge 3.6", "Joules": "energy 1", "V (mA)": "", "channel": "", "": "", "current_avg_mA": "", "()": "", "_": "",
	} {
		c := parseColumn(header)
		got := strings.TrimSpace(c.quantity + " " + strconv.FormatFloat(c.scale, 'g', 6, 64))
		switch {
		case c.quantity == "":
			got = ""
		case c.wrong != nil:
			got = c.quantity + " ?"
		}
		if got != want {
			t.Errorf("%q is %q, want %q", header, got, want)
		}
	}
}

// writeTable writes a file of about so many bytes.
func writeTable(tb testing.TB, size int) string {
	var b bytes.Buffer
	b.WriteString("time_s,volts,amps\n")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d.%04d,5.0%04d,0.1%05d\n", i/10000, i%10000, i*7919%10000, i*104729%100000)
	}
	path := filepath.Join(tb.TempDir(), "f.csv")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		tb.Fatal(err)
	}
	return path
}

// TestFlatMemory: an import holds no more of a large file than of a small one.
func TestFlatMemory(t *testing.T) {
	path := writeTable(t, 16<<20)
	var before, after runtime.MemStats
	peak := uint64(0)
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err := Import(context.Background(), Options{Samples: path, Out: filepath.Join(t.TempDir(), "out")}, func(string) {
		runtime.GC()
		runtime.ReadMemStats(&after)
		peak = max(peak, after.HeapAlloc)
	})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if held := int64(peak) - int64(before.HeapAlloc); held > 16<<20 {
		t.Errorf("%d bytes held", held)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
		t.Errorf("%d bytes allocated for a file of 16 MiB", allocated)
	}
}

// BenchmarkImportCSV stands beside encoding/csv and strconv over the same bytes:
// the whole import with its writer, and the reading alone.
func BenchmarkImportCSV(b *testing.B) {
	path := writeTable(b, 16<<20)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	var whole, read, plain time.Duration
	timed := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	for b.Loop() {
		whole += timed(func() {
			out := filepath.Join(b.TempDir(), "out")
			if _, err := Import(context.Background(), Options{Samples: path, Out: out}, nil); err != nil {
				b.Fatal(err)
			}
		})
		b.StopTimer()
		read += timed(func() { readTable(b, path) })
		plain += timed(func() { readEncodingCSV(b, path) })
		b.StartTimer()
	}
	b.ReportMetric(whole.Seconds()/plain.Seconds(), "encoding-csv")
	b.ReportMetric(read.Seconds()/plain.Seconds(), "encoding-csv-read")
}

func readTable(b *testing.B, path string) {
	t, err := openTable(context.Background(), path)
	if err != nil {
		b.Fatal(err)
	}
	defer t.close()
	for t.next(3) == nil {
		for i := range t.header {
			if _, ok, err := t.float(&t.header[i]); !ok || err != nil {
				b.Fatal(err)
			}
		}
	}
}

func readEncodingCSV(b *testing.B, path string) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.ReuseRecord = true
	for first := true; ; first = false {
		row, err := r.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range row {
			if _, err := strconv.ParseFloat(s, 64); err != nil && !first {
				b.Fatal(err)
			}
		}
	}
}
