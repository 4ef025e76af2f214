package imports

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// ppk2 is what Nordic's Power Profiler application leaves behind: its export,
//
//	Timestamp(ms),Current(uA),D0-D7            8 characters, the leftmost is D0
//	Timestamp(ms),Current(uA),Bits             older: 8 characters, the leftmost is D7
//	Timestamp(ms),Current(uA),D0,D1,...,D7     one column a pin
//
// each part of which can be switched off, and its own file (ppk2session.go).
// A pin is 0, 1, - for invalid, or X where both levels were seen within the
// row. The time of a row is its index times the sample period, and rows of
// lost samples are left out: places come from the times. There is no voltage.
// Source: NordicSemiconductor/pc-nrfconnect-ppk, exportChartAction.ts.
var ppk2 = Format{
	Name:    "ppk2",
	Summary: "Nordic Power Profiler Kit II: CSV export (Timestamp(ms),Current(uA),D0-D7) or .ppk2 file",
	Detect: func(head []byte, path string) string {
		if saw := detectSession(head, path); saw != "" {
			return saw
		}
		names := headerNames(head, path)
		if !slices.Contains(names, "current(ua)") {
			return ""
		}
		return "a header that names Current(uA)"
	},
	Import: func(j *job) error {
		if j.Volts == 0 {
			return fmt.Errorf("%s: a PPK2 records current only; state the voltage of the target's supply with --volts, such as --volts 3.3V", j.Samples)
		}
		if head, err := readHead(j.Samples); err != nil || bytes.HasPrefix(head, []byte(zipMagic)) {
			if err != nil {
				return err
			}
			return j.importSession()
		}
		return j.importPPK2()
	},
}

const (
	// ppk2MaxAmps is beyond what a PPK2 can measure (1 A, by its product page).
	ppk2MaxAmps = 2.0
	// maxMissingShare bounds the samples that are put in for rows that are not
	// there: a recording that lacks more is no recording. It keeps a small file
	// from becoming a large run. More than half has been lost in real ones.
	maxMissingShare = 0.9
	// missingAllowance is what may be missing before the share counts.
	missingAllowance = 1_000_000
)

// kinds of columns of an export; a pin is its number.
const (
	kindPass = iota + pins
	kindTime
	kindAmps
	kindBits
)

// ppk2Plan says what the columns of an export are.
type ppk2Plan struct {
	kinds      []int // by column
	time, amps *column
	reversed   bool // the leftmost character of the bits is D7
	pins       []int
}

func (t *table) ppk2Plan() (ppk2Plan, error) {
	p := ppk2Plan{}
	for i := range t.header {
		c := &t.header[i]
		kind := -1
		switch name := normal(c.name); {
		case c.wrong == nil && c.quantity == timeOf:
			kind, p.time = kindTime, c
		case c.wrong == nil && c.quantity == meters.Amps:
			kind, p.amps = kindAmps, c
		case name == "d0-d7" || name == "bits":
			kind, p.reversed = kindBits, name == "bits"
		case len(name) == 2 && name[0] == 'd' && name[1] >= '0' && name[1] < '0'+pins:
			kind = int(name[1] - '0')
		}
		if kind < 0 || slices.Contains(p.kinds, kind) {
			return p, posError(t.name, t.headerLine, c.at,
				"column %q is not known in a PPK2 export, or is there twice (want Timestamp(ms), Current(uA), D0-D7 or Bits, D0 to D7); try --from csv", c.name)
		}
		p.kinds = append(p.kinds, kind)
	}
	if p.amps == nil {
		return p, fmt.Errorf("%s: the header (%s) has no column Current(uA)", t.name, t.names())
	}
	p.choosePins()
	return p, nil
}

// choosePins takes the string of all pins where there is one, and passes over
// the columns that say the same again.
func (p *ppk2Plan) choosePins() {
	all := slices.Contains(p.kinds, kindBits)
	for k := range pins {
		i := slices.Index(p.kinds, k)
		if all && i >= 0 {
			p.kinds[i] = kindPass
		}
		if all || i >= 0 {
			p.pins = append(p.pins, k)
		}
	}
}

