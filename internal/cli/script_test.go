package cli

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"joulemark":  func() { os.Exit(Main(System())) },
		"load-meter": playLoad,
	})
}

// TestScripts runs testdata/*.txt: each is one behaviour, with stdout, stderr,
// exit codes and the files that are left.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"record": recordLogs,
			"steady": steady,
			"edit":   edit,
			"exits":  exits,
		},
	})
}

// exits CODE [VERB...] runs joulemark, checks the exit code, and leaves what
// it printed in the files out and err.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE [VERB...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec("joulemark", args[1:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run joulemark: %v", err)
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(ts.ReadFile("stdout")), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), []byte(ts.ReadFile("stderr")), 0o600))
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// record SCENARIO SEED writes power.txt and marks.txt: one campaign of the
// bench, as the open FNIRSI loggers and a terminal program write it.
func recordLogs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: record SCENARIO SEED")
	}
	s, err := bench.LoadScenario(args[0])
	ts.Check(err)
	s.Plan.Ops, s.Plan.Windows = []string{"ML-DSA-44/verify"}, 5
	seed, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	w, err := bench.New(s, seed)
	ts.Check(err)
	ts.Check(writeRecording(w, ts.MkAbs("power.txt"), ts.MkAbs("marks.txt")))
}

// steady DIR VOLTS AMPS VOLTSGAIN AMPSGAIN AMPSOFFSET records 20 s of a load
// that does not change with a meter that reads wrong: the gain of volts as a
// factor, that of amps as an excess, and the offset of amps in A.
func steady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 6 {
		ts.Fatalf("usage: steady DIR VOLTS AMPS VOLTSGAIN AMPSGAIN AMPSOFFSET")
	}
	var x [5]float64
	for i, a := range args[1:] {
		v, err := strconv.ParseFloat(a, 64)
		ts.Check(err)
		x[i] = v
	}
	w, err := run.Create(ts.MkAbs(args[0]), run.Header{Tool: "test", Name: "load"}, run.Options{})
	ts.Check(err)
	s, err := w.Stream(meters.Info{Stream: "usb", Driver: "test", Model: "tester", Columns: []string{meters.Volts, meters.Amps}, Wide: true,
		RateHz: 100, PacketSamples: 4, Sample: meters.Mean, Clock: meters.ByArrival})
	ts.Check(err)
	draws := rand.New(rand.NewPCG(uint64(len(args[0])), 1))
	for i := int64(4); i <= 2000; i += 4 {
		b := meters.Block{ArrivalNs: i * 1e7, Values: [][]float64{make([]float64, 4), make([]float64, 4)}}
		for k := range 4 {
			b.Values[0][k] = x[0]*x[2] + 2e-4*draws.NormFloat64()
			b.Values[1][k] = x[1]*(1+x[3]) + x[4] + 1e-4*draws.NormFloat64()
		}
		ts.Check(s.Write(b))
	}
	ts.Check(w.Close("done", 20e9))
}

// epoch is the wall-clock second at which recordings begin.
const epoch = 1_700_000_000

func writeRecording(w *bench.World, power, marks string) error {
	p, err := os.Create(power)
	if err != nil {
		return err
	}
	defer p.Close()
	m, err := os.Create(marks)
	if err != nil {
		return err
	}
	defer m.Close()
	bp, bm := bufio.NewWriter(p), bufio.NewWriter(m)
	fmt.Fprint(bp, "\ntimestamp sample_in_packet voltage_V current_A dp_V dn_V temp_C_ema energy_Ws capacity_As\n")
	energy, charge := 0.0, 0.0
	err = w.Play(func(b meters.Block) error {
		at := epoch + float64(b.ArrivalNs)*1e-9 - 0.04
		for i := range b.Len() {
			v, a := b.Values[0][i], b.Values[1][i]
			energy += v * a * 0.01
			charge += a * 0.01
			fmt.Fprintf(bp, "%.3f %d %.5f %.5f 2.900 0.100 25.000 %.6f %.6f\n", at+0.01*float64(i), i, v, a, energy, charge)
		}
		return nil
	}, func(l run.Line) error {
		_, err := fmt.Fprintf(bm, "%d.%09d\t%s\n", epoch+l.HostNs/1e9, l.HostNs%1e9, l.Text)
		return err
	})
	if err != nil {
		return err
	}
	if err := bp.Flush(); err != nil {
		return err
	}
	return bm.Flush()
}

// edit FILE REGEXP REPLACEMENT [N] replaces the first N matches (all without N).
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: edit FILE REGEXP REPLACEMENT [N]")
	}
	text := ts.ReadFile(args[0])
	left := -1
	if len(args) == 4 {
		n, err := strconv.Atoi(args[3])
		ts.Check(err)
		left = n
	}
	changed := 0
	re := regexp.MustCompile("(?m)" + args[1])
	text = re.ReplaceAllStringFunc(text, func(s string) string {
		if changed == left {
			return s
		}
		changed++
		return re.ReplaceAllString(s, strings.ReplaceAll(args[2], `\n`, "\n"))
	})
	if changed == 0 {
		ts.Fatalf("%s holds no %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(filepath.Clean(ts.MkAbs(args[0])), []byte(text), 0o600))
}
