// Package tcp carries the bytes of a meter on a network: an instrument with a
// raw socket, or a serial line behind a terminal server.
package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/joulemark/joulemark/meters"
)

const (
	connectTimeout = 5 * time.Second
	writeTimeout   = time.Second // as meters.Port says
	// leastWait lets bytes be read that are there already: a deadline that has
	// passed would refuse them.
	leastWait = time.Millisecond
)

// keepAlive finds out within half a minute that the other side is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// Open connects to address, HOST:PORT. Its errors are *meters.Problem where
// there is something that a person can do.
func Open(ctx context.Context, address string, clock meters.HostClock) (meters.Port, error) {
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return nil, &meters.Problem{Err: fmt.Errorf("connect to %q: it is not HOST:PORT", address),
			Hint: "raw sockets of instruments are often at port 5025, Rigol's at 5555"}
	}
	d := net.Dialer{Timeout: connectTimeout, KeepAliveConfig: keepAlive}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, hinted(fmt.Errorf("connect to %s: %w", address, err))
	}
	return &port{c, clock, address}, nil
}

func hinted(err error) error {
	var unknown *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &meters.Problem{Err: err, Hint: "is its raw socket switched on? They are often at port 5025, Rigol's at 5555"}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &meters.Problem{Err: err, Hint: "is it switched on, and on this network?"}
	case errors.As(err, &unknown):
		return &meters.Problem{Err: err, Hint: "use its numeric address"}
	}
	return err
}

type port struct {
	conn    net.Conn
	clock   meters.HostClock
	address string
}

// Read waits for bytes. That the other side has closed is final.
func (p *port) Read(b []byte, untilNs int64) (n int, hostNs int64, err error) {
	wait := max(time.Duration(untilNs-p.clock()), leastWait)
	if err := p.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return 0, p.clock(), p.final("read", err)
	}
	n, err = p.conn.Read(b)
	hostNs = p.clock()
	switch {
	case n > 0:
		return n, hostNs, nil // what is wrong shows again
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, hostNs, os.ErrDeadlineExceeded
	case err == io.EOF:
		return 0, hostNs, p.final("read", errors.New("it closed the connection"))
	}
	return 0, hostNs, p.final("read", err)
}

func (p *port) final(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, p.address, err)
}

// Write sends bytes.
func (p *port) Write(b []byte) error {
	err := p.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = p.conn.Write(b)
	}
	if err != nil {
		return p.final("write", err)
	}
	return nil
}

// HostNs reads the host clock.
func (p *port) HostNs() int64 { return p.clock() }

// Close closes the connection.
func (p *port) Close() error { return p.conn.Close() }
