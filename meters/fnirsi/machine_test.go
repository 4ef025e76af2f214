package fnirsi

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// script plays events to a machine and returns what it does, one word an
// action: "TIME:81" for a command, "TIME:resume+GAP", times in ms. events gives
// what happens at which ms; in between, time passes to each deadline.
func script(m *machine, untilMs int64, events map[int64]eventKind) string {
	var did []string
	now := int64(0)
	step := func(kind eventKind) {
		for _, a := range m.step(event{kind, now * 1e6}) {
			switch a.kind {
			case send:
				did = append(did, fmt.Sprintf("%d:%02x", now, byte(a.command)))
			case resume:
				did = append(did, fmt.Sprintf("%d:resume+%d", now, a.gapNs/1e6))
			case fail:
				did = append(did, fmt.Sprintf("%d:fail", now))
			default:
				did = append(did, fmt.Sprintf("%d:%s", now, map[actionKind]string{deliver: "data", hole: "hole", done: "done"}[a.kind]))
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

// every40 is samples every 40 ms.
func every40(from, to int64) map[int64]eventKind {
	events := map[int64]eventKind{}
	for ms := from; ms <= to; ms += 40 {
		events[ms] = samplesCame
	}
	return events
}

func with(events map[int64]eventKind, ms int64, kind eventKind) map[int64]eventKind {
	events[ms] = kind
	return events
}

func TestMachine(t *testing.T) {
	type at = map[int64]eventKind
	for _, c := range []struct {
		name    string
		untilMs int64
		events  at
		want    string // "..." stands for anything
	}{
		{"a start, and a keep-alive without a report", 700, nil, "50:81 100:82 150:82 650:82"},
		{"an old stream is drained first", 260, at{40: samplesCame, 80: samplesCame, 120: damagedCame}, "170:81 220:82"},
		{"but not for ever", 1610, every40(1, 1500), "1500:81 1550:82 1600:82"},
		{"never any samples", 9000, at{170: otherCame, 4000: damagedCame},
			"50:81 100:82 150:82 650:82 1150:82 1650:82 2150:82 2650:82 3150:82 3650:82 4150:82 4650:82 5150:fail"},
		{"damage before the first samples is no hole", 240, at{200: damagedCame, 230: samplesCame}, "50:81 100:82 150:82 230:data"},
		{"a hole, and what is no report of samples", 260, at{180: samplesCame, 200: otherCame, 220: damagedCame, 260: samplesCame},
			"50:81 100:82 150:82 180:data 220:hole 260:data"},
		{"silence, and a proceed with each report after it", 740, at{180: samplesCame, 700: samplesCame, 740: samplesCame},
			"50:81 100:82 150:82 180:data 380:82 580:82 700:resume+520 700:data 700:83 740:data 740:83"},
		{"damage in the silence is none", 640, at{180: samplesCame, 600: damagedCame}, "50:81 100:82 150:82 180:data 380:82 580:82"},
		{"silence for good", 9000, at{180: samplesCame}, "50:81 100:82 150:82 180:data 380:82 ... 4980:82 5180:fail"},
		{"a keep-alive that a report delays comes with it", 700, with(every40(180, 620), 680, samplesCame),
			"50:81 100:82 150:82 180:data ... 620:data 650:82 680:data"},
		{"a refused command is sent again", 460, at{51: writeRefused, 202: writeRefused}, "50:81 201:81 352:81 402:82 452:82"},
		{"a refused keep-alive too", 900, with(every40(180, 900), 651, writeRefused), "... 650:82 660:data 700:data 740:data 780:data 801:82 ..."},
		{"until it is enough", 9000, at{51: writeRefused, 202: writeRefused, 353: writeRefused, 504: writeRefused, 655: writeRefused, 806: writeRefused},
			"50:81 201:81 352:81 503:81 654:81 805:81 806:fail"},
		{"refusals with success between", 9000, at{51: writeRefused, 202: writeRefused, 353: writeRefused, 504: writeRefused, 655: writeRefused, 857: writeRefused, 1008: writeRefused, 1200: stopAsked},
			"50:81 201:81 352:81 503:81 654:81 805:81 855:82 1007:82 1158:82 2200:done"},
		{"a stop sends nothing more", 9000, with(with(every40(180, 900), 400, stopAsked), 1600, otherCame), "... 380:data 2600:done"},
		{"and does not last for ever", 9000, with(every40(1, 9000), 2001, stopAsked), "... 7001:done"},
	} {
		m := &machine{commands: []Command{hello, start, start}}
		if got := script(m, c.untilMs, c.events); !matches(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func matches(got, want string) bool {
	parts := strings.Split(want, "...")
	if len(parts) == 1 {
		return got == want
	}
	for i, p := range parts {
		k := strings.Index(got, p)
		if k < 0 || i == 0 && k != 0 {
			return false
		}
		got = got[k+len(p):]
	}
	return got == "" || parts[len(parts)-1] == ""
}

// Firmware that freezes otherwise gets a proceed with each report from the
// first one on.
func TestMachineRefresh(t *testing.T) {
	m := &machine{commands: []Command{hello, start, start}, refresh: true}
	want := "50:81 100:82 150:82 180:data 180:83 220:data 220:83 260:data 260:83"
	if got := script(m, 270, every40(180, 260)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
