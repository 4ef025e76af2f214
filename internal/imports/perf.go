package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/joulemark/joulemark/run"
)

// perfStat is what perf stat -I MS writes of energy events, for people or with
// -x (any separator), one line an event:
//
//	#           time             counts unit events
//	     1.001048308              19.63 Joules power/energy-pkg/
//
//	     1.001048308,19.63,Joules,power/energy-pkg/,2002406532,100.00,,
//	     1.001048308,S0,1,19.63,Joules,power/energy-pkg/,2002406532,100.00,,
//
// The time is the end of the interval, in s since perf began. Lines of other
// events are passed over. Source: perf-stat(1), "-I" and "CSV FORMAT".
var perfStat = Format{
	Name:    "perf-stat",
	Summary: "output of perf stat -I MS -e power/energy-pkg/, with or without -x,",
	Detect: func(head []byte, path string) string {
		if checkText(path, head) != nil {
			return ""
		}
		for line := range bytes.Lines(head) {
			if l, ok := parsePerf(line); ok && l.event != "" {
				return "lines of time, Joules and the event " + l.event
			}
		}
		return ""
	},
	Import: importPerfStat,
}

// perfLine is one line of an energy event.
type perfLine struct {
	time, value []byte
	event       string
	// commas says that a decimal comma stands among separating ones.
	commas bool
}

// parsePerf finds time, value and event of a line; false where it is none of an
// energy event.
func parsePerf(line []byte) (perfLine, bool) {
	fields := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' || r == ';' })
	if len(fields) == 1 || len(fields) > 0 && bytes.Count(fields[0], []byte(",")) > 1 {
		fields = bytes.Split(bytes.TrimSpace(line), []byte(","))
	}
	k := slices.IndexFunc(fields, func(f []byte) bool { return string(f) == "Joules" })
	if k < 2 || k+1 >= len(fields) {
		return perfLine{}, false
	}
	// Between time and value there is nothing, or who was counted: S0,1 or CPU0.
	commas := k > 2 && (len(fields[1]) == 0 || fields[1][0] >= '0' && fields[1][0] <= '9')
	return perfLine{bytes.TrimSpace(fields[0]), bytes.TrimSpace(fields[k-1]), string(fields[k+1]), commas}, true
}

// perfEvents are the events that hold all others, the best one first.
var perfEvents = []string{"power/energy-pkg/", "power/energy-psys/"}

func importPerfStat(j *job) error {
	if j.RateHz != 0 || j.Volts != 0 {
		return fmt.Errorf("%s: its lines carry times and energies; leave --rate and --volts out", j.Samples)
	}
	event, err := j.perfEvent()
	if err != nil {
		return err
	}
	j.log(fmt.Sprintf("%s: power from the event %s; others are passed over", j.Samples, event))
	p := &powerWriter{job: j, model: "RAPL"}
	var startNs, endNs int64
	joules := 0.0
	round := func() error {
		if endNs <= startNs {
			return nil
		}
		return p.addPossible(startNs, endNs, joules/(float64(endNs-startNs)/1e9))
	}
	torn := false
	err = j.eachPerf(func(l *lines, e perfLine) error {
		if e.event != event {
			return nil
		}
		ns, v, err := e.numbers(l)
		switch {
		case err != nil && l.torn:
			torn = true
			return nil
		case err != nil:
			return err
		case ns < endNs:
			return posError(l.name, l.line, 0, "time runs backwards: %s s after %s s; split the file here if these are two recordings", seconds(ns), seconds(endNs))
		case ns == endNs: // the same interval of another socket
			joules += v
			return nil
		}
		if err := round(); err != nil {
			return err
		}
		startNs, endNs, joules = endNs, ns, v
		return nil
	})
	if err == nil {
		err = round()
	}
	if err != nil {
		return err
	}
	if torn {
		if err := j.note(run.Note{Code: "torn-line", Count: 1, Text: "the last line is cut off and was left out"}); err != nil {
			return err
		}
	}
	return p.finish()
}

// numbers reads time and energy; a value that perf could not count is NaN.
func (p perfLine) numbers(l *lines) (ns int64, joules float64, err error) {
	if p.commas {
		return 0, 0, posError(l.name, l.line, 0, "a decimal comma in a file separated by commas; record it with LC_ALL=C, or with -x ;")
	}
	d, err := scanDecimal(p.time)
	if err == nil {
		ns, err = d.nanos(0)
	}
	if err != nil {
		return 0, 0, posError(l.name, l.line, 0, "time %q %v", clip(p.time), err)
	}
	if ns <= 0 {
		return 0, 0, posError(l.name, l.line, 0, "time %q is not above 0", clip(p.time))
	}
	if bytes.HasPrefix(p.value, []byte("<not")) || bytes.HasSuffix(p.value, []byte(">")) {
		return ns, math.NaN(), nil
	}
	d, err = scanDecimal(p.value)
	if err == nil {
		joules, err = d.float(p.value, 0)
	}
	if err != nil {
		return 0, 0, posError(l.name, l.line, 0, "energy %q %v", clip(p.value), err)
	}
	if joules < 0 {
		joules = math.NaN()
	}
	return ns, joules, nil
}

// eachPerf visits the lines of energy events.
func (j *job) eachPerf(visit func(*lines, perfLine) error) error {
	l, err := openLines(j.ctx, os.Stat, os.Open, j.Samples, j.Samples)
	if err != nil {
		return err
	}
	defer l.close()
	for {
		b, err := l.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if p, ok := parsePerf(b); ok {
			if err := visit(l, p); err != nil {
				return err
			}
		}
	}
}

// perfEvent finds the event to take.
func (j *job) perfEvent() (string, error) {
	var events []string
	err := j.eachPerf(func(_ *lines, p perfLine) error {
		if len(events) < maxPerfEvents && !slices.Contains(events, p.event) {
			events = append(events, p.event)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for _, e := range perfEvents {
		if slices.Contains(events, e) {
			return e, nil
		}
	}
	if len(events) == 0 {
		return "", fmt.Errorf("%s: holds no line of an energy event (perf stat -I 100 -e power/energy-pkg/ -x, writes them)", j.Samples)
	}
	return "", fmt.Errorf("%s: its events (%.100q) are parts of the machine only; record power/energy-pkg/", j.Samples, events)
}

// maxPerfEvents bounds the events that are remembered.
const maxPerfEvents = 64
