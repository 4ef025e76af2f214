package ppk2

import (
	"encoding/binary"
	"math"
)

const (
	rateHz = 100000.0 // nominal

	wordBytes = 4
	// A word, from its lowest bit: 14 bits of the converter in units of four
	// counts, 3 bits range, one bit unused, 6 bits counter, 8 bits inputs
	// (MEAS_ masks in serialDevice.ts).
	valueMask    = 1<<14 - 1
	countsPerBit = 4
	rangeAt      = 14
	rangeMask    = 7
	counterAt    = 18
	turn         = 64 // words until the counter begins anew
	inputsAt     = 24

	inputs = 8

	// sureWords in a row, whose counter rises by one, show where words begin:
	// random bytes do so once in 64^7.
	sureWords = 8
	// mostSkipped bytes, one second of them, end the counting.
	mostSkipped = rateHz * wordBytes
)

// decoder turns a stream of words into samples. What it makes of the bytes does
// not depend on the pieces in which they come.
//
// A word counts only when the next one's counter follows: where bytes are lost,
// the word before may have taken a byte of another one. A place where the
// counter does not follow is a loss of samples if words go on there, and a loss
// of bytes if they go on elsewhere; the counter says how many words are missing,
// modulo a turn.
type decoder struct {
	convert *converter
	spikes  spikes
	volts   float64

	rest    []byte // not yet decoded
	aligned bool   // rest begins with a word whose counter is next
	begun   bool   // there was such a word
	next    uint32
	held    uint32 // the word before the bytes that are skipped
	skipped int    // bytes since then

	rows    int
	columns [2 + inputs][]float64 // of rows rows, in the order of Columns
}

// take decodes b and adds its samples to the columns.
func (d *decoder) take(b []byte) {
	if len(d.rest) > 0 {
		d.rest = append(d.rest, b...)
		d.rest = d.rest[:copy(d.rest, d.rest[d.decode(d.rest):])]
		return
	}
	d.rest = append(d.rest, b[d.decode(b):]...)
}

// forget makes the next bytes those of a new stream.
func (d *decoder) forget() {
	d.rest, d.aligned, d.begun, d.skipped = d.rest[:0], false, false, 0
	d.spikes.reset()
}

// decode decodes what can be decided of b, and returns how much that is.
func (d *decoder) decode(b []byte) int {
	at := 0
	for {
		if d.aligned {
			at += d.run(b[at:])
			if len(b)-at < 2*wordBytes {
				return at
			}
			d.held, d.aligned = word(b[at:]), false
			at += wordBytes
		}
		n, found := find(b[at:])
		at += n
		d.skipped += n
		if d.skipped > mostSkipped && d.begun {
			d.begun = false
			d.spikes.reset()
		}
		if !found {
			return at
		}
		d.resume(counter(b[at:]))
	}
}

func word(b []byte) uint32    { return binary.LittleEndian.Uint32(b) }
func counter(b []byte) uint32 { return word(b) >> counterAt & (turn - 1) }

// run decodes words as long as their successors follow, and returns their
// length.
func (d *decoder) run(b []byte) int {
	n := len(b)/wordBytes - 1 // the last one may have none yet
	if n < 1 {
		return 0
	}
	d.grow(n)
	i := 0
	for w := word(b); i < n; i++ {
		after := word(b[(i+1)*wordBytes:])
		if after>>counterAt&(turn-1) != (d.next+1)%turn {
			break
		}
		d.sample(w)
		d.next, w = (d.next+1)%turn, after
	}
	return i * wordBytes
}

// find looks for the first place where words begin for sure. n is how many
// bytes come before it, or are decided not to be one.
func find(b []byte) (n int, found bool) {
	for ; n+sureWords*wordBytes <= len(b); n++ {
		first := counter(b[n:])
		k := 1
		for k < sureWords && counter(b[n+k*wordBytes:]) == (first+uint32(k))%turn {
			k++
		}
		if k == sureWords {
			return n, true
		}
	}
	return n, false
}

// resume goes on with a word whose counter is c, after the skipped bytes.
func (d *decoder) resume(c uint32) {
	if d.begun {
		d.grow(1)
		if d.skipped%wordBytes == 0 {
			d.sample(d.held)
		} else {
			d.missing(1)
		}
		d.next = (d.next + 1) % turn
		// Of the numbers that the counter allows, the nearest to the words that
		// the skipped bytes would make.
		least := max(0, d.skipped/wordBytes-turn/2)
		d.missing(least + int((c-d.next-uint32(least))%turn))
	}
	d.next, d.aligned, d.begun, d.skipped = c, true, true, 0
}

// missing adds samples that are not known.
func (d *decoder) missing(n int) {
	d.grow(n)
	for i := range d.columns {
		for k := range n {
			d.columns[i][d.rows+k] = math.NaN()
		}
	}
	d.rows += n
}

// grow makes room for n more samples.
func (d *decoder) grow(n int) {
	if need := d.rows + n; need > len(d.columns[0]) {
		for i := range d.columns {
			d.columns[i] = append(make([]float64, 0, 2*need), d.columns[i][:d.rows]...)[:2*need]
		}
	}
}

// sample adds the sample of a word.
func (d *decoder) sample(w uint32) {
	k := min(int(w>>rangeAt&rangeMask), ranges-1)
	amps := d.spikes.filter(d.convert.amps(float64(w&valueMask*countsPerBit), k), k)
	row := d.rows
	d.columns[0][row], d.columns[1][row] = d.volts, amps
	for i, level := range &levels[w>>inputsAt] {
		d.columns[2+i][row] = level
	}
	d.rows++
}

// levels are those of the inputs, D0 first, by the byte that holds them.
var levels = func() (table [256][inputs]float64) {
	for b := range table {
		for i := range inputs {
			table[b][i] = float64(b >> i & 1)
		}
	}
	return table
}()
