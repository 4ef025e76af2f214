// Package meterstest is what every driver of a meter must get right, as tests
// over captures of its reports, in virtual time.
package meterstest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Frame is one report of a capture.
type Frame struct {
	HostNs int64 // arrival
	Bytes  []byte
}

// Capture is what a meter sent, and what it means. Its file has a line
// "MS HEX" for each report, with its arrival in ms on the host clock, and
// lines "want COLUMN VALUE...", with the values of all samples in SI base
// units; "#" opens a comment. The first report comes late enough for what the
// driver does at the start.
type Capture struct {
	Frames []Frame
	Want   map[string][]float64
}

// ReadCapture reads a capture.
func ReadCapture(path string) (Capture, error) {
	c := Capture{Want: map[string][]float64{}}
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read capture: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if err := c.line(fields); err != nil {
			return c, fmt.Errorf("read capture %s:%d: %w", path, n, err)
		}
	}
	return c, lines.Err()
}

func (c *Capture) line(fields []string) error {
	if fields[0] == "want" && len(fields) > 2 {
		for _, text := range fields[2:] {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			c.Want[fields[1]] = append(c.Want[fields[1]], v)
		}
		return nil
	}
	if len(fields) != 2 {
		return fmt.Errorf("%q is neither MS HEX nor want COLUMN and values", strings.Join(fields, " "))
	}
	ms, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil {
		return err
	}
	b, err := hex.DecodeString(fields[1])
	c.Frames = append(c.Frames, Frame{HostNs: ms * int64(time.Millisecond), Bytes: b})
	return err
}

// Port plays reports back in virtual time, whatever is written to it. After
// the last one the meter is silent.
type Port struct {
	Frames []Frame
	// Written are the host times and bytes of what the driver sent.
	Written []Frame
	// Closed counts calls of Close.
	Closed int
	// Passed, if not nil, is told the host time after each read.
	Passed func(hostNs int64)

	hostNs int64
}

var _ meters.Port = (*Port)(nil)

// Read hands over the next report that is there by untilNs.
func (p *Port) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	if p.Closed > 0 {
		return 0, p.hostNs, os.ErrClosed
	}
	err = os.ErrDeadlineExceeded
	if len(p.Frames) > 0 && p.Frames[0].HostNs <= max(untilNs, p.hostNs) {
		p.hostNs = max(p.hostNs, p.Frames[0].HostNs)
		n, err = copy(b, p.Frames[0].Bytes), nil
		p.Frames = p.Frames[1:]
	} else {
		p.hostNs = max(p.hostNs, untilNs)
	}
	if p.Passed != nil {
		p.Passed(p.hostNs)
	}
	return n, p.hostNs, err
}

// Write notes what the driver sends.
func (p *Port) Write(b []byte) error {
	p.Written = append(p.Written, Frame{p.hostNs, append([]byte(nil), b...)})
	return nil
}

// HostNs reads the virtual clock.
func (p *Port) HostNs() int64 { return p.hostNs }

// Close closes the port.
func (p *Port) Close() error {
	p.Closed++
	return nil
}
