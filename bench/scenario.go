package bench

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/bench/fnb58"
	"github.com/joulemark/joulemark/meters"
)

// Smoothing of a meter's input.
const (
	NoFilter = "none"
	Boxcar   = "boxcar"   // running mean
	OnePole  = "one-pole" // exponential
)

// Jitter of a link's delay.
const (
	Exponential = "exponential"
	Uniform     = "uniform" // from 0 to twice its mean
)

// Hold of a meter that converts once a packet.
const (
	NoHold      = "none"
	Repeat      = "repeat"      // the conversion stands in each sample of the packet
	Interpolate = "interpolate" // samples lead from the conversion before to this one
)

// What stands between the emulated meter and the recording.
const (
	Direct = "direct" // nothing
	FNB58  = "fnb58"  // an emulated FNB58 and the driver that reads it
)

// Pins of the target that the meter records.
const (
	NoPin     = "none"
	DataPlus  = "dp" // USB D+, behind a divider
	DataMinus = "dn" // USB D-, likewise
	Digital   = "d0" // a digital input
)

// Scenario is everything that is true of a world but its seed. Default is a
// calm one; a scenario file states what differs. Members carry the key they
// have in a file, and the values they may take.
type Scenario struct {
	Target  string `scn:"target"` // one of Targets
	Plan    Plan   `scn:"plan"`
	Load    Load   `scn:"load"`
	Supply  Supply `scn:"supply"`
	Meter   Meter  `scn:"meter"`
	Ticks   Ticks  `scn:"ticks"`
	Samples Link   `scn:"samples"` // meter to host, a packet at a time
	Lines   Link   `scn:"lines"`   // target to host, a line at a time
	Faults  Faults `scn:"faults"`

	Device fnb58.Faults `scn:"device"` // of a meter behind a driver
}

// Plan is what the target is asked to do, in random order.
type Plan struct {
	Ops           []string `scn:"ops"`                             // ALG/OP of the latency table; "all" is all of the target's but spin
	Windows       int      `scn:"windows" in:"1..10000"`           // windows an operation
	N             int      `scn:"n" in:"0..1000000000"`            // operations a window; 0: as many as fill WindowSeconds
	WindowSeconds float64  `scn:"window_seconds" in:"0.01..10000"` // s, expected length of a window
	ShortSeconds  float64  `scn:"short_seconds" in:"0..10000"`     // s, expected length of every other window of an operation; 0: as the rest
	IdleSeconds   float64  `scn:"idle_seconds" in:"0.1..10000"`    // s, stated idle interval before each window
	GuardSeconds  float64  `scn:"guard_seconds" in:"0..100"`       // s, quiet before a window, to which a random phase is added
	PhaseSeconds  float64  `scn:"phase_seconds" in:"0..100"`       // s, upper end of that phase
	PostSeconds   float64  `scn:"post_seconds" in:"0..100"`        // s, quiet after a window
	Beacons       int      `scn:"beacons" in:"0..1000"`            // sync lines before and after each window
	Keys          int      `scn:"keys" in:"1..1000"`               // keys that the windows of an operation take in turn
	// Duty cycles of spin, each period with each duty; no periods: spin is busy
	// throughout.
	Periods []float64 `scn:"periods_seconds" in:"1e-4..10"` // s
	Duties  []float64 `scn:"duties" in:"0.01..1"`           // busy share of a period
}

