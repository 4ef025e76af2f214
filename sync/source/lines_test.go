package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters/meterstest"
	"github.com/joulemark/joulemark/sync/mark"
)

type line struct {
	ms   int64
	text string
}

// watch plays pieces, each arriving at its index in ms, and returns the lines.
func watch(t *testing.T, pieces []string, stop bool) (lines []line, port *meterstest.Port, err error) {
	t.Helper()
	port = &meterstest.Port{}
	for i, p := range pieces {
		port.Frames = append(port.Frames, meterstest.Frame{HostNs: int64(i) * 1e6, Bytes: []byte(p)})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	port.Passed = func(hostNs int64) {
		if hostNs < int64(len(pieces))*1e6 {
			return
		}
		if stop {
			cancel()
		} else {
			port.Closed = 1 // unplugged
		}
	}
	l := NewLines("uart", port)
	err = l.Watch(ctx, func(hostNs int64, text []byte) {
		lines = append(lines, line{hostNs / 1e6, string(text)})
	})
	return lines, port, err
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		pieces []string
		want   string // "ms:text" of each line, joined by |
	}{
		{[]string{"one\ntwo\n"}, "0:one|0:two"},
		{[]string{"o", "ne", "\r\ntw", "o\n"}, "2:one\r|3:two"},
		{[]string{"\n\n"}, "0:|0:"},
		{[]string{"cut", " short"}, "1:cut short"},
		{[]string{long[:3000], long[3000:] + "\nnext\n"}, "1:" + long[:mark.MaxLine+1] + "|1:next"},
		{[]string{"a\x00b\xff\n"}, "0:a\x00b\xff"},
	} {
		lines, _, err := watch(t, c.pieces, true)
		if err != nil {
			t.Errorf("%.20q: %v", c.pieces, err)
		}
		var got []string
		for _, l := range lines {
			got = append(got, fmt.Sprintf("%d:%s", l.ms, l.text))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%.40q: lines are %.80q, want %.80q", c.pieces, got, c.want)
		}
	}
}

// A port that goes away is an error, after what it had sent.
func TestLinesUnplugged(t *testing.T) {
	lines, _, err := watch(t, []string{"one\n@jm win w=1"}, false)
	if !errors.Is(err, os.ErrClosed) || len(lines) != 2 || lines[1].text != "@jm win w=1" {
		t.Errorf("%+v, %v", lines, err)
	}
}

func TestSend(t *testing.T) {
	port := &meterstest.Port{}
	l := NewLines("uart", port)
	if err := l.Send(mark.Stop{}.Statement()); err != nil {
		t.Fatal(err)
	}
	s, err := mark.ParseCommand(port.Written[0].Bytes)
	if err != nil || s.Kind != "stop" || !s.Checked {
		t.Errorf("sent %q: %+v, %v", port.Written[0].Bytes, s, err)
	}
	if err := l.Close(); err != nil || port.Closed != 1 {
		t.Errorf("closed %d times, %v", port.Closed, err)
	}
}
