// Package ppk2 reads Nordic's Power Profiler Kit II: 100,000 samples a second
// of current, with eight digital inputs taken at the same instants.
//
// # Protocol
//
// A USB serial port (the first of two, where the firmware has two); the baud
// rate does not matter. Commands are single bytes with arguments. The meter
// tells its calibration as lines of text, and then streams words of 32 bits,
// each with a counter of six bits: what is lost shows there, modulo 64. Losses
// of whole turns of the counter show in the arrivals alone.
//
// Sources: NordicSemiconductor/pc-nrfconnect-ppk (src/device/serialDevice.ts,
// src/constants.ts), IRNAS/ppk2-api-python (ppk2_api.py, pull request 49,
// issues 36 and 45), hdoordt/ppk2-rs (src/measurement.rs, a worked sample).
// Layout and conversion agree in at least two of them. No bytes of a real meter
// are in the tests yet.
//
// Whether a sample is a mean over its 10 µs or a point is not published.
// Accuracy: no limits by the maker are known to us, for the current or for the
// voltage of the source, so none are claimed. Ids: udev rules in use for it.
//
// # Traps
//
// The meter does not measure the voltage: it is the setting of its own source,
// or what the user says the target's supply is. It switches ranges by itself;
// the samples after a switch are disturbed, and are replaced by a running mean
// as Nordic's program does it, unless spikes=off. A start soon after a stop
// gives high peaks at first (issue 36): the stream is stopped and drained before
// each start, and its first 50 ms are left out. A program that died leaves the
// meter streaming, and the rest of its stream stands before the calibration
// (pull request 49).
package ppk2

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/si"
)

var accuracy = meters.Accuracy{Source: "no limits by the maker are known"}

// Driver is the meter's driver.
var Driver = meters.Driver{
	Name:       "ppk2",
	Summary:    "Nordic Power Profiler Kit II, 100,000 samples a second with eight digital inputs",
	Status:     meters.Emulated,
	Rate:       "100000",
	Digital:    "D0 to D7, at every sample",
	Transports: []meters.Transport{meters.Serial},
	Baud:       115200,
	Models: []meters.Model{{
		Name: "PPK2", USB: meters.USBID{Vendor: 0x1915, Product: 0xc00a},
		Accuracy: accuracy,
		Traps: []string{
			"It does not measure the voltage: energy is as good as the stated one.",
			"Small currents read up to 2 µA below zero.",
			"Its rate is up to 0.2 % off; the arrivals show by how much.",
			"Where joulemark is killed, a target that it switched on stays on.",
		},
	}},
	Settings: []meters.Setting{
		{Key: "source", Help: "supply the target with this voltage, 0.8 V to 5 V (source=3.3V)"},
		{Key: "ampere", Help: "the target has a supply of its own, of this voltage (ampere=3.3V)"},
		{Key: "power", Help: "on: switch the target on, and off at the end; stay: leave it on. Otherwise its switch is not touched"},
		{Key: "spikes", Help: "off: do not replace the samples after a change of range"},
	},
	Open: open,
}

// Bounds of the source, V (vddRange in serialDevice.ts). A supply measured by
// ampere= is held to them too: the meter stands no more.
const leastVolts, mostVolts = 0.8, 5.0

// settings is what a spec asks for.
type settings struct {
	source bool // supply the target; otherwise it has a supply of its own
	volts  float64
	power  bool // switch the target on
	stay   bool // and leave it on
	filter bool // replace the samples after a change of range
}

func parseSettings(set map[string]string) (settings, error) {
	var s settings
	source, isSource := set["source"]
	ampere, isAmpere := set["ampere"]
	if isSource == isAmpere {
		return s, &meters.Problem{Err: errors.New("exactly one of source= and ampere= is wanted"),
			Hint: "say ppk2,source=3.3V where the PPK2 supplies the target, ppk2,ampere=3.3V where the target has a supply of that voltage"}
	}
	s.source = isSource
	volts, err := si.Parse(source+ampere, "V")
	if err != nil {
		return s, err
	}
	if !(volts >= leastVolts && volts <= mostVolts) {
		return s, fmt.Errorf("%s is not between %g V and %g V", source+ampere, leastVolts, mostVolts)
	}
	s.volts = volts
	switch power, given := set["power"]; {
	case !given:
	case power == "on":
		s.power = true
	case power == "stay":
		s.power, s.stay = true, true
	default:
		return s, fmt.Errorf("power=%s is neither on nor stay", power)
	}
	spikes, given := set["spikes"]
	if given && spikes != "off" {
		return s, fmt.Errorf("spikes=%s is not off", spikes)
	}
	s.filter = !given
	return s, nil
}

// commands returns what sets the meter up and starts it. They switch the target
// on only if that was asked for, and change to the source only then: the switch
// may be on from before.
func (s settings) commands(mode int) ([][]byte, error) {
	if s.source && !s.power && mode != sourceMode {
		return nil, &meters.Problem{Err: errors.New("it is not in source mode, and to change that may power the target"),
			Hint: "add power=on if the PPK2 shall supply the target; use ampere= instead of source= if the target has a supply of its own"}
	}
	var all [][]byte
	wanted := byte(ampereMode)
	if s.source {
		wanted = sourceMode
		mv := uint16(math.Round(s.volts * 1000))
		all = append(all, []byte{regulatorCommand, byte(mv >> 8), byte(mv)})
	}
	all = append(all, []byte{modeCommand, wanted})
	if s.power {
		all = append(all, []byte{switchCommand, 1})
	}
	return append(all, []byte{startCommand}), nil
}

// Columns names the values of a sample: V, A, and a level for each input.
func Columns() []string {
	return []string{meters.Volts, meters.Amps, "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"}
}

func open(_ context.Context, p meters.Port, o meters.Options) (meters.Meter, error) {
	s, err := parseSettings(o.Settings)
	if err != nil {
		return nil, fmt.Errorf("open ppk2: %w", err)
	}
	return newMeter(p, o, s), nil
}
