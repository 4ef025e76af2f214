package imports

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// wtm is a recording that the programs for WITRN meters (U2p, U3, A2, C4, C5)
// save: "wtm1903 " in UTF-16LE, then 100 records a second, little-endian,
//
//	i16 voltage (mV), i16 current (mA), u8 D- (100 mV), u8 D+ (100 mV),
//	i8 temperature (degC; -72 where there is no probe)
//
// Source: didim99/witrn-ui.
var wtm = Format{
	Name:    "wtm",
	Summary: "a recording of a WITRN meter (.wtm)",
	Detect: func(head []byte, path string) string {
		if bytes.HasPrefix(head, []byte(wtmMagic)) {
			return "the head of a .wtm file, wtm1903"
		}
		return ""
	},
	Import: importWTM,
}

const (
	wtmMagic  = "w\x00t\x00m\x001\x009\x000\x003\x00 \x00"
	wtmRecord = 7 // bytes
	wtmHz     = 100
	noProbe   = -72 // degC
)

func importWTM(j *job) error {
	if j.RateHz != 0 || j.Volts != 0 {
		return fmt.Errorf("%s: a .wtm file has %d samples a second, and a voltage; leave --rate and --volts out", j.Samples, wtmHz)
	}
	f, err := openRegular(os.Stat, os.Open, j.Samples)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, maxLine)
	head := make([]byte, len(wtmMagic))
	if _, err := io.ReadFull(r, head); err != nil || string(head) != wtmMagic {
		return fmt.Errorf("%s: is no .wtm file: it does not begin with wtm1903", j.Samples)
	}
	if err := j.startAt(0, false); err != nil {
		return err
	}
	s, err := j.w.Stream(j.info(meters.Info{
		Model: "WITRN", Columns: []string{meters.Volts, meters.Amps, meters.DPVolts, meters.DNVolts, meters.Celsius},
		RateHz: wtmHz, Sample: meters.UnknownKind, Clock: meters.Shared,
	}))
	if err != nil {
		return err
	}
	b := newBlock(s, 5, false)
	torn, err := j.copyWTM(r, b)
	if err != nil {
		return err
	}
	if b.n == 0 {
		return fmt.Errorf("%s: holds no samples", j.Samples)
	}
	if torn > 0 {
		if err := j.note(run.Note{Code: "torn-file", Count: int64(torn), Warn: true, Text: fmt.Sprintf(
			"the file ends with %d bytes that are no whole sample: it is cut off", torn)}); err != nil {
			return err
		}
	}
	j.summary.Samples, j.summary.RateHz = b.n, wtmHz
	j.summary.Seconds = float64(b.n-1) / wtmHz
	return j.end(0, (b.n-1)*1e9/wtmHz)
}

// copyWTM streams the records into the run; torn counts the bytes of one that
// is not whole.
func (j *job) copyWTM(r io.Reader, b *block) (torn int, err error) {
	var raw [wtmRecord]byte
	for {
		n, err := io.ReadFull(r, raw[:])
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			return n, b.flush(-1)
		case err != nil:
			return 0, fileError(j.Samples, err)
		}
		b.add([]float64{
			float64(int16(binary.LittleEndian.Uint16(raw[0:]))) / 1e3,
			float64(int16(binary.LittleEndian.Uint16(raw[2:]))) / 1e3,
			float64(raw[5]) / 10, float64(raw[4]) / 10, wtmCelsius(int8(raw[6])),
		})
		if b.b.Len() == blockRows {
			if err := j.ctx.Err(); err != nil {
				return 0, fmt.Errorf("%s: %w", j.Samples, err)
			}
			if err := b.flush(-1); err != nil {
				return 0, err
			}
		}
	}
}

func wtmCelsius(raw int8) float64 {
	if raw == noProbe {
		return math.NaN()
	}
	return float64(raw)
}
