package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/sync/align"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// DutyCycle is the self-test of a meter: the target is busy for a share of a
// period, again and again. Mean net power must be proportional to that share
// and independent of the period; what is left over is what the meter may make
// of a power that is not constant.
type DutyCycle struct {
	Windows int `json:"windows"`
	// Watts is net power while busy.
	Watts Estimate `json:"net_w"`
	// Burst is what each burst costs beside that, J: wake-up of the target, and
	// what the meter loses at edges, which cannot be told apart.
	Burst Estimate `json:"burst_j"`
	// F is the ratio of the mean square deviation of the means of cycles from
	// the fit to what the scatter between their windows explains, and P the
	// probability of a larger one by chance.
	F Num `json:"f"`
	P Num `json:"p"`
	// Significant: P is below 5 %. Limit is then the deviation that is left
	// over, else what the scatter could hide; a relative half width. It is null
	// where no cycle was repeated.
	Significant bool    `json:"significant"`
	Limit       Num     `json:"relative_limit"`
	Cycles      []Cycle `json:"cycles"`
}

// Estimate is a value with its standard uncertainty.
type Estimate struct {
	Value Num `json:"value"`
	U     Num `json:"u"`
}

// Cycle is the windows of one period and duty.
type Cycle struct {
	PeriodSeconds Num `json:"period_s"`
	Duty          Num `json:"duty"`
	Windows       int `json:"windows"`
	Watts         Num `json:"net_w"` // mean net power, W
	// Deviation of Watts from the fit, relative, with the standard uncertainty
	// that the pooled scatter between windows gives it.
	Deviation Estimate `json:"deviation"`
}

// minCycles is the least number of cycles: two parameters are fitted.
const minCycles = 4

type cycleKey struct{ periodUs, onUs int64 }

// dutyTest gathers the windows of duty cycles. A relative error of power is the
// same watts in none of them, so all is fitted per busy time.
type dutyTest struct {
	watts map[cycleKey][]float64 // net power / duty, W
}

func (d *dutyTest) add(w *align.Window, p pulse) {
	if math.IsNaN(p.net) {
		return
	}
	if d.watts == nil {
		d.watts = map[cycleKey][]float64{}
	}
	k := cycleKey{w.PeriodUs, w.OnUs}
	busy := p.seconds * float64(w.OnUs) / float64(w.PeriodUs)
	d.watts[k] = append(d.watts[k], p.net/busy)
}

