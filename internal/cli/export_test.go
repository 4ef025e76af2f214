package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// A terminal is no place for a binary file.
func TestParquetIsNotPrinted(t *testing.T) {
	control, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	defer control.Close()
	defer terminal.Close()
	var complaints bytes.Buffer
	code := Main(&Env{Args: []string{"export", "run", "--format", "parquet"}, Stdout: terminal, Stderr: &complaints, Interrupt: context.Background()})
	if code != exitUsage || !strings.Contains(complaints.String(), "name a file with -o") {
		t.Errorf("exit code %d, %s", code, complaints.String())
	}
}

// An export that fails, or is interrupted, leaves nothing.
func TestExportIsWholeOrNotThere(t *testing.T) {
	failed := errors.New("no room")
	ctx, stop := context.WithCancel(context.Background())
	for name, c := range map[string]struct {
		write func(io.Writer) error
		want  error
	}{
		"failure": {func(w io.Writer) error { io.WriteString(w, "half"); return failed }, failed},
		"interrupt": {func(w io.Writer) error {
			w = stoppable{ctx, w}
			io.WriteString(w, "half")
			stop()
			_, err := io.WriteString(w, "the rest")
			return err
		}, context.Canceled},
		"somebody else was faster": {func(w io.Writer) error { return nil }, nil},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "out.csv")
		write := c.write
		if c.want == nil {
			write = func(io.Writer) error { return os.WriteFile(path, []byte("theirs"), 0o600) }
		}
		err := createWhole(path, write)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		files, _ := os.ReadDir(dir)
		if len(files) > 1 || c.want != nil && len(files) > 0 {
			t.Errorf("%s leaves %v", name, files)
		}
		if text, _ := os.ReadFile(path); c.want == nil && string(text) != "theirs" {
			t.Errorf("%s: the file holds %q", name, text)
		}
	}
}
