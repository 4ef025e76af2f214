package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/si"
)

const recordHelp = `Records one meter or several into a run, until the time is over or Ctrl-C.

  joulemark record --meter fnb58 --for 20s -o RUN
  joulemark record --meter usb=fnb58 --meter pkg=rapl
  joulemark record --meter fnb58 --marks uart:/dev/ttyUSB0,115200 --for 10m
  joulemark record --meter virtual --for 1m

Without --meter it takes the one that is plugged in ('joulemark meters' lists
them). The run begins when all meters have sent samples; --for counts from then
on by the host's clock. A meter that is lost is opened again, for a minute: the
run then holds a gap and says so.

On a terminal a live view is drawn on stderr; elsewhere, and with --plain, a
line every few seconds. Energies in it are sums at the meter's nominal rate.

The first Ctrl-C ends the recording in order: the run is complete, and meters
are left ready for the next program, which may take some seconds. A second one
ends at once.

` + marksHelp

// recordFlags is what a person asks of record.
type recordFlags struct {
	meters      []string
	marks       []string
	length      time.Duration
	until       string
	out, name   string
	notes       []string
	json, plain bool
}

func recordVerb(env *Env, l lab) *cobra.Command {
	var o recordFlags
	c := &cobra.Command{
		Use: "record [--meter SPEC]...", Short: "record a meter, with a live view", Long: recordHelp, Args: cobra.NoArgs,
		Annotations: map[string]string{leaves: "a meter"},
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("for") && o.length <= 0 {
				return usage("--for %v is not above 0", o.length)
			}
			return o.record(c.Context(), env, l)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.meters, "meter", nil, "meter: a `SPEC`, or NAME=SPEC; may be repeated (default the one that is plugged in)")
	f.StringArrayVar(&o.marks, "marks", nil, "where marks of the target come from: a `SPEC`, below; may be repeated")
	f.DurationVar(&o.length, "for", 0, "how long to record: a `DURATION` such as 20s or 1h30m")
	f.StringVar(&o.until, "until", "", "when to end: a `TIME` such as 17:30 or 2026-12-01T08:00:00Z")
	f.StringVarP(&o.out, "output", "o", "", "write the run to this `FOLDER`, which must not exist (default runs/DATE-NAME)")
	f.StringVar(&o.name, "name", "", "`NAME` of the run (default that of the folder)")
	f.StringArrayVar(&o.notes, "note", nil, "remark that is kept in the run: a `TEXT`; may be repeated")
	f.BoolVar(&o.json, "json", false, "print JSON (joulemark.record/1) at the end")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of the live view")
	return c
}

func (o *recordFlags) record(ctx context.Context, env *Env, l lab) error {
	options, err := o.options(l)
	if err != nil {
		return err
	}
	recorder, err := record.New(options)
	if err != nil {
		return usage("%w", err)
	}
	view := watch(env, recorder, viewOptions{run: options.Dir, length: options.For, until: options.Until, plain: o.plain})
	result, err := recorder.Run(ctx)
	view.end()
	if result.Run != "" {
		if e := o.print(env.Stdout, result); e != nil {
			return e
		}
	}
	if result.Run != "" && result.Reason == record.Failed {
		return hinted(err, "what was recorded before is kept: joulemark check "+result.Run)
	}
	return recordFailure(err, options.Dir)
}

// options checks the flags.
func (o *recordFlags) options(l lab) (record.Options, error) {
	now := time.Now()
	r := record.Options{Notes: o.notes, For: o.length, HostNs: meters.NewHostClock(),
		Env: map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}}
	if o.until != "" {
		t, err := parseUntil(o.until, now)
		if err != nil {
			return r, err
		}
		r.Until = t
	}
	if err := o.place(&r); err != nil {
		return r, err
	}
	r.Header.Tool, r.Header.Started = tool(), now.Format(time.RFC3339Nano)
	specs := o.meters
	if len(specs) == 0 {
		spec, err := l.only()
		if err != nil {
			return r, err
		}
		specs = []string{spec}
	}
	for _, spec := range specs {
		w, err := l.want(spec)
		if err != nil {
			return r, err
		}
		m := record.Meter{Name: w.spec.Name,
			Open: func(ctx context.Context, notify func(meters.Notice)) (meters.Meter, error) {
				return w.open(ctx, r.HostNs, notify)
			}}
		if name := w.spec.Settings["as"]; name != "" {
			known, err := loadMeter(name)
			if err != nil {
				return r, err
			}
			m.Calibration, m.Characterisation = known.Calibration, known.Characterisation
		}
		r.Meters = append(r.Meters, m)
	}
	return r, l.addMarks(o.marks, &r)
}

