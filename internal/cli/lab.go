package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// lab is the meters that this program knows, and the ways to them.
type lab struct {
	drivers []meters.Driver
	ways    []way
	host    func(meters.HostClock) meters.Host
}

// way is one transport.
type way struct {
	transport meters.Transport
	missing   string // why this program cannot use it; "" where it can
	// find lists the devices on it; nil where it cannot be searched.
	find func(root fs.FS) ([]meters.Device, error)
	open func(ctx context.Context, place string, d meters.Driver, clock meters.HostClock) (meters.Port, error)
}

// Settings that every driver takes.
var commonSettings = []meters.Setting{
	{Key: "model", Help: "the product, where its USB id fits several"},
	{Key: "serial", Help: "which one, where several are plugged in"},
	{Key: "firmware", Help: "its version, as its display shows it; some want to be treated differently"},
	{Key: "as", Help: "the name under which it was calibrated or characterised ('joulemark calibrate --list')"},
}

// rootSetting is of meters that are made of the kernel's files.
var rootSetting = meters.Setting{Key: "root", Help: "another folder than /, below which sys lies: of the host of a container, say"}

// hostPort is a place on the network, not a path.
var hostPort = regexp.MustCompile(`^[^/]+:[0-9]{1,5}$`)

// noMeter is a meter that is missing or of no use.
func noMeter(err error, hint string) error {
	if hint == "" {
		hint = meters.Hint(err)
	}
	return &failure{code: exitNoDevice, err: err, hint: hint}
}

