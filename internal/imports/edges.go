package imports

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/mark"
)

// EdgeOptions says where the levels of a pin beside the samples are, and what
// they mean: a window is the time for which the pin is active.
type EdgeOptions struct {
	File    string // VCD or CSV of a logic analyser; "" where a pin of the samples is enough
	Channel string // of the file that bounds windows; "" for its only one
	// Sync is the channel of the file that Pin of the samples (d0 to d7) saw,
	// too; "" for Channel. OffsetSeconds is the alternative: the sample time, from
	// the first sample, at which the file begins, if HaveOffset.
	Sync          string
	Pin           string
	OffsetSeconds float64
	HaveOffset    bool
	ActiveLow     bool
	Alg, Op       string
	N             int64  // operations of a window; 0 where not stated
	Names         string // console log of the target, in the order of the pulses; "" for none
}

var edgeSetting = regexp.MustCompile(`^(.*,|)([a-z]+)=([^,]*)$`)

// ParseEdges reads FILE[,channel=NAME][,sync=NAME][,pin=d0][,offset=12.5ms]
// [,active=low][,alg=NAME][,op=NAME][,n=COUNT]
// [,names=LOG]; without a file, pin=d0 and so on.
func ParseEdges(spec string) (*EdgeOptions, error) {
	o := &EdgeOptions{File: spec, Op: "unnamed"}
	for {
		m := edgeSetting.FindStringSubmatch(o.File)
		if m == nil {
			break
		}
		if err := o.set(m[2], m[3]); err != nil {
			return nil, fmt.Errorf("edges %q: %w", spec, err)
		}
		o.File = strings.TrimSuffix(m[1], ",")
	}
	switch {
	case o.File == "" && o.Pin == "":
		return nil, fmt.Errorf("edges %q: names neither a file nor a pin of the samples (pin=d0)", spec)
	case o.File == "" && (o.Channel != "" || o.Sync != "" || o.HaveOffset):
		return nil, fmt.Errorf("edges %q: channel, sync and offset are about a file, and none is named", spec)
	case o.Names != "" && (o.Alg != "" || o.Op != "unnamed"):
		return nil, fmt.Errorf("edges %q: names= and alg= or op= both name the pulses; leave one out", spec)
	case o.Pin != "" && o.HaveOffset:
		return nil, fmt.Errorf("edges %q: pin and offset both say how file and samples go together; leave one out", spec)
	case o.File != "" && o.Pin == "" && !o.HaveOffset:
		return nil, fmt.Errorf("edges %q: nothing says how the clock of the file goes with that of the samples; name a pin of the samples that saw the same edges (pin=d0), or state the sample time at which the file begins (offset=0s)", spec)
	}
	return o, nil
}

func (o *EdgeOptions) set(key, value string) (err error) {
	switch key {
	case "channel":
		o.Channel = value
	case "sync":
		o.Sync = value
	case "pin":
		o.Pin = value
		if len(value) != 2 || value[0] != 'd' || value[1] < '0' || value[1] >= '0'+pins {
			err = fmt.Errorf("pin %q is none of d0 to d7", value)
		}
	case "offset":
		o.HaveOffset = true
		if o.OffsetSeconds, err = si.Parse(value, "s"); err == nil && math.Abs(o.OffsetSeconds) > 1e9 {
			err = fmt.Errorf("offset %s is beyond 1e9 s", value)
		}
	case "active":
		o.ActiveLow = value == "low"
		if value != "low" && value != "high" {
			err = fmt.Errorf("active=%s is neither low nor high", value)
		}
	case "names":
		o.Names = value
	case "alg":
		o.Alg = value
	case "op":
		o.Op = value
	case "n":
		if o.N, err = strconv.ParseInt(value, 10, 64); err != nil || o.N < 1 || o.N > 1e15 {
			err = fmt.Errorf("n=%s is no count", value)
		}
	default:
		err = fmt.Errorf("unknown setting %s (known: channel, sync, pin, offset, active, alg, op, n, names)", key)
	}
	return err
}

