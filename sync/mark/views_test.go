package mark

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

func aWin() Win {
	return Win{W: 12, Alg: "ML-DSA-44", Op: "sign", N: 100, T0: 1_000_000, T1: 3_500_000, Idle: "wfi", PreUs: 350_000, PostUs: 300_000}
}

// viewer is one typed view of a statement.
type viewer interface{ Statement() Statement }

func read[V viewer](parse func(Statement) (V, error)) func(Statement) (viewer, error) {
	return func(s Statement) (viewer, error) { return parse(s) }
}

var readers = map[string]func(Statement) (viewer, error){
	"@jm hello": read(ParseHello), "@jm sync": read(ParseSync), "@jm win": read(ParseWin), "@jm lat": read(ParseLat),
	"@jm mem": read(ParseMem), "@jm idle": read(ParseIdle), "@jm begin": read(ParseBound), "@jm end": read(ParseBound),
	"@jm ok": read(ParseAnswer), "@jm err": read(ParseAnswer), "@jm note": read(ParseNote),
	"@jh hello": read(ParseHelloCmd), "@jh sync": read(ParseSyncCmd), "@jh run": read(ParseRun),
	"@jh idle": read(ParseIdleCmd), "@jh level": read(ParseLevel), "@jh stop": read(ParseStop),
}

// views reads s through the view of its kind; what a view accepts it must
// write so that it reads the same.
func views(t *testing.T, s Statement) {
	parse, ok := readers[opening(s.Command)+s.Kind]
	if !ok {
		return
	}
	v, err := parse(s)
	if err != nil {
		return
	}
	back, err := parse(v.Statement())
	if err != nil || !reflect.DeepEqual(v, back) {
		t.Fatalf("%+v became %+v, %v", v, back, err)
	}
}

func TestViewsRoundTrip(t *testing.T) {
	for _, v := range []viewer{
		Hello{},
		Hello{Proto: 1, Target: "a b", CPU: "c", ISA: "rv32imac", Bits: 32, ClockHz: 160e6, TickHz: 16e6, TickBits: 52, Firmware: "1",
			Impl: "clean", ImplVersion: "2", CC: "gcc", CFlags: "-O2 -x=y", Ops: []Op{{"ML-DSA-44", "sign"}, {"empty", "run"}}, More: true},
		Sync{Seq: 1, Ticks: math.MaxUint64},
		aWin(),
		Win{Alg: "a", Op: "b", N: maxCount, T0: 5, T1: 4, Key: "k1", Checked: ptr(int64(0)), Fail: ptr(int64(1)), Retries: ptr(int64(2))},
		Win{W: 3, Alg: "spin", Op: "run", N: 200, T0: 5, T1: 400, PeriodUs: 10177, OnUs: 2544},
		Lat{W: 1, N: 2, Min: 0.5, P50: 1, Mean: 1.25, P95: 2, Max: 1e300, SD: 0},
		Mem{W: 1}, Mem{W: 1, Stack: ptr(int64(5)), Heap: ptr(int64(0)), Flash: ptr(int64(7))},
		Idle{W: 1, T0: 5, T1: 6, Mode: "wfi"},
		Bound{Op: "x"}, Bound{End: true, Op: "x", Alg: "y", N: ptr(int64(3)), Ticks: ptr(uint64(0))},
		Answer{OK: true, Cmd: "stop"}, Answer{Cmd: "run", W: ptr(int64(3)), Code: "timeout", Text: "too slow"},
		Note{"hi there"},
		HelloCmd{}, SyncCmd{N: 8, GapUs: 50_000}, Stop{}, Level{Pin: 4, V: 1}, IdleCmd{W: 1, Us: 2_000_000, Mode: "spin"},
		Run{W: 1, Alg: "Ed25519", Op: "sign", N: 5, Warm: 1, Msg: 32, PreUs: 1, PostUs: 2, Key: "2", Idle: "wfi", Level: true},
		Run{Alg: "Ed25519", Op: "sign", N: 1},
	} {
		line := encode(t, v.Statement())
		s, err := parseAs(line, strings.HasPrefix(string(line), "@jh "))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		back, err := readers[opening(s.Command)+s.Kind](s)
		if err != nil || !reflect.DeepEqual(v, back) {
			t.Errorf("%+v became %+v, %v", v, back, err)
		}
	}
}

