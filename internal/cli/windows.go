package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/align"
	"github.com/joulemark/joulemark/sync/mark"
)

const windowsHelp = `Adds windows by hand to a run without marks, or sets by hand the offset from
marks to power where the edges of power do not show it. Without flags, lists
what was set.

  joulemark windows RUN --add 'start=12.5 end=14.5 n=100 alg=ML-DSA-44 op=sign'
  joulemark windows RUN --offset 57ms

start and end are seconds from the meter's first sample, as figures and t0_s and
t1_s of results show them. pre and post say how long the target was idle before
and after the window (s), idle in which mode (wfi, spin, sleep, os); with them
the window is integrated beyond its edges, so that these need not be exact.

The run itself is not changed: all of it is kept in RUN.windows.json beside the
folder, which should move with it. Every result says what was set by hand.`

// windowsFlags is what a person asks of windows.
type windowsFlags struct {
	add         []string
	offset      string
	offsetGiven bool
	list, clear bool
	json        bool
	meter       string
}

func windowsVerb(env *Env) *cobra.Command {
	var o windowsFlags
	c := &cobra.Command{
		Use: "windows RUN", Short: "windows or an offset by hand, for a run without usable marks", Long: windowsHelp, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.offsetGiven = c.Flags().Changed("offset")
			added, offset, err := o.parse()
			if err != nil {
				return err
			}
			dirs, err := run.Find(args[0])
			if err != nil {
				return hinted(fmt.Errorf("open %s: %w", args[0], err), "give the folder of a run")
			}
			if o.changes() {
				if len(dirs) > 1 {
					return hinted(fmt.Errorf("%s is a set of %d runs", args[0], len(dirs)), "name one of its runs")
				}
				if err := o.change(env.Stderr, dirs[0], added, offset); err != nil {
					return err
				}
			}
			return o.print(env.Stdout, dirs)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.add, "add", nil, "add a `WINDOW`: 'start=S end=S n=N alg=ALG op=OP [idle=MODE] [pre=S] [post=S]'; may be repeated")
	f.StringVar(&o.offset, "offset", "", "set the `TIME` from marks to power, such as 57ms, or none")
	f.BoolVar(&o.list, "list", false, "list what was set (also without any flag)")
	f.BoolVar(&o.clear, "clear", false, "remove all that was set")
	f.StringVar(&o.meter, "meter", "", "the `NAME` of the meter, where a run has several")
	f.BoolVar(&o.json, "json", false, "print JSON (joulemark.windows/1)")
	return c
}

func (o *windowsFlags) changes() bool { return len(o.add) > 0 || o.offsetGiven || o.clear }

// parse reads the values of the flags; offset is nil for none.
func (o *windowsFlags) parse() (added []run.HandWindow, offset *float64, err error) {
	switch {
	case o.clear && len(o.add) > 0:
		return nil, nil, usage("--add and --clear exclude each other")
	case o.clear && o.offsetGiven:
		return nil, nil, usage("--offset and --clear exclude each other")
	}
	for _, spec := range o.add {
		w, err := parseWindow(spec)
		if err != nil {
			return nil, nil, usage("--add %q: %w", spec, err)
		}
		added = append(added, w)
	}
	if o.offsetGiven && o.offset != "none" {
		seconds, err := si.Parse(o.offset, "s")
		if err == nil && (seconds < -maxOffset || seconds > maxOffset) {
			err = fmt.Errorf("%q is beyond %g s", o.offset, maxOffset)
		}
		if err != nil {
			return nil, nil, usage("--offset: %w", err)
		}
		offset = &seconds
	}
	return added, offset, nil
}

// maxOffset bounds an offset by hand, s: clocks that are tied by arrivals are
// not further apart.
const maxOffset = 10.0

