package lines

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// said is a line that a program prints, at ms after its start.
type said struct {
	ms   int64
	text string
}

// feed runs lines through an adapter. It checks that each line is stored as it
// came, and returns the windows of the statements: "ALG/OP n from-to" in ms.
func feed(t *testing.T, adapter string, options map[string]string, lines []said) (windows []string, notes []run.Note) {
	t.Helper()
	m, err := New(adapter, Config{Source: "exec", Options: options})
	if err != nil {
		t.Fatal(err)
	}
	var derived []run.Line
	for _, l := range lines {
		out := m.Feed([]byte(l.text), l.ms*1e6)
		if len(out) == 0 || string(out[0].Text) != l.text || out[0].Source != "exec" || out[0].HostNs != l.ms*1e6 {
			t.Fatalf("%q is stored as %v", l.text, out)
		}
		derived = append(derived, out[1:]...)
	}
	derived = append(derived, m.Close()...)
	var begin mark.Bound
	for i, l := range derived {
		if l.Source != "exec/"+adapter {
			t.Fatalf("a statement has the source %q", l.Source)
		}
		s, err := mark.Parse(l.Text)
		if err != nil || !s.Checked {
			t.Fatalf("%q: %v", l.Text, err)
		}
		b, err := mark.ParseBound(s)
		if err != nil || b.End != (i%2 == 1) {
			t.Fatalf("%q: %v", l.Text, err)
		}
		if !b.End {
			begin = b
			continue
		}
		if begin.Alg != b.Alg || begin.Op != b.Op || b.N == nil {
			t.Fatalf("%v begins, %v ends", begin, b)
		}
		windows = append(windows, fmt.Sprintf("%s/%s %d %d-%d", b.Alg, b.Op, *b.N, derived[i-1].HostNs/1e6, l.HostNs/1e6))
	}
	return windows, m.Notes()
}

