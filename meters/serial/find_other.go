//go:build !linux && (!darwin || cgo)

package serial

import (
	"strconv"

	"go.bug.st/serial/enumerator"

	"github.com/joulemark/joulemark/meters"
)

func find() ([]place, error) {
	lines, err := enumerator.GetDetailedPortsList()
	var places []place
	for _, line := range lines {
		at := meters.Device{Transport: meters.Serial, Path: line.Name}
		if line.IsUSB {
			vendor, _ := strconv.ParseUint(line.VID, 16, 16)
			product, _ := strconv.ParseUint(line.PID, 16, 16)
			at.USB = meters.USBID{Vendor: uint16(vendor), Product: uint16(product)}
			at.Product, at.Serial = line.Product, line.SerialNumber
		}
		places = append(places, place{Device: at})
	}
	return places, err
}
