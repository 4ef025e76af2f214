package ppk2_test

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	emulated "github.com/joulemark/joulemark/bench/ppk2"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
	"github.com/joulemark/joulemark/meters/ppk2"
)

const (
	second = int64(time.Second)
	// settled is how many samples after a start the driver leaves out.
	settled = 5000
)

// steps is a load through all ranges, whose inputs count milliseconds.
func steps(meterSeconds float64) emulated.Reading {
	ms := int(math.Floor(meterSeconds * 1000))
	amps := [...]float64{3e-6, 3e-6, 200e-6, 2e-3, 30e-3, 300e-3, 300e-3, 30e-3, 40e-6}[ms/7%9]
	return emulated.Reading{Amps: amps * (1 + 0.1*math.Sin(meterSeconds*2500)), Digital: byte(ms)}
}

// row is a sample as the driver yields it at 3.3 V.
func row(r emulated.Reading) []float64 {
	v := []float64{3.3, r.Amps}
	for i := range 8 {
		v = append(v, float64(r.Digital>>i&1))
	}
	return v
}

// conversation records what an emulated meter sends, and what is in it after
// the samples that are left out.
func conversation(t *testing.T, load emulated.Load, samples int) (parts []meterstest.Part, want [][]float64) {
	t.Helper()
	d := emulated.New(load, emulated.Faults{}, 1)
	d.Sent = func(index int64, r emulated.Reading) {
		// The last word of a stream has none that proves it.
		if index >= settled && index < int64(samples)-1 {
			want = append(want, row(r))
		}
	}
	p := d.Open()
	for _, c := range []struct {
		command []byte
		bytes   int
	}{{[]byte{0x19}, 0}, {[]byte{0x06}, 4 * samples}} {
		if err := p.Write(c.command); err != nil {
			t.Fatal(err)
		}
		part := meterstest.Part{On: c.command}
		b := make([]byte, 1<<16)
		for len(part.Bytes) == 0 || len(part.Bytes) < c.bytes {
			n, _, err := p.Read(b, d.HostNs()+second)
			if err != nil {
				t.Fatal(err)
			}
			part.Bytes = append(part.Bytes, b[:n]...)
		}
		if c.bytes > 0 {
			part.Bytes = part.Bytes[:c.bytes]
		}
		parts = append(parts, part)
	}
	return parts, want
}

func TestConformance(t *testing.T) {
	// One range, so that no sample is replaced and all are as the meter sent them.
	load := func(s float64) emulated.Reading {
		r := steps(s)
		r.Amps = 20e-3 * (1 + 0.1*math.Sin(s*2500))
		return r
	}
	parts, want := conversation(t, load, settled+2000)
	meterstest.StreamSuite{
		Driver: ppk2.Driver, Options: meters.Options{Settings: map[string]string{"ampere": "3.3V"}},
		Parts: parts, Want: want, Tolerance: 1e-12,
		From: 4 * (settled + 700), To: 4 * (settled + 730), Reach: 40, SampleBytes: 4,
	}.Run(t)
}

// session is one stream of an emulated meter.
type session struct {
	amps    []float64
	inputs  []byte
	raw     []byte
	text    string
	notices map[string]meters.Notice
	order   []string // notices, and blocks with samples after a notice
	err     error
}

