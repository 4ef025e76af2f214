package fnirsi

import (
	"errors"
	"time"
)

// All times in host ns. Where no source is named, the value is assumed.
const (
	drainQuietNs = 50 * int64(time.Millisecond)   // an old stream sends every 40 ms
	drainNs      = 1500 * int64(time.Millisecond) // and ends after 1.08 s
	startStepNs  = 50 * int64(time.Millisecond)   // between the first commands; 25 to 50 ms are in use, less has crashed meters (fnirsi-usb-tool)
	keepAliveNs  = 500 * int64(time.Millisecond)  // usb-power-profiling.js; the meter stops after 1 s
	silenceNs    = 200 * int64(time.Millisecond)  // five reports
	giveUpNs     = 5 * int64(time.Second)
	retryNs      = 150 * int64(time.Millisecond) // UsbTransport.cpp, as maxRefused
	maxRefused   = 5
	stopQuietNs  = int64(time.Second) // fnirsi_logger.py; a real meter sent 1.08 s after its last command (fnisri_logger)
	stopNs       = 5 * int64(time.Second)
)

// machine decides what to do with a meter: when to send which command, what to
// make of a report, when to give up. It reads no clock and touches no port, so
// that all of it can be tested.
//
// The keep-alive is a start, not a proceed: a proceed that comes late is
// ignored and the stream stays silent, a start never is.
type machine struct {
	commands []Command // that open a stream
	// refresh sends a proceed after each report of samples.
	refresh bool

	state   state
	sent    int   // of commands
	sinceNs int64 // beginning of the state
	quietNs int64 // last report, while draining and stopping
	dueNs   int64 // next command, while starting and streaming
	dataNs  int64 // last samples; before the first, when they were asked for
	working bool  // a valid report of samples has come
	silent  bool  // and now none comes
	wrote   bool  // the last command was not refused
	refused int   // commands in a row
	actions []action
}

type state int

const (
	closed    state = iota
	draining        // reading what is left of an earlier stream
	starting        // sending the first commands
	streaming       // keeping the stream alive
	stopping        // sending nothing, reading until the meter is quiet
	ended
)

type event struct {
	kind   eventKind
	hostNs int64
}

type eventKind int

const (
	opened       eventKind = iota
	samplesCame            // a valid report of samples
	damagedCame            // a report that may have been one
	otherCame              // any other report
	timePassed             // nothing came until deadlineNs or some earlier time
	writeRefused           // the command could not be sent
	stopAsked              // the caller has enough
)

type action struct {
	kind    actionKind
	command Command // of send
	gapNs   int64   // of resume: time without samples
	err     error   // of fail
}

type actionKind int

const (
	send    actionKind = iota
	deliver            // the samples of the report
	hole               // as many samples that are not known
	resume             // the next delivery follows an interruption
	fail
	done // the meter is quiet
)

var (
	errNever  = errors.New("none within 5 s of the start: is it in its update mode, or read by another program?")
	errFrozen = errors.New("it went silent and does not start again: unplug it and plug it in")
	errWrite  = errors.New("it takes no commands: unplug it and plug it in")
)

// step takes one event and returns what to do about it, in order. The slice is
// overwritten by the next call. At most one command is sent in a step.
func (m *machine) step(e event) []action {
	m.actions = m.actions[:0]
	switch e.kind {
	case opened:
		m.enter(draining, e.hostNs)
	case stopAsked:
		m.enter(stopping, e.hostNs)
	case writeRefused:
		m.retry(e.hostNs)
	case samplesCame, damagedCame, otherCame:
		m.quietNs = e.hostNs
		if m.state == starting || m.state == streaming {
			m.report(e)
		}
	}
	m.due(e.hostNs)
	return m.actions
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

func (m *machine) enter(s state, hostNs int64) {
	m.state, m.sinceNs, m.quietNs = s, hostNs, hostNs
}

func (m *machine) fail(err error) {
	m.do(action{kind: fail, err: err})
	m.state = ended
}

// report takes one report while the stream should run.
func (m *machine) report(e event) {
	if e.kind != samplesCame {
		if e.kind == damagedCame && m.working && !m.silent {
			m.do(action{kind: hole})
		}
		return
	}
	if m.silent {
		m.do(action{kind: resume, gapNs: e.hostNs - m.dataNs})
		// The firmware is not told over USB; a meter that stopped once may be
		// one that wants it.
		m.silent, m.refresh = false, true
	}
	m.do(action{kind: deliver})
	m.working, m.dataNs = true, e.hostNs
	if m.refresh && m.state == streaming {
		m.send(proceed, e.hostNs+keepAliveNs)
	}
}

// send sends a command; the next one is due at nextNs.
func (m *machine) send(c Command, nextNs int64) {
	if m.wrote {
		m.refused = 0
	}
	m.wrote, m.dueNs = true, nextNs
	m.do(action{kind: send, command: c})
}

// retry sends a refused command again, after a while.
func (m *machine) retry(hostNs int64) {
	m.wrote = false
	m.refused++
	if m.state == starting || m.state == streaming && !m.working {
		m.sent = max(0, m.sent-1)
		m.state = starting
	}
	m.dueNs = hostNs + retryNs
	if m.refused > maxRefused {
		m.fail(errWrite)
	}
}

// due does what is due by now.
func (m *machine) due(nowNs int64) {
	switch m.state {
	case draining:
		if nowNs >= m.deadlineNs() {
			m.enter(starting, nowNs)
			m.dueNs = nowNs
			m.due(nowNs)
		}
	case starting:
		if nowNs < m.dueNs {
			return
		}
		m.sent++
		m.send(m.commands[m.sent-1], nowNs+startStepNs)
		if m.sent == len(m.commands) {
			m.enter(streaming, nowNs)
			m.dueNs = nowNs + keepAliveNs
			if !m.working {
				m.dataNs = nowNs
			}
		}
	case streaming:
		m.keepAlive(nowNs)
	case stopping:
		if nowNs >= m.deadlineNs() {
			m.do(action{kind: done})
			m.state = ended
		}
	}
}

func (m *machine) keepAlive(nowNs int64) {
	if nowNs >= m.dataNs+giveUpNs {
		if m.working {
			m.fail(errFrozen)
		} else {
			m.fail(errNever)
		}
		return
	}
	if m.working && !m.silent && nowNs >= m.dataNs+silenceNs {
		m.silent, m.dueNs = true, min(m.dueNs, nowNs)
	}
	if nowNs < m.dueNs {
		return
	}
	next := nowNs + keepAliveNs
	if m.silent {
		next = nowNs + silenceNs
	}
	m.send(start, next)
}

// deadlineNs is when the machine wants to be stepped even if nothing comes.
func (m *machine) deadlineNs() int64 {
	switch m.state {
	case draining:
		return min(m.quietNs+drainQuietNs, m.sinceNs+drainNs)
	case streaming:
		d := min(m.dueNs, m.dataNs+giveUpNs)
		if m.working && !m.silent {
			d = min(d, m.dataNs+silenceNs)
		}
		return d
	case stopping:
		return min(m.quietNs+stopQuietNs, m.sinceNs+stopNs)
	}
	return m.dueNs
}
