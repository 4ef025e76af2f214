package serial

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines are found with what is behind them, from a tree as the kernel makes it.
func TestFindIn(t *testing.T) {
	root := t.TempDir()
	tty := filepath.Join(root, "sys/class/tty")
	for line, device := range map[string]string{
		"ttyACM0": "pci0000:00/0000:00:14.0/usb1/1-2/1-2.4/1-2.4:1.2",
		"ttyACM1": "pci0000:00/0000:00:14.0/usb1/1-2/1-2.4/1-2.4:1.0",
		"ttyUSB0": "pci0000:00/0000:00:14.0/usb3/3-1/3-1:1.0/ttyUSB0",
		"ttyS0":   "platform/serial8250",
		"ttyAMA0": "platform/soc/fe201000.serial",
		"rfcomm0": "", "tty1": "", "ptmx": "",
	} {
		err := os.MkdirAll(filepath.Join(tty, line), 0o777)
		if device != "" {
			device = filepath.Join(root, "sys/devices", device)
			err = errors.Join(err, os.MkdirAll(device, 0o777), os.Symlink(device, filepath.Join(tty, line, "device")))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	usb := filepath.Join(root, "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2.4")
	for file, text := range map[string]string{
		filepath.Join(usb, "idVendor"): "1915\n", filepath.Join(usb, "idProduct"): "c00a\n",
		filepath.Join(usb, "product"): "PPK2\n", filepath.Join(usb, "serial"): "C0FFEE\n",
		filepath.Join(usb, "1-2.4:1.0/bInterfaceClass"): "02\n",
		filepath.Join(tty, "ttyS0/type"):                "0\n", filepath.Join(tty, "ttyAMA0/type"): "32\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	places, err := findIn(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range places {
		got = append(got, fmt.Sprintf("%s %04x:%04x class %d %s %s at %s, %d", p.Path, p.USB.Vendor, p.USB.Product, p.Class, p.Product, p.Serial, p.Bus, p.number))
	}
	want := []string{
		"/dev/rfcomm0 0000:0000 class 0   at , 0",
		"/dev/ttyACM0 1915:c00a class 0 PPK2 C0FFEE at 1-2.4, 2",
		"/dev/ttyACM1 1915:c00a class 2 PPK2 C0FFEE at 1-2.4, 0",
		"/dev/ttyAMA0 0000:0000 class 0   at , 0",
		"/dev/ttyUSB0 0000:0000 class 0   at 3-1, 0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The first interface of a device comes first.
	got = nil
	for _, at := range devices(places) {
		got = append(got, at.Path)
		if at.Path == "/dev/ttyUSB0" != (at.Bus == "3-1") || at.Path == "/dev/ttyACM1" && at.Problem == nil {
			t.Errorf("%+v", at)
		}
	}
	if order := strings.Join(got, " "); order != "/dev/rfcomm0 /dev/ttyAMA0 /dev/ttyACM1 /dev/ttyACM0 /dev/ttyUSB0" {
		t.Errorf("order is %s", order)
	}
	if places, err := findIn(t.TempDir()); err != nil || places != nil {
		t.Errorf("an empty tree: %v, %v", places, err)
	}
}
