package target

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Pin keeps the calling goroutine on one processor, counted from 0.
func Pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu) // does nothing with impossible ones
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("pin to processor %d: %w; is there such a processor?", cpu, err)
	}
	return nil
}
