package cli

import (
	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/fnirsi"
	"github.com/joulemark/joulemark/meters/hidraw"
	"github.com/joulemark/joulemark/meters/libusb"
)

// newLab lists the drivers, in the order of the documentation, and the ways to
// their meters.
func newLab() lab {
	return lab{
		host: meters.NewHost,
		drivers: []meters.Driver{
			fnirsi.Driver,
			bench.Driver,
		},
		ways: []way{
			{transport: meters.HID, missing: hidraw.Missing, find: hidraw.Find,
				open: func(path string, _ meters.Driver, clock meters.HostClock) (meters.Port, error) {
					return hidraw.Open(path, clock)
				}},
			{transport: meters.USB, missing: libusb.Missing, find: libusb.Find,
				open: func(path string, d meters.Driver, clock meters.HostClock) (meters.Port, error) {
					return libusb.Open(path, d.USBClass, clock)
				}},
		},
	}
}
