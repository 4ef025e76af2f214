package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/internal/imports"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/si"
)

const importHelp = `Makes a run from a recording of another tool.

  joulemark import --samples power.csv --marks marks.txt -o RUN
  joulemark import --from energyrunner DIR -o RUN

Formats (--from; told from the file where it is left out):
%s
A marks file holds '<host seconds><TAB or space><line as received>'; its times
are of the clock that stamped the samples. Lines without a statement are kept
as evidence.

A recording of current alone (PPK2, Otii) needs the voltage of the supply, as in
--volts 3.3V. It is stated then, not measured, and every result says so.

--edges FILE,channel=NAME makes windows of the time for which a pin is high, from
a VCD or CSV file of a logic analyser. Its clock is tied to the samples' by edges
that a pin of theirs saw too (pin=d0; sync=NAME where that is another channel), or
by the sample time at which it begins (offset=12.5ms). pin=d0 without a file takes
the pin of the samples alone. Further: active=low, alg=NAME, op=NAME, n=COUNT, or
names=LOG, the console of pqc-embedded-evaluation, which names pulses in order.

--accuracy states the limits of the meter: exact, unknown, or like
v=0.5%%+20uV,a=0.5%%+20uA (w= for power). Without it no total interval is stated.`

func importVerb(env *Env) *cobra.Command {
	var o imports.Options
	var asJSON bool
	var accuracy, volts, edges string
	var samples []string
	var formats strings.Builder
	for _, f := range imports.Formats {
		fmt.Fprintf(&formats, "  %-14s%s\n", f.Name, f.Summary)
	}
	c := &cobra.Command{
		Use: "import [--from FORMAT] [DIR] --samples FILE [--marks FILE] -o RUN", Short: "make a run from other tools' files",
		Long: fmt.Sprintf(importHelp, formats.String()), Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && len(samples) > 0:
				return usage("both %s and --samples %s are given", args[0], samples[0])
			case len(args) == 1:
				samples = args
			case len(samples) == 0:
				return usage("nothing to import: give --samples FILE, or a folder")
			}
			o.Samples, o.Also = samples[0], samples[1:]
			if c.Flags().Changed("edges") {
				var err error
				if o.Edges, err = imports.ParseEdges(edges); err != nil {
					return usage("--edges: %w", err)
				}
			}
			if c.Flags().Changed("accuracy") {
				a, err := meters.ParseAccuracy(accuracy)
				if err != nil {
					return usage("--accuracy: %w", err)
				}
				a.Source = "stated at import"
				o.Accuracy, o.AccuracyGiven = a, true
			}
			if c.Flags().Changed("rate") && !(o.RateHz > 0) {
				return usage("--rate %g is not above 0", o.RateHz)
			}
			if c.Flags().Changed("volts") {
				v, err := si.Parse(volts, "V")
				if err != nil || !(v > 0) {
					return usage("--volts %q is not a voltage above 0, such as 3.3V", volts)
				}
				o.Volts = v
			}
			if c.Flags().Changed("count") && o.Count < 1 {
				return usage("--count %d is below 1", o.Count)
			}
			if o.Out == "" {
				var err error
				if o.Out, err = freshFolder("import"); err != nil {
					return err
				}
			}
			o.Tool = tool()
			sum, err := imports.Import(c.Context(), o, func(s string) { fmt.Fprintln(env.Stderr, s) })
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(env.Stdout, struct {
					Schema string `json:"schema"`
					imports.Summary
				}{"joulemark.import/1", sum})
			}
			rate := "each with its own time"
			if sum.RateHz > 0 {
				rate = si.Format(sum.RateHz, "Hz", 5)
			}
			fmt.Fprintf(env.Stdout, "%s: %d samples (%s, %s), %d lines with %d statements, %d windows on the sample clock\n",
				sum.Run, sum.Samples, si.Format(sum.Seconds, "s", 4), rate, sum.Lines, sum.Statements, sum.Windows)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.From, "from", "", "format of the recording: a `NAME` from the list above")
	f.StringArrayVar(&samples, "samples", nil, "`FILE` of samples, or the folder of an energyrunner recording; once more for the other channel of an Otii")
	f.StringVar(&o.Marks, "marks", "", "`FILE` of marks beside the samples")
	f.StringVar(&edges, "edges", "", "windows from the levels of a pin, by a `SPEC` as above")
	f.StringVar(&accuracy, "accuracy", "", "limits of the meter: a `SPEC` as above")
	f.Float64Var(&o.RateHz, "rate", 0, "samples a second (`HZ`) of a file without a time column")
	f.StringVar(&volts, "volts", "", "voltage of the supply (`VOLTS`, such as 3.3V) of a recording of current alone")
	f.Int64Var(&o.Count, "count", 0, "operations in each window (`N`) where the files do not say how many")
	f.StringVarP(&o.Out, "output", "o", "", "write the run to this `FOLDER`, which must not exist (default runs/DATE-import)")
	f.BoolVar(&asJSON, "json", false, "print JSON (joulemark.import/1)")
	return c
}
