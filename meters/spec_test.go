package meters

import (
	"maps"
	"strings"
	"testing"
)

func TestParseSpec(t *testing.T) {
	for _, c := range []struct {
		in       string
		want     Spec
		settings string
	}{
		{"fnb58", Spec{Name: "fnb58", Driver: "fnb58"}, ""},
		{"usb=fnb58:/dev/hidraw3", Spec{Name: "usb", Driver: "fnb58", Place: "/dev/hidraw3"}, ""},
		{"fnb58+usb", Spec{Name: "fnb58", Driver: "fnb58", Transport: USB}, ""},
		{"fnb58+usb:1-2.4,firmware=0.68", Spec{Name: "fnb58", Driver: "fnb58", Transport: USB, Place: "1-2.4"}, "firmware=0.68"},
		{"ppk2:/dev/ttyACM0,ampere=3.3V,digital=", Spec{Name: "ppk2", Driver: "ppk2", Place: "/dev/ttyACM0"}, "ampere=3.3V digital="},
		{"scpi:tcp:psu.lab:5025,volts=MEAS:VOLT?", Spec{Name: "scpi", Driver: "scpi", Place: "tcp:psu.lab:5025"}, "volts=MEAS:VOLT?"},
		{"fnb58,serial=123", Spec{Name: "fnb58", Driver: "fnb58"}, "serial=123"},
		{"exec:./prog a=1,b=2 c:d", Spec{Name: "exec", Driver: "exec", Place: "./prog a=1,b=2 c:d"}, ""},
		{"psu=exec:./prog", Spec{Name: "psu", Driver: "exec", Place: "./prog"}, ""},
		{"replay:runs/a,b", Spec{Name: "replay", Driver: "replay", Place: "runs/a,b"}, ""},
	} {
		got, err := ParseSpec(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		settings := map[string]string{}
		for _, pair := range strings.Fields(c.settings) {
			k, v, _ := strings.Cut(pair, "=")
			settings[k] = v
		}
		if !maps.Equal(got.Settings, settings) {
			t.Errorf("%s: settings are %v, want %v", c.in, got.Settings, settings)
		}
		got.Settings = nil
		if got.Name != c.want.Name || got.Driver != c.want.Driver || got.Transport != c.want.Transport || got.Place != c.want.Place {
			t.Errorf("%s: %+v, want %+v", c.in, got, c.want)
		}
	}
}

func TestParseSpecErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                        `meter spec "" is not [NAME=]DRIVER[+TRANSPORT][:PLACE][,KEY=VALUE]`,
		"A b":                     `meter spec "A b" is not [NAME=]DRIVER[+TRANSPORT][:PLACE][,KEY=VALUE]`,
		"../x=fnb58":              `meter spec "../x=fnb58": the name "../x" is not a lower-case word`,
		"=fnb58":                  `meter spec "=fnb58": the name "" is not a lower-case word`,
		"fnb58,serial=1,serial=2": `meter spec "fnb58,serial=1,serial=2": serial is given twice`,
		":/dev/hidraw0":           `meter spec ":/dev/hidraw0" is not [NAME=]DRIVER[+TRANSPORT][:PLACE][,KEY=VALUE]`,
	} {
		if _, err := ParseSpec(in); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", in, err, want)
		}
	}
}
