//go:build darwin && !cgo

package serial

import (
	"go.bug.st/serial"

	"github.com/joulemark/joulemark/meters"
)

func find() ([]place, error) {
	names, err := serial.GetPortsList()
	var places []place
	for _, name := range names {
		places = append(places, place{Device: meters.Device{Transport: meters.Serial, Path: name}})
	}
	return places, err
}
