//go:build darwin && !cgo

package serial

import "go.bug.st/serial"

// line is what enumerator.PortDetails holds where that can be built.
type line struct {
	Name, VID, PID, SerialNumber, Product string
	IsUSB                                 bool
}

func list() ([]line, error) {
	names, err := serial.GetPortsList()
	var lines []line
	for _, name := range names {
		lines = append(lines, line{Name: name})
	}
	return lines, err
}
