package execmeter

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
)

const (
	schema        = "joulemark.exec-meter/1"
	binaryFraming = "binary"

	mostColumns = 64  // as in a run
	mostRateHz  = 1e9 // as the clocks take it
	mostName    = 200 // bytes of a name
)

// header is the first line.
type header struct {
	Schema        string   `json:"schema"`
	Driver        string   `json:"driver"`
	Model         string   `json:"model"`
	Serial        string   `json:"serial"`
	Firmware      string   `json:"firmware"`
	Columns       []string `json:"columns"`
	RateHz        *float64 `json:"rate_hz"`
	PacketSamples int      `json:"packet_samples"`
	Sample        string   `json:"sample"`
	Accuracy      string   `json:"accuracy"`
	Simulated     bool     `json:"simulated"`
	Speed         *float64 `json:"speed"`
	Framing       string   `json:"framing"`

	accuracy meters.Accuracy
}

var columnForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// parseHeader reads and checks the first line.
func parseHeader(line []byte) (header, error) {
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return h, err
	}
	if h.Schema != schema {
		return h, fmt.Errorf("schema %.100q, want %s", h.Schema, schema)
	}
	if n := len(h.Columns); n < 1 || n > mostColumns {
		return h, fmt.Errorf("%d columns, want 1 to %d", n, mostColumns)
	}
	for i, c := range h.Columns {
		if !columnForm.MatchString(c) || c == "t_ns" || slices.Contains(h.Columns[:i], c) {
			return h, fmt.Errorf("column %.100q: want different names of a-z 0-9 _, not t_ns", c)
		}
	}
	has := func(c string) bool { return slices.Contains(h.Columns, c) }
	switch {
	case !has(meters.Watts) && !(has(meters.Volts) && has(meters.Amps)):
		return h, fmt.Errorf("columns %s: want volts and amps, or watts", strings.Join(h.Columns, ", "))
	case h.RateHz == nil:
		return h, fmt.Errorf("no rate_hz; 0 says that samples are not equidistant")
	case !(*h.RateHz >= 0 && *h.RateHz <= mostRateHz):
		return h, fmt.Errorf("rate_hz %g is not between 0 and %g", *h.RateHz, mostRateHz)
	case h.PacketSamples < 0 || h.PacketSamples > mostRows:
		return h, fmt.Errorf("packet_samples %d is not between 0 and %d", h.PacketSamples, mostRows)
	case h.Framing != "" && h.Framing != "lines" && h.Framing != binaryFraming:
		return h, fmt.Errorf("framing %.100q is neither lines nor %s", h.Framing, binaryFraming)
	case h.Framing == binaryFraming && *h.RateHz == 0:
		return h, fmt.Errorf("framing %s needs a rate_hz", binaryFraming)
	case h.Speed != nil && *h.Speed != 1:
		return h, fmt.Errorf("its time runs %g times as fast as ours: run it at speed 1", *h.Speed)
	}
	switch meters.SampleKind(h.Sample) {
	case "", meters.Mean, meters.Point, meters.UnknownKind:
	default:
		return h, fmt.Errorf("sample %.100q is none of mean, point, unknown", h.Sample)
	}
	for _, name := range []string{h.Driver, h.Model, h.Serial, h.Firmware, h.Accuracy} {
		if len(name) > mostName {
			return h, fmt.Errorf("a name of %d bytes, want at most %d", len(name), mostName)
		}
	}
	var err error
	h.accuracy, err = meters.ParseAccuracy(h.Accuracy)
	return h, err
}

func (h header) info() meters.Info {
	i := meters.Info{
		Driver: meters.ExecDriver, Model: h.Model, Serial: h.Serial, Firmware: h.Firmware,
		Columns: h.Columns, RateHz: *h.RateHz, PacketSamples: h.PacketSamples,
		Sample: meters.SampleKind(h.Sample), Clock: meters.ByArrival,
		Accuracy: h.accuracy, Simulated: h.Simulated,
	}
	if h.Driver != "" {
		i.Driver = h.Driver
	}
	if i.Sample == "" {
		i.Sample = meters.UnknownKind
	}
	if i.Accuracy != (meters.Accuracy{}) {
		i.Accuracy.Source = "as the program says"
	}
	return i
}
