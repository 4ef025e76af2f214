package meterstest

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// File is what a file holds at a host time; an error is that of opening it.
type File func(hostNs int64) (string, error)

// Text is a file that does not change.
func Text(s string) File { return func(int64) (string, error) { return s, nil } }

// Refused is a file that cannot be opened.
func Refused(err error) File { return func(int64) (string, error) { return "", err } }

// Host is a machine whose files change in virtual time.
type Host struct {
	Files map[string]File
	// Links are symbolic links, with their targets.
	Links map[string]string
	// OpenNs is how long opening a file takes, host ns.
	OpenNs int64
	// Late, if not nil, draws how late a wait ends, host ns.
	Late func() int64
	// Passed, if not nil, is told the host time after each wait.
	Passed func(hostNs int64)

	hostNs int64
}

var _ meters.Host = (*Host)(nil)

// Open opens a file as it is now, or a folder of files and links.
func (h *Host) Open(name string) (fs.File, error) {
	f, ok := h.Files[name]
	if !ok {
		return h.tree().Open(name)
	}
	text, err := f(h.hostNs)
	h.hostNs += h.OpenNs
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
}

func (h *Host) tree() fstest.MapFS {
	tree := fstest.MapFS{}
	for name := range h.Files {
		tree[name] = &fstest.MapFile{}
	}
	for name, target := range h.Links {
		tree[name] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
	}
	return tree
}

// ReadLink returns the target of a link.
func (h *Host) ReadLink(name string) (string, error) { return h.tree().ReadLink(name) }

// Lstat describes a file or link.
func (h *Host) Lstat(name string) (fs.FileInfo, error) { return h.tree().Lstat(name) }

// HostNs reads the virtual clock.
func (h *Host) HostNs() int64 { return h.hostNs }

// Wait moves the virtual clock on.
func (h *Host) Wait(ctx context.Context, untilNs int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.Late != nil {
		untilNs += h.Late()
	}
	h.hostNs = max(h.hostNs, untilNs)
	if h.Passed != nil {
		h.Passed(h.hostNs)
	}
	return ctx.Err()
}

// HostSuite is one driver of a meter made of files, under test.
type HostSuite struct {
	Driver  meters.Driver
	Options meters.Options
	// Host makes the machine, always the same. Its meter must work from 0 on.
	Host func() *Host
	// Values are the files without which there is no sample.
	Values []string
	// Seconds is how long to stream; 0 is two seconds.
	Seconds float64
	// Watts is the power that all samples must show within Tolerance, W, since
	// the machine's power is constant.
	Watts, Tolerance float64
}

// Run runs all tests as subtests of t.
func (s HostSuite) Run(t *testing.T) {
	t.Run("finds", s.finds)
	t.Run("decodes", s.decodes)
	t.Run("stops", s.stops)
	t.Run("denied", s.denied)
	for _, name := range s.Values {
		t.Run("damaged/"+name, func(t *testing.T) { s.damaged(t, name) })
	}
}

func (s HostSuite) untilNs() int64 {
	if s.Seconds == 0 {
		return 2 * int64(time.Second)
	}
	return int64(s.Seconds * 1e9)
}

// stream streams from h until the host clock shows untilNs.
func (s HostSuite) stream(t *testing.T, h *Host, untilNs int64) (r recording, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h.Passed = func(hostNs int64) {
		if hostNs >= untilNs {
			cancel()
		}
	}
	o := s.Options
	o.Notify = func(n meters.Notice) { r.notices = append(r.notices, n) }
	m, err := s.Driver.OpenHost(ctx, h, o)
	if err != nil {
		t.Fatal(err)
	}
	r.info = m.Info()
	if r.info.Clock != meters.Shared || r.info.RateHz != 0 {
		t.Errorf("a polled meter has the host's clock and no rate, not %+v", r.info)
	}
	lastNs := int64(math.MinInt64)
	err = m.Stream(ctx, func(b meters.Block) error {
		r.add(t, b)
		if len(b.TimesNs) != b.Len() || b.TimesNs[0] < lastNs || b.ArrivalNs > h.hostNs || r.info.FirstHostNs+b.TimesNs[0] > b.ArrivalNs {
			t.Fatalf("sample times %d after %d ns, arrival %d ns at %d ns", b.TimesNs, lastNs, b.ArrivalNs, h.hostNs)
		}
		lastNs = b.TimesNs[len(b.TimesNs)-1]
		return nil
	})
	r.returned = h.hostNs
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	return r, err
}

// power returns the watts of a row; NaN where it holds none.
func (r recording) power(row []float64) float64 {
	at := func(column string) (float64, bool) {
		i := slices.Index(r.info.Columns, column)
		if i < 0 {
			return 0, false
		}
		return row[i], true
	}
	v, hasVolts := at(meters.Volts)
	a, hasAmps := at(meters.Amps)
	if hasVolts && hasAmps {
		return v * a
	}
	w, _ := at(meters.Watts)
	return w
}

