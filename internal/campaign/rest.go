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

	say *speaker // nil before the machine introduced itself
	n   int64
}

// RestSource is the mark source of these statements. It is not the program's:
// after one line with a CRC, lines without one would not count.
const RestSource = Source + "/machine"

// Hello introduces the machine. Its ticks are ns of the host clock. Without it
// Pause states nothing.
func (r *Rest) Hello(h mark.Hello) error {
	r.say = &speaker{source: RestSource, emit: func(l run.Line) error {
		r.Emit(l)
		return nil
	}}
	return r.say.hello(h, r.Host.HostNs())
}

// Pause waits, and states the time as idle.
func (r *Rest) Pause(ctx context.Context) error {
	from := r.Host.HostNs()
	if r.say != nil {
		if err := r.say.beacon(from, from); err != nil {
			return err
		}
	}
	if err := r.Host.Wait(ctx, from+int64(r.Seconds*1e9)); err != nil || r.say == nil {
		return err
	}
	to := r.Host.HostNs()
	if err := r.say.beacon(to, to); err != nil {
		return err
	}
	r.n++
	return r.say.state(mark.Idle{W: r.n, T0: uint64(from), T1: uint64(to), Mode: "os"}.Statement(), to)
}
