package mark

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// vector is one line of testdata/vectors.jsonl, which other implementations
// of the protocol read too.
type vector struct {
	Name     string            `json:"name"`
	Line     string            `json:"line"`
	Hex      string            `json:"hex"`     // the line, where it is not plain ASCII
	Command  bool              `json:"command"` // to be read as a command
	Expect   string            `json:"expect"`
	Kind     string            `json:"kind"`
	Fields   map[string]string `json:"fields"`
	ValueHex map[string]string `json:"value_hex"` // fields that are not text
	Encode   bool              `json:"encode"`    // writing kind and fields gives this line
}

func (v vector) bytes(t testing.TB) []byte {
	if v.Hex == "" {
		return []byte(v.Line)
	}
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func vectors(t testing.TB) []vector {
	f, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []vector
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var v vector
		dec := json.NewDecoder(bytes.NewReader(scan.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if len(all) < 60 {
		t.Fatalf("only %d vectors", len(all))
	}
	return all
}

func outcome(s Statement, err error) string {
	switch {
	case errors.Is(err, ErrNone):
		return "none"
	case errors.Is(err, ErrChecksum):
		return "checksum"
	case errors.Is(err, ErrTooLong):
		return "too-long"
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case err != nil:
		return err.Error()
	case !s.Checked:
		return "unchecked"
	}
	return "ok"
}

func parseAs(line []byte, command bool) (Statement, error) {
	if command {
		return ParseCommand(line)
	}
	return Parse(line)
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			line := v.bytes(t)
			s, err := parseAs(line, v.Command)
			if got := outcome(s, err); got != v.Expect {
				t.Fatalf("%q: got %s (%v), want %s", line, got, err, v.Expect)
			}
			if s.Kind != v.Kind || s.Command != v.Command {
				t.Errorf("kind %q, command %v", s.Kind, s.Command)
			}
			for k, h := range v.ValueHex {
				b, err := hex.DecodeString(h)
				if err != nil {
					t.Fatal(err)
				}
				v.Fields = map[string]string{k: string(b)}
			}
			if v.Fields != nil && len(s.Fields) != len(v.Fields) {
				t.Errorf("fields %v, want %v", s.Fields, v.Fields)
			}
			for k, want := range v.Fields {
				if got, ok := s.Get(k); !ok || got != want {
					t.Errorf("%s=%q, want %q", k, got, want)
				}
			}
			if v.Encode {
				got, err := Append([]byte("before"), s)
				if want := "before" + string(line) + "\n"; err != nil || string(got) != want {
					t.Errorf("written as %q, %v, want %q", got, err, want)
				}
			}
		})
	}
}

func TestCRCCheckValue(t *testing.T) {
	if got := CRC([]byte("123456789")); got != 0x29B1 {
		t.Errorf("CRC is %04X", got)
	}
}

func TestAppendRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		s    Statement
		want error
	}{
		"no kind":       {Statement{}, ErrMalformed},
		"kind":          {Statement{Kind: "a b"}, ErrMalformed},
		"key":           {Statement{Kind: "a", Fields: []Field{{"b=", ""}}}, ErrMalformed},
		"key twice":     {Statement{Kind: "a", Fields: []Field{{"b", "1"}, {"b", "1"}}}, ErrMalformed},
		"long":          {Statement{Kind: "a", Fields: []Field{{"b", strings.Repeat("x", MaxLine)}}}, ErrTooLong},
		"long, escaped": {Statement{Kind: "a", Fields: []Field{{"b", strings.Repeat(" ", MaxLine/3)}}}, ErrTooLong},
	} {
		dst, err := Append([]byte("x"), c.s)
		if !errors.Is(err, c.want) || string(dst) != "x" {
			t.Errorf("%s: %q, %v", name, dst, err)
		}
	}
}

