package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
)

// says is a port that hands over one text and then fails.
type says struct {
	text string
	end  error
}

func (p *says) Read(b []byte, _ int64) (int, int64, error) {
	if p.text == "" {
		return 0, 0, p.end
	}
	n := copy(b, p.text)
	p.text = p.text[n:]
	return n, 0, nil
}
func (p *says) Write([]byte) error { return nil }
func (p *says) HostNs() int64      { return 0 }
func (p *says) Close() error       { return nil }

// A source of lines is waited for, opened again after it was unplugged, and
// over when its program is.
func TestLineMarks(t *testing.T) {
	missing := fmt.Errorf("open it: %w", fs.ErrNotExist)
	for _, c := range []struct {
		what  string
		opens []any // an error, or a port
		lines string
		want  error
	}{
		{"a program", []any{&says{"one\ntwo\n", io.EOF}}, "one two", nil},
		{"appears late", []any{missing, missing, &says{"one\n", io.EOF}}, "one", nil},
		{"never appears", []any{missing}, "", fs.ErrNotExist},
		{"is refused", []any{os.ErrPermission}, "", os.ErrPermission},
		{"is replugged", []any{&says{"one\ntw", meters.ErrUnplugged}, missing, os.ErrPermission, &says{"three\n", io.EOF}}, "one tw three", nil},
		{"fails", []any{&says{"one\n", io.ErrUnexpectedEOF}}, "one", io.ErrUnexpectedEOF},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				m := lineMarks{"uart", func(context.Context) (meters.Port, error) {
					x := c.opens[min(n, len(c.opens)-1)]
					n++
					if err, ok := x.(error); ok {
						return nil, err
					}
					return x.(meters.Port), nil
				}}
				var lines []string
				err := m.Watch(t.Context(), func(_ int64, text []byte) { lines = append(lines, string(text)) })
				if !errors.Is(err, c.want) || strings.Join(lines, " ") != c.lines {
					t.Errorf("lines %q, %v", lines, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := lineMarks{"uart", func(context.Context) (meters.Port, error) { return nil, missing }}
		if err := m.Watch(ctx, nil); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestMarkSpecs(t *testing.T) {
	var opened []string
	l := fakeLab(nil, []meters.Device{{Path: "/dev/ttyACM0", USB: meters.USBID{Vendor: 1, Product: 2}}})
	for i := range l.ways {
		name := string(l.ways[i].transport)
		if l.ways[i].open != nil {
			l.ways[i].open = func(_ context.Context, place string, d meters.Driver, _ meters.HostClock) (meters.Port, error) {
				opened = append(opened, fmt.Sprintf("%s %s %d", name, place, d.Baud))
				return &says{"", io.EOF}, nil
			}
		}
	}
	l.ways = append(l.ways, way{transport: meters.Process, open: l.ways[3].open})
	var o record.Options
	specs := []string{"uart:/dev/ttyUSB0", "uart:/dev/ttyUSB1,9600", "tcp:board:4000", "ssh:pi@lab ./run -x", "inband:dp,alg=x"}
	if err := l.addMarks(specs, &o); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range o.Sources {
		names = append(names, s.Name())
		if err := s.Watch(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"uart", "uart2", "tcp", "ssh"}; !slices.Equal(names, want) {
		t.Errorf("sources are %v", names)
	}
	want := []string{"serial /dev/ttyUSB0 115200", "serial /dev/ttyUSB1 9600", "tcp board:4000 0", "tcp ssh -T pi@lab ./run -x 0"}
	if !slices.Equal(opened, want) || len(o.InBand) != 1 || o.InBand[0].Alg != "x" {
		t.Errorf("opened %q, in-band %v", opened, o.InBand)
	}
	// The serial port of a meter is no target's.
	o = record.Options{}
	if err := l.addMarks([]string{"uart:/dev/ttyACM0"}, &o); err != nil {
		t.Fatal(err)
	}
	if err := o.Sources[0].Watch(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "belongs to a meter (A1)") {
		t.Errorf("a meter's own port: %v", err)
	}
	for spec, want := range map[string]string{
		"uart":                "is not KIND:PLACE",
		"uart:":               "is not KIND:PLACE",
		"uart:/dev/x,fast":    `"fast" is no baud rate`,
		"lamp:x":              `"lamp" is none of uart, tcp, exec, ssh or inband`,
		"inband:d9":           "is none of dp, dn, d0 to d7",
		"inband:dp,alg=1,n=0": "n",
	} {
		err := l.addMarks([]string{spec}, &o)
		var f *failure
		if !errors.As(err, &f) || f.code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}
