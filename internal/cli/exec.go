package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/internal/campaign"
	"github.com/joulemark/joulemark/internal/lines"
	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/process"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/align"
	"github.com/joulemark/joulemark/sync/mark"
	"github.com/joulemark/joulemark/sync/source"
)

const execHelp = `Measures what a command costs: it is run again and again in windows, with idle
time around each, while the meters are recorded; then the table is printed.

  joulemark exec -- sha256sum big.iso
  joulemark exec --meter rapl --runs 20 -- openssl speed -seconds 1 sha256
  joulemark exec -L level=1,6,9 -- gzip -kf -{level} data

The command is not handed to a shell: wrap a pipeline as sh -c '...'. A command
that takes less than a window (--window) is run several times in each; energy
and latency are those of one run, with all that starting a process costs. The
meter sees the whole machine: let it be otherwise idle.

With -L every combination of the values is measured, in random order within each
round. {NAME} in the command, in --prepare and in --conclude is replaced.

Programs that time many operations themselves and print as they go are run whole,
with --lines; their windows touch, and idle is the time (--lead) before and after:

  joulemark exec --lines openssl-speed -- openssl speed -mr -elapsed -seconds 3 ed25519

Adapters (--lines):
%s`

// execFlags is what a person asks of exec.
type execFlags struct {
	recordFlags
	runs, warmup      int
	batch             int64
	window            time.Duration
	pre, post, lead   time.Duration
	prepare, conclude string
	parameters        []string
	alg, ssh, lines   string
	lineOptions       []string
	ignore, output    bool
	seed              uint64
}

