//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// scenario is something that must be true of a meter on a real USB.
type scenario struct {
	name string
	way
	do    func(*lab) (detail string, err error)
	alone bool // it needs the whole machine
}

// way is a program and how it reaches the meter.
type way struct {
	name    string
	program string
	identity
	spec func(g *gadget) (string, error) // of a meter
	node func(g *gadget) (string, error) // that it needs
}

var fnb58 = identity{0x2e3c, 0x5558, "FNB58"}

var ways = []way{
	{"hidraw", "/bin/joulemark", fnb58, func(g *gadget) (string, error) { p, err := g.hidraw(); return "fnb58:" + p, err }, (*gadget).hidraw},
	{"libusb", "/bin/joulemark-libusb", fnb58, func(g *gadget) (string, error) { p, err := g.usb(); return "fnb58+usb:" + p, err }, (*gadget).usb},
}

// scenarios are all of them, over each way that there is a program for.
func scenarios() []scenario {
	all := []scenario{{name: "acm/ppk2", way: overACM, do: streamed, alone: true}}
	for _, w := range ways {
		if _, err := os.Stat(w.program); err != nil {
			continue
		}
		for _, s := range []struct {
			name string
			do   func(*lab) (string, error)
		}{
			{"charge", charge}, {"early-stop", earlyStop}, {"info", info}, {"stale", stale}, {"damaged", damaged},
			{"freeze", freeze}, {"replug", replug}, {"second-program", second}, {"permission", permission},
			{"left-over", leftOver}, {"killed", killed}, {"interrupt", interrupt},
		} {
			all = append(all, scenario{name: w.name + "/" + s.name, way: w, do: s.do})
		}
	}
	return all
}

// lab is a gadget with a folder for what happens on it.
type lab struct {
	way
	gadget *gadget
	dir    string
	meter  *process
	starts int        // of the meter; each shows other values
	all    []*process // all that was started
}

// on runs a scenario on the gadget of a number.
func (s scenario) on(number int) (detail string, err error) {
	g, err := newGadget(number, s.identity)
	if err != nil {
		return "", errors.Join(err, g.remove())
	}
	defer func() { err = errors.Join(err, g.remove()) }()
	dir := filepath.Join("/tmp", strings.ReplaceAll(s.name, "/", "-"))
	if err := os.Mkdir(dir, 0o777); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return "", err
	}
	l := &lab{way: s.way, gadget: g, dir: dir}
	defer func() {
		for _, p := range l.all {
			p.kill()
		}
	}()
	return s.do(l)
}

// emulate starts the meter.
func (l *lab) emulate(faults ...string) error {
	node, err := l.gadget.inside()
	if err != nil {
		return err
	}
	l.starts++
	args := []string{"virtual", "--hid", node, "--sent", l.sentLog(), "--link", l.path(fmt.Sprint("target", l.starts)), "--seed", fmt.Sprint(l.starts)}
	for _, f := range faults {
		args = append(args, "--fault", f)
	}
	if l.meter, err = l.start("meter", 0, "/bin/joulemark", args...); err != nil {
		return err
	}
	return l.meter.await("the meter is there", func() bool { return strings.Contains(l.meter.said(), "SIMULATED") })
}

func (l *lab) start(name string, uid uint32, program string, args ...string) (*process, error) {
	p, err := start(l.path(name+".log"), uid, program, args...)
	if err == nil {
		l.all = append(l.all, p)
	}
	return p, err
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }
func (l *lab) sentLog() string         { return l.path("sent.jsonl") }

// record starts a recording into the run of a name.
func (l *lab) record(name string, uid uint32, seconds int) (*process, error) {
	return l.recordOver(l.way, name, uid, seconds)
}

func (l *lab) recordOver(w way, name string, uid uint32, seconds int) (*process, error) {
	spec, err := w.spec(l.gadget)
	if err != nil {
		return nil, err
	}
	return l.start(name, uid, w.program, "record", "--meter", spec, "--for", fmt.Sprintf("%ds", seconds), "-o", l.path(name))
}

