package imports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/sync/mark"
)

// Tables without power cannot become a run: no joule follows from a latency or
// a count of cycles. They are recognised, so that the refusal can say what they
// hold and what would help.

// pqm4 is the summary of the pqm4 project's benchmarks: blocks titled Speed
// Evaluation, Memory Evaluation and so on. Source: mupq/pqm4, benchmarks.csv.
var pqm4 = Format{
	Name:    "pqm4",
	Summary: "benchmarks.csv of pqm4: recognised, and refused: cycles without power",
	Detect: func(head []byte, path string) string {
		if checkText(path, head) == nil && bytes.Contains(head, []byte("Speed Evaluation")) && bytes.Contains(head, []byte("[cycles]")) {
			return "Speed Evaluation with columns of [cycles]"
		}
		return ""
	},
	Import: func(j *job) error {
		return fmt.Errorf("%s: holds cycles, bytes and shares of hashing by scheme, but no power: no joule follows from it; run the scheme on a target beside a meter (joulemark run), and compare the latencies", j.Samples)
	},
	noEdges: true,
}

// consoleLog is what the firmware of dk379x/pqc-embedded-evaluation prints. It
// holds latencies; with a trigger pin recorded beside it, it names the pulses
// (--edges pin=d0,names=FILE).
var consoleLog = Format{
	Name:    "pqc-console",
	Summary: "console of pqc-embedded-evaluation: recognised, and refused alone: latencies without power; names pulses in --edges",
	Detect: func(head []byte, path string) string {
		if checkMagic(path, head) != nil {
			return ""
		}
		for line := range bytes.Lines(head) {
			if bytes.Contains(line, []byte("CSV,kind,alg,op,run,time_us")) {
				return "the line CSV,kind,alg,op,run,time_us"
			}
			if c, ok := parseConsole(line); ok {
				return fmt.Sprintf("a latency of %s %s", c.alg, c.op)
			}
		}
		return ""
	},
	Import: func(j *job) error {
		log, err := j.readConsole(j.Samples)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s: holds the latencies of %d operations (%s), but no power: no joule follows from it; where a PPK2 recorded the trigger pin, import that with --edges pin=d0,names=%s",
			j.Samples, len(log.rows), operations(log.rows), j.Samples)
	},
	noEdges: true,
}

// consoleRow is one operation of a console log.
type consoleRow struct {
	alg, op string
	us      float64
}

// consoleFields is how many fields the header and a line of results have. Lines
// of sizes and summaries have one more: what stands behind their third field is
// one column too far right by the header.
const consoleFields = 15

// sizesAt is the place of pk_bytes, sk_bytes, ct_bytes, ss_bytes in the header.
const sizesAt = 10

// parseSizes reads a line of sizes, CSV,sizes,ALG,,,,,,,,,pk,sk,ct,ss, and puts
// the columns right. For signatures ct is the signature, ss the message.
func parseSizes(line []byte) (alg, sizes string, ok bool) {
	i := bytes.Index(line, []byte("CSV,sizes,"))
	if i < 0 {
		return "", "", false
	}
	f := strings.Split(strings.TrimRight(string(line[i:]), " \t\r\n"), ",")
	shift := len(f) - consoleFields
	if shift != 0 && shift != 1 || f[2] == "" {
		return "", "", false
	}
	for k, name := range []string{"pk", "sk", "ct", "ss"} {
		text := f[sizesAt+shift+k]
		if n, err := strconv.ParseUint(text, 10, 32); err == nil && n > 0 {
			sizes += fmt.Sprintf("%s=%d ", name, n)
		} else if text != "" && err != nil {
			return "", "", false
		}
	}
	return f[2], strings.TrimSpace(sizes), sizes != ""
}