func execVerb(env *Env, l lab) *cobra.Command {
	var o execFlags
	var adapters strings.Builder
	for _, a := range lines.Adapters {
		fmt.Fprintf(&adapters, "  %-16s%s\n", a.Name, a.Summary)
		for _, x := range a.Options {
			fmt.Fprintf(&adapters, "    %-14s%s (default %s)\n", x.Name+"=", x.Summary, cmp.Or(x.Default, "none"))
		}
	}
	c := &cobra.Command{
		Use: "exec [flags] -- CMD [ARG]...", Short: "measure a command", Long: fmt.Sprintf(execHelp, adapters.String()), Args: cobra.MinimumNArgs(1),
		Annotations: map[string]string{leaves: "a meter"},
		RunE: func(c *cobra.Command, args []string) error {
			if o.lines != "" && !c.Flags().Changed("runs") {
				o.runs = 1
			}
			return o.exec(c.Context(), env, l, args)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.meters, "meter", nil, "meter: a `SPEC`, or NAME=SPEC; may be repeated (default the one that is there)")
	f.IntVar(&o.runs, "runs", 10, "windows of each command; with --lines how often it is run, 1 unless given")
	f.IntVar(&o.warmup, "warmup", 1, "runs of each command before all windows")
	f.Int64Var(&o.batch, "batch", 0, "runs of the command in a window (default as many as fill it)")
	f.DurationVar(&o.window, "window", 2*time.Second, "least length of a window")
	f.DurationVar(&o.pre, "pre", time.Second, "idle time before each window")
	f.DurationVar(&o.post, "post", time.Second, "idle time after each window")
	f.DurationVar(&o.lead, "lead", 3*time.Second, "idle time before the first window and after the last")
	f.StringVar(&o.prepare, "prepare", "", "`COMMAND` to run before each window")
	f.StringVar(&o.conclude, "conclude", "", "`COMMAND` to run after each window")
	f.StringArrayVarP(&o.parameters, "parameter-list", "L", nil, "measure the command for each value: `NAME=VALUE,VALUE...`; may be repeated")
	f.StringVar(&o.alg, "name", "", "`NAME` of the command in results (default that of the program, with its parameters)")
	f.StringVar(&o.ssh, "ssh", "", "run the command on this `HOST`, over your own ssh; it needs keys without a question, and GNU date there")
	f.StringVar(&o.lines, "lines", "", "run the command whole, and make windows of the lines it prints: `ADAPTER`, below")
	f.StringArrayVar(&o.lineOptions, "line-option", nil, "option of the adapter: `KEY=VALUE`; may be repeated")
	f.BoolVarP(&o.ignore, "ignore-failure", "i", false, "measure a command although it fails")
	f.BoolVar(&o.output, "show-output", false, "let the command print on stderr (default its output is thrown away)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the order and of the phase of windows")
	f.StringVarP(&o.out, "output", "o", "", "write the run to this `FOLDER`, which must not exist (default runs/DATE-NAME)")
	f.StringArrayVar(&o.notes, "note", nil, "remark that is kept in the run: a `TEXT`; may be repeated")
	f.BoolVar(&o.json, "json", false, "print JSON (joulemark.results/1) at the end")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of the live view")
	return c
}

func (o *execFlags) exec(ctx context.Context, env *Env, l lab, argv []string) error {
	if err := o.check(argv); err != nil {
		return err
	}
	o.recordFlags.name = "exec"
	options, err := o.options(l)
	if err != nil {
		return err
	}
	if o.lines != "" {
		options.Work, err = o.listen(options.HostNs, argv)
	} else {
		options.Work, err = o.windows(env, options.HostNs, argv)
	}
	if err != nil {
		return err
	}
	for i, m := range options.Meters {
		// The marks are those of the command, not those of a meter's own target.
		options.Meters[i].Open = func(ctx context.Context, notify func(meters.Notice)) (meters.Meter, error) {
			m, err := m.Open(ctx, notify)
			return struct{ meters.Meter }{m}, err
		}
	}
	recorder, err := record.New(options)
	if err != nil {
		return usage("%w", err)
	}
	view := watch(env, recorder, viewOptions{run: options.Dir, plain: o.plain})
	result, err := recorder.Run(ctx)
	view.end()
	if result.Run != "" {
		fmt.Fprintf(env.Stderr, "recorded: %s\n", result.Run)
	}
	if err != nil {
		return recordFailure(err, options.Dir)
	}
	return o.report(env, result)
}

// check looks for wrong flags, before any meter is looked for.
func (o *execFlags) check(argv []string) error {
	if o.runs < 1 {
		return usage("--runs %d is not above 0", o.runs)
	}
	if o.lines == "" {
		if len(o.lineOptions) > 0 {
			return usage("--line-option needs --lines")
		}
		_, err := o.plan(argv)
		return err
	}
	_, err := o.reader()
	return err
}

// windows returns the work of running the command in windows.
func (o *execFlags) windows(env *Env, clock meters.HostClock, argv []string) (func(context.Context, record.Marks) error, error) {
	plan, err := o.plan(argv)
	if err != nil {
		return nil, err
	}
	plan.Progress = func(done, all int, c campaign.Command, n int64) {
		if o.plain || !env.Terminal {
			fmt.Fprintf(env.Stderr, "window %d of %d: %s, %d runs\n", done+1, all, c.Alg, n)
		}
	}
	return func(ctx context.Context, to record.Marks) error {
		line := func(l run.Line) error {
			to.Line(l)
			return nil
		}
		host := meters.NewHost(clock)
		if o.ssh == "" {
			machine := campaign.Local{Host: host}
			if o.output {
				machine.Output = os.Stderr
			}
			return plan.Run(ctx, machine, line)
		}
		shell, err := process.Talk(o.over("sh"), clock)
		if err != nil {
			return err
		}
		defer shell.Close()
		return plan.Run(ctx, campaign.NewRemote(host, shell), line)
	}, nil
}

// over is the command that runs a line of shell on the other machine.
func (o *execFlags) over(line string) []string { return []string{"ssh", "-T", o.ssh, line} }

// reader makes the adapter of the flags.
func (o *execFlags) reader() (lines.Machine, error) {
	settings := map[string]string{}
	for _, pair := range o.lineOptions {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usage("--line-option %q is not KEY=VALUE", pair)
		}
		settings[key] = value
	}
	reader, err := lines.New(o.lines, lines.Config{Source: campaign.Source, Options: settings})
	if err != nil {
		return nil, usage("--%w", err)
	}
	return reader, nil
}

