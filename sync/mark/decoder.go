package mark

import "errors"

// Counts says what became of the lines of one source.
type Counts struct {
	Lines       int64 `json:"lines"`
	Statements  int64 `json:"statements"`   // accepted
	Checked     int64 `json:"checked"`      // accepted, with a right CRC
	Unchecked   int64 `json:"unchecked"`    // accepted without a CRC
	Evidence    int64 `json:"evidence"`     // without a CRC, from a source that sends it: not accepted
	BadChecksum int64 `json:"bad_checksum"` // wrong CRC
	Malformed   int64 `json:"malformed"`
	TooLong     int64 `json:"too_long"`
}

// Decoder decides which lines of one source are accepted. The zero value is
// ready to use.
//
// Lines without a CRC are accepted until the source has sent one with a right
// CRC. From then on they are evidence only: a line that was cut short has no
// CRC either. A source cuts an endless line after MaxLine+1 bytes, so that it
// shows as too long, and drops the rest.
type Decoder struct {
	counts Counts
	strict bool // a right CRC was seen
}

// Counts returns the tally so far.
func (d *Decoder) Counts() Counts { return d.counts }

// Decode returns the statement of a line and whether it is accepted. A line
// that is not accepted is counted.
func (d *Decoder) Decode(line []byte) (Statement, bool) {
	d.counts.Lines++
	s, err := Parse(line)
	d.strict = d.strict || s.Checked
	switch {
	case errors.Is(err, ErrNone):
	case errors.Is(err, ErrTooLong):
		d.counts.TooLong++
	case errors.Is(err, ErrChecksum):
		d.counts.BadChecksum++
	case err != nil:
		d.counts.Malformed++
	case s.Checked:
		d.counts.Statements++
		d.counts.Checked++
		return s, true
	case d.strict:
		d.counts.Evidence++
	default:
		d.counts.Statements++
		d.counts.Unchecked++
		return s, true
	}
	return Statement{}, false
}
