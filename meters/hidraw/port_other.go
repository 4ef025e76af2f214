//go:build !linux

package hidraw

import (
	"errors"
	"fmt"

	"github.com/joulemark/joulemark/meters"
)

// Missing says why this program cannot use hidraw.
const Missing = "hidraw is Linux's: " + instead

const instead = "record on Linux, or build with libusb (CGO_ENABLED=1 and -tags libusb) and name the meter as fnb58+usb"

// Open fails: only Linux has hidraw.
func Open(path string, _ meters.HostClock) (meters.Port, error) {
	return nil, &meters.Problem{
		Err:  fmt.Errorf("open %s: %w", path, errors.ErrUnsupported),
		Hint: instead,
	}
}

// Holder says nothing: there is no hidraw.
func Holder(string) string { return "" }

func access(string) error { return nil }