// level is a change of a pin to 0 or 1.
type level struct {
	ns int64 // on the clock of the file, or since the first sample
	to int
}

// maxLevels bounds the edges of one channel, and so the memory that they take.
const maxLevels = 4_000_000

// levelsOf collects the changes of one channel.
type levelsOf struct {
	name  string
	edges []level
	last  int // -1 before the first level
}

// add takes the level of the channel at a time.
func (l *levelsOf) add(ns int64, to int) error {
	if to == l.last {
		return nil
	}
	if l.last >= 0 {
		if len(l.edges) == maxLevels {
			return fmt.Errorf("more than %d edges on %q: take another channel", maxLevels, l.name)
		}
		l.edges = append(l.edges, level{ns, to})
	}
	l.last = to
	return nil
}

// edgeClock maps times of the file to ns since the first sample: the time of
// fileNs is sampleNs, and rate sample seconds pass in a second of the file.
type edgeClock struct {
	fileNs, sampleNs int64
	rate             float64
}

func (c edgeClock) sample(ns int64) int64 {
	return c.sampleNs + int64(math.Round(float64(ns-c.fileNs)*c.rate))
}

// maxEdgeRate is how far the clocks of a logic analyser and a meter may
// differ: more than any crystal or RC oscillator of either does.
const maxEdgeRate = 5e-3

// tie finds the clock of a file from edges that file and samples both saw.
func tie(file, samples []level, periodNs float64) (edgeClock, error) {
	if len(file) == 0 || len(file) != len(samples) {
		return edgeClock{}, fmt.Errorf("%d edges in the file and %d in the samples: these are not the same signal; name another pin or sync channel, or state offset=", len(file), len(samples))
	}
	c := edgeClock{file[0].ns, samples[0].ns, 1}
	last := len(file) - 1
	if span := float64(file[last].ns - file[0].ns); span > 0 {
		c.rate = float64(samples[last].ns-samples[0].ns) / span
		// A sample period of doubt at either end.
		if math.Abs(c.rate-1) > maxEdgeRate+2*periodNs/span {
			return c, fmt.Errorf("the edges lie %.6g times as far apart in the samples as in the file: these are not the same signal, or a clock is wrong", c.rate)
		}
	}
	for i := range file {
		off := c.sample(file[i].ns) - samples[i].ns
		if file[i].to != samples[i].to || math.Abs(float64(off)) > 2*periodNs {
			return c, fmt.Errorf("edge %d lies %s s off in the samples: these are not the same signal", i+1, seconds(off))
		}
	}
	return c, nil
}

// importEdges writes the edges of the pin, and the windows that they bound.
// Times count from the first sample, at firstNs on its clock.
func (j *job) importEdges(firstNs int64) error {
	o := j.Edges
	if o == nil {
		return nil
	}
	var pin []level
	if o.Pin != "" {
		if j.watched == nil {
			return fmt.Errorf("%s: its samples hold no pin %s", j.Samples, o.Pin)
		}
		pin = j.watched.edges
	}
	if o.File == "" && o.Names == "" {
		return j.declarePin()
	}
	edges, source, name := pin, "samples", o.Pin
	if o.File != "" {
		channel, sync, err := j.readEdges()
		if err != nil {
			return err
		}
		c := edgeClock{0, int64(math.Round(o.OffsetSeconds * 1e9)), 1}
		if o.Pin != "" {
			if c, err = tie(sync.edges, pin, j.samplePeriodNs()); err != nil {
				return fmt.Errorf("%s: %w", o.File, err)
			}
			j.log(fmt.Sprintf("%s: its clock is tied to the samples' by %d edges, %.4g ppm apart", o.File, len(pin), (c.rate-1)*1e6))
		}
		edges, source, name = channel.edges, "edges", channel.name
		for i := range edges {
			edges[i].ns = c.sample(edges[i].ns)
		}
	}
	for _, e := range edges {
		if err := j.w.Edge(run.Edge{HostNs: firstNs - j.baseNs + e.ns, Source: source, Pin: name, Level: e.to}); err != nil {
			return fmt.Errorf("edges of %s: %w", name, err)
		}
	}
	return j.edgeWindows(edges, name, firstNs)
}