// driver returns the driver of a name.
func (l lab) driver(name string) (meters.Driver, error) {
	var names []string
	for _, d := range l.drivers {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return meters.Driver{}, usage("meter %q is none of %s", name, list(names))
}

// wanted is one meter of a spec. It can be opened again: then it is looked
// for where it was.
type wanted struct {
	spec   meters.Spec
	driver meters.Driver
	lab    lab
	at     meters.Device // where it was found; zero before
}

// want checks a meter spec. All its errors are ones of usage.
func (l lab) want(text string) (*wanted, error) {
	spec, err := meters.ParseSpec(text)
	if err != nil {
		return nil, &failure{code: exitUsage, err: err, hint: "such as fnb58, usb=fnb58:/dev/hidraw3, ppk2:/dev/ttyACM0,ampere=3.3V or rapl; docs/meters.md lists all"}
	}
	d, err := l.driver(spec.Driver)
	if err != nil {
		return nil, err
	}
	if spec.Transport == "" && slices.Contains(d.Transports, meters.TCP) {
		if rest, ok := strings.CutPrefix(spec.Place, "tcp:"); ok || hostPort.MatchString(spec.Place) {
			spec.Transport, spec.Place = meters.TCP, rest
		}
	}
	if spec.Transport != "" && !slices.Contains(d.Transports, spec.Transport) {
		return nil, usage("meter %s is reached over %s, not over %q", d.Name, list(texts(d.Transports)), spec.Transport)
	}
	known := slices.Concat(commonSettings, d.Settings)
	if slices.Contains(d.Transports, meters.Files) {
		known = append(known, rootSetting)
	}
	for key := range spec.Settings {
		if !slices.ContainsFunc(known, func(s meters.Setting) bool { return s.Key == key }) {
			var keys []string
			for _, s := range known {
				keys = append(keys, s.Key)
			}
			return nil, usage("meter %s has no setting %q, only %s", d.Name, key, list(keys))
		}
	}
	return &wanted{spec: spec, driver: d, lab: l}, nil
}

func texts[T ~string](of []T) []string {
	var all []string
	for _, x := range of {
		all = append(all, string(x))
	}
	return all
}

// open opens the meter. Whether it works its first samples tell.
func (i *wanted) open(ctx context.Context, clock meters.HostClock, notify func(meters.Notice)) (meters.Meter, error) {
	s := i.spec.Settings
	o := meters.Options{Place: i.spec.Place, Settings: s, Model: s["model"], Serial: s["serial"], Firmware: s["firmware"], Notify: notify}
	if i.driver.OpenHost != nil {
		h := i.lab.host(clock)
		if s["root"] != "" {
			h = meters.NewHostAt(s["root"], clock)
		}
		m, err := i.driver.OpenHost(ctx, h, o)
		return m, asNoMeter(err)
	}
	w, at, err := i.lab.locate(i.driver, i.spec, i.at)
	if err != nil {
		return nil, err
	}
	if o.Model == "" {
		o.Model = modelOf(i.driver, at)
	}
	if o.Serial == "" {
		o.Serial = at.Serial
	}
	p, err := w.open(ctx, at.Path, i.driver, clock)
	if err != nil {
		return nil, asNoMeter(err)
	}
	m, err := i.driver.Open(ctx, p, o)
	if err != nil {
		return nil, asNoMeter(errors.Join(err, p.Close()))
	}
	i.at = at
	return m, nil
}

func asNoMeter(err error) error {
	if err == nil {
		return nil
	}
	return noMeter(err, "")
}

// locate finds the device of a spec, and the way to it. One that was open
// before is taken where it was, whatever it is called now.
func (l lab) locate(d meters.Driver, spec meters.Spec, before meters.Device) (way, meters.Device, error) {
	var missing []string
	for _, w := range l.ways {
		if !slices.Contains(d.Transports, w.transport) || spec.Transport != "" && spec.Transport != w.transport {
			continue
		}
		if w.missing != "" {
			missing = append(missing, w.missing)
			continue
		}
		devices, err := l.devices(w, d)
		if err != nil {
			return w, before, noMeter(err, "")
		}
		if before.Bus != "" {
			for _, at := range devices {
				if at.Bus == before.Bus {
					return w, at, nil
				}
			}
			return w, before, noMeter(fmt.Errorf("find %s at %s: it is not plugged in", d.Name, before.Bus), "")
		}
		if spec.Place != "" {
			for _, at := range devices {
				if at.Path == spec.Place || at.Bus == spec.Place {
					return w, at, nil
				}
			}
			return w, meters.Device{Transport: w.transport, Path: spec.Place}, nil
		}
		devices = slices.DeleteFunc(devices, func(at meters.Device) bool { return !fits(d, spec, at) })
		switch len(devices) {
		case 0:
			continue
		case 1:
			return w, devices[0], nil
		}
		var specs []string
		for _, at := range devices {
			specs = append(specs, d.Name+":"+at.Path)
		}
		return w, before, noMeter(fmt.Errorf("find %s: %d are plugged in", d.Name, len(devices)), "say which one: "+list(specs))
	}
	if len(missing) > 0 {
		return way{}, before, noMeter(fmt.Errorf("open %s: this program cannot", d.Name), strings.Join(missing, "; "))
	}
	if slices.Contains(d.Transports, meters.Process) {
		return way{}, before, noMeter(fmt.Errorf("open %s: no program is named", d.Name), "say which: "+d.Name+":./prog")
	}
	hint := "plug it in (a FNIRSI meter by its own PC port, not the one that the current runs through); joulemark meters lists what is there"
	if d.Baud != 0 || slices.Contains(d.Transports, meters.TCP) {
		hint = "say where it is: " + d.Name + ":/dev/ttyUSB0"
	}
	return way{}, before, noMeter(fmt.Errorf("find %s: none is plugged in", d.Name), hint)
}

// devices are those on a way that may be meters of a driver.
func (l lab) devices(w way, d meters.Driver) ([]meters.Device, error) {
	if w.find == nil {
		return nil, nil
	}
	all, err := w.find(l.host(nil))
	if err != nil {
		return nil, fmt.Errorf("find %s over %s: %w", d.Name, w.transport, err)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(at meters.Device) bool {
		if modelOf(d, at) == "" || d.USBClass != 0 && at.Class != d.USBClass || at.Bus != "" && seen[at.Bus] {
			return true
		}
		seen[at.Bus] = true // of several interfaces, the first one is the meter's
		return false
	}), nil
}

func fits(d meters.Driver, spec meters.Spec, at meters.Device) bool {
	if s := spec.Settings["serial"]; s != "" && s != at.Serial {
		return false
	}
	model := spec.Settings["model"]
	return model == "" || slices.ContainsFunc(d.Models, func(m meters.Model) bool { return m.Name == model && m.USB == at.USB })
}

// modelOf names the first product of a driver with a device's id; "" if there is
// none.
func modelOf(d meters.Driver, at meters.Device) string {
	for _, m := range d.Models {
		if m.USB == at.USB && at.USB != (meters.USBID{}) {
			return m.Name
		}
	}
	return ""
}

// find lists all meters that are there. A device that two ways lead to is
// listed once, with the preferred one.
func (l lab) find() ([]meters.Found, error) {
	var all []meters.Found
	var errs []error
	for _, d := range l.drivers {
		if d.Find != nil {
			all = append(all, d.Find(l.host(nil))...)
		}
		seen := map[string]bool{}
		for _, w := range l.ways {
			if !slices.Contains(d.Transports, w.transport) || w.missing != "" {
				continue
			}
			devices, err := l.devices(w, d)
			if err != nil {
				errs = append(errs, err)
			}
			for _, at := range devices {
				if at.Bus != "" && seen[at.Bus] {
					continue
				}
				seen[at.Bus] = true
				all = append(all, found(d, at))
			}
		}
	}
	return all, errors.Join(errs...)
}

func found(d meters.Driver, at meters.Device) meters.Found {
	spec := d.Name
	if at.Transport != d.Transports[0] {
		spec += "+" + string(at.Transport)
	}
	var models []string
	for _, m := range d.Models {
		if m.USB == at.USB {
			models = append(models, m.Name)
		}
	}
	return meters.Found{Spec: spec + ":" + at.Path, Driver: d.Name, Model: strings.Join(models, " or "), Serial: at.Serial, Place: at.Path, Problem: at.Problem}
}
