package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/si"
)

const (
	redrawEvery = 250 * time.Millisecond
	lineEvery   = 5 * time.Second
	fullQueue   = 16 << 20 // bytes that wait for the disk and are worth a word
)

// viewOptions is what a view shows of the recording as a whole.
type viewOptions struct {
	run    string
	length time.Duration // 0: not limited
	until  time.Time     // zero: not limited
	plain  bool
}

// view follows a recording until it is told to end.
type view struct {
	quit, done chan struct{}
}

// watch shows a recording on stderr: a live view on a terminal, lines
// elsewhere.
func watch(env *Env, r *record.Recorder, o viewOptions) *view {
	v := &view{quit: make(chan struct{}), done: make(chan struct{})}
	show, every := plainLines(env.Stderr, o), lineEvery
	if env.Terminal && !o.plain {
		show, every = screen(env.Stderr, o), redrawEvery
	}
	go func() {
		defer close(v.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		show(r.Snapshot())
		for {
			select {
			case <-tick.C:
				show(r.Snapshot())
			case <-v.quit:
				show(r.Snapshot())
				return
			}
		}
	}()
	return v
}

// end shows the last state.
func (v *view) end() {
	close(v.quit)
	<-v.done
}

// plainLines shows a line a meter, and what is new.
func plainLines(w io.Writer, o viewOptions) func(record.Snapshot) {
	began, waiting := false, ""
	notices := map[string]string{}
	return func(s record.Snapshot) {
		if s.Recording && !began {
			began = true
			fmt.Fprintf(w, "recording %s\n", o.run)
		}
		for _, m := range s.Meters {
			if m.Notice != notices[m.Name] {
				notices[m.Name] = m.Notice
				fmt.Fprintf(w, "%s: %s\n", m.Name, printable(m.Notice))
			}
			if s.Recording {
				fmt.Fprintf(w, "%s %s: %s; %s\n", clockText(s.Seconds), m.Name, readings(m), counts(m))
			}
		}
		if text := waitingFor(s); !s.Recording && text != waiting {
			waiting = text
			fmt.Fprintln(w, text)
		}
	}
}

// screen draws a block a meter, again and again in the same place.
func screen(w io.Writer, o viewOptions) func(record.Snapshot) {
	var drawn []string
	return func(s record.Snapshot) {
		width, height := terminalSize(w)
		var b strings.Builder
		// A terminal that became narrower has wrapped what was drawn.
		up := 0
		for _, line := range drawn {
			up += 1 + max(0, text.StringWidth(line)-1)/width
		}
		if up > 0 {
			fmt.Fprintf(&b, "\r\x1b[%dA", min(up, height-1))
		}
		drawn = liveLines(s, o, width-1, time.Now())
		if len(drawn) > height-1 {
			drawn = drawn[:max(1, height-1)]
		}
		for _, line := range drawn {
			b.WriteString(line + "\x1b[K\n")
		}
		b.WriteString("\x1b[J")
		io.WriteString(w, b.String())
	}
}

// terminalSize returns the columns and rows of a terminal.
func terminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 1 && height > 1 {
			return width, height
		}
	}
	return 80, 24
}

// liveLines is the live view, in lines of at most width columns.
func liveLines(s record.Snapshot, o viewOptions, width int, now time.Time) []string {
	lines := []string{headline(s, o, now)}
	for _, m := range s.Meters {
		lines = append(lines, meterTitle(m))
		if m.Samples > 0 {
			lines = append(lines, "  "+readings(m), "  "+counts(m), "  "+trace(m.Trace[:], width-2))
		}
		if m.Notice != "" {
			lines = append(lines, "  "+printable(m.Notice))
		}
	}
	for i, line := range lines {
		lines[i] = text.Trim(line, width)
	}
	return lines
}

func headline(s record.Snapshot, o viewOptions, now time.Time) string {
	if !s.Recording {
		return waitingFor(s)
	}
	word := "recording"
	if ended(s) {
		word = "recorded "
	}
	parts := []string{word + " " + o.run, clockText(s.Seconds)}
	if left := timeLeft(s, o, now); left >= 0 && !ended(s) {
		parts = append(parts, clockText(left)+" left")
	}
	parts = append(parts, si.Format(float64(s.Bytes), "B", 3))
	if s.Lines+s.Edges > 0 {
		parts = append(parts, fmt.Sprintf("%d marks", s.Lines+s.Edges))
	}
	if s.Queued > fullQueue {
		parts = append(parts, "the disk is slow: "+si.Format(float64(s.Queued), "B", 3)+" wait")
	}
	return strings.Join(parts, "  ")
}

