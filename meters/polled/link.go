package polled

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// sliceNs bounds how long one read waits, so that the end of a context is soon
// noticed.
const sliceNs = 200 * int64(time.Millisecond)

// maxAnswer is more than any answer holds.
const maxAnswer = 4096

// Link is a port to a meter that answers requests.
type Link struct {
	Port meters.Port
	// AnswerNs is how long an answer may take, host ns.
	AnswerNs int64

	buf  [maxAnswer]byte
	n    int // bytes in buf
	used int // of these, those of the answer before
}

// Query sends a request and reads until whole says how long the answer is, or
// what is wrong with it. whole is shown all bytes that came since the request;
// 0 and no error ask for more. The answer is valid until the next call. Bytes
// that came before the request belong to none and are passed over.
//
// Errors wrap ErrUnanswered, ErrDamaged (the bytes so far are returned) or are
// final.
func (l *Link) Query(ctx context.Context, request []byte, whole func([]byte) (int, error)) (answer []byte, hostNs int64, err error) {
	if err := l.drain(); err != nil {
		return nil, 0, err
	}
	l.n, l.used = 0, 0
	if err := l.Port.Write(request); err != nil {
		return nil, l.Port.HostNs(), fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return l.Next(ctx, whole)
}

// Next reads one more answer, as Query does.
func (l *Link) Next(ctx context.Context, whole func([]byte) (int, error)) (answer []byte, hostNs int64, err error) {
	l.n, l.used = copy(l.buf[:], l.buf[l.used:l.n]), 0
	hostNs = l.Port.HostNs()
	untilNs := hostNs + l.AnswerNs
	for {
		if l.n > 0 {
			end, err := whole(l.buf[:l.n])
			if err == nil && end == 0 && l.n == len(l.buf) {
				err = errors.New("it does not end")
			}
			if err != nil {
				l.used = l.n
				return l.buf[:l.n], hostNs, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if end > 0 {
				l.used = min(end, l.n)
				return l.buf[:l.used], hostNs, nil
			}
		}
		var k int
		k, hostNs, err = l.Port.Read(l.buf[l.n:], min(untilNs, l.Port.HostNs()+sliceNs))
		l.n += k
		switch {
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, hostNs, err
		case ctx.Err() != nil:
			return nil, hostNs, ctx.Err()
		case err == nil:
		case hostNs >= untilNs && l.n > 0:
			l.used = l.n
			return l.buf[:l.n], hostNs, fmt.Errorf("%w: it ends after %d bytes", ErrDamaged, l.n)
		case hostNs >= untilNs:
			return nil, hostNs, ErrUnanswered
		}
	}
}

// maxDrain is how many pieces are passed over before a request.
const maxDrain = 1000

// drain reads what has arrived already.
func (l *Link) drain() error {
	for range maxDrain {
		_, _, err := l.Port.Read(l.buf[:], l.Port.HostNs())
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// HostNs reads the host clock.
func (l *Link) HostNs() int64 { return l.Port.HostNs() }

// Wait reads and passes over what comes until the host clock shows untilNs.
func (l *Link) Wait(ctx context.Context, untilNs int64) error {
	for ctx.Err() == nil && l.Port.HostNs() < untilNs {
		_, _, err := l.Port.Read(l.buf[:], min(untilNs, l.Port.HostNs()+sliceNs))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return ctx.Err()
}

// Close closes the port.
func (l *Link) Close() error { return l.Port.Close() }
