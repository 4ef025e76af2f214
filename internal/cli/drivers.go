package cli

import (
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/fnirsi"
)

// newLab lists the drivers, in the order of the documentation, and the ways to
// their meters.
func newLab() lab {
	return lab{
		host: meters.NewHost,
		drivers: []meters.Driver{
			fnirsi.Driver,
		},
		ways: []way{},
	}
}
