// Package hidraw reaches meters that show themselves as HID devices through
// Linux's hidraw, which needs neither cgo nor a library nor root. On other
// systems it is not there: Find finds nothing, and Open says why.
//
// # Sources
//
// Documentation/hid/hidraw.rst and drivers/hid/hidraw.c of Linux 6.1. A node
// hands each report to every program that has it open, and keeps 64 reports
// for each. It is not exclusive, so that Open locks it.
package hidraw

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// hidClass is the USB class of human interface devices (USB-IF, defined class
// codes).
const hidClass = 3

// maxText bounds what is taken from a device about itself, bytes.
const maxText = 256

// Find lists the hidraw nodes below root, which is a system's root folder: the
// names are those below /, such as "sys/class/hidraw". Nodes that are not on
// USB are left out; so is what vanishes while it is looked at. A system without
// hidraw has none.
func Find(root fs.FS) ([]meters.Device, error) { return find(root, access) }

func find(root fs.FS, access func(path string) error) ([]meters.Device, error) {
	nodes, err := fs.ReadDir(root, class)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list hidraw devices: %w", err)
	}
	var found []meters.Device
	for _, n := range nodes {
		d, ok := describe(root, n.Name())
		if !ok {
			continue
		}
		if err := access(d.Path); err != nil {
			d.Problem = problem(d.Path, d.USB, err)
		}
		found = append(found, d)
	}
	return found, nil
}

const class = "sys/class/hidraw"

// describe reads what the kernel knows of a node, which lies in
// DEVICE/INTERFACE/HID/hidraw/NAME.
func describe(root fs.FS, name string) (meters.Device, bool) {
	d := meters.Device{Transport: meters.HID, Path: "/dev/" + name, Class: hidClass}
	link, err := fs.ReadLink(root, path.Join(class, name))
	if err != nil {
		return d, false
	}
	hid := path.Dir(path.Dir(path.Join(class, link)))
	values := uevent(root, hid)
	bus, id, ok := parseID(values["HID_ID"])
	if !ok || bus != busUSB {
		return d, false
	}
	d.USB, d.Product, d.Serial = id, values["HID_NAME"], values["HID_UNIQ"]
	usb := path.Dir(path.Dir(hid))
	if attribute(root, usb, "idVendor") == "" {
		return d, true // made by a program, through uhid
	}
	d.Bus = path.Base(usb)
	d.Product, d.Serial = attribute(root, usb, "product"), attribute(root, usb, "serial")
	return d, true
}

// Node returns the node of the HID interface of a number at a place on the
// USB, such as interface 3 of 1-2.4; "" where the kernel has none.
func Node(root fs.FS, bus string, number int) string {
	nodes, err := fs.ReadDir(root, class)
	if err != nil {
		return ""
	}
	of := fmt.Sprintf("%s:", bus)
	for _, n := range nodes {
		link, err := fs.ReadLink(root, path.Join(class, n.Name()))
		if err != nil {
			continue
		}
		face := path.Dir(path.Dir(path.Dir(path.Join(class, link))))
		at, err := strconv.ParseUint(attribute(root, face, "bInterfaceNumber"), 16, 8)
		if err == nil && int(at) == number && strings.HasPrefix(path.Base(face), of) {
			return "/dev/" + n.Name()
		}
	}
	return ""
}

// busUSB is BUS_USB of linux/input.h.
const busUSB = 3

// parseID reads BUS:VENDOR:PRODUCT, in hexadecimal digits.
func parseID(text string) (bus uint64, id meters.USBID, ok bool) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 {
		return 0, id, false
	}
	var n [3]uint64
	for i, f := range fields {
		var err error
		if n[i], err = strconv.ParseUint(f, 16, 32); err != nil || i > 0 && n[i] > 0xffff {
			return 0, id, false
		}
	}
	return n[0], meters.USBID{Vendor: uint16(n[1]), Product: uint16(n[2])}, true
}

// uevent reads the KEY=VALUE lines of a device.
func uevent(root fs.FS, dir string) map[string]string {
	values := map[string]string{}
	b, err := fs.ReadFile(root, path.Join(dir, "uevent"))
	if err != nil {
		return values
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			values[key] = value[:min(len(value), maxText)]
		}
	}
	return values
}

// attribute reads one attribute; "" where it is missing.
func attribute(root fs.FS, dir, name string) string {
	b, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b[:min(len(b), maxText)]))
}

// problem says what keeps a node from being opened, and what helps.
func problem(path string, id meters.USBID, err error) error {
	p := &meters.Problem{Err: fmt.Errorf("open %s: %w", path, err)}
	switch {
	case errors.Is(err, fs.ErrPermission):
		p.Hint = meters.UdevHint(meters.HID, id)
	case errors.Is(err, fs.ErrNotExist):
		p.Hint = "plug the meter in, or see what is there with: joulemark meters"
	case errors.Is(err, meters.ErrBusy):
		p.Hint = "a meter serves one program at a time: end the other one"
	default:
		return p.Err
	}
	return p
}
