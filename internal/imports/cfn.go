package imports

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// cfn is a recording that a FNIRSI meter keeps on its own disk, or its
// vendor's program saves. All little-endian:
//
//	f64 sample rate, i32 start current (mA), i32 stop current (mA),
//	i32 stop time (s), i16 number of channels
//	a channel: u16 type, 4 unknown bytes, u8 1 if a range follows: f64 max, f64 min
//	i32 number of points
//	a point: f64 time (s), then a f64 for each channel
//
// Source: cfn2csv.py of didim99/usbmeter-utils and cfn.rs of
// Randomblock1/fnirsi-usb-tool, which agree. The points' own times count, not
// the rate.
var cfn = Format{
	Name:    "cfn",
	Summary: "a recording from the disk of a FNIRSI meter (.cfn)",
	Detect:  detectCFN,
	Import:  importCFN,
}

// cfnTypes are the quantities by type of channel. The last two are sums that
// the meter ran, and are passed over.
var cfnTypes = []string{meters.Volts, meters.Amps, meters.DPVolts, meters.DNVolts, meters.Watts, "ampere-hours", "watt-hours"}

// cfnHead is what stands before the points.
type cfnHead struct {
	rateHz   float64
	channels []int // indices into cfnTypes
	points   int64 // as stated
	bytes    int64 // of the head
}

// pointBytes is the size of one point.
func (h cfnHead) pointBytes() int64 { return 8 * int64(1+len(h.channels)) }

// names lists the channels.
func (h cfnHead) names() string {
	var names []string
	for _, c := range h.channels {
		names = append(names, cfnTypes[c])
	}
	return strings.Join(names, ", ")
}

var errCFNShort = errors.New("the file ends within its head")

// parseCFN reads the head from the first bytes of a file.
func parseCFN(b []byte) (cfnHead, error) {
	var h cfnHead
	r := bytes.NewReader(b)
	var fixed struct {
		Rate                          float64
		StartAmps, StopAmps, StopTime int32
		Channels                      int16
	}
	if binary.Read(r, binary.LittleEndian, &fixed) != nil {
		return h, errCFNShort
	}
	h.rateHz = fixed.Rate
	if !(h.rateHz >= 0 && h.rateHz <= maxRateHz) {
		return h, fmt.Errorf("a sample rate of %g Hz", h.rateHz)
	}
	if fixed.Channels < 1 || int(fixed.Channels) > len(cfnTypes) {
		return h, fmt.Errorf("%d channels, want 1 to %d", fixed.Channels, len(cfnTypes))
	}
	for range fixed.Channels {
		var channel struct {
			Type     uint16
			Unknown  [4]byte
			HasRange uint8
		}
		if binary.Read(r, binary.LittleEndian, &channel) != nil {
			return h, errCFNShort
		}
		if int(channel.Type) >= len(cfnTypes) || channel.HasRange > 1 {
			return h, fmt.Errorf("a channel of type %d with a range flag of %d", channel.Type, channel.HasRange)
		}
		if slices.Contains(h.channels, int(channel.Type)) {
			return h, fmt.Errorf("two channels of %s", cfnTypes[channel.Type])
		}
		h.channels = append(h.channels, int(channel.Type))
		r.Seek(16*int64(channel.HasRange), io.SeekCurrent)
	}
	var points int32
	if binary.Read(r, binary.LittleEndian, &points) != nil {
		return h, errCFNShort
	}
	if points < 1 {
		return h, fmt.Errorf("%d points", points)
	}
	h.points, h.bytes = int64(points), int64(len(b)-r.Len())
	return h, nil
}

