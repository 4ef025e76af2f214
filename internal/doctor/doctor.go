// Package doctor looks at what may spoil a measurement before it is made: the
// clock rates, throttling and battery of this machine, permissions, and serial
// ports. It reads and never changes anything; each remark says what would help.
package doctor

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// State is how a check came out.
type State string

const (
	OK      State = "ok"
	Warning State = "warning" // the numbers may suffer
	Failure State = "failure" // it will not work
	Unknown State = "unknown" // it could not be looked at
)

// Check is one thing that was looked at.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Text  string `json:"text"`          // what was found
	Fix   string `json:"fix,omitempty"` // what to do about it
}

// Machine looks at this machine's processor and power, in the files below /.
// They matter where it is the target.
func Machine(root fs.FS) []Check {
	m := machine{root}
	return []Check{m.governor(), m.turbo(), m.throttling(), m.battery()}
}

type machine struct{ root fs.FS }

const cpus = "sys/devices/system/cpu"

// text reads a small file of the kernel.
func (m machine) text(name string) (string, bool) {
	b, err := fs.ReadFile(m.root, name)
	return strings.TrimSpace(string(b)), err == nil
}

// governor: with any other one than performance the clock rate follows the
// load, and the first part of a window runs slower than the rest.
func (m machine) governor() Check {
	c := Check{Name: "governor", State: Unknown, Text: "the kernel shows no clock rates (no cpufreq), as in most virtual machines"}
	files, _ := fs.Glob(m.root, cpus+"/cpu[0-9]*/cpufreq/scaling_governor")
	counts := map[string]int{}
	for _, f := range files {
		if g, ok := m.text(f); ok {
			counts[g]++
		}
	}
	var others []string
	for g := range counts {
		if g != "performance" {
			others = append(others, g)
		}
	}
	switch {
	case len(counts) == 0:
	case len(others) == 0:
		c.State, c.Text = OK, "performance"
	default:
		c.State, c.Text = Warning, sentence(others)+": the clock rate follows the load"
		c.Fix = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
	}
	return c
}

// turbo: the rate above the nominal one depends on temperature and on the
// other cores.
func (m machine) turbo() Check {
	c := Check{Name: "turbo", State: Unknown, Text: "the kernel does not show it"}
	for _, f := range []struct{ name, on, off string }{
		{cpus + "/intel_pstate/no_turbo", "0", "1"},
		{cpus + "/cpufreq/boost", "1", "0"},
	} {
		switch v, ok := m.text(f.name); {
		case ok && v == f.on:
			c.State, c.Text = Warning, "on: the clock rate depends on temperature and on the other cores"
			c.Fix = "echo " + f.off + " | sudo tee /" + f.name
			return c
		case ok && v == f.off:
			c.State, c.Text = OK, "off"
			return c
		}
	}
	return c
}

// Bits of a Raspberry Pi's get_throttled (raspberrypi/firmware#615,
// raspberrypi/documentation#1341); those 16 higher say that it has occurred.
var throttleBits = []string{"under-voltage", "clock rate capped", "throttled", "soft temperature limit"}

const throttledFile = "sys/devices/platform/soc/soc:firmware/get_throttled"

// throttling, as far as a Raspberry Pi or an x86 kernel tells it.
func (m machine) throttling() Check {
	c := Check{Name: "throttling", State: Unknown, Text: "the kernel does not tell"}
	if text, ok := m.text(throttledFile); ok {
		bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
		if err != nil {
			c.Text = "/" + throttledFile + " holds no number"
			return c
		}
		return throttled(bits)
	}
	files, _ := fs.Glob(m.root, cpus+"/cpu[0-9]*/thermal_throttle/core_throttle_count")
	events, seen := uint64(0), false
	for _, f := range files {
		if text, ok := m.text(f); ok {
			if n, err := strconv.ParseUint(text, 10, 63); err == nil {
				events, seen = events+n, true
			}
		}
	}
	switch {
	case events > 0:
		c.State, c.Text = Warning, strconv.FormatUint(events, 10)+" times since the machine was started"
		c.Fix = "cool it better, or lower the clock rate; then start it anew and look again"
	case seen:
		c.State, c.Text = OK, "never since the machine was started"
	}
	return c
}

func throttled(bits uint64) Check {
	c := Check{Name: "throttling", State: OK, Text: "none (a Pi Zero always says so: look at the meter's voltage)"}
	var now, once []string
	for i, name := range throttleBits {
		if bits>>i&1 == 1 {
			now = append(now, name)
		} else if bits>>(i+16)&1 == 1 {
			once = append(once, name)
		}
	}
	switch {
	case len(now) > 0:
		c.State, c.Text = Failure, sentence(now)+" now"
		c.Fix = "a stronger supply and a shorter, thicker cable against under-voltage; a heat sink against the rest"
	case len(once) > 0:
		c.State, c.Text = Warning, sentence(once)+" since the machine was started"
		c.Fix = "sudo vcgencmd get_throttled 1 clears it; look again after a measurement"
	}
	return c
}

// battery: a charging battery takes energy that no operation used.
func (m machine) battery() Check {
	c := Check{Name: "battery", State: OK, Text: "none"}
	supplies, _ := fs.Glob(m.root, "sys/class/power_supply/*")
	for _, dir := range supplies {
		if kind, _ := m.text(dir + "/type"); kind != "Battery" {
			continue
		}
		if scope, _ := m.text(dir + "/scope"); scope == "Device" {
			continue // of a mouse or a headset
		}
		status, ok := m.text(dir + "/status")
		if !ok {
			status = "Unknown"
		}
		c.Text = path.Base(dir) + ": " + strings.ToLower(status)
		switch status {
		case "Charging":
			c.State = Warning
			c.Text += ": a meter in the supply line sees the charging too, which changes by itself"
			c.Fix = "wait until it is full, or take it out; or measure on battery with --meter battery"
			return c
		case "Unknown":
			c.State = Warning
			c.Fix = "look whether it is being charged"
		}
	}
	return c
}

// sentence joins words as a sentence does.
func sentence(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}
