package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

// TestMetersDoc keeps docs/meters.md what the drivers say; -update writes it.
func TestMetersDoc(t *testing.T) {
	const path = "../../docs/meters.md"
	want := metersDoc(newLab())
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the drivers say: go test ./internal/cli -run MetersDoc -update", path)
	}
}

// Every driver says what a person must know before trusting it.
func TestDriversAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range newLab().drivers {
		if seen[d.Name] || d.Summary == "" || d.Rate == "" || d.Status == "" || len(d.Transports) == 0 || len(d.Models) == 0 {
			t.Errorf("driver %q: name twice, or summary, rate, status, transport or model missing: %+v", d.Name, d)
		}
		seen[d.Name] = true
		if (d.Open == nil) == (d.OpenHost == nil) {
			t.Errorf("driver %s must be opened in one way", d.Name)
		}
		for _, m := range d.Models {
			if (m.Accuracy.Volts != nil || m.Accuracy.Amps != nil || m.Accuracy.Watts != nil) && m.Accuracy.Source == "" {
				t.Errorf("driver %s, model %s: an accuracy without a source", d.Name, m.Name)
			}
		}
	}
}

const metersIntro = `# Meters

<!-- Written by go test ./internal/cli -run MetersDoc -update, from the drivers. -->

A meter is named by a spec, ` + "`[NAME=]DRIVER[+TRANSPORT][:PLACE][,KEY=VALUE]...`" + `: ` + "`fnb58`" + `, ` + "`usb=fnb58:/dev/hidraw3`" + `, ` + "`ppk2:/dev/ttyACM0,ampere=3.3V`" + `. The name is that of its stream in a run.
` + "`joulemark meters`" + ` lists those that are there, with the spec that opens them.

**Status** says what a driver has been tried on: *emulated* is an emulator written from what is published, *captured* is bytes that others recorded from a real meter, *hardware* a real meter
with a known load. Nothing here has been tried on hardware by us.

Accuracy is what the maker states. Half of what is bought for little states none; a run then has no total interval, only repeatability, until the meter is calibrated (` + "`joulemark calibrate`" + `) or
` + "`--accuracy`" + ` is given.

`

func metersDoc(l lab) string {
	var b strings.Builder
	b.WriteString(metersIntro)
	b.WriteString("| driver | models | over | samples a second | digital inputs | status |\n|---|---|---|---|---|---|\n")
	for _, d := range l.drivers {
		digital := d.Digital
		if digital == "" {
			digital = "none"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s | %s |\n", d.Name, d.Name, strings.Join(modelNames(d), ", "), strings.Join(texts(d.Transports), ", "), d.Rate, digital, d.Status)
	}
	for _, d := range l.drivers {
		driverDoc(&b, d)
	}
	b.WriteString("\n## Settings of every driver\n\n")
	settingsDoc(&b, append(commonSettings, rootSetting))
	return b.String()
}

func modelNames(d meters.Driver) []string {
	var names []string
	for _, m := range d.Models {
		names = append(names, m.Name)
	}
	return names
}

func driverDoc(b *strings.Builder, d meters.Driver) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", d.Name, strings.TrimSuffix(d.Summary, "."))
	if d.Baud != 0 {
		fmt.Fprintf(b, "Its serial line runs at %d baud, 8N1.\n", d.Baud)
	}
	if len(d.Settings) > 0 {
		b.WriteString("\n")
		settingsDoc(b, d.Settings)
	}
	b.WriteString("\n| model | USB id | accuracy | source |\n|---|---|---|---|\n")
	for _, m := range d.Models {
		id := "-"
		if m.USB != (meters.USBID{}) {
			id = fmt.Sprintf("%04x:%04x", m.USB.Vendor, m.USB.Product)
		}
		source := m.Accuracy.Source
		if source == "" {
			source = "-"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", m.Name, id, m.Accuracy, source)
	}
	trapsDoc(b, d)
}

// trapsDoc lists traps once, with the models that have them where not all do.
func trapsDoc(b *strings.Builder, d meters.Driver) {
	var traps []string
	of := map[string][]string{}
	for _, m := range d.Models {
		for _, trap := range m.Traps {
			if !slices.Contains(traps, trap) {
				traps = append(traps, trap)
			}
			of[trap] = append(of[trap], m.Name)
		}
	}
	if len(traps) > 0 {
		b.WriteString("\nTraps:\n\n")
	}
	for _, trap := range traps {
		who := ""
		if len(of[trap]) < len(d.Models) {
			who = strings.Join(of[trap], ", ") + ": "
		}
		fmt.Fprintf(b, "* %s%s\n", who, trap)
	}
}

func settingsDoc(b *strings.Builder, settings []meters.Setting) {
	b.WriteString("| setting | meaning |\n|---|---|\n")
	for _, s := range settings {
		fmt.Fprintf(b, "| `%s=` | %s |\n", s.Key, s.Help)
	}
}
