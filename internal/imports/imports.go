// Package imports makes runs from the files of other tools.
//
// A format is one file of this package: a Format value, listed in Formats.
// Whatever is read is streamed and never trusted: a line holds at most 64 KiB,
// a block of samples 4,096 rows, so that memory stays flat (below 64 MiB with
// what the run's writer holds back) whatever the size of the input.
package imports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// Options says what to import, and to where.
type Options struct {
	From    string       // name of a format; "" to detect it
	Samples string       // file of samples, or the folder of an energyrunner recording
	Also    []string     // further files of the same recording, each of one channel
	Marks   string       // file of marks beside the samples; "" for none
	Edges   *EdgeOptions // levels of a pin beside the samples; nil for none
	// Accuracy is what the user knows of the meter, if AccuracyGiven;
	// otherwise it is unknown.
	Accuracy      meters.Accuracy
	AccuracyGiven bool
	Out           string  // folder of the run, which must not exist
	RateHz        float64 // sample rate of a file without a time column; 0 otherwise
	Volts         float64 // voltage of a recording of current alone, V; 0 otherwise
	Count         int64   // operations of each window where the files do not say; 0 where not stated
	Tool          string  // program and version, for the run's header
}

// Summary says what was imported.
type Summary struct {
	Format     string     `json:"format"`
	Saw        string     `json:"saw"` // why the format was taken
	Run        string     `json:"run"`
	Samples    int64      `json:"samples"`
	RateHz     float64    `json:"rate_hz"` // 0 where samples carry times of their own
	Seconds    float64    `json:"seconds"` // of sample time, from the first sample to the last
	Lines      int64      `json:"lines"`
	Statements int64      `json:"statements"` // lines that hold "@jm "
	Windows    int64      `json:"windows"`
	Notes      []run.Note `json:"notes"`
}

// Format is one kind of files of another tool.
type Format struct {
	Name    string
	Summary string
	// Detect says what it saw of this format in the head of a file (empty for
	// a folder) at path; "" if it is another format.
	Detect func(head []byte, path string) string
	Import func(j *job) error
	// manyFiles says that a recording may be several files.
	manyFiles bool
	// noEdges says that edges cannot stand beside a recording: it brings its
	// own, or its samples are tied to the host's clock by arrivals only.
	noEdges bool
}

// Formats lists the formats, the ones that are recognised most surely first.
var Formats = []Format{energyRunner, fnirsi, ppk2, otii, joulescope, rdUSB, pqcEnergyPi, energiBridge, pyRAPL, raplTable, perfStat, pqcLEO, pqm4, consoleLog, csvFormat, cfn, wtm}

// headBytes is how much of a file Detect sees.
const headBytes = 4096

// job is one import under way.
type job struct {
	Options
	ctx     context.Context
	log     func(string)
	w       *run.Writer // nil until create
	marks   marksRange
	baseNs  int64     // time of host_ns 0 on the clock of the samples
	watched *levelsOf // levels of the pin of the samples that Edges names; nil where they have none
	joined  *channel  // the volts, where they are in a file of their own
	summary Summary
}

// Import writes a run at o.Out from the files of another tool, and tells log
// what it sees and passes over. On any error nothing is left at o.Out. An
// existing o.Out is refused with an error that wraps fs.ErrExist.
func Import(ctx context.Context, o Options, log func(string)) (Summary, error) {
	j := &job{Options: o, ctx: ctx, log: log}
	if j.log == nil {
		j.log = func(string) {}
	}
	if err := j.run(); err != nil {
		if j.w != nil {
			err = errors.Join(err, j.w.Abandon())
		}
		return Summary{}, fmt.Errorf("import %w", err)
	}
	return j.summary, nil
}

func (j *job) run() error {
	if j.Out == "" {
		return fmt.Errorf("%s: no output named", j.Samples)
	}
	if _, err := os.Lstat(j.Out); err == nil {
		return fmt.Errorf("%s: output %s: %w; name another one", j.Samples, j.Out, fs.ErrExist)
	}
	if j.RateHz != 0 && !(j.RateHz > 0 && j.RateHz <= maxRateHz) {
		return fmt.Errorf("%s: rate of %g Hz is not between 0 and %g Hz", j.Samples, j.RateHz, maxRateHz)
	}
	if j.Volts != 0 && !(j.Volts > 0 && j.Volts <= maxStatedVolts) {
		return fmt.Errorf("%s: a stated voltage of %g V is not between 0 and %g V", j.Samples, j.Volts, maxStatedVolts)
	}
	format, err := j.pick()
	if err != nil {
		return err
	}
	j.summary.Format, j.summary.Run = format.Name, j.Out
	if len(j.Also) > 0 && !format.manyFiles {
		return fmt.Errorf("%s: a recording of format %s is one file; leave %s out", j.Samples, format.Name, strings.Join(j.Also, ", "))
	}
	if j.Edges != nil && format.noEdges {
		return fmt.Errorf("%s: a recording of format %s takes no edges beside it", j.Samples, format.Name)
	}
	if j.Marks != "" { // before a long import, not after it
		if j.marks, err = j.readMarks(nil); err != nil {
			return err
		}
	}
	if err := format.Import(j); err != nil {
		return err
	}
	if !j.AccuracyGiven {
		j.log("the accuracy of the meter is not known, so there will be no total intervals; state it with --accuracy v=0.5%+20uV,a=0.5%+20uA")
	}
	return nil
}

// maxRateHz bounds sample rates: a period is at least the nanosecond in which
// times are kept.
const maxRateHz = 1e9

// maxStatedVolts bounds voltages that are stated: extra low voltage ends at
// 120 V DC (IEC 61140).
const maxStatedVolts = 120.0

