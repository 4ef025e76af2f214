package target

import (
	"errors"
	"os"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Stream makes a stream of bytes of a port.
type Stream struct{ meters.Port }

// Read waits for bytes.
func (s Stream) Read(p []byte) (int, error) {
	for {
		n, _, err := s.Port.Read(p, s.HostNs()+int64(time.Hour))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// Write sends bytes; a line of the protocol takes less than a second at 10,400 baud.
func (s Stream) Write(p []byte) (int, error) {
	if err := s.Port.Write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
