package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/joulemark/joulemark/analysis"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/si"
	"github.com/joulemark/joulemark/sync/align"
)

// printTables prints the table of each run.
func printTables(w io.Writer, runs []analysis.Results) error {
	for i, r := range runs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := printTable(w, r); err != nil {
			return err
		}
	}
	return nil
}

// printTable prints what one run says, with its warnings as footnotes.
func printTable(w io.Writer, r analysis.Results) error {
	printHead(w, r)
	notes := &footnotes{}
	t := newTable()
	none := r.Baseline == analysis.None
	head := table.Row{"algorithm", "operation", "n", "windows", "net/op", "95 % total", "repeat", "gross/op", "latency/op", "net power", ""}
	if none {
		head = table.Row{"algorithm", "operation", "n", "windows", "gross/op", "95 % total", "repeat", "latency/op", ""}
	}
	t.AppendHeader(head)
	for _, op := range r.Operations {
		q := op.Net
		if none {
			q = op.Gross
		}
		value, total, repeat := quantity(q, "J")
		if op.Voided || len(r.Voids) > 0 {
			total, repeat = "void", "void"
		}
		row := table.Row{op.Alg, operationName(op, r), op.Count, op.Windows, value, total, repeat}
		if !none {
			row = append(row, number(op.Gross.Value, "J", 4))
		}
		row = append(row, number(op.Latency.Mean, "s", 4))
		if !none {
			row = append(row, number(op.NetWatts.Value, "W", 4))
		}
		t.AppendRow(append(row, notes.marks(op.Warnings)))
	}
	if err := render(w, t); err != nil {
		return err
	}
	notes.print(w)
	for _, x := range r.Windows {
		if x.Excluded != "" {
			fmt.Fprintf(w, "excluded: window %d (%s %s): %s\n", x.W, x.Alg, x.Op, x.Excluded)
		}
	}
	for _, x := range r.Warnings {
		fmt.Fprintf(w, "warning: %s\n", x)
	}
	return nil
}

func printHead(w io.Writer, r analysis.Results) {
	simulated := ""
	if r.Simulated {
		simulated = "  (simulated)"
	}
	fmt.Fprintf(w, "run %s%s\n", r.Run, simulated)
	if t := r.Target; t.Name != "" {
		bits := ""
		if t.Bits > 0 {
			bits = fmt.Sprintf(", %d bit", t.Bits)
		}
		fmt.Fprintf(w, "target     %s\n", joinWords(", ", t.Name+bits, t.ISA, t.Impl, t.CC))
	}
	m := r.Meter
	fmt.Fprintf(w, "meter      %s\n", joinWords(", ", instrument(m), si.Format(float64(m.SamplesHz), "Hz", 5),
		response(m.ResponseSeconds), trust(m)))
	if c := m.Character; c.Values != align.UnknownValues {
		fmt.Fprintf(w, "samples    %s\n", character(m))
	}
	a := r.Alignment
	switch a.Method {
	case align.ByEdges:
		fmt.Fprintf(w, "alignment  by %d edges of power: marks to power %.2f ms ± %.2f ms, sample clock %+.1f ppm\n",
			a.Edges, 1e3*float64(a.Offset), 1.96e3*float64(a.U), float64(a.DriftPPM))
	default:
		fmt.Fprintf(w, "alignment  %s\n", a.Method)
	}
	if d := r.Duty; d != nil && d.Limit.Stated() {
		fmt.Fprintf(w, "self-test  %d duty cycles: %s\n", len(d.Cycles), verdict(d))
	}
	switch r.Baseline {
	case analysis.None:
		fmt.Fprintln(w, "baseline   none: gross energy between the marks")
	default:
		fmt.Fprintf(w, "baseline   %s: net is input energy at the measuring point above idle (%s)\n", r.Baseline, strings.Join(idleModes(r), ", "))
	}
	if r.OverheadSubtracted {
		fmt.Fprintln(w, "overhead   of windows subtracted")
	}
}

// verdict says what the duty cycles tell of the meter.
func verdict(d *analysis.DutyCycle) string {
	if d.Significant {
		return fmt.Sprintf("mean power is off by about %.2g %% (p = %.1g)", 100*float64(d.Limit), float64(d.P))
	}
	return fmt.Sprintf("mean power is right within %.2g %%", 100*float64(d.Limit))
}

// idleModes lists the idle modes that net energy is over.
func idleModes(r analysis.Results) []string {
	var modes []string
	for _, op := range r.Operations {
		mode := op.IdleMode
		if mode == "" {
			mode = "mode not stated"
		}
		if !slices.Contains(modes, mode) {
			modes = append(modes, mode)
		}
	}
	return modes
}

