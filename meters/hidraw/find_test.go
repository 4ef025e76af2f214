package hidraw

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/joulemark/joulemark/meters"
)

// hub is the place of a meter's USB device behind a hub.
const hub = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2.4"

// tree is a system with a FNB58 at 1-2.4, whose HID interface is number 3, a
// Bluetooth keyboard, and a meter that a program made with uhid.
func tree() fstest.MapFS {
	files := map[string]string{
		hub + "/idVendor":                                     "2e3c\n",
		hub + "/product":                                      "FNB58\n",
		hub + "/serial":                                       "0001\n",
		hub + "/1-2.4:1.3/bInterfaceNumber":                   "03\n",
		hub + "/1-2.4:1.3/0003:2E3C:5558.0004/uevent":         "DRIVER=hid-generic\nHID_ID=0003:00002E3C:00005558\nHID_NAME=FNIRSI FNB58\nHID_UNIQ=x\n",
		"sys/devices/virtual/misc/uhid/0005:04E8/uevent":      "HID_ID=0005:000004E8:00007021\n",
		"sys/devices/virtual/misc/uhid/0003:0483/uevent":      "HID_ID=0003:00000483:0000003A\nHID_NAME=FNB-48\nHID_UNIQ=7\n",
		"sys/devices/virtual/misc/uhid/0003:broken.01/uevent": "HID_ID=0003:00000483\n",
	}
	links := map[string]string{
		"hidraw0": "../../devices/virtual/misc/uhid/0005:04E8/hidraw/hidraw0",
		"hidraw1": "../../devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2.4/1-2.4:1.3/0003:2E3C:5558.0004/hidraw/hidraw1",
		"hidraw2": "../../devices/virtual/misc/uhid/0003:0483/hidraw/hidraw2",
		"hidraw3": "../../devices/virtual/misc/uhid/0003:broken.01/hidraw/hidraw3",
		"hidraw4": "../../../../../../etc",
	}
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, to := range links {
		m[class+"/"+name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
	}
	return m
}

func TestFind(t *testing.T) {
	got, err := find(tree(), func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []meters.Device{
		{Transport: meters.HID, Path: "/dev/hidraw1", USB: meters.USBID{Vendor: 0x2e3c, Product: 0x5558}, Class: 3, Product: "FNB58", Serial: "0001", Bus: "1-2.4"},
		{Transport: meters.HID, Path: "/dev/hidraw2", USB: meters.USBID{Vendor: 0x0483, Product: 0x003a}, Class: 3, Product: "FNB-48", Serial: "7"},
	}
	if len(got) != len(want) {
		t.Fatalf("found %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("found %+v, want %+v", got[i], want[i])
		}
	}
}

func TestFindProblems(t *testing.T) {
	for _, c := range []struct {
		err        error
		text, hint string
	}{
		{fs.ErrPermission, "open /dev/hidraw1: permission denied", meters.UdevRule(meters.HID, meters.USBID{Vendor: 0x2e3c, Product: 0x5558})},
		{fs.ErrNotExist, "file does not exist", "plug"},
		{meters.ErrBusy, "in use", "end the other one"},
	} {
		got, err := find(tree(), func(string) error { return c.err })
		if err != nil {
			t.Fatal(err)
		}
		var p *meters.Problem
		if !errors.As(got[0].Problem, &p) || !errors.Is(p, c.err) || !strings.Contains(p.Hint, c.hint) {
			t.Errorf("%v became %+v", c.err, got[0].Problem)
		}
	}
	if got, err := Find(fstest.MapFS{}); len(got) > 0 || err != nil {
		t.Errorf("a system without hidraw has %v, %v", got, err)
	}
}

func TestNode(t *testing.T) {
	for _, c := range []struct {
		bus    string
		number int
		want   string
	}{{"1-2.4", 3, "/dev/hidraw1"}, {"1-2.4", 0, ""}, {"1-2", 3, ""}, {"", 3, ""}} {
		if got := Node(tree(), c.bus, c.number); got != c.want {
			t.Errorf("interface %d of %q is %q, want %q", c.number, c.bus, got, c.want)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"0003:00002E3C:00005558", "", "3:1", "0003:FFFFFFFF:0", ":::", "g:0:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, id, ok := parseID(s); !ok && id != (meters.USBID{}) {
			t.Errorf("%q is refused and yields %v", s, id)
		}
	})
}