func TestAdapters(t *testing.T) {
	for _, c := range []struct {
		name, adapter string
		options       map[string]string
		lines         []said
		want          []string
		note          string // a piece of the only note; "" for none
	}{
		{name: "marks of the program itself", adapter: "jm",
			lines: []said{{0, "@jm begin op=sign n=3"}, {10, "hello"}}},
		{name: "OpenSSL 3.0", adapter: "openssl-speed",
			lines: []said{
				{5, "+DTP:2048:private:rsa:1"}, {1006, "+R1:3737:2048:1.00"},
				{1007, "+DTP:2048:public:rsa:1"}, {2008, "+R2:59279:2048:1.00"},
				{2010, "+DTP:256:sign:ecdsa:1"}, {3012, "+R5:45014:256:1.00"},
				{3013, "+DTP:384:verify:ecdsa:1"}, {4022, "+R6:19118:384:1.01"},
				{4023, "+DTP:253::ecdh:1"}, {5024, "+R7:35002:253:1.00"},
				{5025, "+DTP:256::ecdh:1"}, {6026, "+R7:9000:256:1.00"},
				{6027, "+DTP:253:sign:Ed25519:1"}, {7028, "+R8:27421:253:Ed25519:1.00"},
				{7029, "+DTP:456:verify:Ed448:1"}, {8030, "+R9:1328:456:Ed448:1.00"},
				{8031, "+DT:sha256:1:64"}, {9032, "+R:2832663:sha256:1.000000"},
				{9033, "+DTP:571:verify:ecdsa:1"}, {9999, "+R6:300:571:0.95"},
			},
			want: []string{
				"RSA-2048-PKCS1/sign 3737 5-1006", "RSA-2048-PKCS1/verify 59279 1007-2008", "ECDSA-P256/sign 45014 2010-3012",
				"ECDSA-P384/verify 19118 3013-4022", "X25519/derive 35002 4023-5024", "ECDH-P256/derive 9000 5025-6026",
				"Ed25519/sign 27421 6027-7028", "Ed448/verify 1328 7029-8030", "sha256/run-64B 2832663 8031-9032", "ECDSA-571/verify 300 9033-9999",
			}},
		{name: "OpenSSL 3.6", adapter: "openssl-speed",
			lines: []said{
				{0, "+DTP:ML-DSA-65:keygen:1"}, {1001, "+R18:7698:ML-DSA-65:1.00"},
				{1002, "+DTP:ML-DSA-65:signs:1"}, {2003, "+R19:2812:ML-DSA-65:1.00"},
				{2004, "+DTP:ML-DSA-65:verify:1"}, {3005, "+R20:11220:ML-DSA-65:1.00"},
				{3006, "+DTP:SLH-DSA-SHA2-128s:signs:1"}, {4126, "+R19:7:SLH-DSA-SHA2-128s:1.12"},
				{4127, "+DTP:ML-KEM-768:encaps:1"}, {5128, "+R16:43416:ML-KEM-768:1.00"},
				{5129, "+DTP:mldsa44:signs:1"}, {6130, "+R19:2584:mldsa44:1.00\r"},
				{6131, "+DTP:2048:private:rsa sign:1"}, {7132, "+R1:3048:2048:1.00"},
				{7133, "+DTP:SecP256r1MLKEM768:decaps:1"}, {8134, "+R17:99:SecP256r1MLKEM768:1.00"},
				{8135, "+F9:10:4998.0:2812.0:10657.0"},
			},
			want: []string{
				"ML-DSA-65/keygen 7698 0-1001", "ML-DSA-65/sign 2812 1002-2003", "ML-DSA-65/verify 11220 2004-3005",
				"SLH-DSA-SHA2-128s/sign 7 3006-4126", "ML-KEM-768/encaps 43416 4127-5128", "ML-DSA-44/sign 2584 5129-6130",
				"RSA-2048-PKCS1/sign 3048 6131-7132", "SecP256r1MLKEM768/decaps 99 7133-8134",
			}},
		{name: "OpenSSL 3.5, where ML-DSA fails", adapter: "openssl-speed",
			lines: []said{{0, "+DTP:ML-DSA-65:keygen:1"}, {1, "Error while initializing signing data structs for ML-DSA-65"},
				{2, "+DTP:ML-KEM-512:keygen:1"}, {1003, "+R15:50000:ML-KEM-512:1.00"}},
			want: []string{"ML-KEM-512/keygen 50000 2-1003"},
			note: "ML-DSA-65/keygen began and never ended"},
		{name: "OpenSSL with -multi 2", adapter: "openssl-speed",
			lines: []said{{0, "+DTP:253:sign:Ed25519:1"}, {1, "+DTP:253:sign:Ed25519:1"}, {1001, "+R8:5150:253:Ed25519:1.01"},
				{1002, "+DTP:253:verify:Ed25519:1"}, {1301, "+R8:4488:253:Ed25519:1.31"}, {1302, "+DTP:253:verify:Ed25519:1"},
				{2003, "+R9:1044:253:Ed25519:1.01"}, {2303, "+R9:1717:253:Ed25519:1.00"}},
			note: "several processes work at once"},
		{name: "OpenSSL without -elapsed: seconds are processor time, arrivals are not", adapter: "openssl-speed",
			lines: []said{{0, "+DTP:253:sign:Ed25519:1"}, {1002, "+R8:12550:253:Ed25519:0.46"}},
			want:  []string{"Ed25519/sign 12550 0-1002"}},
		{name: "OpenSSL behind a pipe that holds lines back", adapter: "openssl-speed",
			lines: []said{{3000, "+DTP:253:sign:Ed25519:1"}, {3100, "+R8:12550:253:Ed25519:1.00"}},
			note:  "arrived later than they were printed"},
		{name: "OpenSSL for people", adapter: "openssl-speed",
			lines: []said{
				{0, "You have chosen to measure elapsed time instead of user CPU time."},
				{1001, "Doing 253 bits sign Ed25519's for 1s: 36936 253 bits Ed25519 signs in 1.00s "},
				{2001, "Doing ML-DSA-65 signs ops for 1s: 2812 ML-DSA-65 signature sign ops in 0.99s"},
				{3002, "Doing 2048 bits private rsa sign ops for 1s: 3048 2048 bits private RSA sign ops in 1.00s"},
				{4003, "Doing 253 bits  ecdh's for 1s: 35002 253-bits ECDH ops in 1.00s"},
				{5004, "Doing ML-KEM-512 keygen ops for 1s: 43784 ML-KEM-512 KEM keygen ops in 1.00s"},
				{5010, "version: 3.6.1"},
				{5011, "                  ML-DSA-65 0.000065s 0.000193s 0.000052s  15287.0  5178.0  19078.0"},
			},
			want: []string{"Ed25519/sign 36936 1-1001", "ML-DSA-65/sign 2812 1011-2001", "RSA-2048-PKCS1/sign 3048 2002-3002",
				"X25519/derive 35002 3003-4003", "ML-KEM-512/keygen 43784 4004-5004"},
			note: "to 10 ms"},
		{name: "OpenSSL for people, in processor time", adapter: "openssl-speed",
			lines: []said{{1001, "Doing mldsa44 signs ops for 1s: 2584 mldsa44 signature sign ops in 0.45s"}},
			want:  []string{"ML-DSA-44/sign 2584 1-1001"}, note: "to 10 ms"},
		{name: "liboqs", adapter: "liboqs-speed",
			lines: []said{
				{0, "Configuration info"}, {1, "Started at 2026-11-30 12:00:00"},
				{2, "Operation                            | Iterations | Total time (s) | Time (us): mean | pop. stdev | CPU cycles: mean          | pop. stdev"},
				{3, "------------------------------------ | ----------:| --------------:| ---------------:| ----------:| -------------------------:| ----------:"},
				{4, "ML-DSA-65                            |            |                |                 |            |                           |           "},
				{3010, "keypair                              |      30411 |          3.000 |          98.648 |      5.100 |                    246000 |       1200"},
				{6020, "sign                                 |      12345 |          3.000 |         243.010 |    150.100 |                    600000 |      90000"},
				{9030, "verify                               |      30000 |          3.000 |         100.000 |      5.000 |                    250000 |       1000"},
				{9500, "SLH_DSA_PURE_SHA2_128S               |            |                |                 |            |                           |           "},
				{9501, "public key bytes: 32, secret key bytes: 64, signature bytes: 7856"},
				{12900, "keypair                              |         30 |          3.300 |      110000.000 |      5.000 |                    250000 |       1000"},
			},
			want: []string{"ML-DSA-65/keygen 30411 4-3010", "ML-DSA-65/sign 12345 3010-6020", "ML-DSA-65/verify 30000 6020-9030", "SLH-DSA-SHA2-128s/keygen 30 9500-12900"}},
		{name: "liboqs, with something else before an operation", adapter: "liboqs-speed",
			lines: []said{{0, "ML-KEM-768 | | | | | | "}, {9000, "keygen | 100 | 3.000 | 1 | 1 | 1 | 1"}},
			want:  []string{"ML-KEM-768/keygen 100 6000-9000"}},
		{name: "liboqs behind a pipe: all rows at the end", adapter: "liboqs-speed",
			lines: []said{{9000, "ML-KEM-768 | | | | | | "}, {9100, "keygen | 100 | 3.000 | 1 | 1 | 1 | 1"}},
			note:  "stdbuf -oL"},
		{name: "log of ESP-IDF", adapter: "esp-idf-log",
			lines: []said{
				{0, "I (312) cpu_start: Project name: bench"},
				{100, "\x1b[0;32mI (5432) bench: begin ML-DSA-44 sign n=100\x1b[0m"}, {1000, "I (6432) heap: end of stack at 0x3ffb, begin of heap"},
				{2100, "\x1b[0;32mI (7432) bench: end\x1b[0m"},
				{3000, "I (8432) bench: begin ML-KEM-768 encaps"}, {3500, "I (8932) bench: end ML-KEM-768 encaps n=7"},
			},
			want: []string{"ML-DSA-44/sign 100 100-2100", "ML-KEM-768/encaps 7 3000-3500"}},
		{name: "log with expressions of one's own", adapter: "esp-idf-log",
			options: map[string]string{"begin": `>>> (?P<op>\w+)$`, "end": `<<< (?P<n>\d+) times`, "alg": "falcon512"},
			lines:   []said{{0, ">>> signs"}, {100, "working"}, {900, "<<< 12 times"}},
			want:    []string{"Falcon-512/sign 12 0-900"}},
		{name: "log that ends something else", adapter: "esp-idf-log",
			lines: []said{{0, "begin ML-DSA-44 sign n=1"}, {10, "end ML-DSA-44 verify"}},
			note:  "ML-DSA-44/sign began, ML-DSA-44/verify ended"},
		{name: "log with a number that is none", adapter: "esp-idf-log",
			lines: []said{{0, "begin ML-DSA-44 sign n=99999999999999999999"}, {10, "end"}},
			note:  "no operation of ML-DSA-44/sign was counted"},
		{name: "log that was cut off", adapter: "esp-idf-log",
			lines: []said{{0, "begin ML-DSA-44 sign n=1"}},
			note:  "ML-DSA-44/sign began and never ended"},
		{name: "CSV with times", adapter: "csv-iterations",
			options: map[string]string{"match": "^CSV,result,", "alg": "3", "op": "4", "us": "6"},
			lines: []said{
				{0, "CSV,kind,alg,op,run,time_us,heap_before"},
				{120, "CSV,result,ML-DSA-65,sign,0,120000,1"}, {221, "CSV,result,ML-DSA-65,sign,1,100500.5,1"}, {402, "CSV,result,ML-DSA-65,sign,2,180000,1"},
				{410, "CSV,sizes,ML-DSA-65,,,,"},
				{1402, "CSV,result,ML-DSA-65,sign,3,100000,1"},
				{1502, "CSV,result,ML-DSA-65,verify,0,99000,1"}, {1601, "CSV,result,ML-DSA-65,verify,1,99000,1"},
			},
			want: []string{"ML-DSA-65/sign 3 0-402", "ML-DSA-65/sign 1 1302-1402", "ML-DSA-65/verify 2 1403-1601"}},
		{name: "CSV without times: the first operation began nobody knows when", adapter: "csv-iterations",
			options: map[string]string{"alg": "=ML-KEM-512", "op": "1", "separator": ";"},
			lines:   []said{{0, "encap;1"}, {10, "encap;2"}, {20, "encap;3"}, {30, `"decap";1`}, {45, `"decap";2`}},
			want:    []string{"ML-KEM-512/encaps 2 0-20", "ML-KEM-512/decaps 1 30-45"}},
		{name: "CSV behind a pipe", adapter: "csv-iterations",
			options: map[string]string{"us": "3"},
			lines:   []said{{900, "a,b,300000"}, {900, "a,b,300000"}, {900, "a,b,300000"}},
			note:    "stdbuf -oL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, notes := feed(t, c.adapter, c.options, c.lines)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("windows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			switch {
			case c.note == "" && len(notes) > 0, c.note != "" && (len(notes) != 1 || !strings.Contains(notes[0].Text, c.note) || !notes[0].Warn):
				t.Errorf("notes are %v, want %q", notes, c.note)
			}
		})
	}
}