func stream(t *testing.T, port meters.Port, untilNs int64, set string) session {
	t.Helper()
	s := session{notices: map[string]meters.Notice{}}
	o := meters.Options{Settings: map[string]string{}, Notify: func(n meters.Notice) {
		s.notices[n.Code] = n
		s.order = append(s.order, n.Code)
	}}
	for _, pair := range strings.Split(set, ",") {
		k, v, _ := strings.Cut(pair, "=")
		o.Settings[k] = v
	}
	m, err := ppk2.Driver.Open(context.Background(), port, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.err = m.Stream(ctx, func(b meters.Block) error {
		s.amps = append(s.amps, b.Values[1]...)
		for k := range b.Len() {
			var levels byte
			for i, v := range b.Values[2:] {
				if v[k] == 1 {
					levels |= 1 << i
				}
			}
			s.inputs = append(s.inputs, levels)
		}
		if s.text == "" {
			s.text = string(b.Raw)
		} else {
			s.raw = append(s.raw, b.Raw...)
		}
		if n := len(s.order); b.Len() > 0 && n > 0 && s.order[n-1] != "block" {
			s.order = append(s.order, "block")
		}
		if port.HostNs() >= untilNs {
			cancel()
		}
		return nil
	})
	for range 2 {
		if err := m.Close(); err != nil && !errors.Is(s.err, emulated.ErrAbsent) {
			t.Error(err)
		}
	}
	return s
}

func (s session) unknown() (n int) {
	for _, a := range s.amps {
		if math.IsNaN(a) {
			n++
		}
	}
	return n
}

func (s session) codes() string {
	var codes []string
	for code, n := range s.notices {
		if n.Warn {
			code += "!"
		}
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return strings.Join(codes, " ")
}

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name    string
		faults  emulated.Faults
		unknown [2]int
		codes   string
		err     error
	}{
		{name: "calm", codes: "settling"},
		{name: "losing bytes", faults: emulated.Faults{LostBytes: 0.01}, unknown: [2]int{10, 200}, codes: "lost-samples settling"},
		{name: "losing samples", faults: emulated.Faults{LostSamples: 0.02}, unknown: [2]int{200, 2000}, codes: "lost-samples! settling"},
		{name: "losing both", faults: emulated.Faults{LostSamples: 0.02, LostBytes: 0.02}, unknown: [2]int{200, 2000}, codes: "lost-samples! settling"},
		{name: "garbage before the calibration", faults: emulated.Faults{Garbage: 300}, codes: "settling"},
		{name: "damaged calibrations, and a whole one", faults: emulated.Faults{Garbled: 2}, codes: "settling"},
		{name: "nothing but damaged ones", faults: emulated.Faults{Garbled: 3}, codes: "settling uncalibrated!"},
		{name: "left streaming", faults: emulated.Faults{Streaming: true}, codes: "settling"},
		{name: "not calibrated", faults: emulated.Faults{Nan: true}, codes: "settling uncalibrated!"},
		{name: "peaks at the start", faults: emulated.Faults{Spiky: 4000}, codes: "settling"},
		{name: "refusing", faults: emulated.Faults{Refused: 0.3}, codes: "settling"},
		{name: "pausing", faults: emulated.Faults{PauseSeconds: 1}, codes: "interrupted! settling"},
		{name: "unplugged", faults: emulated.Faults{UnplugSeconds: 1.5}, codes: "settling", err: emulated.ErrAbsent},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := emulated.New(steps, c.faults, 1)
			var sent []emulated.Reading
			d.Sent = func(index int64, r emulated.Reading) {
				if index == 0 {
					sent = sent[:0]
				}
				sent = append(sent, r)
			}
			untilNs := 2 * second
			if c.faults.Nan || c.faults.Garbled > 0 {
				untilNs += 2 * second // it is asked three times
			}
			s := stream(t, d.Open(), untilNs, "ampere=3.3V,spikes=off")
			if c.err == nil && s.err != nil || !errors.Is(s.err, c.err) {
				t.Errorf("stream ended with %v, want %v", s.err, c.err)
			}
			if s.codes() != c.codes {
				t.Errorf("notices %q, want %q", s.codes(), c.codes)
			}
			if n := s.unknown(); n < c.unknown[0] || n > c.unknown[1] || int64(n) != s.notices[meters.LostSamples].Count {
				t.Errorf("%d samples are unknown, %d counted, want %v", n, s.notices[meters.LostSamples].Count, c.unknown)
			}
			if c.faults.PauseSeconds > 0 {
				return
			}
			if len(s.amps) < 100000 {
				t.Errorf("%d samples", len(s.amps))
			}
			// Inputs are not disturbed by changes of range: none is wrong, nor at
			// another place.
			for i, got := range s.inputs {
				if want := sent[settled+i].Digital; !math.IsNaN(s.amps[i]) && got != want {
					t.Fatalf("sample %d has the inputs %02x, want %02x", i, got, want)
				}
			}
		})
	}
}

