package bench

import (
	"math/rand/v2"

	"github.com/joulemark/joulemark/run"
)

// A link delays what it carries, keeps its order and may lose it.
type link struct {
	Link
	jitter, stalls, losses *rand.Rand
	stallFrom, stallTo     float64 // the stall that comes next, or is under way
	last                   float64 // host second of the last arrival
}

func newLink(l Link, seed uint64, name string) *link {
	k := &link{Link: l, jitter: stream(seed, name+".jitter"), stalls: stream(seed, name+".stalls"), losses: stream(seed, name+".loss")}
	k.nextStall()
	return k
}

func (k *link) nextStall() {
	if k.StallHz > 0 {
		k.stallFrom = k.stallTo + k.stalls.ExpFloat64()/k.StallHz
		k.stallTo = k.stallFrom + k.StallSeconds
	}
}

// carry returns when something that was ready at a host second arrives, and
// false if it never does.
func (k *link) carry(ready float64) (arrival float64, ok bool) {
	delay := k.DelaySeconds
	if k.Jitter == Uniform {
		delay += 2 * k.JitterSeconds * k.jitter.Float64()
	} else {
		delay += k.JitterSeconds * k.jitter.ExpFloat64()
	}
	if k.losses.Float64() < k.Loss {
		return 0, false
	}
	at := max(ready+delay, k.last)
	for k.StallHz > 0 && at >= k.stallTo {
		k.nextStall()
	}
	if k.StallHz > 0 && at >= k.stallFrom {
		at = k.stallTo
	}
	k.last = at
	return at, true
}

// sent is one line on the wire.
type sent struct {
	end  float64 // host second at which its last bit has left
	text []byte  // without its line end
}

// source is the name under which the target's lines are recorded.
const source = "uart"

// deliver returns the lines as the host receives them, in order.
func deliver(lines []sent, l Link, f Faults, seed uint64) []run.Line {
	w := newWire(l, f, seed)
	var got []run.Line
	for _, line := range lines {
		got = append(got, w.carry(line)...)
	}
	return got
}

// wire carries lines and damages some.
type wire struct {
	*link
	Faults
	draws *rand.Rand
	open  []byte // a line whose end was lost
}

func newWire(l Link, f Faults, seed uint64) *wire {
	return &wire{link: newLink(l, seed, "lines"), Faults: f, draws: stream(seed, "lines.faults")}
}

// carry returns what the host receives of one line: mostly that line.
func (w *wire) carry(line sent) []run.Line {
	// Both draws are made for every line, so that one fault more leaves the
	// others where they were.
	kind, place := w.draws.Float64(), w.draws.Float64()
	at, ok := w.link.carry(line.end)
	if !ok {
		return nil
	}
	text := append(w.open, line.text...)
	w.open = nil
	again := false
	switch i := int(place * float64(len(text))); {
	case kind < w.Corrupted:
		// Bits that never turn a printable byte into a line end.
		text[i] ^= []byte{1, 2, 4, 8, 16, 128}[i%6]
	case kind < w.Corrupted+w.Cut:
		text = text[:i]
	case kind < w.Corrupted+w.Cut+w.Duplicated:
		again = true
	case kind < w.Corrupted+w.Cut+w.Duplicated+w.Merged:
		w.open = text
		return nil
	}
	received := run.Line{HostNs: nanoseconds(at), Source: source, Text: text}
	if again {
		return []run.Line{received, received}
	}
	return []run.Line{received}
}

// nanoseconds rounds up: an arrival is never early.
func nanoseconds(hostSeconds float64) int64 {
	ns := int64(hostSeconds * 1e9)
	if float64(ns) < hostSeconds*1e9 {
		ns++
	}
	return ns
}
