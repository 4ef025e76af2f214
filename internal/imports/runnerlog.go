package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/joulemark/joulemark/run"
)

// maxInferences bounds the inference commands of one log; a run has five.
const maxInferences = 1000

// inference is one command of inferences as the log has it, in seconds on the
// log's clock.
type inference struct {
	start, done float64
	n           int64
}

// runnerLog is what a log.txt says.
type runnerLog struct {
	first      float64 // stamp of its first line, in seconds
	started    bool    // first is known
	traceOn    float64 // stamp of m-trace[on]
	traced     bool
	inferences []inference // complete ones
	commands   []int64     // counts of the infer commands
	iterInfer  int64
	cfgModel   string // from the runner's configuration
	model      string // from the target
	meterName  string
	voltageMV  string
	session    string
	lapEdges   []float64 // seconds, as the meter logged the edges
	notes      []run.Note
}

// The lines that count. A target is called dut or otherwise (dut0, ...).
var (
	reStamp      = regexp.MustCompile(`^(\d{1,9}\.\d{1,9}) `)
	reInferStart = regexp.MustCompile(`: m-infer-start-(\d{1,12})$`)
	reInferDone  = regexp.MustCompile(`: m-infer-done$`)
	reInferCmd   = regexp.MustCompile(`parser: Command "io \w+ infer (\d{1,12})\b`)
	reCfg        = regexp.MustCompile(`m-bm-cfg-name\[[^\]]*\]-key\[(\w+)\]-val\[([^\]]*)\]`)
	reModel      = regexp.MustCompile(`: m-model-\[([^\]]{1,64})\]`)
	reMeter      = regexp.MustCompile(`m-regfile-fn\[[^\]]*\]-type\[emon\]-name\[([^\]]{1,64})\]`)
	reTraceOn    = regexp.MustCompile(`emon: m-trace\[on\]`)
	reVoltage    = regexp.MustCompile(`emon: m-voltage-mv\[(\d{1,6}(?:\.\d{1,6})?)\]`)
	reSession    = regexp.MustCompile(`m-session-start-id\[(\w{1,32})\]`)
	// Only the energy monitor counts from the trace's start; the io manager
	// (io: m-lap-us-...) has a clock of its own.
	reLap     = regexp.MustCompile(`emon: m-lap-us-(\d{1,15})$`)
	reDropped = regexp.MustCompile(`Dropped (\d{1,18}) packets out of (\d{1,18})`)
	reError   = regexp.MustCompile(`: e-\[`)
)

// logLines calls line for each line of the log, with its stamp in seconds (that
// of the line before where it has none).
func (x *trace) logLines(line func(stamp float64, text []byte) error) error {
	stamp := 0.0
	return x.eachLine(x.names.log, func(b []byte) error {
		if len(b) == 0 {
			return nil
		}
		if m := reStamp.FindSubmatch(b); m != nil {
			stamp, _ = strconv.ParseFloat(string(m[1]), 64)
		}
		return line(stamp, b)
	})
}

// eachLine visits the lines of a text file of the recording.
func (x *trace) eachLine(name string, visit func(b []byte) error) error {
	l, err := openLines(x.ctx, x.root.Stat, x.root.Open, name, x.path(name))
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
		if err := visit(b); err != nil {
			return err
		}
	}
}

// readLog goes through the log for what the import needs to know.
func (x *trace) readLog() error {
	l := &x.log
	open := inference{n: -1}
	return x.logLines(func(stamp float64, text []byte) error {
		text = bytes.TrimRight(text, " \t")
		if !l.started {
			l.first, l.started = stamp, true
		}
		if !bytes.Contains(text, []byte("m-")) && !bytes.Contains(text, []byte("infer")) && !reError.Match(text) {
			return nil
		}
		l.note(stamp, text, &open)
		if len(l.inferences) > maxInferences || len(l.commands) > maxInferences || len(l.lapEdges) > maxEdges || len(l.notes) > maxInferences {
			return fmt.Errorf("%s: holds more than %d inference commands or edges", x.path(x.names.log), maxInferences)
		}
		return nil
	})
}

// note takes what one line says. open is the inference command under way, of
// n < 0 where there is none.
func (l *runnerLog) note(stamp float64, text []byte, open *inference) {
	if m := reInferStart.FindSubmatch(text); m != nil {
		*open = inference{start: stamp, n: count(m[1])}
		return
	}
	if reInferDone.Match(text) && open.n > 0 {
		open.done = stamp
		l.inferences = append(l.inferences, *open)
		open.n = -1
		return
	}
	if m := reInferCmd.FindSubmatch(text); m != nil {
		l.commands = append(l.commands, count(m[1]))
	}
	if m := reCfg.FindSubmatch(text); m != nil {
		switch string(m[1]) {
		case "model":
			l.cfgModel = string(m[2])
		case "iterInfer":
			l.iterInfer = count(m[2])
		}
	}
	if m := reLap.FindSubmatch(text); m != nil {
		s := float64(count(m[1])) / 1e6
		if n := len(l.lapEdges); n == 0 || s > l.lapEdges[n-1] {
			l.lapEdges = append(l.lapEdges, s)
		}
	}
	if reTraceOn.Match(text) && !l.traced {
		l.traceOn, l.traced = stamp, true
	}
	for _, f := range []struct {
		re *regexp.Regexp
		to *string
	}{{reModel, &l.model}, {reMeter, &l.meterName}, {reVoltage, &l.voltageMV}, {reSession, &l.session}} {
		if m := f.re.FindSubmatch(text); m != nil {
			*f.to = string(m[1])
		}
	}
	if m := reDropped.FindSubmatch(text); m != nil && count(m[1]) > 0 {
		l.notes = append(l.notes, run.Note{Code: "meter-dropped", Count: count(m[1]), Warn: true, Text: fmt.Sprintf(
			"the meter dropped %s of %s packets", m[1], m[2])})
	}
	if reError.Match(text) {
		l.notes = append(l.notes, run.Note{Code: "log-error", Count: 1, Warn: true, Text: "the log holds an error: " + clip(text)})
	}
}

