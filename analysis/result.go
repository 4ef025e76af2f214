// Package analysis turns windows and the idle level beside them into energy
// per operation, with its uncertainty. It opens no device and reads no clock.
// docs/method.md has every formula with its source.
package analysis

import (
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
)

// Schemas of the JSON that Results and a set of them marshal to.
const (
	ResultsSchema   = "joulemark.results/1"
	ResultSetSchema = "joulemark.resultset/1"
)

// Results is what one run says, for one meter.
type Results struct {
	Schema    string   `json:"schema"`
	Run       string   `json:"run"`
	Simulated bool     `json:"simulated"`
	Baseline  Baseline `json:"baseline"`
	// OverheadSubtracted says that energies per operation are without what a
	// window costs beside its operations.
	OverheadSubtracted bool        `json:"overhead_subtracted"`
	Meter              Meter       `json:"meter"`
	Target             Target      `json:"target"`
	Alignment          Alignment   `json:"alignment"`
	Operations         []Operation `json:"operations"`
	Windows            []Window    `json:"windows"`
	// Duty is the self-test of the meter; nil where the run holds none.
	Duty     *DutyCycle `json:"duty_cycle"`
	Warnings []string   `json:"warnings"`

	// Voids lists the warnings that void the claim.
	Voids []string `json:"voids"`
}

// ResultSet is what the runs of a set say.
type ResultSet struct {
	Schema string    `json:"schema"`
	Runs   []Results `json:"runs"`
}

// Meter names the meter and what was found of it.
type Meter struct {
	Name     string `json:"name"`
	Driver   string `json:"driver"`
	Model    string `json:"model"`
	Serial   string `json:"serial"`
	Accuracy string `json:"accuracy"`
	// SamplesHz is samples a host second, EffectiveRateHz the independent values
	// in them.
	SamplesHz       Num `json:"samples_hz"`
	EffectiveRateHz Num `json:"effective_rate_hz"`
	// ResponseSeconds is the 10-90 % time of meter and target together.
	ResponseSeconds Num `json:"response_s"`
	// SourceOhms is the resistance between the source and the meter, and
	// USourceOhms its standard uncertainty.
	SourceOhms  Num       `json:"source_ohms"`
	USourceOhms Num       `json:"u_source_ohms"`
	Character   Character `json:"character"`
	// Calibration corrected the samples, and Characterisation says what they may
	// not show; nil where there is none.
	Calibration      *Known `json:"calibration"`
	Characterisation *Known `json:"characterisation"`
}

// Known names what was known of a meter beforehand.
type Known struct {
	Name string `json:"name"`
	Date string `json:"date"`
}

// Character is what the samples show of the meter (align.Character).
type Character struct {
	Values               align.Values      `json:"values"`
	ConversionsHz        Num               `json:"conversions_hz"`
	Sample               meters.SampleKind `json:"sample"`
	EdgeConversions      Num               `json:"edge_conversions"`
	Edges                int               `json:"edges"`
	NoiseWatts           Num               `json:"noise_w"`
	ConversionNoiseWatts Num               `json:"conversion_noise_w"`
	Lag1                 Num               `json:"correlation"`
	CorrelationSeconds   Num               `json:"correlation_s"`
	Samples              int               `json:"samples"` // of steady power, from which it was told
}

func characterOf(c align.Character) Character {
	return Character{
		Values: c.Values, ConversionsHz: Num(c.ConversionsHz),
		Sample: c.Kind, EdgeConversions: Num(c.EdgeConversions), Edges: c.Edges,
		NoiseWatts: Num(c.NoiseWatts), ConversionNoiseWatts: Num(c.ConversionNoiseWatts),
		Lag1: Num(c.Lag1), CorrelationSeconds: Num(c.CorrelationSeconds), Samples: c.Samples,
	}
}

// Target names the device under test.
type Target struct {
	Name   string `json:"name"`
	ISA    string `json:"isa"`
	Bits   int    `json:"bits"`
	Impl   string `json:"impl"`
	CC     string `json:"cc"`
	CFlags string `json:"cflags"`
}

// Alignment says how marks and samples were put on one time line.
type Alignment struct {
	Method   align.Method `json:"method"`
	Offset   Num          `json:"offset_s"`
	U        Num          `json:"u_s"`
	DriftPPM Num          `json:"drift_ppm"`
	Edges    int          `json:"edges"`
	RunnerUp Num          `json:"runner_up"`
}

// Operation is the result for one operation of one algorithm.
type Operation struct {
	Alg      string `json:"alg"`
	Op       string `json:"op"`
	Windows  int    `json:"windows"`
	Count    int64  `json:"count"`
	IdleMode string `json:"idle_mode"`
	Keys     int    `json:"keys"`

	Net      Quantity `json:"net_j_per_op"`
	Gross    Quantity `json:"gross_j_per_op"`
	NetWatts Quantity `json:"net_w"`
	Idle     Quantity `json:"idle_w"`
	// IdleStep is the idle level at the end of a window minus that at its
	// begin: residual heat, or an idle level that wanders.
	IdleStep Quantity `json:"idle_step_w"`
	// Overhead is the energy of a window beside its operations, J: its mean
	// over all operations that show it.
	Overhead Quantity `json:"overhead_j_per_window"`
	// Joint is the joint fit beside the pulse integral; nil where there is none.
	Joint *Joint `json:"joint"`

	Latency  Latency  `json:"latency_s"`
	Budget   []Term   `json:"budget"`
	Warnings []string `json:"warnings"`
	Voided   bool     `json:"voided"`

	// limits of the meter on the headline quantity; nil where not known.
	limits []limit
	// logarithmic: the intervals of energies are those of their logarithm.
	logarithmic bool
}

// Latency of one operation, s. Mean is pooled over windows; the rest comes
// from the target's own statistics of single operations.
type Latency struct {
	N    int64 `json:"n"`
	Mean Num   `json:"mean"`
	P50  Num   `json:"p50"`
	P95  Num   `json:"p95"`
	Min  Num   `json:"min"`
	Max  Num   `json:"max"`
	SD   Num   `json:"sd"`
}

// Term is one line of the uncertainty budget of net energy per operation
// (gross, where no baseline was subtracted), in J.
type Term struct {
	Name string `json:"name"`
	U    Num    `json:"u"`
	// Type is A for what repeats show, B for what limits say.
	Type   string `json:"type"`
	Shared bool   `json:"shared"` // the same in all windows of the run
	// Within: the scatter between windows already contains it, so that it is
	// named and not added.
	Within bool   `json:"within_scatter"`
	Source string `json:"source"`
}

// Window is the result for one window.
type Window struct {
	W        int64  `json:"w"`
	Alg      string `json:"alg"`
	Op       string `json:"op"`
	N        int64  `json:"n"`
	IdleMode string `json:"idle_mode"`
	T0       Num    `json:"t0_s"`
	T1       Num    `json:"t1_s"`
	Gross    Num    `json:"gross_j"`
	Net      Num    `json:"net_j"`
	Idle     Num    `json:"idle_w"`
	Coverage Num    `json:"coverage"`
	Excluded string `json:"excluded"`
	ByHand   bool   `json:"by_hand,omitempty"` // a person put it there
	// DutyCycle: it belongs to the self-test of the meter, not to an operation.
	DutyCycle bool `json:"duty_cycle,omitempty"`
}
