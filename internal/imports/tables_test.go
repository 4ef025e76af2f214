package imports

import (
	"fmt"
	"strings"
	"testing"
)

// TestFormatsTold: each file of testdata is told without help; so are its
// variants.
func TestFormatsTold(t *testing.T) {
	for _, c := range []struct{ format, text string }{
		{"joulescope", "\ufeff\r\n#time,current,voltage,power,charge,energy\r\n0,1,5,5,0,0\r\n0.5,1,5,5,0.5,2.5\r\n"},
		{"joulescope", "time;current;voltage;power;charge;energy\n0,0;1,0;5,0;5,0;0;0\n0,5;1,0;5,0;5,0;0,5;2,5\n"},
		{"energibridge", "Delta,Time,CPU_ENERGY (J)\n0,1000,5\n200,1200,6\n"},
		{"energibridge", "Delta,Time,SYSTEM_POWER (Watts)\n0,1000,5\n200,1200,6\n"},
		{"perf-stat", "# started on Mon\n\n     0.1  <not counted> Joules power/energy-pkg/\n     0.2 1.5 Joules power/energy-pkg/\n"},
		{"csv", "Voltage (V),Current (A),Power (W),mWh,mAh,Joules,Elapsed Time (ms)\n5.1,0.5,2.55,10,10,36,0\n5.1,0.5,2.55,10,10,36,200\n"},
	} {
		got, err := importText(t, Options{}, "f", c.text)
		if err != nil || got.summary.Format != c.format {
			t.Errorf("%q: %s, %v", c.text, got.summary.Format, err)
		}
	}
}

