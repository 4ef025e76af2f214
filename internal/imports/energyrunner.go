package imports

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// energyRunner is a folder that the EEMBC runner for ULPMark-ML and MLPerf Tiny
// leaves behind (github.com/eembc/energyrunner, and the traces in
// github.com/mlcommons/tiny_results_*):
//
//	trace1-energy.bin       u8 version (F1), f32 sample rate in Hz, then f32 energy
//	                        of each sample in µJ, little-endian. (A driver's page
//	                        says joules; only µJ give the published results.)
//	trace1-timestamps.json  seconds of the falling edges of the target's trigger pin
//	log.txt                 what runner, meter and target said, with host seconds
//	results.txt             what the runner made of it; compared, never used
//
// Counted from 0, edges N-1 and N bound the runner's window N, and windows 2, 4,
// 6, ... are those of the inferences. The energy of a window is the sum over
// the samples i with edge N-1 <= t_i < edge N, where t_i is 1/rate added up i
// times in double precision; that gives the runner's results to the last digit,
// where rounding edge x rate does not.
var energyRunner = Format{
	Name:    "energyrunner",
	Summary: "a folder of the EEMBC/MLPerf Tiny energy runner (*-energy.bin, *-timestamps.json, log.txt)",
	Detect: func(head []byte, path string) string {
		if strings.HasSuffix(path, energySuffix) {
			return "a file *" + energySuffix
		}
		if len(head) > 0 {
			return ""
		}
		names, err := filepath.Glob(filepath.Join(globEscape(path), "*"+energySuffix))
		if err != nil || len(names) == 0 {
			return ""
		}
		return "a folder with " + filepath.Base(names[0])
	},
	Import:  importEnergyRunner,
	noEdges: true,
}

const (
	energySuffix = "-energy.bin"
	edgesSuffix  = "-timestamps.json"
	traceVersion = 0xF1

	maxEdges     = 1000    // of one trace; the runner makes 11
	maxEdgesFile = 1 << 20 // bytes
	// logTolerance is how far, in seconds, the log may stand from the edges:
	// its stamps are those of lines arriving over two serial ports, and differ
	// by up to 0.12 s in the published traces.
	logTolerance = 0.25
)

// globEscape takes the meaning from the characters that Glob knows.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// trace is a recording of the runner.
type trace struct {
	*job
	root  *os.Root // its folder; nothing outside is read
	dir   string
	names struct{ energy, edges, log, results string }

	version  byte
	rateHz   float64
	samples  int64
	trailing int64 // bytes behind the last whole sample

	edges   []float64 // seconds since the first sample
	log     runnerLog
	results []official

	// What the pass over the samples finds of each edge: the first sample at or
	// after it, the µJ before that sample, and the larger µJ of the two beside
	// the edge.
	index  []int64
	before []float64
	beside []float64
	holes  int64
}

func importEnergyRunner(j *job) error {
	if j.Marks != "" {
		return fmt.Errorf("%s: an energyrunner folder brings its own marks; leave --marks out", j.Samples)
	}
	if j.RateHz != 0 {
		return fmt.Errorf("%s: an energyrunner trace states its rate; leave --rate out", j.Samples)
	}
	x := &trace{job: j, dir: j.Samples}
	if strings.HasSuffix(x.dir, energySuffix) {
		x.names.energy = filepath.Base(x.dir)
		x.dir = filepath.Dir(x.dir)
	}
	root, err := os.OpenRoot(x.dir)
	if err != nil {
		return fileError(x.dir, err)
	}
	defer root.Close()
	x.root = root
	if err := x.findFiles(); err != nil {
		return err
	}
	f, err := x.openEnergy()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := x.readEdges(); err != nil {
		return err
	}
	if x.names.log != "" {
		if err := x.readLog(); err != nil {
			return err
		}
	}
	if x.names.results != "" {
		// The results are only compared: a recording is whole without them.
		if err := x.readResults(); err != nil {
			x.log.notes = append(x.log.notes, run.Note{Code: "results-unread", Count: 1, Text: err.Error()})
		}
	}
	return x.write(f)
}

// path names a file of the folder in messages.
func (x *trace) path(name string) string { return filepath.Join(x.dir, name) }

