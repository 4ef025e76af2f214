package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/store"
	"github.com/joulemark/joulemark/si"
)

const calibrateHelp = `Fits the gain and offset of a meter to known loads, and keeps them under a name.

Each point is a recording of 10 s or more of a steady load, and what was known
of it:

  joulemark calibrate --name desk --reference 'DMM6500, calibrated 2026-05' \
    --point 'open,volts=5.0312V+-0.01%,amps=0A+-0A' \
    --point 'ten-ohm,volts=5.0121V+-0.01%,ohms=10.004ohm+-0.05%' \
    --point 'two-ohm,volts=4.9730V+-0.01%,ohms=2.0013ohm+-0.05%'

or a line each of a file (--points FILE; runs relative to it, # comments), with
blanks or commas between its parts. After +- (or ±) stands how well the value
is known, as in --accuracy: 0.02%, 0.1mA, 0.02%+0.5mV. volts is at the output of
the meter, ohms the load there: with both, amps is what flows.

The error of the reference counts as the same in all points. Two points per
quantity must lie well apart; only three or more say anything of linearity.
Recordings are never changed: a run that holds the calibration is corrected
when it is analyzed.

--list lists what is kept, --show prints one.`

// calibrateFlags is what a person asks of calibrate.
type calibrateFlags struct {
	name, reference, file, meter, show string
	points                             []string
	json, replace, list                bool
}

// calibrated is what calibrate prints as JSON.
type calibrated struct {
	Schema      string                      `json:"schema"`
	File        string                      `json:"file"`
	Calibration meters.Calibration          `json:"calibration"`
	Points      map[string][]analysis.Point `json:"points"` // by quantity
}

func calibrateVerb(env *Env) *cobra.Command {
	var o calibrateFlags
	c := &cobra.Command{
		Use: "calibrate --name NAME --point POINT...", Short: "fit a meter's gain and offset to known loads, kept under a name", Long: calibrateHelp, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case o.list && o.show != "", (o.list || o.show != "") && (o.name != "" || len(o.points) > 0 || o.file != ""):
				return usage("--list, --show and --name exclude each other")
			case o.list:
				return o.printList(env)
			case o.show != "":
				return o.printOne(env.Stdout)
			case o.name == "":
				return usage("--name is missing: under which name is the calibration to be kept?")
			}
			return o.calibrate(env)
		},
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "keep it under this `NAME`")
	f.StringArrayVar(&o.points, "point", nil, "a recording and what was known of its load: a `POINT` is 'RUN,volts=5.000V+-0.02%,amps=0.5A+-0.1%'; may be repeated")
	f.StringVar(&o.file, "points", "", "read points from the lines of this `FILE`")
	f.StringVar(&o.reference, "reference", "", "what the values were known from: a `TEXT` that names the instrument and its own calibration")
	f.StringVar(&o.meter, "meter", "", "the `NAME` of the meter, where runs have several")
	f.BoolVar(&o.replace, "replace", false, "replace the calibration that is kept under the name")
	f.BoolVar(&o.list, "list", false, "list what is kept")
	f.StringVar(&o.show, "show", "", "print what is kept under this `NAME`")
	f.BoolVar(&o.json, "json", false, "print JSON (joulemark.calibration/1, joulemark.meter/1, joulemark.calibrations/1)")
	return c
}

// known is a value with its limits.
type known struct {
	value float64
	limit meters.Limit
}

// knownPoint is one recording and what was known of its load.
type knownPoint struct {
	run  string
	vals map[string]known // volts, amps, watts
}

// baseUnits of what may be known of a load.
var baseUnits = map[string]string{meters.Volts: "V", meters.Amps: "A", meters.Watts: "W", "ohms": "ohm"}

// parsePoint reads RUN,volts=5V+-0.02%,... with commas or blanks.
func parsePoint(spec string) (knownPoint, error) {
	p := knownPoint{vals: map[string]known{}}
	parts := strings.FieldsFunc(spec, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	if len(parts) < 2 {
		return p, fmt.Errorf("point %q: want RUN,volts=VALUE+-LIMIT,amps=VALUE+-LIMIT", spec)
	}
	p.run = parts[0]
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		unit, ok := baseUnits[name]
		_, twice := p.vals[name]
		switch {
		case !ok:
			return p, fmt.Errorf("point %q: %q is none of volts, amps, ohms, watts", spec, name)
		case twice:
			return p, fmt.Errorf("point %q: %s is given twice", spec, name)
		}
		v, err := parseKnown(value, unit)
		if err != nil {
			return p, fmt.Errorf("point %q: %s: %w", spec, name, err)
		}
		p.vals[name] = v
	}
	return p, p.applyOhms(spec)
}

