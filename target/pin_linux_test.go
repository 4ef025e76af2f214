package target

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestPin(t *testing.T) {
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	ended := make(chan error)
	go func() { // its thread ends with it
		err := Pin(cpu)
		if err == nil {
			err = unix.SchedGetaffinity(0, &after)
		}
		ended <- err
	}()
	if err := <-ended; err != nil || after.Count() != 1 || !after.IsSet(cpu) {
		t.Errorf("pinned to %v: %v", after, err)
	}
	for _, cpu := range []int{-1, 1000, 1 << 30} {
		if err := Pin(cpu); err == nil {
			t.Errorf("pinned to processor %d", cpu)
		}
	}
}
