package imports

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// otii is the CSV export of Qoitech's program for its Otii Arc and Ace: one
// file a channel, each with a column Timestamp and one named after the channel,
// as "Main current". Values are in SI units, as everywhere in its interface.
// Channels have rates of their own (current 4,000 samples a second, voltage
// less), so each current goes with the voltage that was read last before it.
// Source: qoitech/otii-tcp-client-python for channels and units; the headers
// were not seen in a real file.
var otii = Format{
	Name:    "otii",
	Summary: "CSV of one channel of an Otii (Timestamp,Main current); the voltage in a second --samples, or --volts",
	Detect: func(head []byte, path string) string {
		names := headerNames(head, path)
		if len(names) != 2 || !strings.HasPrefix(names[0], "timestamp") {
			return ""
		}
		if q, known := otiiChannel(names[1]); known {
			return fmt.Sprintf("a header of Timestamp and a channel of %s, %q", q, names[1])
		}
		return ""
	},
	Import:    importOtii,
	manyFiles: true,
}

// otiiChannels are the channels that can be used, by words in their names; the
// short names are those of the interface.
var otiiChannels = []struct{ word, quantity string }{
	{"main current", meters.Amps}, {"main voltage", meters.Volts}, {"main power", meters.Watts},
	{"mc", meters.Amps}, {"mv", meters.Volts}, {"mp", meters.Watts},
}

// otiiChannel finds what a channel measures.
func otiiChannel(name string) (quantity string, known bool) {
	for _, c := range otiiChannels {
		if strings.Contains(name, c.word) && (len(c.word) > 2 || slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }), c.word)) {
			return c.quantity, true
		}
	}
	return "", false
}

// otiiUnits are the units of the channels.
var otiiUnits = map[string]string{meters.Amps: "A", meters.Volts: "V", meters.Watts: "W"}

func importOtii(j *job) error {
	l := layout{model: "Qoitech Otii", sample: meters.UnknownKind, names: map[string]string{}}
	files := map[string]string{}
	for _, path := range append([]string{j.Samples}, j.Also...) {
		q, err := l.otiiFile(j, path)
		if err != nil {
			return err
		}
		if other := files[q]; other != "" {
			return fmt.Errorf("%s: holds %s as %s does; give one file for each channel", path, q, other)
		}
		files[q] = path
	}
	current, voltage, power := files[meters.Amps], files[meters.Volts], files[meters.Watts]
	switch {
	case power != "" && len(files) == 1:
		j.Samples = power
	case power != "":
		return fmt.Errorf("%s: holds the power: leave the other files out, or leave it out", power)
	case current == "":
		return fmt.Errorf("%s: holds the voltage alone; give the file of the current, too", voltage)
	case voltage != "" && j.Volts != 0:
		return fmt.Errorf("%s: holds the voltage; leave --volts out", voltage)
	case voltage != "":
		j.Samples = current
		c, err := l.openChannel(j, voltage, meters.Volts)
		if err != nil {
			return err
		}
		defer c.t.close()
		j.joined = c
	}
	return l.importTable(j)
}

// otiiFile reads the header of a file, and adds what its columns mean.
func (l *layout) otiiFile(j *job, path string) (quantity string, err error) {
	t, err := openTable(j.ctx, path)
	if err != nil {
		return "", err
	}
	defer t.close()
	if len(t.header) != 2 {
		return "", posError(path, t.headerLine, 0, "%d columns (%s), want Timestamp and one channel", len(t.header), t.names())
	}
	at, c := t.header[0], t.header[1]
	quantity, known := otiiChannel(normal(c.name))
	if at.quantity != timeOf || !known {
		return "", posError(path, t.headerLine, c.at, "the columns (%s) are not Timestamp and a channel of main current, voltage or power", t.names())
	}
	if at.wrong != nil {
		l.names[normal(at.name)] = timeOf + " s"
	}
	if c.quantity != quantity || c.wrong != nil {
		_, unit, marked := splitUnit(c.name)
		if _, err := parseUnit(unit, quantity); !marked || err != nil {
			unit = otiiUnits[quantity]
		}
		l.names[normal(c.name)] = quantity + " " + unit
	}
	return quantity, nil
}

// channel reads one quantity of a file of its own beside the samples, in the
// order of time.
type channel struct {
	t        *table
	time     *column
	value    *column
	heldNs   int64 // of the value that holds
	held     float64
	nextNs   int64
	next     float64
	ended    bool
	periodNs int64 // distance of the two
}

// openChannel opens the file of a quantity.
func (l *layout) openChannel(j *job, path, quantity string) (*channel, error) {
	t, err := openTable(j.ctx, path)
	if err != nil {
		return nil, err
	}
	c := &channel{t: t}
	if err = l.apply(t); err == nil {
		c.time, err = t.need(timeOf)
	}
	if err == nil {
		c.value, err = t.need(quantity)
	}
	if err == nil && (c.time == nil || c.value == nil) {
		err = fmt.Errorf("%s: the header (%s) lacks time or %s", path, t.names(), quantity)
	}
	if err == nil {
		c.nextNs = math.MinInt64
		err = c.step()
		c.heldNs, c.held = c.nextNs, c.next
	}
	if err == nil {
		err = c.step()
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return c, nil
}

// step reads the next row.
func (c *channel) step() error {
	switch err := c.t.next(2); {
	case err == io.EOF || err == errTorn:
		c.ended = true
		return nil
	case err != nil:
		return err
	}
	ns, _, err := c.t.stamp(c.time)
	if err != nil {
		return err
	}
	if ns < c.nextNs {
		return c.t.backwards(c.time, ns, c.nextNs)
	}
	v, ok, err := c.t.float(c.value)
	if err != nil {
		return err
	}
	if !ok {
		v = math.NaN()
	}
	c.nextNs, c.next = ns, v
	return nil
}

// at returns the value that held at a time, NaN where there was none for a
// while. Times must not fall.
func (c *channel) at(ns int64) (float64, error) {
	for !c.ended && c.nextNs <= ns {
		if c.nextNs > c.heldNs {
			c.periodNs = c.nextNs - c.heldNs
		}
		c.heldNs, c.held = c.nextNs, c.next
		if err := c.step(); err != nil {
			return 0, err
		}
	}
	// The last value, and the first one, reach as far as one lasts.
	reach := c.periodNs
	if !c.ended {
		reach = max(reach, c.nextNs-c.heldNs)
	}
	if away := max(ns-c.heldNs, c.heldNs-ns); float64(away) > maxHold*float64(reach) {
		return math.NaN(), nil
	}
	return c.held, nil
}
