package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/joulemark/joulemark/run"
)

// marksSource is the mark source that imported lines come from.
const marksSource = "marks"

// readMarks reads a file of marks: a host time in seconds, a tab or space, and
// the line as received. Blank lines and lines that begin with # are passed
// over. It calls line, if not nil, for each, and returns their count and range.
func (j *job) readMarks(line func(hostNs int64, text []byte) error) (n, firstNs, lastNs int64, err error) {
	l, err := openLines(j.ctx, os.Stat, os.Open, j.Marks, j.Marks)
	if err != nil {
		return 0, 0, 0, err
	}
	defer l.close()
	firstNs, lastNs = math.MaxInt64, math.MinInt64
	for {
		b, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, 0, err
		}
		trimmed := bytes.TrimLeft(b, " \t")
		if len(trimmed) == 0 || trimmed[0] == '#' {
			continue
		}
		stamp, text := trimmed, []byte(nil)
		if i := bytes.IndexAny(trimmed, "\t "); i >= 0 {
			stamp, text = trimmed[:i], trimmed[i+1:]
		}
		at := len(b) - len(trimmed) + 1
		d, err := scanDecimal(stamp)
		if err != nil || d.point == ',' {
			return 0, 0, 0, posError(l.name, l.line, at, "%q is no host time in seconds; a line is a time, a tab or space, and the line as received", clip(stamp))
		}
		ns, err := d.nanos(0)
		if err != nil {
			return 0, 0, 0, posError(l.name, l.line, at, "time %q %v", clip(stamp), err)
		}
		n++
		firstNs, lastNs = min(firstNs, ns), max(lastNs, ns)
		if line != nil {
			if err := line(ns, text); err != nil {
				return 0, 0, 0, err
			}
		}
	}
	if n == 0 {
		return 0, 0, 0, fmt.Errorf("%s: holds no lines", l.name)
	}
	return n, firstNs, lastNs, nil
}

// importMarks writes every line of the marks file, if there is one, as
// evidence. baseNs is the host time of the run's start on the clock of marks
// and samples, firstNs and lastNs the range of the samples on it. It returns
// the host time of the last line since the run's start.
func (j *job) importMarks(baseNs, firstNs, lastNs int64) (int64, error) {
	if j.Marks == "" {
		return 0, nil
	}
	n, from, to, err := j.readMarks(nil)
	if err != nil {
		return 0, err
	}
	if to < firstNs || from > lastNs {
		return 0, fmt.Errorf("%s: marks from %s s to %s s and samples from %s s to %s s do not overlap; both must count on one clock (since 1970, or since one start)",
			j.Marks, seconds(from), seconds(to), seconds(firstNs), seconds(lastNs))
	}
	_, _, _, err = j.readMarks(func(ns int64, text []byte) error {
		if bytes.Contains(text, []byte("@jm ")) {
			j.summary.Statements++
		}
		return j.w.Line(run.Line{HostNs: ns - baseNs, Source: marksSource, Text: text})
	})
	j.summary.Lines = n
	return to - baseNs, err
}