// parseKnown reads 5.000V+-0.02%.
func parseKnown(s, unit string) (known, error) {
	value, limit, ok := strings.Cut(strings.ReplaceAll(s, "±", "+-"), "+-")
	if !ok {
		return known{}, fmt.Errorf("%q does not say how well it is known: want VALUE+-LIMIT, such as 5.000V+-0.02%%", s)
	}
	v, err := si.Parse(value, unit)
	if err != nil {
		return known{}, err
	}
	l, err := meters.ParseLimit(limit, unit)
	return known{v, l}, err
}

// applyOhms turns the resistance of a load into its current. Limits add up.
func (p *knownPoint) applyOhms(spec string) error {
	ohms, ok := p.vals["ohms"]
	if !ok {
		return nil
	}
	delete(p.vals, "ohms")
	volts, hasVolts := p.vals[meters.Volts]
	_, hasAmps := p.vals[meters.Amps]
	switch {
	case !hasVolts || hasAmps:
		return fmt.Errorf("point %q: ohms needs volts, and no amps", spec)
	case !(ohms.value > 0):
		return fmt.Errorf("point %q: a load of %g ohm", spec, ohms.value)
	}
	relative := ohms.limit.Gain + ohms.limit.Offset/ohms.value
	p.vals[meters.Amps] = known{volts.value / ohms.value, meters.Limit{Gain: volts.limit.Gain + relative, Offset: volts.limit.Offset / ohms.value}}
	return nil
}

// parse reads all points of flags and file.
func (o *calibrateFlags) parse() ([]knownPoint, error) {
	var all []knownPoint
	for _, spec := range o.points {
		p, err := parsePoint(spec)
		if err != nil {
			return nil, usage("--point: %w", err)
		}
		all = append(all, p)
	}
	if o.file != "" {
		more, err := readPoints(o.file)
		if err != nil {
			return nil, fmt.Errorf("read points: %w", err)
		}
		all = append(all, more...)
	}
	if len(all) == 0 {
		return nil, usage("no point is given: --point or --points")
	}
	return all, nil
}

// maxPoints bounds a file of points.
const maxPoints = 1000

func readPoints(path string) ([]knownPoint, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []knownPoint
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		p, err := parsePoint(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if !filepath.IsAbs(p.run) {
			p.run = filepath.Join(filepath.Dir(path), p.run)
		}
		if all = append(all, p); len(all) > maxPoints {
			return nil, fmt.Errorf("%s: more than %d points", path, maxPoints)
		}
	}
	return all, lines.Err()
}

func (o *calibrateFlags) calibrate(env *Env) error {
	if err := store.CheckName(o.name); err != nil {
		return usage("--name: %w", err)
	}
	points, err := o.parse()
	if err != nil {
		return err
	}
	out := calibrated{Schema: "joulemark.calibration/1", Points: map[string][]analysis.Point{}}
	cal := &out.Calibration
	cal.Name, cal.Date, cal.Reference = o.name, today(), o.reference
	seen := map[string]bool{}
	for i, p := range points {
		path := filepath.Clean(p.run)
		if seen[path] {
			return fmt.Errorf("%s is given twice: its noise would count for less than it is", p.run)
		}
		seen[path] = true
		if err := o.measure(p, i == 0, &out); err != nil {
			return err
		}
	}
	for name, to := range map[string]**meters.Correction{meters.Volts: &cal.Volts, meters.Amps: &cal.Amps, meters.Watts: &cal.Watts} {
		if len(out.Points[name]) == 0 {
			continue
		}
		c, err := analysis.Fit(out.Points[name])
		if err != nil {
			return hinted(fmt.Errorf("%s: %w", name, err), "docs/method.md, section 10, says what points a calibration needs")
		}
		*to = &c
	}
	s, err := store.Default()
	if err != nil {
		return err
	}
	out.File = s.Path(o.name)
	_, err = s.Update(o.name, func(e *store.Entry) error {
		if e.Calibration != nil && !o.replace {
			return errKept
		}
		e.Calibration = cal
		return nil
	})
	if err != nil {
		return kept(err)
	}
	if o.json {
		return printJSON(env.Stdout, out)
	}
	if err := printCalibration(env.Stdout, *cal, out.Points); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "kept in %s\n", out.File)
	return nil
}

// measure reads the recording of a point and adds what the meter showed.
func (o *calibrateFlags) measure(p knownPoint, first bool, out *calibrated) error {
	r, stream, err := oneStream(p.run, o.meter)
	if err != nil {
		return err
	}
	cal := &out.Calibration
	for _, s := range r.Streams {
		if s.Stream != stream {
			continue
		}
		if first {
			cal.Driver, cal.Model, cal.Serial = s.Driver, s.Model, s.Serial
		}
		if cal.Driver != s.Driver || cal.Model != s.Model || cal.Serial != s.Serial {
			return fmt.Errorf("%s was recorded with %s %s, the points before it with %s %s", p.run, s.Model, s.Serial, cal.Model, cal.Serial)
		}
	}
	shown, err := analysis.ReadSteady(r, stream)
	if err != nil {
		return err
	}
	for name, k := range p.vals {
		got, ok := shown[name]
		if !ok {
			return fmt.Errorf("%s holds no %s", p.run, name)
		}
		out.Points[name] = append(out.Points[name], analysis.Point{Reading: got.Mean, UReading: got.U, Value: k.value, Limit: k.limit})
	}
	return nil
}

