package imports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// TestFnirsiPackets: which rows make which packets. A row is written
// "stamp-in-ms/sample_in_packet/volts"; amps are 1 and the charge grows.
func TestFnirsiPackets(t *testing.T) {
	for _, c := range []struct {
		name, rows string
		volts      string
		arrivals   string // row@ms
		notes      string
	}{
		{"two packets", "0/0/1 10/1/2 20/2/3 30/3/4 40/0/5 50/1/6 60/2/7 70/3/8", "[1 2 3 4 5 6 7 8]", "4@40 8@80", ""},
		{"a lost packet leaves only a late arrival", "0/0/1 10/1/2 20/2/3 30/3/4 80/0/5 90/1/6 100/2/7 110/3/8", "[1 2 3 4 5 6 7 8]", "4@40 8@120", ""},
		{"both lack rows", "0/0/1 10/1/2 60/2/7 70/3/8 80/0/9", "[1 2 NaN NaN NaN NaN 7 8 9]", "4@40 8@80 9@120", "missing-rows"},
		{"a burst", "0/0/1 10/1/2 20/2/3 30/3/4 1/0/5 11/1/6 21/2/7 31/3/8", "[1 2 3 4 5 6 7 8]", "4@40 8@41", ""},
		{"begins within a packet", "20/2/3 30/3/4 40/0/5", "[3 4 5]", "2@40 3@80", ""},
		{"stale samples", "0/0/188.7 10/1/188.7 20/2/3 30/3/4", "[3 4]", "2@40", "charge-column! impossible-first!"},
		{"a stale packet", "0/0/188.7 10/1/188.7 20/2/188.7 30/3/188.7 40/0/188.7 50/1/6", "[NaN 6]", "2@80", "charge-column! impossible-first! impossible!"},
		{"stale behind a good one", "0/0/1 10/1/188.7", "[1 NaN]", "2@40", "charge-column! impossible!"},
		{"negative", "0/0/1 10/1/-2", "[1 NaN]", "2@40", "charge-column! impossible!"},
		{"a packet twice", "0/0/1 10/1/2 20/2/3 30/3/4 0/0/1 10/1/2 20/2/3 30/3/4 40/0/5", "[1 2 3 4 5]", "4@40 5@80", "duplicate-rows"},
		{"back by less than a second", "900/0/1 400/0/2", "[1 NaN NaN NaN 2]", "4@940 5@440", "missing-rows"},
		{"forward by an hour and more", "0/0/1 3600041/0/2", "[1 NaN NaN NaN 2]", "4@40 1@3600081", "clock-jump! charge-column missing-rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "timestamp sample_in_packet voltage_V current_A capacity_As\n"
			seen := map[string]float64{}
			charge := 0.0
			for _, row := range strings.Fields(c.rows) {
				var ms, k int
				var volts float64
				if _, err := fmt.Sscanf(row, "%d/%d/%g", &ms, &k, &volts); err != nil {
					t.Fatal(err)
				}
				if _, again := seen[row]; !again {
					charge += 0.01
					seen[row] = charge
				}
				text += fmt.Sprintf("%d.%03d %d %g 1 %.6f\n", 1700000000+ms/1000, ms%1000, k, volts, seen[row])
			}
			got, err := importText(t, Options{}, "f", text)
			if err != nil {
				t.Fatal(err)
			}
			var arrivals []string
			for _, a := range got.arrivals {
				arrivals = append(arrivals, fmt.Sprintf("%d@%d", a.Row, a.HostNs/1e6))
			}
			if s := fmt.Sprint(got.columns[meters.Volts]); s != c.volts {
				t.Errorf("volts %s, want %s", s, c.volts)
			}
			if s := strings.Join(arrivals, " "); s != c.arrivals {
				t.Errorf("arrivals %s, want %s", s, c.arrivals)
			}
			if s := codes(got.notes); s != strings.TrimSpace(c.notes) {
				t.Errorf("notes %s, want %s", s, c.notes)
			}
		})
	}
}

// TestFnirsiEqualPackets: without a current nothing tells a packet that was
// written twice from two equal ones; both are kept, since a loss would shift
// all that follows.
func TestFnirsiEqualPackets(t *testing.T) {
	packet := "1700000000.000 0 5 0 0 0\n1700000000.010 1 5 0 0 0\n1700000000.020 2 5 0 0 0\n1700000000.030 3 5 0 0 0\n"
	got, err := importText(t, Options{}, "f", "timestamp sample_in_packet voltage_V current_A energy_Ws capacity_As\n"+packet+packet)
	if err != nil || got.summary.Samples != 8 || len(got.notes) > 0 {
		t.Errorf("%d samples, %v, %v", got.summary.Samples, got.notes, err)
	}
}
