package execmeter_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/execmeter"
	"github.com/joulemark/joulemark/meters/meterstest"
)

// header is a first line with further members.
func header(members string) string {
	all := []string{`"schema":"joulemark.exec-meter/1"`}
	if !strings.Contains(members, `"columns"`) {
		all = append(all, `"columns":["volts","amps"]`)
	}
	if !strings.Contains(members, `"rate_hz"`) {
		all = append(all, `"rate_hz":100`)
	}
	if members != "" {
		all = append(all, members)
	}
	return "{" + strings.Join(all, ",") + "}\n"
}

// frame makes a binary frame of columns.
func frame(index uint64, columns ...[]float32) string {
	b := make([]byte, 4)
	b = binary.LittleEndian.AppendUint64(b, index)
	for _, c := range columns {
		for _, v := range c {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return string(b)
}

func TestConformance(t *testing.T) {
	var lines, frames strings.Builder
	var want [][]float64
	lines.WriteString(header(`"driver":"mine"`))
	frames.WriteString(header(`"framing":"binary"`))
	for i := range 200 {
		x := float64(i)
		fmt.Fprintf(&lines, `{"t_s":%g,"volts":[5,5.25],"amps":[%g,null],"extra":{"a":[1]}}`+"\n", x/50, x)
		nan := float32(math.NaN())
		frames.WriteString(frame(uint64(2*i), []float32{5, 5.25}, []float32{float32(i), nan}))
		want = append(want, []float64{5, x}, []float64{5.25, math.NaN()})
	}
	for name, text := range map[string]string{"lines": lines.String(), "binary": frames.String()} {
		t.Run(name, func(t *testing.T) {
			meterstest.StreamSuite{Driver: execmeter.Driver, Parts: []meterstest.Part{{Bytes: []byte(text)}}, Want: want}.Run(t)
		})
	}
}

// program is a port that hands text over and ends with err; without one it is
// silent then. Its messages are what it said.
type program struct {
	text     string
	err      error
	messages string
	hostNs   int64
}

func (p *program) Read(b []byte, untilNs int64) (int, int64, error) {
	if p.text != "" {
		n := copy(b, p.text)
		p.text = p.text[n:]
		p.hostNs += int64(time.Millisecond)
		return n, p.hostNs, nil
	}
	p.hostNs = max(p.hostNs, untilNs)
	if p.err != nil {
		return 0, p.hostNs, p.err
	}
	return 0, p.hostNs, os.ErrDeadlineExceeded
}
func (p *program) Write([]byte) error { return errors.ErrUnsupported }
func (p *program) HostNs() int64      { return p.hostNs }
func (p *program) Close() error       { return nil }
func (p *program) Messages() string   { return p.messages }

// session writes what a driver makes of a program: for each block its amps and
// times, notices by their codes, and the error.
func session(p *program) string {
	var did []string
	m, err := execmeter.Driver.Open(context.Background(), p, meters.Options{Notify: func(n meters.Notice) {
		text := n.Code
		if n.Count > 0 {
			text += fmt.Sprintf("*%d", n.Count)
		}
		if n.GapNs > 0 {
			text += fmt.Sprintf("+%.3gs", float64(n.GapNs)/1e9)
		}
		did = append(did, text)
	}})
	if err != nil {
		return "open: " + err.Error()
	}
	err = m.Stream(context.Background(), func(b meters.Block) error {
		text := fmt.Sprint(b.Values[1])
		if b.TimesNs != nil {
			text += fmt.Sprintf("@%d", b.TimesNs)
		}
		did = append(did, text)
		return nil
	})
	if err != nil {
		did = append(did, "error: "+err.Error())
	}
	return strings.Join(did, " ")
}

func TestStream(t *testing.T) {
	one := func(t, amps string) string { return `{"t_s":` + t + `,"volts":[5],"amps":[` + amps + `]}` + "\n" }
	exit := errors.New(`prog ended: exit status 3: "no meter"`)
	for _, c := range []struct {
		name, text string
		err        error
		messages   string
		want       string
	}{
		{"a program that ends", header("") + one("0", "1") + one("0.01", "2"), io.EOF, "", "[1 2]"},
		{"that said something", header("") + one("0", "1"), io.EOF, "hello", "[1] program-messages"},
		{"the first time is not 0", header("") + one("7", "1") + one("7.01", "2"), io.EOF, "", "[1 2]"},
		{"no times", header("") + `{"volts":[5,5],"amps":[1,2]}` + "\n", io.EOF, "", "[1 2]"},
		{"a jump", header("") + one("0", "1") + one("0.04", "2"), io.EOF, "", "[1 NaN NaN NaN 2] lost-samples*3"},
		{"half a sample is no jump", header("") + one("0", "1") + one("0.0149", "2") + one("0.0151", "3"), io.EOF, "", "[1 2 3]"},
		{"a long jump", header("") + one("0", "1") + one("3", "2"), io.EOF, "", "[1] interrupted*1+2.99s [2]"},
		{"binary", header(`"framing":"binary"`) + frame(9, []float32{5}, []float32{1}) + frame(12, []float32{5}, []float32{2}), io.EOF, "", "[1 NaN NaN 2] lost-samples*2"},
		{"binary, a long jump", header(`"framing":"binary"`) + frame(0, []float32{5}, []float32{1}) + frame(1<<30, []float32{5}, []float32{2}), io.EOF, "", "[1] interrupted*1+1.07e+07s [2]"},
		{"a fast meter, a short jump", header(`"framing":"binary","rate_hz":1e9`) + frame(0, []float32{5}, []float32{1}) + frame(9e8, []float32{5}, []float32{2}), io.EOF, "", "[1] interrupted*1+1s [2]"},
		{"infinity", header(`"framing":"binary"`) + frame(0, []float32{5, 5}, []float32{1, float32(math.Inf(1))}), io.EOF, "", "[1 NaN]"},
		{"no rate", header(`"rate_hz":0`) + one("1", "1") + one("1.5", "2"), io.EOF, "", "[1 2]@[0 500000000]"},
		{"not understood", header("") + one("0", "1") + "DEBUG\n" + one("0.01", "2") + `{"volts":[5],"amps":[1e39]}` + "\n" + `{"volts":[5]}` + "\n", io.EOF, "", "[1 2] bad-packets*3"},

		{"it fails", header("") + one("0", "1"), exit, "no meter", `[1] program-messages error: read exec meter: prog ended: exit status 3: "no meter"`},
		{"no sample", header(""), io.EOF, "none", `program-messages error: stream exec meter: the meter sends no samples: its output ended before the first one: it said "none"`},
		{"a torn line", header("") + one("0", "1") + `{"t_s"`, io.EOF, "", "[1] error: stream exec meter: its output ended within a packet"},
		{"times that are a sample off", header("") + one("0", "1") + one("0.016", "2") + one("0.024", "3") + one("0.031", "4"), io.EOF, "", "[1 NaN 2 3 4] lost-samples*1"},
		{"time goes back", header("") + one("0", "1") + one("0", "2"), io.EOF, "", "[1] error: stream exec meter: t_s goes back, to 0 s: sample 1 is due"},
		{"time goes back without a rate", header(`"rate_hz":0`) + one("1", "1") + one("0.5", "2"), io.EOF, "", "[1]@[0] error: stream exec meter: t_s goes back, to 0.5 s"},
		{"the index goes back", header(`"framing":"binary"`) + frame(1, []float32{5}, []float32{1}) + frame(1, []float32{5}, []float32{1}), io.EOF, "", "[1] error: stream exec meter: a frame that begins with sample 1: the next one is 2"},
		{"an impossible index", header(`"framing":"binary"`) + frame(1<<50, []float32{5}, []float32{1}), io.EOF, "", "error: stream exec meter: a frame that begins with sample 1125899906842624, beyond 1e+09 s"},
		{"an empty frame", header(`"framing":"binary"`) + frame(0), io.EOF, "", "error: stream exec meter: a frame of 8 bytes: want 8 and a multiple of 8, at most 16777216"},
		{"half a row", header(`"framing":"binary"`) + frame(0, []float32{5}), io.EOF, "", "error: stream exec meter: a frame of 12 bytes: want 8 and a multiple of 8, at most 16777216"},
		{"a huge frame", header(`"framing":"binary"`) + "\xff\xff\xff\xff", io.EOF, "", "error: stream exec meter: a frame of 4294967295 bytes: want 8 and a multiple of 8, at most 16777216"},
		{"an endless line", header("") + one("0", "1") + strings.Repeat("x", 40<<20), io.EOF, "", "[1] error: stream exec meter: a line of more than 16777216 bytes"},

		{"no first line", "", io.EOF, "where is my meter", `open: open exec meter: the meter sends no samples: it ended before its first line: it said "where is my meter"`},
		{"silent", "", nil, "", "open: open exec meter: the meter sends no samples: no line within 10 s"},
		{"it fails at once", "", exit, "no meter", `open: open exec meter: prog ended: exit status 3: "no meter"`},
	} {
		if got := session(&program{text: c.text, err: c.err, messages: c.messages}); got != c.want {
			t.Errorf("%s:\n got %.300s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestHeader(t *testing.T) {
	m, err := execmeter.Driver.Open(context.Background(), &program{text: header(`"driver":"mine","model":"Bench PSU","serial":"7","firmware":"1.2",` +
		`"columns":["volts","amps","d0"],"rate_hz":2e6,"packet_samples":500,"sample":"mean","accuracy":"v=0.5%,a=1mA","simulated":true,"later":1`)}, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := m.Info()
	if i.Driver != "mine" || i.Model != "Bench PSU" || i.Serial != "7" || i.Firmware != "1.2" || len(i.Columns) != 3 || i.RateHz != 2e6 || i.PacketSamples != 500 ||
		i.Sample != meters.Mean || i.Accuracy.String() != "v=0.5%,a=1mA" || !i.Simulated || i.Clock != meters.ByArrival {
		t.Errorf("%+v", i)
	}
	for text, want := range map[string]string{
		"hello\n": "invalid character 'h' looking for beginning of value",
		`{"schema":"joulemark.exec-meter/2"}` + "\n":                     `schema "joulemark.exec-meter/2", want joulemark.exec-meter/1`,
		`{"schema":"joulemark.exec-meter/1"}` + "\n":                     "0 columns, want 1 to 64",
		header(`"columns":["volts"]`):                                    "columns volts: want volts and amps, or watts",
		header(`"columns":["watts","watts"]`):                            `column "watts": want different names of a-z 0-9 _, not t_ns`,
		header(`"columns":["watts","../x"]`):                             `column "../x": want different names of a-z 0-9 _, not t_ns`,
		`{"schema":"joulemark.exec-meter/1","columns":["watts"]}` + "\n": "no rate_hz; 0 says that samples are not equidistant",
		header(`"rate_hz":-1`):                                           "rate_hz -1 is not between 0 and 1e+09",
		header(`"framing":"zip"`):                                        `framing "zip" is neither lines nor binary`,
		header(`"framing":"binary","rate_hz":0`):                         "framing binary needs a rate_hz",
		header(`"speed":10`):                                             "its time runs 10 times as fast as ours: run it at speed 1",
		header(`"sample":"peak"`):                                        `sample "peak" is none of mean, point, unknown`,
		header(`"accuracy":"good"`):                                      `accuracy "good": "good" is not NAME=LIMIT`,
		header(`"model":"` + strings.Repeat("x", 201) + `"`):             "a name of 201 bytes, want at most 200",
	} {
		_, err := execmeter.Driver.Open(context.Background(), &program{text: text}, meters.Options{})
		if err == nil || err.Error() != "open exec meter: its first line: "+want || meters.Hint(err) == "" {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
}

// A long jump comes in blocks of bounded size.
func TestManyMissing(t *testing.T) {
	p := &program{err: io.EOF, text: header(`"framing":"binary","rate_hz":2e6`) + frame(0, []float32{5}, []float32{1}) + frame(2e6, []float32{5}, []float32{2})}
	m, err := execmeter.Driver.Open(context.Background(), p, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows, longest := 0, 0
	err = m.Stream(context.Background(), func(b meters.Block) error {
		rows += b.Len()
		longest = max(longest, b.Len())
		return nil
	})
	if err != nil || rows != 2e6+1 || longest > 1<<17 {
		t.Errorf("%d samples, at most %d in a block: %v", rows, longest, err)
	}
}

// An error of emit ends the stream as it is, and so does the end of the context
// before the first line.
func TestStops(t *testing.T) {
	full := errors.New("disk full")
	m, err := execmeter.Driver.Open(context.Background(), &program{text: header("") + `{"volts":[5],"amps":[1]}` + "\n"}, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Stream(context.Background(), func(meters.Block) error { return full }); err != full {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := execmeter.Driver.Open(ctx, &program{}, meters.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// FuzzStream: whatever a program writes, blocks are whole and their values can
// be stored.
func FuzzStream(f *testing.F) {
	f.Add(header("") + `{"t_s":0,"volts":[5],"amps":[null]}` + "\n" + `{"t_s":0.05,"volts":[5],"amps":[1]}` + "\n")
	f.Add(header(`"rate_hz":0`) + `{"t_s":0,"volts":[5],"amps":[1]}` + "\n")
	f.Add(header(`"framing":"binary"`) + frame(0, []float32{5, 5}, []float32{1, 2}) + frame(1<<50, []float32{5}, []float32{1}))
	f.Add(header(`"columns":["watts","volts"],"rate_hz":1e9`) + `{"t_s":-1e9,"watts":[1],"volts":[1]}` + "\n" + `{"t_s":1e9,"watts":[1],"volts":[1]}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		p := &program{text: text, err: io.EOF}
		m, err := execmeter.Driver.Open(context.Background(), p, meters.Options{})
		if err != nil {
			return
		}
		i := m.Info()
		last := int64(math.MinInt64)
		m.Stream(context.Background(), func(b meters.Block) error {
			if len(b.Values) != len(i.Columns) || (i.RateHz == 0) != (b.TimesNs != nil) {
				t.Fatalf("%d columns, %d times", len(b.Values), len(b.TimesNs))
			}
			for _, v := range b.Values {
				if len(v) != b.Len() || b.TimesNs != nil && len(b.TimesNs) != len(v) {
					t.Fatalf("columns of %d and %d values", len(v), b.Len())
				}
				for _, x := range v {
					if math.Abs(x) > math.MaxFloat32 {
						t.Fatalf("a value of %g", x)
					}
				}
			}
			for _, ns := range b.TimesNs {
				if ns < last {
					t.Fatalf("time goes back to %d ns", ns)
				}
				last = ns
			}
			return nil
		})
	})
}

// Without a rate, times go on from the arrival of the first ones.
func TestTimesAreTheHosts(t *testing.T) {
	p := &program{err: io.EOF, hostNs: 5e9, text: header(`"rate_hz":0`) +
		`{"t_s":1,"volts":[5],"amps":[1]}` + "\n" + `{"t_s":1.5,"volts":[5],"amps":[2]}` + "\n"}
	m, err := execmeter.Driver.Open(context.Background(), p, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var arrived, last int64
	err = m.Stream(context.Background(), func(b meters.Block) error {
		arrived, last = b.ArrivalNs, b.TimesNs[b.Len()-1]
		return nil
	})
	if i := m.Info(); err != nil || i.Clock != meters.Shared || i.FirstHostNs != arrived-last || arrived < 5e9 || last != 500_000_000 {
		t.Errorf("%+v: %d ns arrived at %d, %v", i, last, arrived, err)
	}
}