// ppk2Import is an import under way.
type ppk2Import struct {
	*job
	t *table
	p ppk2Plan
	g *grid

	fast     ppk2Fast
	text     timeText
	periodNs int64
	firstNs  int64
	nextNs   int64 // where the next sample is expected
	row      ppk2Row
	last     pinLevels // of the row before
	blurred  bool      // last has a pin that is neither 0 nor 1
	unclear  int64     // rows of that kind
}

// ppk2Row is what one row says.
type ppk2Row struct {
	ns     int64
	amps   float64 // NaN for none
	levels pinLevels
}

func (j *job) importPPK2() error {
	t, err := openTable(j.ctx, j.Samples)
	if err != nil {
		return err
	}
	defer t.close()
	x := &ppk2Import{job: j, t: t}
	if x.p, err = t.ppk2Plan(); err != nil {
		return err
	}
	x.fast = x.p.fast()
	if err := x.findPeriod(); err != nil {
		return err
	}
	err = x.read()
	if x.g != nil {
		err = cmp.Or(err, x.g.close())
	}
	return err
}

// periodRows is how many rows at the start show the sample period.
const periodRows = 1000

// findPeriod finds the sample period: what the user stated, or the smallest
// distance of rows at the start.
func (x *ppk2Import) findPeriod() error {
	rateHz := x.RateHz
	switch {
	case x.p.time == nil && rateHz == 0:
		return fmt.Errorf("%s: the export has no column Timestamp(ms); state the rate at which it was recorded with --rate (the application's own is 100000)", x.Samples)
	case x.p.time == nil:
	case rateHz != 0:
		return fmt.Errorf("%s: has a time column, %q; leave --rate out", x.Samples, x.p.time.name)
	default:
		periodNs, err := x.smallestStep()
		if err != nil {
			return err
		}
		rateHz = 1e9 / float64(periodNs)
	}
	if r := math.Round(rateHz); math.Abs(rateHz/r-1) < 1e-3 {
		rateHz = r
	}
	x.periodNs = int64(math.Round(1e9 / rateHz))
	if x.periodNs < 1 || x.periodNs > maxPPK2PeriodNs {
		return fmt.Errorf("%s: a sample period of %s s is none of a PPK2; try --from csv", x.Samples, seconds(x.periodNs))
	}
	x.RateHz = rateHz
	return nil
}

// maxPPK2PeriodNs is the longest sample period: the application's slowest rate
// is 1 Hz.
const maxPPK2PeriodNs = 1_000_000_000

// smallestStep reads the start of the file for the smallest distance of rows.
func (x *ppk2Import) smallestStep() (int64, error) {
	t, err := openTable(x.ctx, x.Samples)
	if err != nil {
		return 0, err
	}
	defer t.close()
	step, lastNs := int64(math.MaxInt64), int64(0)
	for row := range periodRows {
		if err := t.next(x.p.time.index + 1); err != nil {
			if err != io.EOF && err != errTorn {
				return 0, err
			}
			break
		}
		ns, _, err := t.stamp(x.p.time)
		if err != nil {
			return 0, err
		}
		if row > 0 && ns > lastNs {
			step = min(step, ns-lastNs)
		}
		lastNs = ns
	}
	if step == math.MaxInt64 {
		return 0, fmt.Errorf("%s: fewer than two samples with different times", x.Samples)
	}
	return step, nil
}

// read goes through the rows and writes the samples.
func (x *ppk2Import) read() error {
	for {
		if err := x.scanBuffered(); err != nil {
			return err
		}
		b, err := x.t.rawLine()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = x.slow(b)
		}
		if err == errNoRow {
			continue
		}
		if err == errTorn {
			if err = x.noteTorn(x.t); err == nil {
				break
			}
		}
		if err == nil {
			err = x.place()
		}
		if err != nil {
			return err
		}
	}
	if err := x.g.conclude(x.Volts); err != nil {
		return err
	}
	for _, n := range blurredNote(x.unclear) {
		if err := x.note(n); err != nil {
			return err
		}
	}
	x.summary.Samples, x.summary.RateHz = x.g.written, x.RateHz
	lastNs := x.firstNs + (x.g.written-1)*x.periodNs
	x.summary.Seconds = float64(lastNs-x.firstNs) / 1e9
	return x.end(x.firstNs, lastNs)
}

