//go:build cgo && libusb

package libusb

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/gousb"

	"github.com/joulemark/joulemark/meters"
)

func endpoint(address gousb.EndpointAddress, kind gousb.TransferType) gousb.EndpointDesc {
	d := gousb.EndpointDesc{Address: address, Number: int(address & 0xf), TransferType: kind, MaxPacketSize: 64}
	if address&0x80 != 0 {
		d.Direction = gousb.EndpointDirectionIn
	}
	return d
}

func face(number int, class gousb.Class, endpoints ...gousb.EndpointDesc) gousb.InterfaceDesc {
	s := gousb.InterfaceSetting{Number: number, Class: class, Endpoints: map[gousb.EndpointAddress]gousb.EndpointDesc{}}
	for _, e := range endpoints {
		s.Endpoints[e.Address] = e
	}
	return gousb.InterfaceDesc{Number: number, AltSettings: []gousb.InterfaceSetting{s}}
}

const interrupt, bulk, iso = gousb.TransferTypeInterrupt, gousb.TransferTypeBulk, gousb.TransferTypeIsochronous

// real is the composition of a FNB58: a disk, a serial port, and then HID.
var real = gousb.ConfigDesc{Number: 1, Interfaces: []gousb.InterfaceDesc{
	face(0, 8, endpoint(0x84, bulk), endpoint(0x04, bulk)), face(1, 2, endpoint(0x81, interrupt)),
	face(2, 10, endpoint(0x82, bulk), endpoint(0x02, bulk)), face(3, 3, endpoint(0x83, interrupt), endpoint(0x03, interrupt)),
}}

func TestChoose(t *testing.T) {
	several := gousb.ConfigDesc{Interfaces: []gousb.InterfaceDesc{
		face(0, 0xff, endpoint(0x80|5, bulk), endpoint(0x81, iso), endpoint(0x86, bulk), endpoint(7, bulk), endpoint(6, bulk)), face(1, 0xff)}}
	for _, c := range []struct {
		name   string
		config gousb.ConfigDesc
		class  uint8
		want   string
	}{
		{"a real one", real, 3, "3 83 03"},
		{"the first endpoints of the first interface", several, 0xff, "0 85 06"},
		{"none of the class", real, 0xff, "no interface of class 255"},
		{"no way out", real, 2, "interface 1 lacks an endpoint"},
		{"a number that gousb cannot look up", gousb.ConfigDesc{Interfaces: []gousb.InterfaceDesc{face(9, 3, endpoint(0x81, bulk), endpoint(1, bulk))}}, 3, "no interface"},
		{"an empty interface", gousb.ConfigDesc{Interfaces: []gousb.InterfaceDesc{{}}}, 3, "no interface"},
	} {
		e, err := choose(c.config, c.class)
		got := fmt.Sprintf("%d %02x %02x", e.number, uint8(e.in.Address), uint8(e.out.Address))
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	root := fstest.MapFS{"sys/bus/usb/devices/1-2.4/product": {Data: []byte("FNB58\n")}}
	d := &gousb.DeviceDesc{Bus: 1, Address: 250, Path: []int{2, 4}, Vendor: 0x2e3c, Product: 0x5558, Configs: map[int]gousb.ConfigDesc{1: real}}
	got := describe(root, d)
	if len(got) != 4 {
		t.Fatalf("%d interfaces: %+v", len(got), got)
	}
	hid := got[3]
	hid.Problem = nil
	want := meters.Device{Transport: meters.USB, Path: "/dev/bus/usb/001/250", USB: meters.USBID{Vendor: 0x2e3c, Product: 0x5558}, Class: 3, Product: "FNB58", Bus: "1-2.4"}
	if hid != want {
		t.Errorf("got %+v, want %+v", hid, want)
	}
	if got := describe(root, &gousb.DeviceDesc{Bus: 1, Configs: d.Configs}); got != nil {
		t.Errorf("a hub of the host is listed: %+v", got)
	}
}

func TestProblems(t *testing.T) {
	id := meters.USBID{Vendor: 0x2e3c, Product: 0x5558}
	for _, c := range []struct {
		err  error
		is   error
		hint string
	}{
		{gousb.ErrorAccess, fs.ErrPermission, meters.UdevRule(meters.USB, id)},
		{fmt.Errorf("failed to claim interface 3: %v", gousb.ErrorBusy), meters.ErrBusy, "end the other one"},
		{gousb.TransferNoDevice, meters.ErrUnplugged, ""},
		{gousb.ErrorPipe, gousb.ErrorPipe, ""},
	} {
		err := problem("/dev/bus/usb/001/002", id, known(c.err))
		if !errors.Is(err, c.is) || !strings.Contains(meters.Hint(err), c.hint) {
			t.Errorf("%v became %v (%s)", c.err, err, meters.Hint(err))
		}
	}
}

func TestOpenMissing(t *testing.T) {
	_, err := Open("/dev/bus/usb/999/999", 3, meters.NewHostClock())
	if !errors.Is(err, fs.ErrNotExist) || meters.Hint(err) == "" {
		t.Errorf("opened a device that is not there: %v", err)
	}
}