// Load is the power of the target at the measuring point.
type Load struct {
	IdleWatts    float64 `scn:"idle_watts" in:"0..1000"`      // W; 0: the target's own
	NetScale     float64 `scn:"net_scale" in:"0..1000"`       // factor on the table's power above idle
	Scatter      float64 `scn:"scatter" in:"0..1"`            // relative standard deviation of the power of one window around its operation's
	RampSeconds  float64 `scn:"ramp_seconds" in:"0..0.1"`     // s, duration of a window's rise and of its fall
	Overhead     float64 `scn:"overhead_joules" in:"0..100"`  // J, what a window costs beside its operations (wake-up, mark)
	UARTWatts    float64 `scn:"uart_watts" in:"0..100"`       // W above idle while the target sends
	DriftWatts   float64 `scn:"drift_watts" in:"-1..1"`       // W a second, of the idle level
	SineWatts    float64 `scn:"sine_watts" in:"0..100"`       // W, amplitude of a sine in the idle level
	SineSeconds  float64 `scn:"sine_seconds" in:"0.01..1e6"`  // s, its period
	WalkWatts    float64 `scn:"walk_watts" in:"0..10"`        // W, standard deviation of the idle level's random walk after a minute
	BurstHz      float64 `scn:"burst_hz" in:"0..100"`         // 1/s, rate of background bursts (Poisson)
	BurstSeconds float64 `scn:"burst_seconds" in:"1e-6..100"` // s, duration of each
	BurstWatts   float64 `scn:"burst_watts" in:"0..100"`      // W, height of each
	PulseWatts   float64 `scn:"pulse_watts" in:"0..100"`      // W, height of a radio's beacon pulses, 102.4 ms apart
	PulseSeconds float64 `scn:"pulse_seconds" in:"0..0.1"`    // s, duration of each
	HeatShare    float64 `scn:"heat_share" in:"0..1"`         // residual heat: share of a window's power by which the idle level is higher at its end
	HeatSeconds  float64 `scn:"heat_seconds" in:"1e-3..1000"` // s, time constant with which that decays
}

// Supply feeds the target through the meter.
type Supply struct {
	EMFVolts float64 `scn:"emf_volts" in:"0..1000"` // V; 0: the target's own
	Ohms     float64 `scn:"ohms" in:"0..10"`        // ohm, resistance between source and meter
}

// Clock is the error of a clock against true time, which is the host's.
type Clock struct {
	PPM           float64 `scn:"ppm" in:"-20000..20000"`        // parts per million; positive runs fast
	WanderPPM     float64 `scn:"wander_ppm" in:"0..1000"`       // standard deviation of the rate's wander
	WanderSeconds float64 `scn:"wander_seconds" in:"1e-3..1e9"` // s, its correlation time
}

// Meter is the emulated meter.
type Meter struct {
	Clock
	Driver        string  `scn:"driver" of:"direct fnb58"`          // what its packets come through
	RateHz        float64 `scn:"rate_hz" in:"0.1..100000"`          // samples a second, nominal
	PacketSamples int     `scn:"packet_samples" in:"1..10000"`      // samples a packet
	Kind          string  `scn:"kind" of:"mean point"`              // what a sample is
	Says          string  `scn:"says" of:"mean point unknown"`      // what the meter says it is
	Filter        string  `scn:"filter" of:"none boxcar one-pole"`  // smoothing before sampling
	FilterSeconds float64 `scn:"filter_seconds" in:"0..10"`         // s, width of the boxcar or time constant
	Hold          string  `scn:"hold" of:"none repeat interpolate"` // one conversion a packet instead of one a sample
	VoltsNoise    float64 `scn:"volts_noise" in:"0..10"`            // V, standard deviation of one conversion
	AmpsNoise     float64 `scn:"amps_noise" in:"0..10"`             // A, likewise
	Correlation   float64 `scn:"noise_correlation" in:"0..0.9999"`  // of the noise of neighbouring conversions (AR(1))
	VoltsCount    float64 `scn:"volts_count" in:"0..1"`             // V, one count; 0: not quantised
	AmpsCount     float64 `scn:"amps_count" in:"0..1"`              // A, likewise
	Curvature     float64 `scn:"curvature" in:"-1..1"`              // 1/A, k of a meter that is not linear: it converts x (1 + k x) A for a current x
	Pin           string  `scn:"pin" of:"none dp dn d0"`            // what the target's pin is wired to, high exactly in its windows
	PinVolts      float64 `scn:"pin_volts" in:"0..20"`              // V, level of a pin that is high, behind its divider
	PinNoise      float64 `scn:"pin_noise" in:"0..10"`              // V, standard deviation of a sample of it
	PinGlitches   float64 `scn:"pin_glitches" in:"0..0.1"`          // probability that a sample of it shows the other level
	Accuracy      string  `scn:"accuracy"`                          // as meters.ParseAccuracy reads it; gain and offset are drawn once from its limits
}

