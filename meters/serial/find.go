package serial

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

// Find lists the serial lines, the first one of a USB device before its others.
func Find() ([]meters.Device, error) {
	lines, err := list()
	if err != nil {
		return nil, fmt.Errorf("list serial lines: %w", err)
	}
	var devices []meters.Device
	interfaces := map[string]int{}
	for _, line := range lines {
		if line.Name == "" { // the system knows of no such device
			continue
		}
		at := meters.Device{Transport: meters.Serial, Path: line.Name}
		if line.IsUSB {
			at.USB = meters.USBID{Vendor: number(line.VID), Product: number(line.PID)}
			at.Product, at.Serial = line.Product, line.SerialNumber
			at.Bus, interfaces[at.Path] = place("/", line.Name)
		}
		if err := access(line.Name); err != nil {
			at.Problem = problem(line.Name, err)
		}
		devices = append(devices, at)
	}
	slices.SortFunc(devices, func(a, b meters.Device) int {
		return cmp.Or(cmp.Compare(a.Bus, b.Bus), cmp.Compare(interfaces[a.Path], interfaces[b.Path]), cmp.Compare(a.Path, b.Path))
	})
	return devices, nil
}

func number(hex string) uint16 {
	n, _ := strconv.ParseUint(hex, 16, 16)
	return uint16(n)
}

// An interface of a USB device in sysfs is BUS-PORT.PORT:CONFIGURATION.NUMBER.
var interfaceName = regexp.MustCompile(`^(\d+-[\d.]+):\d+\.(\d+)$`)

// place returns where on the bus the device of a line is, such as 1-2.4, and
// the number of its interface. It is "" where sysfs does not say.
func place(root, line string) (bus string, number int) {
	at, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/tty", filepath.Base(line), "device"))
	if err != nil {
		return "", 0
	}
	for part := range strings.SplitSeq(at, string(os.PathSeparator)) {
		if m := interfaceName.FindStringSubmatch(part); m != nil {
			bus = m[1]
			number, _ = strconv.Atoi(m[2])
		}
	}
	return bus, number
}