// operationName names an operation, with its idle mode where the run has
// several.
func operationName(op analysis.Operation, r analysis.Results) string {
	if len(idleModes(r)) > 1 {
		return fmt.Sprintf("%s (%s)", op.Op, cmp.Or(op.IdleMode, "mode not stated"))
	}
	return op.Op
}

// instrument names a meter by model, and by driver where that says more.
func instrument(m analysis.Meter) string {
	if m.Model == "" || m.Driver == "" || strings.Contains(strings.ToLower(m.Model), strings.ToLower(m.Driver)) {
		return joinWords(" ", m.Model, map[bool]string{true: m.Driver}[m.Model == ""])
	}
	return m.Model + " (" + m.Driver + ")"
}

// trust says what bounds the meter's errors.
func trust(m analysis.Meter) string {
	if c := m.Calibration; c != nil {
		return joinWords(" ", "calibrated as", c.Name, c.Date)
	}
	return "accuracy " + m.Accuracy
}

func response(s analysis.Num) string {
	if !s.Stated() {
		return ""
	}
	return "response " + si.Format(float64(s), "s", 2)
}

// character says what the samples show of the meter.
func character(m analysis.Meter) string {
	c := m.Character
	kind, source := "", ""
	if c.Sample != meters.UnknownKind {
		kind = "each a " + string(c.Sample)
	}
	if m.SourceOhms > 2*m.USourceOhms {
		source = "source " + si.Format(float64(m.SourceOhms), "Ω", 3)
	}
	effective := ""
	if m.EffectiveRateHz.Stated() {
		effective = si.Format(float64(m.EffectiveRateHz), "Hz", 3) + " effective"
	}
	return joinWords(", ", string(c.Values), effective, kind,
		"noise "+si.Format(float64(c.NoiseWatts), "W", 2), source)
}

func joinWords(sep string, words ...string) string {
	var out []string
	for _, w := range words {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return strings.Join(out, sep)
}

func newTable() table.Writer {
	t := newList()
	var right []table.ColumnConfig
	for i := 3; i <= 10; i++ {
		right = append(right, table.ColumnConfig{Number: i, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return t
}

// newList is a table of words.
func newList() table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format = table.FormatOptions{Header: text.FormatDefault}
	t.SetStyle(style)
	return t
}

// render prints a table without blanks at the ends of its lines.
func render(w io.Writer, t table.Writer) error {
	for line := range strings.Lines(t.Render()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	return nil
}

// number prints a value, or a dash where it cannot be stated.
func number(v analysis.Num, unit string, digits int) string {
	if !v.Stated() {
		return "-"
	}
	return si.Format(float64(v), unit, digits)
}

// quantity prints a value with as many digits as its interval deserves, its
// total interval in the same unit, and its repeatability in per cent.
func quantity(q analysis.Quantity, unit string) (value, total, repeat string) {
	v, digits := float64(q.Value), q.Digits()
	value, total, repeat = number(q.Value, unit, digits), "-", "-"
	if q.Lo95.Stated() {
		scale := 1.0
		if unit != "" {
			scale, _ = si.Prefix(v, digits)
		}
		decimals := decimalsOf(value)
		total = fmt.Sprintf("%.*f … %.*f", decimals, float64(q.Lo95)/scale, decimals, float64(q.Hi95)/scale)
	}
	if q.Lo95Repeat.Stated() && v != 0 {
		repeat = "± " + si.Digits(math.Abs(100*float64(q.Hi95Repeat-q.Lo95Repeat)/2/v), 2) + " %"
	}
	return value, total, repeat
}

func decimalsOf(s string) int {
	n, _, _ := strings.Cut(s, " ")
	if _, frac, ok := strings.Cut(n, "."); ok {
		return len(frac)
	}
	return 0
}

// footnotes numbers warnings: the same text has the same number.
type footnotes struct{ texts []string }

func (f *footnotes) marks(warnings []string) string {
	var out []string
	for _, w := range warnings {
		k := -1
		for i, t := range f.texts {
			if t == w {
				k = i
			}
		}
		if k < 0 {
			k = len(f.texts)
			f.texts = append(f.texts, w)
		}
		out = append(out, superscript(k+1))
	}
	return strings.Join(out, " ")
}

func (f *footnotes) print(w io.Writer) {
	for i, t := range f.texts {
		fmt.Fprintf(w, "%s %s\n", superscript(i+1), t)
	}
}

func superscript(n int) string {
	const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹"
	var b strings.Builder
	for _, c := range fmt.Sprint(n) {
		b.WriteRune([]rune(digits)[c-'0'])
	}
	return b.String()
}
