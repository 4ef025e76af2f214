package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/bench"
)

const demoHelp = `Plays a complete campaign on the virtual bench: an emulated USB power meter
records an emulated 32-bit and an emulated 64-bit target while they run
post-quantum and classical algorithms. The recorded runs are analyzed as real
ones are; the truth, which the analysis does not see, is printed beside each
result.

Time is virtual: nothing waits, and the same seed gives the same bytes. All of
it is simulated: latencies come from a table that names its sources, powers are
assumed.`

func demoVerb(env *Env) *cobra.Command {
	var o struct {
		json     bool
		out      string
		scenario string
		seed     uint64
	}
	c := &cobra.Command{
		Use: "demo", Short: "a complete campaign on the virtual bench, with the truth beside it", Long: demoHelp, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			scenario, err := bench.LoadScenario(o.scenario)
			if err != nil {
				return hinted(err, "scenarios: "+list(bench.Scenarios()))
			}
			out := o.out
			if out == "" {
				if out, err = freshFolder("demo"); err != nil {
					return err
				}
			}
			d, err := playDemo(c.Context(), env, scenario, o.seed, out)
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(env.Stdout, d)
			}
			return d.print(env.Stdout)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON (joulemark.demo/1)")
	f.StringVarP(&o.out, "output", "o", "", "keep the set in this `FOLDER` (default runs/DATE-demo)")
	f.StringVar(&o.scenario, "scenario", "demo", "scenario of the virtual bench: a `NAME`")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything that is random")
	return c
}

// freshFolder names a folder for a run that does not exist yet.
func freshFolder(name string) (string, error) {
	base := filepath.Join("runs", time.Now().Format("2006-01-02")+"-"+name)
	for i := 1; i < 1000; i++ {
		dir := base
		if i > 1 {
			dir = fmt.Sprintf("%s-%d", base, i)
		}
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			return dir, nil
		}
	}
	return "", hinted(fmt.Errorf("%s and 998 more exist", base), "name a folder with -o")
}

// demo is a played and analyzed campaign.
type demo struct {
	Schema    string             `json:"schema"`
	Simulated bool               `json:"simulated"`
	Set       string             `json:"set"`
	Seed      uint64             `json:"seed"`
	Results   analysis.ResultSet `json:"results"`
	Truth     []bench.Truth      `json:"truth"`
	Ratios    []demoRatio        `json:"ratios"`
}

// demoRatio is 32-bit against 64-bit for one operation.
type demoRatio struct {
	Alg      string            `json:"alg"`
	Op       string            `json:"op"`
	Ratio    analysis.Quantity `json:"net_j_ratio"`
	True     float64           `json:"true_net_j_ratio"`
	Slowdown float64           `json:"latency_ratio"`
}

