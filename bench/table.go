package bench

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/run"
)

// Row is one operation on one emulated target.
type Row struct {
	Target, Alg, Op string
	Bits            int
	Seconds         float64 // mean time of one operation, s
	Watts           float64 // mean power above idle, W
	RelativeSD      float64 // standard deviation of one operation's time / its mean
	Tries           float64 // expected tries where the operation samples by rejection, else 0
	Source          string  // where each of the numbers comes from
}

// spin is the algorithm that does nothing but keep the target busy.
const spin = "spin"

// perTry returns the part of the mean time that a single try takes and the
// part that is spent once, in seconds. The tries are geometric with mean m, so
// their relative deviation is sqrt((m-1)/m); the time's own says how much of
// it is repeated.
func (r Row) perTry() (try, once float64) {
	if r.Tries == 0 {
		return 0, r.Seconds
	}
	repeated := r.RelativeSD / math.Sqrt((r.Tries-1)/r.Tries)
	return r.Seconds * repeated / r.Tries, r.Seconds * (1 - repeated)
}

//go:embed tables/latency.csv
var latencies string

// Table returns the operations of all emulated targets, in the order of the
// table.
func Table() ([]Row, error) {
	records, err := csv.NewReader(strings.NewReader(latencies)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read latency table: %w", err)
	}
	var rows []Row
	for i, f := range records[1:] {
		r := Row{Target: f[0], Alg: f[2], Op: f[3], Source: f[8]}
		r.Bits, err = strconv.Atoi(f[1])
		for j, to := range []*float64{&r.Seconds, &r.Watts, &r.RelativeSD, &r.Tries} {
			if err == nil {
				*to, err = strconv.ParseFloat(f[4+j], 64)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read latency table: row %d: %w", i+2, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// target is one emulated target. Its powers and voltage are used where a
// scenario gives none.
type target struct {
	run.Target
	idleWatts float64 // W
	emfVolts  float64 // V, of its supply
	idleMode  string
}

// targets lists the emulated targets. The idle power of rv32 is that of an
// ESP32-C3 board, 23 mA at 5.03 V (README of matthewgream/fnisri_logger); that
// of amd64 is assumed for a small fanless machine on a 20 V supply.
var targets = []target{
	{
		Target: run.Target{Name: "rv32", CPU: "emulated RV32IMAC", ISA: "rv32imac", Bits: 32, ClockHz: 160e6,
			TickHz: 1e6, TickBits: 64, Firmware: "joulemark-bench", Impl: "pq-code-package+monocypher+micro-ecc",
			ImplVersion: "emulated", CC: "gcc 12.2", CFlags: "-O2"},
		idleWatts: 0.115, emfVolts: 5.1, idleMode: "wfi",
	},
	{
		Target: run.Target{Name: "amd64", CPU: "emulated x86-64", ISA: "amd64", Bits: 64, ClockHz: 2.5e9,
			TickHz: 1e9, TickBits: 64, Firmware: "joulemark-bench", Impl: "circl+go",
			ImplVersion: "v1.6.5+go1.26", CC: "gc go1.26", CFlags: ""},
		idleWatts: 6.5, emfVolts: 20, idleMode: "os",
	},
}

// Targets returns the names of the emulated targets.
func Targets() []string {
	var names []string
	for _, t := range targets {
		names = append(names, t.Name)
	}
	return names
}

func findTarget(name string) (target, error) {
	i := slices.IndexFunc(targets, func(t target) bool { return t.Name == name })
	if i < 0 {
		return target{}, fmt.Errorf("unknown target %q (known: %s)", name, strings.Join(Targets(), ", "))
	}
	return targets[i], nil
}