// Ticks is the target's clock and what may befall it.
type Ticks struct {
	Clock
	Hz          float64 `scn:"hz" in:"0..1e10"`             // ticks a second, nominal; 0: the target's own
	Bits        int     `scn:"bits" in:"0..64"`             // width of the counter; 0: the target's own
	Start       uint64  `scn:"start"`                       // ticks at the target's reset
	ResetIn     int     `scn:"reset_in" in:"0..1000000"`    // the target reboots in the middle of this window, counted from 1; 0: never
	JumpAfter   int     `scn:"jump_after" in:"0..1000000"`  // the counter jumps after this window; 0: never
	JumpSeconds float64 `scn:"jump_seconds" in:"-1e6..1e6"` // s, by so much
}

// Link carries packets or lines to the host, in order.
type Link struct {
	DelaySeconds  float64 `scn:"delay_seconds" in:"0..10"`        // s, constant part of the delay
	Jitter        string  `scn:"jitter" of:"exponential uniform"` // distribution of the rest
	JitterSeconds float64 `scn:"jitter_seconds" in:"0..10"`       // s, its mean
	StallHz       float64 `scn:"stall_hz" in:"0..100"`            // 1/s, rate of stalls of the host (Poisson)
	StallSeconds  float64 `scn:"stall_seconds" in:"0..100"`       // s, length of each: what would arrive in it arrives at its end
	Loss          float64 `scn:"loss" in:"0..1"`                  // probability that a packet or line is lost without trace
}

// Faults are the probabilities that a line is damaged on the wire.
type Faults struct {
	Corrupted  float64 `scn:"corrupted" in:"0..1"`  // one byte is changed
	Cut        float64 `scn:"cut" in:"0..1"`        // the end is missing
	Duplicated float64 `scn:"duplicated" in:"0..1"` // it arrives twice
	Merged     float64 `scn:"merged" in:"0..1"`     // its line end is lost
}

// Default is a calm world: good clocks, little jitter, the noise and counts of
// a good USB meter, a steady idle level.
//
// Sources: 100 samples/s in packets of 4, counts of 10 µV and 10 µA are those
// of the FNIRSI FNB58 (decoders of baryluk/fnirsi-usb-power-data-logger). Noise
// is assumed: the current of a resting board in the log of
// matthewgream/fnisri_logger scatters by 0.2 mA, load included.
func Default() Scenario {
	return Scenario{
		Target: "rv32",
		Plan: Plan{
			Ops:     []string{"ML-DSA-44/sign", "ML-DSA-44/verify", "ML-KEM-768/encaps", "Ed25519/sign"},
			Windows: 7, WindowSeconds: 2, IdleSeconds: 1.5,
			GuardSeconds: 0.3, PhaseSeconds: 0.08, PostSeconds: 0.3, Beacons: 3, Keys: 4,
			Duties: []float64{0.25, 0.5, 0.75},
		},
		Load: Load{
			NetScale: 1, Scatter: 0.001, UARTWatts: 0.05,
			SineSeconds: 60, BurstSeconds: 0.02, PulseSeconds: 0.003, HeatSeconds: 2,
		},
		Supply: Supply{Ohms: 0.1},
		Meter: Meter{
			Clock: Clock{PPM: 5, WanderSeconds: 300}, Driver: Direct,
			RateHz: 100, PacketSamples: 4, Kind: "mean", Says: "unknown",
			Filter: NoFilter, Hold: NoHold, Pin: NoPin, PinVolts: 2.8, PinNoise: 0.005,
			VoltsNoise: 200e-6, AmpsNoise: 100e-6, VoltsCount: 10e-6, AmpsCount: 10e-6,
			Accuracy: "exact",
		},
		Ticks:   Ticks{Clock: Clock{PPM: -5, WanderSeconds: 300}},
		Samples: Link{Jitter: Exponential, JitterSeconds: 0.0005, StallSeconds: 0.5},
		Lines:   Link{Jitter: Exponential, JitterSeconds: 0.0005, StallSeconds: 0.5},
	}
}

