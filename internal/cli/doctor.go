package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/internal/doctor"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/serial"
)

const doctorHelp = `Checks what may keep a measurement from working or spoil its numbers: meters and
their permissions, serial ports and who holds them, and, where this machine is
the target, its clock rates, throttling and battery. It changes nothing and
needs no root; each remark says how to fix it.

  joulemark doctor --listen /dev/ttyUSB0,115200   # does the target send marks?
  joulemark doctor --udev | sudo tee /etc/udev/rules.d/70-joulemark.rules

Exit code 1: something will not work. Warnings alone are exit code 0.`

// listenSeconds is how long a port is listened to.
const listenSeconds = 5

func doctorVerb(env *Env, l lab) *cobra.Command {
	var asJSON, udev bool
	var listen string
	c := &cobra.Command{
		Use: "doctor", Short: "checks permissions, ports, clock rates, throttling, battery; prints the fix", Long: doctorHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if udev {
				_, err := io.WriteString(env.Stdout, meters.UdevRules(l.drivers))
				return err
			}
			checks, err := examine(l)
			if err == nil && listen != "" {
				var c doctor.Check
				c, err = l.listen(cmd.Context(), env, listen)
				checks = append(checks, c)
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(env.Stdout, struct {
					Schema string         `json:"schema"`
					Checks []doctor.Check `json:"checks"`
				}{"joulemark.doctor/1", checks})
			} else {
				err = printChecks(env.Stdout, checks)
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.State == doctor.Failure }) {
				return errors.New("something will not work as it is")
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON (joulemark.doctor/1)")
	f.BoolVar(&udev, "udev", false, "print the udev rules that let every user open the meters, and do nothing else")
	f.StringVar(&listen, "listen", "", fmt.Sprintf("listen to this serial `PORT,BAUD` for %d s and say whether marks come in", listenSeconds))
	return c
}

// examine makes all checks that take no time.
func examine(l lab) ([]doctor.Check, error) {
	var checks []doctor.Check
	all, err := l.find()
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		c := doctor.Check{Name: "meter " + f.Spec, State: doctor.OK, Text: printable(joinWords(" ", f.Model, f.Serial)) + ", may be opened"}
		if f.Problem != nil {
			c.State, c.Text, c.Fix = doctor.Failure, f.Problem.Error(), meters.Hint(f.Problem)
		}
		checks = append(checks, c)
	}
	if len(all) == 0 {
		checks = append(checks, doctor.Check{Name: "meters", State: doctor.Warning, Text: "none found",
			Fix: "plug one in; a FNIRSI meter by its own PC port, not the one that the current runs through"})
	}
	for _, w := range l.ways {
		if w.missing != "" {
			checks = append(checks, doctor.Check{Name: "transport " + string(w.transport), State: doctor.Unknown, Text: w.missing})
		}
		if w.transport != meters.Serial || w.find == nil {
			continue
		}
		ports, err := w.find(l.host(nil))
		if err != nil {
			return nil, err
		}
		checks = append(checks, doctor.Ports(ports, l.drivers, serial.Holder)...)
	}
	return append(checks, doctor.Machine(l.host(nil))...), nil
}

// listen listens to a serial port.
func (l lab) listen(ctx context.Context, env *Env, at string) (doctor.Check, error) {
	path, rate, ok := strings.Cut(at, ",")
	baud, err := strconv.Atoi(rate)
	if !ok || err != nil || baud < 1 {
		return doctor.Check{}, usage("--listen %q is not PORT,BAUD", at)
	}
	i := slices.IndexFunc(l.ways, func(w way) bool { return w.transport == meters.Serial && w.open != nil })
	if i < 0 {
		return doctor.Check{}, errors.New("listen: this program opens no serial ports")
	}
	clock := meters.NewHostClock()
	p, err := l.ways[i].open(ctx, path, meters.Driver{Baud: baud}, clock)
	if err != nil {
		return doctor.Check{Name: "marks on " + path, State: doctor.Failure, Text: err.Error(), Fix: meters.Hint(err)}, nil
	}
	fmt.Fprintf(env.Stderr, "listening to %s at %d baud for %d s\n", path, baud, listenSeconds)
	heard, err := doctor.Listen(p, clock()+listenSeconds*int64(time.Second))
	if err := errors.Join(err, p.Close()); err != nil {
		return doctor.Check{}, err
	}
	return heard.Check("marks on " + path), nil
}

func printChecks(w io.Writer, checks []doctor.Check) error {
	t := newList()
	for _, c := range checks {
		t.AppendRow(table.Row{c.State, c.Name, printable(c.Text)})
	}
	if err := render(w, t); err != nil {
		return err
	}
	for _, c := range checks {
		if c.Fix != "" {
			fmt.Fprintf(w, "fix %s:\n  %s\n", c.Name, strings.ReplaceAll(c.Fix, "\n", "\n  "))
		}
	}
	return nil
}
