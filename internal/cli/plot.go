package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/plots"
	"github.com/joulemark/joulemark/sync/align"
)

const plotHelp = `Draws figures of runs and sets, as SVG and PNG, and prints the names of the
files.

Kinds:
  trace    power against time: windows, and the baseline below each
  bars     energy per operation with both intervals, runs side by side
  edges    all edges of a run folded onto each other: the alignment made visible
  repeats  each window's energy per operation in the order of the run

--window W shows one window with its quiet zones, --from and --to a span in
seconds since the first sample; both draw the trace alone.

Figures of a set go to SET/figures, of a run to figures-RUN in the working
folder: a run is never written to. -o names another folder, or one file with
the ending .svg or .png. A file that exists is replaced if joulemark drew it;
any other is left, and the verb fails before anything is written.`

// figureFlags is what a person asks of plot.
type figureFlags struct {
	kind, out, format, meter, baseline string
	window                             int64
	from, to                           float64
	width                              int
	json                               bool
	windowGiven, spanGiven             bool
}

func plotVerb(env *Env) *cobra.Command {
	var o figureFlags
	c := &cobra.Command{
		Use: "plot RUN...", Short: "figures: trace, bars, edges, repeats", Long: plotHelp, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			changed := c.Flags().Changed
			o.windowGiven, o.spanGiven = changed("window"), changed("from") || changed("to")
			if (o.windowGiven || o.spanGiven) && !changed("kind") {
				o.kind = string(plots.TraceKind)
			}
			g, err := o.gallery(env)
			if err != nil {
				return err
			}
			set, broken, err := eachMeter(args, o.meter, g.hang)
			if err != nil {
				return err
			}
			if err := g.finish(); err != nil {
				return err
			}
			if o.json {
				err = printJSON(env.Stdout, g.export())
			} else {
				err = g.write(env.Stdout, o.place(args, set), o.formats())
			}
			if err != nil {
				return err
			}
			return damaged(broken)
		},
	}
	f := c.Flags()
	f.StringVar(&o.kind, "kind", "all", "`KIND` of figure: trace, bars, edges, repeats or all")
	f.StringVarP(&o.out, "output", "o", "", "write to this `PLACE`, a folder or a file")
	f.StringVar(&o.format, "format", "", "`FORMAT`: svg or png (default both)")
	f.Int64Var(&o.window, "window", 0, "trace of window `W` with its quiet zones")
	f.Float64Var(&o.from, "from", 0, "trace from this `SECOND` on")
	f.Float64Var(&o.to, "to", math.Inf(1), "trace up to this `SECOND`")
	f.Lookup("to").DefValue = "" // the end
	f.IntVar(&o.width, "width", defaultPixels, "width in `PIXELS`; text keeps its size, so that 500 suits a column of a paper")
	f.StringVar(&o.meter, "meter", "", "draw this `NAME` of several meters in a run")
	f.StringVar(&o.baseline, "baseline", "local", "idle level to subtract: `local`, global or none")
	f.BoolVar(&o.json, "json", false, "print the figures as JSON (joulemark.figures/1), write no file")
	return c
}

// pixel is one pixel in points.
const pixel = 0.75

// defaultPixels is the width of a figure.
const defaultPixels = 1200

