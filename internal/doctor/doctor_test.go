package doctor

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
)

func files(pairs ...string) fs.FS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1] + "\n")}
	}
	return m
}

func TestMachine(t *testing.T) {
	const cpu, supply = "sys/devices/system/cpu/", "sys/class/power_supply/"
	for _, c := range []struct {
		what  string
		root  fs.FS
		name  string
		state State
		text  string // part of it
		fix   string // part of it
	}{
		{"virtual machine", files(), "governor", Unknown, "no cpufreq", ""},
		{"all fixed", files(cpu+"cpu0/cpufreq/scaling_governor", "performance", cpu+"cpu1/cpufreq/scaling_governor", "performance"), "governor", OK, "performance", ""},
		{"one of two", files(cpu+"cpu0/cpufreq/scaling_governor", "performance", cpu+"cpu1/cpufreq/scaling_governor", "ondemand"), "governor", Warning, "ondemand: ", "sudo tee"},
		{"turbo", files(cpu+"intel_pstate/no_turbo", "0"), "turbo", Warning, "on:", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"},
		{"no turbo", files(cpu+"intel_pstate/no_turbo", "1"), "turbo", OK, "off", ""},
		{"boost", files(cpu+"cpufreq/boost", "1"), "turbo", Warning, "on:", "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"},
		{"boost unknown", files(cpu+"cpufreq/boost", "maybe"), "turbo", Unknown, "", ""},
		{"pi", files(throttledFile, "0x50005"), "throttling", Failure, "under-voltage and throttled now", "supply"},
		{"pi, once", files(throttledFile, "20000"), "throttling", Warning, "clock rate capped since", "get_throttled 1"},
		{"pi, never", files(throttledFile, "0"), "throttling", OK, "none", ""},
		{"pi, nonsense", files(throttledFile, "x"), "throttling", Unknown, "no number", ""},
		{"x86", files(cpu+"cpu0/thermal_throttle/core_throttle_count", "3", cpu+"cpu1/thermal_throttle/core_throttle_count", "4"), "throttling", Warning, "7 times", "cool"},
		{"x86, never", files(cpu+"cpu0/thermal_throttle/core_throttle_count", "0"), "throttling", OK, "never", ""},
		{"desktop", files(supply+"AC/type", "Mains", supply+"AC/online", "1"), "battery", OK, "none", ""},
		{"charging", files(supply+"BAT0/type", "Battery", supply+"BAT0/status", "Charging"), "battery", Warning, "BAT0: charging", "full"},
		{"full", files(supply+"BAT0/type", "Battery", supply+"BAT0/status", "Full"), "battery", OK, "BAT0: full", ""},
		{"mouse", files(supply+"hid/type", "Battery", supply+"hid/scope", "Device", supply+"hid/status", "Charging"), "battery", OK, "none", ""},
		{"mute", files(supply+"BAT0/type", "Battery"), "battery", Warning, "unknown", "charged"},
	} {
		checks := Machine(c.root)
		found := false
		for _, got := range checks {
			if got.Name != c.name {
				continue
			}
			found = true
			if got.State != c.state || !strings.Contains(got.Text, c.text) || !strings.Contains(got.Fix, c.fix) || (got.Fix == "") != (c.fix == "") {
				t.Errorf("%s: %+v, want %s with %q and %q", c.what, got, c.state, c.text, c.fix)
			}
		}
		if !found {
			t.Errorf("%s: no check %s", c.what, c.name)
		}
	}
}

func TestListen(t *testing.T) {
	noise := make([]byte, 2000)
	for i := range noise {
		noise[i] = byte(i * 151)
	}
	for _, c := range []struct {
		sent  string
		state State
		text  string
	}{
		{"", Warning, "nothing came in"},
		{string(noise), Warning, "wrong baud rate?"},
		{"boot\nready\n", Warning, "2 lines, no marks"},
		{"I (12) @jm sync seq=1 t=5\n@jm note text=x\n", OK, "2 marks in 2 lines"},
		{"@jm sync seq=1 t=5 *0000\n@jm sync seq=2 t=6\n", Warning, "1 marks, and 1 damaged"},
	} {
		p := &meterstest.Port{}
		for i := 0; i < len(c.sent); i += 7 { // in pieces
			p.Frames = append(p.Frames, meterstest.Frame{HostNs: int64(i), Bytes: []byte(c.sent[i:min(i+7, len(c.sent))])})
		}
		h, err := Listen(p, 1e9)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Check("port"); got.State != c.state || !strings.Contains(got.Text, c.text) || (got.Fix == "") != (got.State == OK) {
			t.Errorf("%.20q: %+v, want %s with %q", c.sent, got, c.state, c.text)
		}
	}
	p := &meterstest.Port{}
	p.Close()
	if _, err := Listen(p, 1e9); err == nil {
		t.Error("a port that is gone is no error")
	}
}

func TestPorts(t *testing.T) {
	drivers := []meters.Driver{
		{Name: "fnb58", Transports: []meters.Transport{meters.HID}, Models: []meters.Model{{Name: "FNB58", USB: meters.USBID{Vendor: 0x2e3c, Product: 0x5558}}}},
		{Name: "ppk2", Transports: []meters.Transport{meters.Serial}, Models: []meters.Model{{Name: "PPK2", USB: meters.USBID{Vendor: 0x1915, Product: 0xc00a}}}},
		{Name: "um25c", Transports: []meters.Transport{meters.Serial}, Models: []meters.Model{{Name: "UM25C"}}},
	}
	for _, c := range []struct {
		device meters.Device
		state  State
		text   string
	}{
		{meters.Device{Path: "/dev/ttyACM0", USB: meters.USBID{Vendor: 0x2e3c, Product: 0x5558}}, OK, "own serial port of a meter (FNB58)"},
		{meters.Device{Path: "/dev/ttyACM1", USB: meters.USBID{Vendor: 0x1915, Product: 0xc00a}}, OK, "belongs to a meter (PPK2)"},
		{meters.Device{Path: "/dev/ttyUSB0", USB: meters.USBID{Vendor: 0x10c4, Product: 0xea60}, Product: "CP2102N"}, OK, `"CP2102N", may be the target's`},
		{meters.Device{Path: "/dev/ttyS0"}, OK, "may be"},
		{meters.Device{Path: "/dev/ttyS1"}, Warning, "may be the target's; open in minicom (process 7)"},
		{meters.Device{Path: "/dev/ttyUSB1", Problem: &meters.Problem{Err: os.ErrPermission, Hint: "join dialout"}}, Failure, "permission denied"},
	} {
		got := Ports([]meters.Device{c.device}, drivers, func(path string) string {
			return map[string]string{"/dev/ttyS1": "minicom (process 7)"}[path]
		})
		if len(got) != 1 || got[0].State != c.state || !strings.Contains(got[0].Text, c.text) || (got[0].Fix == "") != (c.state == OK) {
			t.Errorf("%s: %+v, want %s with %q", c.device.Path, got, c.state, c.text)
		}
	}
}
