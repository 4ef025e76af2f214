package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// fnirsi is the text that the open loggers for FNIRSI meters (FNB48, FNB58,
// C1) write: a blank line, a header, then one line a sample,
//
//	timestamp sample_in_packet voltage_V current_A dp_V dn_V temp_C_ema energy_Ws capacity_As
//
// or energy_Wh and capacity_Ah in versions of 2022. The meter sends packets of
// four samples, 100 samples a second, without a clock or a counter. The stamps
// are the host's: arrival of the packet - 40 ms + sample_in_packet x 10 ms, so
// they step back and overlap where packets meet. They are taken as arrivals
// only; the samples are equidistant on the meter's own clock. (The constant
// between stamp and arrival is of no matter: analysis finds the offset of the
// two clocks from the edges in the power.) Packets that the logger lost leave
// no trace but late arrivals, and analysis looks for those.
var fnirsi = Format{
	Name:    "fnirsi",
	Summary: "text of the open FNIRSI loggers (timestamp sample_in_packet voltage_V current_A ...)",
	Detect:  detectFnirsi,
	Import:  importFnirsi,
	noEdges: true,
}

func detectFnirsi(head []byte, path string) string {
	for line := range bytes.Lines(head) {
		if bytes.Contains(line, []byte("timestamp")) && bytes.Contains(line, []byte("sample_in_packet")) {
			return "a header that names timestamp and sample_in_packet"
		}
	}
	return ""
}

const (
	packetSamples = 4
	samplePeriod  = 10 * int64(time.Millisecond) // of FNIRSI meters, nominal
	packetPeriod  = packetSamples * samplePeriod

	// sameArrivalNs is how far stamps of one packet may disagree: they have
	// three decimals.
	sameArrivalNs = 2 * int64(time.Millisecond)
	// samePacketNs tells two packets that both lost samples from one packet.
	samePacketNs = 25 * int64(time.Millisecond)

	// A clock that jumps further is that of another recording.
	maxBackNs    = int64(time.Second)
	maxForwardNs = int64(time.Hour)

	// What no FNIRSI meter can measure. A first sample after a restart of
	// 188.7 V and 170.4 A is known, left over in the meter's buffer.
	maxVolts, maxAmps = 60, 10
)

// fnirsiColumns are the columns that an import uses.
type fnirsiColumns struct {
	stamp, packet  column
	values         []column // volts, amps, then what else the run can hold
	energy, charge *column  // nil where the file has none
	fields         int
}

func (t *table) fnirsiColumns() (fnirsiColumns, error) {
	var c fnirsiColumns
	for _, need := range []struct {
		quantity string
		to       *column
	}{{timeOf, &c.stamp}, {packetOf, &c.packet}} {
		found, err := t.pick(need.quantity)
		if err != nil {
			return c, err
		}
		if found == nil {
			return c, fmt.Errorf("%s: the header (%s) has no column for %s; want timestamp, sample_in_packet, voltage_V, current_A and more", t.name, t.names(), need.quantity)
		}
		*need.to = *found
	}
	// The loggers' stamps are in seconds, though their header does not say so.
	if c.stamp.wrong != nil {
		c.stamp.wrong, c.stamp.scale = nil, 1
	}
	for i, q := range []string{meters.Volts, meters.Amps, meters.DPVolts, meters.DNVolts, meters.Celsius} {
		found, err := t.need(q)
		if err != nil {
			return c, err
		}
		if found != nil {
			c.values = append(c.values, *found)
		} else if i < 2 {
			return c, fmt.Errorf("%s: the header (%s) has no column for %s", t.name, t.names(), q)
		}
	}
	var err error
	if c.energy, err = t.need(energyOf); err != nil {
		return c, err
	}
	if c.charge, err = t.need(chargeOf); err != nil {
		return c, err
	}
	c.fields = max(c.stamp.index, c.packet.index, c.values[0].index, c.values[1].index) + 1
	return c, nil
}

// sums makes the running sums of a recording.
func (c fnirsiColumns) sums() []*runningSum {
	var sums []*runningSum
	if c.energy != nil {
		sums = append(sums, newRunningSum(*c.energy, "J", "volts x amps x 10 ms"))
	}
	if c.charge != nil {
		sums = append(sums, newRunningSum(*c.charge, "C", "amps x 10 ms"))
	}
	return sums
}

// fnirsiRow is one line of the file.
type fnirsiRow struct {
	k      int   // sample_in_packet
	baseNs int64 // its stamp, taken back to sample 0 of the packet
	values []float64
	text   []byte
	line   int
	totals []float64 // of the running columns, NaN where there is none
}

