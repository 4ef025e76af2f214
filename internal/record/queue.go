package record

import (
	"sync"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// packet is a copy of a meter's block, which the meter uses again.
type packet struct {
	block meters.Block
	// What backs the block, to be used again.
	values []float64
	times  []int64
	raw    []byte
}

// packets are those that are not in use.
var packets = sync.Pool{New: func() any { return new(packet) }}

func newPacket(b meters.Block) *packet {
	p := packets.Get().(*packet)
	p.values = p.values[:0]
	for _, v := range b.Values {
		p.values = append(p.values, v...)
	}
	columns, rest := p.block.Values[:0], p.values
	for _, v := range b.Values {
		columns = append(columns, rest[:len(v):len(v)])
		rest = rest[len(v):]
	}
	p.times, p.raw = append(p.times[:0], b.TimesNs...), append(p.raw[:0], b.Raw...)
	p.block = meters.Block{ArrivalNs: b.ArrivalNs, Values: columns}
	if b.TimesNs != nil {
		p.block.TimesNs = p.times
	}
	if b.Raw != nil {
		p.block.Raw = p.raw
	}
	return p
}

// bytes is what a packet holds.
func (p *packet) bytes() int64 {
	return int64(8*len(p.values) + 8*len(p.times) + len(p.raw))
}

// item is something to be written.
type item struct {
	write  func(*run.Writer) error
	packet *packet // what write writes; nil for others
	lane   *lane   // of the packet's meter
	bytes  int64   // held beside the packet; put adds the rest
}

// lane is what a meter has in the queue. Once it was full, it takes no packets
// until half of them are written: one long gap is better than many short ones.
type lane struct {
	bytes int64
	full  bool
}

// takes reports whether there is room for a packet.
func (l *lane) takes(bytes, limit int64) bool {
	if l.full && l.bytes <= limit/2 {
		l.full = false
	}
	l.full = l.full || l.bytes+bytes > limit
	return !l.full
}

const (
	itemBytes  = 128     // of an item beside its packet, roughly
	otherBytes = 4 << 20 // bound what is no packet
	wakeBytes  = 1 << 20 // are worth waking the writer at once
)

// queue holds what the writer has not come to yet: a bounded number of bytes a
// meter, so that a slow disk costs samples, but never memory or time of a
// meter.
type queue struct {
	limit int64         // of a lane
	wake  chan struct{} // holds a token when there is much to take, or no more to come

	mu     sync.Mutex
	items  []item
	others lane // what is no packet
	bytes  int64
	ended  bool
}

func newQueue(limit int64) *queue {
	return &queue{limit: limit, wake: make(chan struct{}, 1)}
}

// put hands an item over. It reports false if there is no room for it, or if
// the queue has ended.
func (q *queue) put(i item) bool {
	limit := q.limit
	i.bytes += itemBytes
	if i.packet != nil {
		i.bytes += i.packet.bytes()
	} else {
		i.lane, limit = &q.others, otherBytes
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || !i.lane.takes(i.bytes, limit) {
		return false
	}
	i.lane.bytes += i.bytes
	q.bytes += i.bytes
	q.items = append(q.items, i)
	if q.bytes >= wakeBytes {
		q.signal()
	}
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns what was put since the last call, in order, and whether that was
// the last of it. into is a slice to be used again.
func (q *queue) take(into []item) (items []item, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.items = q.items, into[:0]
	return items, q.ended
}

// done says that an item was written.
func (q *queue) done(i item) {
	if i.packet != nil {
		packets.Put(i.packet)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	i.lane.bytes -= i.bytes
	q.bytes -= i.bytes
}

// size is the number of bytes that wait.
func (q *queue) size() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// end says that nothing more is to come.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.signal()
}
