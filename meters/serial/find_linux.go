package serial

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// find reads sysfs. The enumerator of go.bug.st/serial opens the lines of
// 16550 chips to see whether they are there, and so changes the rate of a
// console or target on one.
func find() ([]place, error) { return findIn("/") }

// Bluetooth lines have no device in sysfs, nor have placeholders of chips.
var bluetoothName = regexp.MustCompile(`^rfcomm\d+$`)

func findIn(root string) ([]place, error) {
	class := filepath.Join(root, "sys/class/tty")
	entries, err := os.ReadDir(class)
	if os.IsNotExist(err) {
		return nil, nil // no serial line was ever plugged in
	}
	var places []place
	for _, e := range entries {
		at := place{Device: meters.Device{Transport: meters.Serial, Path: "/dev/" + e.Name()}}
		dir := filepath.Join(class, e.Name())
		device, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
		switch {
		case bluetoothName.MatchString(e.Name()):
		case err != nil || attribute(dir, "type") == "0": // PORT_UNKNOWN in linux/serial_core.h
			continue
		default:
			at.describe(device)
		}
		places = append(places, at)
	}
	return places, err
}

// An interface of a USB device in sysfs is BUS-PORT.PORT:CONFIGURATION.NUMBER.
var interfaceName = regexp.MustCompile(`^(\d+-[\d.]+):\d+\.(\d+)$`)

// describe reads what the USB device says of itself that a folder of sysfs
// belongs to, if any does.
func (p *place) describe(device string) {
	for at := device; at != filepath.Dir(at); at = filepath.Dir(at) {
		m := interfaceName.FindStringSubmatch(filepath.Base(at))
		if m == nil {
			continue
		}
		usb := filepath.Dir(at)
		p.Bus = m[1]
		p.number, _ = strconv.Atoi(m[2])
		p.Class = uint8(hex(attribute(at, "bInterfaceClass")))
		p.USB = meters.USBID{Vendor: hex(attribute(usb, "idVendor")), Product: hex(attribute(usb, "idProduct"))}
		p.Product, p.Serial = attribute(usb, "product"), attribute(usb, "serial")
		return
	}
}

// attribute reads a file of sysfs; "" where there is none.
func attribute(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text))
}

func hex(text string) uint16 {
	n, _ := strconv.ParseUint(text, 16, 16)
	return uint16(n)
}