// findFiles finds the files of the one trace in the folder.
func (x *trace) findFiles() error {
	entries, err := fs.ReadDir(x.root.FS(), ".")
	if err != nil {
		return fileError(x.dir, err)
	}
	var energies, logs []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasSuffix(name, energySuffix):
			energies = append(energies, name)
		case name == "results.txt":
			x.names.results = name
		case strings.HasSuffix(name, "log.txt"):
			logs = append(logs, name)
		}
	}
	if x.names.energy == "" {
		if len(energies) != 1 {
			return fmt.Errorf("%s: holds %d files *%s, want one; name the one to import", x.dir, len(energies), energySuffix)
		}
		x.names.energy = energies[0]
	}
	x.names.edges = strings.TrimSuffix(x.names.energy, energySuffix) + edgesSuffix
	switch {
	case slices.Contains(logs, "log.txt"):
		x.names.log = "log.txt"
	case len(logs) == 1:
		x.names.log = logs[0]
	}
	return nil
}

// openEnergy opens the samples and reads their head.
func (x *trace) openEnergy() (*os.File, error) {
	f, err := openRegular(x.root.Stat, x.root.Open, x.names.energy)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.dir, err)
	}
	if err := x.readHead(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", x.path(x.names.energy), err)
	}
	return f, nil
}

const energyHead = 5 // bytes

func (x *trace) readHead(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var head [energyHead]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return fmt.Errorf("%d bytes are no energy trace", info.Size())
	}
	x.version = head[0]
	x.rateHz = float64(math.Float32frombits(binary.LittleEndian.Uint32(head[1:])))
	x.samples = (info.Size() - energyHead) / 4
	x.trailing = (info.Size() - energyHead) % 4
	if !(x.rateHz >= 1e-3 && x.rateHz <= 1e7) {
		return fmt.Errorf("a sample rate of %g Hz: this is no energy trace", x.rateHz)
	}
	if x.samples == 0 {
		return errors.New("holds no samples")
	}
	return nil
}

// readEdges reads the edges of the trigger pin.
func (x *trace) readEdges() error {
	f, err := openRegular(x.root.Stat, x.root.Open, x.names.edges)
	if err != nil {
		return fmt.Errorf("%s: %w", x.dir, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEdgesFile+1))
	if err != nil {
		return fileError(x.path(x.names.edges), err)
	}
	if x.edges, err = parseEdges(b); err != nil {
		return fmt.Errorf("%s: %w", x.path(x.names.edges), err)
	}
	return nil
}

// parseEdges reads a JSON array of seconds, which must rise.
func parseEdges(b []byte) ([]float64, error) {
	if len(b) > maxEdgesFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxEdgesFile)
	}
	var edges []float64
	if err := json.Unmarshal(bytes.TrimPrefix(b, []byte(utf8BOM)), &edges); err != nil {
		return nil, fmt.Errorf("is no JSON array of seconds: %w", err)
	}
	if len(edges) > maxEdges {
		return nil, fmt.Errorf("holds %d edges, at most %d are read", len(edges), maxEdges)
	}
	for i, s := range edges {
		if s < 0 || s > 1e7 {
			return nil, fmt.Errorf("edge %d at %g s is not within a recording", i+1, s)
		}
		if i > 0 && s <= edges[i-1] {
			return nil, fmt.Errorf("edge %d at %g s is not after edge %d at %g s", i+1, s, i, edges[i-1])
		}
	}
	return edges, nil
}

// measured is a window of inferences: its number as the runner counts, so that
// it lies between edges number-1 and number, counted from 0; how many there
// were; and by which command of the log, from 0.
type measured struct {
	number  int
	n       int64
	command int
}

// windows finds the windows of the inferences and their counts, and says in
// notes where it departs from the runner's rule or leaves something out.
func (x *trace) windows() ([]measured, []run.Note, error) {
	var notes []run.Note
	warn := func(code, format string, args ...any) {
		notes = append(notes, run.Note{Code: code, Count: 1, Warn: true, Text: fmt.Sprintf(format, args...)})
	}
	if edges := x.log.lapEdges; len(edges) > 0 && x.lapsReplaceEdges() {
		warn("edges-from-log", "%s holds %d edges; the %d that the meter logged (m-lap-us) stand for them", x.names.edges, len(x.edges), len(edges))
		x.edges = edges
	}
	rule := (len(x.edges) - 1) / 2 // windows 2, 4, 6, ...
	if rule < 1 {
		return nil, nil, fmt.Errorf("%s: %d edges bound no window of inferences", x.path(x.names.edges), len(x.edges))
	}
	matched := x.log.match(x.edges)
	if x.regular(matched, rule) {
		ws, err := x.byRule(rule)
		return ws, notes, err
	}
	if len(matched) == 0 {
		if len(x.log.inferences) > 0 {
			warn("log-differs", "the inferences in %s do not fit the edges; windows 2, 4, 6, ... were taken as the runner takes them", x.names.log)
		}
		ws, err := x.byRule(rule)
		return ws, notes, err
	}
	if ws, err := x.byRule(rule); err == nil {
		notes = append(notes, run.Note{Code: "edges-missed", Count: 1, Warn: true, Void: true, Text: fmt.Sprintf(
			"a trigger edge is missing, or there is one too many: windows 2, 4, 6, ... to %d were taken as the runner takes them, but by %s the inferences lie in windows %s",
			2*rule, x.names.log, numbers(matched))})
		return ws, notes, nil
	}
	warn("edges-missed", "a trigger edge is missing, or there is one too many: by %s the inferences lie in windows %s, and those were taken; the runner takes 2, 4, 6, ... to %d",
		x.names.log, numbers(matched), 2*rule)
	if n := len(x.log.inferences); n > len(matched) {
		warn("inferences-unbounded", "%d of %d inference commands in %s have no pair of edges and were left out", n-len(matched), n, x.names.log)
	}
	return matched, notes, nil
}