// parseWindow reads a window such as "start=12.5 end=14.5 n=100 alg=A op=O".
// Times are in seconds where they have no unit.
func parseWindow(spec string) (w run.HandWindow, err error) {
	given := map[string]bool{}
	seconds := map[string]*float64{"start": &w.StartSeconds, "end": &w.EndSeconds, "pre": &w.PreSeconds, "post": &w.PostSeconds}
	names := map[string]*string{"alg": &w.Alg, "op": &w.Op, "idle": &w.Idle}
	for _, word := range strings.Fields(spec) {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok:
			return w, fmt.Errorf("%q is not KEY=VALUE", word)
		case given[key]:
			return w, fmt.Errorf("%s is given twice", key)
		}
		given[key] = true
		switch {
		case seconds[key] != nil:
			*seconds[key], err = parseSeconds(value)
		case names[key] != nil:
			*names[key] = value
		case key == "n":
			w.N, err = strconv.ParseInt(value, 10, 64)
			if err != nil || w.N < 1 {
				err = fmt.Errorf("%q is not a whole number of at least 1", value)
			}
		default:
			return w, fmt.Errorf("unknown key %q (known: start, end, n, alg, op, idle, pre, post)", key)
		}
		if err != nil {
			return w, fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, key := range []string{"start", "end", "n", "alg", "op"} {
		if !given[key] {
			return w, fmt.Errorf("no %s=", key)
		}
	}
	return w, w.Check()
}

func parseSeconds(s string) (float64, error) {
	if v, err := si.Parse(s, "s"); err == nil {
		return v, nil
	}
	return si.Parse(s+"s", "s")
}

// change writes what the flags ask for.
func (o *windowsFlags) change(log io.Writer, dir string, added []run.HandWindow, offset *float64) error {
	r, err := run.Open(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if o.clear && o.meter == "" {
		return r.SetHand(run.Hand{}) // whatever the file holds
	}
	stream, err := o.stream(r)
	if err != nil {
		return err
	}
	hand, err := r.Hand()
	if err != nil {
		return hinted(err, "joulemark windows --clear removes what was set by hand")
	}
	set := hand.Stream(stream)
	if o.clear {
		*set = run.HandStream{Stream: stream}
		return r.SetHand(hand)
	}
	t, err := align.Align(r, stream)
	if err != nil {
		return err
	}
	if o.offsetGiven {
		set.OffsetSeconds = offset
		if offset != nil && t.Method == align.ByEdges {
			fmt.Fprintf(log, "note: the edges of power show an offset of %s; the one set by hand is kept, but not used\n", si.Format(t.Offset.Seconds, "s", 4))
		}
	}
	if err := addWindows(log, t, set, added); err != nil {
		return err
	}
	return r.SetHand(hand)
}

// stream is the one that is named, or the only one.
func (o *windowsFlags) stream(r *run.Run) (string, error) {
	var names []string
	for _, s := range r.Streams {
		names = append(names, s.Stream)
	}
	switch {
	case o.meter != "" && !slices.Contains(names, o.meter):
		return "", fmt.Errorf("no meter of %s is named %q", r.Dir, o.meter)
	case o.meter != "":
		return o.meter, nil
	case len(names) == 0:
		return "", fmt.Errorf("%s holds no samples", r.Dir)
	case len(names) > 1:
		return "", usage("%s has several meters: name one with --meter (%s)", r.Dir, strings.Join(names, ", "))
	}
	return names[0], nil
}

// addWindows numbers windows after those of the time line and adds them, if
// they lie in the recording and apart from the others.
func addWindows(log io.Writer, t *align.Timeline, set *run.HandStream, added []run.HandWindow) error {
	next := int64(1)
	for i := range t.Windows {
		next = max(next, t.Windows[i].W+1)
	}
	end := t.EndSeconds()
	for i := range added {
		w := &added[i]
		if w.EndSeconds > end {
			return hinted(fmt.Errorf("window from %g s to %g s lies outside the recording", w.StartSeconds, w.EndSeconds),
				fmt.Sprintf("the recording is %.6g s long", end))
		}
		for k := range t.Windows {
			if x := &t.Windows[k]; x.Excluded == "" && w.StartSeconds < x.EndSeconds && w.EndSeconds > x.StartSeconds {
				return fmt.Errorf("window from %g s to %g s overlaps window %d of the run, from %.6g s to %.6g s",
					w.StartSeconds, w.EndSeconds, x.W, x.StartSeconds, x.EndSeconds)
			}
		}
		if !mark.Known(w.Alg, w.Op) {
			fmt.Fprintf(log, "note: %s %s is none of the names that joulemark knows; it is kept as it is\n", w.Alg, w.Op)
		}
		w.W = next
		next++
	}
	return set.Add(added...)
}

// handList is what was set by hand for a run.
type handList struct {
	Schema  string           `json:"schema"`
	Run     string           `json:"run"`
	File    string           `json:"file"`
	Streams []run.HandStream `json:"streams"`
}

func (o *windowsFlags) print(w io.Writer, dirs []string) error {
	lists := []handList{}
	for _, dir := range dirs {
		r, err := run.Open(dir)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		hand, err := r.Hand()
		if err != nil {
			return hinted(err, "joulemark windows --clear removes what was set by hand")
		}
		l := handList{Schema: run.HandSchema, Run: dir, File: run.HandPath(dir), Streams: []run.HandStream{}}
		for _, s := range hand.Streams {
			if o.meter == "" || o.meter == s.Stream {
				l.Streams = append(l.Streams, s)
			}
		}
		lists = append(lists, l)
	}
	switch {
	case o.json && len(lists) == 1:
		return printJSON(w, lists[0])
	case o.json:
		return printJSON(w, struct {
			Schema string     `json:"schema"`
			Runs   []handList `json:"runs"`
		}{"joulemark.windowset/1", lists})
	}
	var err error
	for _, l := range lists {
		err = errors.Join(err, l.print(w))
	}
	return err
}

func (l handList) print(w io.Writer) error {
	if len(l.Streams) == 0 {
		_, err := fmt.Fprintf(w, "run %s: nothing was set by hand\n", l.Run)
		return err
	}
	fmt.Fprintf(w, "run %s: set by hand, in %s\n", l.Run, l.File)
	for _, s := range l.Streams {
		if s.OffsetSeconds != nil {
			fmt.Fprintf(w, "meter %s: marks to power %s\n", s.Stream, si.Format(*s.OffsetSeconds, "s", 4))
		}
		if len(s.Windows) == 0 {
			continue
		}
		fmt.Fprintf(w, "meter %s: windows\n", s.Stream)
		t := newTable()
		t.AppendHeader(table.Row{"algorithm", "operation", "w", "n", "start", "end", "quiet before", "after", "idle"})
		for _, x := range s.Windows {
			t.AppendRow(table.Row{x.Alg, x.Op, x.W, x.N, plainSeconds(x.StartSeconds), plainSeconds(x.EndSeconds), plainSeconds(x.PreSeconds), plainSeconds(x.PostSeconds), x.Idle})
		}
		if err := render(w, t); err != nil {
			return err
		}
	}
	return nil
}

// plainSeconds prints a time as it was given.
func plainSeconds(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) + " s" }
