package align

import (
	"cmp"
	"math"
	"slices"

	"github.com/joulemark/joulemark/meters"
)

// Values says how consecutive samples of a meter hang together.
type Values string

const (
	// Independent: each sample is a value of its own.
	Independent Values = "independent"
	// Repeated: several samples in a row show one conversion.
	Repeated Values = "repeated"
	// Interpolated: samples between conversions lie on the line from one to the
	// next.
	Interpolated Values = "interpolated"
	// Correlated: each sample is new, but its noise resembles its neighbours'.
	Correlated Values = "correlated"
	// UnknownValues: too little steady power was seen to tell.
	UnknownValues Values = "unknown"
)

// Character is what a run shows of its meter, whatever the meter says of
// itself. What cannot be told is NaN.
type Character struct {
	Values  Values
	Samples int // of steady power, from which it was told
	// ConversionsHz is how many of the samples in a host second are new: not
	// repeated, nor interpolated between others.
	ConversionsHz float64
	// EffectiveHz is how many independent values a host second holds: the
	// conversions, less what the correlation of their noise takes.
	EffectiveHz float64

	// Kind is what a sample is, told from Edges steps of power:
	// EdgeConversions is how many conversions a step stands between 10 % and
	// 90 % of it, on average.
	Kind            meters.SampleKind
	Edges           int
	EdgeConversions float64

	// NoiseWatts and ConversionNoiseWatts are the standard deviations of a
	// sample and of a conversion in idle, slow drift taken out: of meter and
	// target together.
	NoiseWatts, ConversionNoiseWatts float64
	// Lag1 is the correlation of neighbouring conversions' noise,
	// CorrelationSeconds the host time over which they amount to one
	// independent value.
	Lag1               float64
	CorrelationSeconds float64
}

// Bounds of what is kept of the samples.
const (
	// keptStretches of steady power, of idleSamples samples at most, and as many
	// edges, of edgeSamples: 1.3 MB.
	keptStretches = 64
	idleSamples   = 512
	edgeSamples   = 2048
	// longestHold is the largest number of samples that may show one conversion.
	longestHold = 16
)

// Limits of what is told from what.
const (
	// leastSamples that tell anything.
	leastSamples = 100
	// evenRuns is the relative standard deviation of the lengths of runs of
	// equal samples below which they are conversions that repeat. Runs that are
	// equal by chance (a meter coarser than its noise) are geometric: with a mean
	// of leastRun samples and more theirs is 0.57 at least.
	evenRuns = 0.4
	leastRun = 1.5
	// bentRatio is how much more samples bend at conversions than between them,
	// mean square, where those between are interpolated; 1 where none are. With
	// leastSamples in two places, chance reaches 2.
	bentRatio = 6.0
	// leastCorrelation of neighbours that counts as one, if it is also 5 of its
	// own standard uncertainties.
	leastCorrelation = 0.1
	// leastEdges tell what a sample is. An edge that meets a mean over a period
	// leaves it between 10 % and 90 % in 0.8 of all cases, and a point sample never,
	// but for the meter's response: up to mostPoint it is a point, up to
	// mostMean a mean, and beyond that the edge is too slow to tell. Less noise
	// than quietStep of a step keeps levels apart.
	leastEdges = 8
	mostPoint  = 0.3
	leastMean  = 0.55
	mostMean   = 1.3
	quietStep  = 1.0 / 30
)

// stretch is consecutive samples that were kept.
type stretch struct {
	place  int64   // of the first one, counted in samples of the meter
	from   float64 // where it begins, s
	period float64 // s
	watts  []float64
}

// within returns the samples that lie wholly in a span.
func (k stretch) within(s span) stretch {
	lo := int(math.Ceil((s.from-k.from)/k.period - 1e-9))
	hi := int(math.Floor((s.to-k.from)/k.period + 1e-9))
	lo, hi = max(lo, 0), min(hi, len(k.watts))
	if lo >= hi {
		return stretch{}
	}
	return stretch{k.place + int64(lo), k.from + float64(lo)*k.period, k.period, k.watts[lo:hi]}
}

