package record

import (
	"sync"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// packet is a copy of a meter's block, which the meter uses again.
type packet struct {
	block  meters.Block
	values []float64 // backs block.Values
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
	times, raw := append(p.block.TimesNs[:0], b.TimesNs...), append(p.block.Raw[:0], b.Raw...)
	p.block = meters.Block{ArrivalNs: b.ArrivalNs, Values: columns, TimesNs: times, Raw: raw}
	return p
}

// bytes is what a packet holds.
func (p *packet) bytes() int64 {
	return int64(8*len(p.values) + 8*len(p.block.TimesNs) + len(p.block.Raw))
}

// item is something to be written.
type item struct {
	write  func(*run.Writer) error
	packet *packet // what write writes; nil for others
	bytes  int64   // held beside the packet; put adds the rest
}

const (
	itemBytes  = 128     // of an item beside its packet, roughly
	spareBytes = 4 << 20 // kept for what is no packet: it tells of the loss
)

// queue holds what the writer has not come to yet: a bounded number of bytes,
// so that a slow disk costs samples, but never memory or time of a meter. Once
// it was full, it takes no packets until half of it is written: one long gap
// is better than many short ones.
type queue struct {
	limit int64
	wake  chan struct{} // holds a token when there is something to take

	mu    sync.Mutex
	items []item
	bytes int64
	full  bool
	ended bool
}

func newQueue(limit int64) *queue {
	return &queue{limit: limit, wake: make(chan struct{}, 1)}
}

// put hands an item over. It reports false if there is no room for it, or if
// the queue has ended.
func (q *queue) put(i item) bool {
	i.bytes += itemBytes
	room := spareBytes + q.limit
	if i.packet != nil {
		room = q.limit
		i.bytes += i.packet.bytes()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.full && q.bytes <= q.limit/2 {
		q.full = false
	}
	if over := q.bytes+i.bytes > room; q.ended || i.packet != nil && q.full || over {
		q.full = q.full || over
		return false
	}
	q.bytes += i.bytes
	q.items = append(q.items, i)
	q.signal()
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