// declarePin says that the samples hold the levels of a pin: analysis finds the
// windows there, and the statements that belong to them.
func (j *job) declarePin() error {
	o := j.Edges
	in := run.InBand{Stream: streamName, Column: o.Pin, Active: 1, Alg: o.Alg, N: cmp.Or(o.N, j.Count)}
	if o.ActiveLow {
		in.Active = 0
	}
	if o.Op != "unnamed" {
		in.Op = o.Op
	}
	if len(j.watched.edges) == 0 {
		return fmt.Errorf("%s: its pin %s never changes", j.Samples, o.Pin)
	}
	return j.w.InBand(in)
}

// samplePeriodNs is the sample period of what was imported; where samples
// carry their own times, the mean.
func (j *job) samplePeriodNs() float64 {
	if j.summary.RateHz > 0 {
		return 1e9 / j.summary.RateHz
	}
	return j.summary.Seconds * 1e9 / float64(max(1, j.summary.Samples-1))
}

// maxGlitchNs is the longest pulse that is taken for a glitch in the file of a
// logic analyser; no operation of a target is so short.
const maxGlitchNs = 10_000

// edgeWindows makes a window of each time for which the pin is active. Pulses
// shorter than two samples are taken for glitches, as the logic inputs of
// meters show them; the first and the last are left out where the recording
// cuts them.
func (j *job) edgeWindows(edges []level, name string, firstNs int64) error {
	o := j.Edges
	active := 1
	if o.ActiveLow {
		active = 0
	}
	n := cmp.Or(o.N, j.Count, 1)
	glitch := 2 * j.samplePeriodNs()
	if o.File != "" {
		glitch = min(glitch, maxGlitchNs)
	}
	var glitches, outside int64
	var pulses []pulse
	for i, e := range edges {
		if e.to != active || i+1 == len(edges) {
			continue
		}
		p := pulse{e.ns, edges[i+1].ns, mark.Op{Alg: o.Alg, Op: o.Op}}
		switch {
		case float64(p.toNs-p.fromNs) < glitch:
			glitches++
		case p.fromNs < 0 || float64(p.toNs) > j.summary.Seconds*1e9+j.samplePeriodNs():
			outside++
		default:
			pulses = append(pulses, p)
		}
	}
	if len(pulses) == 0 {
		return fmt.Errorf("%s: the pin %s bounds no window within the samples (%d edges, %d pulses too short, %d outside)", cmp.Or(o.File, j.Samples), name, len(edges), glitches, outside)
	}
	unnamed := int64(0)
	if o.Names != "" {
		named, err := j.namePulses(pulses, o.Names)
		if err != nil {
			return err
		}
		pulses, unnamed = named, int64(len(pulses)-len(named))
	}
	for _, p := range pulses {
		if err := j.edgeWindow(p, firstNs, n); err != nil {
			return err
		}
	}
	return j.noteEdges(glitches, outside, unnamed)
}

// edgeWindow writes one window; times count from the first sample.
func (j *job) edgeWindow(p pulse, firstNs, n int64) error {
	if j.summary.RateHz == 0 {
		return j.deriveWindow(firstNs+p.fromNs, firstNs+p.toNs, p.op, n)
	}
	j.summary.Windows++
	return j.w.Window(run.Window{
		Stream: streamName, W: j.summary.Windows, Alg: p.op.Alg, Op: p.op.Op, N: n,
		From: float64(p.fromNs) / 1e9 * j.summary.RateHz, To: float64(p.toNs) / 1e9 * j.summary.RateHz,
	})
}

