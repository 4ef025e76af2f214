// Package battery reads the battery of the machine it runs on, from Linux's
// power supply class.
//
// # Sources
//
// Linux, Documentation/ABI/testing/sysfs-class-power: current_now in uA,
// voltage_now in uV, power_now in uW, temp in tenths of a degree, the texts of
// status. The ABI lets discharge be negative, many drivers give a magnitude: so
// status alone decides the sign here, and energy that leaves the battery is
// positive.
//
// # What a sample is
//
// Batteries show a new value every 1 to 30 s, of a mean or an instant that
// nobody states. They are read twice a second; how often their values changed
// is told at the end.
package battery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/polled"
)

const (
	name  = "battery"
	class = "sys/class/power_supply"
	// every is the time between reads: half the second for which the kernel
	// keeps an ACPI battery's values (Linux, drivers/acpi/battery.c,
	// cache_time).
	every = 500 * time.Millisecond
	// leastUpdates is how many values a window should hold at least. Assumed:
	// one on either edge is wrong, 5 % each.
	leastUpdates = 20
)

// Driver reads the batteries of this machine.
var Driver = meters.Driver{
	Name:       name,
	Summary:    "the battery of this machine, through Linux's power supply class",
	Status:     meters.Emulated,
	Transports: []meters.Transport{meters.Files},
	Models: []meters.Model{{
		Name:     name,
		Accuracy: accuracy,
		Traps: []string{
			"It measures the whole machine, screen and radios included, and only while no charger is plugged in.",
			"Most batteries show a new value every 1 to 30 s: windows must be much longer.",
		},
	}},
	Rate:     "2, polled; values change every 1 to 30 s",
	Find:     find,
	OpenHost: open,
}

var accuracy = meters.Accuracy{Source: "no limits are published for fuel gauges"}

// field is one attribute: a whole number of units.
type field struct {
	file   string
	per    float64 // units in one of the column's
	column string
}

// forms are the ways in which batteries tell power, the preferred one first.
var forms = [][]field{
	{{"power_now", 1e6, meters.Watts}},
	{{"voltage_now", 1e6, meters.Volts}, {"current_now", 1e6, meters.Amps}},
}

// extras are read where they are there.
var extras = []field{{"temp", 10, meters.Celsius}}