// corrections of a calibration, with their units.
func corrections(c meters.Calibration) []struct {
	name, unit string
	c          *meters.Correction
} {
	return []struct {
		name, unit string
		c          *meters.Correction
	}{{meters.Volts, "V", c.Volts}, {meters.Amps, "A", c.Amps}, {meters.Watts, "W", c.Watts}}
}

func printCalibration(w io.Writer, c meters.Calibration, points map[string][]analysis.Point) error {
	fmt.Fprintf(w, "calibration %s of %s", c.Name, c.Date)
	if m := joinWords(" ", c.Model, c.Serial); m != "" {
		fmt.Fprintf(w, ", meter %s", m)
	}
	fmt.Fprintln(w)
	if c.Reference != "" {
		fmt.Fprintf(w, "reference   %s\n", c.Reference)
	}
	for _, q := range corrections(c) {
		if q.c == nil {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", q.name)
		if ps := points[q.name]; len(ps) > 0 {
			t := newTable()
			t.AppendHeader(table.Row{"reading", "value", "", "residual"})
			for _, p := range ps {
				t.AppendRow(table.Row{plusMinus(p.Reading, 1.96*p.UReading, q.unit), si.Format(p.Value, q.unit, 6), "", si.Format(p.Residual, q.unit, 2)})
			}
			if err := render(w, t); err != nil {
				return err
			}
		}
		gain, offset := analysis.GainQuantity(*q.c), analysis.OffsetQuantity(*q.c)
		fmt.Fprintf(w, "gain        %s\n", interval(gain, ""))
		fmt.Fprintf(w, "offset      %s\n", interval(offset, q.unit))
		fmt.Fprintf(w, "range       %s to %s, %d points, %s\n", si.Format(q.c.From, q.unit, 4), si.Format(q.c.To, q.unit, 4), q.c.Points, linearity(*q.c, q.unit))
	}
	return nil
}

func linearity(c meters.Correction, unit string) string {
	switch {
	case c.Points < 3:
		return "which say nothing of linearity"
	case c.Linearity == 0:
		return fmt.Sprintf("on a line within their noise (chi square %.2g for %d)", c.ChiSquare, c.Points-2)
	}
	return fmt.Sprintf("off the line by up to %s (chi square %.3g for %d)", si.Format(c.Linearity, unit, 2), c.ChiSquare, c.Points-2)
}

// interval prints a quantity with its total interval.
func interval(q analysis.Quantity, unit string) string {
	half := float64(q.Hi95-q.Lo95) / 2
	if v := float64(q.Value); math.Abs(v) < half {
		return si.Format(v, unit, 2) + " ± " + si.Format(half, unit, 2)
	}
	return plusMinus(float64(q.Value), half, unit)
}

// printList prints what is kept, by name.
func (o *calibrateFlags) printList(env *Env) error {
	s, err := store.Default()
	if err != nil {
		return err
	}
	all, broken := s.List()
	if o.json {
		if all == nil {
			all = []store.Entry{}
		}
		err = printJSON(env.Stdout, struct {
			Schema string        `json:"schema"`
			Meters []store.Entry `json:"meters"`
		}{"joulemark.calibrations/1", all})
		return errors.Join(err, broken)
	}
	if len(all) == 0 && broken == nil {
		fmt.Fprintf(env.Stderr, "nothing is kept in %s\n", s.Dir)
		return nil
	}
	t := newTable()
	t.AppendHeader(table.Row{"name", "meter", "calibrated", "characterised"})
	for _, e := range all {
		row := table.Row{e.Name, "", "-", "-"}
		if c := e.Characterisation; c != nil {
			row[1], row[3] = c.Model, c.Date
		}
		if c := e.Calibration; c != nil {
			row[1], row[2] = c.Model, c.Date
		}
		t.AppendRow(row)
	}
	return errors.Join(render(env.Stdout, t), broken)
}

func (o *calibrateFlags) printOne(w io.Writer) error {
	e, err := loadMeter(o.show)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, e)
	}
	if e.Calibration != nil {
		if err := printCalibration(w, *e.Calibration, nil); err != nil {
			return err
		}
	}
	if e.Characterisation != nil {
		if e.Calibration != nil {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "characterisation %s of %s, run %s\n", e.Name, e.Characterisation.Date, e.Characterisation.Run)
		printCharacterisation(w, *e.Characterisation)
	}
	return nil
}

// loadMeter reads what is kept under a name.
func loadMeter(name string) (store.Entry, error) {
	s, err := store.Default()
	if err != nil {
		return store.Entry{}, err
	}
	e, err := s.Load(name)
	return e, hinted(err, "'joulemark calibrate --list' lists the names")
}
