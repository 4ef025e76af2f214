//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// reportDescriptor is that of a device with reports of 64 bytes in and out, of
// the maker's own usage and without ids (Device Class Definition for HID 1.11,
// section 6.2.2).
var reportDescriptor = []byte{
	0x06, 0x00, 0xff, 0x09, 0x01, 0xa1, 0x01, // usage page FF00, usage 1, collection
	0x15, 0x00, 0x26, 0xff, 0x00, 0x75, 0x08, 0x95, 0x40, // 64 bytes
	0x09, 0x01, 0x81, 0x02, // in
	0x09, 0x01, 0x91, 0x02, // and out
	0xc0,
}

// identity is how a meter shows itself.
type identity struct {
	vendor, product uint16
	name            string
}

// gadget is a meter on a USB of its own: a serial function first, and then the
// one for reports, as HID is not the first interface of a real FNB58.
type gadget struct {
	number int
	dir    string // in configfs
}

// newGadget makes the gadget of a number. One that fails is to be removed all
// the same.
func newGadget(number int, i identity) (*gadget, error) {
	g := &gadget{number, fmt.Sprintf("/sys/kernel/config/usb_gadget/g%d", number)}
	acm, hid := fmt.Sprintf("functions/acm.%d", number), fmt.Sprintf("functions/hid.%d", number)
	for _, d := range []string{"", "strings/0x409", "configs/c.1", acm, hid} {
		if err := os.Mkdir(filepath.Join(g.dir, d), 0o755); err != nil {
			return g, fmt.Errorf("make gadget: %w", err)
		}
	}
	for name, text := range map[string]string{
		"idVendor": fmt.Sprintf("%#04x", i.vendor), "idProduct": fmt.Sprintf("%#04x", i.product), "bcdUSB": "0x0200",
		"strings/0x409/manufacturer": "joulemark", "strings/0x409/product": i.name,
		"strings/0x409/serialnumber": fmt.Sprintf("000%d", number),
		hid + "/protocol":            "0", hid + "/subclass": "0", hid + "/report_length": "64",
		hid + "/report_desc": string(reportDescriptor),
	} {
		if err := write(filepath.Join(g.dir, name), text); err != nil {
			return g, err
		}
	}
	for _, f := range []string{acm, hid} {
		if err := os.Symlink(filepath.Join(g.dir, f), filepath.Join(g.dir, "configs/c.1", filepath.Base(f))); err != nil {
			return g, fmt.Errorf("make gadget: %w", err)
		}
	}
	return g, g.plug()
}

func write(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("set up USB: %w", err)
	}
	return nil
}

// remove takes the gadget away.
func (g *gadget) remove() error {
	errs := []error{g.unplug()}
	links, _ := filepath.Glob(filepath.Join(g.dir, "configs/c.1/*.*"))
	functions, _ := filepath.Glob(filepath.Join(g.dir, "functions/*"))
	for _, f := range append(append(links, "configs/c.1"), append(functions, "strings/0x409", "")...) {
		if !strings.HasPrefix(f, "/") {
			f = filepath.Join(g.dir, f)
		}
		errs = append(errs, os.Remove(f))
	}
	return errors.Join(errs...)
}

// plug puts the meter into its UDC.
func (g *gadget) plug() error {
	if err := write(filepath.Join(g.dir, "UDC"), fmt.Sprintf("dummy_udc.%d", g.number)); err != nil {
		return err
	}
	_, err := g.wait(g.hidraw)
	return err
}

// unplug takes it out. Nobody may have its inside open then: what f_hid keeps
// for those who wait is made anew when it is plugged in.
func (g *gadget) unplug() error { return write(filepath.Join(g.dir, "UDC"), "\n") }

// inside is the node of the meter's side.
func (g *gadget) inside() (string, error) {
	number, err := os.ReadFile(filepath.Join(g.dir, fmt.Sprintf("functions/hid.%d/dev", g.number)))
	if err != nil {
		return "", err
	}
	link, err := os.Readlink("/sys/dev/char/" + strings.TrimSpace(string(number)))
	return "/dev/" + filepath.Base(link), err
}

// device is the folder of the device on the host's side, in sysfs.
func (g *gadget) device() (string, error) {
	return one(fmt.Sprintf("/sys/devices/platform/dummy_hcd.%d/usb*/*-1", g.number))
}

// hidraw is the node of the meter as hidraw shows it.
func (g *gadget) hidraw() (string, error) {
	dir, err := g.device()
	if err != nil {
		return "", err
	}
	node, err := one(dir + "/*:*/*/hidraw/hidraw*")
	return "/dev/" + filepath.Base(node), err
}

// usb is the node of the meter as libusb shows it.
func (g *gadget) usb() (string, error) {
	dir, err := g.device()
	if err != nil {
		return "", err
	}
	var bus, device int
	for name, n := range map[string]*int{"busnum": &bus, "devnum": &device} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if _, err := fmt.Sscan(string(text), n); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("/dev/bus/usb/%03d/%03d", bus, device), nil
}

// wait waits until something is there.
func (g *gadget) wait(what func() (string, error)) (string, error) {
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var path string
		if path, err = what(); err == nil {
			if _, err = os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	return "", err
}

func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d files match %s", len(found), pattern)
	}
	return found[0], nil
}