// result fits net power while busy = P + c / on to all windows by least
// squares, and tests the lack of fit against the scatter within cycles (Draper
// & Smith, Applied Regression Analysis, 3rd ed., 2.1). Deviations of variance
// v make F as large as 1 + m v / S^2 times its distribution says, with the
// variance S^2 of a window and m windows a cycle. Where F is significant, the
// limit is the half width of a rectangle with the v that makes it; otherwise it
// is the deviation whose v makes F that small in 5 % of cases, and at least the
// standard uncertainty of a cycle. It returns nil without windows, and says why
// it cannot state a limit.
func (d *dutyTest) result() (out *DutyCycle, problem string) {
	if len(d.watts) == 0 {
		return nil, ""
	}
	nan := Num(math.NaN())
	out = &DutyCycle{Watts: Estimate{nan, nan}, Burst: Estimate{nan, nan}, F: nan, P: nan, Limit: nan}
	keys := make([]cycleKey, 0, len(d.watts))
	for k, v := range d.watts {
		keys = append(keys, k)
		out.Windows += len(v)
	}
	slices.SortFunc(keys, func(a, b cycleKey) int {
		return cmp.Or(cmp.Compare(a.periodUs, b.periodUs), cmp.Compare(a.onUs, b.onUs))
	})
	design, power := mat.NewDense(out.Windows, 2, nil), mat.NewVecDense(out.Windows, nil)
	within, row := 0.0, 0
	for _, k := range keys {
		mean := sum(d.watts[k]) / float64(len(d.watts[k]))
		for _, w := range d.watts[k] {
			design.SetRow(row, []float64{1, 1e6 / float64(k.onUs)})
			power.SetVec(row, w)
			within += (w - mean) * (w - mean)
			row++
		}
		duty := float64(k.onUs) / float64(k.periodUs)
		out.Cycles = append(out.Cycles, Cycle{PeriodSeconds: Num(float64(k.periodUs) * 1e-6), Duty: Num(duty),
			Windows: len(d.watts[k]), Watts: Num(mean * duty), Deviation: Estimate{nan, nan}})
	}
	if len(keys) < minCycles {
		return out, fmt.Sprintf("it has %d pairs of period and duty; %d are needed", len(keys), minCycles)
	}
	var normal, inverse mat.Dense
	normal.Mul(design.T(), design)
	var right, fit mat.VecDense
	right.MulVec(design.T(), power)
	if inverse.Inverse(&normal) != nil {
		return out, "its bursts all have one length"
	}
	fit.MulVec(&inverse, &right)
	busy, burst := fit.AtVec(0), fit.AtVec(1)

	lack := 0.0
	for i, k := range keys {
		c := &out.Cycles[i]
		mean := float64(c.Watts / c.Duty)
		off := mean - busy - burst*1e6/float64(k.onUs)
		lack += float64(c.Windows) * off * off
		c.Deviation.Value = Num(off / busy)
	}
	cells, n := float64(len(keys)), float64(out.Windows)
	free, left := cells-2, n-cells
	out.Watts, out.Burst = Estimate{Num(busy), nan}, Estimate{Num(burst), nan}
	if left < 1 {
		return out, "no pair of period and duty was repeated"
	}
	scatter := within / left // variance of a window
	lack /= free
	spread := math.Max(scatter, lack)
	out.Watts.U = Num(math.Sqrt(spread * inverse.At(0, 0)))
	out.Burst.U = Num(math.Sqrt(spread * inverse.At(1, 1)))
	for i := range out.Cycles {
		c := &out.Cycles[i]
		c.Deviation.U = Num(math.Sqrt(scatter/float64(c.Windows)) / math.Abs(busy))
	}
	f := distuv.F{D1: free, D2: left}
	ratio := lack / scatter
	out.F, out.P = Num(ratio), Num(1-f.CDF(ratio))
	out.Significant = 1-f.CDF(ratio) < 1-level
	// The variance of deviations that makes the lack of fit what it is.
	variance := math.Max(lack/f.Quantile(1-level)-scatter, scatter)
	if out.Significant {
		variance = 3 * (lack - scatter)
	}
	out.Limit = Num(math.Sqrt(variance*cells/n) / math.Abs(busy))
	return out, ""
}

// limit is the term of the budget that the self-test adds to an energy: the
// run's own, or the one that characterised its meter.
func (d *DutyCycle) limit(joules float64, known *meters.Characterisation) (limit, bool) {
	if d == nil || !d.Limit.Stated() {
		if known == nil || known.Duty == nil {
			return limit{}, false
		}
		return limit{name: dutyTerm, half: known.Duty.Limit * math.Abs(joules), own: true,
			source: fmt.Sprintf("self-test of meter %s of %s, %d windows (p = %.2g)", known.Name, known.Date, known.Duty.Windows, known.Duty.P)}, true
	}
	source := fmt.Sprintf("self-test of %d windows: nothing is left over (p = %.2g); what its scatter could hide", d.Windows, float64(d.P))
	if d.Significant {
		source = fmt.Sprintf("self-test of %d windows: power is not proportional to the duty, or depends on the period (p = %.1g)", d.Windows, float64(d.P))
	}
	return limit{name: dutyTerm, half: float64(d.Limit) * math.Abs(joules), own: true, source: source}, true
}

// dutyTerm names the term.
const dutyTerm = "duty cycle"