// blurredNote says that levels of pins are not known everywhere.
func blurredNote(n int64) []run.Note {
	if n == 0 {
		return nil
	}
	return []run.Note{{Code: "unclear-pins", Count: n, Text: have(n, "sample") +
		" a pin at both levels (X) or at none (-): an edge lies within such a sample, where it is not known; the pin counts as not measured there"}}
}

// scanBuffered takes the rows of plain numbers that are in the buffer, up to
// the first other one.
func (x *ppk2Import) scanBuffered() error {
	if !x.fast.ok {
		return nil
	}
	b := x.t.buffered()
	at := 0
	for at < len(b) {
		n := x.scan(b[at:])
		if n == 0 {
			break
		}
		at += n
		x.t.line++
		if err := x.place(); err != nil {
			return err
		}
	}
	x.t.discard(at)
	return nil
}

// scan reads a row of plain numbers at the start of b, in the order in which the
// application writes them, and returns its length with its line end; 0 where it
// is not one, or not whole. This is the hot loop of an import.
func (x *ppk2Import) scan(b []byte) int {
	i, f := 0, &x.fast
	if f.time && x.text.next(b) {
		x.row.ns += x.text.stepNs
		i = x.text.n + 1
	} else if f.time {
		mantissa, decimals, end := scanPlain(b, 0)
		e := f.timeExp - decimals
		if end == 0 || e < 0 || e >= len(tenTo) || mantissa > maxTimeMantissa || b[end] != ',' {
			return 0
		}
		x.row.ns, i = int64(mantissa)*tenTo[e], end+1
		x.text.set(b, end, tenTo[e])
	}
	neg := i < len(b) && b[i] == '-'
	if neg {
		i++
	}
	mantissa, decimals, i := scanPlain(b, i)
	e := decimals + f.ampsExp
	if i == 0 || e < 0 || e >= len(pow10) {
		return 0
	}
	amps := float64(mantissa) / pow10[e]
	if neg {
		amps = -amps
	}
	x.row.amps = amps
	levels := pinLevels(0)
	if f.bits {
		if len(b)-i < 1+pins || b[i] != ',' {
			return 0
		}
		levels = pinLevels(binary.LittleEndian.Uint64(b[i+1:]))
		if x.p.reversed {
			levels = pinLevels(bits.ReverseBytes64(uint64(levels)))
		}
		i += 1 + pins
	}
	if f.columns {
		if len(b)-i < 2*pins {
			return 0
		}
		low, okLow := unweave(binary.LittleEndian.Uint64(b[i:]))
		high, okHigh := unweave(binary.LittleEndian.Uint64(b[i+pins:]))
		if !okLow || !okHigh {
			return 0
		}
		if !f.bits {
			levels = pinLevels(low | high<<32)
		}
		i += 2 * pins
	}
	if i < len(b) && b[i] == '\r' {
		i++
	}
	if i >= len(b) || b[i] != '\n' || levels != x.last && !x.see(levels) {
		return 0
	}
	x.row.levels = levels
	return i + 1
}

// timeText is the text of the time of the row before. Nine times of ten the next
// one differs in its last digit only, which is then one more.
type timeText struct {
	n      int // its length; 0 where it is none that next can tell
	words  [2]uint64
	stepNs int64 // of its last digit
}

// set takes the time at the start of b.
func (t *timeText) set(b []byte, n int, stepNs int64) {
	t.n = 0
	if n <= 16 && len(b) >= 16 && b[n-1] != '.' {
		*t = timeText{n, [2]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, stepNs}
	}
}

// next reports whether b begins with the time one digit later and a comma, and
// takes it then.
func (t *timeText) next(b []byte) bool {
	n := t.n
	if n == 0 || len(b) <= 16 || b[n] != ',' || b[n-1] > '9' {
		return false
	}
	k := (n - 1) / 8
	if k == 1 && binary.LittleEndian.Uint64(b) != t.words[0] {
		return false
	}
	got, last := binary.LittleEndian.Uint64(b[8*k:]), n-8*k
	if (got^(t.words[k]+1<<(8*(last-1))))<<(64-8*last) != 0 {
		return false
	}
	t.words[k] = got
	return true
}

