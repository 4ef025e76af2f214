package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// Meter is one meter to be recorded.
type Meter struct {
	Name string // of its stream in the run
	// Open opens the meter, also again after it was lost. notify is for its
	// notices.
	Open func(ctx context.Context, notify func(meters.Notice)) (meters.Meter, error)
	// What is known of this very meter; nil where nothing is. It is copied
	// into the run.
	Calibration      *meters.Calibration
	Characterisation *meters.Characterisation
}

// Marks takes what a mark source receives, with host times in ns since the
// run's start. The text of a line may be used again afterwards.
type Marks interface {
	Line(run.Line)
	Edge(run.Edge)
	Note(run.Note)
}

// Source is where marks come from.
type Source interface {
	Name() string
	// Watch hands over what arrives until ctx ends, which is no error, and
	// then returns within a second. Handing over does not wait.
	Watch(ctx context.Context, to Marks) error
}

// LineWatcher is a source of lines that knows nothing of runs.
type LineWatcher interface {
	Name() string
	Watch(ctx context.Context, line func(hostNs int64, text []byte)) error
}

// Lines makes a Source of it.
func Lines(w LineWatcher) Source { return lineSource{w} }

type lineSource struct{ LineWatcher }

func (s lineSource) Watch(ctx context.Context, to Marks) error {
	return s.LineWatcher.Watch(ctx, func(hostNs int64, text []byte) {
		to.Line(run.Line{HostNs: hostNs, Source: s.Name(), Text: text})
	})
}

// Listener is a meter that hears its target, too, as a simulated one does.
type Listener interface {
	meters.Meter
	// Listen says where marks go. It is called before Stream.
	Listen(to Marks)
}

// Options say what to record, where and for how long.
type Options struct {
	Dir    string // of the run, which must not exist
	Header run.Header
	Env    map[string]string
	Notes  []string // remarks of the person who records

	HostNs  meters.HostClock
	Meters  []Meter
	Sources []Source
	// InBand declares pins that the meters record; each belongs to the first
	// meter with its column.
	InBand []run.InBand
	// Work, if not nil, is what is measured: it begins when the run does, and
	// the recording ends with it. Its error is that of the recording.
	Work func(ctx context.Context, to Marks) error

	// For is how long to record, by the host clock from the moment that all
	// meters send; 0: until something else ends the recording.
	For time.Duration
	// Until is the wall-clock time at which the recording ends; zero: none.
	Until time.Time
	// Absence is how long a meter may be lost before the recording ends; a
	// minute if 0.
	Absence time.Duration
	// QueueBytes bounds what waits for the disk, shared out among the meters;
	// 128 MiB if 0, four seconds of a meter of 2 million samples a second.
	QueueBytes int64
}

const (
	absence    = time.Minute
	queueBytes = 128 << 20
	patience   = 30 * time.Second // for the first samples of all meters; meters that update every half minute are the slowest
	retryEvery = time.Second
	// writeEvery is how long a few bytes may wait for the writer: each time it
	// wakes costs a slow meter more than what it writes.
	writeEvery = 100 * time.Millisecond
	flushEvery = 5 // of these times
)

// MeterError says that a meter or mark source cannot be used, or no longer.
type MeterError struct {
	Name string
	Err  error
}

func (e *MeterError) Error() string { return fmt.Sprintf("record %s: %v", e.Name, e.Err) }
func (e *MeterError) Unwrap() error { return e.Err }

// Snapshot is the state of a recording.
type Snapshot struct {
	Recording bool // the run exists
	Seconds   float64
	Bytes     int64 // on disk
	Queued    int64 // bytes that wait for the disk
	Lines     int64
	Edges     int64
	Meters    []Status
}

// Result is what a recording has become.
type Result struct {
	Snapshot
	Run    string // its folder; "" where nothing was recorded
	Reason string // why it ended, as the run says
}

// Reasons why a recording ends, as its closing record says.
const (
	Done        = "done"
	Interrupted = "interrupted"
	Failed      = "failed"
)

var errDone = errors.New("done")

// Recorder records one run.
type Recorder struct {
	o      Options
	queue  *queue
	inputs []*input
	stop   context.CancelCauseFunc

	waiting atomic.Int64  // meters that have not sent anything
	ready   chan struct{} // closed when all have
	running atomic.Int64  // meters that stream

	beganNs, endedNs    atomic.Int64 // host ns; -1: not yet
	lines, edges, spilt atomic.Int64 // marks; those that were not recorded
}

// New makes a recorder. It fails if the options make no sense.
func New(o Options) (*Recorder, error) {
	if o.Absence == 0 {
		o.Absence = absence
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = queueBytes
	}
	if len(o.Meters) == 0 {
		return nil, errors.New("record: no meter")
	}
	r := &Recorder{o: o, queue: newQueue(o.QueueBytes / int64(len(o.Meters))), ready: make(chan struct{})}
	var names []string
	for _, m := range o.Meters {
		if slices.Contains(names, m.Name) {
			return nil, fmt.Errorf("record: two meters are named %q: name one NAME=SPEC", m.Name)
		}
		names = append(names, m.Name)
		r.inputs = append(r.inputs, newInput(r, m))
	}
	r.waiting.Store(int64(len(r.inputs)))
	r.running.Store(int64(len(r.inputs)))
	r.beganNs.Store(-1)
	r.endedNs.Store(-1)
	return r, nil
}

