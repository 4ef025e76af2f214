// Package rapl reads the energy counters of processors (RAPL) from the files of
// Linux's powercap framework.
//
// # Sources
//
// Linux, Documentation/power/powercap/powercap.rst: the files and what they
// hold. Linux commit 949dd0104c49 (CVE-2020-8694): readable by root alone since
// 5.10. Intel, Software Developer's Manual volume 3, 16.10: the counters have 32
// bits and are updated about every millisecond.
//
// # What a sample is
//
// A counter is read, and read again: the sample is the mean power over the time
// between, stamped by the host clock with the beginning of that time. So the
// sum over samples is the counter's energy, whatever the moments of reading. A
// counter that has not moved since the last read says nothing, and the next
// sample covers its time too.
package rapl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/polled"
)

// Driver reads the counters of this machine.
var Driver = meters.Driver{
	Name:       name,
	Summary:    "energy counters of Intel and AMD processors, through Linux's powercap",
	Status:     meters.Emulated,
	Transports: []meters.Transport{meters.Files},
	Models: []meters.Model{{
		Name:     packages,
		Accuracy: accuracy,
		Traps: []string{
			"It measures the machine it runs on, and reading it costs energy there.",
			"The sum of packages leaves out dram, which has a counter of its own (rapl:dram); core and uncore are parts of a package.",
			"Some processors model what they do not measure.",
			"Since the fix of CVE-2020-8694, Intel's counters may carry added noise where SGX is on.",
		},
	}},
	Settings: []meters.Setting{{Key: "every", Help: "time between reads, 2ms to 1s; 10ms where it is not given"}},
	Rate:     "100, polled",
	Find:     find,
	OpenHost: open,
}

// accuracy is not known.
var accuracy = meters.Accuracy{Source: "no limits are published by Intel or AMD"}

const (
	name  = "rapl"
	class = "sys/class/powercap"
	// packages is the place of the driver's own choice.
	packages   = "package"
	everyMs    = 10
	leastEvery = 2 * time.Millisecond // above the counters' own update
	mostEvery  = time.Second
)

// parts are domains that get a column of their own beside the packages. core
// and uncore lie within a package, dram beside it, psys around all.
var parts = []string{"core", "uncore", "dram", "psys"}

// hint is the fix for a missing permission.
const hint = `let users read the counters until the next boot:
  sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj
or for good, as /etc/udev/rules.d/70-rapl.rules:
  SUBSYSTEM=="powercap", ACTION=="add", RUN+="/bin/chmod a+r /sys%p/energy_uj"
(root alone may read them since they can betray secrets of other users: CVE-2020-8694)`

// zone is one counter. Those of intel-rapl-mmio show the same energy another
// way and are left out.
type zone struct{ dir, name string }

var zoneForm = regexp.MustCompile(`^intel-rapl(:[0-9]{1,4}){1,2}$`)

func zones(files fs.FS) []zone {
	var all []zone
	dirs, names := polled.Named(files, class, "name")
	for i, dir := range dirs {
		if zoneForm.MatchString(path.Base(dir)) {
			all = append(all, zone{dir, names[i]})
		}
	}
	return all
}

// in reports whether the zone belongs to a place: all packages, or the domain
// of that name.
func (z zone) in(place string) bool {
	return z.name == place || place == packages && strings.HasPrefix(z.name, packages+"-")
}

func (z zone) energyUJ(files fs.FS) (int64, error) {
	return polled.ReadNumber(files, path.Join(z.dir, "energy_uj"))
}

func choose(all []zone, place string) (chosen []zone) {
	for _, z := range all {
		if z.in(place) {
			chosen = append(chosen, z)
		}
	}
	return chosen
}

func join(zs []zone) string {
	var names []string
	for _, z := range zs {
		names = append(names, z.name)
	}
	return strings.Join(names, "+")
}

func find(h meters.Host) []meters.Found {
	all := zones(h)
	var found []meters.Found
	for _, place := range append([]string{packages}, parts...) {
		zs := choose(all, place)
		if len(zs) == 0 {
			continue
		}
		f := meters.Found{Spec: name + ":" + place, Driver: name, Model: join(zs), Place: "/" + zs[0].dir}
		if place == packages {
			f.Spec = name
		}
		for _, z := range zs {
			if _, err := z.energyUJ(h); err != nil {
				f.Problem = polled.Denied(err, hint)
			}
		}
		found = append(found, f)
	}
	return found
}

// column is what one column sums up.
type column struct {
	name     string
	counters []*counter
}

// reader reads all counters at one moment.
type reader struct {
	host    meters.Host
	notify  func(meters.Notice)
	columns []column // the first one is the meter's power
	begun   bool     // the first sample has begun
	lastNs  int64    // host ns of the last sample's end
	values  []float64
	told    map[*counter]bool
}

