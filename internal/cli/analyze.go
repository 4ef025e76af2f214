package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/store"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
)

const analyzeHelp = `Prints energy per operation of a run, or of all runs of a set.

Net energy is what a window took above the idle level beside it: marginal input
energy at the measuring point, losses of cable and converter included. It is
not the energy of the chip. Gross includes the idle level.

Two intervals of 95 % belong to each value. 'repeat' is repeatability: what
scatter between repeats shows, and what all windows of the run share. 'total'
adds the limits of the meter (its accuracy), which more repeats do not reduce.

--baseline local subtracts the idle level beside each window, with its drift;
global one level for the whole run; none nothing: each window is integrated
between its marks, as EEMBC's runner does, and only gross is stated.

A window costs something beside its operations (waking up, the mark). Windows of
two lengths tell how much; --subtract-overhead takes it off.

Where a run holds a calibration of its meter, its samples are corrected by it;
--calibration none leaves them, --calibration NAME takes the one that is kept
under that name ('joulemark calibrate').`

func analyzeVerb(env *Env) *cobra.Command {
	var o struct {
		json, strict bool
		analysisFlags
	}
	c := &cobra.Command{
		Use: "analyze RUN...", Short: "energy per operation, next to latency", Long: analyzeHelp, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			by, opt, err := o.options(c.Flags().Changed("accuracy"))
			if err != nil {
				return err
			}
			set, err := analyzeAll(args, o.meter, by, opt)
			if err != nil {
				return err
			}
			if o.json {
				err = printResults(env.Stdout, set)
			} else {
				err = printTables(env.Stdout, set.Runs)
			}
			if err != nil {
				return err
			}
			if err := damaged(set.broken); err != nil {
				return err
			}
			if o.strict && set.void() {
				return &failure{code: exitVoid, err: fmt.Errorf("a warning voids the claim (--strict)")}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON (joulemark.results/1, or joulemark.resultset/1 for a set)")
	f.BoolVar(&o.strict, "strict", false, "exit with 3 if a warning voids the claim")
	o.analysisFlags.add(f)
	return c
}

// analysisFlags say how runs are analyzed.
type analysisFlags struct {
	baseline, meter, accuracy, calibration string
	overhead                               bool
}

func (o *analysisFlags) add(f *pflag.FlagSet) {
	f.StringVar(&o.baseline, "baseline", "local", "idle level to subtract: `local`, global or none")
	f.BoolVar(&o.overhead, "subtract-overhead", false, "take what a window costs beside its operations (wake-up, mark) off their energy; it is found from windows of two lengths")
	f.StringVar(&o.meter, "meter", "", "take this `NAME` of several meters in a run")
	f.StringVar(&o.calibration, "calibration", "", "correct samples by what is kept under this `NAME`, instead of what the run holds; none for no correction")
	f.StringVar(&o.accuracy, "accuracy", "", "the meter's limits, instead of what the run says: `SPEC` is exact, unknown, or like v=0.5%+20uV,a=0.5%+20uA")
}

func (o *analysisFlags) options(accuracyGiven bool) (align.Options, analysis.Options, error) {
	opt := analysis.Options{Baseline: analysis.Baseline(o.baseline), SubtractOverhead: o.overhead}
	if err := checkBaseline(opt.Baseline); err != nil {
		return align.Options{}, opt, err
	}
	if accuracyGiven {
		a, err := meters.ParseAccuracy(o.accuracy)
		if err != nil {
			return align.Options{}, opt, usage("--accuracy: %w", err)
		}
		a.Source = "stated on the command line"
		opt.Accuracy = &a
	}
	by, err := calibrationOf(o.calibration)
	return by, opt, err
}

// calibrationOf reads --calibration.
func calibrationOf(name string) (align.Options, error) {
	switch name {
	case "":
		return align.Options{}, nil
	case "none":
		return align.Options{Uncorrected: true}, nil
	}
	if err := store.CheckName(name); err != nil {
		return align.Options{}, usage("--calibration: %w", err)
	}
	e, err := loadMeter(name)
	if err == nil && e.Calibration == nil {
		err = fmt.Errorf("meter %s was never calibrated", name)
	}
	return align.Options{Calibration: e.Calibration}, err
}

// analyzed is the results of one or several runs.
type analyzed struct {
	analysis.ResultSet
	set    bool // given as a set, or several runs or meters
	broken []string
}

// damaged is the failure of a verb that is done, but from damaged runs.
func damaged(broken []string) error {
	if len(broken) == 0 {
		return nil
	}
	return &failure{code: exitDamaged, err: fmt.Errorf("%s is damaged beyond its tail: the result rests on what is whole", broken[0]),
		hint: "joulemark check says what is damaged"}
}

func checkBaseline(b analysis.Baseline) error {
	switch b {
	case analysis.Local, analysis.Global, analysis.None:
		return nil
	}
	return usage("--baseline %q is none of local, global, none", b)
}

func (a analyzed) void() bool {
	for _, r := range a.Runs {
		if len(r.Voids) > 0 {
			return true
		}
	}
	return false
}

// analyzeAll analyzes all runs that the paths name, with all their meters or
// the one that is named.
func analyzeAll(paths []string, meter string, by align.Options, o analysis.Options) (analyzed, error) {
	out := analyzed{ResultSet: analysis.ResultSet{Schema: analysis.ResultSetSchema}}
	set, broken, err := eachMeterBy(paths, meter, by, func(t *align.Timeline) error {
		res, err := analysis.Analyze(t, o)
		out.Runs = append(out.Runs, res)
		return err
	})
	out.set, out.broken = set || len(out.Runs) != 1, broken
	return out, err
}

// eachMeter puts the windows of each meter of each run that the paths name on
// a time line, or of the one meter that is named. It says whether a path stands
// for a set, and which runs are damaged beyond their tails.
func eachMeter(paths []string, meter string, use func(*align.Timeline) error) (set bool, broken []string, err error) {
	return eachMeterBy(paths, meter, align.Options{}, use)
}

// eachMeterBy is eachMeter with options of the time line.
func eachMeterBy(paths []string, meter string, by align.Options, use func(*align.Timeline) error) (set bool, broken []string, err error) {
	used := 0
	for _, path := range paths {
		dirs, err := run.Find(path)
		if err != nil {
			return set, broken, hinted(fmt.Errorf("open %s: %w", path, err), "give the folder of a run or of a set; 'joulemark import' makes a run from other tools' files")
		}
		set = set || len(dirs) != 1 || dirs[0] != path
		for _, dir := range dirs {
			r, err := run.Open(dir)
			if err != nil {
				return set, broken, fmt.Errorf("open %s: %w", dir, err)
			}
			for _, s := range r.Streams {
				if meter != "" && s.Stream != meter {
					continue
				}
				t, err := align.AlignBy(r, s.Stream, by)
				if err != nil {
					return set, broken, err
				}
				if err := use(t); err != nil {
					return set, broken, err
				}
				used++
			}
			if r.DamageCount > 0 && !r.TailOnly {
				broken = append(broken, dir)
			}
		}
	}
	switch {
	case used > 0:
		return set, broken, nil
	case meter != "":
		return set, broken, fmt.Errorf("no run in %s has a meter named %q", list(paths), meter)
	}
	return set, broken, fmt.Errorf("no run in %s holds samples", list(paths))
}

func printResults(w io.Writer, a analyzed) error {
	if a.set {
		return printJSON(w, a.ResultSet)
	}
	return printJSON(w, a.Runs[0])
}
