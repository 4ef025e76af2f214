package imports

import (
	"fmt"
	"testing"
)

func TestParseConsole(t *testing.T) {
	for line, want := range map[string]string{
		"CSV,result,ML-DSA-65,sign,0,123456,1,2,3,4,,,,,0":             "ML-DSA-65 sign 123456",
		"I (123) bench: CSV,result,ML-KEM-512,encap,7,456,,,,,,,,,0\r": "ML-KEM-512 encaps 456",
		"CSV,result,ML-KEM-512,decap,7,456,,,,,,,,,":                   "ML-KEM-512 decaps 456",
		"CSV,result,ML-KEM-512,decap,7,456,,,,,,,,,-1":                 "", // failed
		"CSV,result,ML-KEM-512,decap,7,456,,,,,,,,,,0":                 "", // a field too many
		"CSV,result,ML-KEM-512,decap,7,0,,,,,,,,,0":                    "",
		"CSV,result,ML-KEM-512,decap,7,soon,,,,,,,,,0":                 "",
		"CSV,kind,alg,op,run,time_us,heap_before,heap_after,heap_delta,heap_largest_free,pk_bytes,sk_bytes,ct_bytes,ss_bytes,rc": "",
		"CSV,sizes,ML-DSA-65,,,,,,,,,1952,4032,3309,32,":                            "",
		"  SLH-DSA-SHA2-128s sign   run=000    12345.678 ms heap=1 (d=0) largest=2": "SLH-DSA-SHA2-128s sign 1.23457e+07",
		"  SLH-DSA-SHA2-128s sign   run=000    soon ms":                             "",
		"run=000 1 ms": "",
	} {
		got := ""
		if r, ok := parseConsole([]byte(line)); ok {
			got = fmt.Sprintf("%s %s %.6g", r.alg, r.op, r.us)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// Lines of sizes are one column off by the header, in versions known so far.
func TestParseSizes(t *testing.T) {
	for line, want := range map[string]string{
		"CSV,sizes,ML-DSA-65,,,,,,,,,1952,4032,3309,32,":  "ML-DSA-65 pk=1952 sk=4032 ct=3309 ss=32",
		"CSV,sizes,ML-DSA-65,,,,,,,,1952,4032,3309,32,":   "ML-DSA-65 pk=1952 sk=4032 ct=3309 ss=32",
		"CSV,sizes,ML-DSA-65,,,,,,,,,,1952,4032,3309,32,": "",
		"CSV,sizes,ML-DSA-65,,,,,,,,,x,4032,3309,32,":     "",
		"CSV,sizes,,,,,,,,,,1952,4032,3309,32,":           "",
	} {
		got := ""
		if alg, sizes, ok := parseSizes([]byte(line)); ok {
			got = alg + " " + sizes
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

const consoleText = `
CSV,kind,alg,op,run,time_us,heap_before,heap_after,heap_delta,heap_largest_free,pk_bytes,sk_bytes,ct_bytes,ss_bytes,rc
CSV,sizes,ML-KEM-512,,,,,,,,,800,1632,768,32,
CSV,result,ML-KEM-512,keygen,0,400,1,1,0,1,,,,,0
CSV,result,ML-KEM-512,keygen,1,405,1,1,0,1,,,,,0
CSV,result,ML-KEM-512,encap,0,900,1,1,0,1,,,,,0
`

// A log of latencies names the pulses of a trigger pin, warm-ups apart.
func TestNamedPulses(t *testing.T) {
	samples := samplesWithPin(600, [2]int{10, 14}, [2]int{50, 91}, [2]int{110, 150}, [2]int{200, 291}, [2]int{400, 440})
	edges := &EdgeOptions{Pin: "d0", Names: "log"}
	got, err := importFiles(t, Options{Samples: "s", Volts: 3.3, Edges: edges}, map[string]string{"s": samples, "log": consoleText})
	if err != nil {
		t.Fatal(err)
	}
	if want := "ML-KEM-512/keygen x1 50-91 ML-KEM-512/keygen x1 110-150 ML-KEM-512/encaps x1 200-291"; windowsOf(got) != want || codes(got.notes) != "stated-volts! unnamed-pulses" {
		t.Errorf("%s, notes %s\nwant %s", windowsOf(got), codes(got.notes), want)
	}
	if got.env["bytes of ML-KEM-512"] != "pk=800 sk=1632 ct=768 ss=32" {
		t.Errorf("environment %v", got.env)
	}
	_, err = importFiles(t, Options{Samples: "s", Volts: 3.3, Edges: edges}, map[string]string{"s": samplesWithPin(600, [2]int{50, 91}), "log": consoleText})
	if want := "import log: operation 2, ML-KEM-512 keygen, took 405 µs, and no pulse of that length is left (3 operations, 1 pulses): log and recording do not belong together, or either lacks something"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// Tables without power are refused, and it is said why.
func TestPowerless(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{consoleText, "f: holds the latencies of 3 operations (ML-KEM-512 keygen, ML-KEM-512 encaps), but no power: no joule follows from it; where a PPK2 recorded the trigger pin, import that with --edges pin=d0,names=f"},
		{"CSV,kind,alg,op,run,time_us\n", "f: holds no operation (CSV,result,ALG,OP,RUN,TIME_US,... or ALG OP run=N T ms)"},
		{"Speed Evaluation,,,,,,,,,,\nKey Encapsulation Schemes,,,,,,,,,,\nScheme,Implementation,Key Generation [cycles] (mean),Key Generation [cycles] (min)\nkyber512 (1000 executions),clean,1,1\n",
			"f: holds cycles, bytes and shares of hashing by scheme, but no power: no joule follows from it; run the scheme on a target beside a meter (joulemark run), and compare the latencies"},
	} {
		if _, err := importText(t, Options{}, "f", c.text); err == nil || err.Error() != "import "+c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

func FuzzConsole(f *testing.F) {
	f.Add([]byte(consoleText))
	f.Add([]byte("  SLH-DSA-SHA2-128s sign   run=000    0.41 ms heap=1 (d=0) largest=2\n"))
	samples := []byte(samplesWithPin(100, [2]int{10, 51}, [2]int{60, 80}))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{Samples: "s", Volts: 3.3, Edges: &EdgeOptions{Pin: "d0", Names: "log"}}, map[string][]byte{"s": samples, "log": b})
	})
}