// keeper copies samples of a bounded number of bounded spans as they pass.
type keeper struct {
	spans []span // ascending and disjoint; consumed
	kept  []stretch
}

// newKeeper plans what to keep of steady power and of edges, which the offset
// may still move within what is plausible.
func newKeeper(steady, edges []span) keeper {
	all := slices.Concat(steady, edges)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var k keeper
	for _, s := range all {
		s.from, s.to = s.from+plausibleFrom, s.to+plausibleTo
		if n := len(k.spans); n > 0 && s.from <= k.spans[n-1].to {
			k.spans[n-1].to = math.Max(k.spans[n-1].to, s.to)
			continue
		}
		k.spans = append(k.spans, s)
	}
	return k
}

// evenly chooses keptStretches of the spans, and the middle of each if it is
// longer than length.
func evenly(spans []span, length float64) []span {
	n := min(len(spans), keptStretches)
	out := make([]span, n)
	for i := range out {
		s := spans[i*len(spans)/n]
		cut := math.Max(0, s.length()-length) / 2
		out[i] = span{s.from + cut, s.to - cut}
	}
	return out
}

// wants reports whether a sample in [x, to) is to be kept.
func (k *keeper) wants(x, to float64) bool {
	for len(k.spans) > 0 && k.spans[0].to <= x {
		k.spans = k.spans[1:]
	}
	return len(k.spans) > 0 && k.spans[0].from < to
}

// take keeps the sample at x, which stands for period.
func (k *keeper) take(place int64, x, period, watts float64) {
	if !k.wants(x, x+period) || watts != watts {
		return
	}
	if n := len(k.kept); n > 0 {
		if last := &k.kept[n-1]; last.place+int64(len(last.watts)) == place {
			last.watts = append(last.watts, watts)
			return
		}
	}
	k.kept = append(k.kept, stretch{place, x, period, []float64{watts}})
}

// keep plans what to keep of a segment's samples: idle (the insides of windows
// where there is too little), and the edges.
func (t *Timeline) keep(segment int, period float64) (steady, edges []span) {
	total := 0.0
	for _, q := range t.Quiet {
		if q.Segment == segment && !math.IsInf(q.To, 1) {
			steady = append(steady, span{q.From, q.To})
			total += q.To - q.From
		}
	}
	var insides []span
	reach := math.Max(0.1, 3*longestHold*period)
	for _, w := range t.Windows {
		if w.Segment != segment || !w.isStep() {
			continue
		}
		insides = append(insides, span{w.From, w.To})
		if reach < edgeSamples/4*period {
			edges = append(edges, span{w.From - reach, w.From + reach}, span{w.To - reach, w.To + reach})
		}
	}
	if total < 4*leastSamples*period {
		steady = insides
	}
	return evenly(steady, idleSamples*period), evenly(edges, edgeSamples*period)
}

// characterise tells the meter's character from what was kept of its samples,
// once the offset is known.
func (t *Timeline) characterise() Character {
	nan := math.NaN()
	c := Character{Values: UnknownValues, ConversionsHz: nan, EffectiveHz: nan, Kind: meters.UnknownKind, EdgeConversions: nan,
		NoiseWatts: nan, ConversionNoiseWatts: nan, Lag1: nan, CorrelationSeconds: nan}
	var still []stretch
	for _, seg := range t.segments {
		r := reachOf(t.Offset.ResponseSeconds, seg.trace.period)
		for _, s := range seg.steady {
			s.from += t.Offset.Seconds + r.settle + 2*t.Offset.U
			s.to += t.Offset.Seconds - r.lead - 2*t.Offset.U
			for _, kept := range seg.trace.keeper.kept {
				if part := kept.within(s); len(part.watts) >= longestHold {
					still = append(still, part)
					c.Samples += len(part.watts)
				}
			}
		}
	}
	if c.Samples < leastSamples {
		return c
	}
	hold := findHold(still)
	values := hold.conversions(still)
	_, c.NoiseWatts, _ = noise(still)
	factor, sd, lag1 := noise(values)
	c.Values, c.ConversionNoiseWatts, c.Lag1 = hold.values, sd, lag1
	c.ConversionsHz = t.RateHz / hold.samples
	n := 0
	for _, v := range values {
		n += len(v.watts)
	}
	if lag1 < math.Max(leastCorrelation, 5/math.Sqrt(float64(n))) {
		factor = 1
	} else if c.Values == Independent {
		c.Values = Correlated
	}
	c.EffectiveHz = c.ConversionsHz / factor
	c.CorrelationSeconds = 1 / c.EffectiveHz
	if t.Method != ByArrival {
		t.kindOf(&c, hold, quickNoise(values))
	}
	return c
}