func playDemo(ctx context.Context, env *Env, s bench.Scenario, seed uint64, out string) (demo, error) {
	d := demo{Schema: "joulemark.demo/1", Simulated: true, Set: out, Seed: seed}
	if _, err := os.Lstat(out); err == nil {
		return d, hinted(fmt.Errorf("output %s exists", out), "name another folder with -o, or remove it")
	}
	bars := newBars(ctx, env)
	truth, err := bench.PlaySet(s, bench.Targets(), seed, out, bars.windows)
	bars.done(err == nil)
	if err != nil {
		return d, err
	}
	d.Truth = truth
	text, err := json.MarshalIndent(truth, "", "  ")
	if err != nil {
		return d, fmt.Errorf("write truth: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, "truth.json"), append(text, '\n'), 0o644); err != nil {
		return d, fmt.Errorf("write truth: %w", err)
	}
	flags := figureFlags{kind: "all", baseline: string(analysis.Local), width: defaultPixels}
	g, err := flags.gallery(env)
	if err != nil {
		return d, err
	}
	if _, _, err := eachMeter([]string{out}, "", g.hang); err != nil {
		return d, err
	}
	if g.failed != nil {
		return d, g.failed
	}
	d.Results = analysis.ResultSet{Schema: analysis.ResultSetSchema, Runs: g.results}
	d.compare()
	if err := g.finish(); err != nil {
		return d, err
	}
	if err := g.write(io.Discard, filepath.Join(out, "figures"), allFormats); err != nil {
		return d, err
	}
	return d, ctx.Err()
}

// truthOf returns what is true of an operation on a target.
func (d *demo) truthOf(target string, op analysis.Operation) (bench.TrueOp, bool) {
	for _, t := range d.Truth {
		if t.Target != target {
			continue
		}
		for _, o := range t.Ops {
			if o.Alg == op.Alg && o.Op == op.Op {
				return o, true
			}
		}
	}
	return bench.TrueOp{}, false
}

// compare sets the 32-bit target against the 64-bit one.
func (d *demo) compare() {
	var narrow, wide *analysis.Results
	for i := range d.Results.Runs {
		switch r := &d.Results.Runs[i]; r.Target.Bits {
		case 32:
			narrow = r
		case 64:
			wide = r
		}
	}
	if narrow == nil || wide == nil {
		return
	}
	for _, a := range narrow.Operations {
		for _, b := range wide.Operations {
			if a.Alg != b.Alg || a.Op != b.Op {
				continue
			}
			// The idle modes differ (wfi on a microcontroller, os on a computer):
			// both are net over the target's own idle, and said so.
			b.IdleMode = a.IdleMode
			q, err := analysis.Ratio(a, b, false)
			if err != nil {
				continue
			}
			ta, okA := d.truthOf(narrow.Run, a)
			tb, okB := d.truthOf(wide.Run, b)
			if okA && okB {
				d.Ratios = append(d.Ratios, demoRatio{a.Alg, a.Op, q, ta.JoulesPerOp / tb.JoulesPerOp, float64(a.Latency.Mean / b.Latency.Mean)})
			}
		}
	}
}

func (d *demo) print(w io.Writer) error {
	fmt.Fprintln(w, "SIMULATED: an emulated meter and emulated targets; no hardware was measured.")
	held, all := 0, 0
	for _, r := range d.Results.Runs {
		fmt.Fprintln(w)
		printHead(w, r)
		t := newTable()
		t.AppendHeader(table.Row{"algorithm", "operation", "n", "net/op", "95 % total", "repeat", "true", "off by", "latency/op", "net power", ""})
		notes := &footnotes{}
		for _, op := range r.Operations {
			truth, ok := d.truthOf(r.Run, op)
			if !ok {
				return fmt.Errorf("no truth for %s %s on %s", op.Alg, op.Op, r.Run)
			}
			all++
			in := float64(op.Net.Lo95) <= truth.JoulesPerOp && truth.JoulesPerOp <= float64(op.Net.Hi95)
			if in {
				held++
			}
			value, total, repeat := quantity(op.Net, "J")
			t.AppendRow(table.Row{op.Alg, op.Op, op.Count, value, total, repeat, number(analysis.Num(truth.JoulesPerOp), "J", 4),
				fmt.Sprintf("%+.2f %%", 100*(float64(op.Net.Value)/truth.JoulesPerOp-1)),
				number(op.Latency.Mean, "s", 4), number(op.NetWatts.Value, "W", 3), notes.marks(op.Warnings)})
		}
		if err := render(w, t); err != nil {
			return err
		}
		notes.print(w)
		for _, x := range r.Warnings {
			fmt.Fprintf(w, "warning: %s\n", x)
		}
	}
	fmt.Fprintf(w, "\n32-bit against 64-bit, net energy (each over its target's own idle)\n")
	t := newTable()
	t.AppendHeader(table.Row{"algorithm", "operation", "energy ratio", "95 % total", "true", "latency ratio"})
	for _, r := range d.Ratios {
		value, total, _ := quantity(r.Ratio, "")
		t.AppendRow(table.Row{r.Alg, r.Op, value, total, number(analysis.Num(r.True), "", 4), number(analysis.Num(r.Slowdown), "", 4)})
	}
	if err := render(w, t); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nThe total interval holds the truth in %d of %d rows (of 95 %% intervals, about %.0f do).\n", held, all, 0.95*float64(all))
	_, err := fmt.Fprintf(w, "The set is kept in %s, its pictures in %s; the same again: joulemark analyze %s\n", d.Set, filepath.Join(d.Set, "figures"), d.Set)
	return err
}

// bars draw the progress of a campaign on a terminal, and one line a target
// elsewhere.
type bars struct {
	env      *Env
	progress *mpb.Progress
	bar      *mpb.Bar
	target   string
}

func newBars(ctx context.Context, env *Env) *bars {
	b := &bars{env: env}
	if env.Terminal {
		b.progress = mpb.NewWithContext(ctx, mpb.WithOutput(env.Stderr), mpb.WithWidth(40))
	}
	return b
}

// windows is told how many windows of a target are over.
func (b *bars) windows(target string, done, of int) {
	if b.progress == nil {
		if done == of {
			fmt.Fprintf(b.env.Stderr, "%s: %d windows played\n", target, of)
		}
		return
	}
	if target != b.target {
		b.target = target
		b.bar = b.progress.AddBar(int64(of),
			mpb.PrependDecorators(decor.Name(target, decor.WC{W: 8, C: decor.DindentRight}), decor.CountersNoUnit("%d/%d windows ")),
			mpb.AppendDecorators(decor.Percentage()))
	}
	b.bar.SetCurrent(int64(done))
}

func (b *bars) done(whole bool) {
	if b.progress == nil {
		return
	}
	if !whole && b.bar != nil {
		b.bar.Abort(false)
	}
	b.progress.Wait()
}