// regular reports whether the log bears out the runner's rule: as many
// commands as windows, and none, of at least half that could be placed, in
// another window than its own. (A line that arrived late places none.)
func (x *trace) regular(matched []measured, rule int) bool {
	if len(x.log.inferences) != rule || 2*len(matched) < rule {
		return false
	}
	for _, m := range matched {
		if m.number != 2*m.command+2 {
			return false
		}
	}
	return true
}

// lapsReplaceEdges reports whether the edges that the meter logged to the
// microsecond are better than those in the file: where the file lacks some, or
// has so few digits that they miss by half a sample.
func (x *trace) lapsReplaceEdges() bool {
	laps := x.log.lapEdges
	if len(laps) != len(x.edges) {
		return len(laps) > len(x.edges)
	}
	for i, s := range laps {
		if math.Abs(s-x.edges[i]) > 0.5/x.rateHz {
			return true
		}
	}
	return false
}

// byRule takes windows 2, 4, 6, ...; their counts must be known without doubt.
func (x *trace) byRule(rule int) ([]measured, error) {
	counts := x.log.counts()
	ws := make([]measured, rule)
	for i := range ws {
		ws[i].number = 2*i + 2
		switch {
		case len(counts) == rule:
			ws[i].n = counts[i]
		case len(slices.Compact(slices.Clone(counts))) == 1:
			ws[i].n = counts[0]
		case len(counts) > 0:
			return nil, fmt.Errorf("%s: %d windows, but %d inference commands of different counts in %s: which belongs to which is not known", x.dir, rule, len(counts), x.names.log)
		case x.log.iterInfer > 0:
			ws[i].n = x.log.iterInfer
		default:
			return nil, fmt.Errorf("%s: how many inferences a window holds is not known; put the log.txt of this recording (with its lines m-infer-start-N) into the folder", x.dir)
		}
	}
	return ws, nil
}

func numbers(ws []measured) string {
	var s []string
	for _, w := range ws {
		s = append(s, fmt.Sprint(w.number))
	}
	return strings.Join(s, ", ")
}

// write makes the run.
func (x *trace) write(f *os.File) error {
	windows, notes, err := x.windows()
	if err != nil {
		return err
	}
	if err := x.create(""); err != nil {
		return err
	}
	s, err := x.w.Stream(x.info(meters.Info{
		Model: x.log.meter(), Columns: []string{meters.Watts}, RateHz: x.rateHz, Sample: meters.Mean,
		Clock: meters.Shared, FirstHostNs: x.log.traceNs(),
	}))
	if err != nil {
		return err
	}
	if err := x.copySamples(f, s); err != nil {
		return err
	}
	alg := x.log.alg()
	if alg == "" {
		alg = "unknown"
		notes = append(notes, run.Note{Code: "model-unknown", Count: 1, Text: "the log names no model; the operation is called unknown/infer"})
	}
	kept := 0
	for _, w := range windows {
		if x.index[w.number] < 0 {
			notes = append(notes, run.Note{Code: "window-cut", Count: 1, Warn: true, Text: fmt.Sprintf(
				"window %d (%g s to %g s) lies beyond the last sample and was left out", w.number, x.edges[w.number-1], x.edges[w.number])})
			continue
		}
		kept++
		if err := x.w.Window(run.Window{
			Stream: "meter", W: int64(w.number), Alg: alg, Op: "infer", N: w.n,
			From: float64(x.index[w.number-1]), To: float64(x.index[w.number]),
		}); err != nil {
			return err
		}
	}
	if kept == 0 {
		return fmt.Errorf("%s: the samples end before the first window does", x.path(x.names.energy))
	}
	x.summary.Windows = int64(kept)
	verdict, err := x.compare()
	if err != nil {
		return err
	}
	for _, n := range append(append(notes, x.remarks()...), verdict...) {
		if err := x.note(n); err != nil {
			return err
		}
	}
	return x.evidence()
}