func TestWrongOptions(t *testing.T) {
	for _, c := range []struct {
		adapter string
		options map[string]string
		want    string
	}{
		{"openssl", nil, "there are jm, openssl-speed"},
		{"jm", map[string]string{"x": "y"}, `no option "x"`},
		{"esp-idf-log", map[string]string{"begin": "("}, "begin: error parsing regexp"},
		{"esp-idf-log", map[string]string{"end": "(?P<time>x)"}, `group "time" is none of`},
		{"esp-idf-log", map[string]string{"begin": "x", "end": "y"}, "give alg=NAME"},
		{"esp-idf-log", map[string]string{"n": "0"}, "not a number of operations"},
		{"esp-idf-log", map[string]string{"n": "many"}, "not a number of operations"},
		{"esp-idf-log", map[string]string{"op": ""}, "op= is empty"},
		{"csv-iterations", map[string]string{"alg": "0"}, "neither a column"},
		{"csv-iterations", map[string]string{"op": ""}, "neither a column"},
		{"csv-iterations", map[string]string{"us": "=3"}, "neither a column"},
		{"csv-iterations", map[string]string{"match": "["}, "match: error parsing regexp"},
		{"csv-iterations", map[string]string{"separator": ""}, "not one character"},
	} {
		if _, err := New(c.adapter, Config{Options: c.options}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %s", c.adapter, c.options, err, c.want)
		}
	}
}