// gallery checks the flags.
func (o *figureFlags) gallery(env *Env) (*gallery, error) {
	g := &gallery{flags: o, skipped: func(err error) { fmt.Fprintf(env.Stderr, "no figure: %v\n", err) }}
	for _, k := range plots.Kinds() {
		if o.kind == "all" || o.kind == string(k) {
			g.kinds = append(g.kinds, k)
		}
	}
	switch file := fileFormat(o.out); {
	case len(g.kinds) == 0:
		return nil, usage("--kind %q is none of trace, bars, edges, repeats, all", o.kind)
	case o.format != "" && !slices.Contains(allFormats, o.format):
		return nil, usage("--format %q is none of svg, png", o.format)
	case file != "" && o.format != "" && o.format != file:
		return nil, usage("--format %s does not agree with -o %s", o.format, o.out)
	case o.json && (o.out != "" || o.format != ""):
		return nil, usage("--json writes no file: leave out -o and --format")
	case o.windowGiven && o.spanGiven:
		return nil, usage("--window and --from or --to exclude each other")
	case (o.windowGiven || o.spanGiven) && !slices.Equal(g.kinds, []plots.Kind{plots.TraceKind}):
		return nil, usage("--window, --from and --to belong to --kind trace")
	case o.spanGiven && !(o.to > o.from):
		return nil, usage("--to %g is not after --from %g", o.to, o.from)
	case o.width < 300 || o.width > 10_000:
		return nil, usage("--width %d is not between 300 and 10000", o.width)
	}
	return g, checkBaseline(analysis.Baseline(o.baseline))
}

var allFormats = []string{"svg", "png"}

// fileFormat is the format of a file by its ending, "" for a folder.
func fileFormat(path string) string {
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	if slices.Contains(allFormats, ext) {
		return ext
	}
	return ""
}

func (o *figureFlags) formats() []string {
	switch file := fileFormat(o.out); {
	case file != "":
		return []string{file}
	case o.format != "":
		return []string{o.format}
	}
	return allFormats
}

// place is where figures of these paths go.
func (o *figureFlags) place(args []string, set bool) string {
	switch {
	case o.out != "":
		return o.out
	case len(args) > 1:
		return "figures"
	case set:
		return filepath.Join(args[0], "figures")
	}
	name := args[0]
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	return "figures-" + filepath.Base(name)
}

// gallery collects the figures of all runs.
type gallery struct {
	flags    *figureFlags
	kinds    []plots.Kind
	skipped  func(error) // told of figures that cannot be drawn, where others can
	pictures []picture
	results  []analysis.Results
	failed   error // the first analysis that failed
}

// picture is a figure of one meter of one run, or of all of them.
type picture struct {
	run, meter string
	name       string // of its files, without ending
	plots.Figure
}

// hang adds the figures of one meter of one run.
func (g *gallery) hang(t *align.Timeline) error {
	r, err := analysis.Analyze(t, analysis.Options{Baseline: analysis.Baseline(g.flags.baseline)})
	if err != nil && !errors.Is(err, analysis.ErrNoWindows) {
		return err
	}
	if err != nil && g.failed == nil {
		g.failed = err
	}
	g.results = append(g.results, r)
	for _, k := range g.kinds {
		var f plots.Figure
		drawErr := err // without windows there is a trace, and nothing else
		switch {
		case k == plots.TraceKind:
			f, drawErr = g.trace(t, r)
		case k == plots.BarsKind:
			continue
		case err != nil:
		case k == plots.EdgesKind:
			all, single := t.Folds(plots.DrawnEdges)
			f, drawErr = plots.Edges(r, all, single)
		case k == plots.RepeatsKind:
			f, drawErr = plots.Repeats(r)
		}
		if err := g.add(picture{run: r.Run, meter: r.Meter.Name, Figure: f}, drawErr); err != nil {
			return err
		}
	}
	return nil
}

func (g *gallery) trace(t *align.Timeline, r analysis.Results) (plots.Figure, error) {
	v := plots.Whole(t)
	switch o := g.flags; {
	case o.windowGiven:
		var err error
		if v, err = plots.Around(t, o.window); err != nil {
			return plots.Figure{}, hinted(fmt.Errorf("trace of %s: %w", r.Run, err), "analyze --json lists windows by their number, w")
		}
	case o.spanGiven:
		v.FromSeconds, v.ToSeconds = max(v.FromSeconds, o.from), min(v.ToSeconds, o.to)
		if !(v.ToSeconds > v.FromSeconds) {
			return plots.Figure{}, hinted(fmt.Errorf("trace of %s: nothing was recorded from %g s to %g s", r.Run, o.from, o.to),
				fmt.Sprintf("the recording is %.6g s long", t.EndSeconds()))
		}
	}
	return plots.Trace(r, t.Power(), v)
}

