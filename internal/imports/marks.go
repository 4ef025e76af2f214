package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/joulemark/joulemark/run"
)

// marksSource is the mark source that imported lines come from.
const marksSource = "marks"

// readMarks reads a file of marks: a host time in seconds, a tab or space, and
// the line as received. Blank lines and lines that begin with # are passed
// over. It calls line, if not nil, for each.
func (j *job) readMarks(line func(hostNs int64, text []byte) error) (marksRange, error) {
	m := marksRange{firstNs: math.MaxInt64, lastNs: math.MinInt64}
	l, err := openWire(j.ctx, j.Marks)
	if err != nil {
		return m, err
	}
	defer l.close()
	for {
		b, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return m, err
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
			return m, posError(l.name, l.line, at, "%q is no host time in seconds; a line is a time, a tab or space, and the line as received", clip(stamp))
		}
		ns, err := d.nanos(0)
		if err != nil {
			return m, posError(l.name, l.line, at, "time %q %v", clip(stamp), err)
		}
		m.lines++
		m.firstNs, m.lastNs = min(m.firstNs, ns), max(m.lastNs, ns)
		if line != nil {
			if err := line(ns, text); err != nil {
				return m, err
			}
		}
	}
	if m.lines == 0 {
		return m, fmt.Errorf("%s: holds no lines", l.name)
	}
	return m, nil
}

// marksRange is what a pass over a file of marks finds.
type marksRange struct{ lines, firstNs, lastNs int64 }

// importMarks writes every line of the marks file, if there is one, as
// evidence. baseNs is the host time of the run's start on the clock of marks
// and samples, firstNs and lastNs the range of the samples on it. It returns
// the host time of the last line since the run's start.
func (j *job) importMarks(baseNs, firstNs, lastNs int64) (int64, error) {
	if j.Marks == "" {
		return 0, nil
	}
	m := j.marks
	if m.lastNs < firstNs || m.firstNs > lastNs {
		return 0, fmt.Errorf("%s: marks from %s s to %s s and samples from %s s to %s s do not overlap; both must count on one clock (since 1970, or since one start)",
			j.Marks, seconds(m.firstNs), seconds(m.lastNs), seconds(firstNs), seconds(lastNs))
	}
	_, err := j.readMarks(func(ns int64, text []byte) error {
		if bytes.Contains(text, []byte("@jm ")) {
			j.summary.Statements++
		}
		return j.w.Line(run.Line{HostNs: ns - baseNs, Source: marksSource, Text: text})
	})
	j.summary.Lines += m.lines
	return m.lastNs - baseNs, err
}
