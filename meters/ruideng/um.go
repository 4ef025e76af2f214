// Package ruideng reads the USB meters of RuiDeng: UM24C, UM25C and UM34C over
// Bluetooth's serial port, TC66C over USB's.
//
// # Sources
//
// UM: sigrokproject/libsigrok (src/hardware/rdtech-um/protocol.c),
// rfinnie/rdserialtool, kolinger/rd-usb. TC66C: libsigrok
// (src/hardware/rdtech-tc), kolinger/rd-usb (tc.py), fqueze/usb-power-profiling.
// No answer of a real meter is in the tests.
//
// # Traps
//
// Their clock is the host's; a sample is stamped when its answer is whole, some
// 10 to 150 ms after the meter read its converter. They filter: half a second
// passes until a step is over, and some samples show it half done. UM24C and
// UM25C send no checksum.
package ruideng

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/polled"
)

const umName = "um25c"

// UM is the driver of the UM series.
var UM = meters.Driver{
	Name:       umName,
	Summary:    "RuiDeng UM24C, UM25C, UM34C over a Bluetooth serial port",
	Status:     meters.Emulated,
	Transports: []meters.Transport{meters.Serial},
	Baud:       9600,
	Models:     umList(),
	Rate:       "2 to 5, polled",
	Open:       openUM,
}

// accuracy: no data sheet of the maker was found.
var accuracy = meters.Accuracy{Source: "no limits are known"}

// umModel is one product: the first word of its answers, and its units.
type umModel struct {
	name               string
	id                 uint16
	perVolt, perAmpere float64
	// checked: the last byte is a checksum; otherwise the tail is constant.
	checked bool
}

var umModels = []umModel{
	{"UM25C", 0x09c9, 1000, 10000, false},
	{"UM24C", 0x0963, 100, 1000, false},
	{"UM34C", 0x0d4c, 100, 1000, true},
}

var umTraps = []string{
	"It is slower than most windows: 2 to 5 samples a second, and half a second until a step of power is over.",
	"Its current has no sign.",
	"Pair it first, then bind it: sudo rfcomm bind 0 ADDRESS, and use um25c:/dev/rfcomm0.",
}

func umList() (list []meters.Model) {
	for _, m := range umModels {
		traps := umTraps
		if !m.checked {
			traps = append(slices.Clip(traps), "It sends no checksum.")
		}
		list = append(list, meters.Model{Name: m.name, Accuracy: accuracy, Traps: traps})
	}
	return list
}

const (
	umRequest   = 0xf0
	umBytes     = 130
	umTail      = 0xfff1
	umEvery     = 200 * time.Millisecond // sigrok asks every 100 ms at most; 2 to 5 answers come in a second
	umAnswerNs  = int64(time.Second)     // sigrok
	umVoltsAt   = 2
	umAmpsAt    = 4
	umCelsiusAt = 10
	umDPAt      = 96 // in 1/100 V, as the next
	umDNAt      = 98
	tailAt      = 128
)

// umChecked are the bytes whose xor is the last byte of an UM34C's answer
// (protocol.c).
var umChecked = []int{1, 3, 7, 9, 15, 17, 19, 23, 31, 39, 41, 45, 49, 53, 55, 57, 59, 63, 67, 69, 73, 79, 83, 89, 97, 99, 109, 111, 113, 119, 121, 127}

// Columns names the values of a Sample.
func Columns() []string {
	return []string{meters.Volts, meters.Amps, meters.Celsius, meters.DPVolts, meters.DNVolts}
}

// Sample is one answer, in the order of Columns: V, A, degrees Celsius, V, V.
type Sample [5]float64

// Errors of DecodeUM and DecodeTC.
var (
	ErrLength     = errors.New("the answer has another length")
	ErrKind       = errors.New("the answer is of no model of the family")
	ErrCheck      = errors.New("the answer has a wrong checksum")
	ErrImpossible = errors.New("the answer shows more than 60 V or 10 A")
)

// DecodeUM decodes one answer of a meter of the UM series, and names the model.
func DecodeUM(b []byte) (s Sample, model string, err error) {
	if len(b) != umBytes {
		return s, "", ErrLength
	}
	word := func(at int) float64 { return float64(binary.BigEndian.Uint16(b[at:])) }
	k := slices.IndexFunc(umModels, func(m umModel) bool { return m.id == binary.BigEndian.Uint16(b) })
	if k < 0 {
		return s, "", ErrKind
	}
	m := umModels[k]
	if m.checked {
		var x byte
		for _, at := range umChecked {
			x ^= b[at]
		}
		if x != b[umBytes-1] {
			return s, "", ErrCheck
		}
	} else if binary.BigEndian.Uint16(b[tailAt:]) != umTail {
		return s, "", ErrCheck
	}
	s = Sample{word(umVoltsAt) / m.perVolt, word(umAmpsAt) / m.perAmpere, word(umCelsiusAt), word(umDPAt) / 100, word(umDNAt) / 100}
	if s.impossible() {
		return s, "", ErrImpossible
	}
	return s, m.name, nil
}

// impossible reports whether no meter of these can have measured it: they end
// at 30 V and 6 A at most.
func (s Sample) impossible() bool { return s[0] > 60 || s[1] > 10 }

// source asks for answers of one length.
type source struct {
	polled.Link
	request []byte
	size    int
	decode  func([]byte) (s Sample, who identity, err error)

	known  bool
	values Sample
}

// identity is what an answer tells of its meter.
type identity struct{ model, serial, firmware string }

func openUM(_ context.Context, p meters.Port, o meters.Options) (meters.Meter, error) {
	s := &source{request: []byte{umRequest}, size: umBytes, decode: func(b []byte) (Sample, identity, error) {
		s, model, err := DecodeUM(b)
		return s, identity{model: model}, err
	}}
	s.Link = polled.Link{Port: p, AnswerNs: umAnswerNs}
	return s.meter(umName, umNames(), o, umEvery)
}

// umNames names the products of the series.
func umNames() (names []string) {
	for _, m := range umModels {
		names = append(names, m.name)
	}
	return names
}

func (s *source) meter(driver string, models []string, o meters.Options, every time.Duration) (meters.Meter, error) {
	if o.Model != "" && !slices.Contains(models, o.Model) {
		return nil, fmt.Errorf("open %s: unknown model %q", driver, o.Model)
	}
	info := meters.Info{Driver: driver, Model: o.Model, Serial: o.Serial, Firmware: o.Firmware, Columns: Columns(),
		Sample: meters.UnknownKind, Accuracy: accuracy}
	return polled.New(s, info, every, o.Notify), nil
}

// Ask asks once. An answer is looked for wherever it begins, since the rest of
// an earlier one may come before it.
func (s *source) Ask(ctx context.Context) (polled.Reading, error) {
	var sample Sample
	var who identity
	answer, hostNs, err := s.Query(ctx, s.request, func(b []byte) (int, error) {
		var err error
		for at := 0; at+s.size <= len(b); at++ {
			if sample, who, err = s.decode(b[at : at+s.size]); err == nil {
				return at + s.size, nil
			}
		}
		if len(b) >= 2*s.size {
			return 0, err
		}
		return 0, nil
	})
	r := polled.Reading{ArrivalNs: hostNs, Raw: answer}
	if err != nil {
		return r, err
	}
	if !s.known {
		s.known = true
		r.Identity = func(i *meters.Info) {
			i.Model = who.model
			if who.serial != "" {
				i.Serial, i.Firmware = who.serial, who.firmware
			}
		}
	}
	s.values = sample
	r.SampleNs, r.Values = hostNs, s.values[:]
	return r, nil
}