// hold is how a meter shows its conversions.
type hold struct {
	values  Values
	samples float64 // a conversion
	// every and phase: where every is above 1, the samples with
	// place % every == phase are conversions.
	every, phase int64
}

// findHold tells whether samples repeat, lie on lines, or neither.
func findHold(still []stretch) hold {
	if h, ok := findRuns(still); ok {
		return h
	}
	if h, ok := findLines(still); ok {
		return h
	}
	return hold{values: Independent, samples: 1, every: 1}
}

// findRuns looks for runs of equal samples whose lengths are too even to be
// chance.
func findRuns(still []stretch) (hold, bool) {
	var n, sum, square float64
	for _, s := range still {
		first := true
		length := 1.0
		for i := 1; i < len(s.watts); i++ {
			if s.watts[i] == s.watts[i-1] {
				length++
				continue
			}
			if !first { // of the first run of a stretch the head is missing
				n++
				sum += length
				square += length * length
			}
			first, length = false, 1
		}
	}
	mean := sum / n
	sd := math.Sqrt(math.Max(0, square/n-mean*mean))
	if n < leastEdges || mean < leastRun || sd > evenRuns*mean {
		return hold{}, false
	}
	return hold{values: Repeated, samples: mean}, true
}

// findLines looks for the places, one in every few samples, at which alone the
// samples bend.
func findLines(still []stretch) (hold, bool) {
	best, ratio := hold{}, bentRatio
	for every := int64(2); every <= longestHold; every++ {
		bends, counts := make([]float64, every), make([]float64, every)
		for _, s := range still {
			for i := 1; i+1 < len(s.watts); i++ {
				d := s.watts[i+1] - 2*s.watts[i] + s.watts[i-1]
				k := (s.place + int64(i)) % every
				bends[k] += d * d
				counts[k]++
			}
		}
		total, count := 0.0, 0.0
		for k := range bends {
			total += bends[k]
			count += counts[k]
		}
		for k, b := range bends {
			if counts[k] < leastEdges || b == 0 {
				continue
			}
			at := b / counts[k]
			// Without counts, samples between conversions do not bend at all.
			between := math.Max((total-b)/(count-counts[k]), 1e-9*total/count)
			if at/between > ratio {
				best, ratio = hold{Interpolated, float64(every), every, int64(k)}, at/between
			}
		}
	}
	return best, best.every > 1
}

// conversions returns the samples of each stretch that are conversions.
func (h hold) conversions(still []stretch) []stretch {
	if h.every == 1 {
		return still
	}
	out := make([]stretch, 0, len(still))
	for _, s := range still {
		v := stretch{place: s.place, from: s.from, period: s.period * h.samples}
		for i, w := range s.watts {
			if h.isConversion(s, i) {
				v.watts = append(v.watts, w)
			}
		}
		out = append(out, v)
	}
	return out
}

// isConversion reports whether sample i of a stretch is a conversion that was
// not seen before.
func (h hold) isConversion(s stretch, i int) bool {
	if h.values == Repeated {
		return i > 0 && s.watts[i] != s.watts[i-1]
	}
	return h.every == 1 || (s.place+int64(i))%h.every == h.phase
}

