// Package polled is the loop of meters that say something only when they are
// asked: counters and sensors in files of the kernel, instruments that answer
// requests. They have no clock of their own. Each sample is stamped by the host
// clock right after the read, so that marks and samples share a clock, and a
// stream has no rate.
package polled

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Reading is what one question brought.
type Reading struct {
	// Values are in the order of the meter's columns; nil where there is no
	// sample in it.
	Values []float64
	// SampleNs is the host time of the sample: that of its reading, or the
	// beginning of the time that it is a mean of.
	SampleNs int64
	// ArrivalNs is the host time right after the read.
	ArrivalNs int64
	Raw       []byte // the answer as received, damaged or not; nil for files
	// Identity, if not nil, completes what is known of the meter.
	Identity func(*meters.Info)
}

// Source is what is asked. It is used by one goroutine.
type Source interface {
	// Ask asks once. It ends within some seconds, and a fifth of one after ctx
	// has ended. An error that wraps one of the causes below is worth
	// another try; any other is final.
	Ask(ctx context.Context) (Reading, error)
	// HostNs reads the host clock.
	HostNs() int64
	// Wait returns when the host clock shows untilNs, or with an error: that of
	// ctx, or a final one.
	Wait(ctx context.Context, untilNs int64) error
	Close() error
}

// Causes of an answer without a sample.
var (
	ErrDamaged    = errors.New("the answer is damaged")
	ErrUnanswered = errors.New("it does not answer")
	ErrUnread     = errors.New("it cannot be read")
	// ErrNothingNew is not counted: the meter is right, but has nothing to say.
	ErrNothingNew = errors.New("it says nothing new")
)

// Codes of notices.
const (
	Unanswered = "unanswered" // requests that were not answered
	Unread     = "unread"     // files that could not be read
)

// giveUpNs is how long a meter may yield no sample, host ns.
const giveUpNs = 5 * int64(time.Second)

// Meter asks a source again and again.
type Meter struct {
	source  Source
	notify  func(meters.Notice)
	everyNs int64

	mu     sync.Mutex // guards info
	info   meters.Info
	baseNs int64 // host ns that TimesNs count from

	first   []meters.Notice
	begun   bool // there has been a sample
	misses  map[error]int64
	closed  bool
	lastNs  int64 // host ns of the last sample, or of the start
	sample  meters.Block
	unknown []float64
}

// New returns a meter that asks source every so often. It completes the info:
// the host clock stamps, and the samples' times count from now.
func New(source Source, info meters.Info, every time.Duration, notify func(meters.Notice)) *Meter {
	info.Clock, info.RateHz, info.PacketSamples = meters.Shared, 0, 1
	info.FirstHostNs = source.HostNs()
	m := &Meter{source: source, notify: notify, everyNs: int64(every), info: info, baseNs: info.FirstHostNs, misses: map[error]int64{}}
	for range info.Columns {
		m.sample.Values = append(m.sample.Values, make([]float64, 1))
		m.unknown = append(m.unknown, math.NaN())
	}
	m.sample.TimesNs = make([]int64, 1)
	return m
}

// Info describes the meter.
func (m *Meter) Info() meters.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.info
}

// First has notices told when the stream begins, before its first block.
func (m *Meter) First(notices ...meters.Notice) { m.first = append(m.first, notices...) }

func (m *Meter) tell(hostNs int64, n meters.Notice) {
	if m.notify != nil {
		n.HostNs = hostNs
		m.notify(n)
	}
}

// Stream asks until ctx ends. It fails with meters.ErrNoSamples where five
// seconds bring no sample, and with the source's error where that is final.
func (m *Meter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	defer m.conclude()
	dueNs := m.source.HostNs()
	m.lastNs = dueNs
	for _, n := range m.first {
		m.tell(dueNs, n)
	}
	for ctx.Err() == nil {
		if err := m.ask(ctx, emit); err != nil {
			return err
		}
		// A source that takes longer is asked again at once.
		dueNs = max(dueNs+m.everyNs, m.source.HostNs())
		if err := m.source.Wait(ctx, dueNs); err != nil && ctx.Err() == nil {
			return m.fail(err)
		}
	}
	return nil
}

func (m *Meter) fail(err error) error { return fmt.Errorf("read %s: %w", m.name(), err) }

func (m *Meter) name() string {
	i := m.Info()
	if i.Model != "" {
		return i.Model
	}
	return i.Driver
}

// ask asks once and emits what that brings.
func (m *Meter) ask(ctx context.Context, emit func(meters.Block) error) error {
	r, err := m.source.Ask(ctx)
	if ctx.Err() != nil && err != nil {
		return nil
	}
	if r.Identity != nil {
		m.mu.Lock()
		r.Identity(&m.info)
		m.mu.Unlock()
	}
	if err == nil {
		if r.Values != nil {
			m.begun, m.lastNs = true, r.ArrivalNs
		}
		return m.emit(emit, r)
	}
	cause := causeOf(err)
	if cause == nil {
		return m.fail(err)
	}
	m.misses[cause]++
	if m.source.HostNs()-m.lastNs >= max(giveUpNs, 3*m.everyNs) {
		return m.fail(fmt.Errorf("%w: %w", meters.ErrNoSamples, err))
	}
	if !m.begun {
		return nil
	}
	if r.ArrivalNs > 0 && cause != ErrNothingNew && cause != ErrUnread {
		r.Values, r.SampleNs = m.unknown, r.ArrivalNs
	}
	return m.emit(emit, r)
}

func causeOf(err error) error {
	for _, cause := range []error{ErrDamaged, ErrUnanswered, ErrUnread, ErrNothingNew} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return nil
}

// emit hands one reading over; one without sample and answer says nothing.
func (m *Meter) emit(emit func(meters.Block) error, r Reading) error {
	if r.Values == nil {
		return nil
	}
	for i, v := range r.Values {
		m.sample.Values[i][0] = v
	}
	m.sample.ArrivalNs, m.sample.Raw = r.ArrivalNs, r.Raw
	m.sample.TimesNs[0] = max(r.SampleNs-m.baseNs, m.sample.TimesNs[0])
	return emit(m.sample)
}

// conclude tells what was counted.
func (m *Meter) conclude() {
	now := m.source.HostNs()
	for _, n := range []meters.Notice{
		{Code: meters.BadPackets, Count: m.misses[ErrDamaged], Text: "answers of the %s were damaged; their samples count as not measured"},
		{Code: Unanswered, Count: m.misses[ErrUnanswered], Text: "requests to the %s were not answered; their samples count as not measured"},
		{Code: Unread, Count: m.misses[ErrUnread], Text: "times the %s could not be read"},
	} {
		if n.Count > 0 {
			n.Text = fmt.Sprintf("%d "+n.Text, n.Count, m.name())
			m.tell(now, n)
		}
	}
}

// Close closes the source. It is for the time after Stream has returned.
func (m *Meter) Close() error {
	if m.closed {
		return nil
	}
	m.closed = true
	if err := m.source.Close(); err != nil {
		return fmt.Errorf("close %s: %w", m.name(), err)
	}
	return nil
}