// docs/lines.md names every adapter and option.
func TestAdaptersAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/lines.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Adapters {
		row := ""
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| `"+a.Name+"` |") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("docs/lines.md says nothing of %s", a.Name)
		}
		for _, o := range a.Options {
			if !strings.Contains(row, "`"+o.Name+"`") {
				t.Errorf("docs/lines.md says nothing of the option %s of %s", o.Name, a.Name)
			}
		}
	}
}

// What openssl of this machine prints is understood: each +DTP becomes a
// window of the stated count.
func TestInstalledOpenSSL(t *testing.T) {
	if testing.Short() {
		t.Skip("runs openssl for two seconds")
	}
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	c := exec.Command(program, "speed", "-mr", "-elapsed", "-seconds", "1", "ed25519")
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var lines []said
	for s := bufio.NewScanner(pipe); s.Scan(); {
		lines = append(lines, said{time.Since(start).Milliseconds(), s.Text()})
	}
	if err := c.Wait(); err != nil {
		t.Skipf("openssl speed: %v", err)
	}
	windows, _ := feed(t, "openssl-speed", nil, lines)
	if len(windows) != 2 || !strings.HasPrefix(windows[0], "Ed25519/sign ") || !strings.HasPrefix(windows[1], "Ed25519/verify ") {
		t.Errorf("windows are %v, from %v", windows, lines)
	}
}

