// Package cli is the command line: one file a verb. It is the only place that
// chooses an exit code.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/meters"
)

// Exit codes. A failure is never 0.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitVoid        = 3 // done, but a warning voids the claim
	exitNoDevice    = 4
	exitDamaged     = 5
	exitInterrupted = 130
)

// Env is everything a verb needs of the outside world.
type Env struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that Stderr is a terminal, on which progress may be drawn.
	Terminal bool
	// Interrupt ends when the person wants the verb to end.
	Interrupt context.Context
}

// System returns the environment of this process.
func System() *Env {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	info, err := os.Stderr.Stat()
	return &Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal:  err == nil && info.Mode()&os.ModeCharDevice != 0,
		Interrupt: ctx,
	}
}

// failure is an error with its exit code and a hint for the person.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usage is an error in flags or arguments.
func usage(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// hinted adds what would help.
func hinted(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &failure{code: exitFailed, err: err, hint: hint}
}

// Main runs one command line and returns the exit code.
func Main(env *Env) int {
	root := newRoot(env)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	command, err := execute(root, env)
	if err == nil {
		return exitDone
	}
	code, hint := exitFailed, ""
	var f *failure
	switch {
	case errors.Is(err, context.Canceled):
		code = exitInterrupted
	case errors.As(err, &f):
		code, hint = f.code, f.hint
	}
	if hint == "" {
		hint = meters.Hint(err)
	}
	text := err.Error()
	if code == exitInterrupted {
		text = "interrupted"
	}
	fmt.Fprintf(env.Stderr, "joulemark: %s\n", text)
	if hint == "" && code == exitUsage {
		hint = fmt.Sprintf("run '%s --help'", command.CommandPath())
	}
	if hint != "" {
		fmt.Fprintf(env.Stderr, "hint: %s\n", hint)
	}
	return code
}

// How long an interrupted verb may take to leave things in order. A verb that
// only reads has nothing to leave, and is not waited for any longer; one that
// leaves a meter says so by an annotation.
const (
	grace      = 3 * time.Second
	meterGrace = 15 * time.Second
	leaves     = "leaves" // annotation of a verb
)

// execute runs the verb until it ends or is interrupted.
func execute(root *cobra.Command, env *Env) (*cobra.Command, error) {
	type ended struct {
		command *cobra.Command
		err     error
	}
	wait := grace
	if c, _, err := root.Find(env.Args); err == nil && c.Annotations[leaves] != "" {
		wait = meterGrace
	}
	done := make(chan ended, 1)
	go func() {
		c, err := root.ExecuteContextC(env.Interrupt)
		done <- ended{c, err}
	}()
	select {
	case e := <-done:
		return e.command, e.err
	case <-env.Interrupt.Done():
	}
	select {
	case e := <-done:
		if e.err == nil {
			return e.command, context.Canceled
		}
		return e.command, e.err
	case <-time.After(wait):
		return root, context.Canceled
	}
}

const about = `joulemark tells what one operation costs in joules, next to how long it takes.

It records a USB power meter while a target works, lines both up by marks that
the target sends, subtracts the idle level, and reports J/op with its
uncertainty.

Start with 'joulemark demo': a whole campaign with nothing plugged in.
Results go to stdout, everything else to stderr; verbs that yield data take
--json. 'joulemark help exit' lists the exit codes.`

const exitHelp = `Exit codes:
  0    done (a run that merely lacks its tail analyses with a warning)
  1    failed, or refused: input, output that exists, a comparison
  2    wrong usage: flags, arguments or specs that do not parse
  3    done, but a warning voids the claim (with --strict)
  4    no meter or no target
  5    damaged: check on any damage, others when it goes beyond the tail
  130  interrupted; what was recorded is complete up to there`

func newRoot(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use: "joulemark", Short: "what one operation costs in joules", Long: about,
		SilenceUsage: true, SilenceErrors: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown verb %q", args[0])
			}
			return c.Help()
		},
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault)
	l := newLab()
	root.AddCommand(demoVerb(env), metersVerb(env, l), doctorVerb(env, l), recordVerb(env, l), execVerb(env, l), importVerb(env), checkVerb(env), analyzeVerb(env), exportVerb(env), windowsVerb(env), characteriseVerb(env), calibrateVerb(env), virtualVerb(env), plotVerb(env), versionVerb(env),
		&cobra.Command{Use: "exit", Short: "exit codes", Long: exitHelp})
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &failure{code: exitUsage, err: err} })
	for _, c := range root.Commands() {
		strictArgs(c)
	}
	return root
}

// strictArgs makes a wrong number of arguments an error of usage.
func strictArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return &failure{code: exitUsage, err: err}
		}
		return nil
	}
}

// printJSON writes v as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// list joins words as a sentence does.
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}
