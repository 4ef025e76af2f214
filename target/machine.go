package target

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/sync/mark"
)

const (
	maxFileBytes = 1 << 20 // of a file of the kernel
	maxTextBytes = 100     // of what is said of the machine
)

// Machine is a computer as its files show it: Linux says much, others little.
type Machine struct{ files fs.FS }

// ThisMachine is the one that the program runs on.
func ThisMachine() Machine { return Machine{os.DirFS("/")} }

// read returns the text of a small file, "" where there is none.
func (m Machine) read(name string) string {
	f, err := m.files.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return ""
	}
	return string(bytes.Trim(text, " \t\r\n\x00"))
}

// Hello says what the machine and the program are.
func (m Machine) Hello(ops []Op) mark.Hello {
	host, _ := os.Hostname()
	h := mark.Hello{
		Proto: mark.Version, Target: short(cmp.Or(host, "unknown")), CPU: short(m.cpu()), ISA: runtime.GOARCH, Bits: strconv.IntSize,
		ClockHz: m.kilohertz("cpuinfo_max_freq"), TickHz: tickHz, TickBits: 64, Impl: cloudf + "+" + std, CC: runtime.Version(),
	}
	h.Firmware, h.ImplVersion, h.CFlags = builds()
	for _, o := range ops {
		h.Ops = append(h.Ops, o.Op)
	}
	return h
}

func short(text string) string { return text[:min(len(text), maxTextBytes)] }

// builds returns the versions of this program and of its implementations, and
// how it was compiled.
func builds() (firmware, versions, flags string) {
	firmware = "joulemark-target"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return firmware, runtime.Version(), ""
	}
	firmware += " " + info.Main.Version
	for _, d := range info.Deps {
		if d.Path == "github.com/cloudflare/circl" {
			versions = "circl " + d.Version + ", "
		}
	}
	var set []string
	for _, s := range info.Settings {
		switch s.Key {
		case "GOARM", "GOARM64", "GOAMD64", "GO386", "GORISCV64", "GOFIPS140", "GOEXPERIMENT", "-tags", "-gcflags", "-race":
			if s.Value != "" {
				set = append(set, s.Key+"="+s.Value)
			}
		}
	}
	return short(firmware), short(versions + runtime.Version()), short(strings.Join(set, " "))
}

// cpu returns the model of the processor, and that of the board where it is
// known.
func (m Machine) cpu() string {
	model := ""
	lines := bufio.NewScanner(strings.NewReader(m.read("proc/cpuinfo")))
	for lines.Scan() && model == "" {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
		}
	}
	board := m.read("proc/device-tree/model")
	if model != "" && board != "" {
		return board + ", " + model
	}
	return model + board
}

const cpufreq = "sys/devices/system/cpu/cpu0/cpufreq/"

// kilohertz reads a frequency of the first processor, Hz; 0 where unknown.
func (m Machine) kilohertz(name string) float64 {
	khz, err := strconv.ParseUint(m.read(cpufreq+name), 10, 32)
	if err != nil {
		return 0
	}
	return float64(khz) * 1000
}

// state says what may change between windows: governor, frequency, temperature
// and, on a Raspberry Pi, the bits of its throttling (0 under-voltage, 1
// frequency capped, 2 throttled, 3 soft limit of temperature, 16 above: since
// the start). What cannot be read is left out.
func (m Machine) state() string {
	var all []string
	if governor := m.read(cpufreq + "scaling_governor"); governor != "" {
		all = append(all, "governor "+short(governor))
	}
	if hz := m.kilohertz("scaling_cur_freq"); hz > 0 {
		all = append(all, fmt.Sprintf("%.0f MHz", hz*1e-6))
	}
	if milli, err := strconv.ParseInt(m.read("sys/class/thermal/thermal_zone0/temp"), 10, 32); err == nil {
		all = append(all, fmt.Sprintf("%.1f °C", float64(milli)*1e-3))
	}
	if bits := m.read("sys/devices/platform/soc/soc:firmware/get_throttled"); bits != "" {
		all = append(all, "throttled "+short(bits))
	}
	return strings.Join(all, ", ")
}