// place settles the name and the folder of the run.
func (o *recordFlags) place(r *record.Options) error {
	if o.name != "" {
		if err := run.CheckName(o.name); err != nil {
			return usage("--name: %w", err)
		}
	}
	name := o.name
	if base := filepath.Base(filepath.Clean(o.out)); name == "" && o.out != "" && run.CheckName(base) == nil {
		name = base
	}
	if name == "" {
		name = "record"
	}
	r.Header.Name, r.Dir = name, o.out
	if o.out == "" {
		dir, err := freshFolder(name)
		r.Dir = dir
		return err
	}
	if _, err := os.Lstat(o.out); err == nil {
		return outputExists(o.out)
	}
	return nil
}

func outputExists(path string) error {
	return hinted(fmt.Errorf("output %s exists", path), "name another folder with -o, or remove it")
}

// parseUntil reads a wall-clock time; one without a date is the next one.
func parseUntil(text string, now time.Time) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			if !t.After(now) {
				return t, usage("--until %s is over", text)
			}
			return t, nil
		}
	}
	for _, form := range []string{"15:04", "15:04:05"} {
		if c, err := time.Parse(form, text); err == nil {
			y, m, d := now.Date()
			at := func(day int) time.Time {
				return time.Date(y, m, day, c.Hour(), c.Minute(), c.Second(), 0, now.Location())
			}
			if t := at(d); t.After(now) {
				return t, nil
			}
			return at(d + 1), nil
		}
	}
	return time.Time{}, usage("--until %q is no time such as 17:30 or 2026-12-01T08:00:00Z", text)
}

// only returns the spec of the one meter that can be used. Those that are built
// into this machine count where nothing is plugged in.
func (l lab) only() (string, error) {
	all, err := l.find()
	var plugged, built, hints []string
	for _, f := range all {
		d, _ := l.driver(f.Driver)
		switch {
		case f.Problem != nil:
			hints = append(hints, joinWords(": ", f.Spec, meters.Hint(f.Problem)))
		case d.OpenHost != nil:
			built = append(built, f.Spec)
		default:
			plugged = append(plugged, f.Spec)
		}
	}
	specs := plugged
	if len(specs) == 0 {
		specs = built
	}
	switch {
	case len(specs) == 1:
		return specs[0], nil
	case len(specs) > 1:
		return "", noMeter(fmt.Errorf("%d meters can be used", len(specs)), "say which one with --meter: "+list(specs))
	case err != nil:
		return "", noMeter(err, "")
	case len(hints) > 0:
		return "", noMeter(errors.New("no meter can be used"), strings.Join(hints, "; "))
	}
	return "", noMeter(errors.New("no meter is plugged in"), "'joulemark meters' says what was looked for; --meter virtual needs none")
}

// recordFailure gives the error of a recording its exit code and hint.
func recordFailure(err error, dir string) error {
	var unusable *record.MeterError
	switch {
	case errors.As(err, &unusable):
		hint := meters.Hint(err)
		if f := (*failure)(nil); hint == "" && errors.As(err, &f) {
			hint = f.hint
		}
		if hint == "" {
			hint = "'joulemark doctor' checks permissions and ports; another program may be reading it"
		}
		return noMeter(err, hint)
	case errors.Is(err, fs.ErrExist):
		return outputExists(dir)
	case errors.Is(err, fs.ErrPermission):
		return hinted(err, "name a place that you may write to with -o")
	}
	return err
}

