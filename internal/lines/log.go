package lines

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// espIDFLog reads logs of firmware that says when it begins and ends, such as
// those of ESP-IDF:
//
//	I (5432) bench: begin ML-DSA-44 sign n=100
//	I (9876) bench: end
//
// The milliseconds of the log are not used: they may step by 10 ms.
var espIDFLog = Adapter{
	Name: "esp-idf-log", Summary: "a log whose lines say begin and end, found by regular expressions",
	Options: []Option{
		{"begin", `(?:^|: )begin (?P<alg>\S+) (?P<op>\S+)(?: n=(?P<n>\d+))?\s*$`, "what begins a window; groups named alg, op and n say what runs in it"},
		{"end", `(?:^|: )end(?: (?P<alg>[^\s=]+) (?P<op>[^\s=]+))?(?: n=(?P<n>\d+))?\s*$`, "what ends it; its groups must not contradict those of the begin, n is the last one stated"},
		{"alg", "", "the algorithm, where no group says it"},
		{"op", "run", "the operation, where no group says it"},
		{"n", "1", "operations in a window, where no group says it"},
	},
	New: newLog,
}

type log struct {
	*scribe
	begin, end *regexp.Regexp
	alg, op    string
	n          int64
	open       bool
	now        mark.Op
	count      int64
	fromNs     int64
}

func newLog(c Config) (Machine, error) {
	l := &log{scribe: newScribe("esp-idf-log", c), alg: c.Options["alg"], op: c.Options["op"], n: count(c.Options["n"])}
	var err error
	if l.begin, err = pattern(c, "begin"); err != nil {
		return nil, err
	}
	if l.end, err = pattern(c, "end"); err != nil {
		return nil, err
	}
	switch {
	case !isNumber(c.Options["n"], false) || l.n < 1:
		return nil, fmt.Errorf("n=%q is not a number of operations", c.Options["n"])
	case l.op == "":
		return nil, fmt.Errorf("op= is empty")
	case l.alg == "" && !slices.Contains(append(l.begin.SubexpNames(), l.end.SubexpNames()...), "alg"):
		return nil, fmt.Errorf("nothing says the algorithm: give alg=NAME, or a group (?P<alg>...) in begin")
	}
	return l, nil
}

// pattern compiles a regular expression of the options. Go's take time linear
// in the line, so that none can hang.
func pattern(c Config, name string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(c.Options[name])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, group := range re.SubexpNames() {
		if !slices.Contains([]string{"", "alg", "op", "n"}, group) {
			return nil, fmt.Errorf("%s: group %q is none of alg, op, n", name, group)
		}
	}
	return re, nil
}

// reColour matches the colours of a log.
var reColour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Feed implements Machine.
func (l *log) Feed(line []byte, hostNs int64) []run.Line {
	out := l.raw(line, hostNs)
	if !usable(line) {
		return out
	}
	text := reColour.ReplaceAll(line, nil)
	if m := l.begin.FindSubmatch(text); m != nil {
		l.unended()
		said := groups(l.begin, m)
		l.open, l.fromNs, l.count = true, hostNs, l.n
		l.now = mark.Op{Alg: algName(cmp.Or(said["alg"], l.alg)), Op: opName(cmp.Or(said["op"], l.op))}
		l.take(said["n"])
		return out
	}
	m := l.end.FindSubmatch(text)
	if m == nil {
		return out
	}
	said := groups(l.end, m)
	if l.open && l.now.Alg == "" {
		l.now.Alg = algName(said["alg"])
	}
	ends := mark.Op{Alg: algName(cmp.Or(said["alg"], l.now.Alg)), Op: opName(cmp.Or(said["op"], l.now.Op))}
	switch {
	case !l.open:
		l.note("%s ended and never began", ends)
	case l.now.Alg == "":
		l.note("a window of no algorithm")
	case ends != l.now:
		l.note("%s began, %s ended", l.now, ends)
	default:
		l.take(said["n"])
		out = l.window(out, l.now, l.count, l.fromNs, hostNs, 0)
	}
	l.open = false
	return out
}

// take takes a stated number of operations; one that is none leaves 0, which
// makes no window.
func (l *log) take(n string) {
	switch {
	case n == "":
	case isNumber(n, false):
		l.count = count(n)
	default:
		l.count = 0
	}
}

// Close implements Machine.
func (l *log) Close() []run.Line {
	l.unended()
	return nil
}

func (l *log) unended() {
	if l.open {
		l.note("%s began and never ended", l.now)
	}
	l.open = false
}

// groups returns what the named groups of a match hold.
func groups(re *regexp.Regexp, m [][]byte) map[string]string {
	said := map[string]string{}
	for i, name := range re.SubexpNames() {
		if name != "" {
			said[name] = string(m[i])
		}
	}
	return said
}
