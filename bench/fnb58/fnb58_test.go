package fnb58

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
)

func command(c byte) []byte {
	b := seal([64]byte{1: c})
	return b[:]
}

// drive sends commands at host times (ms) and returns the arrivals (ms) of
// reports until the end, by kind.
func drive(t *testing.T, f Faults, endMs int64, commands map[int64]byte) (arrivals map[byte][]int64, err error) {
	t.Helper()
	d := New(Every(func(float64) Reading { return Reading{Volts: 5} }), f, 1)
	p := d.Open()
	arrivals = map[byte][]int64{}
	b := make([]byte, 64)
	for at := int64(0); at <= endMs; at++ {
		for {
			n, hostNs, err := p.Read(b, at*ms)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return arrivals, err
			}
			if n != 64 || b[0] != 0xaa || hostNs > at*ms {
				t.Fatalf("a report of %d bytes at %d ns, asked until %d ms: % x", n, hostNs, at, b)
			}
			arrivals[b[1]] = append(arrivals[b[1]], hostNs/ms)
		}
		if c, ok := commands[at]; ok {
			if err := p.Write(command(c)); err != nil {
				return arrivals, err
			}
		}
	}
	return arrivals, nil
}

func TestDevice(t *testing.T) {
	for _, c := range []struct {
		name        string
		faults      Faults
		commands    map[int64]byte
		samples     [2]int // reports, from and to
		first, last int64  // ms, last at the earliest; last within 100 ms
		info        int
	}{
		{name: "silent until it is started"},
		{name: "hello", commands: map[int64]byte{5: 0x81}, info: 1},
		{name: "a proceed does not start it", commands: map[int64]byte{5: 0x83}},
		{name: "an unknown command does nothing", commands: map[int64]byte{5: 0x84}},
		{name: "it stops by itself", commands: map[int64]byte{5: 0x82}, samples: [2]int{25, 27}, first: 41, last: 1001},
		{name: "a start extends", commands: map[int64]byte{5: 0x82, 800: 0x82}, samples: [2]int{44, 47}, first: 41, last: 1761},
		{name: "so does a proceed", commands: map[int64]byte{5: 0x82, 800: 0x83}, samples: [2]int{44, 47}, first: 41, last: 1761},
		{name: "not one that comes late", commands: map[int64]byte{5: 0x82, 1200: 0x83}, samples: [2]int{25, 27}, first: 41, last: 1001},
		{name: "but a start does", commands: map[int64]byte{5: 0x82, 1200: 0x82}, samples: [2]int{50, 54}, first: 41, last: 2201},
		{name: "frozen", faults: Faults{FreezeSeconds: 0.5}, commands: map[int64]byte{5: 0x82, 1200: 0x82}, samples: [2]int{12, 12}, first: 41, last: 481},
		{name: "restless", faults: Faults{Firmware: "0.68"}, commands: map[int64]byte{5: 0x82, 200: 0x83, 900: 0x82}, samples: [2]int{12, 12}, first: 41, last: 481},
	} {
		got, err := drive(t, c.faults, 3000, c.commands)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		s := got[4]
		if len(s) < c.samples[0] || len(s) > c.samples[1] || len(got[3]) != c.info {
			t.Errorf("%s: %d reports of samples and %d others", c.name, len(s), len(got[3]))
		}
		if len(s) > 0 && (s[0] != c.first || s[len(s)-1] < c.last || s[len(s)-1] > c.last+100) {
			t.Errorf("%s: samples from %d to %d ms, want %d to %d ms", c.name, s[0], s[len(s)-1], c.first, c.last)
		}
	}
}

func TestPlug(t *testing.T) {
	d := New(Every(func(float64) Reading { return Reading{} }), Faults{UnplugSeconds: 1, AbsentSeconds: 2}, 1)
	p := d.Open()
	b := make([]byte, 64)
	if _, _, err := p.Read(b, second/2); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if _, _, err := p.Read(b, 3*second/2); !errors.Is(err, ErrAbsent) {
		t.Fatalf("read from an unplugged meter: %v", err)
	}
	if err := p.Write(command(0x82)); !errors.Is(err, ErrAbsent) {
		t.Fatalf("write to an unplugged meter: %v", err)
	}
	if _, err := d.Plug(2 * second); !errors.Is(err, ErrAbsent) {
		t.Fatalf("plugged in while absent: %v", err)
	}
	q, err := d.Plug(3 * second)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Write(command(0x82)); err != nil {
		t.Fatal(err)
	}
	if n, hostNs, err := q.Read(b, 4*second); n != 64 || err != nil || hostNs != 3041*ms {
		t.Errorf("after the replug: %d bytes at %d ns, %v", n, hostNs, err)
	}
	q.Close()
	if _, _, err := q.Read(b, 5*second); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read from a closed port: %v", err)
	}
	if err := q.Write(b); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write to a closed port: %v", err)
	}
}

// The report of four equal samples, worked out by hand.
func TestEncode(t *testing.T) {
	r := Reading{Volts: 5, Amps: -1, DPVolts: 2.9, DNVolts: 0.1, Celsius: 25} // reverse current
	d := New(func() Packet { return Packet{Readings: [4]Reading{r, r, r, r}, ReadyNs: 1} }, Faults{}, 1)
	got := d.encode(d.next)
	sample := []byte{0x20, 0xa1, 0x07, 0, 0xa0, 0x86, 0x01, 0, 0x54, 0x0b, 0x64, 0, 1, 0xfa, 0}
	want := append([]byte{0xaa, 4}, append(bytes.Repeat(sample, 4), 0, 0x9d)...)
	if !bytes.Equal(got[:], want) {
		t.Errorf("got  % x\nwant % x", got, want)
	}
	if c := crc([]byte("123456789")); c != 0x4b {
		t.Errorf("check value is %02x, want 4b", c)
	}
}

// Packets that the host gets late come together, in their order, and what is
// lost leaves no trace.
func TestLateAndLost(t *testing.T) {
	every := Every(func(float64) Reading { return Reading{} })
	i := 0
	d := New(func() Packet {
		p := every()
		i++
		switch {
		case i == 5:
			p.ArriveNs = -1
		case i > 5 && i < 12:
			p.ArriveNs = 500 * ms
		}
		return p
	}, Faults{}, 1)
	p := d.Open()
	p.Write(command(0x82))
	b := make([]byte, 64)
	var indices, arrivals []int64
	for {
		_, hostNs, err := p.Read(b, 600*ms)
		if err != nil {
			break
		}
		indices, arrivals = append(indices, d.Last()), append(arrivals, hostNs/ms)
	}
	want := []int64{0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	at := []int64{41, 81, 121, 161, 500, 500, 500, 500, 500, 500, 500, 521, 561}
	if len(indices) != len(want) {
		t.Fatalf("packets %v at %v ms", indices, arrivals)
	}
	for k := range want {
		if indices[k] != want[k] || arrivals[k] != at[k] {
			t.Errorf("packet %d at %d ms, want %d at %d ms", indices[k], arrivals[k], want[k], at[k])
		}
	}
}
