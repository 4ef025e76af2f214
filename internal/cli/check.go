package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/si"
)

const checkHelp = `Verifies every record and every batch of samples of a run, or of all runs of a
set, and says what it holds and what is damaged or missing. It changes nothing.

Exit code 0: whole. 5: any damage, a missing tail included.`

func checkVerb(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check RUN...", Short: "what a run holds, what is damaged or missing", Long: checkHelp, Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			reports := []run.Report{}
			damaged := 0
			for _, path := range args {
				dirs, err := run.Find(path)
				if err != nil {
					return hinted(fmt.Errorf("open %s: %w", path, err), "give the folder of a run or of a set")
				}
				for _, dir := range dirs {
					r, err := run.Open(dir)
					if err != nil {
						return fmt.Errorf("open %s: %w", dir, err)
					}
					report := r.Check()
					if !report.OK() {
						damaged++
					}
					reports = append(reports, report)
				}
			}
			if asJSON {
				if err := printChecked(env.Stdout, reports); err != nil {
					return err
				}
			} else {
				for _, r := range reports {
					printReport(env.Stdout, r)
				}
			}
			if damaged > 0 {
				return &failure{code: exitDamaged, err: fmt.Errorf("%d of %d runs are damaged or lack their tail", damaged, len(reports)),
					hint: "analyze uses what is whole, and says so"}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (joulemark.check/1)")
	return c
}

// printChecked prints one report as it is, several as a list.
func printChecked(w io.Writer, reports []run.Report) error {
	if len(reports) == 1 {
		return printJSON(w, reports[0])
	}
	return printJSON(w, struct {
		Schema string       `json:"schema"`
		Runs   []run.Report `json:"runs"`
	}{"joulemark.checkset/1", reports})
}

func printReport(w io.Writer, r run.Report) {
	simulated := ""
	if r.Simulated {
		simulated = "  (simulated)"
	}
	fmt.Fprintf(w, "run %s%s\n", r.Run, simulated)
	for _, s := range r.Streams {
		fmt.Fprintf(w, "  %-9s %d samples, %s, in %d segments; %d arrivals\n", s.Stream, s.Samples, si.Format(s.Seconds, "s", 4), s.Segments, s.Arrivals)
	}
	fmt.Fprintf(w, "  %-9s %d lines, %d edges, %d windows on the sample clock\n", "marks", r.Lines, r.Edges, r.Windows)
	for _, d := range r.Damage {
		kind := "damage"
		if d.Tail {
			kind = "tail"
		}
		fmt.Fprintf(w, "  %-9s %s at byte %d: %s\n", kind, d.File, d.Offset, d.What)
	}
	if n := r.DamageCount - int64(len(r.Damage)); n > 0 {
		fmt.Fprintf(w, "  and %d more\n", n)
	}
	switch {
	case r.OK() && r.Closed:
		fmt.Fprintf(w, "  whole, ended: %s\n", r.Reason)
	case r.OK():
		fmt.Fprintln(w, "  whole so far, not ended")
	}
}