// count reads the digits that a pattern has found.
func count(digits []byte) int64 {
	n, _ := strconv.ParseInt(string(digits), 10, 64)
	return n
}

// counts returns the inferences of each command, from the target's lines or
// else from the runner's commands.
func (l *runnerLog) counts() []int64 {
	var n []int64
	for _, i := range l.inferences {
		n = append(n, i.n)
	}
	if len(n) == 0 {
		n = slices.DeleteFunc(slices.Clone(l.commands), func(n int64) bool { return n < 1 })
	}
	return n
}

// match finds the window of each inference command: the pair of neighbouring
// edges at its start and end, at one offset between the log's clock and the
// trace's that fits the most commands, and at least half of them. Commands
// without such a pair are left out.
func (l *runnerLog) match(edges []float64) []measured {
	var best []measured
	bestOff := math.Inf(1)
	// A wrong offset is off by a whole command, so that a few commands show
	// every right one.
	for _, i := range l.inferences[:min(len(l.inferences), 8)] {
		for _, e := range edges {
			offset := i.done - e
			if l.traced && math.Abs(offset-l.traceOn) > 2 {
				continue // the trace begins where the log says so
			}
			ws, off := l.matchAt(edges, offset)
			if len(ws) > len(best) || len(ws) == len(best) && off < bestOff {
				best, bestOff = ws, off
			}
		}
	}
	if 2*len(best) < len(l.inferences) {
		return nil // a chance match of a log that belongs elsewhere
	}
	return best
}

// matchAt is match at one offset; off is the sum of the distances in seconds.
func (l *runnerLog) matchAt(edges []float64, offset float64) (ws []measured, off float64) {
	for command, i := range l.inferences {
		// The edge at the end is the nearest one.
		k, found := slices.BinarySearch(edges, i.done-offset)
		if !found && k > 0 && (k == len(edges) || i.done-offset-edges[k-1] < edges[k]-(i.done-offset)) {
			k--
		}
		if k < 1 || k == len(edges) {
			continue
		}
		start, done := math.Abs(edges[k-1]+offset-i.start), math.Abs(edges[k]+offset-i.done)
		if start > logTolerance || done > logTolerance || len(ws) > 0 && ws[len(ws)-1].number >= k {
			continue
		}
		ws = append(ws, measured{number: k, n: i.n, command: command})
		off += start + done
	}
	return ws, off
}

// alg names what was run: the target's word for its model, or the runner's.
func (l *runnerLog) alg() string {
	if l.model != "" {
		return l.model
	}
	return l.cfgModel
}

// meter names the meter in full where the runner's name is known.
func (l *runnerLog) meter() string {
	switch l.meterName {
	case "lpm01a":
		return "ST X-NUCLEO-LPM01A"
	case "js110":
		return "Joulescope JS110"
	}
	return l.meterName
}

// hostNs turns a stamp into host time since the run's start, which is the
// whole second of the log's first line.
func (l *runnerLog) hostNs(stamp float64) int64 {
	return int64(math.Round((stamp - math.Floor(l.first)) * 1e9))
}

// traceNs is the host time of the trace's first sample, 0 where the log does
// not say.
func (l *runnerLog) traceNs() int64 {
	if !l.traced {
		return 0
	}
	return l.hostNs(l.traceOn)
}

// evidence writes the log into the run, and closes it.
func (x *trace) evidence() error {
	env := map[string]string{}
	for key, value := range map[string]string{"runner_session": x.log.session, "supply_mv": x.log.voltageMV} {
		if value != "" {
			env[key] = value
		}
	}
	if len(env) > 0 {
		if err := x.w.Env(env); err != nil {
			return err
		}
	}
	endNs := x.log.traceNs() + int64(x.summary.Seconds*1e9)
	if x.names.log != "" {
		if err := x.logLines(func(stamp float64, text []byte) error {
			ns := x.log.hostNs(stamp)
			endNs = max(endNs, ns)
			x.summary.Lines++
			return x.w.Line(run.Line{HostNs: ns, Source: "log", Text: text})
		}); err != nil {
			return err
		}
	}
	return x.finish(endNs)
}

// official is the energy of one window by results.txt.
type official struct {
	window      int
	microjoules float64
}

// resultStep is half a unit of the last decimal of results.txt, in µJ, and the
// same again for the sum's rounding.
const resultStep = 1e-3

var (
	reWindow = regexp.MustCompile(`Energy data for window (\d{1,6}) `)
	reEnergy = regexp.MustCompile(`: +Energy +: +(\d{1,15}(?:\.\d{1,9})?) uJ`)
)

// readResults reads what the runner made of the windows.
func (x *trace) readResults() error {
	window := 0
	return x.eachLine(x.names.results, func(b []byte) error {
		if m := reWindow.FindSubmatch(b); m != nil {
			window = int(count(m[1]))
		}
		if m := reEnergy.FindSubmatch(b); m != nil && window > 0 && len(x.results) < maxEdges {
			uj, _ := strconv.ParseFloat(string(m[1]), 64)
			x.results = append(x.results, official{window, uj})
			window = 0
		}
		return nil
	})
}
