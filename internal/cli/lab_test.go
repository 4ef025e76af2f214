package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
)

// opened is a meter that remembers how it was opened.
type opened struct {
	meters.Meter
	path string
	o    meters.Options
}

type fakeHost struct{ fs.FS }

func (fakeHost) HostNs() int64                           { return 0 }
func (fakeHost) Wait(ctx context.Context, _ int64) error { return ctx.Err() }

// fakeLab has one family behind HID and USB, one behind serial lines or TCP,
// one made of files.
func fakeLab(hid, serial []meters.Device) lab {
	id := meters.USBID{Vendor: 1, Product: 2}
	var last string
	open := func(_ context.Context, _ meters.Port, o meters.Options) (meters.Meter, error) {
		return opened{path: last, o: o}, nil
	}
	over := func(t meters.Transport, devices *[]meters.Device) way {
		return way{transport: t,
			find: func(fs.FS) ([]meters.Device, error) { return slices.Clone(*devices), nil },
			open: func(_ context.Context, place string, _ meters.Driver, _ meters.HostClock) (meters.Port, error) {
				if place == "/dev/forbidden" {
					return nil, &meters.Problem{Err: os.ErrPermission, Hint: "add a rule"}
				}
				last = place
				return &meterstest.Port{}, nil
			}}
	}
	return lab{
		host: func(meters.HostClock) meters.Host { return fakeHost{fstest.MapFS{}} },
		drivers: []meters.Driver{
			{Name: "a", Transports: []meters.Transport{meters.HID, meters.USB}, USBClass: 3, Open: open,
				Models: []meters.Model{{Name: "A1", USB: id}, {Name: "A2", USB: id}}},
			{Name: "b", Transports: []meters.Transport{meters.Serial, meters.TCP}, Baud: 9600, Open: open, Models: []meters.Model{{Name: "B"}},
				Settings: []meters.Setting{{Key: "volts"}}},
			{Name: "c", Transports: []meters.Transport{meters.Files}, Models: []meters.Model{{Name: "C"}},
				Find: func(meters.Host) []meters.Found {
					return []meters.Found{{Spec: "c:x", Driver: "c", Problem: &meters.Problem{Err: os.ErrPermission, Hint: "chmod"}}}
				},
				OpenHost: func(_ context.Context, _ meters.Host, o meters.Options) (meters.Meter, error) {
					if o.Place == "gone" {
						return nil, os.ErrNotExist
					}
					return opened{o: o}, nil
				}},
		},
		ways: []way{over(meters.HID, &hid), {transport: meters.USB, missing: "built without libusb"}, over(meters.Serial, &serial),
			{transport: meters.TCP, open: over(meters.TCP, nil).open}},
	}
}

func TestLabOpens(t *testing.T) {
	id := meters.USBID{Vendor: 1, Product: 2}
	one := meters.Device{Transport: meters.HID, Path: "/dev/hidraw1", USB: id, Class: 3, Serial: "s1", Bus: "1-1"}
	two := meters.Device{Transport: meters.HID, Path: "/dev/hidraw2", USB: id, Class: 3, Serial: "s2", Bus: "1-2"}
	disk := meters.Device{Transport: meters.HID, Path: "/dev/hidraw0", USB: id, Class: 8, Bus: "1-3"}
	other := meters.Device{Transport: meters.HID, Path: "/dev/hidraw9", USB: meters.USBID{Vendor: 9}, Class: 3}
	for _, c := range []struct {
		spec string
		hid  []meters.Device
		path string // "" for an error
		text string // model, or part of the error
		hint string
	}{
		{"a", []meters.Device{other, disk, one}, "/dev/hidraw1", "A1", ""},
		{"a,model=A2", []meters.Device{one}, "/dev/hidraw1", "A2", ""},
		{"a,serial=s2", []meters.Device{one, two}, "/dev/hidraw2", "A1", ""},
		{"a:1-2", []meters.Device{one, two}, "/dev/hidraw2", "A1", ""},
		{"a:/dev/hidraw7", []meters.Device{one}, "/dev/hidraw7", "", ""},
		{"a", []meters.Device{one, two}, "", "2 are plugged in", "a:/dev/hidraw1 or a:/dev/hidraw2"},
		{"a", []meters.Device{other}, "", "built without libusb", ""},
		{"a+hidraw", []meters.Device{other}, "", "none is plugged in", "its own PC port"},
		{"a+usb", []meters.Device{one}, "", "this program cannot", "built without libusb"},
		{"a:/dev/forbidden", nil, "", "permission denied", "add a rule"},
		{"b", nil, "", "none is plugged in", "b:/dev/ttyUSB0"},
		{"b:/dev/ttyUSB3", nil, "/dev/ttyUSB3", "", ""},
		{"b:tcp:host:5025,volts=V?", nil, "host:5025", "", ""},
		{"b:psu.lab:5025", nil, "psu.lab:5025", "", ""},
		{"b:[::1]:5025", nil, "[::1]:5025", "", ""},
		{"c:gone", nil, "", "file does not exist", ""},
	} {
		l := fakeLab(c.hid, nil)
		m, err := l.openNow(c.spec)
		var f *failure
		switch {
		case c.path == "" && (!errors.As(err, &f) || f.code != exitNoDevice || !strings.Contains(err.Error()+f.hint, c.text) || !strings.Contains(f.hint, c.hint)):
			t.Errorf("%s: %v (%+v), want %q with hint %q", c.spec, err, f, c.text, c.hint)
		case c.path != "" && err != nil:
			t.Errorf("%s: %v", c.spec, err)
		case c.path != "" && (m.(opened).path != c.path || m.(opened).o.Model != c.text):
			t.Errorf("%s: opened %+v, want %s %s", c.spec, m, c.path, c.text)
		}
	}
}