// fnirsiImport is an import under way.
type fnirsiImport struct {
	*job
	t *table
	c fnirsiColumns
	s *run.Stream
	b *block

	info    meters.Info
	epochNs int64 // the run's start, since 1970
	lastNs  int64 // base of the packet before
	firstNs int64

	packet    [packetSamples]fnirsiRow
	have      [packetSamples]bool
	last      int // index of the row last read, -1 for an open packet without rows
	baseNs    int64
	packets   int64 // written in this segment
	dropped   int64 // impossible samples left out at the start of a segment
	erased    int64 // impossible ones later, now NaN
	unread    int64 // samples whose line has no value
	missing   int64 // rows that packets lack
	disorder  int64
	duplicate int64
	samples   int64
	sums      []*runningSum
}

func importFnirsi(j *job) error {
	if j.RateHz != 0 {
		return fmt.Errorf("%s: FNIRSI meters give 100 samples a second; leave --rate out", j.Samples)
	}
	t, err := openTable(j.ctx, j.Samples)
	if err != nil {
		return err
	}
	defer t.close()
	c, err := t.fnirsiColumns()
	if err != nil {
		return err
	}
	f := &fnirsiImport{job: j, t: t, c: c, last: -1, sums: c.sums()}
	if err := f.read(); err != nil {
		return err
	}
	if err := f.conclude(); err != nil {
		return err
	}
	endNs, err := j.importMarks(f.epochNs, f.firstNs, f.lastNs+packetPeriod)
	if err != nil {
		return err
	}
	return j.finish(max(endNs, f.lastNs+packetPeriod-f.epochNs))
}

// read goes through the rows and writes the packets.
func (f *fnirsiImport) read() error {
	var row fnirsiRow
	for {
		err := f.t.next(f.c.fields)
		if err == errTorn {
			if f.w == nil {
				return fmt.Errorf("%s: holds no whole sample", f.Samples)
			}
			err = f.noteTorn(f.t)
			if err == nil {
				break
			}
		}
		if err == io.EOF {
			break
		}
		if err == nil {
			err = f.parse(&row)
		}
		if err == nil && f.w == nil {
			err = f.open(row)
		}
		if err == nil {
			err = f.place(&row)
		}
		if err != nil {
			return err
		}
	}
	return f.endPacket(true)
}

// parse reads the current row.
func (f *fnirsiImport) parse(r *fnirsiRow) error {
	stampNs, _, err := f.t.stamp(&f.c.stamp)
	if err != nil {
		return err
	}
	at := f.t.field(f.c.packet.index)
	r.k, err = strconv.Atoi(string(at.text))
	if err != nil || r.k < 0 || r.k >= packetSamples {
		return posError(f.t.name, f.t.line, at.at, "sample_in_packet %q is not 0 to %d", clip(at.text), packetSamples-1)
	}
	r.baseNs = stampNs - int64(r.k)*samplePeriod
	r.values = r.values[:0]
	for i := range f.c.values {
		v, ok, err := f.t.float(&f.c.values[i])
		if err != nil {
			return err
		}
		if !ok {
			v = math.NaN()
		}
		r.values = append(r.values, v)
	}
	r.line, r.totals = f.t.line, r.totals[:0]
	for _, s := range f.sums {
		total, ok, err := f.t.float(&s.column)
		if err != nil {
			return err
		}
		if !ok {
			total = math.NaN()
		}
		r.totals = append(r.totals, total)
	}
	r.text = r.text[:0]
	for _, c := range f.t.row {
		r.text = append(append(r.text, c.text...), ' ')
	}
	return nil
}

// open begins the run at the first row.
func (f *fnirsiImport) open(r fnirsiRow) error {
	stampNs := r.baseNs + int64(r.k)*samplePeriod
	f.epochNs = stampNs - stampNs%int64(time.Second)
	f.firstNs, f.lastNs, f.baseNs = r.baseNs, r.baseNs, r.baseNs
	started := ""
	if f.epochNs >= epochNs {
		started = time.Unix(0, f.epochNs).UTC().Format(time.RFC3339)
	}
	if err := f.create(started); err != nil {
		return err
	}
	f.info = f.job.info(meters.Info{
		Model: "FNIRSI", RateHz: 1e9 / float64(samplePeriod), PacketSamples: packetSamples,
		Sample: meters.UnknownKind, Clock: meters.ByArrival,
	})
	used := []column{f.c.stamp, f.c.packet}
	for _, c := range f.c.values {
		f.info.Columns = append(f.info.Columns, c.quantity)
		used = append(used, c)
	}
	for _, c := range []*column{f.c.energy, f.c.charge} {
		if c != nil {
			used = append(used, *c)
		}
	}
	if rest := f.t.passedOver(used...); rest != "" {
		f.log(fmt.Sprintf("%s: passed over: %s", f.Samples, rest))
	}
	return f.segment()
}