// recordWhole records to the end.
func (l *lab) recordWhole(name string, seconds int) (recorded, []sent, error) {
	p, err := l.record(name, 0, seconds)
	if err != nil {
		return recorded{}, nil, err
	}
	return l.ended(p, name, seconds, 0)
}

// ended waits for a recording and reads what it has become.
func (l *lab) ended(p *process, name string, seconds, code int) (r recorded, all []sent, err error) {
	if err = p.end(time.Duration(seconds)*time.Second+limit, code); err != nil {
		return r, nil, err
	}
	if r, err = readRun(l.path(name)); err != nil {
		return r, nil, fmt.Errorf("%w: %s", err, p.said())
	}
	all, err = readSent(l.sentLog())
	return r, all, err
}

// limit is how long a program may take beside its recording: to start on a slow
// machine, to find the meter's first samples and to wait for its silence.
const limit = 40 * time.Second

// begun waits until a recording is under way.
func (l *lab) begun(p *process, name string) error {
	return p.await("the recording has begun", func() bool {
		s, err := os.Stat(l.path(name) + "/run.jsonl")
		return err == nil && s.Size() > 0
	})
}

// charge: nothing is lost, the run's charge is the meter's, and the kernel has
// the device again as it was; its serial line it keeps all the while.
func charge(l *lab) (string, error) {
	if err := l.emulate(); err != nil {
		return "", err
	}
	p, err := l.record("run", 0, 20)
	if err != nil {
		return "", err
	}
	if err := l.begun(p, "run"); err != nil {
		return "", err
	}
	if _, err := l.gadget.acm(); err != nil {
		return "", fmt.Errorf("the serial line while the meter is read: %w", err)
	}
	r, all, err := l.ended(p, "run", 20, 0)
	if err != nil {
		return "", err
	}
	if _, err := l.gadget.wait(l.gadget.hidraw); err != nil {
		return "", fmt.Errorf("hidraw after the recording: %w", err)
	}
	if _, err := wholeRun(r, all, 1); err != nil {
		return "", err
	}
	if r.samples < 1950 || r.samples != 4*int64(len(r.segments[0])) || r.unknown > 0 {
		return "", fmt.Errorf("%d samples in %d reports, %d unknown", r.samples, len(r.segments[0]), r.unknown)
	}
	return fmt.Sprintf("%d reports, none lost, %.6f C as sent", len(r.segments[0]), r.coulombs), nil
}

// earlyStop: the meter stops as if it had not been told to go on.
func earlyStop(l *lab) (string, error) {
	if err := l.emulate("pause_seconds=10"); err != nil {
		return "", err
	}
	r, all, err := l.recordWhole("run", 15)
	if err != nil {
		return "", err
	}
	of, err := wholeRun(r, all, 1)
	if err != nil {
		return "", err
	}
	hole := int64(0)
	for i, s := range of[0][1:] {
		hole = max(hole, s.Packet-of[0][i].Packet-1)
	}
	if hole < 2 || hole > 25 || r.note(meters.Interrupted) != 1 {
		return "", fmt.Errorf("a hole of %d packets, notes %+v", hole, r.Notes)
	}
	return fmt.Sprintf("started again after %d packets", hole), nil
}

// info: reports that are none of samples are no damage.
func info(l *lab) (string, error) {
	if err := l.emulate("info=0.2"); err != nil {
		return "", err
	}
	r, all, err := l.recordWhole("run", 8)
	if err != nil {
		return "", err
	}
	of, err := wholeRun(r, all, 1)
	if err != nil {
		return "", err
	}
	others := 0
	for _, s := range of[0] {
		if s.Packet < 0 {
			others++
		}
	}
	if others < 10 || r.samples != 4*int64(len(of[0])-others) || r.unknown > 0 || r.note(meters.BadPackets) > 0 {
		return "", fmt.Errorf("%d other reports among %d, %d samples, %d unknown", others, len(of[0]), r.samples, r.unknown)
	}
	return fmt.Sprintf("%d other reports among %d passed over", others, len(of[0])), nil
}

