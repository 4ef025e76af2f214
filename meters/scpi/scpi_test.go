package scpi

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
	"github.com/joulemark/joulemark/meters/polled"
)

func TestConformance(t *testing.T) {
	meterstest.PolledSuite{
		Driver: Driver, Captures: "testdata/*.scpi",
		// A digit, sign or point that is another still makes a number.
		Unprotected: func(answer []byte, at int) bool {
			b := slices.Clone(answer)
			b[at] ^= 0x10
			_, err := Decode([]byte(strings.TrimSpace(string(b))))
			return err == nil
		},
	}.Run(t)
}

// instrument is a port to one that answers each line by a function, so late,
// host ns; "" is no answer.
type instrument struct {
	meterstest.Answering
	answer func(query string, n int) (line string, lateNs int64)
	asked  []string
	queue  []meterstest.Frame
	hostNs int64
}

func (i *instrument) HostNs() int64 { return i.hostNs }

func (i *instrument) Write(b []byte) error {
	q := strings.TrimSuffix(string(b), "\n")
	i.asked = append(i.asked, q)
	if line, late := i.answer(q, len(i.asked)); line != "" {
		at := i.hostNs + late
		if n := len(i.queue); n > 0 {
			at = max(at, i.queue[n-1].HostNs) // in order
		}
		i.queue = append(i.queue, meterstest.Frame{HostNs: at, Bytes: []byte(line + "\n")})
	}
	return nil
}

func (i *instrument) Read(b []byte, untilNs int64) (int, int64, error) {
	i.Answering.Exchanges = nil
	if len(i.queue) > 0 && i.queue[0].HostNs <= max(untilNs, i.hostNs) {
		i.hostNs = max(i.hostNs, i.queue[0].HostNs)
		n := copy(b, i.queue[0].Bytes)
		i.queue = i.queue[1:]
		return n, i.hostNs, nil
	}
	i.hostNs = max(i.hostNs, untilNs)
	_, _, err := i.Answering.Read(b, untilNs)
	return 0, i.hostNs, err
}

type outcome struct {
	info    meters.Info
	volts   []float64
	amps    []float64
	notices []meters.Notice
	err     error
}

func stream(t *testing.T, port *instrument, o meters.Options, seconds float64) (s outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	port.Passed = func(int64) {
		if float64(port.hostNs) >= seconds*1e9 {
			cancel()
		}
	}
	o.Notify = func(n meters.Notice) { s.notices = append(s.notices, n) }
	m, err := Driver.Open(ctx, port, o)
	if err != nil {
		t.Fatal(err)
	}
	s.err = m.Stream(ctx, func(b meters.Block) error {
		s.volts = append(s.volts, b.Values[0][0])
		s.amps = append(s.amps, b.Values[1][0])
		return nil
	})
	s.info = m.Info()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	return s
}

const idn = "ACME,P100,77,1.0"

func usual(query string) string {
	return map[string]string{"*IDN?": idn, "MEAS:VOLT?": "5", "MEAS:CURR?": "0.5", "SYST:ERR?": `0,"No error"`}[query]
}

// TestLate: answers that come seconds late are never taken for those to other
// queries, and an instrument that gets well again is heard; nor does it matter
// whether it knows SYST:ERR?.
func TestLate(t *testing.T) {
	for _, mute := range []string{"", "SYST:ERR?"} {
		port := &instrument{}
		port.answer = func(query string, n int) (string, int64) {
			switch {
			case query == mute:
				return "", 0
			case n%11 == 5 || n%11 == 6:
				return usual(query), 2.5e9
			}
			return usual(query), 20e6
		}
		s := stream(t, port, meters.Options{}, 120)
		good := 0
		for i, v := range s.volts {
			if math.IsNaN(v) {
				continue
			}
			good++
			if v != 5 || s.amps[i] != 0.5 {
				t.Fatalf("sample %d is %g V, %g A", i, v, s.amps[i])
			}
		}
		if s.err != nil || good < 20 || len(s.notices) == 0 {
			t.Errorf("without %s: %d good samples, %v, %v", mute, good, s.err, s.notices)
		}
	}
}

// TestOneLate: a late answer costs one sample.
func TestOneLate(t *testing.T) {
	port := &instrument{}
	port.answer = func(query string, n int) (string, int64) {
		if n == 9 {
			return usual(query), 2.5e9
		}
		return usual(query), 20e6
	}
	s := stream(t, port, meters.Options{}, 10)
	if port.asked[8] != ampsQuery || s.err != nil || len(s.notices) != 1 || s.notices[0].Count != 1 || s.notices[0].Code != polled.Unanswered {
		t.Errorf("%v, %+v, asked %v", s.err, s.notices, port.asked[:12])
	}
}

