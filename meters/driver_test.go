package meters_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// TestHost: this machine's files and links are read, and its clock waits.
func TestHost(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../bus/1-0040", filepath.Join(dir, "device")); err != nil {
		t.Skip(err)
	}
	h := meters.NewHostAt(dir, meters.NewHostClock())
	if b, err := fs.ReadFile(h, "file"); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if target, err := fs.ReadLink(h, "device"); target != "../bus/1-0040" || err != nil {
		t.Errorf("%q, %v", target, err)
	}
	untilNs := h.HostNs() + 1000
	if err := h.Wait(context.Background(), untilNs); err != nil || h.HostNs() < untilNs {
		t.Errorf("%v at %d ns", err, h.HostNs())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.Wait(ctx, h.HostNs()+1e12); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
