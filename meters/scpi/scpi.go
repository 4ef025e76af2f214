// Package scpi reads instruments that speak SCPI: power supplies, meters and
// analysers on a network or a serial line.
//
// # Sources
//
// SCPI-1999 volume 1, 7.2.1 (numbers: 9.91E37 is not a number, 9.9E37 is
// infinity) and 21.8 (SYST:ERR?); IEEE 488.2-1992, 8.7.1 (answers of numbers)
// and 10.14 (*IDN?).
//
// # What is sent
//
// *IDN? first, then the two queries again and again, and SYST:ERR? when one
// fails. Nothing else, and nothing that is no query: outputs, ranges and limits
// are the user's. After a failure *IDN? is sent again, and all lines before its
// answer are passed over: an answer that came late is never taken for that to
// the next query.
package scpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/polled"
)

const name = "scpi"

// Driver is the driver of any instrument that answers its queries.
var Driver = meters.Driver{
	Name:       name,
	Summary:    "an instrument that speaks SCPI, over TCP or a serial line",
	Status:     meters.Emulated,
	Transports: []meters.Transport{meters.TCP, meters.Serial},
	Baud:       9600,
	Models: []meters.Model{{Name: name, Accuracy: accuracy, Traps: []string{
		"Volts and amps are asked for one after the other, 10 to 100 ms apart.",
		"MEAS:VOLT? and MEAS:CURR? make a multimeter change its function each time: use READ? or FETC? and one quantity there.",
		"The accuracy is not known to the driver: give it with --accuracy.",
		"Some analysers' time axes were off by a third; here the host's clock stamps.",
	}}},
	Settings: []meters.Setting{
		{Key: "volts", Help: "query for volts; " + voltsQuery + " where it is not given"},
		{Key: "amps", Help: "query for amps; " + ampsQuery + " where it is not given"},
	},
	Rate: "5 to 50, polled",
	Open: open,
}

const (
	voltsQuery = "MEAS:VOLT?"
	ampsQuery  = "MEAS:CURR?"

	answerNs  = int64(time.Second)
	every     = 20 * time.Millisecond
	maxErrors = 10   // that are read from the instrument's queue at once
	maxLine   = 1000 // bytes
)

// accuracy is the instrument's, and not known here.
var accuracy = meters.Accuracy{Source: "the instrument's data sheet, which was not given"}

// queryForm is one query: a header that ends in a question mark, and
// parameters, such as MEAS:VOLT? (@1). No second command can hide in it.
var queryForm = regexp.MustCompile(`^[*:A-Za-z][A-Za-z0-9:_]{0,99}\?( [A-Za-z0-9 .+()@:-]{1,99})?$`)

type source struct {
	polled.Link
	queries [2]string
	values  [2]float64

	idn   string // answer to *IDN?; "" where there is none
	asked int    // how often that was asked for in vain, before the first answer
	sure  bool   // the next line answers the next query
}

// maxAsked is how often an instrument is asked who it is before it is taken for
// one that does not know.
const maxAsked = 2

func open(_ context.Context, p meters.Port, o meters.Options) (meters.Meter, error) {
	s := &source{Link: polled.Link{Port: p, AnswerNs: answerNs}, queries: [2]string{voltsQuery, ampsQuery}}
	for i, key := range []string{"volts", "amps"} {
		if q, ok := o.Settings[key]; ok {
			if !queryForm.MatchString(q) {
				return nil, fmt.Errorf("open scpi: %s=%s is not one query, such as %s", key, q, s.queries[i])
			}
			s.queries[i] = q
		}
	}
	info := meters.Info{Driver: name, Model: o.Model, Serial: o.Serial, Firmware: o.Firmware,
		Columns: []string{meters.Volts, meters.Amps}, Sample: meters.UnknownKind, Accuracy: accuracy}
	return polled.New(s, info, every, o.Notify), nil
}

// Ask asks for both quantities; before, if need be, who the instrument is.
func (s *source) Ask(ctx context.Context) (r polled.Reading, err error) {
	if !s.sure {
		if r.Identity, err = s.identify(ctx); err != nil {
			r.ArrivalNs = s.HostNs()
			return r, err
		}
		s.sure = true
	}
	for i, q := range s.queries {
		var line []byte
		line, r.ArrivalNs, err = s.line(ctx, q)
		r.Raw = append(append(r.Raw, line...), '\n')
		if err == nil {
			s.values[i], err = Decode(line)
		}
		if err != nil {
			s.sure = false
			return r, s.explain(ctx, fmt.Errorf("%s: %w", q, err))
		}
	}
	r.SampleNs, r.Values = r.ArrivalNs, s.values[:]
	return r, nil
}