func TestViewsRefuse(t *testing.T) {
	for _, line := range []string{
		"@jm sync seq=1", "@jm sync seq=1 t=", "@jm sync seq=1 t=-1", "@jm sync seq=1 t=+1", "@jm sync seq=1 t=0x10", "@jm sync seq=1 t=1_0",
		"@jm sync seq=1 t=18446744073709551616", "@jm sync seq=1 t=1.0", "@jm sync seq=1 t=1e3", "@jm sync seq=1 t=%201",
		"@jm win w=1 alg=a op=b n=0 t0=1 t1=2", "@jm win w=1 alg=a op=b n=-1 t0=1 t1=2", "@jm win w=-1 alg=a op=b n=1 t0=1 t1=2",
		"@jm win w=1 alg= op=b n=1 t0=1 t1=2", "@jm win w=1 alg=a n=1 t0=1 t1=2", "@jm win w=1 alg=a op=b t0=1 t1=2", "@jm win w=1 alg=a op=b n=1 t0=1",
		"@jm win w=1 alg=a op=b n=9007199254740993 t0=1 t1=2", "@jm win w=1 alg=a op=b n=1 t0=1 t1=2 pre_us=-5", "@jm win w=1 alg=a op=b n=1 t0=1 t1=2 pre_us=1e3",
		"@jm win w=1 alg=a op=b n=1 t0=1 t1=2 post_us=1000000000001", "@jm win w=1 alg=a op=b n=1 t0=1 t1=2 fail=x", "@jm win w=1 alg=a op=b n=+1 t0=1 t1=2",
		"@jm win w=1 alg=a op=b n=1 t0=1 t1=2 period_us=5", "@jm win w=1 alg=a op=b n=1 t0=1 t1=2 on_us=5", "@jm win w=1 alg=a op=b n=1 t0=1 t1=2 period_us=5 on_us=6",
		"@jm win w=1 alg=a op=b n=1 t0=1 t1=2 period_us=0 on_us=0", "@jm win w=1 alg=a op=b n=1 t0=1 t1=2 period_us=5 on_us=0",
		"@jm lat w=1 n=2 min=1 p50=2 mean=2 p95=3 max=NaN sd=0", "@jm lat w=1 n=2 min=1 p50=2 mean=Inf p95=3 max=4 sd=0", "@jm lat w=1 n=2 min=1 p50=2 mean=2 p95=3 max=1e999 sd=0",
		"@jm lat w=1 n=2 min=1 p50=2 mean=2 p95=3 max=0x1p4 sd=0", "@jm lat w=1 n=2 min=1 p50=2 mean=2 p95=3 max=4 sd=-1", "@jm lat w=1 n=2 min=3 p50=2 mean=2 p95=3 max=4 sd=0",
		"@jm lat w=1 n=2 min=1 p50=2 mean=2 p95=5 max=4 sd=0", "@jm lat w=1 n=0 min=1 p50=2 mean=2 p95=3 max=4 sd=0", "@jm lat w=1 n=2 min=1 p50=2 mean=2 p95=3 max=4",
		"@jm mem w=1 stack=-1 heap=0", "@jm idle w=1 t0=1 t1=2", "@jm idle w=1 t0=1 mode=wfi", "@jm begin alg=x", "@jm end op=x n=0", "@jm end op=x t=-1",
		"@jm ok", "@jm err cmd=run", "@jm note",
		"@jm hello proto=2", "@jm hello proto=x", "@jm hello bits=0", "@jm hello tick_bits=65", "@jm hello tick_hz=0", "@jm hello tick_hz=-1", "@jm hello clock_hz=1e13",
		"@jm hello ops=a", "@jm hello ops=a/b,", "@jm hello ops=a/b/c", "@jm hello ops=/b",
		"@jh run w=1 alg=a op=b n=0 warm=0 msg=0 pre_us=0 post_us=0", "@jh run w=1 alg=a op=b n=1", "@jh run w=1 alg=a op=b n=1 warm=0 msg=0 pre_us=0 post_us=0 level=2",
		"@jh sync n=0 gap_us=5", "@jh idle w=1 us=5", "@jh level pin=1 v=2", "@jh level pin=-1 v=1",
	} {
		command := strings.HasPrefix(line, "@jh ")
		s, err := parse([]byte(line), command)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		v, err := readers[opening(command)+s.Kind](s)
		if err == nil {
			t.Errorf("%s was read as %+v", line, v)
		} else if !strings.Contains(err.Error(), s.Kind) {
			t.Errorf("%s: error %q does not name the kind", line, err)
		}
	}
	for name, parse := range readers {
		if _, err := parse(Statement{Kind: "other"}); err == nil {
			t.Errorf("%s reads another kind", name)
		}
		if _, err := parse(Statement{Kind: name[4:], Command: name[:4] == "@jm "}); err == nil {
			t.Errorf("%s reads the other side's statement", name)
		}
	}
}

