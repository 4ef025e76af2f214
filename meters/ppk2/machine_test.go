package ppk2

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// converse plays events to a machine and returns what it does, one word an
// action: "TIME:06" for a command, "TIME:resume+GAP", times in ms. events gives
// what happens at which ms; in between, time passes to each deadline. When the
// calibration comes, the machine is told commands of ampere mode with power.
func converse(untilMs int64, events map[int64]eventKind) string {
	m := &machine{}
	var did []string
	now := int64(0)
	step := func(kind eventKind) {
		if kind == textCame {
			m.commands = [][]byte{{modeCommand, ampereMode}, {switchCommand, 1}, {startCommand}}
		}
		for _, a := range m.step(event{kind, now * int64(time.Millisecond)}) {
			switch a.kind {
			case send:
				did = append(did, fmt.Sprintf("%d:%x", now, a.command))
			case resume:
				did = append(did, fmt.Sprintf("%d:resume+%d", now, a.gapNs/1e6))
			case fail:
				did = append(did, fmt.Sprintf("%d:fail(%.12s)", now, a.err))
			default:
				did = append(did, fmt.Sprintf("%d:%s", now, map[actionKind]string{forget: "forget", done: "done"}[a.kind]))
			}
		}
	}
	step(opened)
	for now = 1; now <= untilMs && m.state != ended; now++ {
		if kind, ok := events[now]; ok {
			step(kind)
		} else if now*int64(time.Millisecond) >= m.deadlineNs() {
			step(timePassed)
		}
	}
	return strings.Join(did, " ")
}

// every10 adds samples every 10 ms.
func every10(from, to int64, events map[int64]eventKind) map[int64]eventKind {
	for ms := from; ms <= to; ms += 10 {
		if _, ok := events[ms]; !ok {
			events[ms] = samplesCame
		}
	}
	return events
}

func TestMachine(t *testing.T) {
	type at = map[int64]eventKind
	begin := "0:07 100:19 150:1101 160:0c01 170:06"
	for _, c := range []struct {
		name    string
		untilMs int64
		events  at
		want    string
	}{
		{"a start", 1000, every10(180, 1000, at{150: textCame}), begin},
		{"an old stream is drained first", 240, at{30: bytesCame, 90: bytesCame, 120: bytesCame}, "0:07 220:19"},
		{"but not for ever", 1050, every10(10, 1050, at{}), "0:07 1000:19"},
		{"asked again", 2500, at{2300: textCame}, "0:07 100:19 1100:19 2100:19 2300:1101 2310:0c01 2320:06"},
		{"no answer", 9000, at{}, "0:07 100:19 1100:19 2100:19 3100:fail(it does not )"},
		{"never samples", 9000, at{150: textCame}, begin + " 1170:forget 1170:06 2170:forget 2170:06 3170:forget 3170:06 4170:forget 4170:06 5170:fail(none within )"},
		{"bytes that are no samples are none", 9000, at{150: textCame, 400: bytesCame, 3000: bytesCame},
			begin + " 1170:forget 1170:06 2170:forget 2170:06 3170:forget 3170:06 4170:forget 4170:06 5170:fail(none within )"},
		{"silence", 2600, every10(2500, 2600, every10(180, 500, at{150: textCame})), begin + " 1500:forget 1500:06 2500:resume+2000"},
		{"silence for good", 9000, every10(180, 500, at{150: textCame}),
			begin + " 1500:forget 1500:06 2500:forget 2500:06 3500:forget 3500:06 4500:forget 4500:06 5500:fail(it went sile)"},
		{"a refused command is sent again", 700, every10(660, 700, at{150: textCame, 151: writeRefused, 312: writeRefused, 473: writeRefused}),
			"0:07 100:19 150:1101 301:1101 311:0c01 462:0c01 472:06 623:06"},
		{"refused for good", 9000, at{1: writeRefused, 152: writeRefused, 303: writeRefused, 454: writeRefused, 605: writeRefused, 756: writeRefused},
			"0:07 151:07 302:07 453:07 604:07 755:07 756:fail(it takes no )"},
		{"a stop", 9000, every10(180, 450, at{150: textCame, 400: stopAsked}), begin + " 400:07 550:done"},
		{"a stop that is not obeyed", 9000, every10(180, 9000, at{150: textCame, 400: stopAsked}), begin + " 400:07 1400:done"},
	} {
		if got := converse(c.untilMs, c.events); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