func open(_ context.Context, h meters.Host, o meters.Options) (meters.Meter, error) {
	every, err := every(o.Settings["every"])
	if err != nil {
		return nil, fmt.Errorf("open rapl: %w", err)
	}
	place := o.Place
	if place == "" {
		place = packages
	}
	all := zones(h)
	main := choose(all, place)
	if len(main) == 0 {
		return nil, fmt.Errorf("open rapl: %w", none(all, place))
	}
	r := &reader{host: h, notify: o.Notify, told: map[*counter]bool{}}
	if err := r.add(meters.Watts, main); err != nil {
		return nil, fmt.Errorf("open rapl: %w", polled.Denied(err, hint))
	}
	if place == packages {
		for _, part := range parts {
			if zs := choose(all, part); len(zs) > 0 {
				// What cannot be read is left out: it is an extra.
				_ = r.add(part+"_watts", zs)
			}
		}
	}
	info := meters.Info{Driver: name, Model: join(main), Serial: o.Serial, Wide: true, Sample: meters.Mean,
		Accuracy: accuracy}
	for _, c := range r.columns {
		info.Columns = append(info.Columns, c.name)
	}
	r.values = make([]float64, len(r.columns))
	return polled.New(polled.Files{Host: h, Read: r.read}, info, every, o.Notify), nil
}

func every(text string) (time.Duration, error) {
	if text == "" {
		return everyMs * time.Millisecond, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < leastEvery || d > mostEvery {
		return 0, fmt.Errorf("every=%s is not a time between %v and %v, such as 10ms", text, leastEvery, mostEvery)
	}
	return d, nil
}

// none says why a place has no counter.
func none(all []zone, place string) error {
	if len(all) == 0 {
		return &meters.Problem{Err: errors.New("this machine shows no energy counters (no /" + class + "/intel-rapl:0)"),
			Hint: "they need an Intel or AMD processor, no virtual machine, and the kernel module intel_rapl_msr (sudo modprobe intel_rapl_msr)"}
	}
	var names []string
	for _, z := range all {
		if !slices.Contains(names, z.name) {
			names = append(names, z.name)
		}
	}
	return &meters.Problem{Err: fmt.Errorf("there is no domain %q", place), Hint: "this machine has " + strings.Join(names, ", ")}
}

// add adds a column of counters that can be read.
func (r *reader) add(title string, zs []zone) error {
	c := column{name: title}
	for _, z := range zs {
		if _, err := z.energyUJ(r.host); err != nil {
			return err
		}
		// A range that cannot be read, as in containers, is 0: not known.
		rangeUJ, _ := polled.ReadNumber(r.host, path.Join(z.dir, "max_energy_range_uj"))
		c.counters = append(c.counters, &counter{zone: z, rangeUJ: max(rangeUJ, 0)})
	}
	r.columns = append(r.columns, c)
	return nil
}

// read makes one sample of all counters. A counter of the first column that
// cannot be read leaves all as they are: the next sample covers this time too.
func (r *reader) read() (polled.Reading, error) {
	moved := false
	for i, c := range r.columns {
		for _, k := range c.counters {
			k.now, k.err = k.zone.energyUJ(r.host)
			if i == 0 && k.err != nil {
				return polled.Reading{}, k.err
			}
			moved = moved || i == 0 && k.now != k.last
		}
	}
	now := r.host.HostNs()
	if !r.begun {
		r.begin(now)
		moved = false
	}
	seconds := float64(now-r.lastNs) * 1e-9
	if !moved || seconds <= 0 {
		return polled.Reading{}, fmt.Errorf("%w: its counter does not move", polled.ErrNothingNew)
	}
	for i, c := range r.columns {
		r.values[i] = 0
		for _, k := range c.counters {
			joules, err := k.advance(seconds)
			if err != nil {
				joules = math.NaN()
				r.tell(k, err, now, i == 0)
			}
			r.values[i] += joules / seconds
		}
	}
	reading := polled.Reading{Values: r.values, SampleNs: r.lastNs, ArrivalNs: now}
	r.lastNs = now
	return reading, nil
}

// begin begins the first sample where the counters stand now: the meter may have
// been opened long before.
func (r *reader) begin(hostNs int64) {
	r.begun, r.lastNs = true, hostNs
	for _, c := range r.columns {
		for _, k := range c.counters {
			k.last, k.lost = k.now, k.err != nil
		}
	}
}

// CounterDoubt is the code of a notice that a counter's advance is not known.
const CounterDoubt = "counter-doubt"

// tell tells once for each counter.
func (r *reader) tell(k *counter, err error, hostNs int64, warn bool) {
	if r.told[k] || r.notify == nil {
		return
	}
	r.told[k] = true
	r.notify(meters.Notice{HostNs: hostNs, Code: CounterDoubt, Warn: warn,
		Text: fmt.Sprintf("%s (%s): %v; such samples count as not measured", k.zone.name, path.Base(k.zone.dir), err)})
}