// TestTableErrors: what tables of the other tools are refused for.
func TestTableErrors(t *testing.T) {
	const (
		scope  = "#time,current,voltage,power,charge,energy\n"
		rd     = "Time,Voltage (V),Current (A),Power (W),Accumulated power (mWh)\n"
		pi     = "Timestamp,Iterations,Algorithm,Joules,Volt,Current\n"
		bridge = "Delta,Time,PACKAGE_ENERGY (J)\n"
		rapl   = "label,timestamp,duration,pkg,dram,socket\n"
		perf   = "0.1,1.5,Joules,power/energy-pkg/,1,100.00,,\n"
		planes = "#timestamp,interval,socket,domain,energy,power\n"
		leo    = "Algorithm Name,Operation,Voltage (V),Current (A),Elapsed Time (ms)\n"
	)
	for _, c := range []struct {
		o          Options
		text, want string
	}{
		{Options{}, scope + "0,1,5,5,0,0\n0.5,x,5,5,0,0\n", `f:3:5: "x" is not a number`},
		{Options{}, scope + "5450.91,1,5,5,0,0\n3303.44,1,5,5,0,0\n", "f:3:1: time runs backwards: 3303.44 s after 5450.91 s; split the file here if these are two recordings, or sort it"},
		{Options{}, scope + "0,1,5,5,0,0\n0,5,1,0,5,0,5,0,0,0\n", "f:3:13: 10 fields, but the header names 6"},
		{Options{}, scope + "0,1,5,NaN,0,0\n0.5,1,5,NaN,0,0\n", "f: no row has a value for watts"},
		{Options{Volts: 3.3}, scope + "0,1,5,5,0,0\n", `f: has a column of volts, "voltage"; leave --volts out`},
		{Options{RateHz: 2}, scope + "0,1,5,5,0,0\n", `f: has a time column, "time"; leave --rate out`},
		{Options{}, rd + "17.05.2020 21:00,5,1,5,0\n", `f:2:1: "17.05.2020 21:00" mixes decimal points and decimal commas, or has thousands separators; export the file with plain decimals`},
		{Options{}, rd + "2020-05-17 21:00:00,70,1,70,0\n2020-05-17 21:00:01,70,1,70,0\n", "f: no row has a value for volts and amps"},
		{Options{}, pi + "2026-01-01T00:00:00,0,ML-KEM-512,0,5,1\n", `f:2:21: "0" is no number of iterations`},
		{Options{}, pi + "2026-01-01T00:00:00,many,ML-KEM-512,0,5,1\n", `f:2:21: "many" is no number of iterations`},

		{Options{}, bridge + "0,1000,5\n0,1000,6\n", "f:3:3: time runs backwards or stands still: 1 s after 1 s; split the file here if these are two recordings"},
		{Options{}, bridge + "0,1000,5\n", "f: holds no interval with an energy"},
		{Options{}, bridge + "0,1000,5\n1,2000,4\n", "f: no interval has a possible energy"},
		{Options{}, bridge + "0,1000,five\n", `f:2:8: "five" is not a number`},
		{Options{Volts: 5}, bridge + "0,1000,5\n", "f: its rows carry energies; leave --volts out"},
		{Options{RateHz: 5}, bridge + "0,1000,5\n", "f: its rows carry times of their own; leave --rate out"},
		{Options{From: "energibridge"}, "Delta,Time,DRAM_ENERGY (J)\n0,1,1\n", `f: the header ("Delta", "Time", "DRAM_ENERGY (J)") has no column PACKAGE_ENERGY (J), nor any other that gives the machine's power`},

		{Options{}, rapl + "a,100,-5,1,1,0\n", `f:2:7: "-5" is no duration in µs`},
		{Options{}, rapl + "a,100,1e6,1,1,0\nb,100.5,1e6,1,1,0\nc,110,1e6,1,1,0\n", `f:4: the measurement "b" before this row begins within the one before it: they cannot be told apart`},
		{Options{}, rapl + "a,100,1e6,-1,1,0\n", "f: no interval has a possible energy"},
		{Options{From: "pyrapl"}, "label,timestamp\na,1\n", `f: the header ("label", "timestamp") has no column duration`},

		{Options{}, planes + "0.1,0,N0,package,1,10\n", `f:2:5: "0" is no interval in s`},
		{Options{}, planes + "0.1,0.1,N0,package,1,10\n0.1,0.1,N0,package,1,10\n", "f:3:1: time runs backwards or stands still: 0.1 s after 0.1 s; split the file here if these are two recordings"},
		{Options{}, planes + "0.1,0.1,N0,ram,1,10\n", "f: holds no interval with an energy"},

		{Options{}, perf + "0.05,1.5,Joules,power/energy-pkg/,1,100.00,,\n", "f:2: time runs backwards: 0.05 s after 0.1 s; split the file here if these are two recordings"},
		{Options{}, "0.1,1.5,Joules,power/energy-ram/,1,100.00,,\n", `f: its events (["power/energy-ram/"]) are parts of the machine only; record power/energy-pkg/`},
		{Options{}, "0,1,1,5,Joules,power/energy-pkg/,1,100.00,,\n", "f:1: a decimal comma in a file separated by commas; record it with LC_ALL=C, or with -x ;"},
		{Options{}, perf + "0.2,lots,Joules,power/energy-pkg/,1,100.00,,\n", `f:2: energy "lots" is not a number`},
		{Options{}, "0,1.5,Joules,power/energy-pkg/,1,100.00,,\n", `f:1: time "0" is not above 0`},
		{Options{From: "perf-stat"}, "1,2\n", "f: holds no line of an energy event (perf stat -I 100 -e power/energy-pkg/ -x, writes them)"},

		{Options{}, leo + "A,sign,5,1,0\n", "f: how many operations each test made is not in the file: state it with --count (1 gives the energy of a whole test)"},
		{Options{Count: 1}, leo + "A,sign,5,1,-1\n", `f:2:12: "-1" is no elapsed time`},
		{Options{Count: 1}, leo + "A,sign,500,1,0\n", "f: no row has a possible voltage and current"},

		{Options{}, "Timestamp,Main current\n0,1\n", `f: the header ("Timestamp", "Main current") names amps, but neither volts nor watts; state the voltage with --volts, such as --volts 3.3V`},
		{Options{}, "Timestamp,Main voltage\n0,1\n", "f: holds the voltage alone; give the file of the current, too"},
		{Options{From: "otii"}, "Timestamp,UART\n0,1\n", `f:1:11: the columns ("Timestamp", "UART") are not Timestamp and a channel of main current, voltage or power`},
		{Options{From: "otii"}, "Timestamp,mc,mv\n0,1,2\n", `f:1: 3 columns ("Timestamp", "mc", "mv"), want Timestamp and one channel`},
		{Options{Volts: 200}, "Timestamp,mc\n0,1\n", "f: a stated voltage of 200 V is not between 0 and 120 V"},

		{Options{From: "wtm"}, "wtm1903 ", "f: is no .wtm file: it does not begin with wtm1903"},
		{Options{}, wtmMagic + "\x01", "f: holds no samples"},
		{Options{RateHz: 10}, wtmMagic + "\x01", "f: a .wtm file has 100 samples a second, and a voltage; leave --rate and --volts out"},
	} {
		_, err := importText(t, c.o, "f", c.text)
		if err == nil || err.Error() != "import "+c.want {
			t.Errorf("%q: got  %v\nwant import %s", c.text, err, c.want)
		}
	}
}

