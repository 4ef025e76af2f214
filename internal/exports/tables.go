package exports

import (
	"slices"
	"strings"

	"github.com/joulemark/joulemark/analysis"
)

// operation is an operation with the results that it belongs to.
type operation struct {
	*analysis.Results
	op *analysis.Operation
}

// Results is the table of energy per operation: one row an operation, run and
// meter.
func Results(runs []analysis.Results) Table {
	var rows []operation
	for i := range runs {
		for k := range runs[i].Operations {
			rows = append(rows, operation{&runs[i], &runs[i].Operations[k]})
		}
	}
	fields := provenance(func(o operation) *analysis.Results { return o.Results })
	fields = append(fields,
		text("alg", func(o operation) string { return o.op.Alg }),
		text("op", func(o operation) string { return o.op.Op }),
		integer("windows", func(o operation) int64 { return int64(o.op.Windows) }),
		integer("n", func(o operation) int64 { return o.op.Count }),
		text("idle_mode", func(o operation) string { return o.op.IdleMode }),
		positive("keys", func(o operation) int { return o.op.Keys }),
	)
	fields = append(fields, quantity("net_j_per_op", "J", func(o *analysis.Operation) analysis.Quantity { return o.Net })...)
	fields = append(fields, quantity("gross_j_per_op", "J", func(o *analysis.Operation) analysis.Quantity { return o.Gross })...)
	fields = append(fields, quantity("net_w", "W", func(o *analysis.Operation) analysis.Quantity { return o.NetWatts })...)
	fields = append(fields, quantity("idle_w", "W", func(o *analysis.Operation) analysis.Quantity { return o.Idle })...)
	fields = append(fields, quantity("overhead_j_per_window", "J", func(o *analysis.Operation) analysis.Quantity { return o.Overhead })...)
	latency := func(name string, value func(analysis.Latency) analysis.Num) field[operation] {
		return real("latency_s"+name, "s", func(o operation) float64 { return float64(value(o.op.Latency)) })
	}
	fields = append(fields,
		latency("", func(l analysis.Latency) analysis.Num { return l.Mean }),
		latency("_p50", func(l analysis.Latency) analysis.Num { return l.P50 }),
		latency("_p95", func(l analysis.Latency) analysis.Num { return l.P95 }),
		latency("_min", func(l analysis.Latency) analysis.Num { return l.Min }),
		latency("_max", func(l analysis.Latency) analysis.Num { return l.Max }),
		latency("_sd", func(l analysis.Latency) analysis.Num { return l.SD }),
		text("alignment_method", func(o operation) string { return string(o.Alignment.Method) }),
		real("alignment_offset_s", "s", func(o operation) float64 { return float64(o.Alignment.Offset) }),
		real("alignment_u_s", "s", func(o operation) float64 { return float64(o.Alignment.U) }),
		truth("voided", func(o operation) bool { return o.op.Voided }),
		text("warnings", func(o operation) string { return strings.Join(o.op.Warnings, "; ") }),
		truth("run_voided", func(o operation) bool { return runVoided(o.Results) }),
		text("run_warnings", func(o operation) string { return strings.Join(o.Results.Warnings, "; ") }),
	)
	return tableOf(rows, map[string]string{"table": "results"}, fields)
}

// runVoided reports whether a warning on the run as a whole voids the claim;
// that of an operation stands with the operation.
func runVoided(r *analysis.Results) bool {
	return slices.ContainsFunc(r.Voids, func(text string) bool { return slices.Contains(r.Warnings, text) })
}

// quantity is a value with its two intervals.
func quantity(name, unit string, of func(*analysis.Operation) analysis.Quantity) []field[operation] {
	part := func(suffix, unit string, value func(analysis.Quantity) analysis.Num) field[operation] {
		return real(name+suffix, unit, func(o operation) float64 { return float64(value(of(o.op))) })
	}
	return []field[operation]{
		part("", unit, func(q analysis.Quantity) analysis.Num { return q.Value }),
		part("_u", unit, func(q analysis.Quantity) analysis.Num { return q.U }),
		part("_lo95", unit, func(q analysis.Quantity) analysis.Num { return q.Lo95 }),
		part("_hi95", unit, func(q analysis.Quantity) analysis.Num { return q.Hi95 }),
		part("_u_repeat", unit, func(q analysis.Quantity) analysis.Num { return q.URepeat }),
		part("_dof_repeat", "", func(q analysis.Quantity) analysis.Num { return q.DofRepeat }),
		part("_lo95_repeat", unit, func(q analysis.Quantity) analysis.Num { return q.Lo95Repeat }),
		part("_hi95_repeat", unit, func(q analysis.Quantity) analysis.Num { return q.Hi95Repeat }),
		part("_u_shared", unit, func(q analysis.Quantity) analysis.Num { return q.UShared }),
	}
}

// window is a window with the results that it belongs to.
type window struct {
	*analysis.Results
	w *analysis.Window
}

// Windows is the table of single windows, excluded ones included.
func Windows(runs []analysis.Results) Table {
	var rows []window
	for i := range runs {
		for k := range runs[i].Windows {
			rows = append(rows, window{&runs[i], &runs[i].Windows[k]})
		}
	}
	fields := append(provenance(func(w window) *analysis.Results { return w.Results }),
		integer("w", func(w window) int64 { return w.w.W }),
		text("alg", func(w window) string { return w.w.Alg }),
		text("op", func(w window) string { return w.w.Op }),
		integer("n", func(w window) int64 { return w.w.N }),
		text("idle_mode", func(w window) string { return w.w.IdleMode }),
		real("t0_s", "s", func(w window) float64 { return float64(w.w.T0) }),
		real("t1_s", "s", func(w window) float64 { return float64(w.w.T1) }),
		real("gross_j", "J", func(w window) float64 { return float64(w.w.Gross) }),
		real("net_j", "J", func(w window) float64 { return float64(w.w.Net) }),
		real("idle_w", "W", func(w window) float64 { return float64(w.w.Idle) }),
		real("coverage", "", func(w window) float64 { return float64(w.w.Coverage) }),
		truth("duty_cycle", func(w window) bool { return w.w.DutyCycle }),
		truth("by_hand", func(w window) bool { return w.w.ByHand }),
		text("excluded", func(w window) string { return w.w.Excluded }),
	)
	return tableOf(rows, map[string]string{"table": "windows"}, fields)
}

// provenance is what every row says of its run.
func provenance[T any](of func(T) *analysis.Results) []field[T] {
	return []field[T]{
		text("run", func(r T) string { return of(r).Run }),
		truth("simulated", func(r T) bool { return of(r).Simulated }),
		text("meter", func(r T) string { return of(r).Meter.Name }),
		text("meter_driver", func(r T) string { return of(r).Meter.Driver }),
		text("meter_model", func(r T) string { return of(r).Meter.Model }),
		text("meter_accuracy", func(r T) string { return of(r).Meter.Accuracy }),
		text("meter_calibration", func(r T) string {
			if c := of(r).Meter.Calibration; c != nil {
				return c.Name
			}
			return ""
		}),
		text("target", func(r T) string { return of(r).Target.Name }),
		text("isa", func(r T) string { return of(r).Target.ISA }),
		positive("bits", func(r T) int { return of(r).Target.Bits }),
		text("impl", func(r T) string { return of(r).Target.Impl }),
		text("cc", func(r T) string { return of(r).Target.CC }),
		text("cflags", func(r T) string { return of(r).Target.CFlags }),
		text("baseline", func(r T) string { return string(of(r).Baseline) }),
		truth("overhead_subtracted", func(r T) bool { return of(r).OverheadSubtracted }),
	}
}
