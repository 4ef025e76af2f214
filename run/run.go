// Package run reads and writes the recorded evidence of one session: a folder
// that is written append-only and never modified by a reader. FORMAT.md says
// how another program reads it.
package run

import (
	"encoding/json"
	"strconv"

	"github.com/joulemark/joulemark/meters"
)

// Schema is the version of the format, the header's "schema" member.
const Schema = "joulemark.run/1"

// Header is the first record of a run.
type Header struct {
	Schema string `json:"schema"`
	Tool   string `json:"tool"` // program and version that wrote the run
	Name   string `json:"name"`
	// Started is the wall-clock time of host_ns 0, RFC 3339; "" where unknown.
	Started string `json:"started,omitempty"`
	// Simulated marks everything that was not measured on hardware.
	Simulated bool `json:"simulated,omitempty"`
	// From names the format of an imported recording; "" for our own.
	From string `json:"from,omitempty"`
	// Plan is what was asked for, as the campaign wrote it.
	Plan json.RawMessage `json:"plan,omitempty"`
}

// Target is the device under test, as far as it is known. A later record
// overrides the members that it names.
type Target struct {
	Name        string  `json:"name,omitempty"`
	CPU         string  `json:"cpu,omitempty"`
	ISA         string  `json:"isa,omitempty"`
	Bits        int     `json:"bits,omitempty"`
	ClockHz     float64 `json:"clock_hz,omitempty"`
	TickHz      float64 `json:"tick_hz,omitempty"`
	TickBits    int     `json:"tick_bits,omitempty"`
	Firmware    string  `json:"fw,omitempty"`
	Impl        string  `json:"impl,omitempty"`
	ImplVersion string  `json:"impl_version,omitempty"`
	CC          string  `json:"cc,omitempty"`
	CFlags      string  `json:"cflags,omitempty"`
}

// Env is the environment of the recording by free keys, such as "os" or
// "governor". A later record overrides the keys that it names.
type Env struct {
	Values map[string]string `json:"env"`
}

// Line is one line from the target as received, without its line end.
type Line struct {
	HostNs int64  `json:"host_ns"` // arrival, ns since the run's start
	Source string `json:"source"`  // mark source it came over
	Text   []byte `json:"-"`       // on disk: "text", or "hex" where it is not valid UTF-8
}

// Edge is one edge on a pin.
type Edge struct {
	HostNs int64  `json:"host_ns"`
	Source string `json:"source"`
	Pin    string `json:"pin"`
	Level  int    `json:"level"`
	Seq    int64  `json:"seq,omitempty"` // counts edges, so that a lost one shows
}

// Window is a window that the evidence gives on the sample clock itself, such
// as a trigger recorded by the meter.
type Window struct {
	Stream string `json:"stream"`
	W      int64  `json:"w"`
	Alg    string `json:"alg"`
	Op     string `json:"op"`
	N      int64  `json:"n"`
	// From and To bound the window in samples: sample i is within it if
	// From <= i < To. Fractions are allowed.
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// InBand declares that a column of a stream holds the level of a pin that is
// active while a window runs: the samples themselves are the evidence, and say
// when; the lines of the target say what. For one stream the last record holds.
type InBand struct {
	Stream string `json:"stream"`
	Column string `json:"column"`
	// Active is the level of the pin within a window: 1 is the higher one.
	Active int `json:"active"`
	// Alg, Op and N name the windows that no statement names.
	Alg string `json:"alg,omitempty"`
	Op  string `json:"op,omitempty"`
	N   int64  `json:"n,omitempty"`
}

// Gap says that a stream lost samples, where the recorder knows.
type Gap struct {
	Stream  string `json:"stream"`
	Segment int    `json:"segment"`
	Row     int64  `json:"row"`  // the gap lies before this row of the segment
	Rows    int64  `json:"rows"` // samples missing; 0 where unknown
	HostNs  int64  `json:"host_ns"`
	Reason  string `json:"reason"`
}

// Note is a remark that belongs to the evidence. With Warn it becomes a
// warning of every result made from the run, with Void one that voids the
// claim.
type Note struct {
	HostNs int64  `json:"host_ns"`
	Code   string `json:"code"`
	Text   string `json:"text"`
	Count  int64  `json:"count,omitempty"`
	Warn   bool   `json:"warn,omitempty"`
	Void   bool   `json:"void,omitempty"`
}

// Resumed opens a new part of a run, after a crash or a stop.
type Resumed struct {
	Started string `json:"started,omitempty"` // wall-clock time of host_ns 0 from here on
	Reason  string `json:"reason"`
}

// StreamKind says which file of a stream a checkpoint is about.
type StreamKind string

const (
	SampleData  StreamKind = "samples"
	ArrivalData StreamKind = "arrivals"
	RawData     StreamKind = "raw"
)

// Checkpoint says that Length bytes at Offset of File are on disk.
type Checkpoint struct {
	Stream  string     `json:"stream"`
	Segment int        `json:"segment"`
	Kind    StreamKind `json:"kind"`
	File    string     `json:"file"`
	Offset  int64      `json:"offset"`
	Length  int64      `json:"length"`
	Row     int64      `json:"row"`   // the first row of the bytes, within the segment
	Rows    int64      `json:"rows"`  // 0 for the schema at the head of a file
	CRC     string     `json:"crc32"` // of the bytes, 8 hex digits
}

// Close is the last record of a run that ended in order.
type Close struct {
	HostNs int64            `json:"host_ns"`
	Reason string           `json:"reason"` // done, interrupted, ...
	Rows   map[string]int64 `json:"rows"`   // samples by stream
}

// Segment opens one segment of a meter's stream; the last one wins for what
// is known of the meter.
type Segment struct {
	meters.Info
	Segment int    `json:"segment"` // from 1
	File    string `json:"file"`    // the samples
	// Part counts the resume records before this one. Each starts host_ns
	// anew, so times of different parts are not comparable.
	Part int `json:"-"`
}

// Record is one line of run.jsonl; the member that Type names is set, none
// where the type is not known.
type Record struct {
	Type   string // header, meter, target, env, line, edge, window, inband, gap, note, resume, checkpoint, close
	Offset int64  // of the line in run.jsonl
	Part   int    // resume records up to here

	Header     *Header
	Meter      *Segment
	Target     *Target
	Env        *Env
	Line       *Line
	Edge       *Edge
	Window     *Window
	InBand     *InBand
	Gap        *Gap
	Note       *Note
	Resume     *Resumed
	Checkpoint *Checkpoint
	Close      *Close
}

// fileName names one file of one segment of a stream. Readers form the name
// too instead of believing one that they read.
func fileName(stream string, segment int, kind StreamKind) string {
	if segment > 1 {
		stream += "." + strconv.Itoa(segment)
	}
	switch kind {
	case ArrivalData:
		return stream + ".arrivals.arrows"
	case RawData:
		return stream + ".raw"
	}
	return stream + ".arrows"
}

// Batch is consecutive samples of one segment, as read back.
type Batch struct {
	Segment int
	Row     int64 // of the first sample, within the segment
	Rows    int
	// Columns holds the values by column name, NaN where not measured. The
	// slices are reused by the next batch.
	Columns map[string][]float64
	TimesNs []int64 // only for streams without a rate
}

// Arrival says that samples up to, not including, Row of a segment had
// arrived at HostNs.
type Arrival struct {
	Segment int
	Index   int64 // of the arrival, within the segment
	Row     int64
	HostNs  int64
}

// Damage is something that a reader could not trust. A Tail is merely missing
// its end, as after a crash.
type Damage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	What   string `json:"what"`
	Tail   bool   `json:"tail"`
}