// parseConsole reads a line of the log,
//
//	CSV,result,ML-DSA-65,sign,0,123456,h0,h1,d,lf,,,,,0
//	  SLH-DSA-SHA2-128s sign   run=000    12345.678 ms heap=.. (d=0) largest=..
//
// of an operation that succeeded; false for every other one. A log prefix may
// stand before it. Source: dk379x/pqc-embedded-evaluation.
func parseConsole(line []byte) (consoleRow, bool) {
	if i := bytes.Index(line, []byte("CSV,result,")); i >= 0 {
		f := strings.Split(strings.TrimRight(string(line[i:]), " \t\r\n"), ",")
		if len(f) != consoleFields || f[14] != "0" && f[14] != "" {
			return consoleRow{}, false
		}
		us, err := strconv.ParseFloat(f[5], 64)
		return consoleRow{f[2], consoleOp(f[3]), us}, err == nil && us > 0 && us < 1e12 && f[2] != "" && f[3] != ""
	}
	f := strings.Fields(string(line))
	for i := 2; i+2 < len(f); i++ {
		if strings.HasPrefix(f[i], "run=") && f[i+2] == "ms" {
			ms, err := strconv.ParseFloat(f[i+1], 64)
			return consoleRow{f[i-2], consoleOp(f[i-1]), ms * 1e3}, err == nil && ms > 0 && ms < 1e9
		}
	}
	return consoleRow{}, false
}

// consoleOp gives an operation the name that it has everywhere else.
func consoleOp(op string) string {
	switch op {
	case "encap":
		return "encaps"
	case "decap":
		return "decaps"
	}
	return op
}

// maxConsoleRows bounds the operations of a log.
const maxConsoleRows = 1_000_000

// console is what a log says.
type console struct {
	rows  []consoleRow
	sizes map[string]string // bytes of keys and so on, by algorithm
}

// maxConsoleSizes bounds the algorithms whose sizes are kept.
const maxConsoleSizes = 256

// readConsole reads a log.
func (j *job) readConsole(path string) (*console, error) {
	l, err := openWire(j.ctx, path)
	if err != nil {
		return nil, err
	}
	defer l.close()
	c := &console{sizes: map[string]string{}}
	for {
		b, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if r, ok := parseConsole(b); ok {
			if len(c.rows) == maxConsoleRows {
				return nil, posError(path, l.line, 0, "more than %d operations", maxConsoleRows)
			}
			c.rows = append(c.rows, r)
		}
		if alg, sizes, ok := parseSizes(b); ok && len(c.sizes) < maxConsoleSizes {
			c.sizes[alg] = sizes
		}
	}
	if len(c.rows) == 0 {
		return nil, fmt.Errorf("%s: holds no operation (CSV,result,ALG,OP,RUN,TIME_US,... or ALG OP run=N T ms)", path)
	}
	return c, nil
}

// operations lists the different operations of a log.
func operations(rows []consoleRow) string {
	var names []string
	for _, r := range rows {
		if name := r.alg + " " + r.op; !slices.Contains(names, name) {
			if len(names) == 8 {
				names = append(names, "...")
				break
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// pulse is a time for which the trigger was active, ns since the first sample.
type pulse struct {
	fromNs, toNs int64
	op           mark.Op
}

// namePulses names pulses by a log of what ran, in order: each operation takes
// the next pulse of its length. Pulses between them (warm-ups, operations that
// the log leaves out) stay without a name and are left out.
func (j *job) namePulses(pulses []pulse, path string) (named []pulse, err error) {
	log, err := j.readConsole(path)
	if err != nil {
		return nil, err
	}
	if len(log.sizes) > 0 {
		env := map[string]string{}
		for alg, sizes := range log.sizes {
			env["bytes of "+alg] = sizes
		}
		if err := j.w.Env(env); err != nil {
			return nil, err
		}
	}
	rows, k := log.rows, 0
	for i, r := range rows {
		for k < len(pulses) && !j.lasts(pulses[k], r.us*1e3) {
			k++
		}
		if k == len(pulses) {
			return nil, fmt.Errorf("%s: operation %d, %s %s, took %g µs, and no pulse of that length is left (%d operations, %d pulses): log and recording do not belong together, or either lacks something",
				path, i+1, r.alg, r.op, r.us, len(rows), len(pulses))
		}
		p := pulses[k]
		p.op = mark.Op{Alg: r.alg, Op: r.op}
		named = append(named, p)
		k++
	}
	j.log(fmt.Sprintf("%s: names %d of %d pulses", path, len(named), len(pulses)))
	return named, nil
}

const (
	// pulseShare and pulseNs are how much longer or shorter a pulse may be than
	// the time in the log: the clocks differ little, but reading the clock and
	// moving the pin take time.
	pulseShare = 0.02
	pulseNs    = 50e3
)

func (j *job) lasts(p pulse, ns float64) bool {
	off := float64(p.toNs-p.fromNs) - ns
	tolerance := pulseShare*ns + pulseNs + 2*j.samplePeriodNs()
	return off < tolerance && off > -tolerance
}