func (j *job) noteEdges(glitches, outside, unnamed int64) error {
	notes := []run.Note{
		{Code: "glitches", Count: glitches, Text: have(glitches, "pulse") + " been left out as too short: a glitch"},
		{Code: "windows-outside", Count: outside, Warn: true, Text: have(outside, "pulse") + " no place within the samples; left out"},
	}
	if unnamed > 0 {
		notes = append(notes, run.Note{Code: "unnamed-pulses", Count: unnamed, Text: have(unnamed, "pulse") + " no operation in the log; left out"})
	}
	if j.Edges.N == 0 && j.Count == 0 && j.Edges.Names == "" {
		notes = append(notes, run.Note{Code: "count-assumed", Count: 1, Warn: true, Text: "how many operations a pulse holds was not stated (n= in --edges, or --count): one is assumed"})
	}
	for _, n := range notes {
		if n.Count == 0 {
			continue
		}
		if err := j.note(n); err != nil {
			return err
		}
	}
	return nil
}

// readEdges reads the channels that are needed from the file.
func (j *job) readEdges() (channel, sync *levelsOf, err error) {
	o := j.Edges
	f, err := openLines(j.ctx, os.Stat, os.Open, o.File, o.File)
	if err != nil {
		return nil, nil, err
	}
	defer f.close()
	head, _ := f.r.Peek(headBytes)
	read := readLogicCSV
	if bytes.Contains(head, []byte("$timescale")) || bytes.Contains(head, []byte("$enddefinitions")) || bytes.Contains(head, []byte("$var")) {
		read = readVCD
	}
	w := &wanted{file: f, names: []string{o.Channel, cmp.Or(o.Sync, o.Channel)}}
	if err := read(w); err != nil {
		return nil, nil, err
	}
	return w.found[0], w.found[1], nil
}

// wanted says which channels of a file are wanted, and collects them.
type wanted struct {
	file  *lines
	names []string // of channel and sync; "" for the only one
	found []*levelsOf
	at    []int // place of each of found among the file's channels
}

// choose finds the wanted channels among those of the file.
func (w *wanted) choose(channels []string) error {
	for _, name := range w.names {
		i := slices.Index(channels, name)
		if name == "" && len(channels) == 1 {
			i = 0
		}
		if i < 0 {
			return fmt.Errorf("%s: its channels are %.400q; choose one with channel=NAME", w.file.name, channels)
		}
		if k := slices.Index(w.at, i); k >= 0 {
			w.found, w.at = append(w.found, w.found[k]), append(w.at, i)
			continue
		}
		w.found, w.at = append(w.found, &levelsOf{name: channels[i], last: -1}), append(w.at, i)
	}
	return nil
}

// set takes the level of a channel of the file.
func (w *wanted) set(channel int, ns int64, to int) error {
	for i, l := range w.found {
		if w.at[i] != channel || i == 1 && l == w.found[0] {
			continue
		}
		if err := l.add(ns, to); err != nil {
			return fmt.Errorf("%s: %w", w.file.name, err)
		}
	}
	return nil
}

// readLogicCSV reads rows of levels as logic analysers export them, with a
// column of time (Time [s],Channel 0) or, as sigrok writes without one, a
// comment of the sample rate:
//
//	; CSV generated by libsigrok 0.5.2 ...
//	; Channels (2/8): D0, D1
//	; Samplerate: 1 MHz
//	logic,logic
//	0,1
//
// Where the rate is known it counts, not the column: sigrok adds up rounded
// periods there. Source: libsigrok src/output/csv.c.
func readLogicCSV(w *wanted) error {
	c := logicCSV{wanted: w, time: -1}
	for {
		b, err := w.file.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = c.line(b)
		}
		if err != nil {
			return err
		}
	}
	if c.header == nil {
		return fmt.Errorf("%s: holds no header of channels, such as Time [s],D0", w.file.name)
	}
	return nil
}

// logicCSV is a file of levels under way.
type logicCSV struct {
	*wanted
	rateHz   float64  // 0 where not stated
	channels []string // named by a comment
	header   []string
	time     int // column of time, -1 for none
	unit     column
	row      []field
	rows     int64
	lastNs   int64
}

