package ppk2

import (
	"errors"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// All times in host ns. Where no source is named, the value is assumed.
const (
	quietNs   = 100 * int64(time.Millisecond) // without a byte: the old stream has ended
	quietenNs = int64(time.Second)            // at most, until then
	answerNs  = int64(time.Second)            // for the calibration
	questions = 3
	stepNs    = 10 * int64(time.Millisecond) // between commands that set something
	silenceNs = meters.SegmentGapNs          // 100,000 samples
	giveUpNs  = 5 * int64(time.Second)
	retryNs   = 150 * int64(time.Millisecond) // of a refused command
	mostTries = 5
)

// Commands (PPKCmd in constants.ts).
const (
	startCommand     = 0x06
	stopCommand      = 0x07
	switchCommand    = 0x0c // 1: the target is connected, 0: it is not
	regulatorCommand = 0x0d // mV of the source, high byte first
	modeCommand      = 0x11
	askCommand       = 0x19 // for the calibration
)

// Modes, as commands and as the calibration's text tells them.
const (
	ampereMode = 1
	sourceMode = 2
)

// machine decides what to do with a meter: when to send which command, when to
// give up. It reads no clock and touches no port.
type machine struct {
	commands [][]byte // that set the meter up, then start it; known with the calibration

	state   state
	sent    int    // of commands, or questions for the calibration
	sinceNs int64  // beginning of the state
	byteNs  int64  // last byte
	dueNs   int64  // next command
	dataNs  int64  // last samples; before the first, when they were asked for
	working bool   // samples have come
	silent  bool   // and now none come
	last    []byte // command
	again   []byte // it was refused
	refused int    // commands in a row
	actions []action
}

type state int

const (
	closed   state = iota
	quieting       // reading what is left of an earlier stream
	asking         // for the calibration
	setting        // sending the commands
	streaming
	stopping // reading until the meter is quiet
	ended
)

type event struct {
	kind   eventKind
	hostNs int64
}

type eventKind int

const (
	opened       eventKind = iota
	bytesCame              // of no samples
	textCame               // the calibration; the commands are set
	samplesCame            //
	timePassed             // nothing came until deadlineNs or some earlier time
	writeRefused           // the command could not be sent
	stopAsked              // the caller has enough
)

type action struct {
	kind    actionKind
	command []byte // of send
	gapNs   int64  // of resume: time without samples
	err     error  // of fail
}

type actionKind int

const (
	send   actionKind = iota
	forget            // what comes from now on is a new stream
	resume            // the samples at hand follow an interruption
	fail
	done // the meter is quiet
)

var (
	errDumb   = errors.New("it does not tell its calibration: is it a PPK2, and the first of its two ports?")
	errNever  = errors.New("none within 5 s of the start: unplug it and plug it in")
	errFrozen = errors.New("it went silent and does not start again: unplug it and plug it in")
	errWrite  = errors.New("it takes no commands: unplug it and plug it in")
)

// step takes one event and returns what to do about it, in order. The slice is
// overwritten by the next call. At most one command is sent in a step.
func (m *machine) step(e event) []action {
	m.actions = m.actions[:0]
	switch e.kind {
	case opened:
		m.enter(quieting, e.hostNs)
		m.send([]byte{stopCommand})
	case stopAsked:
		m.enter(stopping, e.hostNs)
		m.send([]byte{stopCommand})
	case writeRefused:
		m.retry(e.hostNs)
	case textCame:
		m.enter(setting, e.hostNs)
		m.sent, m.dueNs = 0, e.hostNs
	case bytesCame:
		m.byteNs = e.hostNs
	case samplesCame:
		m.byteNs = e.hostNs
		if m.state == streaming {
			m.samples(e.hostNs)
		}
	}
	m.due(e.hostNs)
	return m.actions
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

func (m *machine) enter(s state, hostNs int64) {
	m.state, m.sinceNs, m.byteNs = s, hostNs, hostNs
	m.again, m.refused = nil, 0
}

func (m *machine) send(command []byte) {
	m.last, m.again = command, nil
	m.do(action{kind: send, command: command})
}

func (m *machine) fail(err error) {
	m.do(action{kind: fail, err: err})
	m.state = ended
}

func (m *machine) samples(hostNs int64) {
	if m.silent {
		m.do(action{kind: resume, gapNs: hostNs - m.dataNs})
	}
	m.working, m.silent, m.dataNs = true, false, hostNs
	m.refused = 0
}

// retry sends the command that was refused again, after a while.
func (m *machine) retry(hostNs int64) {
	m.again, m.dueNs = m.last, hostNs+retryNs
	if m.refused++; m.refused > mostTries {
		m.fail(errWrite)
	}
}

// excuse forgives the meter for time in which nobody looked, because the host
// was busy or asleep.
func (m *machine) excuse(ns int64) {
	for _, t := range []*int64{&m.sinceNs, &m.byteNs, &m.dueNs, &m.dataNs} {
		*t += ns
	}
}

// due does what is due by now.
func (m *machine) due(nowNs int64) {
	if m.state == closed || m.state == ended || nowNs < m.deadlineNs() || len(m.actions) > 0 {
		return
	}
	if m.again != nil {
		m.send(m.again)
		m.dueNs = nowNs + stepNs
		return
	}
	switch m.state {
	case quieting:
		m.enter(asking, nowNs)
		m.sent, m.dueNs = 0, nowNs
		m.due(nowNs)
	case asking:
		if m.sent++; m.sent > questions {
			m.fail(errDumb)
			return
		}
		m.dueNs = nowNs + answerNs
		m.send([]byte{askCommand})
	case setting:
		m.set(nowNs)
	case streaming:
		m.watch(nowNs)
	case stopping:
		m.do(action{kind: done})
		m.state = ended
	}
}

// set sends the next of the commands, the last of which starts the stream.
func (m *machine) set(nowNs int64) {
	command := m.commands[m.sent]
	m.sent++
	m.dueNs = nowNs + stepNs
	if m.sent == len(m.commands) {
		m.enter(streaming, nowNs)
		m.dataNs, m.dueNs = nowNs, nowNs+silenceNs
	}
	m.send(command)
}

// watch starts a silent meter again.
func (m *machine) watch(nowNs int64) {
	switch {
	case nowNs < m.dataNs+silenceNs:
		m.dueNs = m.dataNs + silenceNs
	case nowNs >= m.dataNs+giveUpNs && m.working:
		m.fail(errFrozen)
	case nowNs >= m.dataNs+giveUpNs:
		m.fail(errNever)
	default:
		m.silent = m.working
		m.dueNs = min(nowNs+silenceNs, m.dataNs+giveUpNs)
		m.do(action{kind: forget})
		m.send([]byte{startCommand})
	}
}

// deadlineNs is when the machine wants to be stepped even if nothing comes.
func (m *machine) deadlineNs() int64 {
	if m.again != nil {
		return m.dueNs
	}
	switch m.state {
	case quieting, stopping:
		return min(m.byteNs+quietNs, m.sinceNs+quietenNs)
	}
	return m.dueNs
}
