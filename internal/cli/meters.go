package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/meters"
)

const metersHelp = `Lists the meters that are plugged in or built in: those that can be used, with
the spec that opens them, and for the rest why not and what to do about it. A
meter that only listens when it is told where it is (a Bluetooth serial port, an
instrument on the network) is not searched for.

Finding one does not mean that it works: only its samples show that, as in
'joulemark record --meter SPEC --for 5s'.

Exit code 4: no meter can be used.`

func metersVerb(env *Env, l lab) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "meters", Short: "what is plugged in and usable, and for the rest why not", Long: metersHelp, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := l.find()
			if asJSON {
				err = errors.Join(err, printMetersJSON(env.Stdout, l, all))
			} else {
				err = errors.Join(err, printMeters(env.Stdout, l, all))
			}
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(f meters.Found) bool { return f.Problem == nil }) {
				return noMeter(errors.New("no meter can be used"), "plug one in, or try the virtual one: --meter virtual")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (joulemark.meters/1)")
	return c
}

func printMeters(w io.Writer, l lab, all []meters.Found) error {
	if len(all) > 0 {
		t := newList()
		t.AppendHeader(table.Row{"meter", "place", "state", "spec"})
		for _, f := range all {
			state := "found"
			if f.Problem != nil {
				state = "not usable"
			}
			t.AppendRow(table.Row{printable(joinWords(" ", f.Model, f.Serial)), f.Place, state, f.Spec})
		}
		if err := render(w, t); err != nil {
			return err
		}
	}
	for _, f := range all {
		if f.Problem != nil {
			fmt.Fprintf(w, "%s: %v\n", f.Spec, f.Problem)
			if hint := meters.Hint(f.Problem); hint != "" {
				fmt.Fprintf(w, "  fix: %s\n", hint)
			}
		}
	}
	for _, x := range l.ways {
		if x.missing != "" {
			fmt.Fprintf(w, "%s: %s\n", x.transport, x.missing)
		}
	}
	return nil
}

// printable replaces what a device may have in its names and a terminal should
// not get.
func printable(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			out[i] = '?'
		}
	}
	return string(out)
}

func printMetersJSON(w io.Writer, l lab, all []meters.Found) error {
	type foundJSON struct {
		Spec    string `json:"spec"`
		Driver  string `json:"driver"`
		Model   string `json:"model"`
		Serial  string `json:"serial"`
		Place   string `json:"place"`
		Usable  bool   `json:"usable"`
		Problem string `json:"problem"`
		Fix     string `json:"fix"`
	}
	type wayJSON struct {
		Transport meters.Transport `json:"transport"`
		Missing   string           `json:"missing"`
	}
	out := struct {
		Schema     string      `json:"schema"`
		Meters     []foundJSON `json:"meters"`
		Transports []wayJSON   `json:"transports"`
	}{"joulemark.meters/1", []foundJSON{}, []wayJSON{}}
	for _, f := range all {
		j := foundJSON{Spec: f.Spec, Driver: f.Driver, Model: f.Model, Serial: f.Serial, Place: f.Place, Usable: f.Problem == nil}
		if f.Problem != nil {
			j.Problem, j.Fix = f.Problem.Error(), meters.Hint(f.Problem)
		}
		out.Meters = append(out.Meters, j)
	}
	for _, x := range l.ways {
		out.Transports = append(out.Transports, wayJSON{x.transport, x.missing})
	}
	return printJSON(w, out)
}
