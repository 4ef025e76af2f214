package execmeter

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/meters"
)

const (
	// mostPacket bytes of a line or a frame.
	mostPacket = 16 << 20
	// mostRows of a block are handed over at once.
	mostRows = 1 << 20

	// A frame: u32 length of what follows, u64 index of the first sample, then
	// float32 values, all of the first column, all of the second, and so on; all
	// little endian.
	lengthBytes = 4
	indexBytes  = 8
	valueBytes  = 4

	// mostSeconds is beyond every recording.
	mostSeconds = 1e9
)

// decoder turns packets into samples. It is pure.
type decoder struct {
	names  []string
	rateHz float64
	binary bool

	index int64   // of the next sample, missing ones included
	told  float64 // the last t_s, where there is a rate
	first float64
	begun bool
	last  int64 // ns, of the last sample where they have times

	frame [][]byte     // of the packet at hand: the values of each column,
	lists [][]*float64 // or these
	time  int64        // and its time, ns

	columns  [][]float64
	times    []int64
	out      [][]float64 // of the last block
	bad      int64
	firstBad error
}

func newDecoder(i meters.Info, binary bool) decoder {
	n := len(i.Columns)
	return decoder{names: i.Columns, rateHz: i.RateHz, binary: binary,
		frame: make([][]byte, n), lists: make([][]*float64, n), columns: make([][]float64, n), out: make([][]float64, n)}
}

func (d *decoder) rows() int { return len(d.columns[0]) }

// packet reads the next packet of b, for add to take, and says how many
// samples are missing before it. n is its length; 0 where it is not complete.
// Lines that are no samples are counted and passed over.
func (d *decoder) packet(b []byte) (n int, missing int64, err error) {
	if d.binary {
		return d.nextFrame(b)
	}
	for {
		i := bytes.IndexByte(b[n:], '\n')
		if i < 0 {
			clear(d.lists) // nothing to add
			if len(b)-n > mostPacket {
				return n, 0, fmt.Errorf("a line of more than %d bytes", mostPacket)
			}
			return n, 0, nil
		}
		line := b[n : n+i]
		n += i + 1
		missing, err = d.line(line)
		if err == nil {
			return n, missing, nil
		}
		if errors.Is(err, errTime) {
			return n, 0, err
		}
		if d.bad++; d.firstBad == nil {
			d.firstBad = err
		}
	}
}

func (d *decoder) nextFrame(b []byte) (n int, missing int64, err error) {
	if len(b) < lengthBytes {
		return 0, 0, nil
	}
	length := int64(binary.LittleEndian.Uint32(b))
	width := int64(valueBytes * len(d.names))
	if length < indexBytes+width || length > mostPacket || (length-indexBytes)%width != 0 {
		return 0, 0, fmt.Errorf("a frame of %d bytes: want %d and a multiple of %d, at most %d", length, indexBytes, width, mostPacket)
	}
	if int64(len(b)) < lengthBytes+length {
		return 0, 0, nil
	}
	index := binary.LittleEndian.Uint64(b[lengthBytes:])
	if float64(index) > mostSeconds*d.rateHz {
		return 0, 0, fmt.Errorf("a frame that begins with sample %d, beyond %g s", index, mostSeconds)
	}
	if int64(index) < d.index {
		return 0, 0, fmt.Errorf("a frame that begins with sample %d: the next one is %d", index, d.index)
	}
	values := b[lengthBytes+indexBytes : lengthBytes+length]
	size := len(values) / len(d.names)
	for i := range d.frame {
		d.frame[i] = values[i*size:][:size]
	}
	if !d.begun {
		d.begun, d.index = true, int64(index)
	}
	return int(lengthBytes + length), int64(index) - d.index, nil
}

// errTime is the cause of the error of a line that comes before an earlier one.
var errTime = errors.New("t_s goes back")

// line reads one line.
func (d *decoder) line(line []byte) (missing int64, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return 0, fmt.Errorf("%w: %.100q", err, line)
	}
	rows := -1
	for i, name := range d.names {
		d.lists[i] = nil
		if err := json.Unmarshal(members[name], &d.lists[i]); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		for _, v := range d.lists[i] {
			if v != nil && !(math.Abs(*v) <= math.MaxFloat32) {
				return 0, fmt.Errorf("%s: %g is out of range", name, *v)
			}
		}
		if n := len(d.lists[i]); n == 0 || rows >= 0 && n != rows {
			return 0, fmt.Errorf("%s: %d values, want as many as the others, and one at least", name, n)
		}
		rows = len(d.lists[i])
	}
	if rows > mostRows || d.rateHz == 0 && rows != 1 {
		return 0, fmt.Errorf("%d samples, want one at a time without a rate, and at most %d", rows, mostRows)
	}
	return d.at(members["t_s"])
}

// at takes the time of a line.
func (d *decoder) at(text json.RawMessage) (missing int64, err error) {
	if text == nil {
		if d.rateHz == 0 {
			return 0, errors.New("no t_s, and no rate")
		}
		d.begun = true
		return 0, nil
	}
	var t *float64
	if err := json.Unmarshal(text, &t); err != nil || t == nil || !(math.Abs(*t) <= mostSeconds) {
		return 0, fmt.Errorf("t_s %.100s is not a number of seconds", text)
	}
	if !d.begun {
		d.begun, d.first = true, *t
	}
	since := *t - d.first
	if d.rateHz == 0 {
		if d.time = int64(math.Round(since * 1e9)); d.time < d.last {
			return 0, fmt.Errorf("%w, to %g s", errTime, *t)
		}
		d.last = d.time
		return 0, nil
	}
	// Times of a program are good to a sample: one that is a sample early after
	// one that was late is no error, as long as they go on.
	missing = int64(math.Round(since*d.rateHz)) - d.index
	if on := d.index == 0 || *t > d.told; !on || missing < -1 {
		return 0, fmt.Errorf("%w, to %g s: sample %d is due", errTime, *t, d.index)
	}
	d.told = *t
	return max(missing, 0), nil
}

// add takes the samples of the packet at hand.
func (d *decoder) add() {
	before := d.rows()
	for i := range d.columns {
		if d.binary {
			d.columns[i] = appendFloats(d.columns[i], d.frame[i])
			continue
		}
		for _, v := range d.lists[i] {
			if v == nil {
				d.columns[i] = append(d.columns[i], math.NaN())
			} else {
				d.columns[i] = append(d.columns[i], *v)
			}
		}
	}
	added := d.rows() - before
	if d.rateHz == 0 && added > 0 {
		d.times = append(d.times, d.time)
	}
	d.index += int64(added)
}

// appendFloats appends float32 values; an infinite one was not measured.
func appendFloats(to []float64, b []byte) []float64 {
	for ; len(b) >= valueBytes; b = b[valueBytes:] {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		if math.IsInf(v, 0) {
			v = math.NaN()
		}
		to = append(to, v)
	}
	return to
}

// missing adds n samples that are not known.
func (d *decoder) missing(n int) {
	for i := range d.columns {
		for range n {
			d.columns[i] = append(d.columns[i], math.NaN())
		}
	}
	d.index += int64(n)
}

// skip leaves n samples out.
func (d *decoder) skip(n int64) { d.index += n }

// block hands over the samples, and forgets them when the next packet is
// added.
func (d *decoder) block() meters.Block {
	for i := range d.columns {
		d.out[i], d.columns[i] = d.columns[i], d.columns[i][:0]
	}
	b := meters.Block{ArrivalNs: -1, Values: d.out}
	if d.rateHz == 0 {
		b.TimesNs, d.times = d.times, d.times[:0]
	}
	return b
}
