package target

import (
	"fmt"
	"io"
	"time"

	"github.com/joulemark/joulemark/sync/mark"
)

// bitsPerByte on a serial line: 8 data bits, a start and a stop bit.
const bitsPerByte = 10

// wire carries statements to the host.
type wire struct {
	to   io.Writer
	baud int // 0 where writing is as fast as the other side reads
	buf  []byte
}

// send writes a statement and waits until it has left a serial line, so that
// none of it falls into what comes next.
func (w *wire) send(s mark.Statement) error {
	var err error
	if w.buf, err = mark.Append(w.buf[:0], s); err != nil {
		return err
	}
	if _, err := w.to.Write(w.buf); err != nil {
		return fmt.Errorf("send %s statement: %w", s.Kind, err)
	}
	if w.baud > 0 {
		time.Sleep(time.Duration(len(w.buf)) * bitsPerByte * time.Second / time.Duration(w.baud))
	}
	return nil
}
