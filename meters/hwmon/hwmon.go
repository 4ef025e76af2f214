// Package hwmon reads current sensors through Linux's hwmon class: chips of the
// INA2xx family on an I2C bus, and POWER-Z meters bound to the kernel's own
// driver.
//
// # Sources
//
// Linux, Documentation/hwmon/ina2xx.rst, ina238.rst and powerz.rst;
// drivers/hwmon/ina2xx.c and powerz.c for units and rounding.
//
// # Current
//
// The kernel rounds curr1 to 1 mA, and the shunt's voltage in0 to 1 mV, whatever
// the chip resolves. So the shunt's voltage is the finer of the two only where
// the shunt is above 1 ohm; the driver takes whichever is finer, and says so.
// power1 is not used: it has no sign, and steps of 25 (INA219: 20) times those
// of the current register, so that small loads drown in them.
package hwmon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/polled"
	"github.com/joulemark/joulemark/si"
)

const (
	name  = "hwmon"
	class = "sys/class/hwmon"
)

// Driver reads the sensors of this machine.
var Driver = meters.Driver{
	Name:       name,
	Summary:    "INA2xx current sensors, and POWER-Z meters, through Linux's hwmon class",
	Status:     meters.Emulated,
	Transports: []meters.Transport{meters.Files},
	Models:     list(),
	Settings: []meters.Setting{
		{Key: "shunt", Help: "the shunt's true resistance, such as 100mohm, where the kernel has been told another"},
		{Key: "reversed", Help: "yes: the shunt is wired the other way round, and current from source to load reads negative"},
	},
	Rate:     "10 to 200, polled twice as often as the chip converts",
	Find:     find,
	OpenHost: open,
}

// chip is one kind of sensor: which attribute holds what, in which unit.
type chip struct {
	names []string
	volts string // mV
	// everyMs is the time between reads where the chip does not tell how often
	// it converts.
	everyMs int
	// shunt: it measures the voltage across a resistor that the kernel has to
	// be told.
	shunt bool
	traps []string
}

var shuntTraps = []string{
	"Its current is as wrong as the resistance of the shunt that the kernel was told: 10 mohm unless a device tree says otherwise, while many boards have 100 mohm.",
	"Its current comes in steps of 1 mA or more: what is smaller is not seen.",
	"Swapped wires make the current negative.",
	"power1 is not used: it has no sign, and its steps are 20 to 25 times as coarse as the current's.",
	"Volts and amps are read one after the other, about a millisecond apart.",
}

var chips = []chip{
	// Without update_interval the kernel sets 12 bits, 0.53 ms for each of the two
	// (ina2xx.c, INA219_CONFIG_DEFAULT; INA219 data sheet, table 5).
	{names: []string{"ina219", "ina220"}, volts: "in1_input", everyMs: 10, shunt: true, traps: shuntTraps},
	// 16 averages of 2.2 ms (ina2xx.c, INA226_CONFIG_DEFAULT).
	{names: []string{"ina226", "ina230", "ina231"}, volts: "in1_input", everyMs: 18, shunt: true, traps: shuntTraps},
	// A shunt of 2 mohm is within.
	{names: []string{"ina260"}, volts: "in1_input", everyMs: 18, traps: shuntTraps[1:]},
	// 16 averages of two conversions of 1.05 ms, and one of temperature (ina238.c,
	// INA238_ADC_CONFIG_DEFAULT). The kernel does not tell its shunt.
	{names: []string{"ina228", "ina237", "ina238"}, volts: "in1_input", everyMs: 25, shunt: true, traps: append(shuntTraps,
		"The kernel does not tell what it takes its shunt for: see the device tree.")},
	{names: []string{"powerz"}, volts: "in0_input", everyMs: 5, traps: []string{
		"The kernel rounds to 1 mV and 1 mA; the driver powerz reads the meter itself, and finer.",
		"The sign of the current is the direction in which it is plugged in.",
	}},
}

const (
	current  = "curr1_input"     // mA
	acrossR  = "in0_input"       // mV across the shunt
	resistor = "shunt_resistor"  // uohm
	interval = "update_interval" // ms
	celsius  = "temp1_input"     // thousandths of a degree
)

// defaultShunt is what the kernel takes a shunt for that nobody told it, ohm
// (ina2xx.c, INA2XX_RSHUNT_DEFAULT; ina238.c, INA238_RSHUNT_DEFAULT).
const defaultShunt = 0.01

func list() (models []meters.Model) {
	for _, c := range chips {
		for _, n := range c.names {
			models = append(models, meters.Model{Name: n, Accuracy: c.accuracy(), Traps: c.traps})
		}
	}
	return models
}

