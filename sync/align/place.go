package align

import (
	"errors"
	"fmt"
	"math"

	"github.com/joulemark/joulemark/sync/clock"
	"github.com/joulemark/joulemark/sync/mark"
)

// tie is what joins a segment's sample clock and the host clock.
type tie struct {
	shared bool
	first  float64 // host seconds of the first sample, where shared
	fit    *clock.Map
}

// rate returns host seconds per second of the sample clock.
func (t tie) rate() float64 {
	if t.shared || t.fit == nil {
		return 1
	}
	return t.fit.Quality().Rate
}

// host converts a place on the sample clock.
func (t tie) host(x float64) (y, u float64, err error) {
	if t.shared {
		return t.first + x, 0, nil
	}
	return t.fit.Host(x)
}

// sample converts a host time.
func (t tie) sample(y float64) (x, u float64, err error) {
	if t.shared {
		return y - t.first, 0, nil
	}
	return t.fit.Source(y)
}

// fitArrivals ties each segment by the arrivals of its packets.
func (t *Timeline) fitArrivals() error {
	for _, s := range t.segments {
		if s.arrivals == nil {
			continue
		}
		s.arrivals.Close()
		fit, err := s.arrivals.Map(clock.Options{})
		if err != nil {
			return fmt.Errorf("stream %s, segment %d: %w", s.info.Stream, s.info.Segment, err)
		}
		s.tie.fit = fit
		// A gap is known by the rows that had arrived with the packet after it.
		packet := int64(max(s.info.PacketSamples, 1))
		for _, g := range s.arrivals.Gaps() {
			s.lost = append(s.lost, hole{g.Row - packet, g.Rows})
		}
	}
	return nil
}

// placer turns ticks and arrivals of statements into host times, and host
// times into places on the sample clock.
type placer struct {
	*Timeline
	ticks *tickClock
}

// place puts all stated windows and idle intervals on the sample clock, before
// the offset.
func (t *Timeline) place(ev *evidence) {
	ticks, warnings := newTickClock(ev)
	t.Warnings = append(t.Warnings, warnings...)
	p := placer{t, ticks}
	var open *item
	for k := range ev.items {
		it := &ev.items[k]
		switch {
		case it.bad != nil:
			t.Windows = append(t.Windows, Window{Win: mark.Win{W: it.bad.w, Alg: it.bad.alg, Op: it.bad.op}, Excluded: it.bad.reason})
		case it.win != nil:
			w := p.window(it)
			w.arrived = it.hostSeconds
			t.Windows = append(t.Windows, w)
			t.Quiet = append(t.Quiet, t.zones(&w)...)
		case it.idle != nil:
			p.idle(it)
		case it.bound != nil:
			if it.bound.End {
				w := p.bounded(open, it)
				w.arrived = it.hostSeconds
				t.Windows = append(t.Windows, w)
				open = nil
			} else {
				if open != nil {
					t.Windows = append(t.Windows, Window{Win: mark.Win{Alg: open.bound.Alg, Op: open.bound.Op}, Excluded: "it begins and never ends"})
				}
				open = it
			}
		}
	}
	if open != nil {
		t.Windows = append(t.Windows, Window{Win: mark.Win{Alg: open.bound.Alg, Op: open.bound.Op}, Excluded: "it begins and never ends"})
	}
}

// on finds the segment that holds the host interval, and its place there.
func (p placer) on(from, to float64) (segment int, x0, x1, u float64, err error) {
	err = errors.New("no sample was recorded")
	for k, s := range p.segments {
		a, ua, errA := s.tie.sample(from)
		b, ub, errB := s.tie.sample(to)
		if errA == nil {
			errA = errB
		}
		switch {
		case errA == nil && (k == 0 || a >= 0):
			// Of several segments that reach here, the one that begins last.
			segment, x0, x1, u, err = k, a, b, math.Max(ua, ub), nil
		case err != nil && errA != nil:
			err = errA
		}
	}
	return segment, x0, x1, u, err
}

