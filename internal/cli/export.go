package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/internal/exports"
	"github.com/joulemark/joulemark/sync/align"
)

const exportHelp = `Writes what runs say for other tools. docs/export.md has every column.

Formats:
  csv       a header and one line a row, for spreadsheets, pandas, R
  parquet   the same with types and units, compressed; needs -o
  json      what 'joulemark analyze --json' prints
  benchfmt  the Go benchmark format, one line a window: benchstat compares it

What:
  results   one row an operation, run and meter, with both intervals
  windows   one row a window
  samples   every sample of one meter of one run, with its time (csv, parquet)

Without -o the export goes to stdout. A file that exists is never replaced, and
an export that fails leaves none.`

// What export may write.
const (
	exportResults = "results"
	exportWindows = "windows"
	exportSamples = "samples"
)

func exportVerb(env *Env) *cobra.Command {
	var o exportFlags
	c := &cobra.Command{
		Use: "export RUN... --format FORMAT", Short: "csv, parquet, json, or Go benchmark format", Long: exportHelp, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.whatGiven = c.Flags().Changed("what")
			if err := o.check(env.Stdout); err != nil {
				return err
			}
			by, opt, err := o.options(c.Flags().Changed("accuracy"))
			if err != nil {
				return err
			}
			return o.export(c.Context(), env, args, by, opt)
		},
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", "", "`FORMAT`: csv, parquet, json or benchfmt")
	f.StringVar(&o.what, "what", exportResults, "`WHAT` to write: results, windows or samples")
	f.StringVarP(&o.out, "output", "o", "", "write to this `FILE`, which must not exist")
	o.analysisFlags.add(f)
	return c
}

type exportFlags struct {
	format, what, out string
	whatGiven         bool
	analysisFlags
}

func (o *exportFlags) check(stdout io.Writer) error {
	format := exports.Format(o.format)
	table := format == exports.CSV || format == exports.Parquet
	switch {
	case o.format == "":
		return usage("no --format: give one of %s", list(formatNames()))
	case !slices.Contains(exports.Formats(), format):
		return usage("--format %q is none of %s", o.format, strings.Join(formatNames(), ", "))
	case !slices.Contains([]string{exportResults, exportWindows, exportSamples}, o.what):
		return usage("--what %q is none of results, windows, samples", o.what)
	case o.whatGiven && !table:
		return usage("--what belongs to csv and parquet: %s has its own content", o.format)
	case format == exports.Parquet && o.out == "" && isTerminal(stdout):
		return usage("parquet is binary: name a file with -o")
	}
	return nil
}

func formatNames() []string {
	var names []string
	for _, f := range exports.Formats() {
		names = append(names, string(f))
	}
	return names
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// export writes what was asked for.
func (o *exportFlags) export(ctx context.Context, env *Env, paths []string, by align.Options, opt analysis.Options) error {
	if o.out != "" {
		if err := checkFree(o.out); err != nil {
			return err
		}
	}
	var write func(io.Writer) error
	var broken []string
	if o.what == exportSamples {
		line, damage, err := oneMeter(paths, o.meter, by)
		if err != nil {
			return err
		}
		write, broken = func(w io.Writer) error { return o.table(w, exports.Samples(line)) }, damage
	} else {
		set, err := analyzeAll(paths, o.meter, by, opt)
		if err != nil {
			return err
		}
		write, broken = func(w io.Writer) error { return o.results(w, set) }, set.broken
	}
	var err error
	if o.out == "" {
		err = write(stoppable{ctx, env.Stdout})
	} else {
		err = createWhole(o.out, func(w io.Writer) error { return write(stoppable{ctx, w}) })
	}
	if err != nil {
		return err
	}
	return damaged(broken)
}

func (o *exportFlags) results(w io.Writer, set analyzed) error {
	switch {
	case o.format == string(exports.JSON):
		return printResults(w, set)
	case o.format == string(exports.Benchmark):
		return exports.WriteBenchmark(w, set.Runs)
	case o.what == exportWindows:
		return o.table(w, exports.Windows(set.Runs))
	}
	return o.table(w, exports.Results(set.Runs))
}

func (o *exportFlags) table(w io.Writer, t exports.Table) error {
	if o.format == string(exports.Parquet) {
		return exports.WriteParquet(w, t)
	}
	return exports.WriteCSV(w, t)
}

// oneMeter puts the one meter of the one run that the paths name on a time
// line.
func oneMeter(paths []string, meter string, by align.Options) (*align.Timeline, []string, error) {
	var line *align.Timeline
	var found []string
	_, broken, err := eachMeterBy(paths, meter, by, func(t *align.Timeline) error {
		line = t
		found = append(found, fmt.Sprintf("%s of %s", t.Meter.Stream, t.Run.Dir))
		return nil
	})
	if err == nil && len(found) > 1 {
		err = hinted(fmt.Errorf("samples of %d meters do not fit into one table: %s", len(found), strings.Join(found, ", ")), "name one run, and one of its meters with --meter")
	}
	return line, broken, err
}

// stoppable is a writer that fails once the context ends.
type stoppable struct {
	ctx context.Context
	w   io.Writer
}

func (s stoppable) Write(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(b)
}

// checkFree refuses a path that exists.
func checkFree(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return hinted(fmt.Errorf("output %s exists", path), "name another file with -o, or remove it")
	case !errors.Is(err, fs.ErrNotExist):
		return notCreated(err)
	}
	return nil
}

func notCreated(err error) error {
	return hinted(fmt.Errorf("write export: %w", err), "name a place that you may write to with -o")
}

// createWhole creates a file such that it is there whole or not at all.
func createWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return notCreated(err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = write(f)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	if err := checkFree(path); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
