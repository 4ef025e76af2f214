package target

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"github.com/joulemark/joulemark/sync/mark"
)

// MaxWaiting is the number of commands that wait while the target is at work.
// Of a host that sends more, nothing more is read, a stop included.
const MaxWaiting = 64

// command is a line from the host.
type command struct {
	mark.Statement
	damage error // it could not be read
}

// queue holds the commands of one host.
type queue struct {
	waiting chan command // closed where the host sends no more
	stops   atomic.Int32 // that wait
	over    atomic.Bool  // the target shall end
	wake    chan struct{}
}

func newQueue() *queue {
	return &queue{waiting: make(chan command, MaxWaiting), wake: make(chan struct{}, 1)}
}

// halted reports whether what is under way is to be given up.
func (q *queue) halted() bool { return q.stops.Load() > 0 || q.over.Load() }

// halt gives up what is under way, and everything that waits.
func (q *queue) halt() {
	q.over.Store(true)
	q.stir()
}

func (q *queue) stir() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// read takes commands until r ends or done is closed.
func (q *queue) read(r io.Reader, done <-chan struct{}) {
	defer close(q.waiting)
	in := bufio.NewReaderSize(r, mark.MaxLine+2)
	for {
		text, err := in.ReadSlice('\n')
		c, ok := parse(text)
		// A line that does not end is too long; the rest of it is lost.
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return // a line without an end was not sent
		}
		if !ok {
			continue
		}
		if c.Kind == "stop" {
			q.stops.Add(1)
			q.stir()
		}
		select {
		case q.waiting <- c:
		case <-done:
			return
		}
	}
}

// parse reads a line, which may hold no command.
func parse(text []byte) (c command, ok bool) {
	s, err := mark.ParseCommand(text)
	switch {
	case err == nil:
		return command{Statement: s}, true
	case errors.Is(err, mark.ErrNone), !bytes.Contains(text, []byte("@jh ")): // noise
		return command{}, false
	}
	return command{damage: err}, true
}
