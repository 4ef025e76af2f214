package battery

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
)

const dir = class + "/BAT0/"

// laptop discharges with 12 W, in the form of a battery that counts charge, or
// energy; every value changes its last digit every 4 s.
func laptop(energy bool) *meterstest.Host {
	digit := func(v int64) meterstest.File {
		return func(hostNs int64) (string, error) { return fmt.Sprintln(v + hostNs/4e9%2), nil }
	}
	h := &meterstest.Host{OpenNs: 20_000, Files: map[string]meterstest.File{
		dir + "type":          meterstest.Text("Battery\n"),
		dir + "status":        meterstest.Text("Discharging\n"),
		dir + "present":       meterstest.Text("1\n"),
		dir + "model_name":    meterstest.Text("DELL G5M10\n"),
		dir + "serial_number": meterstest.Text("2171\n"),
		dir + "voltage_now":   digit(12000000),

		class + "/AC/type":          meterstest.Text("Mains\n"),
		class + "/hidpp_0/type":     meterstest.Text("Battery\n"),
		class + "/hidpp_0/scope":    meterstest.Text("Device\n"),
		class + "/hidpp_0/status":   meterstest.Text("Discharging\n"),
		class + "/BAT1/type":        meterstest.Text("Battery\n"),
		class + "/BAT1/present":     meterstest.Text("0\n"),
		class + "/hidpp_0/capacity": meterstest.Text("80\n"),
	}}
	if energy {
		h.Files[dir+"power_now"] = digit(12000000)
	} else {
		h.Files[dir+"current_now"] = digit(1000000)
		h.Files[dir+"temp"] = meterstest.Text("312\n")
	}
	return h
}

func TestConformance(t *testing.T) {
	for energy, values := range map[bool][]string{true: {dir + "power_now"}, false: {dir + "voltage_now", dir + "current_now"}} {
		t.Run(fmt.Sprint(energy), func(t *testing.T) {
			meterstest.HostSuite{
				Driver: Driver, Host: func() *meterstest.Host { return laptop(energy) },
				Values: values, Seconds: 20, Watts: 12, Tolerance: 1e-4,
			}.Run(t)
		})
	}
}

func stream(t *testing.T, h *meterstest.Host, seconds int64) (info meters.Info, last []float64, notices []meters.Notice) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h.Passed = func(hostNs int64) {
		if hostNs >= seconds*int64(time.Second) {
			cancel()
		}
	}
	m, err := Driver.OpenHost(ctx, h, meters.Options{Notify: func(n meters.Notice) { notices = append(notices, n) }})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Stream(ctx, func(b meters.Block) error {
		last = nil
		for _, v := range b.Values {
			last = append(last, v[0])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m.Info(), last, notices
}

// TestSigns: whatever sign a driver gives, energy that leaves the battery is
// positive, and a battery that does not discharge is warned of.
func TestSigns(t *testing.T) {
	for _, c := range []struct {
		status, current string
		amps            float64
		charging        bool
	}{
		{"Discharging", "1500000", 1.5, false},
		{"Discharging", "-1500000", 1.5, false},
		{"Charging", "1500000", -1.5, true},
		{"Charging", "-1500000", -1.5, true},
		{"Not charging", "0", 0, true},
		{"Full", "2000", 0.002, true},
	} {
		h := laptop(false)
		h.Files[dir+"status"] = meterstest.Text(c.status + "\n")
		h.Files[dir+"current_now"] = meterstest.Text(c.current)
		info, last, notices := stream(t, h, 10)
		if strings.Join(info.Columns, " ") != "volts amps celsius" || info.Model != "DELL G5M10" || info.Serial != "2171" {
			t.Errorf("%+v", info)
		}
		if last[1] != c.amps || math.Abs(last[0]-12) > 1e-5 || last[2] != 31.2 {
			t.Errorf("%+v: %v", c, last)
		}
		if charging := notices[0].Code == Charging && notices[0].Warn; charging != c.charging {
			t.Errorf("%+v: %+v", c, notices)
		}
	}
}

func TestUpdates(t *testing.T) {
	_, _, notices := stream(t, laptop(true), 61)
	if len(notices) != 1 || notices[0].Code != SlowValues || !strings.Contains(notices[0].Text, "every 4.0 s") || !strings.Contains(notices[0].Text, "80 s") {
		t.Errorf("%+v", notices)
	}
	_, _, notices = stream(t, laptop(true), 3)
	if len(notices) != 1 || !strings.Contains(notices[0].Text, "did not change twice") {
		t.Errorf("%+v", notices)
	}
}

func TestPlaces(t *testing.T) {
	h := laptop(true)
	for name, f := range h.Files {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			h.Files[class+"/CMB1/"+rest] = f
		}
	}
	open := func(place string) error {
		_, err := Driver.OpenHost(context.Background(), h, meters.Options{Place: place})
		return err
	}
	if err := open(""); err == nil || !strings.Contains(err.Error(), "2 batteries") {
		t.Errorf("%v", err)
	}
	if err := open("CMB1"); err != nil {
		t.Error(err)
	}
	for _, place := range []string{"BAT1", "hidpp_0", "../BAT0", "AC"} {
		if open(place) == nil {
			t.Errorf("%s was opened", place)
		}
	}
	if found := Driver.Find(h); len(found) != 2 || found[1].Spec != "battery:CMB1" {
		t.Errorf("%+v", found)
	}
}

func FuzzSign(f *testing.F) {
	f.Add(int64(12), int64(-5), "Discharging")
	f.Add(int64(-1), int64(1<<62), "Full")
	f.Fuzz(func(t *testing.T, volts, amps int64, status string) {
		fields := forms[1]
		values := []float64{float64(volts) / 1e6, float64(amps) / 1e6}
		if err := sign(fields, values, status); err != nil {
			return
		}
		if !(values[0] > 0 && values[0] <= maxUnits && math.Abs(values[1]) <= maxUnits) || (values[1] < 0 && status != "Charging") {
			t.Fatalf("%q: %v", status, values)
		}
	})
}