// stale: the first sample is left over from before.
func stale(l *lab) (string, error) {
	if err := l.emulate("stale=1"); err != nil {
		return "", err
	}
	r, _, err := l.recordWhole("run", 5)
	if err != nil {
		return "", err
	}
	if r.note(meters.ImpossibleFirst) != 1 || r.volts > 10 || r.unknown > 0 || r.samples%4 != 3 {
		return "", fmt.Errorf("%d samples of up to %g V, notes %+v", r.samples, r.volts, r.Notes)
	}
	return "one sample left out", nil
}

// damaged: reports with a wrong checksum are holes, and counted.
func damaged(l *lab) (string, error) {
	if err := l.emulate("damaged=0.1"); err != nil {
		return "", err
	}
	r, all, err := l.recordWhole("run", 8)
	if err != nil {
		return "", err
	}
	if _, err := wholeRun(r, all, 1); err != nil {
		return "", err
	}
	bad := r.note(meters.BadPackets)
	// What claims to be another kind of report is no hole.
	if bad < 5 || r.unknown > 4*bad || r.unknown < 4*(bad-3) {
		return "", fmt.Errorf("%d bad reports, %d samples unknown", bad, r.unknown)
	}
	return fmt.Sprintf("%d bad reports, %d samples unknown", bad, r.unknown), nil
}

// freeze: two seconds of silence end a segment.
func freeze(l *lab) (string, error) {
	if err := l.emulate("pause_seconds=10", "deaf_seconds=2"); err != nil {
		return "", err
	}
	r, all, err := l.recordWhole("run", 18)
	if err != nil {
		return "", err
	}
	if _, err := wholeRun(r, all, 2); err != nil {
		return "", err
	}
	if r.note(meters.Interrupted) == 0 {
		return "", fmt.Errorf("no note of it: %+v", r.Notes)
	}
	return "one run, two segments", nil
}

// replug: the meter is unplugged for three seconds, and loses its power.
func replug(l *lab) (string, error) {
	if err := l.emulate(); err != nil {
		return "", err
	}
	p, err := l.record("run", 0, 20)
	if err != nil {
		return "", err
	}
	if err := l.begun(p, "run"); err != nil {
		return "", err
	}
	time.Sleep(5 * time.Second)
	l.meter.kill()
	if err := l.gadget.unplug(); err != nil {
		return "", err
	}
	time.Sleep(3 * time.Second)
	before, err := readSent(l.sentLog())
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Remove(l.sentLog()), l.gadget.plug(), l.emulate()); err != nil {
		return "", err
	}
	r, after, err := l.ended(p, "run", 20, 0)
	if err != nil {
		return "", err
	}
	if _, err := wholeRun(r, append(before, after...), 2); err != nil {
		return "", fmt.Errorf("%w: %s", err, p.said())
	}
	return fmt.Sprintf("one run, two segments of %d and %d reports", len(r.segments[0]), len(r.segments[1])), nil
}

// second: a program that comes second is told so, and the first goes on.
func second(l *lab) (string, error) {
	if err := l.emulate(); err != nil {
		return "", err
	}
	first, err := l.record("first", 0, 15)
	if err != nil {
		return "", err
	}
	if err := l.begun(first, "first"); err != nil {
		return "", err
	}
	for _, w := range ways { // over whatever way it comes
		if _, err := os.Stat(w.program); err != nil {
			continue
		}
		if w.name == "hidraw" && l.name == "libusb" {
			continue // there is no node any more
		}
		p, err := l.recordOver(w, "by-"+w.name, 0, 5)
		if err != nil {
			return "", err
		}
		if err := p.end(limit, 4); err != nil {
			return "", err
		}
		if err := p.says("in use"); err != nil {
			return "", fmt.Errorf("over %s: %w", w.name, err)
		}
	}
	r, all, err := l.ended(first, "first", 15, 0)
	if err != nil {
		return "", err
	}
	if _, err := wholeRun(r, all, 1); err != nil {
		return "", err
	}
	return "refused, and the first lost nothing", nil
}

