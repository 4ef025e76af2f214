package doctor

import (
	"fmt"

	"github.com/joulemark/joulemark/meters"
)

// Ports looks at serial ports: which may be opened, and which belong to a
// meter and not to a target. An FNB58 has a serial port of its own beside the
// interface that its samples come from. holder names the program that has a port
// open; "" where none is seen.
func Ports(ports []meters.Device, drivers []meters.Driver, holder func(path string) string) []Check {
	var checks []Check
	for _, p := range ports {
		c := Check{Name: "port " + p.Path, State: OK, Text: "may be the target's"}
		if p.Product != "" {
			c.Text = fmt.Sprintf("%q, %s", p.Product, c.Text)
		}
		if d, m, ok := Owner(p, drivers); ok {
			c.Text = fmt.Sprintf("belongs to a meter (%s): not the target's", m)
			if !talks(d, meters.Serial) {
				c.Text = fmt.Sprintf("the own serial port of a meter (%s): neither its samples nor the target's marks come over it", m)
			}
		}
		if who := holder(p.Path); who != "" {
			c.State, c.Fix = Warning, "end it before a measurement: of two programs on a port each gets a part of the lines"
			c.Text += "; open in " + who
		}
		if p.Problem != nil {
			c.State, c.Text = Failure, p.Problem.Error()
			c.Fix = meters.Hint(p.Problem)
		}
		checks = append(checks, c)
	}
	return checks
}

// Owner returns the driver and the model of the meter that a USB device is.
func Owner(p meters.Device, drivers []meters.Driver) (meters.Driver, string, bool) {
	for _, d := range drivers {
		for _, m := range d.Models {
			if m.USB == p.USB && m.USB != (meters.USBID{}) {
				return d, m.Name, true
			}
		}
	}
	return meters.Driver{}, "", false
}

func talks(d meters.Driver, over meters.Transport) bool {
	for _, t := range d.Transports {
		if t == over {
			return true
		}
	}
	return false
}
