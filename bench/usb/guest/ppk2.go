//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/joulemark/joulemark/bench/ppk2"
	"github.com/joulemark/joulemark/meters"
)

// told is what a served PPK2 says of itself when it has ended.
type told struct {
	Lost int64        // samples that the host did not take in time
	Amps [256]float64 // what the samples say, by the state of the inputs
}

// servePPK2 serves a PPK2 behind the inside of a serial function until it is
// terminated. Its inputs count its samples, and each count has a current of its
// own.
func servePPK2(node, log string) error {
	line, err := os.OpenFile(node, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer line.Close()
	if _, err := term.MakeRaw(int(line.Fd())); err != nil {
		return err
	}
	var t told
	d := ppk2.New(func(s float64) ppk2.Reading {
		n := int64(math.Round(s * ppk2Hz))
		return ppk2.Reading{Amps: 1e-3 + 1e-5*float64(n%256), Digital: byte(n)}
	}, ppk2.Faults{}, 1)
	d.Sent = func(index int64, r ppk2.Reading) {
		if index > 1000 { // the range is found
			t.Amps[r.Digital] = r.Amps
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("serving")
	if t.Lost, _, err = d.Pump(ctx, line, meters.NewHostClock()); err != nil {
		return err
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(log, b, 0o644)
}

const (
	ppk2Hz      = 100_000
	ppk2Seconds = 20 // of the recording
)

// overACM is a PPK2 behind a serial function.
var overACM = way{name: "acm", program: "/bin/joulemark", identity: identity{0x1915, 0xc00a, "PPK2"},
	spec: func(g *gadget) (string, error) { p, err := g.acm(); return "ppk2:" + p + ",ampere=3.3V", err }, node: (*gadget).acm}

// acm is the node of the meter's serial line as the host shows it.
func (g *gadget) acm() (string, error) {
	dir, err := g.device()
	if err != nil {
		return "", err
	}
	node, err := one(dir + "/*:*/tty/ttyACM*")
	return "/dev/" + filepath.Base(node), err
}

// insideACM is the node of its inside.
func (g *gadget) insideACM() (string, error) {
	number, err := os.ReadFile(filepath.Join(g.dir, fmt.Sprintf("functions/acm.%d/port_num", g.number)))
	return "/dev/ttyGS" + strings.TrimSpace(string(number)), err
}

// streamed: each of 100,000 samples a second is in the run.
func streamed(l *lab) (string, error) {
	node, err := l.gadget.insideACM()
	if err != nil {
		return "", err
	}
	if l.meter, err = l.start("meter", 0, "/proc/self/exe", "ppk2", node, l.path("told")); err != nil {
		return "", err
	}
	if err := l.meter.await("the meter is there", func() bool { return strings.Contains(l.meter.said(), "serving") }); err != nil {
		return "", err
	}
	p, err := l.record("run", 0, ppk2Seconds)
	if err != nil {
		return "", err
	}
	if err := p.end(ppk2Seconds*time.Second+limit, 0); err != nil {
		return "", err
	}
	l.meter.signal(syscall.SIGTERM)
	if err := l.meter.end(limit, 0); err != nil {
		return "", err
	}
	var t told
	if b, err := os.ReadFile(l.path("told")); err != nil {
		return "", err
	} else if err := json.Unmarshal(b, &t); err != nil {
		return "", err
	}
	r, err := readRun(l.path("run"))
	if err != nil {
		return "", err
	}
	jumps, sent, err := r.counted(t.Amps)
	if err != nil {
		return "", err
	}
	if t.Lost > 0 || jumps > 0 || r.unknown > 0 || len(r.segments) != 1 || r.samples < (ppk2Seconds-1)*ppk2Hz {
		return "", fmt.Errorf("%d samples in %d segments, %d unknown, %d jumps of the count; the host did not take %d in time: %s",
			r.samples, len(r.segments), r.unknown, jumps, t.Lost, p.said())
	}
	if math.Abs(r.coulombs/sent-1) > 1e-6 {
		return "", fmt.Errorf("the run has a charge of %.9g C, the meter sent %.9g C", r.coulombs, sent)
	}
	return fmt.Sprintf("%d samples, none lost, %.6f C as sent", r.samples, r.coulombs), nil
}

// counted returns how often the count on the inputs jumps, and the charge that
// the meter says it sent, C.
func (r recorded) counted(amps [256]float64) (jumps int64, coulombs float64, err error) {
	before := -1
	for b, err := range r.Samples(r.Streams[0].Stream) {
		if err != nil {
			return 0, 0, err
		}
		var inputs [8][]float64
		for pin := range inputs {
			inputs[pin] = b.Columns[fmt.Sprintf("d%d", pin)]
		}
		for i := range b.Rows {
			count := 0
			for pin, levels := range inputs {
				if levels[i] == 1 {
					count |= 1 << pin
				}
			}
			if before >= 0 && count != (before+1)%256 {
				jumps++
			}
			before = count
			coulombs += amps[count] / r.Streams[0].RateHz
		}
	}
	return jumps, coulombs, nil
}
