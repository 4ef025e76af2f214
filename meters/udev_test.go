package meters

import (
	"strings"
	"testing"
)

func TestUdevRules(t *testing.T) {
	one := USBID{Vendor: 0x2e3c, Product: 0x0049}
	got := UdevRules([]Driver{
		{Transports: []Transport{HID, USB}, Models: []Model{{Name: "A", USB: one}, {Name: "B", USB: one}, {Name: "none"}}},
		{Transports: []Transport{Serial, Files}, Models: []Model{{Name: "C", USB: USBID{Vendor: 0x1915, Product: 0xc00a}}}},
	})
	want := `# Lets people open their meters without root; ModemManager leaves them alone.
SUBSYSTEM=="hidraw", ATTRS{idVendor}=="2e3c", ATTRS{idProduct}=="0049", MODE="0660", GROUP="plugdev", TAG+="uaccess"
SUBSYSTEM=="tty", ATTRS{idVendor}=="1915", ATTRS{idProduct}=="c00a", ENV{ID_MM_PORT_IGNORE}="1", MODE="0660", GROUP="plugdev", TAG+="uaccess"
SUBSYSTEM=="usb", ENV{DEVTYPE}=="usb_device", ATTR{idVendor}=="2e3c", ATTR{idProduct}=="0049", ENV{ID_MM_DEVICE_IGNORE}="1", MODE="0660", GROUP="plugdev", TAG+="uaccess"
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestUdevHint(t *testing.T) {
	id := USBID{Vendor: 0x2e3c, Product: 0x5558}
	if got := UdevHint(HID, id); !strings.Contains(got, "'"+UdevRule(HID, id)+"'") || !strings.Contains(got, UdevFile) {
		t.Errorf("the hint lacks the rule or its file: %s", got)
	}
	for _, c := range []struct {
		t  Transport
		id USBID
	}{{HID, USBID{}}, {TCP, id}} {
		if got := UdevHint(c.t, c.id); strings.Contains(got, "udev") {
			t.Errorf("%s %v has no rule, but the hint is %s", c.t, c.id, got)
		}
	}
}
