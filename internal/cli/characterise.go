package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/store"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/align"
)

const characteriseHelp = `Says what a recording shows of its meter: how many of its samples are
independent values, what a sample is, how fast it responds, how it noises, and
whether mean power is right where power is not constant. The recording should
hold windows of constant power, idle between them, and the duty-cycle self-test
(docs/method.md, section 6).

With --name it is kept under that name, beside the calibration of this meter,
for recordings that cannot show it. A name is the person's: serial numbers of
cheap meters are not unique.`

// characterised is what characterise prints as JSON.
type characterised struct {
	Schema           string                  `json:"schema"`
	File             string                  `json:"file,omitempty"` // in which it is kept
	Characterisation meters.Characterisation `json:"characterisation"`
}

func characteriseVerb(env *Env) *cobra.Command {
	var name, meter string
	var asJSON, replace bool
	c := &cobra.Command{
		Use: "characterise RUN", Aliases: []string{"characterize"}, Short: "what a recording shows of its meter, kept under a name", Long: characteriseHelp, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if name != "" {
				if err := store.CheckName(name); err != nil {
					return usage("--name: %w", err)
				}
			}
			out, err := characterise(args[0], meter, name)
			if err != nil {
				return err
			}
			if name != "" {
				if out.File, err = keepCharacterisation(name, out.Characterisation, replace); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(env.Stdout, out)
			}
			printCharacterisation(env.Stdout, out.Characterisation)
			if out.File != "" {
				fmt.Fprintf(env.Stderr, "kept in %s\n", out.File)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&name, "name", "", "keep it under this `NAME`")
	f.BoolVar(&replace, "replace", false, "replace what is kept under the name")
	f.StringVar(&meter, "meter", "", "the `NAME` of the meter, where a run has several")
	f.BoolVar(&asJSON, "json", false, "print JSON (joulemark.characterisation/1)")
	return c
}

// oneStream opens a run and finds the one stream that is meant.
func oneStream(path, meter string) (*run.Run, string, error) {
	r, err := run.Open(path)
	if err != nil {
		return nil, "", hinted(fmt.Errorf("open %s: %w", path, err), "give the folder of a run")
	}
	var names []string
	for _, s := range r.Streams {
		if meter == "" || s.Stream == meter {
			names = append(names, s.Stream)
		}
	}
	switch {
	case len(names) == 1:
		return r, names[0], nil
	case len(names) == 0 && meter != "":
		return nil, "", fmt.Errorf("%s has no meter named %q", path, meter)
	case len(names) == 0:
		return nil, "", fmt.Errorf("%s holds no samples", path)
	}
	return nil, "", hinted(fmt.Errorf("%s has several meters: %s", path, strings.Join(names, ", ")), "name one with --meter")
}

func characterise(path, meter, name string) (characterised, error) {
	out := characterised{Schema: "joulemark.characterisation/1"}
	r, stream, err := oneStream(path, meter)
	if err != nil {
		return out, err
	}
	t, err := align.Align(r, stream)
	if err != nil {
		return out, err
	}
	res, err := analysis.Analyze(t, analysis.Options{})
	if err != nil && !errors.Is(err, analysis.ErrNoWindows) {
		return out, err
	}
	out.Characterisation, err = analysis.Characterise(t, res.Duty)
	if err != nil {
		return out, err
	}
	c := &out.Characterisation
	c.Name, c.Date = name, today()
	if c.Values == "" && c.ResponseSeconds == nil && c.Duty == nil {
		return out, hinted(fmt.Errorf("%s shows nothing of its meter", path), "it takes steady power of at least some seconds, and windows with idle between them")
	}
	return out, nil
}

// today is the date that a person knows it by.
func today() string { return time.Now().Format(time.DateOnly) }

// keepCharacterisation stores it under a name and returns the file.
func keepCharacterisation(name string, c meters.Characterisation, replace bool) (string, error) {
	s, err := store.Default()
	if err != nil {
		return "", err
	}
	_, err = s.Update(name, func(e *store.Entry) error {
		if e.Characterisation != nil && !replace {
			return errKept
		}
		e.Characterisation = &c
		return nil
	})
	return s.Path(name), kept(err)
}

var errKept = errors.New("something is kept under this name already")

// kept adds to an error of the store what would help.
func kept(err error) error {
	if errors.Is(err, errKept) {
		return hinted(err, "--replace replaces it; another --name keeps both")
	}
	return err
}

func printCharacterisation(w io.Writer, c meters.Characterisation) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%-16s%s\n", label, fmt.Sprintf(format, args...))
	}
	if s := joinWords(" ", c.Model, c.Serial); s != "" {
		line("meter", "%s", s)
	}
	if c.RateHz != nil {
		line("samples", "%s", estimate(*c.RateHz, "Hz"))
	}
	if c.EffectiveHz != nil {
		line("independent", "%s (samples are %s)", estimate(*c.EffectiveHz, "Hz"), c.Values)
	}
	if c.Sample != "" {
		line("each sample", "a %s", c.Sample)
	}
	if c.ResponseSeconds != nil {
		line("response", "%s (10-90 %%, meter and target together)", estimate(*c.ResponseSeconds, "s"))
	}
	if c.NoiseWatts != nil {
		line("noise", "%s a sample, of meter and target together", estimate(*c.NoiseWatts, "W"))
	}
	if d := c.Duty; d != nil {
		text := "mean power is right within %.2g %% (%d windows, p = %.2g)"
		if d.Significant {
			text = "mean power is off by about %.2g %% (%d windows, p = %.2g)"
		}
		line("self-test", text, 100*d.Limit, d.Windows, d.P)
	} else {
		line("self-test", "the recording holds none: whether mean power is right is not known")
	}
	if c.Celsius != nil {
		line("temperature", "%.1f °C", c.Celsius.Value)
	}
}

// estimate prints a value with its interval of 95 %.
func estimate(e meters.Estimate, unit string) string {
	return plusMinus(e.Value, 1.96*e.U, unit)
}

// plusMinus prints a value and its half interval with one prefix, and no more
// digits than the half interval deserves.
func plusMinus(value, half float64, unit string) string {
	q := analysis.Quantity{Value: analysis.Num(value), Lo95: analysis.Num(value - half), Hi95: analysis.Num(value + half)}
	digits := q.Digits()
	text := si.Format(value, unit, digits)
	scale := 1.0
	if unit != "" {
		scale, _ = si.Prefix(value, digits)
	}
	number, prefixed, _ := strings.Cut(text, " ")
	return strings.TrimSpace(fmt.Sprintf("%s ± %.*f %s", number, decimalsOf(text), half/scale, prefixed))
}