// An interruption is told before the samples that follow it, and those of the
// new stream are left out as those of the first were.
func TestInterruption(t *testing.T) {
	d := emulated.New(steps, emulated.Faults{PauseSeconds: 1, Spiky: 4000}, 1)
	s := stream(t, d.Open(), 7*second/2, "ampere=3.3V")
	if got := strings.Join(s.order, " "); got != "interrupted block settling" {
		t.Errorf("order is %s", got)
	}
	if n := s.notices[meters.Interrupted]; n.GapNs <= meters.SegmentGapNs || n.GapNs > 5*second/2 {
		t.Errorf("a gap of %d ns", n.GapNs)
	}
	if n := s.notices[ppk2.Settling].Count; n != 2*settled {
		t.Errorf("%d samples were left out", n)
	}
	for i, a := range s.amps {
		if a > 0.5 {
			t.Fatalf("sample %d is a peak: %g A", i, a)
		}
	}
}

// sleepy is a port of a host that sleeps for two seconds in the middle of a
// read, and so does its line.
type sleepy struct {
	meters.Port
	sleptNs int64
}

func (p *sleepy) HostNs() int64 { return p.Port.HostNs() + p.sleptNs }

func (p *sleepy) Read(b []byte, untilNs int64) (int, int64, error) {
	if p.sleptNs == 0 && p.HostNs() > second {
		p.sleptNs = 2 * second
		return 0, p.HostNs(), os.ErrDeadlineExceeded
	}
	n, hostNs, err := p.Port.Read(b, untilNs-p.sleptNs)
	return n, hostNs + p.sleptNs, err
}

// A host that sleeps blames no meter: nothing is started anew or left out.
func TestHostSleeps(t *testing.T) {
	d := emulated.New(steps, emulated.Faults{}, 1)
	s := stream(t, &sleepy{Port: d.Open()}, 4*second, "ampere=3.3V")
	if s.err != nil || s.codes() != "settling" || s.notices[ppk2.Settling].Count != settled {
		t.Errorf("%+v: %v", s.notices, s.err)
	}
}

// The filter replaces what is disturbed by changes of range: no sample is a
// peak, and the charge is right. Without it, peaks show.
func TestSpikes(t *testing.T) {
	for _, c := range []struct {
		set  string
		peak [2]float64 // A, from and to
	}{{"ampere=3.3V", [2]float64{29e-3, 31e-3}}, {"ampere=3.3V,spikes=off", [2]float64{40e-3, 60e-3}}} {
		d := emulated.New(func(s float64) emulated.Reading {
			return emulated.Reading{Amps: []float64{2e-3, 30e-3}[int(s*1000)/5%2]}
		}, emulated.Faults{}, 1)
		s := stream(t, d.Open(), second, c.set)
		peak, sum, n := 0.0, 0.0, len(s.amps)/1000*1000 // whole periods
		for _, a := range s.amps[:n] {
			peak = max(peak, a)
			sum += a
		}
		if peak < c.peak[0] || peak > c.peak[1] {
			t.Errorf("%s: the highest sample is %g A", c.set, peak)
		}
		if mean := sum / float64(n); math.Abs(mean/16e-3-1) > 0.005 {
			t.Errorf("%s: mean is %g A, want 16 mA", c.set, mean)
		}
	}
}

// A target is switched on, supplied and switched off only as it was said.
func TestPower(t *testing.T) {
	for _, c := range []struct {
		name, set  string
		before     []byte // commands of an earlier program
		on, source bool   // while it streams
		volts      float64
		after      bool // on, after Close
		err        string
	}{
		{name: "nothing said", set: "ampere=3.3V", volts: 3},
		{name: "on from before", set: "ampere=3.3V", before: []byte{0x0c, 1}, on: true, volts: 3, after: true},
		{name: "ampere, on", set: "ampere=3.3V,power=on", on: true, volts: 3},
		{name: "ampere, stay", set: "ampere=3.3V,power=stay", on: true, volts: 3, after: true},
		{name: "source, on", set: "source=1.805V,power=on", on: true, source: true, volts: 1.805},
		{name: "source, stay", set: "source=5V,power=stay", on: true, source: true, volts: 5, after: true},
		{name: "source from before", set: "source=1.8V", before: []byte{0x11, 2, 0x0c, 1}, on: true, source: true, volts: 1.8, after: true},
		{name: "source would power the target", set: "source=1.8V", before: []byte{0x0c, 1}, on: true, volts: 3, after: true,
			err: "set up PPK2: it is not in source mode, and to change that may power the target"},
	} {
		d := emulated.New(steps, emulated.Faults{}, 1)
		if err := d.Open().Write(c.before); err != nil {
			t.Fatal(err)
		}
		var on, source bool
		var volts float64
		d.Sent = func(int64, emulated.Reading) {
			on = d.Powered()
			source, volts = d.Source()
		}
		s := stream(t, d.Open(), second, c.set)
		if c.err != "" {
			if s.err == nil || s.err.Error() != c.err || meters.Hint(s.err) == "" {
				t.Errorf("%s: error %v (%s), want %s", c.name, s.err, meters.Hint(s.err), c.err)
			}
		} else if s.err != nil || on != c.on || source != c.source || volts != c.volts {
			t.Errorf("%s: on %v, source %v, %g V: %v", c.name, on, source, volts, s.err)
		}
		if d.Powered() != c.after || d.Streaming() {
			t.Errorf("%s: on %v and streaming %v afterwards", c.name, d.Powered(), d.Streaming())
		}
	}
}