// Run records until ctx ends, the time is over, all meters have ended, or
// something fails. The run is made when all meters have sent valid samples, so
// that a meter that never sends leaves nothing behind; later failures leave a
// run that is whole up to there. The error is that of ctx where it ended the
// recording, a *MeterError where a meter cannot be used, or that of the disk.
func (r *Recorder) Run(ctx context.Context) (Result, error) {
	streaming, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	if !r.o.Until.IsZero() {
		defer time.AfterFunc(time.Until(r.o.Until), func() { stop(errDone) }).Stop()
	}
	var all sync.WaitGroup
	for _, in := range r.inputs {
		all.Go(func() { in.run(streaming) })
	}
	for _, s := range r.o.Sources {
		all.Go(func() { r.watch(streaming, s) })
	}
	go func() {
		all.Wait()
		r.queue.end()
	}()
	result, err := r.record(streaming)
	var closing sync.WaitGroup
	for _, in := range r.inputs {
		closing.Go(in.close)
	}
	closing.Wait()
	return result, err
}

// record waits for the meters, writes the run, and returns when it is closed.
func (r *Recorder) record(ctx context.Context) (Result, error) {
	if err := r.await(ctx); err != nil {
		r.drain()
		return Result{Reason: Failed, Snapshot: r.Snapshot()}, err
	}
	w, err := r.create()
	if err != nil {
		r.stop(err)
		r.drain()
		return Result{Reason: Failed, Snapshot: r.Snapshot()}, err
	}
	if r.o.For > 0 {
		defer time.AfterFunc(r.o.For, func() { r.stop(errDone) }).Stop()
	}
	if r.o.Work != nil {
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			if err := r.o.Work(ctx, r); err != nil {
				r.stop(err)
			}
			r.stop(errDone)
		}()
	}
	if err := r.write(w); err != nil {
		return r.broken(w, err)
	}
	return r.close(ctx, w)
}

// await returns when all meters have sent samples.
func (r *Recorder) await(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-r.ready:
		return nil
	case <-late.C:
	case <-ctx.Done():
		select {
		case <-r.ready: // at the same time
			return nil
		default:
		}
	}
	err := context.Cause(ctx)
	if err == nil || errors.Is(err, errDone) {
		err = r.silence()
	}
	r.stop(err)
	return err
}

// silence says which meter has sent nothing.
func (r *Recorder) silence() error {
	for _, in := range r.inputs {
		if !in.valid.Load() {
			return &MeterError{in.Name, meters.ErrNoSamples}
		}
	}
	return errDone
}

// drain passes over what the meters still send.
func (r *Recorder) drain() {
	for {
		items, ended := r.queue.take(nil)
		for _, i := range items {
			r.queue.done(i)
		}
		if ended {
			return
		}
		<-r.queue.wake
	}
}

// create makes the run, and begins to count its time.
func (r *Recorder) create() (*run.Writer, error) {
	h := r.o.Header
	var infos []meters.Info
	for _, in := range r.inputs {
		infos = append(infos, in.gauge.read(0).Info)
		h.Simulated = h.Simulated || infos[len(infos)-1].Simulated
	}
	pins, err := place(r.o.InBand, infos)
	if err != nil {
		return nil, err
	}
	w, err := run.Create(r.o.Dir, h, run.Options{Sync: true})
	if err != nil {
		return nil, err
	}
	now := r.o.HostNs()
	if len(r.o.Env) > 0 {
		err = w.Env(r.o.Env)
	}
	for _, pin := range pins {
		err = errors.Join(err, w.InBand(pin))
	}
	for _, text := range r.o.Notes {
		err = errors.Join(err, w.Note(run.Note{HostNs: now, Code: Remark, Text: text}))
	}
	if err != nil {
		return nil, errors.Join(err, w.Abandon())
	}
	for _, in := range r.inputs {
		in.to = NewStream(w)
		in.track = NewTrack(in.to)
	}
	r.beganNs.Store(now)
	return w, nil
}

// place finds the stream of each pin: the first with its column.
func place(pins []run.InBand, of []meters.Info) ([]run.InBand, error) {
	pins = slices.Clone(pins)
	for i := range pins {
		at := slices.IndexFunc(of, func(info meters.Info) bool { return slices.Contains(info.Columns, pins[i].Column) })
		if at < 0 {
			return nil, &meters.Problem{Err: fmt.Errorf("record: no meter has a column %s for in-band marks", pins[i].Column),
				Hint: "dp and dn are those of a FNIRSI meter, d0 to d7 those of a PPK2"}
		}
		pins[i].Stream = of[at].Stream
	}
	return pins, nil
}

