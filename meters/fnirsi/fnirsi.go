// Package fnirsi reads the USB meters of FNIRSI: FNB58, FNB48, FNB48S, FNB48P
// and C1, over the HID interface of their PC port.
//
// # Protocol
//
// Reports have 64 bytes and no report id. The host sends commands; after a
// start the meter sends one report of four samples every 40 ms for about a
// second, and stops by itself unless it is told to go on. Nothing in a report
// counts or tells time: what is lost shows in the arrivals alone.
//
// Sources: baryluk/fnirsi-usb-power-data-logger (fnirsi_logger.py, README,
// pull request 4, issues 5, 7, 19, 27), fqueze/usb-power-profiling
// (usb-power-profiling.js), yeckel/OpenFNB58 (UsbTransport.cpp), a real session
// in the README of matthewgream/fnisri_logger, and the vendor's manual as
// transcribed in Shadester/fnb58manual. Layout, scales and CRC agree in at
// least two of them. No report of a real meter is in the tests yet.
//
// # Traps
//
// The current is a magnitude: reverse flow reads positive. The first sample
// after a start may be left over from before (188.7 V). A meter that is not
// drained to its end may freeze, and then only a replug helps. A meter may be
// open and silent: only a valid report of samples shows that it works.
package fnirsi

import (
	"context"
	"fmt"
	"slices"

	"github.com/joulemark/joulemark/meters"
)

// Driver is the family's driver.
var Driver = meters.Driver{
	Name:    "fnb58",
	Summary: "FNIRSI FNB58, FNB48, FNB48S, FNB48P, C1 over USB HID, 100 samples a second",
	Status:  meters.Emulated,
	Rate:    "100", Digital: "none; D+ and D- carry the level of a pin (in-band marks)", USBClass: 3,
	Transports: []meters.Transport{meters.HID, meters.USB},
	Models:     list(),
	Open:       open,
}

// model is what the driver does for one product.
type model struct {
	meters.Model
	// start is the sequence of commands that opens a stream, as
	// fnirsi_logger.py sends it.
	start []Command
	// refresh names the firmware that freezes unless it is told to go on with
	// each report.
	refresh []string
}

const reverse = "It shows reverse current as positive."

// models lists the products, the driver's own name first. Ids: fnirsi_logger.py
// and its udev rules, usb-power-profiling.js.
var models = []model{
	{
		Model: meters.Model{Name: "FNB58", USB: meters.USBID{Vendor: 0x2e3c, Product: 0x5558},
			// The two digits may be those of a display with four decimals;
			// with five they would lie below the floor of 0.11 mA that a
			// FNB48 shows without a load.
			Accuracy: meters.Accuracy{
				Volts:  &meters.Limit{Gain: 0.005, Offset: 200e-6},
				Amps:   &meters.Limit{Gain: 0.005, Offset: 200e-6},
				Source: "FNB58 manual: ±(0.5 % + 2 digits), digits taken as 0.0001 V and A",
			},
			Traps: []string{reverse, "Over Bluetooth it sends nothing while the PC port is in use.",
				"Some units give 25 independent values a second, interpolated to 100."}},
		start:   []Command{hello, start, start},
		refresh: []string{"0.68"}, // issue 19
	},
	{
		Model: meters.Model{Name: "FNB48", USB: meters.USBID{Vendor: 0x0483, Product: 0x003a}, Traps: []string{reverse}},
		start: []Command{hello, start, proceed},
	},
	{
		Model: meters.Model{Name: "FNB48S", USB: meters.USBID{Vendor: 0x2e3c, Product: 0x0049},
			Traps: []string{reverse, "It answers a step within about 120 ms."}},
		start: []Command{hello, start, start},
	},
	{
		Model: meters.Model{Name: "FNB48P", USB: meters.USBID{Vendor: 0x2e3c, Product: 0x0049}, Traps: []string{reverse}},
		start: []Command{hello, start, start},
	},
	{
		Model: meters.Model{Name: "C1", USB: meters.USBID{Vendor: 0x0483, Product: 0x003b},
			Traps: []string{reverse, "It answers a step within about 500 ms.", "Firmware 0.20 sends nothing; 0.70 does."}},
		start: []Command{hello, start, proceed},
	},
	{
		Model: meters.Model{Name: "FNAC-28", USB: meters.USBID{Vendor: 0x0483, Product: 0x003b},
			Traps: []string{reverse, "It has the ids of a C1.", "Its values repeat."}},
		start: []Command{hello, start, start}, // issue 27
	},
}

func list() []meters.Model {
	var all []meters.Model
	for _, m := range models {
		all = append(all, m.Model)
	}
	return all
}

func open(_ context.Context, p meters.Port, o meters.Options) (meters.Meter, error) {
	i := 0
	if o.Model != "" {
		i = slices.IndexFunc(models, func(m model) bool { return m.Name == o.Model })
	}
	if i < 0 {
		return nil, fmt.Errorf("open fnb58: unknown model %q", o.Model)
	}
	m := models[i]
	return &meter{
		port: p, notify: o.Notify,
		machine: machine{commands: m.start, refresh: slices.Contains(m.refresh, o.Firmware)},
		info: meters.Info{
			Driver: "fnb58", Model: m.Name, Serial: o.Serial, Firmware: o.Firmware,
			Columns: Columns(), RateHz: rateHz, PacketSamples: ReportSamples,
			Sample: meters.UnknownKind, Clock: meters.ByArrival, Accuracy: m.Accuracy,
		},
	}, nil
}
