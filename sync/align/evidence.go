package align

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// evidence is what a run says of marks, in order of arrival.
type evidence struct {
	target run.Target
	items  []item
	counts mark.Counts
	notes  []run.Note
	direct []run.Window          // windows that stand on the sample clock already
	inband map[string]run.InBand // the pin that a stream holds
	voided map[mark.Op]string
	damage int
}

// item is one statement that carries a time; one of its pointers is set.
type item struct {
	hostSeconds float64 // arrival
	hello       bool    // the target introduced itself: perhaps it was reset
	sync        *mark.Sync
	win         *stated
	bad         *badWin
	idle        *mark.Idle
	bound       *mark.Bound
}

// stated is a win statement with its lat, where there is one.
type stated struct {
	mark.Win
	lat *mark.Lat
}

// identity tells statements apart: the same one twice counts once.
type identity struct {
	kind   string
	number int64
	t0, t1 uint64
}

// badWin is a win statement that cannot count, with the reason.
type badWin struct {
	w       int64
	alg, op string
	reason  string
}

// maxItems bounds the memory that statements take, whatever a run claims.
const maxItems = 20_000_000

// gather reads all statements of a run.
func gather(r *run.Run) (*evidence, error) {
	g := gatherer{
		evidence: &evidence{target: r.Target, voided: map[mark.Op]string{}, inband: map[string]run.InBand{}},
		decoders: map[string]*mark.Decoder{},
		asked:    map[int64]mark.Op{},
		wins:     map[int64]*stated{},
		seen:     map[identity]bool{},
	}
	for rec, err := range r.Records() {
		if err != nil {
			if isDamage(err) {
				g.damage++
				continue
			}
			return nil, fmt.Errorf("read statements of %s: %w", r.Dir, err)
		}
		switch {
		case rec.Note != nil:
			g.notes = append(g.notes, *rec.Note)
		case rec.Window != nil:
			g.direct = append(g.direct, *rec.Window)
		case rec.InBand != nil:
			if _, known := g.inband[rec.InBand.Stream]; known || len(g.inband) < run.MaxSegments {
				g.inband[rec.InBand.Stream] = *rec.InBand
			}
		case rec.Line != nil:
			if err := g.line(rec.Line); err != nil {
				return nil, fmt.Errorf("read statements of %s: %w", r.Dir, err)
			}
		}
		if len(g.items) > maxItems {
			return nil, fmt.Errorf("read statements of %s: more than %d of them: no target made this run", r.Dir, maxItems)
		}
	}
	for _, d := range g.decoders {
		g.counts = add(g.counts, d.Counts())
	}
	slices.SortStableFunc(g.items, func(a, b item) int { return cmp.Compare(a.hostSeconds, b.hostSeconds) })
	return g.evidence, nil
}

func isDamage(err error) bool {
	var d *run.DamageError
	return errors.As(err, &d)
}

type gatherer struct {
	*evidence
	decoders map[string]*mark.Decoder
	asked    map[int64]mark.Op // what the host asked for, by w
	wins     map[int64]*stated // the latest of each w
	seen     map[identity]bool
	hello    mark.Hello
}

// line adds the statement of one line, if it has one that counts.
func (g *gatherer) line(l *run.Line) error {
	if c, err := mark.ParseCommand(l.Text); err == nil {
		if r, err := mark.ParseRun(c); err == nil {
			g.asked[r.W] = mark.Op{Alg: r.Alg, Op: r.Op}
		}
		return nil
	}
	d := g.decoders[l.Source]
	if d == nil {
		d = &mark.Decoder{}
		g.decoders[l.Source] = d
	}
	s, ok := d.Decode(l.Text)
	if !ok {
		return nil
	}
	it := item{hostSeconds: float64(l.HostNs) * 1e-9}
	var id identity
	switch s.Kind {
	case "hello":
		h, err := mark.ParseHello(s)
		if err != nil {
			return err
		}
		if g.hello.More {
			h = g.hello.Merge(h)
		}
		g.hello = h
		g.target = merge(g.target, h)
		it.hello = true
	case "sync":
		y, err := mark.ParseSync(s)
		if err != nil {
			return nil
		}
		it.sync, id = &y, identity{s.Kind, int64(y.Seq), y.Ticks, 0}
	case "win":
		w, err := mark.ParseWin(s)
		if err != nil {
			it.bad = unread(s, err)
			break
		}
		it.win, id = &stated{Win: w}, identity{s.Kind, w.W, w.T0, w.T1}
	case "lat":
		if y, err := mark.ParseLat(s); err == nil && g.wins[y.W] != nil {
			g.wins[y.W].lat = &y
		}
		return nil
	case "idle":
		i, err := mark.ParseIdle(s)
		if err != nil {
			return nil
		}
		it.idle, id = &i, identity{s.Kind, i.W, i.T0, i.T1}
	case "begin", "end":
		b, err := mark.ParseBound(s)
		if err != nil {
			return nil
		}
		it.bound = &b
	case "err":
		g.refusal(s)
		return nil
	default:
		return nil
	}
	if id.kind != "" {
		if g.seen[id] {
			return nil
		}
		g.seen[id] = true
	}
	if it.win != nil {
		g.wins[it.win.W] = it.win
	}
	g.items = append(g.items, it)
	return nil
}

// refusal notes a window that timed out: leaving it out would cut off the
// expensive tail of its operation.
func (g *gatherer) refusal(s mark.Statement) {
	a, err := mark.ParseAnswer(s)
	if err != nil || a.Cmd != "run" || a.Code != "timeout" || a.W == nil {
		return
	}
	if op, ok := g.asked[*a.W]; ok {
		g.voided[op] = fmt.Sprintf("window %d timed out", *a.W)
	}
}

// unread keeps what is readable of a win statement that cannot count.
func unread(s mark.Statement, err error) *badWin {
	w, _ := s.Int("w")
	alg, _ := s.Get("alg")
	op, _ := s.Get("op")
	return &badWin{w: w, alg: alg, op: op, reason: err.Error()}
}

func add(a, b mark.Counts) mark.Counts {
	a.Lines += b.Lines
	a.Statements += b.Statements
	a.Checked += b.Checked
	a.Unchecked += b.Unchecked
	a.Evidence += b.Evidence
	a.BadChecksum += b.BadChecksum
	a.Malformed += b.Malformed
	a.TooLong += b.TooLong
	return a
}

// merge adds what a target said of itself to what the run's own records say.
func merge(t run.Target, h mark.Hello) run.Target {
	text := func(to *string, v string) {
		if v != "" {
			*to = v
		}
	}
	text(&t.Name, h.Target)
	text(&t.CPU, h.CPU)
	text(&t.ISA, h.ISA)
	text(&t.Firmware, h.Firmware)
	text(&t.Impl, h.Impl)
	text(&t.ImplVersion, h.ImplVersion)
	text(&t.CC, h.CC)
	text(&t.CFlags, h.CFlags)
	if h.Bits != 0 {
		t.Bits = h.Bits
	}
	if h.TickBits != 0 {
		t.TickBits = h.TickBits
	}
	if h.ClockHz != 0 {
		t.ClockHz = h.ClockHz
	}
	if h.TickHz != 0 {
		t.TickHz = h.TickHz
	}
	return t
}