// accuracy is that of the shunt first of all, which no data sheet of a chip
// knows.
func (c chip) accuracy() meters.Accuracy {
	if c.shunt {
		return meters.Accuracy{Source: "depends on the shunt, whose tolerance is not known"}
	}
	return meters.Accuracy{Source: "no limits are known"}
}

// sensor is one that is there.
type sensor struct {
	chip
	dir, name string
	address   string // of its device, such as 1-0040; "" where that cannot be told
}

func sensors(files fs.FS) (all []sensor) {
	dirs, names := polled.Named(files, class, "name")
	for i, dir := range dirs {
		k := slices.IndexFunc(chips, func(c chip) bool { return slices.Contains(c.names, names[i]) })
		if k < 0 {
			continue
		}
		s := sensor{chip: chips[k], dir: dir, name: names[i]}
		if target, err := fs.ReadLink(files, path.Join(dir, "device")); err == nil {
			s.address = path.Base(target)
		}
		all = append(all, s)
	}
	return all
}

// spec names a sensor in a way that a restart does not change: numbers of
// hwmon do.
func (s sensor) spec(all []sensor) string {
	for _, other := range all {
		if other.name == s.name && other.dir != s.dir && s.address != "" {
			return name + ":" + s.address
		}
	}
	return name + ":" + s.name
}

func find(h meters.Host) (found []meters.Found) {
	all := sensors(h)
	for _, s := range all {
		f := meters.Found{Spec: s.spec(all), Driver: name, Model: s.name, Place: strings.TrimSpace(s.address + " /" + s.dir)}
		for _, file := range []string{s.volts, current} {
			if _, err := polled.ReadNumber(h, path.Join(s.dir, file)); err != nil {
				f.Problem = err
			}
		}
		found = append(found, f)
	}
	return found
}

type reader struct {
	host   meters.Host
	sensor sensor
	notify func(meters.Notice)

	amps    string  // file that current comes from
	per     float64 // units of it in an ampere
	columns []string
	values  []float64

	seen, negative int
}

func open(_ context.Context, h meters.Host, o meters.Options) (meters.Meter, error) {
	r := &reader{host: h, columns: []string{meters.Volts, meters.Amps}}
	var err error
	if r.sensor, err = pick(sensors(h), o.Place); err != nil {
		return nil, fmt.Errorf("open hwmon: %w", err)
	}
	told, err := r.choose(o.Settings)
	if err != nil {
		return nil, fmt.Errorf("open hwmon %s: %w", r.sensor.name, err)
	}
	if _, err := r.number(celsius); err == nil {
		r.columns = append(r.columns, meters.Celsius)
	}
	r.values = make([]float64, len(r.columns))
	if _, err := r.read(); err != nil {
		return nil, fmt.Errorf("open hwmon %s: %w", r.sensor.name, err)
	}
	r.notify, r.seen = o.Notify, 0
	info := meters.Info{Driver: name, Model: r.sensor.name, Serial: r.sensor.address, Columns: r.columns,
		Sample: meters.UnknownKind, Accuracy: r.sensor.accuracy()}
	m := polled.New(polled.Files{Host: h, Read: r.read}, info, r.every(), o.Notify)
	m.First(told...)
	return m, nil
}

// pick finds the sensor of a place: a chip's name or an address.
func pick(all []sensor, place string) (sensor, error) {
	var fit []sensor
	var specs []string
	for _, s := range all {
		if place == "" || place == s.name || place == s.address {
			fit = append(fit, s)
			specs = append(specs, s.spec(all))
		}
	}
	switch {
	case len(all) == 0:
		return sensor{}, &meters.Problem{Err: errors.New("this machine has no current sensor that the kernel knows"),
			Hint: "an INA226 at address 0x40 of bus 1 is made known by: echo ina226 0x40 | sudo tee /sys/bus/i2c/devices/i2c-1/new_device"}
	case len(fit) == 0:
		for _, s := range all {
			specs = append(specs, s.spec(all))
		}
		return sensor{}, &meters.Problem{Err: fmt.Errorf("there is no sensor %q", place), Hint: "this machine has " + strings.Join(specs, ", ")}
	case len(fit) > 1:
		return sensor{}, &meters.Problem{Err: fmt.Errorf("%d sensors fit", len(fit)), Hint: "take one of " + strings.Join(specs, ", ")}
	}
	return fit[0], nil
}

func (r *reader) number(file string) (int64, error) {
	return polled.ReadNumber(r.host, path.Join(r.sensor.dir, file))
}

