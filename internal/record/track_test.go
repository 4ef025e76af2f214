package record

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// told is a Sink that writes down what it is told.
type told struct{ lines []string }

func (s *told) Begin(i meters.Info, why Break) error {
	s.add("begin %s %s:%d", i.Serial, why.Reason, why.Rows)
	return nil
}

func (s *told) Block(b meters.Block) error {
	s.add("block %d", b.Len())
	return nil
}

func (s *told) Note(n meters.Notice) error {
	s.add("note %s:%d", n.Code, n.Count)
	return nil
}

func (s *told) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func TestTrack(t *testing.T) {
	samples := func(hostNs int64) meters.Block {
		return meters.Block{ArrivalNs: hostNs, Values: [][]float64{{1, 2, 3}}}
	}
	evidence := meters.Block{ArrivalNs: -1, Values: [][]float64{{}}}
	gap := func(ns int64) meters.Notice { return meters.Notice{Code: "slept", Count: 1, GapNs: ns} }
	open := func(t *Track, serial string) { t.Open(meters.Info{Serial: serial}) }
	for _, c := range []struct {
		name string
		do   func(*Track) error
		want string
	}{
		{"evidence before samples has no place", func(t *Track) error {
			open(t, "a")
			return errors.Join(t.Block(evidence), t.Block(samples(1)), t.Block(evidence))
		}, "begin a :0, block 3, block 0"},
		{"a short interruption changes nothing", func(t *Track) error {
			open(t, "a")
			return errors.Join(t.Block(samples(1)), t.Notice(gap(meters.SegmentGapNs)), t.Block(samples(2)))
		}, "begin a :0, block 3, note slept:1, block 3"},
		{"a long one begins a segment", func(t *Track) error {
			open(t, "a")
			return errors.Join(t.Block(samples(1)), t.Notice(gap(meters.SegmentGapNs+1)), t.Block(evidence), t.Block(samples(2)), t.Block(samples(3)))
		}, "begin a :0, block 3, note slept:1, block 0, begin a slept:0, block 3, block 3"},
		{"nothing is missing before the first samples", func(t *Track) error {
			open(t, "a")
			return errors.Join(t.Notice(gap(meters.SegmentGapNs+1)), t.Block(samples(2)))
		}, "note slept:1, begin a :0, block 3"},
		{"a lost meter", func(t *Track) error {
			open(t, "a")
			err := errors.Join(t.Block(samples(1)), t.Lost(2, errors.New("gone")))
			open(t, "b")
			return errors.Join(err, t.Block(samples(3)), t.Block(samples(4)))
		}, "begin a :0, block 3, note meter-lost:1, note interrupted:1, begin b meter-lost:0, block 3, block 3"},
		{"dropped samples", func(t *Track) error {
			open(t, "a")
			return errors.Join(t.Block(samples(1)), t.Dropped(2, 30), t.Block(samples(3)))
		}, "begin a :0, block 3, note not-recorded:30, begin a not-recorded:30, block 3"},
		{"the first reason counts, and all samples", func(t *Track) error {
			open(t, "a")
			err := errors.Join(t.Block(samples(1)), t.Lost(2, errors.New("gone")), t.Dropped(2, 30), t.Dropped(3, 12))
			open(t, "a")
			return errors.Join(err, t.Block(samples(4)))
		}, "begin a :0, block 3, note meter-lost:1, note not-recorded:30, note not-recorded:12, note interrupted:1, begin a meter-lost:42, block 3"},
	} {
		s := &told{}
		if err := c.do(NewTrack(s)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(s.lines, ", "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A reopened meter says for how long there were no samples, by whatever time
// they have.
func TestTrackHostTimes(t *testing.T) {
	var gapNs int64
	sink := &gapSink{gapNs: &gapNs}
	track := NewTrack(sink)
	info := meters.Info{Clock: meters.Shared, FirstHostNs: 5}
	at := func(ns int64) meters.Block {
		return meters.Block{ArrivalNs: -1, Values: [][]float64{{1, 1}}, TimesNs: []int64{ns - 1, ns}}
	}
	track.Open(info)
	if err := track.Block(at(10)); err != nil {
		t.Fatal(err)
	}
	info.FirstHostNs = 100
	track.Open(info)
	if err := track.Block(at(7)); err != nil || gapNs != 92 {
		t.Errorf("the gap is %d ns, %v, want 92", gapNs, err)
	}
}

type gapSink struct {
	told
	gapNs *int64
}

func (s *gapSink) Note(n meters.Notice) error {
	*s.gapNs = n.GapNs
	return nil
}

// A queue that was full takes no packets before half of it is written; a meter
// does not take the room of another.
func TestQueueFull(t *testing.T) {
	const packetBytes = itemBytes + 8*10
	q := newQueue(10 * packetBytes)
	var a, b lane
	put := func(l *lane) bool {
		return q.put(item{lane: l, packet: newPacket(meters.Block{Values: [][]float64{make([]float64, 10)}})})
	}
	n := 0
	for put(&a) {
		n++
	}
	if n != 10 || !put(&b) {
		t.Fatalf("%d packets found room, the other lane has %d bytes", n, b.bytes)
	}
	items, ended := q.take(nil)
	if len(items) != 11 || ended || q.size() != 11*packetBytes {
		t.Fatalf("took %d items, %d bytes wait", len(items), q.size())
	}
	for i, it := range items[:5] {
		if put(&a) {
			t.Errorf("there was room after %d packets", i)
		}
		q.done(it)
	}
	if !put(&a) {
		t.Error("there is no room although half is written")
	}
	q.end()
	if put(&b) {
		t.Error("an ended queue took a packet")
	}
	if _, ended := q.take(nil); !ended {
		t.Error("the queue did not end")
	}
}

// Packets are copies, whatever was in their memory before.
func TestPacketCopies(t *testing.T) {
	b := meters.Block{ArrivalNs: 7, Values: [][]float64{{1, 2}, {3, 4}}, TimesNs: []int64{5, 6}, Raw: []byte("raw")}
	for range 3 {
		p := newPacket(b)
		got := p.block
		if got.ArrivalNs != 7 || len(got.Values) != 2 || got.Values[0][1] != 2 || got.Values[1][0] != 3 || got.TimesNs[1] != 6 || string(got.Raw) != "raw" {
			t.Fatalf("got %+v", got)
		}
		b.Values[1][0] = 9
		if got.Values[1][0] != 3 {
			t.Error("a packet shares the meter's memory")
		}
		b.Values[1][0] = 3
		packets.Put(p)
	}
	// Without times and bytes it has none: empty is something else.
	for range 3 {
		p := newPacket(meters.Block{Values: [][]float64{{1}}})
		if p.block.TimesNs != nil || p.block.Raw != nil {
			t.Fatalf("got %+v", p.block)
		}
		packets.Put(p)
	}
}