// maxTimeMantissa keeps a time within an int64 of ns, whatever its unit.
const maxTimeMantissa = 9e9

// unweave takes the commas out of ",0,1,0,1".
func unweave(x uint64) (levels uint64, ok bool) {
	ok = x&0x00ff00ff00ff00ff == 0x002c002c002c002c
	x = x >> 8 & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return (x | x>>16) & 0xffffffff, ok
}

// ppk2Fast is what the hot loop needs to know of a file. Every row takes the
// slow way unless ok.
type ppk2Fast struct {
	ok                  bool
	time, bits, columns bool
	timeExp             int // a time is mantissa x 10^(timeExp-decimals) ns
	ampsExp             int // a current is mantissa / 10^(ampsExp+decimals) A
}

// fast finds whether the columns stand as the application writes them.
func (p *ppk2Plan) fast() ppk2Fast {
	f := ppk2Fast{ampsExp: -p.amps.exp}
	kinds := p.kinds
	take := func(some ...int) bool {
		if len(kinds) < len(some) || !slices.Equal(kinds[:len(some)], some) {
			return false
		}
		kinds = kinds[len(some):]
		return true
	}
	if f.time = take(kindTime); f.time {
		f.timeExp = 9 + p.time.exp
	}
	f.ok = take(kindAmps)
	f.bits = take(kindBits)
	f.columns = take(0, 1, 2, 3, 4, 5, 6, 7) || f.bits && take(slices.Repeat([]int{kindPass}, pins)...)
	f.ok = f.ok && len(kinds) == 0
	return f
}

// tenTo holds powers of ten.
var tenTo = [...]int64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

// scanPlain reads digits, perhaps with a point among them, from place i of b on:
// the number is mantissa / 10^decimals, below 10^15. end is 0 where there is
// none, or too little of b is left to tell.
func scanPlain(b []byte, i int) (mantissa uint64, decimals, end int) {
	m, n := leadingDigits(b, i)
	digits := n
	i += n
	if n == 8 {
		more, n := leadingDigits(b, i)
		m, digits = m*uint64(tenTo[n]), digits+n
		m += more
		i += n
	}
	if i < len(b) && b[i] == '.' {
		more, n := leadingDigits(b, i+1)
		m, decimals, digits = m*uint64(tenTo[n]), n, digits+n
		m += more
		i += 1 + n
	}
	if digits < 1 || digits > 15 || decimals == 8 || len(b)-i < 1 {
		return 0, 0, 0
	}
	return m, decimals, i
}

// leadingDigits reads the digits at place i of b, eight at most, all at once:
// D. Lemire, Quickly parsing eight digits (2018). None where fewer than eight
// bytes are left.
func leadingDigits(b []byte, i int) (v uint64, n int) {
	if len(b)-i < 8 {
		return 0, 0
	}
	const each = 0x0101010101010101
	x := binary.LittleEndian.Uint64(b[i:]) ^ '0'*each
	// A byte above 9 carries into its highest bit.
	n = bits.TrailingZeros64((x&(0x7f*each)+0x76*each|x)&(0x80*each)) / 8
	x <<= 64 - 8*n
	x = x*10 + x>>8
	return (x&0xff000000ff*0x000f424000000064 + x>>16&0xff000000ff*0x0000271000000001) >> 32, n
}

// see takes new levels; it reports whether they are written as levels are.
func (x *ppk2Import) see(levels pinLevels) bool {
	blurred := false
	for _, k := range x.p.pins {
		c := byte(levels >> (8 * k))
		if !isLevel(c) {
			return false
		}
		blurred = blurred || c > '1' || c < '0'
	}
	x.last, x.blurred = levels, blurred
	return true
}

func isLevel(c byte) bool { return c == '0' || c == '1' || c == '-' || c == 'X' || c == 'x' }

// errNoRow says that a line is blank or a comment.
var errNoRow = fmt.Errorf("no row")