//go:embed scenarios/*.scn
var scenarioFiles embed.FS

// Scenarios returns the names of the scenarios that come with the bench,
// sorted.
func Scenarios() []string {
	// The folder is part of the program: it cannot be missing.
	files, _ := fs.Glob(scenarioFiles, "scenarios/*.scn")
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(f, "scenarios/"), ".scn")
	}
	slices.Sort(files)
	return files
}

// LoadScenario returns the scenario of that name, one of Scenarios.
func LoadScenario(name string) (Scenario, error) {
	if !slices.Contains(Scenarios(), name) {
		return Scenario{}, fmt.Errorf("unknown scenario %q (known: %s)", name, strings.Join(Scenarios(), ", "))
	}
	text, err := scenarioFiles.ReadFile("scenarios/" + name + ".scn")
	if err != nil {
		return Scenario{}, fmt.Errorf("load scenario %s: %w", name, err)
	}
	return Parse(name+".scn", text)
}

// Parse reads what differs from Default: lines "key = value", where a key is
// a member's path such as load.idle_watts; lists are separated by commas; "#"
// opens a comment line. An unknown key, a key given twice and a value out of
// range are errors that name the line. name is the file's, for messages.
func Parse(name string, text []byte) (Scenario, error) {
	s := Default()
	members := map[string]member{}
	for _, m := range s.members() {
		members[m.key] = m
	}
	line, given := 0, map[string]int{}
	for l := range strings.Lines(string(text)) {
		line++
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		m, known := members[key]
		switch {
		case !ok:
			return s, fmt.Errorf("%s:%d: %q is not key = value", name, line, l)
		case !known:
			return s, fmt.Errorf("%s:%d: unknown key %q", name, line, key)
		case given[key] > 0:
			return s, fmt.Errorf("%s:%d: %s is given twice, first in line %d", name, line, key, given[key])
		}
		given[key] = line
		if err := m.set(value); err != nil {
			return s, fmt.Errorf("%s:%d: %s: %w", name, line, key, err)
		}
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// Set sets one member by its key, as a line of a scenario file does.
func (s *Scenario) Set(key, value string) error {
	for _, m := range s.members() {
		if m.key == key {
			return m.set(value)
		}
	}
	return fmt.Errorf("unknown key %q", key)
}

// member is one settable number or text of a scenario.
type member struct {
	key   string
	value reflect.Value
	tag   reflect.StructTag
}

func (s *Scenario) members() []member { return members("", reflect.ValueOf(s).Elem()) }

func members(prefix string, v reflect.Value) []member {
	var all []member
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := prefix + f.Tag.Get("scn")
		switch {
		case f.Anonymous:
			all = append(all, members(prefix, v.Field(i))...)
		case f.Type.Kind() == reflect.Struct:
			all = append(all, members(key+".", v.Field(i))...)
		default:
			all = append(all, member{key, v.Field(i), f.Tag})
		}
	}
	return all
}

func (m member) set(text string) error {
	switch p := m.value.Addr().Interface().(type) {
	case *string:
		*p = text
	case *[]string:
		*p = nil
		for _, e := range strings.Split(text, ",") {
			*p = append(*p, strings.TrimSpace(e))
		}
	case *[]float64:
		*p = nil
		for _, e := range strings.Split(text, ",") {
			x, err := number(strings.TrimSpace(e))
			if err != nil {
				return err
			}
			*p = append(*p, x)
		}
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = n
	case *uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number of at least 0", text)
		}
		*p = n
	case *float64:
		x, err := number(text)
		if err != nil {
			return err
		}
		*p = x
	}
	return m.check()
}

