package analysis

import (
	"errors"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"gonum.org/v1/gonum/stat/distuv"
)

// Point is one quantity while its value was known.
type Point struct {
	// Reading is what the meter showed, on average, and UReading its standard
	// uncertainty.
	Reading  float64 `json:"reading"`
	UReading float64 `json:"u_reading"`
	// Value is what it should have shown, and Limit how well that is known:
	// rectangular half widths.
	Value float64      `json:"value"`
	Limit meters.Limit `json:"limit"`
	// Residual is the value less what the fitted line makes of the reading.
	Residual float64 `json:"residual"`
}

// Limits of a fit.
const (
	// leastSpan is how far readings must lie apart to tell a gain, as a share of
	// the largest, and leastSpanU in their standard uncertainties.
	leastSpan, leastSpanU = 0.2, 20
	// mostResidual is how far off the line a point may lie, as a share of the
	// span: a meter that is further off is not corrected by a line (assumed: data
	// sheets of cheap meters say so much for all of their errors).
	mostResidual = 0.005
)

// Fit finds the line from readings to values by least squares with errors in
// both (effective variance: Orear, Am. J. Phys. 50 (1982) 912). What noise
// leaves in doubt follows from the points' own uncertainties; where residuals
// are larger than these allow (chi square, 5 %), they count instead (Birge,
// Phys. Rev. 40 (1932) 207), and bound the linearity of the meter. The
// reference's error is taken to be the same in all points: the worst of their
// limits is no smaller for their number. Fit sets the residuals.
func Fit(points []Point) (meters.Correction, error) {
	c, err := fit(points)
	if err != nil {
		return c, fmt.Errorf("fit a calibration: %w", err)
	}
	return c, nil
}

func fit(points []Point) (meters.Correction, error) {
	c := meters.Correction{Gain: 1, Points: len(points), From: math.Inf(1), To: math.Inf(-1)}
	worst := 0.0
	for _, p := range points {
		for _, v := range []float64{p.Reading, p.UReading, p.Value, p.Limit.Gain, p.Limit.Offset} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return c, fmt.Errorf("a point at %v holds %v", p.Value, v)
			}
		}
		if !(p.UReading > 0) {
			return c, fmt.Errorf("the reading at %v has no uncertainty", p.Value)
		}
		c.From, c.To = math.Min(c.From, p.Reading), math.Max(c.To, p.Reading)
		c.Reference.Gain = math.Max(c.Reference.Gain, p.Limit.Gain)
		c.Reference.Offset = math.Max(c.Reference.Offset, p.Limit.Offset)
		worst = math.Max(worst, p.UReading)
	}
	span := c.To - c.From
	if len(points) < 2 || span < leastSpan*math.Max(math.Abs(c.From), math.Abs(c.To)) || span < leastSpanU*worst {
		return c, errors.New("it takes two points that lie well apart, such as a heavy load and a light or no one")
	}
	for range 3 { // the weights depend on the gain, which is near 1
		line(&c, points)
	}
	most := 0.0
	for i := range points {
		p := &points[i]
		p.Residual = p.Value - c.Gain*p.Reading - c.Offset
		most = math.Max(most, math.Abs(p.Residual))
	}
	return c, judge(&c, points, most, span)
}

// line fits the line with the weights that the gain so far gives.
func line(c *meters.Correction, points []Point) {
	var w, wr, wv float64
	weight := func(p Point) float64 { return 1 / (c.Gain * c.Gain * p.UReading * p.UReading) }
	for _, p := range points {
		k := weight(p)
		w += k
		wr += k * p.Reading
		wv += k * p.Value
	}
	r, v := wr/w, wv/w
	var rr, rv float64
	for _, p := range points {
		k := weight(p)
		rr += k * (p.Reading - r) * (p.Reading - r)
		rv += k * (p.Reading - r) * (p.Value - v)
	}
	c.ChiSquare = 0
	for _, p := range points {
		d := p.Value - v - rv/rr*(p.Reading-r)
		c.ChiSquare += weight(p) * d * d
	}
	c.Gain = rv / rr
	c.Offset = v - c.Gain*r
	// The mean and the gain do not correlate; the offset at reading 0 does.
	c.UGain = 1 / math.Sqrt(rr)
	c.UOffset = math.Sqrt(1/w + r*r/rr)
	c.Covariance = -r / rr
}

// judge holds the residuals against the points' own uncertainties.
func judge(c *meters.Correction, points []Point, most, span float64) error {
	if most > mostResidual*span {
		return fmt.Errorf("a point lies %.2g %% of their range off the line through all: the meter is not linear, or a value is wrong", 100*most/span)
	}
	free := float64(len(points) - 2)
	if free < 1 || (distuv.ChiSquared{K: free}).CDF(c.ChiSquare) < level {
		return nil
	}
	// Few residuals tell the scatter badly: as Student's t would have it.
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: free}.Quantile((1+level)/2) / distuv.UnitNormal.Quantile((1+level)/2)
	scale := math.Sqrt(c.ChiSquare/free) * t
	c.UGain, c.UOffset, c.Covariance = scale*c.UGain, scale*c.UOffset, scale*scale*c.Covariance
	squares := 0.0
	for _, p := range points {
		squares += p.Residual*p.Residual/free - p.UReading*p.UReading/float64(len(points))
	}
	c.Linearity = math.Sqrt(3 * math.Max(0, squares))
	return nil
}