func detectCFN(head []byte, path string) string {
	h, err := parseCFN(head)
	if err != nil {
		return ""
	}
	if strings.EqualFold(filepath.Ext(path), ".cfn") {
		return "a file *.cfn with channels of " + h.names()
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != h.bytes+h.points*h.pointBytes() {
		return ""
	}
	return "a head of cfn that states the size of the file, with channels of " + h.names()
}

// cfnImport is an import under way.
type cfnImport struct {
	*job
	h     cfnHead
	r     *bufio.Reader
	used  []int // places of the columns in a point
	power int   // how many of them make up the power
	read  int64 // points so far
	buf   []byte

	firstNs, lastNs int64
	values          []float64
}

func importCFN(j *job) error {
	if j.RateHz != 0 {
		return fmt.Errorf("%s: its points carry times of their own; leave --rate out", j.Samples)
	}
	f, err := openRegular(os.Stat, os.Open, j.Samples)
	if err != nil {
		return err
	}
	defer f.Close()
	c := &cfnImport{job: j, r: bufio.NewReaderSize(f, maxLine)}
	head, err := c.r.Peek(headBytes)
	if err != nil && err != io.EOF {
		return fileError(j.Samples, err)
	}
	if c.h, err = parseCFN(head); err != nil {
		return fmt.Errorf("%s: is no cfn recording: %w", j.Samples, err)
	}
	c.r.Discard(int(c.h.bytes))
	info, err := c.columns()
	if err != nil {
		return err
	}
	size, err := f.Stat()
	if err != nil {
		return fileError(j.Samples, err)
	}
	if err := c.copy(info, (size.Size()-c.h.bytes)/c.h.pointBytes()); err != nil {
		return err
	}
	return j.end(c.firstNs, c.lastNs)
}

// columns picks volts and amps, or else watts, and what else a run can hold.
func (c *cfnImport) columns() (meters.Info, error) {
	info := c.info(meters.Info{Model: "FNIRSI", Sample: meters.UnknownKind, Clock: meters.Shared})
	place := func(quantity string) int { return slices.Index(c.h.channels, slices.Index(cfnTypes, quantity)) }
	wanted := []string{meters.Volts, meters.Amps}
	if place(meters.Volts) < 0 || place(meters.Amps) < 0 {
		wanted = []string{meters.Watts}
		if place(meters.Watts) < 0 {
			return info, fmt.Errorf("%s: its channels (%s) are neither volts and amps nor watts", c.Samples, c.h.names())
		}
	}
	c.power = len(wanted)
	for _, q := range append(wanted, meters.DPVolts, meters.DNVolts) {
		if i := place(q); i >= 0 {
			info.Columns = append(info.Columns, q)
			c.used = append(c.used, i)
		}
	}
	c.log(fmt.Sprintf("%s: channels %s; the run takes %s", c.Samples, c.h.names(), strings.Join(info.Columns, ", ")))
	return info, nil
}

// copy streams the points that are there into the run.
func (c *cfnImport) copy(info meters.Info, there int64) error {
	points := min(c.h.points, there)
	if points == 0 {
		return fmt.Errorf("%s: states %d points and holds none", c.Samples, c.h.points)
	}
	c.buf, c.values = make([]byte, c.h.pointBytes()), make([]float64, len(c.used))
	var b *block
	holes := int64(0)
	for c.read < points {
		ns, err := c.next()
		if err == nil && b == nil {
			b, err = c.begin(info, ns)
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.values[:c.power], math.IsNaN) {
			holes++
		}
		b.b.TimesNs = append(b.b.TimesNs, ns-c.firstNs)
		b.add(c.values)
		if b.b.Len() == blockRows {
			if err := b.flush(-1); err != nil {
				return err
			}
		}
	}
	if holes == points {
		return fmt.Errorf("%s: no point has a value", c.Samples)
	}
	if err := b.flush(-1); err != nil {
		return err
	}
	c.summary.Samples = points
	c.summary.Seconds = float64(c.lastNs-c.firstNs) / 1e9
	return c.conclude(holes)
}

// begin begins the run at the first point.
func (c *cfnImport) begin(info meters.Info, ns int64) (*block, error) {
	c.firstNs, info.FirstHostNs = ns, ns
	if err := c.create(""); err != nil {
		return nil, err
	}
	s, err := c.w.Stream(info)
	if err != nil {
		return nil, err
	}
	return newBlock(s, len(info.Columns), true), nil
}

// maxCFNSeconds bounds times: no recording is 30 years long.
const maxCFNSeconds = 1e9

// next reads one point into values and returns its time.
func (c *cfnImport) next() (ns int64, err error) {
	if c.read%blockRows == 0 && c.ctx.Err() != nil {
		return 0, fmt.Errorf("%s: %w", c.Samples, c.ctx.Err())
	}
	if _, err := io.ReadFull(c.r, c.buf); err != nil {
		return 0, fileError(c.Samples, err)
	}
	c.read++
	at := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(c.buf[8*i:])) }
	seconds := at(0)
	if !(math.Abs(seconds) <= maxCFNSeconds) {
		return 0, fmt.Errorf("%s: point %d has a time of %g s", c.Samples, c.read, seconds)
	}
	ns = int64(math.Round(seconds * float64(time.Second)))
	if c.read > 1 && ns < c.lastNs {
		return 0, fmt.Errorf("%s: time runs backwards at point %d: %g s after %g s", c.Samples, c.read, seconds, float64(c.lastNs)/1e9)
	}
	c.lastNs = ns
	for i, place := range c.used {
		v := at(1 + place)
		if implausible(v) {
			return 0, fmt.Errorf("%s: point %d has %g for %s: the file is damaged, or no cfn recording", c.Samples, c.read, v, cfnTypes[c.h.channels[place]])
		}
		c.values[i] = v
	}
	return ns, nil
}

// conclude writes the notes on what was found.
func (c *cfnImport) conclude(holes int64) error {
	if holes > 0 {
		if err := c.note(run.Note{Code: "missing-values", Count: holes, Text: fmt.Sprintf(
			"%d of %d samples have no value; they count as not measured", holes, c.read)}); err != nil {
			return err
		}
	}
	if missing := c.h.points - c.read; missing > 0 {
		return c.note(run.Note{Code: "torn-file", Count: missing, Warn: true, Text: fmt.Sprintf(
			"the file states %d points and ends after %d: it is cut off", c.h.points, c.read)})
	}
	return nil
}