// noise returns the standard deviation of values around the line through their
// stretch, the correlation of neighbours, and the integrated correlation: how
// many values amount to an independent one, 1 + 2 sum of the correlations over
// lags up to 2.5 times that (A. Sokal, Monte Carlo Methods in Statistical
// Mechanics, 1996, 3: five correlation times).
//
// The line through n values takes 2 factor/n of the variance with it, and of
// the covariance at all lags; that is put back once.
func noise(values []stretch) (factor, sd, lag1 float64) {
	const lags = 128
	var cov, counts [lags]float64
	var square, n, stretches float64
	for _, s := range values {
		v := detrended(s.watts)
		if len(v) < longestHold/2 {
			continue
		}
		n += float64(len(v))
		stretches++
		for _, w := range s.watts {
			square += w * w
		}
		for k := range min(lags, len(v)/4+1) {
			for i := k; i < len(v); i++ {
				cov[k] += v[i] * v[i-k]
			}
			counts[k] += float64(len(v) - k)
		}
	}
	if n == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	for k := range cov {
		cov[k] /= math.Max(counts[k], 1)
	}
	if cov[0] <= rounding*square/n {
		return 1, 0, 0
	}
	lost := 0.0
	factor = integrated(cov[:], lost)
	share := math.Min(2*factor*stretches/n, 0.4)
	lost = cov[0] * share / (1 - share)
	return integrated(cov[:], lost), math.Sqrt(cov[0] + lost), (cov[1] + lost) / (cov[0] + lost)
}

// rounding is the relative variance that arithmetic alone leaves.
const rounding = 1e-24

// integrated is 1 + 2 sum of the correlations, at least 1.
func integrated(cov []float64, lost float64) float64 {
	sum, factor := 1.0, 1.0
	for k := 1; k < len(cov) && cov[k] != 0 && float64(k) <= math.Max(1, 2.5*factor); k++ {
		sum += 2 * (cov[k] + lost) / (cov[0] + lost)
		factor = math.Max(1, sum)
	}
	return factor
}

// detrended returns values without the line through them (least squares).
func detrended(v []float64) []float64 {
	var mean, slope, square float64
	mid := float64(len(v)-1) / 2
	for i, w := range v {
		mean += w / float64(len(v))
		slope += w * (float64(i) - mid)
		square += (float64(i) - mid) * (float64(i) - mid)
	}
	if square > 0 {
		slope /= square
	}
	out := make([]float64, len(v))
	for i, w := range v {
		out[i] = w - mean - slope*(float64(i)-mid)
	}
	return out
}

// quickNoise is the standard deviation of neighbours' differences, by their
// median, as that of one value: bursts do not count.
func quickNoise(values []stretch) float64 {
	var d []float64
	for _, s := range values {
		for i := 1; i < len(s.watts); i++ {
			d = append(d, math.Abs(s.watts[i]-s.watts[i-1]))
		}
	}
	return 1.4826 / math.Sqrt2 * median(d)
}

// kindOf tells what a sample is from the conversions that fall within the
// steps of power. A conversion that is a mean shows a sharp step in part; a
// point sample shows all of it or nothing.
func (t *Timeline) kindOf(c *Character, h hold, noise float64) {
	between, steps := 0, 0
	for i := range t.Windows {
		w := &t.Windows[i]
		if !w.isStep() {
			continue
		}
		seg := t.segments[w.Segment]
		r := reachOf(t.Offset.ResponseSeconds, seg.trace.period)
		reach := 3 * h.samples * seg.trace.period
		for _, e := range t.edgesOf(i) {
			p0, p1, _, ok := e.levels(0, r)
			if !ok || (p1 > p0) != e.rising || noise > quietStep*math.Abs(p1-p0) {
				continue
			}
			for _, kept := range seg.trace.keeper.kept {
				part := kept.within(span{e.at - reach, e.at + reach})
				if float64(len(part.watts)) < 5*h.samples {
					continue
				}
				steps++
				for k, p := range part.watts {
					if y := (p - p0) / (p1 - p0); h.isConversion(part, k) && y > 0.1 && y < 0.9 {
						between++
					}
				}
			}
		}
	}
	c.Edges = steps
	if steps == 0 {
		return
	}
	c.EdgeConversions = float64(between) / float64(steps)
	switch {
	case steps < leastEdges:
	case c.EdgeConversions <= mostPoint:
		c.Kind = meters.Point
	case c.EdgeConversions >= leastMean && c.EdgeConversions <= mostMean:
		c.Kind = meters.Mean
	}
}
