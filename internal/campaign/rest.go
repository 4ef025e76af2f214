package campaign

import (
	"context"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// Rest is the idle time between runs of a program whose own lines make the
// windows. It is stated, so that nothing else is taken for idle: not what the
// program does before its first window and between them.
type Rest struct {
	Host    meters.Host
	Seconds float64
	Emit    func(run.Line)

	stated bool // the machine introduced itself
	n      int64
}

// RestSource is the mark source of these statements. It is not the program's:
// after one line with a CRC, lines without one would not count.
const RestSource = Source + "/machine"

// Hello introduces the machine. Its ticks are ns of the host clock. Without it
// Pause states nothing.
func (r *Rest) Hello(h mark.Hello) error {
	h.Proto, h.TickHz, h.TickBits = mark.Version, tickHz, 64
	all, err := h.Statements()
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := r.state(r.Host.HostNs(), s); err != nil {
			return err
		}
	}
	r.stated = true
	return nil
}

// Pause waits, and states the time as idle.
func (r *Rest) Pause(ctx context.Context) error {
	from := r.Host.HostNs()
	if err := r.beacon(from); err != nil {
		return err
	}
	if err := r.Host.Wait(ctx, from+int64(r.Seconds*1e9)); err != nil {
		return err
	}
	to := r.Host.HostNs()
	if err := r.beacon(to); err != nil || !r.stated {
		return err
	}
	r.n++
	return r.state(to, mark.Idle{W: r.n, T0: uint64(from), T1: uint64(to), Mode: "os"}.Statement())
}

// beacon ties ticks to the host clock: they are the same.
func (r *Rest) beacon(now int64) error {
	if !r.stated {
		return nil
	}
	return r.state(now, mark.Sync{Seq: uint64(now), Ticks: uint64(now)}.Statement())
}

func (r *Rest) state(hostNs int64, s mark.Statement) error {
	line, err := mark.Append(nil, s)
	if err != nil {
		return err
	}
	r.Emit(run.Line{HostNs: hostNs, Source: RestSource, Text: line[:len(line)-1]})
	return nil
}
