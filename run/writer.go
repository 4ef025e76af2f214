package run

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Options of a Writer.
type Options struct {
	// Sync forces the data to the disk before each checkpoint and the
	// checkpoint after it, as a live recording needs. Without it the run is
	// synced once, at Close.
	Sync bool
}

// Writer records one run. Its methods may be called by several goroutines.
// After a failed write it refuses all others.
type Writer struct {
	dir     string
	o       Options
	resumed bool
	opening sync.Mutex // one stream at a time; taken before all others

	mu      sync.Mutex // guards what follows; taken after a Stream's
	log     *os.File
	err     error // why nothing more is written
	done    bool  // closed in order or abandoned
	streams map[string]*Stream
	created []string // files and folders, in the order of creation
}

// ErrClosed is the cause of a write after Close or Abandon.
var ErrClosed = errors.New("the run is closed")

// Create makes the folder dir, with its parents, and begins a run in it. An
// existing path is never touched: the error then wraps fs.ErrExist. The
// header's Schema is filled in.
func Create(dir string, h Header, o Options) (*Writer, error) {
	h.Schema = Schema
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("create run %s: %w", dir, err)
	}
	w := &Writer{dir: filepath.Clean(dir), o: o, streams: map[string]*Stream{}}
	if err := w.begin(h); err != nil {
		w.Abandon()
		return nil, fmt.Errorf("create run %s: %w", dir, err)
	}
	return w, nil
}

func (w *Writer) begin(h Header) error {
	if err := w.makeFolder(w.dir); err != nil {
		return err
	}
	log, err := w.createFile(LogName)
	if err != nil {
		return err
	}
	w.log = log
	if err := w.record("header", h); err != nil || !w.o.Sync {
		return err
	}
	return errors.Join(log.Sync(), syncFolder(filepath.Dir(w.dir)))
}

// makeFolder makes dir, which must not exist, and notes what it made.
func (w *Writer) makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := w.makeFolder(parent); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		err = os.Mkdir(dir, 0o777)
	}
	if err == nil {
		w.created = append(w.created, dir)
	}
	return err
}

// createFile makes a file that must not exist. Writes append.
func (w *Writer) createFile(name string) (*os.File, error) {
	path := filepath.Join(w.dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.created = append(w.created, path)
	w.mu.Unlock()
	if w.o.Sync {
		err = syncFolder(w.dir)
	}
	return f, err
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Resume opens an existing run for appending. Its streams go on in new
// segments and host_ns counts anew; what is on disk stays as it is.
func Resume(dir string, r Resumed, o Options) (*Writer, error) {
	old, err := Open(dir)
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, LogName), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("resume run: %w", err)
	}
	w := &Writer{dir: dir, o: o, resumed: true, log: log, streams: map[string]*Stream{}}
	for _, s := range old.Streams {
		last := s.Segments[len(s.Segments)-1].Segment
		w.streams[s.Stream] = &Stream{w: w, info: s.Info, segment: last, before: s.Rows, ended: true}
	}
	if err = endLine(log); err == nil {
		err = w.checked("resume", &r)
	}
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("resume run %s: %w", dir, err)
	}
	return w, nil
}

// endLine gives a torn last line an end, so that the next one starts a line.
func endLine(log *os.File) error {
	info, err := log.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := log.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = log.WriteString("\n")
	return err
}

// record appends one record, in one write.
func (w *Writer) record(kind string, v any) error {
	line, err := encodeLine(kind, v)
	if err != nil {
		return fmt.Errorf("record %s: %w", kind, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if _, err := w.log.Write(line); err != nil {
		w.err = fmt.Errorf("record %s: %w", kind, err)
	}
	return w.err
}

// failure returns why nothing more may be written, if so.
func (w *Writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// poison makes the writer refuse what follows a failed write, and returns err.
func (w *Writer) poison(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return err
}

func (w *Writer) stream(name string) *Stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[name]
}

// checked records v if its values are fit to be read back.
func (w *Writer) checked(kind string, v checker) error {
	if err := v.check(); err != nil {
		return fmt.Errorf("record %s: %w", kind, err)
	}
	return w.record(kind, v)
}

// Target records what is known of the target. Members that are empty say
// nothing; others override earlier ones.
func (w *Writer) Target(t Target) error { return w.checked("target", &t) }

// Env records the environment. A key overrides an earlier one.
func (w *Writer) Env(e map[string]string) error { return w.checked("env", &Env{e}) }

// Line records a line from the target.
func (w *Writer) Line(l Line) error { return w.checked("line", &l) }

// Edge records an edge on a pin.
func (w *Writer) Edge(e Edge) error { return w.checked("edge", &e) }

// Window records a window on the sample clock.
func (w *Writer) Window(v Window) error { return w.checked("window", &v) }

// InBand declares the column of a stream that holds the level of a pin.
func (w *Writer) InBand(v InBand) error { return w.checked("inband", &v) }

// Gap records that a stream lost samples.
func (w *Writer) Gap(g Gap) error { return w.checked("gap", &g) }

// Note records a remark.
func (w *Writer) Note(n Note) error { return w.checked("note", &n) }

// Close ends the run in order: it writes what is pending, the ends of the
// files and the closing record, and syncs everything to the disk. reason is
// one word, done or interrupted for instance.
func (w *Writer) Close(reason string, hostNs int64) error {
	if err := w.close(Close{HostNs: hostNs, Reason: reason, Rows: map[string]int64{}}); err != nil {
		return fmt.Errorf("close run %s: %w", w.dir, err)
	}
	return nil
}

func (w *Writer) close(c Close) error {
	w.opening.Lock()
	defer w.opening.Unlock()
	err := w.endStreams(c.Rows)
	if err == nil {
		err = w.checked("close", &c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, ErrClosed) {
		return ErrClosed
	}
	if err == nil {
		err = errors.Join(w.log.Sync(), syncFolder(w.dir))
	}
	err = errors.Join(err, w.log.Close())
	w.err, w.done = ErrClosed, err == nil
	return err
}

// endStreams ends all streams, in the order of their names, and adds up their
// rows.
func (w *Writer) endStreams(rows map[string]int64) error {
	w.mu.Lock()
	streams := maps.Clone(w.streams)
	w.mu.Unlock()
	var err error
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		s := streams[name]
		err = errors.Join(err, s.end())
		rows[name] = s.before + s.rows
	}
	return err
}

// Abandon removes what this writer created: the files, the folder, and parents
// of it that are empty. It may follow a Close that failed. A resumed run stays,
// without a closing record.
func (w *Writer) Abandon() error {
	if err := w.abandon(); err != nil {
		return fmt.Errorf("abandon run %s: %w", w.dir, err)
	}
	return nil
}

func (w *Writer) abandon() error {
	w.opening.Lock()
	defer w.opening.Unlock()
	w.poison(ErrClosed)
	w.endStreams(map[string]int64{}) // only closes the files
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return ErrClosed
	}
	w.err, w.done = ErrClosed, true
	if w.log != nil {
		w.log.Close()
	}
	if w.resumed {
		return nil
	}
	var err error
	for _, path := range slices.Backward(w.created) {
		if e := os.Remove(path); len(path) >= len(w.dir) { // not a parent
			err = errors.Join(err, e)
		}
	}
	return err
}