// TestOtiiFiles: which files of one recording go together.
func TestOtiiFiles(t *testing.T) {
	const (
		amps  = "Timestamp,Main current\n0,1\n0.1,1\n0.2,1\n0.3,1\n0.4,1\n5,1\n"
		volts = "Timestamp,Main voltage\n0.1,3\n0.2,4\n0.3,NaN\n0.45,5\n"
		watts = "Timestamp,Main power\n0,1\n1,1\n"
	)
	got, err := importFiles(t, Options{Samples: "v", Also: []string{"a"}}, map[string]string{"v": volts, "a": amps})
	if err != nil || fmt.Sprint(got.columns["volts"]) != "[3 3 4 NaN NaN NaN]" || codes(got.notes) != "missing-values gaps" {
		t.Errorf("%v, notes %s, %v", got.columns, codes(got.notes), err)
	}
	for _, c := range []struct {
		also  []string
		volts float64
		want  string
	}{
		{[]string{"a2"}, 0, "a2: holds amps as a does; give one file for each channel"},
		{[]string{"w"}, 0, "w: holds the power: leave the other files out, or leave it out"},
		{[]string{"v"}, 3.3, "v: holds the voltage; leave --volts out"},
		{[]string{"back"}, 0, "back:3:1: time runs backwards or stands still: 0.1 s after 0.2 s; split the file here if these are two recordings"},
	} {
		_, err := importFiles(t, Options{Samples: "a", Also: c.also, Volts: c.volts}, map[string]string{
			"a": amps, "a2": amps, "w": watts, "v": volts, "back": "Timestamp,mv\n0.2,1\n0.1,1\n"})
		if err == nil || err.Error() != "import "+c.want {
			t.Errorf("%v: %v\nwant %s", c.also, err, c.want)
		}
	}
	_, err = importFiles(t, Options{Samples: "f", Also: []string{"a"}}, map[string]string{"f": "time_s,watts\n0,1\n", "a": amps})
	if err == nil || !strings.HasPrefix(err.Error(), "import f: a recording of format csv is one file; leave ") {
		t.Errorf("csv and another file: %v", err)
	}
}

// TestSums: what a running column is worth beside the samples.
func TestSums(t *testing.T) {
	rows := func(energy string) string {
		text := "time_s,watts,energy_J\n"
		for i, e := range strings.Fields(energy) {
			text += fmt.Sprintf("%d,%d,%s\n", i, 10+i%2, e)
		}
		return text
	}
	for _, c := range []struct{ name, energy, notes string }{
		{"left rectangles", "0.00 10.23 20.79 31.17 41.90", "energy-column"},
		{"right rectangles", "100.00 110.93 121.05 131.44 141.91", "energy-column"},
		{"twice as much", "0.00 20.00 42.00 62.00 84.01", "energy-column!"},
		{"half as much", "0.00 5.00 10.00 15.00 20.01", "energy-column!"},
		{"constant", "0.00 10.50 21.00 31.50 42.00", "energy-column"},
		{"set back", "0.00 10.00 21.03 0.00 11.00", "energy-column"},
		{"a value missing", "0.00 10.00 NaN 31.00 42.01", "energy-column"},
		{"whole joules", "0 10 21 31 42", "coarse-energy!"},
		{"whole mWh", "0.00 10.80 21.60 28.80 39.60 50.40 61.20 72.00 82.80 93.60", "coarse-energy!"},
		{"nothing", "NaN NaN NaN NaN", ""},
		{"no number", "x 1", "error"},
	} {
		got, err := importText(t, Options{}, "f", rows(c.energy))
		notes := codes(got.notes)
		if err != nil {
			notes = "error"
		}
		if notes != c.notes {
			t.Errorf("%s: notes %s, want %s: %+v", c.name, notes, c.notes, got.notes)
		}
	}
}

// A row of a Joulescope stands for the time before it, so samples begin one row
// earlier.
func TestRowsAtTheirEnd(t *testing.T) {
	const header = "#time,current,voltage,power,charge,energy\n"
	got, err := importText(t, Options{}, "f", header+"10,1,5,5,0,0\n10.5,1,5,6,.50001,3.00001\n11,1,5,7,1,6.50002\n")
	if err != nil || got.info.FirstHostNs != 9_500_000_000 || got.info.RateHz != 2 || codes(got.notes) != "charge-column energy-column" {
		t.Errorf("%+v, notes %s, %v", got.info, codes(got.notes), err)
	}
	got, err = importText(t, Options{}, "f", header+"10,1,5,5,0,0\n10.5,1,5,6,.5,3\n11,1,5,7,1,6.5\n13,1,5,7,3,20.5\n")
	if err != nil || got.info.FirstHostNs != 9_500_000_000 || fmt.Sprint(got.timesNs) != "[0 500000000 1000000000 1500000000]" {
		t.Errorf("%+v, times %v, %v", got.info, got.timesNs, err)
	}
}

// TestGaps: silences between samples are told with their share.
func TestGaps(t *testing.T) {
	text := "time_s,watts\n"
	for i := range 200 {
		at := float64(i)
		if i >= 100 {
			at += 50.5
		}
		text += fmt.Sprintf("%g,1\n", at)
	}
	got, err := importText(t, Options{}, "f", text)
	want := "samples are missing in 1 places (none for longer than 2.5 times the typical 1 s): 20.2 % of the recording is not measured"
	if err != nil || len(got.notes) != 1 || got.notes[0].Text != want {
		t.Errorf("%+v, %v", got.notes, err)
	}
}