// No line breaks an adapter, and each comes back first, as it was.
func FuzzFeed(f *testing.F) {
	for _, text := range []string{
		"+DTP:253:sign:Ed25519:1\n+R8:27421:253:Ed25519:1.00", "+DTP:::\n+R:1::1", "+DT:a:1:", "+DTP:1:private:rsa:1\n+R1:1:1:1",
		"Doing 2 bits  ecdh's for 1s: 1 in 1.00s", "Doing a ops for 1s: 1 x in 1s",
		"A| | | | | | \nsign|1|0.001|||", "begin A sign n=99999999999999999999\nend", "begin @ % n=0\nend A % n=1", "a,b\na,b\n\"a", "\x1b[0m\xff",
		"begin " + strings.Repeat("A", 1010) + " s\nend",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, a := range Adapters {
			m, err := New(a.Name, Config{Source: "exec"})
			if err != nil {
				t.Fatal(err)
			}
			var all []run.Line
			for i, line := range bytes.Split(text, []byte("\n")) {
				out := m.Feed(line, int64(i)*2e9)
				if len(out) == 0 || !bytes.Equal(out[0].Text, line) {
					t.Fatalf("%s: %q is stored as %v", a.Name, line, out)
				}
				all = append(all, out[1:]...)
			}
			all = append(all, m.Close()...)
			if len(all)%2 != 0 {
				t.Fatalf("%s: %d statements", a.Name, len(all))
			}
			for _, l := range all {
				s, err := mark.Parse(l.Text)
				if err == nil {
					_, err = mark.ParseBound(s)
				}
				if err != nil {
					t.Fatalf("%s: %q: %v", a.Name, l.Text, err)
				}
			}
			if len(m.Notes()) > maxNotes {
				t.Fatalf("%s: %d notes", a.Name, len(m.Notes()))
			}
		}
	})
}