// pick returns the format asked for, or else the one detected.
func (j *job) pick() (Format, error) {
	head, err := readHead(j.Samples)
	if err != nil {
		return Format{}, err
	}
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
		if j.From == f.Name {
			j.summary.Saw = "asked for"
			return f, nil
		}
		if j.From != "" {
			continue
		}
		if saw := f.Detect(head, j.Samples); saw != "" {
			j.summary.Saw = saw
			j.log(fmt.Sprintf("%s: format %s: %s", j.Samples, f.Name, saw))
			return f, nil
		}
	}
	if j.From != "" {
		return Format{}, fmt.Errorf("%s: unknown format %q (known: %s)", j.Samples, j.From, strings.Join(names, ", "))
	}
	if head == nil {
		return Format{}, fmt.Errorf("%s: a folder without a file *%s; name the file of samples", j.Samples, energySuffix)
	}
	if err := checkText(j.Samples, head); err != nil {
		return Format{}, err
	}
	return Format{}, fmt.Errorf("%s: none of the known formats (%s): %s", j.Samples, strings.Join(names, ", "), firstLineHint(head))
}

func firstLineHint(head []byte) string {
	line, _, _ := strings.Cut(string(head), "\n")
	if len(line) > 60 {
		line = line[:60] + "..."
	}
	return fmt.Sprintf("it begins with %q; %s", strings.TrimSpace(line), exampleHeader)
}

// readHead returns the first bytes of a file, none for a folder.
func readHead(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, nil
	}
	f, err := openRegular(os.Stat, os.Open, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headBytes)
	n, err := f.ReadAt(head, 0)
	if n == 0 {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return head[:n], nil
}

// create begins the run. started is the wall-clock time of host_ns 0, RFC
// 3339, "" where it is not known.
func (j *job) create(started string) error {
	w, err := run.Create(j.Out, run.Header{
		Schema: run.Schema, Tool: j.Tool, Name: runName(j.Out), Started: started, From: j.summary.Format,
	}, run.Options{})
	j.w = w
	return err
}

// startAt begins the run at the time of its first sample: at the whole second
// before it, where that counts from 1970. A clock that is local says nothing of
// when.
func (j *job) startAt(firstNs int64, local bool) error {
	if firstNs < epochNs {
		return j.create("")
	}
	j.baseNs = firstNs - firstNs%int64(time.Second)
	started := ""
	if !local {
		started = time.Unix(0, j.baseNs).UTC().Format(time.RFC3339)
	}
	return j.create(started)
}

// end adds the marks and closes the run; firstNs and lastNs bound the samples
// on their own clock.
func (j *job) end(firstNs, lastNs int64) error {
	endNs, err := j.importMarks(j.baseNs, firstNs, lastNs)
	if err == nil {
		err = j.importEdges(firstNs)
	}
	if err != nil {
		return err
	}
	return j.finish(max(endNs, lastNs-j.baseNs))
}

// runName makes a name for a run of the last part of its path.
func runName(path string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(path))
	name = strings.TrimLeft(name, "._-")
	if name == "" {
		return "run"
	}
	return name[:min(len(name), 64)]
}

// streamName is the name of the one stream of an imported run.
const streamName = "meter"

// info completes what is known of the meter of every import. Values are kept
// as float64, exactly as the file has them.
func (j *job) info(i meters.Info) meters.Info {
	i.Stream, i.Driver, i.Wide = streamName, j.summary.Format, true
	if j.AccuracyGiven {
		i.Accuracy = j.Accuracy
	}
	return i
}

// note records a remark in the run and in the summary.
func (j *job) note(n run.Note) error {
	j.summary.Notes = append(j.summary.Notes, n)
	j.log(n.Text)
	return j.w.Note(n)
}

// finish closes the run at the host time of its last evidence.
func (j *job) finish(hostNs int64) error {
	return j.w.Close("done", hostNs)
}

// block collects samples until there are enough of them for a write.
type block struct {
	s *run.Stream
	b meters.Block
	n int64 // samples written and pending
}

const blockRows = 4096

func newBlock(s *run.Stream, columns int, times bool) *block {
	b := &block{s: s, b: meters.Block{ArrivalNs: -1, Values: make([][]float64, columns)}}
	for i := range b.b.Values {
		b.b.Values[i] = make([]float64, 0, blockRows)
	}
	if times {
		b.b.TimesNs = make([]int64, 0, blockRows)
	}
	return b
}

// add appends one sample.
func (b *block) add(values []float64) {
	for i, v := range values {
		b.b.Values[i] = append(b.b.Values[i], v)
	}
	b.n++
}

// flush writes what is pending; arrivalNs is negative where it is not known.
func (b *block) flush(arrivalNs int64) error {
	if b.b.Len() == 0 {
		return nil
	}
	b.b.ArrivalNs = arrivalNs
	if err := b.s.Write(b.b); err != nil {
		return err
	}
	for i := range b.b.Values {
		b.b.Values[i] = b.b.Values[i][:0]
	}
	b.b.TimesNs = b.b.TimesNs[:0]
	return nil
}

// have prints "1 sample has" or "2 samples have".
func have(n int64, what string) string {
	if n == 1 {
		return "1 " + what + " has"
	}
	return fmt.Sprintf("%d %ss have", n, what)
}

// seconds prints a time in ns as seconds, without losing digits.
func seconds(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	whole, frac := uint64(ns)/1e9, uint64(ns)%1e9
	s := strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, whole, frac), "0")
	return strings.TrimRight(s, ".")
}

// plausible bounds every voltage, current and power that is accepted, in base
// units: beyond it a unit or a number is wrong.
const plausible = 1e6

func implausible(v float64) bool { return math.Abs(v) > plausible }
