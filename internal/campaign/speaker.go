package campaign

import (
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// tickHz: ticks are ns.
const tickHz = 1e9

// speaker makes statements for a machine that makes none itself.
type speaker struct {
	source string
	emit   func(run.Line) error
	seq    uint64
}

// hello introduces the machine.
func (p *speaker) hello(h mark.Hello, hostNs int64) error {
	h.Proto, h.TickHz, h.TickBits = mark.Version, tickHz, 64
	all, err := h.Statements()
	for _, s := range all {
		if err == nil {
			err = p.state(s, hostNs)
		}
	}
	return err
}

// beacon ties ticks to the host clock.
func (p *speaker) beacon(ticks, hostNs int64) error {
	p.seq++
	return p.state(mark.Sync{Seq: p.seq, Ticks: uint64(ticks)}.Statement(), hostNs)
}

func (p *speaker) state(s mark.Statement, hostNs int64) error {
	line, err := mark.Append(nil, s)
	if err != nil {
		return err
	}
	return p.emit(run.Line{HostNs: hostNs, Source: p.source, Text: line[:len(line)-1]})
}
