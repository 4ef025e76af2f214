package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/joulemark/joulemark/internal/doctor"
	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/source"
)

// marksHelp lists the specs of mark sources.
const marksHelp = `Marks (--marks, may be repeated):
  uart:/dev/ttyUSB0,115200   lines over a serial port
  tcp:HOST:PORT              lines over a network connection
  exec:CMD                   lines that a program prints
  ssh:HOST CMD               lines that a program prints on another machine
  inband:dp                  a pin of the target wired to D+ (dn: D-) of a FNIRSI
                             meter, or to d0 .. d7 of a PPK2: high within a
                             window; ,active=low ,alg= ,op= ,n= may follow`

// defaultBaud is the rate of most boards' consoles.
const defaultBaud = 115200

// lineMarks is a mark source that is opened when the recording begins, and again
// after it was lost.
type lineMarks struct {
	name string
	open func(ctx context.Context) (meters.Port, error)
}

const (
	// appear is how long a port may take to appear at first, such as that of a
	// program that was just started.
	appear = 5 * time.Second
	// reopen is the time between attempts.
	reopen = 500 * time.Millisecond
)

func (m lineMarks) Name() string { return m.name }

// Watch hands lines over until ctx or the program behind them ends. A port that
// is lost is opened again.
func (m lineMarks) Watch(ctx context.Context, line func(hostNs int64, text []byte)) error {
	begun := time.Now()
	found := false
	for {
		p, err := m.open(ctx)
		if err == nil {
			found = true
			l := source.NewLines(m.name, p)
			err = errors.Join(l.Watch(ctx, line), l.Close())
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if err == nil || !errors.Is(err, meters.ErrUnplugged) {
				return err
			}
		} else if !found && (!errors.Is(err, fs.ErrNotExist) || time.Since(begun) > appear) {
			return &record.MeterError{Name: m.name, Err: err}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reopen):
		}
	}
}

// addMarks reads mark specs into the options of a recording.
func (l lab) addMarks(specs []string, o *record.Options) error {
	for _, spec := range specs {
		kind, place, ok := strings.Cut(spec, ":")
		if !ok || place == "" {
			return usage("--marks %q is not KIND:PLACE, such as uart:/dev/ttyUSB0,115200", spec)
		}
		if kind == "inband" {
			pin, err := run.ParseInBand(place)
			if err != nil {
				return usage("--marks: %w", err)
			}
			o.InBand = append(o.InBand, pin)
			continue
		}
		open, err := l.marks(kind, place, o.HostNs)
		if err != nil {
			return err
		}
		name := kind
		for n := 2; slices.ContainsFunc(o.Sources, func(s record.Source) bool { return s.Name() == name }); n++ {
			name = fmt.Sprintf("%s%d", kind, n)
		}
		o.Sources = append(o.Sources, record.Lines(lineMarks{name, open}))
	}
	return nil
}

// marks returns what opens a mark source.
func (l lab) marks(kind, place string, clock meters.HostClock) (func(context.Context) (meters.Port, error), error) {
	over := map[string]meters.Transport{"uart": meters.Serial, "tcp": meters.TCP, "exec": meters.Process, "ssh": meters.Process}[kind]
	i := slices.IndexFunc(l.ways, func(w way) bool { return w.transport == over && w.open != nil })
	if over == "" || i < 0 {
		return nil, usage("--marks: %q is none of uart, tcp, exec, ssh or inband", kind)
	}
	w, d := l.ways[i], meters.Driver{}
	switch kind {
	case "uart":
		path, rate, given := strings.Cut(place, ",")
		d.Baud = defaultBaud
		if given {
			baud, err := strconv.Atoi(rate)
			if err != nil || baud < 1 {
				return nil, usage("--marks uart:%s: %q is no baud rate", place, rate)
			}
			d.Baud = baud
		}
		place = path
	case "ssh":
		// Without a terminal there, lines come as they are printed.
		place = "ssh -T " + place
	}
	return func(ctx context.Context) (meters.Port, error) {
		if over == meters.Serial {
			if err := l.refuseMeter(w, place); err != nil {
				return nil, err
			}
		}
		return w.open(ctx, place, d, clock)
	}, nil
}

// refuseMeter refuses a serial port that belongs to a meter.
func (l lab) refuseMeter(w way, path string) error {
	ports, err := w.find(l.host(nil))
	if err != nil {
		return nil // opening will tell
	}
	for _, p := range ports {
		if _, model, ok := doctor.Owner(p, l.drivers); ok && p.Path == path {
			return &meters.Problem{Err: fmt.Errorf("open %s: it belongs to a meter (%s)", path, model), Hint: "'joulemark doctor' says which ports may be the target's"}
		}
	}
	return nil
}
