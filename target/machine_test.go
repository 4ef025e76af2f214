package target

import (
	"testing"
	"testing/fstest"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestMachine(t *testing.T) {
	pi := Machine{fstest.MapFS{
		"proc/cpuinfo":                                        file("processor\t: 0\nmodel name\t: ARMv6-compatible processor rev 7 (v6l)\nHardware\t: BCM2835\n"),
		"proc/device-tree/model":                              file("Raspberry Pi Zero W Rev 1.1\x00"),
		cpufreq + "scaling_governor":                          file("performance\n"),
		cpufreq + "scaling_cur_freq":                          file("1000000\n"),
		cpufreq + "cpuinfo_max_freq":                          file("1000000\n"),
		"sys/class/thermal/thermal_zone0/temp":                file("48312\n"),
		"sys/devices/platform/soc/soc:firmware/get_throttled": file("50005\n"),
	}}
	if got := pi.cpu(); got != "Raspberry Pi Zero W Rev 1.1, ARMv6-compatible processor rev 7 (v6l)" {
		t.Errorf("processor is %q", got)
	}
	if got := pi.state(); got != "governor performance, 1000 MHz, 48.3 °C, throttled 50005" {
		t.Errorf("state is %q", got)
	}
	h := pi.Hello(Ops())
	if h.ClockHz != 1e9 || h.TickHz != 1e9 || h.Bits < 32 || len(h.Ops) < 60 {
		t.Errorf("%+v", h)
	}
	if _, err := h.Statements(); err != nil {
		t.Error(err)
	}
}

// What is not there, or is nonsense, is left out.
func TestMachineWithoutFiles(t *testing.T) {
	for _, files := range []fstest.MapFS{{}, {
		cpufreq + "scaling_cur_freq":           file("-1"),
		"sys/class/thermal/thermal_zone0/temp": file("warm"),
	}} {
		m := Machine{files}
		if m.cpu() != "" || m.state() != "" || m.Hello(nil).ClockHz != 0 {
			t.Errorf("%q %q", m.cpu(), m.state())
		}
	}
}