// listen returns the work of running the command and reading its lines.
func (o *execFlags) listen(clock meters.HostClock, argv []string) (func(context.Context, record.Marks) error, error) {
	reader, err := o.reader()
	if err != nil {
		return nil, err
	}
	if o.ssh != "" {
		argv = o.over(campaign.Quote(argv))
	}
	return func(ctx context.Context, to record.Marks) error {
		rest := campaign.Rest{Host: meters.NewHost(clock), Seconds: o.lead.Seconds(), Emit: to.Line}
		// A program that makes statements itself has a clock of its own.
		if o.lines != "jm" {
			if err := rest.Hello(o.machine()); err != nil {
				return err
			}
		}
		if err := rest.Pause(ctx); err != nil {
			return err
		}
		defer finish(clock, reader, to)
		for range o.runs {
			if err := o.hear(ctx, clock, argv, reader, to); err != nil {
				return err
			}
			if err := rest.Pause(ctx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// finish takes what the adapter still held.
func finish(clock meters.HostClock, reader lines.Machine, to record.Marks) {
	for _, l := range reader.Close() {
		to.Line(l)
	}
	for _, n := range reader.Notes() {
		n.HostNs = clock()
		to.Note(n)
	}
}

// hear runs the command once and hands its lines over.
func (o *execFlags) hear(ctx context.Context, clock meters.HostClock, argv []string, reader lines.Machine, to record.Marks) error {
	p, err := process.Both(argv, clock)
	if err != nil {
		return err
	}
	var last []byte
	err = source.NewLines(campaign.Source, p).Watch(ctx, func(hostNs int64, text []byte) {
		last = append(last[:0], text...)
		if o.output {
			fmt.Fprintf(os.Stderr, "%s\n", printable(string(text)))
		}
		for _, l := range reader.Feed(text, hostNs) {
			to.Line(l)
		}
	})
	p.Close()
	switch {
	case errors.Is(err, io.EOF) || err != nil && o.ignore && ctx.Err() == nil:
		return nil
	case err != nil:
		return &meters.Problem{Err: fmt.Errorf("%w; its last line: %q", err, last), Hint: "--show-output shows all that it prints; --ignore-failure takes its windows anyway"}
	}
	return ctx.Err()
}

// report prints the table of what was recorded.
func (o *execFlags) report(env *Env, result record.Result) error {
	set, err := analyzeAll([]string{result.Run}, "", align.Options{}, analysis.Options{Baseline: analysis.Local})
	if err != nil {
		return err
	}
	if o.json {
		return printResults(env.Stdout, set)
	}
	return printTables(env.Stdout, set.Runs)
}

// plan makes the plan of the flags, and checks them.
func (o *execFlags) plan(argv []string) (campaign.Commands, error) {
	p := campaign.Commands{
		Windows: o.runs, Warmup: o.warmup, Batch: o.batch, WindowSeconds: o.window.Seconds(),
		PreSeconds: o.pre.Seconds(), PhaseSeconds: phaseSeconds, PostSeconds: o.post.Seconds(), LeadSeconds: o.lead.Seconds(),
		Seed: o.seed, IgnoreFailure: o.ignore, Hello: o.machine(),
	}
	switch {
	case o.warmup < 0:
		return p, usage("--warmup %d is negative", o.warmup)
	case o.batch < 0:
		return p, usage("--batch %d is negative", o.batch)
	case o.window <= 0 || o.pre < 0 || o.post < 0 || o.lead < 0:
		return p, usage("--window must be above 0, --pre, --post and --lead not below")
	}
	all, err := combinations(o.parameters)
	if err != nil {
		return p, err
	}
	for _, values := range all {
		c := campaign.Command{Alg: o.alg, Op: "run"}
		if c.Alg == "" {
			c.Alg = filepath.Base(argv[0])
		}
		for _, v := range values {
			c.Alg += " " + v.name + "=" + v.value
		}
		for _, a := range argv {
			c.Argv = append(c.Argv, replace(a, values))
		}
		for _, x := range []struct {
			from string
			to   *[]string
		}{{o.prepare, &c.Prepare}, {o.conclude, &c.Conclude}} {
			words, err := splitWords(x.from)
			if err != nil {
				return p, err
			}
			for _, w := range words {
				*x.to = append(*x.to, replace(w, values))
			}
		}
		p.List = append(p.List, c)
	}
	return p, nil
}

// phaseSeconds spreads the beginnings of windows over two packets of the
// slowest USB meter, 80 ms.
const phaseSeconds = 0.08

// parameter is a value of a name in braces.
type parameter struct{ name, value string }

func replace(text string, values []parameter) string {
	for _, v := range values {
		text = strings.ReplaceAll(text, "{"+v.name+"}", v.value)
	}
	return text
}

// combinations returns each value of each list with each of the others; one
// empty combination where there is no list.
func combinations(lists []string) ([][]parameter, error) {
	all := [][]parameter{nil}
	for _, list := range lists {
		name, values, ok := strings.Cut(list, "=")
		if !ok || name == "" || values == "" {
			return nil, usage("-L %q is not NAME=VALUE,VALUE", list)
		}
		var next [][]parameter
		for _, before := range all {
			if slices.ContainsFunc(before, func(p parameter) bool { return p.name == name }) {
				return nil, usage("-L names %s twice", name)
			}
			for _, v := range strings.Split(values, ",") {
				next = append(next, append(slices.Clone(before), parameter{name, v}))
			}
		}
		all = next
	}
	if len(all) > maxCombinations {
		return nil, usage("-L makes %d combinations, at most %d are measured", len(all), maxCombinations)
	}
	return all, nil
}

const maxCombinations = 1000

// machine describes the machine that the command runs on.
func (o *execFlags) machine() mark.Hello {
	if o.ssh != "" {
		return mark.Hello{Target: o.ssh}
	}
	h := mark.Hello{ISA: runtime.GOARCH, Bits: 32 << (^uint(0) >> 63)}
	h.Target, _ = os.Hostname()
	return h
}

// splitWords splits as a shell does, without being one.
func splitWords(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	words, err := process.Split(text)
	if err != nil {
		return nil, &failure{code: exitUsage, err: err, hint: meters.Hint(err)}
	}
	return words, nil
}