// user is one that is not root.
const user = 1000

// permission: without it the fix is printed, and with what the fix does the
// meter works.
func permission(l *lab) (string, error) {
	if err := l.emulate(); err != nil {
		return "", err
	}
	node, err := l.node(l.gadget)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(node, 0o600); err != nil {
		return "", err
	}
	p, err := l.record("refused", user, 3)
	if err != nil {
		return "", err
	}
	if err := p.end(limit, 4); err != nil {
		return "", err
	}
	subsystem := map[string]string{"hidraw": `SUBSYSTEM=="hidraw"`, "libusb": `SUBSYSTEM=="usb"`}[l.name]
	if err := p.says("permission denied", subsystem, `=="2e3c"`, `=="5558"`, meters.UdevFile, "udevadm"); err != nil {
		return "", err
	}
	if err := errors.Join(os.Chown(node, 0, user), os.Chmod(node, 0o660)); err != nil {
		return "", err
	}
	if p, err = l.record("run", user, 3); err != nil {
		return "", err
	}
	r, all, err := l.ended(p, "run", 3, 0)
	if err != nil {
		return "", err
	}
	if _, err := wholeRun(r, all, 1); err != nil {
		return "", err
	}
	return "refused with the fix; works with it", nil
}

// leftOver: what the meter still sends after a stop is not taken for the next
// program's.
func leftOver(l *lab) (string, error) {
	if err := l.emulate("stale=1"); err != nil {
		return "", err
	}
	return l.twice(func(p *process) error { return p.end(limit, 0) })
}

// killed: neither is the stream of a program that died.
func killed(l *lab) (string, error) {
	if err := l.emulate("stale=1"); err != nil {
		return "", err
	}
	return l.twice(func(p *process) error {
		if err := l.begun(p, "first"); err != nil {
			return err
		}
		p.kill()
		return nil
	})
}

// twice records twice, and holds the reports of the second recording against
// those that were sent after the first one.
func (l *lab) twice(end func(*process) error) (string, error) {
	p, err := l.record("first", 0, 4)
	if err != nil {
		return "", err
	}
	if err := end(p); err != nil {
		return "", err
	}
	before, err := readSent(l.sentLog())
	if err != nil {
		return "", err
	}
	r, all, err := l.recordWhole("run", 4)
	if err != nil {
		return "", err
	}
	of, err := wholeRun(r, all, 1)
	if err != nil {
		return "", err
	}
	late := of[0][0].HostNs - before[len(before)-1].HostNs
	if late <= 0 || r.volts > 10 {
		return "", fmt.Errorf("the second run begins %d ns after the first program's end, its highest sample is %g V", late, r.volts)
	}
	return fmt.Sprintf("the second run begins with a report sent %.1f s after the first program's end", float64(late)*1e-9), nil
}

// interrupt: Ctrl-C ends a recording cleanly.
func interrupt(l *lab) (string, error) {
	if err := l.emulate(); err != nil {
		return "", err
	}
	p, err := l.record("run", 0, 100)
	if err != nil {
		return "", err
	}
	if err := l.begun(p, "run"); err != nil {
		return "", err
	}
	time.Sleep(4 * time.Second)
	p.signal(syscall.SIGINT)
	r, all, err := l.ended(p, "run", 0, 130)
	if err != nil {
		return "", err
	}
	if _, err := wholeRun(r, all, 1); err != nil {
		return "", err
	}
	if r.Closing == nil || r.Closing.Reason != "interrupted" || r.samples < 300 {
		return "", fmt.Errorf("closed with %+v after %d samples", r.Closing, r.samples)
	}
	return fmt.Sprintf("%d samples kept", r.samples), nil
}
