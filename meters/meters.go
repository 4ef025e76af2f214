// Package meters says what a meter is: an instrument that yields samples of
// electrical quantities on its own sample clock. It knows nothing of marks,
// windows or energy.
//
// All quantities are in SI base units (V, A, W, s, Hz).
package meters

// SampleKind says what one sample of a meter stands for.
type SampleKind string

const (
	// Mean is the average over the sample's period, [i, i+1) periods after
	// the first sample.
	Mean SampleKind = "mean"
	// Point is the value at one instant, i periods after the first sample.
	Point SampleKind = "point"
	// UnknownKind is what most USB meters say of themselves: nothing.
	UnknownKind SampleKind = "unknown"
)

// Clock says how a stream's sample clock is tied to the host clock.
type Clock string

const (
	// ByArrival: the meter has a clock of its own; only the arrival times of
	// its packets tie it to the host clock.
	ByArrival Clock = "arrival"
	// Shared: samples and marks were stamped by one clock. The first sample
	// stands at Info.FirstHostNs on the host clock and no fit is needed.
	Shared Clock = "shared"
)

// Column names that the analysis knows. A meter may add others.
const (
	Volts   = "volts"    // V
	Amps    = "amps"     // A, positive from source to load
	Watts   = "watts"    // W, where a meter gives only power or energy
	DPVolts = "dp_volts" // V on USB D+
	DNVolts = "dn_volts" // V on USB D-
	Celsius = "celsius"  // degrees Celsius
)

// Info describes one meter and the stream of samples it yields. It is written
// into every run, so that a run explains itself.
type Info struct {
	// Stream is the meter's name within a run; it names the files.
	Stream   string `json:"stream"`
	Driver   string `json:"driver"`
	Model    string `json:"model,omitempty"`
	Serial   string `json:"serial,omitempty"`
	Firmware string `json:"firmware,omitempty"`

	// Columns names the values of a sample, in the order of Block.Values.
	Columns []string `json:"columns"`
	// Wide stores columns as float64; float32 otherwise (24 bits of mantissa,
	// more than any USB meter resolves).
	Wide bool `json:"wide,omitempty"`

	// RateHz is the nominal number of samples per second; 0 where samples
	// are not equidistant and each carries a time of its own.
	RateHz float64 `json:"rate_hz"`
	// PacketSamples is how many samples arrive together; 0 where unknown.
	PacketSamples int        `json:"packet_samples,omitempty"`
	Sample        SampleKind `json:"sample"`

	Clock Clock `json:"clock"`
	// FirstHostNs is the host time (ns since the run's start) of the first
	// sample, for Clock == Shared.
	FirstHostNs int64 `json:"first_host_ns,omitempty"`

	Accuracy Accuracy `json:"accuracy"`
	// Calibration and Characterisation are what is known of this very meter,
	// under the name that a person gave it; nil where nothing is. Samples are
	// never corrected in a run, only when they are analyzed.
	Calibration      *Calibration      `json:"calibration,omitempty"`
	Characterisation *Characterisation `json:"characterisation,omitempty"`
	// Simulated says that the meter is an emulated one.
	Simulated bool `json:"simulated,omitempty"`
}

// Block is consecutive samples that arrived together, in one packet.
type Block struct {
	// ArrivalNs is the host time (ns since the run's start) taken right
	// after the packet was read; negative where it is not known.
	ArrivalNs int64
	// Values holds one slice a column of Info.Columns, all of one length,
	// in SI base units. NaN is a value that was not measured.
	Values [][]float64
	// TimesNs is the time of each sample in ns since the stream's first
	// sample (since Info.FirstHostNs, for Clock == Shared), on the meter's own
	// clock; only for streams with RateHz 0. A mean begins there, and lasts
	// until the next sample.
	TimesNs []int64
	// Raw is the packet as received; nil where a meter has no packets.
	Raw []byte
}

// Len returns the number of samples in the block.
func (b Block) Len() int {
	if len(b.Values) == 0 {
		return 0
	}
	return len(b.Values[0])
}
