package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/mark"
)

// Heard is what came in over a line.
type Heard struct {
	Bytes      int // in all
	Readable   int // of them: printable ASCII, tab, CR, LF
	Lines      int
	Statements int // that a target made, with a right CRC or none
	Damaged    int // statements with a wrong CRC or that are malformed
}

// leastReadable is the share of readable bytes of a text. At a wrong rate bytes
// are near random, and 98 of 256 are readable.
const leastReadable = 0.9

// Listen reads a line until the host clock shows untilNs.
func Listen(p meters.Port, untilNs int64) (Heard, error) {
	var h Heard
	var line []byte
	buf := make([]byte, 4096)
	for p.HostNs() < untilNs {
		n, _, err := p.Read(buf, untilNs)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return h, fmt.Errorf("listen: %w", err)
		}
		for _, b := range buf[:n] {
			h.Bytes++
			if b >= ' ' && b <= '~' || b == '\t' || b == '\r' || b == '\n' {
				h.Readable++
			}
			if b != '\n' {
				if len(line) <= mark.MaxLine {
					line = append(line, b)
				}
				continue
			}
			h.line(line)
			line = line[:0]
		}
	}
	return h, nil
}

func (h *Heard) line(b []byte) {
	h.Lines++
	switch _, err := mark.Parse(b); {
	case err == nil:
		h.Statements++
	case !errors.Is(err, mark.ErrNone) && bytes.Contains(b, []byte("@jm ")):
		h.Damaged++
	}
}

// Check says what was heard on a port that is called name.
func (h Heard) Check(name string) Check {
	c := Check{Name: name, State: Warning}
	switch {
	case h.Bytes == 0:
		c.Text = "nothing came in"
		c.Fix = "is the target powered, TX on RX, ground connected? Reset it while listening"
	case float64(h.Readable) < leastReadable*float64(h.Bytes):
		c.Text = fmt.Sprintf("%d bytes but no marks, and %.0f %% of them are no text: wrong baud rate?", h.Bytes, 100*(1-float64(h.Readable)/float64(h.Bytes)))
		c.Fix = "give the target's rate: --listen PORT,115200 (or 9600, 230400, 921600); an inverted or 5 V line looks the same"
	case h.Statements == 0 && h.Damaged == 0:
		c.Text = fmt.Sprintf("%d bytes, %d lines, no marks", h.Bytes, h.Lines)
		c.Fix = "the line is alive but the firmware prints no '@jm' lines: is it the right port and program?"
	case h.Damaged > 0:
		c.Text = fmt.Sprintf("%d marks, and %d damaged ones", h.Statements, h.Damaged)
		c.Fix = "a lower baud rate, a shorter wire, a common ground; or another program reads the port too"
	default:
		c.State, c.Text = OK, fmt.Sprintf("%d marks in %d lines, none damaged", h.Statements, h.Lines)
	}
	return c
}
