package meters

import (
	"fmt"
	"slices"
	"strings"
)

// UdevFile is where the rules belong: before 73-seat-late.rules, which gives
// what is tagged uaccess to the person at the machine (systemd, rules.d).
const UdevFile = "/etc/udev/rules.d/70-joulemark.rules"

// udevAccess opens a device to the person at the machine, and to the group
// that Debian and its kin have for this, over ssh too.
const udevAccess = `MODE="0660", GROUP="plugdev", TAG+="uaccess"`

// UdevRule returns the line that lets people open the devices of one id on a
// transport. It is "" for a transport that has no device node, or no id. A rule
// for one transport says nothing of another: a meter has a node of its own on
// each. ModemManager, which would talk to serial ones, is told to leave them
// alone.
func UdevRule(t Transport, id USBID) string {
	if id == (USBID{}) {
		return ""
	}
	switch t {
	case HID:
		return fmt.Sprintf(`SUBSYSTEM=="hidraw", ATTRS{idVendor}=="%04x", ATTRS{idProduct}=="%04x", %s`, id.Vendor, id.Product, udevAccess)
	case USB:
		return fmt.Sprintf(`SUBSYSTEM=="usb", ENV{DEVTYPE}=="usb_device", ATTR{idVendor}=="%04x", ATTR{idProduct}=="%04x", ENV{ID_MM_DEVICE_IGNORE}="1", %s`, id.Vendor, id.Product, udevAccess)
	case Serial:
		return fmt.Sprintf(`SUBSYSTEM=="tty", ATTRS{idVendor}=="%04x", ATTRS{idProduct}=="%04x", ENV{ID_MM_PORT_IGNORE}="1", %s`, id.Vendor, id.Product, udevAccess)
	}
	return ""
}

// UdevRules returns the file of rules for all meters of the drivers, sorted,
// each line once.
func UdevRules(drivers []Driver) string {
	var rules []string
	for _, d := range drivers {
		for _, m := range d.Models {
			for _, t := range d.Transports {
				if rule := UdevRule(t, m.USB); rule != "" {
					rules = append(rules, rule)
				}
			}
		}
	}
	slices.Sort(rules)
	return "# Lets people open their meters without root; ModemManager leaves them alone.\n" +
		strings.Join(slices.Compact(rules), "\n") + "\n"
}

// UdevHint is what a person does about a device of an id that only root may
// open.
func UdevHint(t Transport, id USBID) string {
	rule := UdevRule(t, id)
	if rule == "" {
		return "it is not yours to open: see its group with ls -l, and join that"
	}
	return fmt.Sprintf("echo '%s' | sudo tee -a %s && sudo udevadm control --reload && sudo udevadm trigger", rule, UdevFile)
}