// segment begins a segment of the stream, and the running sums with it.
func (f *fnirsiImport) segment() (err error) {
	if f.s, err = f.w.Stream(f.info); err != nil {
		return err
	}
	f.b = newBlock(f.s, len(f.info.Columns), false)
	f.packets, f.sums = 0, f.c.sums()
	return nil
}

// place puts a row into its packet, after writing the packet before if the row
// begins a new one.
func (f *fnirsiImport) place(r *fnirsiRow) error {
	apart := max(r.baseNs-f.baseNs, f.baseNs-r.baseNs)
	switch {
	case f.last < 0: // the packet has no rows yet
	case r.k > f.last && !f.have[r.k] && apart <= samePacketNs:
	case f.have[r.k] && f.repeats(r):
		f.duplicate++
		return nil
	case !f.have[r.k] && apart <= sameArrivalNs:
		f.disorder++
	default:
		if err := f.endPacket(false); err != nil {
			return err
		}
	}
	if f.last < 0 {
		f.baseNs = r.baseNs
		if err := f.jump(); err != nil {
			return err
		}
	}
	f.last = r.k
	f.have[r.k] = true
	f.packet[r.k], *r = *r, f.packet[r.k] // trades the buffers
	return nil
}

// repeats reports whether a row is the one that its place holds already, and
// no equal row of a later packet: within a packet that is still open, or where
// a running column should have grown.
func (f *fnirsiImport) repeats(r *fnirsiRow) bool {
	if !bytes.Equal(r.text, f.packet[r.k].text) {
		return false
	}
	complete := f.have == [packetSamples]bool{true, true, true, true}
	if r.k == f.last || !complete {
		return true
	}
	for _, s := range f.sums {
		if s.column.quantity == energyOf && r.values[0]*r.values[1]*1e-2 > 2*s.step ||
			s.column.quantity == chargeOf && r.values[1]*1e-2 > 2*s.step {
			return true
		}
	}
	return false
}

// impossible reports whether a sample is none that a meter can have measured.
func impossible(values []float64) bool {
	v, a := values[0], values[1]
	return v < 0 || v > maxVolts || a < 0 || a > maxAmps
}

// endPacket writes the packet that is open. At the end of the file the rows
// that it lacks behind its last one are not missing: they were never written.
func (f *fnirsiImport) endPacket(final bool) error {
	if f.last < 0 {
		return nil
	}
	n := packetSamples
	if final {
		for !f.have[n-1] {
			n--
		}
	}
	for k := range n {
		if f.have[k] {
			for i, s := range f.sums {
				s.add(f.packet[k], f.packet[k].totals[i])
			}
		}
		f.addSample(k)
	}
	f.packets++
	f.have, f.last, f.lastNs = [packetSamples]bool{}, -1, f.baseNs
	arrivalNs := f.baseNs + packetPeriod - f.epochNs
	return f.b.flush(arrivalNs)
}

// addSample adds sample k of the open packet, NaN where there is none or an
// impossible one. A segment begins with its first good sample.
func (f *fnirsiImport) addSample(k int) {
	r := f.packet[k]
	leading := f.packets == 0 && f.b.b.Len() == 0
	switch {
	case !f.have[k] && leading:
		return
	case !f.have[k]:
		f.missing++
	case impossible(r.values) && leading:
		f.dropped++
		return
	case impossible(r.values):
		f.erased++
	default:
		if math.IsNaN(r.values[0] + r.values[1]) {
			f.unread++
		}
		f.b.add(r.values)
		f.samples++
		return
	}
	hole := make([]float64, len(f.c.values))
	for i := range hole {
		hole[i] = math.NaN()
	}
	f.b.add(hole)
	f.samples++
}

// jump begins a new segment where the host's clock jumps before the packet
// that the current row opens.
func (f *fnirsiImport) jump() error {
	byNs := f.baseNs - f.lastNs
	if byNs >= -maxBackNs && byNs <= maxForwardNs {
		return nil
	}
	if f.baseNs < f.firstNs {
		return posError(f.t.name, f.t.line, 0, "the clock steps back to before the start of the file (%s s after %s s); split the file here and import its parts alone",
			seconds(f.baseNs), seconds(f.lastNs))
	}
	if err := f.concludeSums(); err != nil {
		return err
	}
	if err := f.note(run.Note{HostNs: f.baseNs - f.epochNs, Code: "clock-jump", Count: 1, Warn: true, Text: fmt.Sprintf(
		"the clock jumps by %s s before line %d: a second recording begins there, or the host's clock was set", seconds(byNs), f.t.line)}); err != nil {
		return err
	}
	return f.segment()
}