func number(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return x, nil
}

// check holds the member against the tags "in" and "of".
func (m member) check() error {
	if of := m.tag.Get("of"); of != "" && !slices.Contains(strings.Fields(of), m.value.String()) {
		return fmt.Errorf("%q is none of %s", m.value, strings.ReplaceAll(of, " ", ", "))
	}
	lo, hi, bounded := strings.Cut(m.tag.Get("in"), "..")
	if !bounded {
		return nil
	}
	// The bounds are part of the program and always parse.
	from, _ := strconv.ParseFloat(lo, 64)
	to, _ := strconv.ParseFloat(hi, 64)
	for _, x := range m.numbers() {
		if math.IsNaN(x) || x < from || x > to {
			return fmt.Errorf("%v is not within %s to %s", x, lo, hi)
		}
	}
	return nil
}

func (m member) numbers() []float64 {
	switch v := m.value.Interface().(type) {
	case []float64:
		return v
	case float64:
		return []float64{v}
	}
	return []float64{float64(m.value.Int())}
}

// check reports what a world cannot be made of.
func (s *Scenario) check() error {
	for _, m := range s.members() {
		if err := m.check(); err != nil {
			return fmt.Errorf("%s: %w", m.key, err)
		}
	}
	if s.Meter.Filter != NoFilter && s.Meter.FilterSeconds == 0 {
		return fmt.Errorf("meter.filter: %s needs meter.filter_seconds", s.Meter.Filter)
	}
	if s.Meter.Driver == FNB58 && (s.Meter.RateHz != 100 || s.Meter.PacketSamples != 4) {
		return fmt.Errorf("meter.driver: a FNB58 has a meter.rate_hz of 100 and a meter.packet_samples of 4")
	}
	if s.Meter.Driver == FNB58 && s.Meter.Pin == Digital {
		return fmt.Errorf("meter.pin: a FNB58 has no digital input")
	}
	if s.Meter.Driver == Direct && s.Device != (fnb58.Faults{}) {
		return fmt.Errorf("device: only a meter behind a driver has faults; set meter.driver")
	}
	if f := s.Faults; f.Corrupted+f.Cut+f.Duplicated+f.Merged > 1 {
		return fmt.Errorf("faults: the probabilities add up to more than 1")
	}
	if s.Plan.N > 0 && s.Plan.ShortSeconds > 0 {
		return fmt.Errorf("plan.n: windows of a fixed n have one length, but plan.short_seconds asks for two")
	}
	limits, err := meters.ParseAccuracy(s.Meter.Accuracy)
	if err != nil {
		return fmt.Errorf("meter.accuracy: %w", err)
	}
	if limits.Watts != nil {
		return fmt.Errorf("meter.accuracy: the emulated meter gives volts and amps, not watts")
	}
	if _, err := findTarget(s.Target); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	_, err = s.rows()
	return err
}

// rows returns the planned operations.
func (s *Scenario) rows() ([]Row, error) {
	table, err := Table()
	if err != nil {
		return nil, err
	}
	table = slices.DeleteFunc(table, func(r Row) bool { return r.Target != s.Target })
	if slices.Equal(s.Plan.Ops, []string{"all"}) {
		return slices.DeleteFunc(table, func(r Row) bool { return r.Alg == spin }), nil
	}
	var rows []Row
	for _, op := range s.Plan.Ops {
		i := slices.IndexFunc(table, func(r Row) bool { return r.Alg+"/"+r.Op == op })
		if i < 0 {
			return nil, fmt.Errorf("plan.ops: the table holds no %q for %s", op, s.Target)
		}
		if slices.ContainsFunc(rows, func(r Row) bool { return r == table[i] }) {
			return nil, fmt.Errorf("plan.ops: %q is given twice", op)
		}
		rows = append(rows, table[i])
	}
	return rows, nil
}