func TestSettings(t *testing.T) {
	for set, want := range map[string]string{
		"":                       "open ppk2: exactly one of source= and ampere= is wanted",
		"source=3V,ampere=3V":    "open ppk2: exactly one of source= and ampere= is wanted",
		"source=3":               `open ppk2: "3" has no unit (want V)`,
		"source=0.7V":            "open ppk2: 0.7V is not between 0.8 V and 5 V",
		"ampere=5.001V":          "open ppk2: 5.001V is not between 0.8 V and 5 V",
		"ampere=NaNV":            `open ppk2: "NaNV" is not a number and a unit of V`,
		"ampere=3.3V,power=off":  "open ppk2: power=off is neither on nor stay",
		"ampere=3.3V,spikes=on":  "open ppk2: spikes=on is not off",
		"ampere=3300mV":          "",
		"source=3.3V,power=stay": "",
	} {
		o := meters.Options{Settings: map[string]string{}}
		for _, pair := range strings.Split(set, ",") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				o.Settings[k] = v
			}
		}
		_, err := ppk2.Driver.Open(context.Background(), emulated.New(steps, emulated.Faults{}, 1).Open(), o)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: error %v, want %s", set, err, want)
		}
	}
}

// The calibration and the stream are kept as received.
func TestRaw(t *testing.T) {
	d := emulated.New(steps, emulated.Faults{}, 1)
	s := stream(t, d.Open(), second, "ampere=3.3V")
	if !strings.HasPrefix(s.text, "Calibrated: 1\n") || !strings.HasSuffix(s.text, "END\n") {
		t.Errorf("the first block holds %q", s.text)
	}
	// The last word has none that proves it.
	if n := len(s.raw)/4 - 1; n != settled+len(s.amps) {
		t.Errorf("%d words in the stream, %d samples", n, settled+len(s.amps))
	}
}

func TestSilent(t *testing.T) {
	for _, c := range []struct {
		name string
		port meters.Port
		want string
	}{
		{"dumb", &meterstest.Port{}, "it does not tell its calibration"},
		{"deaf", emulated.New(steps, emulated.Faults{Refused: 1}, 1).Open(), "it takes no commands"},
		{"frozen", emulated.New(steps, emulated.Faults{PauseSeconds: 0.001}, 1).Open(), ""},
	} {
		s := stream(t, c.port, 3*second, "ampere=3.3V")
		if c.want == "" {
			if s.err != nil {
				t.Errorf("%s: %v", c.name, s.err)
			}
			continue
		}
		if !errors.Is(s.err, meters.ErrNoSamples) || !strings.Contains(s.err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, s.err)
		}
	}
}

// An error of emit ends the stream as it is.
func TestEmitFails(t *testing.T) {
	d := emulated.New(steps, emulated.Faults{}, 1)
	m, err := ppk2.Driver.Open(context.Background(), d.Open(), meters.Options{Settings: map[string]string{"ampere": "3V"}})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if err := m.Stream(context.Background(), func(meters.Block) error { return full }); err != full {
		t.Errorf("got %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if d.Streaming() {
		t.Error("the meter streams after it was closed")
	}
}