// identify asks who the instrument is, and reads until it says so. The function
// it returns is nil where that was known.
func (s *source) identify(ctx context.Context) (who func(*meters.Info), err error) {
	if s.idn == "" && s.asked >= maxAsked {
		return nil, s.Wait(ctx, s.HostNs()+answerNs)
	}
	line, _, err := s.line(ctx, "*IDN?")
	for range maxErrors {
		if err != nil {
			break
		}
		switch {
		case s.idn != "" && string(line) == s.idn:
			return nil, nil
		case s.idn == "" && idnForm.Match(line):
			s.idn = string(line)
			return identity(s.idn), nil
		}
		line, _, err = s.rest(ctx)
	}
	if s.idn == "" {
		s.asked++
	}
	if err == nil {
		err = fmt.Errorf("%w: it is no answer to *IDN?", polled.ErrDamaged)
	}
	return nil, fmt.Errorf("*IDN?: %w", err)
}

// idnForm tells an identity from numbers and errors: IEEE 488.2 has four fields
// that begin with the maker's name.
var idnForm = regexp.MustCompile(`^[A-Za-z][^\x00-\x1f]*,`)

// line sends a query and reads one line. It is valid until the next call.
func (s *source) line(ctx context.Context, query string) (line []byte, hostNs int64, err error) {
	line, hostNs, err = s.Query(ctx, []byte(query+"\n"), oneLine)
	return bytes.TrimRight(line, "\r\n"), hostNs, err
}

// rest reads one more line.
func (s *source) rest(ctx context.Context) (line []byte, hostNs int64, err error) {
	line, hostNs, err = s.Next(ctx, oneLine)
	return bytes.TrimRight(line, "\r\n"), hostNs, err
}

func oneLine(b []byte) (int, error) {
	k := bytes.IndexByte(b, '\n')
	if k < 0 && len(b) > maxLine || k > maxLine {
		return 0, fmt.Errorf("a line is longer than %d bytes", maxLine)
	}
	return k + 1, nil
}

// Decode reads a number as an instrument sends it. Not a number and infinity,
// by which SCPI means a value out of range, are NaN.
func Decode(line []byte) (float64, error) {
	text := strings.TrimSpace(string(line))
	if !numberForm.MatchString(text) {
		return 0, fmt.Errorf("%w: %q is not a number", polled.ErrDamaged, shortened(text))
	}
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %q is out of range", polled.ErrDamaged, shortened(text))
	case math.Abs(v) >= leastOverflow:
		return math.NaN(), nil
	case math.Abs(v) > mostValue:
		return 0, fmt.Errorf("%w: %g is no voltage or current", polled.ErrDamaged, v)
	}
	return v, nil
}

// numberForm is NR1, NR2 or NR3 of IEEE 488.2, and what instruments make of
// them.
var numberForm = regexp.MustCompile(`^[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?$`)

const (
	leastOverflow = 9.9e37
	mostValue     = 1e6 // V or A; assumed
)

func shortened(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

// identity reads maker, model, serial number and firmware.
func identity(line string) func(*meters.Info) {
	parts := strings.SplitN(line, ",", 4)
	for i, p := range parts {
		parts[i] = strings.TrimSpace(printable(p))
	}
	return func(i *meters.Info) {
		i.Model = strings.TrimSpace(strings.Join(parts[:min(2, len(parts))], " "))
		if len(parts) > 3 {
			i.Serial, i.Firmware = parts[2], parts[3]
		}
	}
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, shortened(text))
}

// explain adds what the instrument says of a query that failed, and so empties
// its queue of errors.
func (s *source) explain(ctx context.Context, err error) error {
	if !errors.Is(err, polled.ErrDamaged) && !errors.Is(err, polled.ErrUnanswered) {
		return err
	}
	for range maxErrors {
		line, _, problem := s.line(ctx, "SYST:ERR?")
		text := printable(string(line))
		if problem != nil || strings.HasPrefix(strings.TrimLeft(text, "+-"), "0") || text == "" {
			break
		}
		err = fmt.Errorf("%w; it says %s", err, text)
	}
	return err
}
