package tcp

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// serve listens on loopback and hands the one connection to serve.
func serve(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			serve(c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestPort(t *testing.T) {
	address := serve(t, func(c net.Conn) {
		defer c.Close()
		b := make([]byte, 5)
		if _, err := c.Read(b); err == nil && string(b) == "hello" {
			_, _ = c.Write([]byte("world"))
		}
		_, _ = c.Read(b) // until the test closes its end, or says bye
	})
	clock := meters.NewHostClock()
	p, err := Open(context.Background(), address, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() }) // so that the other side ends
	b := make([]byte, 3)
	if n, hostNs, err := p.Read(b, clock()-1); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || hostNs > p.HostNs() {
		t.Fatalf("nothing was sent: %d bytes, %v", n, err)
	}
	if err := p.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	// Five bytes that were sent at once: when the first has come, the others are
	// there, and are read whatever the deadline.
	got := ""
	untilNs := clock() + 10e9
	for len(got) < 5 {
		n, _, err := p.Read(b[:min(1+2*len(got), 3)], untilNs)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got += string(b[:n])
		untilNs = 0
	}
	if got != "world" {
		t.Errorf("got %q", got)
	}
	if err := p.Write([]byte("bye")); err != nil {
		t.Fatal(err)
	}
	for {
		_, _, err = p.Read(b, clock()+1e8)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("after the end: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Read(b, clock()); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a closed port: %v", err)
	}
	if err := p.Write(b); err == nil {
		t.Error("a closed port was written")
	}
}

func TestOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := l.Addr().String()
	l.Close()
	for _, address := range []string{"", "localhost", ":5025", "localhost:", "a b:5", refused} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := Open(ctx, address, meters.NewHostClock())
		cancel()
		var p *meters.Problem
		if err == nil || address != "a b:5" && !errors.As(err, &p) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
