package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/joulemark/joulemark/sync/mark"
)

// socket is where an emulated target is to be found: it reads lines and writes
// lines, and loses what nobody takes, as a UART does.
type socket struct {
	name  string
	lines chan []byte   // from the host, without line ends
	first chan struct{} // closed with the first connection; nil where that cannot be told
	out   chan []byte
	done  chan struct{}
	close func() error
}

// maxUnsent is how many lines wait for a slow reader.
const maxUnsent = 256

func newSocket(name string) *socket {
	return &socket{name: name, lines: make(chan []byte), out: make(chan []byte, maxUnsent), done: make(chan struct{})}
}

// send gives a line to the host, if there is room for it.
func (s *socket) send(line []byte) {
	select {
	case s.out <- line:
	default:
	}
}

// read hands lines over until r ends or the socket is closed.
func (s *socket) read(r io.Reader) {
	in := bufio.NewReaderSize(r, mark.MaxLine+1)
	for {
		text, err := in.ReadSlice('\n')
		line := append([]byte{}, text...)
		// A line that does not end shows as too long; the rest of it is lost.
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return // a line without an end was not sent
		}
		select {
		case s.lines <- line:
		case <-s.done:
			return
		}
	}
}

// write writes what is sent to where says, until the socket is closed.
func (s *socket) write(to func() io.Writer) {
	for {
		select {
		case line := <-s.out:
			if w := to(); w != nil {
				w.Write(line) // a host that went away is noticed by read
			}
		case <-s.done:
			return
		}
	}
}

// openTerminal makes a pseudo terminal, and a link to it if link names one.
func openTerminal(link string) (*socket, error) {
	inside, outside, err := pty.Open()
	if err != nil {
		return nil, hinted(fmt.Errorf("open a pseudo terminal: %w", err), "serve the target with --tcp 127.0.0.1:0 instead")
	}
	// The outside stays open here, so that hosts may come and go. Raw: nothing
	// is echoed to the target, and line ends stay as they are.
	_, err = term.MakeRaw(int(outside.Fd()))
	if err == nil && link != "" {
		err = makeLink(outside.Name(), link)
	}
	if err != nil {
		inside.Close()
		outside.Close()
		var f *failure
		if errors.As(err, &f) {
			return nil, err
		}
		return nil, fmt.Errorf("open a pseudo terminal: %w", err)
	}
	s := newSocket(outside.Name())
	if link != "" {
		s.name += " (" + link + ")"
	}
	s.close = func() error {
		close(s.done)
		if link != "" {
			if to, err := os.Readlink(link); err == nil && to == outside.Name() {
				os.Remove(link)
			}
		}
		return errors.Join(outside.Close(), inside.Close())
	}
	go s.read(inside)
	go s.write(func() io.Writer { return inside })
	return s, nil
}

// makeLink makes link name the terminal. A link to a terminal that is gone, as
// a crash leaves it, is replaced.
func makeLink(terminal, link string) error {
	to, err := os.Readlink(link)
	if _, gone := os.Stat(link); err == nil && strings.HasPrefix(to, "/dev/pts/") && errors.Is(gone, os.ErrNotExist) {
		os.Remove(link)
	}
	err = os.Symlink(terminal, link)
	if errors.Is(err, os.ErrExist) {
		return hinted(fmt.Errorf("link %s exists", link), "name another place with --link, or remove it")
	}
	if err != nil {
		return hinted(fmt.Errorf("make link: %w", err), "name a place that you may write to with --link")
	}
	return nil
}

// listen serves one connection at a time at a TCP address.
func listen(address string, log io.Writer) (*socket, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usage("--tcp %q is not HOST:PORT", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, hinted(fmt.Errorf("serve the target: %w", err), "port 0 takes a free one")
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		fmt.Fprintln(log, "note: the target can be reached from other machines, and listens to anyone")
	}
	s := newSocket("tcp:" + l.Addr().String())
	s.first = make(chan struct{})
	var lock sync.Mutex
	var current net.Conn
	set := func(c net.Conn) bool {
		lock.Lock()
		defer lock.Unlock()
		if c != nil && current != nil {
			return false
		}
		current = c
		return true
	}
	s.close = func() error {
		close(s.done)
		err := l.Close()
		lock.Lock()
		defer lock.Unlock()
		if current != nil {
			current.Close()
		}
		return err
	}
	go func() {
		for first := true; ; first = false {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if !set(c) {
				c.Close() // a target has one host
				continue
			}
			if first {
				close(s.first)
			}
			go func() {
				s.read(c)
				set(nil)
				c.Close()
			}()
		}
	}()
	go s.write(func() io.Writer {
		lock.Lock()
		defer lock.Unlock()
		if current == nil {
			return nil
		}
		return current
	})
	return s, nil
}