// write writes what comes until it ends or the disk fails.
func (r *Recorder) write(w *run.Writer) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var items []item
	for ticks, ended := 0, false; !ended; {
		select {
		case <-r.queue.wake:
		case <-tick.C:
			ticks++
		}
		items, ended = r.queue.take(items)
		for k, i := range items {
			err := i.write(w)
			r.queue.done(i)
			items[k] = item{}
			if err != nil {
				return err
			}
		}
		if ticks == flushEvery {
			ticks = 0
			if err := r.flushSilent(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushSilent puts on disk what is pending of meters that have fallen silent.
func (r *Recorder) flushSilent() error {
	for _, in := range r.inputs {
		if err := in.to.flushSilent(); err != nil {
			return err
		}
	}
	return nil
}

// close ends the run in order.
func (r *Recorder) close(ctx context.Context, w *run.Writer) (Result, error) {
	now := r.o.HostNs()
	r.endedNs.Store(now)
	cause := context.Cause(ctx)
	reason := Failed
	var lost *MeterError
	switch {
	case cause == nil || errors.Is(cause, errDone):
		reason, cause = Done, nil
	case errors.As(cause, &lost):
		reason = MeterLost
	case errors.Is(cause, context.Canceled):
		reason = Interrupted
	}
	var err error
	if n := r.spilt.Load(); n > 0 {
		err = w.Note(run.Note{HostNs: now, Code: MarksLost, Count: n, Warn: true,
			Text: fmt.Sprintf("%d lines, edges or remarks were not recorded: they came faster than the disk takes them", n)})
	}
	if err == nil {
		err = w.Close(reason, now)
	}
	if err != nil {
		return r.broken(w, err)
	}
	return r.result(reason), cause
}

// broken ends a recording that the disk, or the run, does not take: what was
// written stays, if it holds samples.
func (r *Recorder) broken(w *run.Writer, err error) (Result, error) {
	r.endedNs.CompareAndSwap(-1, r.o.HostNs())
	r.stop(err)
	r.drain()
	old, unread := run.Open(r.o.Dir)
	if unread == nil && !slices.ContainsFunc(old.Streams, func(s run.StreamInfo) bool { return s.Rows > 0 }) {
		return Result{Reason: Failed, Snapshot: r.Snapshot()}, errors.Join(err, w.Abandon())
	}
	w.Close(Failed, r.o.HostNs()) // a disk that is full fails again, but the files are closed
	return r.result(Failed), err
}

func (r *Recorder) result(reason string) Result {
	return Result{Snapshot: r.Snapshot(), Run: r.o.Dir, Reason: reason}
}

// Snapshot returns the state of the recording. It may be called at any time,
// by any goroutine.
func (r *Recorder) Snapshot() Snapshot {
	now := r.o.HostNs()
	s := Snapshot{Lines: r.lines.Load(), Edges: r.edges.Load()}
	for _, in := range r.inputs {
		s.Meters = append(s.Meters, in.gauge.read(now))
	}
	if began := r.beganNs.Load(); began >= 0 {
		if ended := r.endedNs.Load(); ended >= 0 {
			now = ended
		}
		s.Recording, s.Seconds, s.Bytes = true, float64(now-began)*1e-9, folderBytes(r.o.Dir)
	}
	s.Queued = r.queue.size()
	return s
}

// folderBytes is what the files of a folder hold.
func folderBytes(dir string) (n int64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, f := range files {
		if info, err := os.Lstat(filepath.Join(dir, f.Name())); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
	}
	return n
}

// Line takes a line of the target.
func (r *Recorder) Line(l run.Line) {
	l.Text = slices.Clone(l.Text)
	r.mark(&r.lines, int64(len(l.Text)), func(w *run.Writer) error { return w.Line(l) })
}

// Edge takes an edge.
func (r *Recorder) Edge(e run.Edge) {
	r.mark(&r.edges, 0, func(w *run.Writer) error { return w.Edge(e) })
}

// Note takes a remark about marks.
func (r *Recorder) Note(n run.Note) {
	r.queue.put(item{write: func(w *run.Writer) error { return w.Note(n) }})
}

func (r *Recorder) mark(count *atomic.Int64, bytes int64, write func(*run.Writer) error) {
	if r.queue.put(item{write: write, bytes: bytes}) {
		count.Add(1)
	} else {
		r.spilt.Add(1)
	}
}

// watch takes the marks of one source. One that fails before the recording has
// begun, or was never to be had (a *MeterError), ends it; later, the meters go
// on.
func (r *Recorder) watch(ctx context.Context, s Source) {
	err := s.Watch(ctx, r)
	if err == nil || ctx.Err() != nil {
		return
	}
	var unusable *MeterError
	switch {
	case errors.As(err, &unusable): // it was never there
		r.stop(unusable)
		return
	case r.beganNs.Load() < 0:
		r.stop(&MeterError{s.Name(), err})
		return
	}
	n := run.Note{HostNs: r.o.HostNs(), Code: MarksLost, Warn: true, Text: fmt.Sprintf("the mark source %s failed: %v", s.Name(), err)}
	r.queue.put(item{write: func(w *run.Writer) error { return w.Note(n) }})
}
