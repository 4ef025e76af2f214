package hwmon

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

// board is a machine with one sensor that shows 5 V and 0.2 A over a shunt, in
// ohm.
func board(chip string, ohms float64) *meterstest.Host {
	h := &meterstest.Host{OpenNs: 700_000, Links: map[string]string{}, Files: map[string]meterstest.File{
		class + "/hwmon0/name":        meterstest.Text("cpu_thermal\n"),
		class + "/hwmon0/temp1_input": meterstest.Text("45000\n"),
	}}
	add(h, "hwmon3", chip, "1-0040", ohms)
	return h
}

func add(h *meterstest.Host, number, chip, address string, ohms float64) {
	dir := class + "/" + number + "/"
	h.Links[dir+"device"] = "../../../" + address
	text := func(format string, args ...any) meterstest.File {
		return meterstest.Text(fmt.Sprintf(format, args...) + "\n")
	}
	h.Files[dir+"name"] = text("%s", chip)
	h.Files[dir+"curr1_input"] = text("200")
	if chip == "powerz" {
		h.Files[dir+"in0_input"] = text("5000")
		h.Files[dir+"temp1_input"] = text("26500")
		return
	}
	h.Files[dir+"in0_input"] = text("%.0f", 0.2*ohms*1000)
	h.Files[dir+"in1_input"] = text("5000")
	h.Files[dir+"power1_input"] = text("1000000")
	h.Files[dir+"shunt_resistor"] = text("%.0f", ohms*1e6)
	if chip == "ina226" {
		h.Files[dir+"update_interval"] = text("35")
	}
}

func TestConformance(t *testing.T) {
	const dir = class + "/hwmon3/"
	for _, c := range []struct {
		chip   string
		ohms   float64
		values []string
	}{
		{"ina219", 0.1, []string{dir + "in1_input", dir + "curr1_input"}},
		{"ina226", 2, []string{dir + "in1_input", dir + "in0_input"}},
		{"powerz", 0, []string{dir + "in0_input", dir + "curr1_input"}},
	} {
		t.Run(c.chip, func(t *testing.T) {
			meterstest.HostSuite{
				Driver: Driver, Host: func() *meterstest.Host { return board(c.chip, c.ohms) },
				Values: c.values, Watts: 1, Tolerance: 1e-9,
			}.Run(t)
		})
	}
}

func stream(t *testing.T, h *meterstest.Host, o meters.Options) (info meters.Info, times []int64, last []float64, notices []meters.Notice) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h.Passed = func(hostNs int64) {
		if hostNs >= 2*int64(time.Second) {
			cancel()
		}
	}
	o.Notify = func(n meters.Notice) { notices = append(notices, n) }
	m, err := Driver.OpenHost(ctx, h, o)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Stream(ctx, func(b meters.Block) error {
		last = nil
		for _, v := range b.Values {
			last = append(last, v[0])
		}
		times = append(times, b.TimesNs...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m.Info(), times, last, notices
}

// TestShunt: where the current comes from, and what the kernel takes the shunt
// for.
func TestShunt(t *testing.T) {
	for _, c := range []struct {
		ohms     float64
		settings map[string]string
		amps     float64
		said     string
	}{
		{0.1, nil, 0.2, "current-from"},
		{0.01, nil, 0.2, "shunt-default current-from"},
		// The kernel was told 10 mohm, the board has 100: a tenth flows.
		{0.01, map[string]string{"shunt": "100mohm"}, 0.02, "current-from"},
		{0.1, map[string]string{"shunt": "0.05ohm", "reversed": "yes"}, -0.4, "current-from current-signed"},
		{5, nil, 0.2, "current-from"},
		{5, map[string]string{"shunt": "10ohm", "reversed": "yes"}, -0.1, "current-from current-signed"},
	} {
		_, _, last, notices := stream(t, board("ina226", c.ohms), meters.Options{Settings: c.settings})
		var said []string
		for _, n := range notices {
			said = append(said, n.Code)
		}
		if math.Abs(last[1]-c.amps) > 1e-12 || last[0] != 5 || strings.Join(said, " ") != c.said {
			t.Errorf("%+v: %v, said %v", c, last, notices)
		}
		if from := notices[len(said)-1]; c.ohms > 1 && !strings.Contains(notices[0].Text, "in0") {
			t.Errorf("%+v", from)
		}
	}
	for _, bad := range []map[string]string{{"shunt": "0"}, {"shunt": "-1ohm"}, {"shunt": "x"}, {"shunt": "1e9ohm"}, {"shunt": "5V"}, {"reversed": "no"}} {
		if _, err := Driver.OpenHost(context.Background(), board("ina226", 0.1), meters.Options{Settings: bad}); err == nil {
			t.Errorf("%v was opened", bad)
		}
	}
	h := board("ina219", 0.1)
	delete(h.Files, class+"/hwmon3/shunt_resistor")
	if _, _, last, notices := stream(t, h, meters.Options{}); last[1] != 0.2 || len(notices) != 0 {
		t.Errorf("%v, %v", last, notices)
	}
	if _, err := Driver.OpenHost(context.Background(), h, meters.Options{Settings: map[string]string{"shunt": "1ohm"}}); err == nil {
		t.Error("a shunt was given whose place the kernel does not tell")
	}
}

// TestPlaces: a sensor is known by its chip's name or its address, never by
// its number.
func TestPlaces(t *testing.T) {
	h := board("ina226", 0.1)
	add(h, "hwmon1", "ina226", "1-0041", 0.1)
	add(h, "hwmon2", "powerz", "3-1:1.0", 0)
	for place, want := range map[string]string{"1-0040": "1-0040", "1-0041": "1-0041", "powerz": "3-1:1.0"} {
		info, _, last, _ := stream(t, h, meters.Options{Place: place})
		if info.Serial != want || last[0] != 5 {
			t.Errorf("%s: %+v %v", place, info, last)
		}
		h = board("ina226", 0.1)
		add(h, "hwmon1", "ina226", "1-0041", 0.1)
		add(h, "hwmon2", "powerz", "3-1:1.0", 0)
	}
	for _, place := range []string{"", "ina226", "hwmon3", "3", "ina219", "cpu_thermal"} {
		if _, err := Driver.OpenHost(context.Background(), h, meters.Options{Place: place}); err == nil {
			t.Errorf("%q was opened", place)
		}
	}
	var specs []string
	for _, f := range Driver.Find(h) {
		specs = append(specs, f.Spec)
	}
	if got := strings.Join(specs, " "); got != "hwmon:1-0041 hwmon:powerz hwmon:1-0040" {
		t.Error(got)
	}
}

// TestPace: twice as often as the chip converts.
func TestPace(t *testing.T) {
	for chip, want := range map[string]float64{"ina226": 17.5, "ina219": 10, "powerz": 5} {
		info, times, _, _ := stream(t, board(chip, 0.1), meters.Options{})
		got := float64(times[len(times)-1]-times[0]) * 1e-6 / float64(len(times)-1)
		if math.Abs(got-want) > 0.1 || info.Model != chip {
			t.Errorf("%s: %.2f ms, want %g", chip, got, want)
		}
	}
}