func TestIdentity(t *testing.T) {
	port := &instrument{answer: func(query string, n int) (string, int64) { return usual(query), 1e6 }}
	s := stream(t, port, meters.Options{}, 1)
	if s.info.Model != "ACME P100" || s.info.Serial != "77" || s.info.Firmware != "1.0" || port.asked[0] != "*IDN?" || s.err != nil {
		t.Errorf("%+v, %v, %v", s.info, port.asked[:3], s.err)
	}
	if i := slices.Index(port.asked[1:], "*IDN?"); i >= 0 || slices.Contains(port.asked, "SYST:ERR?") {
		t.Errorf("asked %v", port.asked)
	}
	// One that does not know who it is.
	port = &instrument{answer: func(query string, n int) (string, int64) {
		if query == "*IDN?" {
			return "", 0
		}
		return usual(query), 1e6
	}}
	s = stream(t, port, meters.Options{Model: "K1"}, 10)
	if s.err != nil || len(s.volts) < 10 || s.volts[0] != 5 || s.info.Model != "K1" {
		t.Errorf("%d samples, %v, %+v", len(s.volts), s.err, s.info)
	}
	// One that says what nobody should print.
	port.answer = func(query string, n int) (string, int64) {
		if query == "*IDN?" {
			return "A\x1b[2J,\x07" + strings.Repeat("x", 900) + ",s,f", 1e6
		}
		return usual(query), 1e6
	}
	s = stream(t, port, meters.Options{}, 1)
	if strings.ContainsAny(s.info.Model, "\x1b\x07") || len(s.info.Model) > 100 {
		t.Errorf("%q", s.info.Model)
	}
}

// TestErrors: what the instrument says of a query ends in the error.
func TestErrors(t *testing.T) {
	left := 0
	port := &instrument{}
	port.answer = func(query string, n int) (string, int64) {
		switch query {
		case "MEAS:CURR:DC?":
			left = 2
			return "", 0
		case "SYST:ERR?":
			if left > 0 {
				left--
				return `-113,"Undefined header"`, 1e6
			}
		}
		return usual(query), 1e6
	}
	s := stream(t, port, meters.Options{Settings: map[string]string{"amps": "MEAS:CURR:DC?"}}, 60)
	if s.err == nil || !errors.Is(s.err, meters.ErrNoSamples) || !strings.Contains(s.err.Error(), "Undefined header") || !strings.Contains(s.err.Error(), "MEAS:CURR:DC?") {
		t.Errorf("%v", s.err)
	}
	// A queue of errors without an end.
	port = &instrument{answer: func(query string, n int) (string, int64) {
		if query == "SYST:ERR?" || query == "MEAS:VOLT?" {
			return `-350,"Queue overflow"`, 1e6
		}
		return usual(query), 1e6
	}}
	s = stream(t, port, meters.Options{}, 60)
	if s.err == nil || port.hostNs > 20e9 {
		t.Errorf("%v after %d ns", s.err, port.hostNs)
	}
}

// TestOnlyQueries: nothing that could switch anything is sent.
func TestOnlyQueries(t *testing.T) {
	for _, bad := range []string{"OUTP ON", "OUTP ON;MEAS:VOLT?", "MEAS:VOLT?;OUTP ON", "MEAS:VOLT?\nOUTP ON", "*RST", "", "?", "VOLT 5?", "MEAS:VOLT? 1;OUTP OFF", "MEAS:VOLT?\r", "MEAS:VOLT??"} {
		for _, key := range []string{"volts", "amps"} {
			if _, err := Driver.Open(context.Background(), &instrument{}, meters.Options{Settings: map[string]string{key: bad}}); err == nil {
				t.Errorf("%s=%q was taken", key, bad)
			}
		}
	}
	port := &instrument{answer: func(query string, n int) (string, int64) {
		return map[string]string{"*IDN?": idn, "FETC:VOLT? (@2)": "12.5", "MEAS:CURR:DC? CH1": "1.5"}[query], 1e6
	}}
	s := stream(t, port, meters.Options{Settings: map[string]string{"volts": "FETC:VOLT? (@2)", "amps": "MEAS:CURR:DC? CH1"}}, 1)
	if s.err != nil || s.volts[0] != 12.5 || s.amps[0] != 1.5 {
		t.Errorf("%v", s)
	}
	for _, q := range port.asked {
		if !queryForm.MatchString(q) {
			t.Errorf("%q was sent", q)
		}
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]float64{"5": 5, " +5.00012E+00 ": 5.00012, "-.5e-3": -0.0005, "7.": 7, "+9.91E37": math.NaN(), "-9.9E37": math.NaN()} {
		got, err := Decode([]byte(text))
		if err != nil || got != want && !math.IsNaN(want) || math.IsNaN(want) != math.IsNaN(got) {
			t.Errorf("%q is %g, %v, want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "NaN", "inf", "0x10", "1_0", "5 V", "5,3", "1e7", "1e999", "--5", ".", "e5", "\x00"} {
		if v, err := Decode([]byte(text)); !errors.Is(err, polled.ErrDamaged) {
			t.Errorf("%q is %g, %v", text, v, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("+5.00012E+00"))
	f.Add([]byte("9.91E37"))
	f.Fuzz(func(t *testing.T, line []byte) {
		v, err := Decode(line)
		if math.Abs(v) > mostValue || err != nil && v != 0 {
			t.Fatalf("%g, %v", v, err)
		}
	})
}

// FuzzStream: whatever an instrument says, the driver comes to an end, and no
// sample is beyond what can be.
func FuzzStream(f *testing.F) {
	f.Add(idn+"\n5\n0.5\n", uint16(3))
	f.Add("\n\n\n", uint16(2000))
	f.Fuzz(func(t *testing.T, said string, lateMs uint16) {
		lines := strings.Split(said, "\n")
		port := &instrument{answer: func(query string, n int) (string, int64) { return lines[n%len(lines)], int64(lateMs%3000) * 1e6 }}
		s := stream(t, port, meters.Options{}, 20)
		for i := range s.volts {
			if math.Abs(s.volts[i]) > mostValue || math.Abs(s.amps[i]) > mostValue {
				t.Fatalf("%g V, %g A", s.volts[i], s.amps[i])
			}
		}
	})
}