// conclude writes the notes on what was found.
func (f *fnirsiImport) conclude() error {
	f.summary.Samples, f.summary.RateHz = f.samples, f.info.RateHz
	f.summary.Seconds = float64(max(f.samples-1, 0)) / f.info.RateHz
	if f.samples == 0 || f.samples == f.unread+f.erased+f.missing {
		return fmt.Errorf("%s: holds no sample that a meter can have measured", f.Samples)
	}
	if err := f.concludeSums(); err != nil {
		return err
	}
	for _, n := range []run.Note{
		{Code: "impossible-first", Count: f.dropped, Warn: true, Text: fmt.Sprintf(
			"%s an impossible value at the start (above %d V or %d A, or below 0), left in the meter's buffer from before; left out",
			have(f.dropped, "sample"), maxVolts, maxAmps)},
		{Code: "impossible", Count: f.erased, Warn: true, Text: fmt.Sprintf(
			"%s an impossible value (above %d V or %d A, or below 0); taken as not measured", have(f.erased, "sample"), maxVolts, maxAmps)},
		{Code: "missing-values", Count: f.unread, Text: have(f.unread, "sample") + " no value for volts or amps; taken as not measured"},
		{Code: "missing-rows", Count: f.missing, Text: have(f.missing, "sample") + " no row in the packet; taken as not measured"},
		{Code: "disordered-rows", Count: f.disorder, Text: have(f.disorder, "row") + " the wrong place within the packet; put in order"},
		{Code: "duplicate-rows", Count: f.duplicate, Text: have(f.duplicate, "row") + " been written twice; the second left out"},
	} {
		if n.Count == 0 {
			continue
		}
		if err := f.note(n); err != nil {
			return err
		}
	}
	return nil
}

// concludeSums writes a note for each running column that disagrees with the
// samples.
func (f *fnirsiImport) concludeSums() error {
	for _, s := range f.sums {
		text, warn := s.verdict()
		if text == "" {
			continue
		}
		if err := f.note(run.Note{Code: s.column.quantity + "-column", Count: 1, Warn: warn, Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// runningSum compares a running column of the file (energy or charge) with the
// sum over the samples. The column is never used for anything else.
type runningSum struct {
	column column
	unit   string
	of     string
	step   float64 // one unit of its last decimal, the sixth

	rows       int
	sum        float64 // of all rows, impossible ones too, as a logger sums
	variance   float64 // of sum, from the rounding of the values
	impossible float64 // part of sum from impossible samples
	start      float64 // the column before the first row
	difference float64 // column - start - sum, at the last row
	line       int     // where it first went beyond rounding; 0 if it never did
}

// sumStep and valueStep are one unit of the last decimal that the loggers
// write: of running columns and of volts and amps.
const sumStep, valueStep = 1e-6, 1e-5

func newRunningSum(c column, unit, of string) *runningSum {
	return &runningSum{column: c, unit: unit, of: of, step: sumStep * c.scale}
}

// add takes one row, in the order of the samples, and the column's total there.
func (s *runningSum) add(r fnirsiRow, total float64) {
	dt := float64(samplePeriod) / 1e9
	volts, amps := r.values[0], r.values[1]
	if s.column.quantity == chargeOf {
		volts = 1
	}
	x := amps * volts * dt
	if math.IsNaN(x + total) {
		return
	}
	s.sum += x
	if impossible(r.values) {
		s.impossible += x
	}
	// Rounding is uniform over one step: variance step^2/12 (JCGM 100:2008,
	// F.2.2.1).
	s.variance += (amps*amps + volts*volts) * (dt * valueStep) * (dt * valueStep) / 12
	if s.rows == 0 {
		s.start = total - x
	}
	s.rows++
	s.difference = total - s.start - s.sum
	if s.line == 0 && math.Abs(s.difference) > s.tolerance() {
		s.line = r.line
	}
}

// tolerance is what rounding explains.
func (s *runningSum) tolerance() float64 { return 2*s.step + 5*math.Sqrt(s.variance) }

// verdict says how column and samples disagree, and whether that casts doubt on
// the samples; "" if they agree.
func (s *runningSum) verdict() (text string, warn bool) {
	switch {
	case s.line != 0:
		return fmt.Sprintf("the column %s differs from the sum of %s from line %d on, at the end by %.6g %s; results come from volts and amps alone",
			s.column.name, s.of, s.line, s.difference, s.unit), true
	case s.impossible != 0:
		return fmt.Sprintf("the column %s holds %.6g %s of impossible samples; results come from volts and amps alone",
			s.column.name, s.impossible, s.unit), true
	case s.rows > 0 && math.Abs(s.start) > s.tolerance():
		return fmt.Sprintf("the column %s stands at %.6g %s before the first sample: the recording began earlier", s.column.name, s.start, s.unit), false
	}
	return "", false
}
