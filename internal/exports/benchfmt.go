package exports

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/joulemark/joulemark/analysis"
)

// WriteBenchmark writes the Go benchmark format
// (https://go.dev/design/14313-benchmark-format): one line a window that
// counts, so that benchstat has repeats. J/op is net energy, gross where no
// baseline was subtracted: the configuration line "energy" says which, and
// "idle-mode" over which idle. Values of different configurations are never in
// one table of benchstat unless it is told to ignore the difference.
func WriteBenchmark(w io.Writer, runs []analysis.Results) error {
	b := benchmarks{w: bufio.NewWriter(w), config: map[string]string{}}
	b.print("Unit J/op better=lower\n")
	for i := range runs {
		b.run(&runs[i])
	}
	if b.err == nil {
		b.err = b.w.Flush()
	}
	if b.err != nil {
		return fmt.Errorf("write benchmark format: %w", b.err)
	}
	return nil
}

type benchmarks struct {
	w      *bufio.Writer
	config map[string]string // as last written
	err    error
}

func (b *benchmarks) print(format string, args ...any) {
	if b.err == nil {
		_, b.err = fmt.Fprintf(b.w, format, args...)
	}
}

// set writes a configuration line where the value is another than before. An
// empty value takes the key back.
func (b *benchmarks) set(key, value string) {
	value = strings.Join(strings.Fields(value), " ")
	if b.config[key] == value {
		return
	}
	b.config[key] = value
	b.print("%s\n", strings.TrimSpace(key+": "+value))
}

func (b *benchmarks) run(r *analysis.Results) {
	b.print("\n")
	bits := ""
	if r.Target.Bits > 0 {
		bits = strconv.Itoa(r.Target.Bits)
	}
	energy := "net"
	if r.Baseline == analysis.None {
		energy = "gross"
	}
	b.set("target", r.Target.Name)
	b.set("isa", r.Target.ISA)
	b.set("bits", bits)
	b.set("impl", r.Target.Impl)
	b.set("cc", r.Target.CC)
	b.set("cflags", r.Target.CFlags)
	b.set("meter", r.Meter.Name)
	b.set("meter-driver", r.Meter.Driver)
	b.set("energy", energy)
	b.set("baseline", string(r.Baseline))
	b.set("simulated", strconv.FormatBool(r.Simulated))
	for i := range r.Windows {
		if w := &r.Windows[i]; w.Excluded == "" && !w.DutyCycle {
			b.window(r, w, bits)
		}
	}
}

func (b *benchmarks) window(r *analysis.Results, w *analysis.Window, bits string) {
	joules := float64(w.Net)
	if r.Baseline == analysis.None {
		joules = float64(w.Gross)
	}
	seconds := float64(w.T1 - w.T0)
	n := float64(w.N)
	if !(seconds > 0 && n >= 1) {
		return
	}
	b.set("idle-mode", w.IdleMode)
	b.set("voided", voided(r, w))
	name := "Benchmark" + benchmarkName(w.Alg) + "/op=" + word(w.Op)
	if bits != "" {
		name += "/bits=" + bits
	}
	b.print("%s %d", name, w.N)
	for _, v := range []struct {
		value float64
		unit  string
	}{{joules / n, "J/op"}, {seconds / n, "sec/op"}, {joules / seconds, "W"}} {
		if !math.IsNaN(v.value) {
			b.print(" %s %s", strconv.FormatFloat(v.value, 'g', -1, 64), v.unit)
		}
	}
	b.print("\n")
}

// voided is "true" where a warning voids what the window belongs to.
func voided(r *analysis.Results, w *analysis.Window) string {
	of := func(o analysis.Operation) bool {
		return o.Voided && o.Alg == w.Alg && o.Op == w.Op && o.IdleMode == w.IdleMode
	}
	if runVoided(r) || slices.ContainsFunc(r.Operations, of) {
		return "true"
	}
	return ""
}

// benchmarkName is alg as the format allows it: the name of a benchmark does
// not begin with a lower-case letter.
func benchmarkName(alg string) string {
	r := []rune(word(alg))
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// word is s without what would end it.
func word(s string) string {
	if s == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}
