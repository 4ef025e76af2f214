//go:build unix

package run

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPipeIsNoFile opens nothing that could wait for a writer for ever.
func TestPipeIsNoFile(t *testing.T) {
	for _, name := range []string{"usb.arrows", LogName} {
		dir := filepath.Join(t.TempDir(), "r")
		small(t, dir)
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			t.Skip("no pipes here: ", err)
		}
		if r, err := Open(dir); err == nil && r.Check().OK() {
			t.Errorf("%s: not found", name)
		}
	}
}
