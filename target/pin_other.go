//go:build !linux

package target

import (
	"errors"
	"fmt"
)

// Pin keeps the calling goroutine on one processor, counted from 0.
func Pin(cpu int) error {
	return fmt.Errorf("pin to processor %d: %w", cpu, errors.ErrUnsupported)
}