// GainQuantity is the gain of a correction with its interval.
func GainQuantity(c meters.Correction) Quantity {
	return corrected(c.Gain, c.UGain, c.Reference.Gain*math.Abs(c.Gain))
}

// OffsetQuantity is the offset of a correction with its interval.
func OffsetQuantity(c meters.Correction) Quantity {
	return corrected(c.Offset, c.UOffset, c.Reference.Offset)
}

func corrected(value, u, reference float64) Quantity {
	return newQuantity(value, u, manyPoints, 0, []float64{reference})
}

// manyPoints are the degrees of freedom of what counts as known.
const manyPoints = 1e6

// Steady is the mean of one column over a recording in which nothing changed.
type Steady struct {
	Mean float64 `json:"mean"`
	// U is its standard uncertainty, from the scatter between equal parts of the
	// recording: noise, its correlation and drift are in it.
	U       float64 `json:"u"`
	SD      float64 `json:"sd"` // of the samples
	Samples int64   `json:"samples"`
}

// Limits of a steady recording.
const (
	// steadyParts are compared: their means scatter with 31 degrees of freedom.
	steadyParts = 32
	// leastPart is the least number of samples of each.
	leastPart = 8
	// skipSeconds at its begin are left out: a load is connected, a filter
	// settles.
	skipSeconds = 1.0
	// assumedCount is one count of a meter that always shows the same and does
	// not state its resolution, V, A or W: that of a FNIRSI FNB58.
	assumedCount = 10e-6
)

// ReadSteady reads volts, amps and watts of a recording of a steady load, as
// the meter gave them.
func ReadSteady(r *run.Run, stream string) (map[string]Steady, error) {
	for _, s := range r.Streams {
		if s.Stream == stream {
			out, err := readSteady(r, &s)
			if err != nil {
				return nil, fmt.Errorf("read the steady load of %s: %w", r.Dir, err)
			}
			return out, nil
		}
	}
	return nil, fmt.Errorf("read the steady load of %s: no stream %q", r.Dir, stream)
}

func readSteady(r *run.Run, s *run.StreamInfo) (map[string]Steady, error) {
	skip := int64(math.Ceil(skipSeconds * s.RateHz))
	if s.Rows-skip < steadyParts*leastPart {
		return nil, fmt.Errorf("%d samples are too few: record a steady load for 10 s or longer", s.Rows)
	}
	all := map[string]*steady{}
	for _, name := range []string{meters.Volts, meters.Amps, meters.Watts} {
		for _, c := range s.Columns {
			if c == name {
				all[name] = &steady{count: math.Inf(1), last: math.NaN()}
			}
		}
	}
	at := -skip
	for b, err := range r.Samples(s.Stream) {
		var damage *run.DamageError
		switch {
		case errors.As(err, &damage):
			continue
		case err != nil:
			return nil, err
		}
		for i := range b.Rows {
			if at >= 0 {
				part := min(int(at*steadyParts/(s.Rows-skip)), steadyParts-1)
				for name, y := range all {
					y.add(part, b.Columns[name][i])
				}
			}
			at++
		}
	}
	out := map[string]Steady{}
	for name, y := range all {
		limit := map[string]*meters.Limit{meters.Volts: s.Accuracy.Volts, meters.Amps: s.Accuracy.Amps, meters.Watts: s.Accuracy.Watts}[name]
		v, err := y.result(limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = v
	}
	return out, nil
}

// steady gathers one column.
type steady struct {
	n, sum, square [steadyParts]float64
	count          float64 // the least difference of neighbours
	last           float64
}

func (y *steady) add(part int, v float64) {
	if math.IsNaN(v) {
		return
	}
	y.n[part]++
	y.sum[part] += v
	y.square[part] += v * v
	if d := math.Abs(v - y.last); d > 0 && d < y.count {
		y.count = d
	}
	y.last = v
}

func (y *steady) result(stated *meters.Limit) (Steady, error) {
	var n, total, square float64
	for k := range y.n {
		if y.n[k] < leastPart/2 {
			return Steady{}, errors.New("too many samples hold no value")
		}
		n += y.n[k]
		total += y.sum[k]
		square += y.square[k]
	}
	s := Steady{Mean: total / n, Samples: int64(n)}
	s.SD = math.Sqrt(math.Max(0, square/n-s.Mean*s.Mean))
	between := 0.0
	for k := range y.n {
		d := y.sum[k]/y.n[k] - s.Mean
		between += d * d
	}
	s.U = math.Sqrt(between / (steadyParts - 1) / steadyParts)
	// Counts that noise does not blur leave the mean anywhere within one.
	if count := y.count; !(s.SD > count/2) {
		if math.IsInf(count, 1) {
			count = assumedCount
			if stated != nil && stated.Offset > 0 {
				count = stated.Offset
			}
		}
		s.U = math.Hypot(s.U, count/math.Sqrt(12))
	}
	return s, nil
}