func (c *logicCSV) line(b []byte) error {
	trimmed := bytes.TrimSpace(b)
	switch {
	case len(trimmed) == 0:
		return nil
	case trimmed[0] == ';' || trimmed[0] == '#':
		return c.comment(string(bytes.TrimSpace(trimmed[1:])))
	}
	var err error
	if c.row, err = split(c.row[:0], trimmed, ','); err != nil {
		return posError(c.file.name, c.file.line, 0, "%v", err)
	}
	if c.header == nil {
		return c.readHeader()
	}
	if len(c.row) != len(c.header) {
		if c.file.torn {
			return nil
		}
		return posError(c.file.name, c.file.line, 0, "%d fields, but the header names %d", len(c.row), len(c.header))
	}
	ns, err := c.ns()
	if err != nil {
		return err
	}
	if ns < c.lastNs && c.rows > 0 {
		return posError(c.file.name, c.file.line, 0, "time runs backwards: %s s after %s s", seconds(ns), seconds(c.lastNs))
	}
	c.rows, c.lastNs = c.rows+1, ns
	for _, i := range c.at {
		f := c.row[i]
		if len(f.text) != 1 || f.text[0] != '0' && f.text[0] != '1' {
			return posError(c.file.name, c.file.line, f.at, "%q is no level (0 or 1)", clip(f.text))
		}
		if err := c.set(i, ns, int(f.text[0]-'0')); err != nil {
			return err
		}
	}
	return nil
}

// comment takes what a comment of sigrok says.
func (c *logicCSV) comment(s string) error {
	if rate, ok := strings.CutPrefix(s, "Samplerate:"); ok {
		hz, err := si.Parse(strings.TrimSpace(rate), "Hz")
		if err != nil || !(hz > 0 && hz <= maxRateHz) {
			return posError(c.file.name, c.file.line, 0, "sample rate %.40q is none", rate)
		}
		c.rateHz = hz
	}
	if _, names, ok := strings.Cut(s, "): "); ok && strings.HasPrefix(s, "Channels (") {
		c.channels = strings.Split(names, ", ")
	}
	return nil
}

func (c *logicCSV) readHeader() error {
	for i, f := range c.row {
		name := text(f.text)
		if p := parseColumn(name); p.quantity == timeOf && c.time < 0 {
			c.time, c.unit = i, p
		}
		c.header = append(c.header, name)
	}
	channels := slices.Clone(c.header)
	if n := len(c.channels); n > 0 && n == len(channels) {
		channels = c.channels
	} else if n > 0 && n == len(channels)-1 && c.time == 0 {
		channels = append([]string{""}, c.channels...)
	}
	switch {
	case c.time >= 0 && c.rateHz == 0 && c.unit.wrong != nil:
		return posError(c.file.name, c.file.line, c.row[c.time].at, "column %q %v", c.unit.name, c.unit.wrong)
	case c.time < 0 && c.rateHz == 0:
		return posError(c.file.name, c.file.line, 0, "no column of time and no comment of the sample rate: the times of the levels are not known")
	}
	w := c.wanted
	if c.time < 0 {
		return w.choose(channels)
	}
	// The column of time is no channel.
	rest := slices.Delete(slices.Clone(channels), c.time, c.time+1)
	if err := w.choose(rest); err != nil {
		return err
	}
	for i := range w.at {
		if w.at[i] >= c.time {
			w.at[i]++
		}
	}
	return nil
}

// ns is the time of the current row.
func (c *logicCSV) ns() (int64, error) {
	if c.rateHz > 0 {
		return int64(math.Round(float64(c.rows) / c.rateHz * 1e9)), nil
	}
	f := c.row[c.time]
	d, err := scanDecimal(f.text)
	if err == nil {
		var ns int64
		if ns, err = d.nanos(c.unit.exp); err == nil && max(ns, -ns) > maxEdgeNs {
			err = errTooLarge
		}
		if err == nil {
			return ns, nil
		}
	}
	return 0, posError(c.file.name, c.file.line, f.at, "time %q %v", clip(f.text), err)
}

// maxEdgeNs bounds times of edges: 10^9 s.
const maxEdgeNs = int64(1e18)
