package imports

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
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
	if err := x.findPeriod(); err != nil {
		return err
	}
	return x.read()
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
		b, err := x.t.rawLine()
		if err == io.EOF {
			break
		}
		if err == nil && !x.scan(b) {
			if err = x.slow(b); err == errTorn {
				if x.g == nil {
					return fmt.Errorf("%s: holds no whole sample", x.Samples)
				}
				if err = x.noteTorn(x.t); err == nil {
					break
				}
			}
			if err == errNoRow {
				continue
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

// scan reads a row of plain numbers, and returns false where it is not one.
// This is the hot loop of an import.
func (x *ppk2Import) scan(b []byte) bool {
	i, r := 0, &x.row
	r.amps, r.levels = math.NaN(), 0
	for k, kind := range x.p.kinds {
		if k > 0 {
			if i >= len(b) || b[i] != ',' {
				return false
			}
			i++
		}
		switch {
		case kind == kindTime:
			mantissa, decimals, end, ok := scanPlain(b, i)
			e := 9 + x.p.time.exp - decimals
			if !ok || e < 0 || e > 9 || mantissa > 1e9 {
				return false
			}
			r.ns, i = int64(mantissa)*int64(pow10[e]), end
		case kind == kindAmps:
			neg := i < len(b) && b[i] == '-'
			if neg {
				i++
			}
			mantissa, decimals, end, ok := scanPlain(b, i)
			e := decimals - x.p.amps.exp
			if !ok || e < 0 || e >= len(pow10) {
				return false
			}
			r.amps, i = float64(mantissa)/pow10[e], end
			if neg {
				r.amps = -r.amps
			}
		case kind == kindBits:
			if len(b)-i < pins {
				return false
			}
			if x.p.reversed {
				r.levels = pinLevels(binary.BigEndian.Uint64(b[i:]))
			} else {
				r.levels = pinLevels(binary.LittleEndian.Uint64(b[i:]))
			}
			i += pins
		case kind < pins:
			if i >= len(b) {
				return false
			}
			r.levels |= pinLevels(b[i]) << (8 * kind)
			i++
		default:
			for i < len(b) && b[i] != ',' {
				i++
			}
		}
	}
	return i == len(b) && (r.levels == x.last || x.see(r.levels))
}

// scanPlain reads digits, perhaps with a point among them, from place i of b on:
// the number is mantissa / 10^decimals, below 2^53.
func scanPlain(b []byte, i int) (mantissa uint64, decimals, end int, ok bool) {
	start, point := i, -1
	for ; i < len(b); i++ {
		c := b[i]
		if n := c - '0'; n <= 9 {
			mantissa = mantissa*10 + uint64(n)
			continue
		}
		if c != '.' || point >= 0 {
			break
		}
		point = i
	}
	digits := i - start
	if point >= 0 {
		digits--
		decimals = i - point - 1
	}
	return mantissa, decimals, i, digits > 0 && digits <= 15
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
		case kind == kindBits && x.p.reversed:
			r.levels = pinLevels(binary.BigEndian.Uint64(f.text))
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