func (l lab) openNow(spec string) (meters.Meter, error) {
	w, err := l.want(spec)
	if err != nil {
		return nil, err
	}
	return w.open(context.Background(), nil, nil)
}

// A meter that was open is taken where it was, and no other one.
func TestLabOpensAgain(t *testing.T) {
	id := meters.USBID{Vendor: 1, Product: 2}
	devices := []meters.Device{{Path: "/dev/hidraw1", USB: id, Class: 3, Bus: "1-1"}}
	l := fakeLab(nil, nil)
	l.ways[0].find = func(fs.FS) ([]meters.Device, error) { return slices.Clone(devices), nil }
	w, err := l.want("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, bus string // of the device that is there
		ok        bool
	}{{"/dev/hidraw1", "1-1", true}, {"/dev/hidraw1", "1-2", false}, {"/dev/hidraw5", "1-1", true}} {
		devices[0].Path, devices[0].Bus = c.path, c.bus
		m, err := w.open(context.Background(), nil, nil)
		if (err == nil) != c.ok || c.ok && m.(opened).path != c.path {
			t.Errorf("%s at %s: %v, %v", c.path, c.bus, m, err)
		}
	}
}

func TestLabRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"d":            `meter "d" is none of a, b or c`,
		"":             `meter spec "" is not`,
		"a+tcp":        `meter a is reached over hidraw or usb, not over "tcp"`,
		"b:x,amps=A?":  `meter b has no setting "amps", only model, serial, firmware, as or volts`,
		"a,serial=1,x": `meter spec "a,serial=1,x" is not`,
	} {
		_, err := fakeLab(nil, nil).want(spec)
		var f *failure
		if !errors.As(err, &f) || f.code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

func TestMetersAndDoctor(t *testing.T) {
	id := meters.USBID{Vendor: 1, Product: 2}
	hid := []meters.Device{{Transport: meters.HID, Path: "/dev/hidraw1", USB: id, Class: 3, Serial: "x\x1b[31m", Bus: "1-1"}}
	l := fakeLab(hid, []meters.Device{{Path: "/dev/ttyACM0", USB: id}})
	for _, c := range []struct {
		l      lab
		args   []string
		code   int
		out    []string
		silent string
	}{
		{l, []string{"meters"}, 0, []string{"A1 or A2 x?[31m", "a:/dev/hidraw1", "c:x: permission denied\n  fix: chmod", "usb: built without libusb"}, "\x1b"},
		{l, []string{"meters", "--json"}, 0, []string{`"schema": "joulemark.meters/1"`, `"fix": "chmod"`}, ""},
		{fakeLab(nil, nil), []string{"meters"}, exitNoDevice, []string{"c:x: permission denied"}, ""},
		{l, []string{"doctor"}, exitFailed, []string{"meter a:/dev/hidraw1", "own serial port of a meter (A1)", "governor", "fix meter c:x:\n  chmod"}, "\x1b"},
		{l, []string{"doctor", "--udev"}, 0, []string{`ATTRS{idVendor}=="0001"`}, ""},
	} {
		code, out := runVerb(c.l, c.args)
		if code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.args, code, c.code)
		}
		for _, want := range c.out {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", c.args, want, out)
			}
		}
		if c.silent != "" && strings.Contains(out, c.silent) {
			t.Errorf("%v: prints %q", c.args, c.silent)
		}
	}
}

// runVerb runs meters or doctor in a lab.
func runVerb(l lab, args []string) (int, string) {
	var out, errs strings.Builder
	env := &Env{Args: args[1:], Stdout: &out, Stderr: &errs, Interrupt: context.Background()}
	verb := metersVerb
	if args[0] == "doctor" {
		verb = doctorVerb
	}
	c := verb(env, l)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args[1:])
	err := c.Execute()
	var f *failure
	switch {
	case err == nil:
		return exitDone, out.String()
	case errors.As(err, &f):
		return f.code, out.String()
	}
	return exitFailed, out.String()
}
