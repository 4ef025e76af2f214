package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/joulemark/joulemark/sync/mark"
)

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--dance"}, {"more"}, {"--serial", "/dev/x", "--tcp", ":0"}, {"--timeout", "0s"},
		{"--serial", "/dev/x,fast"}, {"--tcp", "nowhere"},
	} {
		var errs bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), io.Discard, &errs); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%q: %d, %s", args, code, &errs)
		}
	}
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"--serial", "/dev/no such line"}, nil, io.Discard, &errs); code != exitFailed || !strings.Contains(errs.String(), "hint:") {
		t.Errorf("a line that is not there: %d, %s", code, &errs)
	}
	if code := run(t.Context(), []string{"--help"}, nil, io.Discard, &errs); code != exitOK {
		t.Errorf("--help: %d", code)
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--list"}, nil, &out, io.Discard); code != exitOK || !strings.Contains(out.String(), "ML-DSA-44/sign\tcircl\n") {
		t.Errorf("%d: %s", code, &out)
	}
}

func command(t *testing.T, s mark.Statement) []byte {
	t.Helper()
	line, err := mark.Append(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// until reads statements up to one of a kind.
func until(t *testing.T, from *bufio.Scanner, kind string) {
	t.Helper()
	for from.Scan() {
		if s, err := mark.Parse(from.Bytes()); err == nil && s.Kind == kind {
			return
		}
	}
	t.Fatalf("no %s statement came: %v", kind, from.Err())
}

func TestStdin(t *testing.T) {
	in := bytes.NewReader(command(t, mark.IdleCmd{W: 1, Us: 1, Mode: "os"}.Statement()))
	var out bytes.Buffer
	if code := run(t.Context(), nil, in, &out, io.Discard); code != exitOK {
		t.Errorf("ended with %d", code)
	}
	until(t, bufio.NewScanner(&out), "idle")
}

// One host after the other is obeyed over TCP, until the program is ended.
func TestTCP(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, errs := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"--tcp", ":0"}, nil, io.Discard, errs) }()
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		t.Fatal("no address was said")
	}
	go io.Copy(io.Discard, read)
	_, address, _ := strings.Cut(lines.Text(), "tcp:")
	if !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("listens at %q", address)
	}
	for range 2 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(command(t, mark.IdleCmd{W: 1, Us: 1, Mode: "os"}.Statement()))
		until(t, bufio.NewScanner(c), "idle")
		c.Close()
	}
	cancel()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("ended with %d", code)
	}
}

func TestSerial(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pseudo terminals are made as on Linux")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	host, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	defer line.Close()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"--serial", line.Name() + ",4000000"}, nil, io.Discard, io.Discard) }()
	from := bufio.NewScanner(host)
	until(t, from, "hello")
	host.Write(command(t, mark.Run{W: 1, Alg: "X25519", Op: "derive", N: 3}.Statement()))
	until(t, from, "win")
	cancel()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("ended with %d", code)
	}
}
