//go:build !linux

package hidraw

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/joulemark/joulemark/meters"
)

// Open fails: only Linux has hidraw.
func Open(path string, _ meters.HostClock) (meters.Port, error) {
	return nil, &meters.Problem{
		Err:  fmt.Errorf("open %s: %w", path, errors.ErrUnsupported),
		Hint: fmt.Sprintf("there is no hidraw on %s: record on Linux, or build with libusb (CGO_ENABLED=1, -tags libusb) and use fnb58+usb", runtime.GOOS),
	}
}

// Holder says nothing: there is no hidraw.
func Holder(string) string { return "" }

func access(string) error { return nil }
