//go:build !darwin || cgo

package serial

import "go.bug.st/serial/enumerator"

func list() ([]*enumerator.PortDetails, error) { return enumerator.GetDetailedPortsList() }