// print says what was recorded.
func (o *recordFlags) print(w io.Writer, r record.Result) error {
	recorded, err := run.Open(r.Run)
	if err != nil {
		return fmt.Errorf("read what was recorded: %w", err)
	}
	if o.json {
		return printRecordedJSON(w, r, recorded)
	}
	simulated := ""
	if recorded.Header.Simulated {
		simulated = "  (simulated)"
	}
	fmt.Fprintf(w, "%s: %s, %s, ended: %s%s\n", r.Run, si.Format(r.Seconds, "s", 4), si.Format(float64(r.Bytes), "B", 3), r.Reason, simulated)
	for _, m := range r.Meters {
		fmt.Fprintf(w, "  %-9s %s\n", m.Name, recordedLine(m))
	}
	if r.Lines+r.Edges > 0 {
		fmt.Fprintf(w, "  %-9s %d lines, %d edges\n", "marks", r.Lines, r.Edges)
	}
	for _, m := range r.Meters {
		if nominal := m.Info.RateHz; m.RateHz > 0 && nominal > 0 && math.Abs(m.RateHz/nominal-1) > wrongRate {
			fmt.Fprintf(w, "warning: %s sends %.4g samples a second and says %.4g: energies above are off by that, and the run cannot be analyzed\n", m.Name, m.RateHz, nominal)
		}
	}
	for _, n := range recorded.Notes {
		kind := "note"
		if n.Warn || n.Void {
			kind = "warning"
		}
		fmt.Fprintf(w, "%s: %s\n", kind, printable(n.Text))
	}
	return nil
}

// wrongRate is how far a rate may be from the nominal one, relative: more than
// any clock is off, and less than what a meter that skips samples is.
const wrongRate = 0.05

// recordedLine is what was recorded of one meter.
func recordedLine(m record.Status) string {
	parts := []string{fmt.Sprintf("%d samples", m.Samples)}
	if m.RateHz > 0 {
		parts[0] += fmt.Sprintf(" (%.5g a second)", m.RateHz)
	}
	joules := "nothing measured"
	if !math.IsNaN(m.Joules) {
		joules = si.Format(m.Joules, "J", 4)
	}
	parts = append(parts, joules, losses(m))
	if m.Segments > 1 {
		parts = append(parts, fmt.Sprintf("%d segments", m.Segments))
	}
	return strings.Join(parts, ", ")
}

// losses says what is missing of a meter's samples.
func losses(m record.Status) string {
	parts := []string{fmt.Sprintf("%d lost", m.Missing)}
	if m.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d not measured", m.Unknown))
	}
	if m.Dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d not recorded", m.Dropped))
	}
	return strings.Join(append(parts, plural(m.Gaps, "gap")), ", ")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func printRecordedJSON(w io.Writer, r record.Result, recorded *run.Run) error {
	type meterJSON struct {
		Name     string       `json:"name"`
		Driver   string       `json:"driver"`
		Model    string       `json:"model"`
		Serial   string       `json:"serial"`
		Samples  int64        `json:"samples"`
		Segments int          `json:"segments"`
		Gaps     int          `json:"gaps"`
		Lost     int64        `json:"lost"`
		Unknown  int64        `json:"not_measured"`
		Dropped  int64        `json:"not_recorded"`
		RateHz   analysis.Num `json:"samples_hz"`
		Joules   analysis.Num `json:"joules"`
		Coulombs analysis.Num `json:"coulombs"`
	}
	out := struct {
		Schema    string      `json:"schema"`
		Run       string      `json:"run"`
		Simulated bool        `json:"simulated"`
		Reason    string      `json:"reason"`
		Seconds   float64     `json:"seconds"`
		Bytes     int64       `json:"bytes"`
		Lines     int64       `json:"lines"`
		Edges     int64       `json:"edges"`
		Meters    []meterJSON `json:"meters"`
		Notes     []run.Note  `json:"notes"`
	}{"joulemark.record/1", r.Run, recorded.Header.Simulated, r.Reason, r.Seconds, r.Bytes, r.Lines, r.Edges, []meterJSON{}, append([]run.Note{}, recorded.Notes...)}
	for _, m := range r.Meters {
		out.Meters = append(out.Meters, meterJSON{m.Name, m.Info.Driver, m.Info.Model, m.Info.Serial, m.Samples, m.Segments, m.Gaps,
			m.Missing, m.Unknown, m.Dropped, analysis.Num(m.RateHz), analysis.Num(m.Joules), analysis.Num(m.Coulombs)})
	}
	return printJSON(w, out)
}
