package cli

import (
	"context"
	"io/fs"

	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/battery"
	"github.com/joulemark/joulemark/meters/execmeter"
	"github.com/joulemark/joulemark/meters/fnirsi"
	"github.com/joulemark/joulemark/meters/hidraw"
	"github.com/joulemark/joulemark/meters/hwmon"
	"github.com/joulemark/joulemark/meters/libusb"
	"github.com/joulemark/joulemark/meters/powerz"
	"github.com/joulemark/joulemark/meters/ppk2"
	"github.com/joulemark/joulemark/meters/process"
	"github.com/joulemark/joulemark/meters/rapl"
	"github.com/joulemark/joulemark/meters/replay"
	"github.com/joulemark/joulemark/meters/ruideng"
	"github.com/joulemark/joulemark/meters/scpi"
	"github.com/joulemark/joulemark/meters/serial"
	"github.com/joulemark/joulemark/meters/tcp"
)

// newLab lists the drivers, in the order of the documentation, and the ways to
// their meters.
func newLab() lab {
	return lab{
		host: meters.NewHost,
		drivers: []meters.Driver{
			fnirsi.Driver,
			ppk2.Driver,
			powerz.Driver,
			ruideng.UM,
			ruideng.TC,
			hwmon.Driver,
			rapl.Driver,
			battery.Driver,
			scpi.Driver,
			execmeter.Driver,
			replay.New(openTape),
			bench.Driver,
		},
		ways: []way{
			{transport: meters.HID, missing: hidraw.Missing, find: hidraw.Find,
				open: func(_ context.Context, path string, _ meters.Driver, clock meters.HostClock) (meters.Port, error) {
					return hidraw.Open(path, clock)
				}},
			{transport: meters.USB, missing: libusb.Missing, find: libusb.Find,
				open: func(_ context.Context, path string, d meters.Driver, clock meters.HostClock) (meters.Port, error) {
					return libusb.Open(path, d.USBClass, clock)
				}},
			{transport: meters.Serial, find: func(fs.FS) ([]meters.Device, error) { return serial.Find() },
				open: func(_ context.Context, path string, d meters.Driver, clock meters.HostClock) (meters.Port, error) {
					return serial.Open(path, d.Baud, clock)
				}},
			{transport: meters.TCP,
				open: func(ctx context.Context, address string, _ meters.Driver, clock meters.HostClock) (meters.Port, error) {
					return tcp.Open(ctx, address, clock)
				}},
			{transport: meters.Process,
				open: func(_ context.Context, command string, _ meters.Driver, clock meters.HostClock) (meters.Port, error) {
					return process.Open(command, clock)
				}},
		},
	}
}