// slow reads a row that is no row of plain numbers, or says what is wrong.
func (x *ppk2Import) slow(b []byte) error {
	x.text.n = 0
	if trimmed := bytes.TrimSpace(b); len(trimmed) == 0 || trimmed[0] == '#' {
		return errNoRow
	}
	if err := x.t.checkLine(b); err != nil {
		return err
	}
	if err := x.t.take(b, len(x.p.kinds)); err != nil {
		return err
	}
	r := &x.row
	r.amps, r.levels = math.NaN(), 0
	if x.p.time != nil {
		ns, _, err := x.t.stamp(x.p.time)
		if err != nil {
			return err
		}
		r.ns = ns
	}
	v, ok, err := x.t.float(x.p.amps)
	if err != nil {
		return err
	}
	if ok {
		r.amps = v
	}
	for i, kind := range x.p.kinds {
		f := x.t.field(i)
		switch {
		case kind == kindBits && x.t.torn && len(f.text) < pins:
			return errTorn
		case kind == kindBits && len(f.text) != pins:
			return posError(x.t.name, x.t.line, f.at, "%q is not one character for each of %d pins", clip(f.text), pins)
		case kind == kindBits:
			r.levels = pinLevels(binary.LittleEndian.Uint64(f.text))
		case kind < pins && len(f.text) == 1:
			r.levels |= pinLevels(f.text[0]) << (8 * kind)
		case kind >= pins:
			continue
		}
		if kind < pins && len(f.text) != 1 || !allLevels(f.text) {
			return posError(x.t.name, x.t.line, f.at, "%q is no level of a pin (0, 1, - or X)", clip(f.text))
		}
	}
	if x.p.reversed {
		r.levels = pinLevels(bits.ReverseBytes64(uint64(r.levels)))
	}
	x.see(r.levels)
	return nil
}

func allLevels(b []byte) bool {
	for _, c := range b {
		if !isLevel(c) {
			return false
		}
	}
	return true
}

// place puts the row where its time says, after the samples that are missing
// before it.
func (x *ppk2Import) place() error {
	r := &x.row
	if x.blurred {
		x.unclear++
	}
	if x.g == nil {
		if err := x.open(); err != nil {
			return err
		}
	}
	if x.p.time != nil && r.ns != x.nextNs {
		if err := x.jump(r.ns); err != nil {
			return err
		}
	}
	x.nextNs += x.periodNs
	return x.g.add(r.amps, r.levels)
}

// jump moves to the place of a row that is not where it was expected.
func (x *ppk2Import) jump(ns int64) error {
	late := ns - x.nextNs
	lost := (late + x.periodNs/2) / x.periodNs
	switch {
	case late < -x.periodNs/2:
		return posError(x.t.name, x.t.line, 0, "time runs backwards or stands still: %s s after %s s; split the file here if these are two recordings",
			seconds(ns), seconds(x.nextNs-x.periodNs))
	case max(late-lost*x.periodNs, lost*x.periodNs-late) > x.periodNs/offGrid:
		return posError(x.t.name, x.t.line, 0, "time %s s is no multiple of the sample period of %s s after the first row's; try --from csv", seconds(ns), seconds(x.periodNs))
	case lost > 0:
		x.nextNs += lost * x.periodNs
		return x.g.skip(lost)
	}
	return nil
}

// offGrid is the part of a sample period by which a time may miss its place.
const offGrid = 20

// open begins the run at the first row.
func (x *ppk2Import) open() (err error) {
	x.firstNs, x.nextNs = x.row.ns, x.row.ns
	if err := x.startAt(x.firstNs, false); err != nil {
		return err
	}
	x.g, err = x.newGrid(meters.Info{
		Model: "Nordic PPK2", RateHz: x.RateHz, Sample: meters.UnknownKind, Clock: meters.Shared, FirstHostNs: x.firstNs - x.baseNs,
	}, x.Volts, x.p.pins)
	if err == nil {
		x.log(fmt.Sprintf("%s: current at %g samples a second, %d digital inputs", x.Samples, x.RateHz, len(x.p.pins)))
	}
	return err
}
