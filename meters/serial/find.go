package serial

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/joulemark/joulemark/meters"
)

// place is a line and where it is.
type place struct {
	meters.Device
	number int // of its USB interface
}

// Find lists the serial lines, the first one of a USB device before its others.
// It opens none of them.
func Find() ([]meters.Device, error) {
	places, err := find()
	if err != nil {
		return nil, fmt.Errorf("list serial lines: %w", err)
	}
	return devices(places), nil
}

func devices(places []place) []meters.Device {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.number, b.number), cmp.Compare(a.Path, b.Path))
	})
	var all []meters.Device
	for _, at := range places {
		if err := access(at.Path); err != nil {
			at.Problem = problem(at.Path, err)
		}
		all = append(all, at.Device)
	}
	return all
}