// window places one win statement.
func (p placer) window(it *item) Window {
	w := Window{Win: it.win.Win, Lat: it.win.lat, Pre: float64(it.win.PreUs) * 1e-6, Post: float64(it.win.PostUs) * 1e-6}
	lag := w.Post
	if lag == 0 {
		lag = -1
	}
	w.Seconds, w.lengthSlack = p.ticks.seconds(w.T0, w.T1), nominalLength
	h0, h1, u, err := p.ticks.past(it, w.T0, w.T1, lag)
	if err != nil {
		w.Excluded, w.unplaced = err.Error(), !errors.Is(err, errEndsFirst)
		return w
	}
	w.lengthSlack = fittedLength
	w.Seconds = h1 - h0
	switch {
	case !(w.Seconds > 0):
		w.Excluded = errEndsFirst.Error()
		return w
	case w.Fail != nil && *w.Fail > 0:
		w.Excluded = fmt.Sprintf("%d of its %d operations gave a wrong answer", *w.Fail, w.N)
	}
	var us float64
	w.Segment, w.From, w.To, us, err = p.on(h0, h1)
	if err != nil {
		if w.Excluded == "" {
			w.Excluded, w.unplaced = "it lies outside the recording", true
		}
		w.From, w.To = 0, 0
		return w
	}
	w.UEdge = math.Hypot(u, us)
	return w
}

// zones returns the quiet zones around a window that has a place.
func (t *Timeline) zones(w *Window) []Quiet {
	if !(w.To > w.From) {
		return nil
	}
	rate := t.Rate(w.Segment)
	return []Quiet{
		{Segment: w.Segment, From: w.From - w.Pre/rate, To: w.From, Mode: w.Idle},
		{Segment: w.Segment, From: w.To, To: w.To + w.Post/rate, Mode: w.Idle},
	}
}

// idle places one idle statement; one that cannot be placed says nothing.
func (p placer) idle(it *item) {
	i := it.idle
	h0, h1, _, err := p.ticks.past(it, i.T0, i.T1, -1)
	if err != nil || !(h1 > h0) {
		return
	}
	s, x0, x1, _, err := p.on(h0, h1)
	if err == nil {
		p.Quiet = append(p.Quiet, Quiet{Segment: s, From: x0, To: x1, Mode: i.Mode})
	}
}

// bounded places a window that hand-instrumented firmware bounds by begin and
// end. Without ticks the arrivals of the lines are all there is.
func (p placer) bounded(begin, end *item) Window {
	w := Window{Win: mark.Win{W: int64(len(p.Windows) + 1), Alg: end.bound.Alg, Op: end.bound.Op}}
	if begin == nil {
		w.Excluded = "it ends and never begins"
		return w
	}
	if w.Alg == "" {
		w.Alg = begin.bound.Alg
	}
	if w.Op != begin.bound.Op || begin.bound.Alg != "" && w.Alg != begin.bound.Alg {
		w.Excluded = fmt.Sprintf("it begins as %q and ends as %q", begin.bound.Op, end.bound.Op)
		return w
	}
	w.N = 1
	for _, b := range []*mark.Bound{begin.bound, end.bound} {
		if b.N != nil {
			w.N = *b.N
		}
	}
	h0, h1 := begin.hostSeconds, end.hostSeconds
	w.edgeSlack = arrivalSpread
	var err error
	if begin.bound.Ticks != nil && end.bound.Ticks != nil {
		w.lengthSlack, w.edgeSlack = fittedLength, 0
		h0, h1, w.UEdge, err = p.ticks.past(end, *begin.bound.Ticks, *end.bound.Ticks, 0)
		if err != nil {
			w.Excluded, w.unplaced = err.Error(), !errors.Is(err, errEndsFirst)
			return w
		}
	}
	w.Seconds = h1 - h0
	w.Segment, w.From, w.To, _, err = p.on(h0, h1)
	switch {
	case err != nil:
		w.Excluded, w.From, w.To = "it lies outside the recording", 0, 0
	case !(w.To > w.From):
		w.Excluded = errEndsFirst.Error()
	}
	return w
}
