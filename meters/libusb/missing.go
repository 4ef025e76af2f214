//go:build !cgo || !libusb

package libusb

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/joulemark/joulemark/meters"
)

// Missing says why this program cannot use libusb.
const Missing = "this program was built without libusb: " + instead

const instead = "where libusb-1.0 and its headers are (Debian: libusb-1.0-0-dev), make build builds it in; Linux needs it only for meters that hidraw does not show"

// Find finds nothing.
func Find(fs.FS) ([]meters.Device, error) { return nil, nil }

// Open fails.
func Open(path string, _ uint8, _ meters.HostClock) (meters.Port, error) {
	return nil, &meters.Problem{Err: fmt.Errorf("open %s: built without libusb: %w", path, errors.ErrUnsupported), Hint: instead}
}
