//go:build linux

package record_test

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/joulemark/joulemark/run"
)

// limitFiles lets no file grow beyond a size, as a full disk does.
func limitFiles(t *testing.T, bytes uint64) {
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
		signal.Reset(syscall.SIGXFSZ)
	})
}

// A disk that is full ends the recording; what was written is whole.
func TestDiskFull(t *testing.T) {
	r := newRecording(t, []step{{packets: -1}})
	limitFiles(t, 20_000)
	res, err := r.run()
	if !errors.Is(err, syscall.EFBIG) || res.Run != r.dir {
		t.Fatalf("run %q, error %v", res.Run, err)
	}
	got, err := run.Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Check(); !p.TailOnly || p.Closed || p.Streams[0].Samples < 500 {
		t.Errorf("report %+v", p)
	}
}

// One that is full at once leaves nothing behind.
func TestDiskFullAtOnce(t *testing.T) {
	for _, limit := range []uint64{10, 700} {
		r := newRecording(t, []step{{packets: -1}})
		limitFiles(t, limit)
		if res, err := r.run(); !errors.Is(err, syscall.EFBIG) || res.Run != "" {
			t.Errorf("%d bytes: run %q, error %v", limit, res.Run, err)
		}
		if _, err := os.Lstat(r.dir); err == nil {
			t.Errorf("%d bytes: something was left behind", limit)
		}
	}
}