// copySamples streams the energies into the run as mean powers, and finds the
// samples at the edges.
func (x *trace) copySamples(f io.Reader, s *run.Stream) error {
	r := bufio.NewReaderSize(f, 64<<10)
	b := newBlock(s, 1, false)
	x.index = slices.Repeat([]int64{-1}, len(x.edges))
	x.before = make([]float64, len(x.edges))
	x.beside = make([]float64, len(x.edges))
	edge := 0
	period, t, sum, last := 1/x.rateHz, 0.0, 0.0, 0.0
	var raw [4]byte
	for i := range x.samples {
		if i%blockRows == 0 {
			if err := x.ctx.Err(); err != nil {
				return fmt.Errorf("%s: %w", x.path(x.names.energy), err)
			}
			if err := b.flush(-1); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			return fileError(x.path(x.names.energy), err)
		}
		uj := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[:])))
		watts := uj * 1e-6 * x.rateHz
		if math.IsNaN(uj) || implausible(watts) {
			x.holes++
			uj, watts = 0, math.NaN()
		}
		for ; edge < len(x.edges) && t >= x.edges[edge]; edge++ {
			x.index[edge], x.before[edge] = i, sum
			x.beside[edge] = max(math.Abs(uj), math.Abs(last))
		}
		b.add([]float64{watts})
		sum += uj
		last = uj
		t += period
	}
	// An edge within the last sample's period closes its window there.
	for ; edge < len(x.edges) && t >= x.edges[edge]; edge++ {
		x.index[edge], x.before[edge], x.beside[edge] = x.samples, sum, math.Abs(last)
	}
	if x.holes == x.samples {
		return fmt.Errorf("%s: no sample has a value", x.path(x.names.energy))
	}
	x.summary.Samples, x.summary.RateHz = x.samples, x.rateHz
	x.summary.Seconds = float64(x.samples-1) / x.rateHz
	return b.flush(-1)
}

// remarks says what else is odd about the recording.
func (x *trace) remarks() []run.Note {
	var notes []run.Note
	if x.trailing > 0 {
		notes = append(notes, run.Note{Code: "torn-trace", Count: x.trailing, Warn: true, Text: fmt.Sprintf(
			"%s ends with %d bytes that are no whole sample: it is cut off", x.names.energy, x.trailing)})
	}
	if x.holes > 0 {
		notes = append(notes, run.Note{Code: "missing-values", Count: x.holes, Warn: true, Text: fmt.Sprintf(
			"%d samples hold no possible energy; they count as not measured", x.holes)})
	}
	return append(notes, x.log.notes...)
}

// compare holds the runner's results against the same windows of the samples.
// A trace of an unknown version is refused where they do not agree.
func (x *trace) compare() ([]run.Note, error) {
	same, worst, worstJ := 0, 0, 0.0
	var off []string
	for _, o := range x.results {
		if o.window < 1 || o.window >= len(x.edges) || x.index[o.window] < 0 {
			off = append(off, fmt.Sprint(o.window))
			continue
		}
		a, b := o.window-1, o.window
		diff := x.before[b] - x.before[a] - o.microjoules
		if math.Abs(diff) > max(x.beside[a], x.beside[b], resultStep) {
			off = append(off, fmt.Sprint(o.window))
		} else {
			same++
		}
		if math.Abs(diff) >= math.Abs(worstJ) {
			worst, worstJ = o.window, diff
		}
	}
	if x.version != traceVersion && (same == 0 || len(off) > 0) {
		return nil, fmt.Errorf("%s: version %02X of the trace format is not known (want %02X), and no results.txt confirms that its samples mean the same",
			x.path(x.names.energy), x.version, traceVersion)
	}
	var notes []run.Note
	if x.version != traceVersion {
		notes = append(notes, run.Note{Code: "trace-version", Count: 1, Warn: true, Text: fmt.Sprintf(
			"version %02X of the trace format is not known; it was read as %02X, and results.txt agrees", x.version, traceVersion)})
	}
	if len(off) > 0 {
		notes = append(notes, run.Note{Code: "results-differ", Count: int64(len(off)), Warn: true, Text: fmt.Sprintf(
			"results.txt differs by more than one sample at an edge in windows %s (at most by %.6g µJ, window %d); it is not used", strings.Join(off, ", "), worstJ, worst)})
	} else if same > 0 {
		notes = append(notes, run.Note{Code: "results-agree", Count: int64(same), Text: fmt.Sprintf(
			"the samples give the energies of all %d windows in results.txt, at most %.3g µJ off", same, math.Abs(worstJ))})
	}
	return notes, nil
}