// batteries returns the folders of batteries that supply the machine itself,
// not a mouse.
func batteries(files fs.FS) (dirs []string) {
	folders, types := polled.Named(files, class, "type")
	for i, dir := range folders {
		scope, _ := polled.ReadText(files, path.Join(dir, "scope"))
		present, err := polled.ReadNumber(files, path.Join(dir, "present"))
		if types[i] == "Battery" && scope != "Device" && (err != nil || present == 1) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func find(h meters.Host) (found []meters.Found) {
	for _, dir := range batteries(h) {
		f := meters.Found{Spec: name + ":" + path.Base(dir), Driver: name, Place: "/" + dir}
		f.Model, _ = polled.ReadText(h, path.Join(dir, "model_name"))
		f.Serial, _ = polled.ReadText(h, path.Join(dir, "serial_number"))
		if status, _ := polled.ReadText(h, path.Join(dir, "status")); status == "" {
			f.Problem = errors.New("it has no status")
		} else if _, err := form(h, dir); err != nil {
			f.Problem = err
		}
		found = append(found, f)
	}
	return found
}

// form returns the fields in which a battery tells power, or why it does not.
func form(files fs.FS, dir string) ([]field, error) {
	var refused error
	for _, fields := range forms {
		readable := true
		for _, f := range fields {
			_, err := polled.ReadNumber(files, path.Join(dir, f.file))
			readable = readable && err == nil
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				refused = err
			}
		}
		if readable {
			return fields, nil
		}
	}
	if refused != nil {
		return nil, refused
	}
	return nil, errors.New("it tells neither power_now nor voltage_now and current_now")
}

type reader struct {
	host   meters.Host
	dir    string
	notify func(meters.Notice)
	fields []field
	values []float64
	power  int // of the values, those that are signed

	toldCharging bool
	changes      changes
}

func open(_ context.Context, h meters.Host, o meters.Options) (meters.Meter, error) {
	dirs := batteries(h)
	if o.Place != "" {
		dirs = slices.DeleteFunc(dirs, func(dir string) bool { return path.Base(dir) != o.Place })
	}
	switch {
	case len(dirs) == 0:
		return nil, fmt.Errorf("open battery: no battery %s in /%s", o.Place, class)
	case len(dirs) > 1:
		return nil, fmt.Errorf("open battery: %w", several(dirs))
	}
	r := &reader{host: h, dir: dirs[0]}
	var err error
	if r.fields, err = form(h, r.dir); err != nil {
		return nil, fmt.Errorf("open battery %s: %w", path.Base(r.dir), err)
	}
	r.power = len(r.fields)
	for _, f := range extras {
		if _, err := polled.ReadNumber(h, path.Join(r.dir, f.file)); err == nil {
			r.fields = append(r.fields[:len(r.fields):len(r.fields)], f)
		}
	}
	r.values = make([]float64, len(r.fields))
	if _, err := r.read(); err != nil {
		return nil, fmt.Errorf("open battery %s: %w", path.Base(r.dir), err)
	}
	r.notify, r.changes = o.Notify, changes{}
	info := meters.Info{Driver: name, Sample: meters.UnknownKind, Accuracy: accuracy}
	for _, f := range r.fields {
		info.Columns = append(info.Columns, f.column)
	}
	info.Model, _ = polled.ReadText(h, path.Join(r.dir, "model_name"))
	info.Serial, _ = polled.ReadText(h, path.Join(r.dir, "serial_number"))
	return &meter{polled.New(polled.Files{Host: h, Read: r.read}, info, every, o.Notify), r}, nil
}

func several(dirs []string) error {
	var specs []string
	for _, dir := range dirs {
		specs = append(specs, name+":"+path.Base(dir))
	}
	return &meters.Problem{Err: fmt.Errorf("this machine has %d batteries", len(dirs)),
		Hint: "record them all: --meter " + strings.Join(specs, " --meter ")}
}

// Codes of notices.
const (
	Charging   = "charging"    // the load was not on the battery, or not alone
	SlowValues = "slow-values" // how often values changed
)

func (r *reader) read() (polled.Reading, error) {
	status, err := polled.ReadText(r.host, path.Join(r.dir, "status"))
	if err != nil {
		return polled.Reading{}, err
	}
	for i, f := range r.fields {
		n, err := polled.ReadNumber(r.host, path.Join(r.dir, f.file))
		if err != nil {
			return polled.Reading{}, err
		}
		r.values[i] = float64(n) / f.per
	}
	now := r.host.HostNs()
	if err := sign(r.fields[:r.power], r.values[:r.power], status); err != nil {
		return polled.Reading{}, err
	}
	r.changes.add(now, r.values[:r.power])
	if status != discharging && !r.toldCharging && r.notify != nil {
		r.toldCharging = true
		r.notify(meters.Notice{HostNs: now, Code: Charging, Warn: true,
			Text: fmt.Sprintf("the battery says %q, not %q: what the machine uses does not come from it alone; unplug the charger", status, discharging)})
	}
	return polled.Reading{Values: r.values, SampleNs: now, ArrivalNs: now}, nil
}

// discharging is the status in which the machine runs on the battery alone.
const discharging = "Discharging"

// maxUnits bounds what a battery of a machine can show, in V, A and W. Assumed.
const maxUnits = 1000

// sign gives currents and powers the sign that status tells, positive from the
// battery to the machine. It fails where status or a value make no sense.
func sign(fields []field, values []float64, status string) error {
	switch status {
	case discharging, "Charging", "Full", "Not charging", "Unknown":
	default:
		return fmt.Errorf("its status is %q", status)
	}
	for i, f := range fields {
		v := values[i]
		if v < 0 {
			v = -v
		}
		if v > maxUnits || f.column == meters.Volts && values[i] <= 0 {
			return fmt.Errorf("%s is %g", f.file, values[i])
		}
		if f.column != meters.Volts && status == "Charging" {
			v = -v
		}
		values[i] = v
	}
	return nil
}

// changes counts how often values change.
type changes struct {
	count           int
	firstNs, lastNs int64 // host ns of the first and the last change
	values          []float64
}

func (c *changes) add(hostNs int64, values []float64) {
	switch {
	case c.values == nil:
	case slices.Equal(c.values, values):
		return
	default:
		if c.count == 0 {
			c.firstNs = hostNs
		}
		c.count++
		c.lastNs = hostNs
	}
	c.values = append(c.values[:0], values...)
}

// notice tells the typical time between changes.
func (c *changes) notice() string {
	if c.count < 2 {
		return "the battery's values did not change twice: no window can be told from its idle"
	}
	seconds := float64(c.lastNs-c.firstNs) * 1e-9 / float64(c.count-1)
	return fmt.Sprintf("the battery showed a new value every %.1f s on average: windows shorter than %.0f s say little", seconds, leastUpdates*seconds)
}

// meter tells of the changes when its stream ends.
type meter struct {
	*polled.Meter
	reader *reader
}

// Stream hands over samples until ctx ends.
func (m *meter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	err := m.Meter.Stream(ctx, emit)
	if r := m.reader; r.notify != nil {
		r.notify(meters.Notice{HostNs: r.host.HostNs(), Code: SlowValues, Warn: true, Text: r.changes.notice()})
	}
	return err
}
