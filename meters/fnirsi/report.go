package fnirsi

import (
	"encoding/binary"
	"errors"

	"github.com/joulemark/joulemark/meters"
)

const (
	// ReportBytes is the size of a report in either direction.
	ReportBytes = 64
	// ReportSamples is how many samples a report of samples holds.
	ReportSamples = 4

	rateHz     = 100.0 // nominal, all models
	firstByte  = 0xaa
	samplesAt  = 2
	sampleSize = 15
	crcAt      = ReportBytes - 1
)

// Kind is the second byte of a report from the meter.
type Kind byte

const (
	// InfoReport answers a hello and may come between samples; what it says
	// over USB is not known.
	InfoReport Kind = 0x03
	// SampleReport holds four samples.
	SampleReport Kind = 0x04
)

// field is one quantity of a sample: an unsigned little-endian number of size
// bytes at an offset, in units of 1/per. Byte 12 of a sample is always 1 and
// its meaning is not known.
type field struct {
	at, size int
	per      float64
	column   string
}

var fields = [...]field{
	{0, 4, 100000, meters.Volts},
	{4, 4, 100000, meters.Amps},
	{8, 2, 1000, meters.DPVolts},
	{10, 2, 1000, meters.DNVolts},
	{13, 2, 10, meters.Celsius},
}

// Columns names the values of a Sample.
func Columns() []string {
	var names []string
	for _, f := range fields {
		names = append(names, f.column)
	}
	return names
}

// Sample is one sample, in the order of Columns: V, A, V, V, degrees Celsius.
type Sample [len(fields)]float64

// impossible reports whether no meter of the family can have measured it: they
// end at 28 V and 7 A, and 188.7 V and 170.4 A are known as left-overs (pull
// request 4 of fnirsi-usb-power-data-logger).
func (s Sample) impossible() bool { return s[0] > 60 || s[1] > 10 }

// Errors of DecodeReport.
var (
	ErrLength = errors.New("report is not 64 bytes long")
	ErrStart  = errors.New("report does not begin with AA")
	ErrCRC    = errors.New("report has a wrong CRC")
)

// DecodeReport decodes one report as the meter sends it, the oldest sample
// first. samples holds something only where kind is SampleReport and err is
// nil. With ErrStart and ErrCRC, kind is what the damaged report claims to be.
func DecodeReport(report []byte) (samples [ReportSamples]Sample, kind Kind, err error) {
	if len(report) != ReportBytes {
		return samples, 0, ErrLength
	}
	kind = Kind(report[1])
	switch {
	case report[0] != firstByte:
		return samples, kind, ErrStart
	case checksum(report[1:crcAt]) != report[crcAt]:
		return samples, kind, ErrCRC
	case kind != SampleReport:
		return samples, kind, nil
	}
	for k := range samples {
		b := report[samplesAt+k*sampleSize:][:sampleSize]
		for i, f := range fields {
			samples[k][i] = f.value(b)
		}
	}
	return samples, kind, nil
}

func (f field) value(b []byte) float64 {
	if f.size == 4 {
		return float64(binary.LittleEndian.Uint32(b[f.at:])) / f.per
	}
	return float64(binary.LittleEndian.Uint16(b[f.at:])) / f.per
}

// Command is what the host may send.
type Command byte

const (
	hello   Command = 0x81 // the meter answers with an InfoReport
	start   Command = 0x82 // samples for about a second from now on
	proceed Command = 0x83 // one second more; ignored once they have ended
)

// report returns the bytes of a command.
func (c Command) report() [ReportBytes]byte {
	b := [ReportBytes]byte{0: firstByte, 1: byte(c)}
	b[crcAt] = checksum(b[1:crcAt])
	return b
}

// The CRC-8 of reports, over bytes 1 to 62: polynomial 0x39, initial value
// 0x42, nothing reflected or inverted (issue 5 of
// fnirsi-usb-power-data-logger; found with reveng, and confirmed by the three
// commands).
const crcPolynomial, crcInitial = 0x39, 0x42

var crcTable = func() (table [256]byte) {
	for i := range table {
		c := byte(i)
		for range 8 {
			high := c & 0x80
			c <<= 1
			if high != 0 {
				c ^= crcPolynomial
			}
		}
		table[i] = c
	}
	return table
}()

func checksum(b []byte) byte {
	c := byte(crcInitial)
	for _, x := range b {
		c = crcTable[c^x]
	}
	return c
}