func TestGetters(t *testing.T) {
	s := Statement{Kind: "k", Fields: []Field{{"a", "-5"}, {"b", "007"}, {"c", "1.5e3"}}}
	if v, err := s.Int("a"); v != -5 || err != nil {
		t.Error(v, err)
	}
	if v, err := s.Uint("b"); v != 7 || err != nil {
		t.Error(v, err)
	}
	if v, err := s.Float("c"); v != 1500 || err != nil {
		t.Error(v, err)
	}
	for _, key := range []string{"a", "c", "d"} {
		if _, err := s.Uint(key); err == nil || !strings.Contains(err.Error(), "k statement: ") || !strings.Contains(err.Error(), key+"=") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestHelloOverSeveralLines(t *testing.T) {
	full := Hello{Proto: 1, Target: "t", TickHz: 1e6, CFlags: strings.Repeat("-x ", 150)}
	for i := range 120 {
		full.Ops = append(full.Ops, Op{fmt.Sprintf("SLH-DSA-SHAKE-%df", i), "sign"})
	}
	lines, err := full.Statements()
	if err != nil || len(lines) < 4 {
		t.Fatal(len(lines), err)
	}
	var merged Hello
	for i, s := range lines {
		h, err := ParseHello(s)
		if err != nil {
			t.Fatal(err)
		}
		if h.More != (i < len(lines)-1) {
			t.Errorf("line %d of %d: more %v", i, len(lines), h.More)
		}
		encode(t, s)
		merged = merged.Merge(h)
	}
	if !reflect.DeepEqual(merged, full) {
		t.Errorf("merged to %+v", merged)
	}
	if again := merged.Merge(full); !reflect.DeepEqual(again, full) {
		t.Errorf("saying it twice changed it to %+v", again)
	}
	if _, err := (Hello{CFlags: strings.Repeat("x", MaxLine)}).Statements(); err == nil {
		t.Error("a value above a line was written")
	}
	one, err := (Hello{}).Statements()
	if err != nil || len(one) != 1 || len(one[0].Fields) != 0 {
		t.Error(one, err)
	}
}

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		alg, op string
		want    bool
	}{
		{"ML-KEM-512", "encaps", true}, {"ML-KEM-512", "sign", false}, {"SLH-DSA-SHAKE-256f", "verify", true}, {"Dilithium2", "sign", false},
		{"X25519", "derive", true}, {"X25519MLKEM768", "decaps", true}, {"RSA-3072-PSS", "sign", true}, {"empty", "run", true},
		{"ML-KEM-768+ML-DSA-65", "kem+sig", true}, {"ML-DSA-65+ML-KEM-768", "kem+sig", false}, {"ML-KEM-768", "kem+sig", false}, {"", "", false},
	} {
		if got := Known(c.alg, c.op); got != c.want {
			t.Errorf("Known(%q, %q) is %v", c.alg, c.op, got)
		}
	}
	if a := Algorithms(); len(a) != 37 || !slices.IsSorted(a) {
		t.Errorf("%d algorithms: %v", len(a), a)
	}
	for _, alg := range Algorithms() {
		if len(Operations(alg)) == 0 {
			t.Errorf("%s has no operations", alg)
		}
	}
}