// add takes a figure. Where several kinds were asked for, one that has nothing
// to show is passed over.
func (g *gallery) add(p picture, err error) error {
	if err != nil {
		if len(g.kinds) > 1 && (errors.Is(err, plots.ErrEmpty) || errors.Is(err, analysis.ErrNoWindows)) {
			g.skipped(err)
			return nil
		}
		return err
	}
	p.WidthPoints = float64(g.flags.width) * pixel
	g.pictures = append(g.pictures, p)
	return nil
}

// finish adds what all runs share, and gives the figures their names.
func (g *gallery) finish() error {
	if slices.Contains(g.kinds, plots.BarsKind) {
		f, err := plots.Bars(g.results)
		if errors.Is(err, plots.ErrEmpty) && g.failed != nil {
			err = g.failed
		}
		if err := g.add(picture{Figure: f}, err); err != nil {
			return err
		}
	}
	if len(g.pictures) == 0 {
		return fmt.Errorf("there is nothing to draw")
	}
	g.names()
	return nil
}

// names tells figures apart by what differs between them.
func (g *gallery) names() {
	runs, meters, used := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, r := range g.results {
		runs[r.Run], meters[r.Meter.Name] = true, true
	}
	for i := range g.pictures {
		p := &g.pictures[i]
		p.name = string(p.Kind)
		switch {
		case g.flags.windowGiven:
			p.name += fmt.Sprintf("-window-%d", g.flags.window)
		case g.flags.spanGiven:
			p.name += "-span"
		}
		if len(runs) > 1 && p.run != "" {
			p.name += "-" + p.run
		}
		if len(meters) > 1 && p.meter != "" {
			p.name += "-" + p.meter
		}
		if used[p.name]++; used[p.name] > 1 {
			p.name += fmt.Sprintf("-%d", used[p.name])
		}
	}
}

// exported is the JSON of a gallery.
type exported struct {
	Schema  string         `json:"schema"`
	Figures []plots.Figure `json:"figures"`
}

func (g *gallery) export() exported {
	e := exported{Schema: "joulemark.figures/1"}
	for _, p := range g.pictures {
		e.Figures = append(e.Figures, p.Figure)
	}
	return e
}

// drawn is a file to be written.
type drawn struct {
	path string
	data []byte
}

// write draws all figures, then writes them, and prints the names of the files.
func (g *gallery) write(w io.Writer, place string, formats []string) error {
	isFile := fileFormat(place) != ""
	if isFile && len(g.pictures) > 1 {
		return hinted(fmt.Errorf("%d figures do not fit into one file %s", len(g.pictures), place), "name a folder with -o, or one --kind of one run")
	}
	var files []drawn
	for _, p := range g.pictures {
		for _, format := range formats {
			path := filepath.Join(place, p.name+"."+format)
			if isFile {
				path = place
			}
			data, err := drawAs(p.Figure, format)
			if err == nil {
				err = checkReplaced(path)
			}
			if err != nil {
				return err
			}
			files = append(files, drawn{path, data})
		}
	}
	for _, f := range files {
		if err := writeWhole(f.path, f.data); err != nil {
			return notWritten(err)
		}
		if _, err := fmt.Fprintln(w, f.path); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return nil
}

func drawAs(f plots.Figure, format string) ([]byte, error) {
	if format == "png" {
		return f.PNG()
	}
	return f.SVG()
}

func notWritten(err error) error {
	return hinted(fmt.Errorf("write figure: %w", err), "name a place that you may write to with -o")
}

// checkReplaced refuses a file that exists and is no figure of ours.
func checkReplaced(path string) error {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return notWritten(err)
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, 1024))
	if err == nil && plots.Ours(head) {
		return nil
	}
	return hinted(fmt.Errorf("output %s exists and was not drawn by joulemark", path), "name another place with -o, or remove it")
}

// writeWhole writes a file such that it is there whole or not at all.
func writeWhole(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".figure-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