// right: no sample shows anything but the machine's power. It returns how many
// show it.
func (s HostSuite) right(t *testing.T, r recording) (n int) {
	t.Helper()
	for i, row := range r.rows {
		w := r.power(row)
		if math.IsNaN(w) {
			continue
		}
		n++
		if math.Abs(w-s.Watts) > s.Tolerance {
			t.Fatalf("sample %d shows %g W, want %g", i, w, s.Watts)
		}
	}
	return n
}

func (s HostSuite) finds(t *testing.T) {
	found := s.Driver.Find(s.Host())
	if len(found) == 0 {
		t.Fatal("nothing is found")
	}
	for _, f := range found {
		if f.Problem != nil || f.Driver != s.Driver.Name || !strings.HasPrefix(f.Spec, s.Driver.Name) {
			t.Errorf("found %+v", f)
		}
		if _, err := meters.ParseSpec(f.Spec); err != nil {
			t.Error(err)
		}
	}
	if found := s.Driver.Find(&Host{}); len(found) != 0 {
		t.Errorf("found %+v on a machine without files", found)
	}
	if _, err := s.Driver.OpenHost(context.Background(), &Host{}, s.Options); err == nil {
		t.Error("a meter was opened on a machine without files")
	}
}

func (s HostSuite) decodes(t *testing.T) {
	r, err := s.stream(t, s.Host(), s.untilNs())
	if err != nil {
		t.Fatal(err)
	}
	if n := s.right(t, r); n < 3 || n != len(r.rows) {
		t.Errorf("%d of %d samples hold power", n, len(r.rows))
	}
}

// stops: the stream ends within a second of its context.
func (s HostSuite) stops(t *testing.T) {
	h := s.Host()
	r, err := s.stream(t, h, s.untilNs()/2)
	if err != nil {
		t.Fatal(err)
	}
	if late := r.returned - s.untilNs()/2; late > int64(time.Second) {
		t.Errorf("the stream ended %d ns after its context", late)
	}
}

// denied: a file that may not be read is said to be one, with a hint, and never
// is a power of 0.
func (s HostSuite) denied(t *testing.T) {
	for _, name := range s.Values {
		h := s.Host()
		h.Files[name] = Refused(fs.ErrPermission)
		m, err := s.Driver.OpenHost(context.Background(), h, s.Options)
		if err == nil {
			m.Close()
			t.Errorf("%s: a meter was opened that cannot be read", name)
			continue
		}
		if !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// damaged: whatever a file holds for a while, no sample is wrong, and those
// after it are right. If it stays so, the stream ends with an error.
func (s HostSuite) damaged(t *testing.T, name string) {
	seed := uint64(time.Now().UnixNano())
	draws := rand.New(rand.NewPCG(seed, 0))
	junk := make([]byte, 20)
	for i := range junk {
		junk[i] = byte(draws.Uint32())
	}
	bad := map[string]File{
		"unreadable": Refused(fmt.Errorf("input/output error")),
		"gone":       Refused(fs.ErrNotExist),
		"random":     Text(string(junk)),
		"long":       Text(strings.Repeat("1", 5000)),
	}
	for _, text := range []string{"", "\n", "-", "x", "NaN", "1e9", "0x10", "99999999999999999999", "9223372036854775807", "-9223372036854775808", "1 2"} {
		bad[fmt.Sprintf("%q", text)] = Text(text)
	}
	from := s.untilNs() / 4
	to := from + min(from, 3*int64(time.Second)) // less than a driver waits
	for what, wrong := range bad {
		h := s.Host()
		good := h.Files[name]
		h.Files[name] = func(hostNs int64) (string, error) {
			if hostNs > from && hostNs < to {
				return wrong(hostNs)
			}
			return good(hostNs)
		}
		r, err := s.stream(t, h, s.untilNs())
		if err != nil {
			t.Fatalf("%s, seed %d: %v", what, seed, err)
		}
		if n := s.right(t, r); n < 3 || math.IsNaN(r.power(r.rows[len(r.rows)-1])) {
			t.Errorf("%s, seed %d: %d right samples", what, seed, n)
		}
		if len(r.notices) == 0 {
			t.Errorf("%s, seed %d: nothing is said of it", what, seed)
		}

		h = s.Host()
		good = h.Files[name]
		h.Files[name] = func(hostNs int64) (string, error) {
			if hostNs > from {
				return wrong(hostNs)
			}
			return good(hostNs)
		}
		r, err = s.stream(t, h, from+60*int64(time.Second))
		if err == nil {
			t.Errorf("%s, seed %d: a stream without samples goes on", what, seed)
		}
		s.right(t, r)
	}
}