// Codes of notices.
const (
	CurrentFrom   = "current-from"   // which file the current comes from
	ShuntDefault  = "shunt-default"  // the kernel was told no shunt
	CurrentSigned = "current-signed" // the current is negative
)

// choose decides where the current comes from, and what is to be told of it.
func (r *reader) choose(settings map[string]string) (told []meters.Notice, err error) {
	r.amps, r.per = current, 1000
	defer func() {
		switch v, ok := settings["reversed"]; {
		case ok && v != "yes":
			err = fmt.Errorf("reversed=%s is not reversed=yes", v)
		case ok:
			r.per = -r.per
		}
	}()
	text, given := settings["shunt"]
	if !r.sensor.shunt {
		if given {
			err = errors.New("it has no shunt that could be another")
		}
		return nil, err
	}
	microohms, err := r.number(resistor)
	kernel := float64(microohms) / 1e6
	if err != nil || !(kernel >= leastOhms && kernel <= mostOhms) {
		if given {
			return nil, fmt.Errorf("shunt=%s cannot be applied: the kernel does not tell what it takes the shunt for (%s)", text, resistor)
		}
		return nil, nil
	}
	ohms := kernel
	if given {
		ohms, err = si.Parse(text, "ohm")
		if err != nil || !(ohms >= leastOhms && ohms <= mostOhms) {
			return nil, fmt.Errorf("shunt=%s is not a resistance such as 100mohm", text)
		}
	} else if kernel == defaultShunt {
		told = append(told, meters.Notice{Code: ShuntDefault, Warn: true, Text: fmt.Sprintf(
			"the kernel takes the shunt of the %s for %s, its default: if the board's is another, all currents are wrong by that factor; say shunt=100mohm, or the like, in the meter spec",
			r.sensor.name, ohmText(kernel))})
	}
	text = fmt.Sprintf("current is curr1, in steps of 1 mA or more, over a shunt of %s", ohmText(ohms))
	r.per *= ohms / kernel
	if ohms > 1 {
		r.amps, r.per = acrossR, 1000*ohms
		text = fmt.Sprintf("current is in0 over a shunt of %s, in steps of %s", ohmText(ohms), si.Format(1e-3/ohms, "A", 3))
	}
	return append(told, meters.Notice{Code: CurrentFrom, Text: text}), nil
}

// Shunts that make sense, ohm. Assumed.
const leastOhms, mostOhms = 1e-6, 1000.0

func ohmText(ohms float64) string { return si.Format(ohms, "ohm", 4) }

// every is half of the time that the chip takes for a conversion.
func (r *reader) every() time.Duration {
	ms := float64(r.sensor.everyMs)
	if n, err := r.number(interval); err == nil && n > 0 && n < 10000 {
		ms = float64(n) / 2
	}
	return time.Duration(max(ms, leastEveryMs) * float64(time.Millisecond))
}

// leastEveryMs bounds the load on the bus: a read of two registers takes 1 to
// 2 ms.
const leastEveryMs = 5

// read reads all attributes one after the other.
func (r *reader) read() (polled.Reading, error) {
	millivolts, err := r.number(r.sensor.volts)
	if err != nil {
		return polled.Reading{}, err
	}
	units, err := r.number(r.amps)
	if err != nil {
		return polled.Reading{}, err
	}
	now := r.host.HostNs()
	volts, amps := float64(millivolts)/1000, float64(units)/r.per
	if !plausible(volts, amps) {
		return polled.Reading{}, fmt.Errorf("it shows %g V and %g A", volts, amps)
	}
	r.values[0], r.values[1] = volts, amps
	if len(r.values) > 2 {
		r.values[2] = math.NaN()
		if n, err := r.number(celsius); err == nil {
			r.values[2] = float64(n) / 1000
		}
	}
	r.judge(amps, now)
	return polled.Reading{Values: r.values, SampleNs: now, ArrivalNs: now}, nil
}

// plausible: the family ends at 85 V (INA228), and at 164 mV across shunts of a
// fraction of a milliohm.
func plausible(volts, amps float64) bool {
	return volts >= -1 && volts <= 100 && amps >= -1000 && amps <= 1000
}

// judge warns once of a current that is mostly negative.
func (r *reader) judge(amps float64, hostNs int64) {
	r.seen++
	if amps < 0 {
		r.negative++
	}
	if r.seen == signedAfter && r.negative > signedAfter*9/10 && r.notify != nil {
		r.notify(meters.Notice{HostNs: hostNs, Code: CurrentSigned, Warn: true,
			Text: "the current is negative: if it flows from source to load, the shunt is wired the other way round; say reversed=yes in the meter spec"})
	}
}

// signedAfter is how many samples are looked at for the sign.
const signedAfter = 50