// timeLeft is how many seconds are left; negative where nothing limits them.
func timeLeft(s record.Snapshot, o viewOptions, now time.Time) float64 {
	left := math.Inf(1)
	if o.length > 0 {
		left = o.length.Seconds() - s.Seconds
	}
	if !o.until.IsZero() {
		left = min(left, o.until.Sub(now).Seconds())
	}
	if math.IsInf(left, 1) {
		return -1
	}
	return max(left, 0)
}

// ended reports whether no meter streams any more.
func ended(s record.Snapshot) bool {
	for _, m := range s.Meters {
		if m.State != record.Ended {
			return false
		}
	}
	return true
}

func waitingFor(s record.Snapshot) string {
	var names []string
	for _, m := range s.Meters {
		if m.Samples == 0 {
			names = append(names, m.Name)
		}
	}
	return "waiting for samples of " + strings.Join(names, ", ")
}

func meterTitle(m record.Status) string {
	title := joinWords("  ", m.Name, printable(joinWords(" ", m.Info.Model, m.Info.Serial)))
	if m.Info.Simulated {
		title += "  (simulated)"
	}
	if m.State == record.Gone {
		title += "  LOST, trying to open it again"
	}
	return title
}

// readings are means over the last second, and the sums.
func readings(m record.Status) string {
	var parts []string
	for _, q := range []struct {
		value float64
		unit  string
	}{{m.Volts, "V"}, {m.Amps, "A"}, {m.Watts, "W"}} {
		if !math.IsNaN(q.value) {
			parts = append(parts, fmt.Sprintf("%9s", si.Format(q.value, q.unit, 4)))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "no samples")
	}
	if math.IsNaN(m.Joules) {
		return strings.Join(append(parts, "nothing was measured"), "  ")
	}
	parts = append(parts, fmt.Sprintf("%9s", si.Format(m.Joules, "J", 4)))
	if slices.Contains(m.Info.Columns, meters.Amps) {
		parts = append(parts, fmt.Sprintf("%9s", si.Format(m.Coulombs, "C", 4)))
	}
	return strings.Join(parts, "  ")
}

func counts(m record.Status) string {
	parts := []string{fmt.Sprintf("%d samples", m.Samples)}
	if !math.IsNaN(m.RateHz) {
		parts = append(parts, fmt.Sprintf("%.5g a second", m.RateHz))
	}
	return strings.Join(append(parts, losses(m)), ", ")
}

// clockText is 1:02:03, or 2:03.4 below an hour.
func clockText(seconds float64) string {
	tenths := int64(seconds*10 + 0.5)
	h, m, s := tenths/36000, tenths/600%60, tenths/10%60
	if h > 0 {
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d.%d", m, s, tenths%10)
}

// flat is the least range of a trace, relative to its largest value: less is
// noise.
const flat = 0.05

var blocks = []rune("▁▂▃▄▅▆▇█")

// trace draws the last values, one a column, and says what they range over.
func trace(watts []float64, width int) string {
	const legend = 32 // columns
	columns := min(len(watts), max(8, width-legend))
	watts = watts[len(watts)-columns:]
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range watts {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if math.IsInf(low, 1) {
		return ""
	}
	bottom, span := low, high-low
	if least := flat * math.Abs(high); span < least {
		bottom, span = low-(least-span)/2, least
	}
	var b strings.Builder
	for _, v := range watts {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case span == 0:
			b.WriteRune(blocks[0])
		default:
			b.WriteRune(blocks[int((v-bottom)/span*(float64(len(blocks))-0.01))])
		}
	}
	seconds := float64(columns) * record.TraceNs / 1e9
	return fmt.Sprintf("%s  %s to %s in %.0f s", b.String(), si.Format(low, "W", 3), si.Format(high, "W", 3), seconds)
}
