package lines

import (
	"strings"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// liboqsSpeed reads the table of speed_sig and speed_kem of liboqs
// (tests/ds_benchmark.h):
//
//	Operation      | Iterations | Total time (s) | Time (us): mean | pop. stdev | ...
//	ML-DSA-65      |            |                |                 |            | ...
//	keypair        |      30411 |          3.000 |          98.648 |     ...
//	sign           |      ...
//
// A row is printed when its operation has ended and the next one begins, so
// that the row before marks the begin.
var liboqsSpeed = Adapter{
	Name: "liboqs-speed", Summary: "speed_sig and speed_kem of liboqs, run under 'stdbuf -oL'",
	New: func(c Config) (Machine, error) { return &liboqs{scribe: newScribe("liboqs-speed", c)}, nil },
}

type liboqs struct {
	*scribe
	alg    string
	fromNs int64 // arrival of the row before
}

// Feed implements Machine.
func (l *liboqs) Feed(line []byte, hostNs int64) []run.Line {
	out := l.raw(line, hostNs)
	cells := strings.Split(strings.TrimRight(string(line), "\r"), "|")
	if !usable(line) || len(cells) != 7 {
		return out
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	name, iterations, total := cells[0], cells[1], cells[2]
	switch {
	case name == "":
		return out
	case iterations == "" && total == "":
		l.alg = algName(name)
	case l.alg == "" || !isNumber(iterations, false) || !isNumber(total, true):
		return out
	default:
		op, busyNs, fromNs := mark.Op{Alg: l.alg, Op: opName(name)}, seconds(total)*1e9, l.fromNs
		// The stated time is that of the operations alone. What is much longer
		// held something else, too.
		if float64(hostNs-fromNs) > 1.25*busyNs+100e6 {
			fromNs = hostNs - int64(busyNs)
		}
		out = l.window(out, op, count(iterations), fromNs, hostNs, busyNs)
	}
	l.fromNs = hostNs
	return out
}

// Close implements Machine.
func (l *liboqs) Close() []run.Line { return nil }

// isNumber reports whether text is at most 15 digits, with a point among them
// where one may be.
func isNumber(text string, point bool) bool {
	if point {
		text = strings.Replace(text, ".", "", 1)
	}
	return text != "" && len(text) <= 15 && strings.Trim(text, "0123456789") == ""
}