func encode(t testing.TB, s Statement) []byte {
	line, err := Append(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestDecoder(t *testing.T) {
	const unchecked = "@jm sync seq=1 t=5"
	checked := string(encode(t, Sync{Seq: 2, Ticks: 6}.Statement()))
	broken := string(encode(t, Statement{Kind: "sync"}))
	broken = broken[:len(broken)-5] + "0000"
	rightButMalformed := "@jm X *" + strings.ToUpper(hex.EncodeToString([]byte{byte(CRC([]byte("@jm X")) >> 8), byte(CRC([]byte("@jm X")))}))
	for name, c := range map[string]struct {
		lines []string
		ok    string // one byte a line: y or n
		want  Counts
	}{
		"unchecked": {[]string{unchecked, "log", unchecked}, "yny", Counts{Lines: 3, Statements: 2, Unchecked: 2}},
		"evidence after a checked line": {[]string{unchecked, checked, unchecked, checked}, "yyny",
			Counts{Lines: 4, Statements: 3, Checked: 2, Unchecked: 1, Evidence: 1}},
		"a wrong CRC is no right one": {[]string{broken, unchecked}, "ny", Counts{Lines: 2, Statements: 1, Unchecked: 1, BadChecksum: 1}},
		"a right CRC over nonsense is one": {[]string{rightButMalformed, unchecked}, "nn",
			Counts{Lines: 2, Malformed: 1, Evidence: 1}},
		"too long": {[]string{strings.Repeat("x", MaxLine+1) + checked}, "n", Counts{Lines: 1, TooLong: 1}},
		"cut in the CRC": {[]string{checked[:len(checked)-2], checked[:len(checked)-5]}, "nn",
			Counts{Lines: 2, BadChecksum: 2}},
	} {
		var d Decoder
		for i, line := range c.lines {
			if _, ok := d.Decode([]byte(line)); ok != (c.ok[i] == 'y') {
				t.Errorf("%s: line %d: %v", name, i, ok)
			}
		}
		if d.Counts() != c.want {
			t.Errorf("%s: %+v, want %+v", name, d.Counts(), c.want)
		}
	}
}

// Damage on the wire must not yield a statement that nobody sent, once a line
// with a right CRC was seen. A CRC of 16 bits lets one in 65,536 damaged lines
// pass, if damage is random; small damage is always found.
func TestDamageIsFound(t *testing.T) {
	const rounds = 200_000
	seed := newSeed()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var lines [][]byte
	sent := map[string]bool{}
	for _, v := range vectors(t) {
		if v.Encode && !v.Command {
			line := v.bytes(t)
			lines = append(lines, line)
			s, err := Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			sent[s.String()] = true
		}
	}
	var d Decoder
	if _, ok := d.Decode(lines[0]); !ok {
		t.Fatal("a whole line was not accepted")
	}
	accepted, wrong := 0, 0
	for range rounds {
		line := damage(rng, slices.Clone(lines[rng.IntN(len(lines))]), lines)
		for part := range bytes.SplitSeq(line, []byte("\n")) {
			s, ok := d.Decode(part)
			if !ok {
				continue
			}
			if accepted++; !sent[s.String()] {
				wrong++
				t.Logf("accepted: %q", part)
			}
		}
	}
	t.Logf("%d lines, %d accepted, %d wrong", d.Counts().Lines, accepted, wrong)
	// 200,000/65,536 = 3.05 are expected if all damage were random; more than
	// 12 have a probability of 3e-5 (Poisson).
	if wrong > 12 {
		t.Errorf("%d wrong statements in %d damaged lines", wrong, rounds)
	}
	if accepted < rounds/100 {
		t.Errorf("only %d whole statements survived: the test damages too much", accepted)
	}
}

// damage does one to three things to a line that a wire does.
func damage(rng *rand.Rand, line []byte, others [][]byte) []byte {
	for range 1 + rng.IntN(3) {
		if len(line) < 2 {
			return line
		}
		i := rng.IntN(len(line))
		j := i + 1 + rng.IntN(min(8, len(line)-i))
		other := others[rng.IntN(len(others))]
		switch rng.IntN(6) {
		case 0: // cut
			line = line[:i]
		case 1: // flip
			line[i] ^= 1 << rng.IntN(8)
		case 2: // the line end was lost
			line = slices.Concat(line, other)
		case 3: // bytes were lost
			line = slices.Delete(line, i, j)
		case 4: // another line in between
			line = slices.Concat(line[:i], other[:rng.IntN(len(other))], line[i:])
		case 5: // noise
			line = slices.Insert(line, i, byte(rng.IntN(256)))
		}
	}
	return line
}

func seedLines(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.bytes(f))
	}
}

func FuzzParse(f *testing.F) {
	seedLines(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, command := range []bool{false, true} {
			s, err := parseAs(line, command)
			if err != nil {
				if outcome(s, err) == err.Error() {
					t.Fatalf("error of no known kind: %v", err)
				}
				continue
			}
			out, err := Append(nil, s)
			if errors.Is(err, ErrTooLong) {
				continue // what was not escaped, or had no CRC, may not fit
			}
			back, perr := parseAs(out, command)
			s.Checked = true
			if err != nil || perr != nil || !reflect.DeepEqual(s, back) {
				t.Fatalf("%v became %v through %q (%v, %v)", s, back, out, err, perr)
			}
			views(t, s)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("note", "text", "hello", "k", "@jm ")
	f.Add("win", "w", "12", "alg", "\x00=*%\xff")
	f.Fuzz(func(t *testing.T, kind, k1, v1, k2, v2 string) {
		s := Statement{Kind: kind, Fields: []Field{{k1, v1}, {k2, v2}}, Checked: true}
		line, err := Append(nil, s)
		if err != nil {
			return
		}
		back, err := Parse(append([]byte("I (1) log: "), line...))
		if len(line) > MaxLine-10 && errors.Is(err, ErrTooLong) {
			return
		}
		if err != nil || !reflect.DeepEqual(s, back) {
			t.Fatalf("%v became %v, %v", s, back, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	line := encode(b, aWin().Statement())
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	s := aWin().Statement()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = Append(buf[:0], s)
	}
}
