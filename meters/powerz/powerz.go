// Package powerz reads the POWER-Z meters KM003C and KM002C of ChargerLAB over
// the bulk endpoints of their first interface.
//
// # Protocol
//
// The host sends four bytes, the meter answers with its newest conversion. No
// login is needed for that; the queue of conversions, which needs the maker's
// authentication, is not used: asking often enough shows every conversion too.
// An answer that equals the one before shows the same conversion; both are kept.
//
// Sources: okhsunrog/km003c-protocol-research (docs/protocol_reference.md,
// usb_transport.md), tests of okhsunrog/km003c-rs, from which the two real
// answers in testdata come, fqueze/usb-power-profiling
// (usb-power-profiling.js), and the fields of Linux, drivers/hwmon/powerz.c.
//
// # Traps
//
// Linux's own driver powerz binds the interface where it is built: detach it,
// or read the meter through hwmon. The first answer after an unclean end may be
// short. There is no checksum but that of USB.
package powerz

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/polled"
)

const name = "km003c"

// Driver is the family's driver.
var Driver = meters.Driver{
	Name:       name,
	Summary:    "ChargerLAB POWER-Z KM003C, KM002C over USB",
	Status:     meters.Captured,
	Transports: []meters.Transport{meters.USB},
	USBClass:   0xff,
	Models:     models,
	Settings:   []meters.Setting{{Key: "rate", Help: "requests a second, 1 to 1000; 500 where it is not given"}},
	Rate:       "up to 1000, polled",
	Open:       open,
}

var traps = []string{
	"Its current is positive from the plug to the socket; turned round it is negative.",
	"The kernel's driver powerz (hwmon) may hold it.",
	"It sends no checksum; USB's is all there is.",
}

var models = []meters.Model{
	{Name: "KM003C", USB: meters.USBID{Vendor: 0x5fc9, Product: 0x0063}, Accuracy: accuracy, Traps: traps},
	{Name: "KM002C", USB: meters.USBID{Vendor: 0x5fc9, Product: 0x0061}, Accuracy: accuracy, Traps: traps},
}

// accuracy: no data sheet of the maker was found.
var accuracy = meters.Accuracy{Source: "no limits are known"}

// Rates of requests, Hz. The meter converts 1000 times a second at most
// (adcqueue.md).
const rateHz, mostHz = 500, 1000

// Layout of an answer: two headers of 32 bits, little-endian, and the block of
// the converter.
const (
	extendedAt = 4
	blockAt    = 8
	blockBytes = 44

	putData  = 0x41 // type of an answer
	getData  = 0x0c // type of a request
	converts = 1    // attribute: the converter
)

// field is one quantity of the block: a number of size bytes at an offset, in
// units of 1/per.
type field struct {
	at, size int
	signed   bool
	per      float64
	column   string
}

var fields = [...]field{
	{0, 4, true, 1e6, meters.Volts},
	{4, 4, true, 1e6, meters.Amps},
	{24, 2, true, 128, meters.Celsius},
	{26, 2, false, 1e4, "cc1_volts"},
	{28, 2, false, 1e4, "cc2_volts"},
	{30, 2, false, 1e4, meters.DPVolts},
	{32, 2, false, 1e4, meters.DNVolts},
}

// Columns names the values of a Sample.
func Columns() (names []string) {
	for _, f := range fields {
		names = append(names, f.column)
	}
	return names
}

// Sample is one conversion, in the order of Columns.
type Sample [len(fields)]float64

// Errors of Decode.
var (
	ErrShort      = errors.New("the answer is short")
	ErrKind       = errors.New("the answer holds no conversion")
	ErrImpossible = errors.New("the answer shows more than 60 V or 10 A")
)

// Decode decodes one answer, and says which request it answers.
func Decode(answer []byte) (s Sample, transaction byte, err error) {
	if len(answer) < blockAt+blockBytes {
		return s, 0, ErrShort
	}
	extended := binary.LittleEndian.Uint32(answer[extendedAt:])
	// Type in 7 bits; attribute in 15 bits, one whether more follows, chunk in 6,
	// size of the block in 10.
	if answer[0]&0x7f != putData || extended&0x3f7fff != converts || extended>>22 != blockBytes {
		return s, 0, ErrKind
	}
	block := answer[blockAt:]
	for i, f := range fields {
		s[i] = f.value(block)
	}
	// The family ends at 50 V and 6 A.
	if !(s[0] >= -1 && s[0] <= 60 && s[1] >= -10 && s[1] <= 10) {
		return s, 0, ErrImpossible
	}
	return s, answer[1], nil
}

func (f field) value(b []byte) float64 {
	switch {
	case f.size == 4:
		return float64(int32(binary.LittleEndian.Uint32(b[f.at:]))) / f.per
	case f.signed:
		return float64(int16(binary.LittleEndian.Uint16(b[f.at:]))) / f.per
	}
	return float64(binary.LittleEndian.Uint16(b[f.at:])) / f.per
}

// Request asks for the newest conversion.
func Request(transaction byte) []byte { return []byte{getData, transaction, converts << 1, 0} }

type source struct {
	polled.Link
	transaction byte
	values      Sample
}

func open(_ context.Context, p meters.Port, o meters.Options) (meters.Meter, error) {
	k := slices.IndexFunc(models, func(m meters.Model) bool { return m.Name == o.Model || o.Model == "" })
	if k < 0 {
		return nil, fmt.Errorf("open %s: unknown model %q", name, o.Model)
	}
	hz := float64(rateHz)
	if text, ok := o.Settings["rate"]; ok {
		var err error
		if hz, err = strconv.ParseFloat(text, 64); err != nil || !(hz >= 1 && hz <= mostHz) {
			return nil, fmt.Errorf("open %s: rate=%s is not between 1 and %d", name, text, mostHz)
		}
	}
	// The kernel waits 5 ms for an answer (powerz.c); a busy machine is slower.
	s := &source{Link: polled.Link{Port: p, AnswerNs: 100 * int64(time.Millisecond)}}
	info := meters.Info{Driver: name, Model: models[k].Name, Serial: o.Serial, Firmware: o.Firmware,
		Columns: Columns(), Sample: meters.UnknownKind, Accuracy: accuracy}
	return polled.New(s, info, time.Duration(float64(time.Second)/hz), o.Notify), nil
}

// Ask asks for the newest conversion.
func (s *source) Ask(ctx context.Context) (polled.Reading, error) {
	s.transaction++
	var sample Sample
	answer, hostNs, err := s.Query(ctx, Request(s.transaction), func(b []byte) (int, error) {
		var of byte
		var err error
		if sample, of, err = Decode(b); err == nil && of != s.transaction {
			err = errors.New("it answers another request")
		}
		return len(b), err
	})
	r := polled.Reading{ArrivalNs: hostNs, Raw: answer}
	if err != nil {
		return r, err
	}
	s.values = sample
	r.SampleNs, r.Values = hostNs, s.values[:]
	return r, nil
}
