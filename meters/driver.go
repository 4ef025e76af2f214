package meters

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// Driver is one family of meters. It is a value: drivers are listed in one
// place, nothing registers itself. A driver speaks to a Port, or reads files of
// a Host, and knows no transport.
type Driver struct {
	Name    string // as in a meter spec, lower case
	Summary string // one line
	Status  Status
	// Transports are the ways to it, the preferred one first.
	Transports []Transport
	// USBClass is the class of the interface to open, where it is reached
	// over hidraw or usb: 3 is HID, 0xff the maker's own.
	USBClass uint8
	// Baud is the rate of its serial line; 0 where that does not matter.
	Baud     int
	Models   []Model
	Settings []Setting
	Rate     string // samples a second, for people: "100", "2 to 5, polled"
	Digital  string // its digital inputs, for people; "" where it has none

	// Open makes a meter of a port. It need not speak to it: whether a meter
	// works is judged by its first samples. The meter owns the port from then
	// on; if Open fails, the port is still the caller's. It is nil for a meter
	// that is made of files.
	Open func(ctx context.Context, p Port, o Options) (Meter, error)
	// Find says which meters the files of a host make, and OpenHost opens one.
	// Both are nil for a meter behind a port.
	Find     func(h Host) []Found
	OpenHost func(ctx context.Context, h Host, o Options) (Meter, error)
}

// Transport is a way to a meter.
type Transport string

const (
	HID       Transport = "hidraw"  // reports, through the kernel
	USB       Transport = "usb"     // transfers, through libusb
	Serial    Transport = "serial"  // a serial line
	TCP       Transport = "tcp"     // a network connection
	Process   Transport = "process" // the output of a program
	Files     Transport = "files"   // files of this machine's kernel
	Recording Transport = "run"     // a recorded run
	Emulation Transport = "bench"   // the virtual bench
)

// Setting is something that a meter spec may say beside the place.
type Setting struct{ Key, Help string }

// Device is something on a transport that may be a meter.
type Device struct {
	Transport Transport
	Path      string // as the transport opens it: /dev/hidraw3
	USB       USBID  // zero where it is none
	Class     uint8  // of the USB interface
	Product   string // as the device says itself; hostile until printed
	Serial    string
	Bus       string // place on the bus, 1-2.4: the same after a replug
	Problem   error  // why it cannot be opened, with what would help; nil if it can
}

// Found is a meter that is there.
type Found struct {
	Spec    string // that opens it
	Driver  string
	Model   string
	Serial  string
	Place   string // where it is, for people
	Problem error  // why it cannot be used, with what would help; nil if it can
}

// Problem is an error with what a person can do about it.
type Problem struct {
	Err  error
	Hint string
}

func (p *Problem) Error() string { return p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// Hint returns what would help against an error; "" where nobody said.
func Hint(err error) string {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p.Hint
	}
	return ""
}

// Status says what a driver has been tried on.
type Status string

const (
	Emulated Status = "emulated" // an emulator written from what is published
	Captured Status = "captured" // bytes recorded from a real meter
	Hardware Status = "hardware" // a real meter with a known load
)

// Model is one product of a family.
type Model struct {
	Name string
	USB  USBID // zero where the model has none of its own
	// Accuracy as its maker states it; the zero value where it is not known.
	Accuracy Accuracy
	// Traps are what a user should know before trusting it, a sentence each.
	Traps []string
}

// USBID is how a model shows itself on the bus. Makers share ids, so it never
// identifies a meter alone.
type USBID struct{ Vendor, Product uint16 }

// Options is what the caller knows of a meter that its bytes do not tell.
type Options struct {
	// Place is what the spec says of where the meter is: a chip's name, a
	// domain. A meter behind a port does not need it.
	Place string
	// Settings are those of the spec, by key. Keys that the driver does not
	// list are refused before.
	Settings map[string]string
	Model    string // name of a Model; "" for the driver's first
	Serial   string // of the USB device; cheap meters share one
	Firmware string // version, as the meter's display shows it
	// Notify is told what happens beside the samples; it may be nil. It is
	// called by Stream's goroutine, always before the block it is about.
	Notify func(Notice)
}

// Notice is something that a driver has to tell beside its samples. It becomes
// a note of the run.
type Notice struct {
	HostNs int64  // ns since the run's start
	Code   string // one of those below, or the driver's own
	Text   string
	Count  int64 // how often; 0 where it is not countable
	Warn   bool  // it belongs on every result
	// GapNs says that no samples came for so long before the next block, in
	// host ns. Beyond SegmentGapNs the recorder opens a new segment first.
	GapNs int64
}

// Codes of notices that several drivers share.
const (
	BadPackets        = "bad-packets"        // damaged on the way; their samples are NaN
	ImpossibleFirst   = "impossible-first"   // left over from before, left out
	ImpossibleSamples = "impossible-samples" // beyond the meter's range, NaN
	Interrupted       = "interrupted"        // the stream stopped and went on
	LostSamples       = "lost-samples"       // missing by the meter's own count; they are NaN
)

// SegmentGapNs is the longest interruption within one segment, in host ns:
// beyond it nobody should count samples across.
const SegmentGapNs = 1_000_000_000

// Meter is an open instrument. What only some can do is a further interface.
type Meter interface {
	// Info describes the meter; its Stream is for the recorder to name.
	Info() Info
	// Stream hands over samples until ctx ends, which is no error, and then
	// returns within a second. It may be called once. emit is called by
	// Stream's goroutine and must not wait for slow things; the block and
	// its slices are reused when it has returned. An error of emit ends the
	// stream and is returned as it is.
	Stream(ctx context.Context, emit func(Block) error) error
	// Close leaves the meter ready for the next program, which may take some
	// seconds, and closes the port. It is for the time after Stream has
	// returned. A second call does nothing.
	Close() error
}

// Port carries the reports of one meter, or its byte stream in pieces. Its
// clock is the run's host clock; a port that is emulated or recorded has a
// virtual one.
type Port interface {
	// Read waits for a report until the host clock shows untilNs, and returns
	// its length and the host time taken right after the read. What has
	// arrived already is returned whatever untilNs is. The error is
	// os.ErrDeadlineExceeded where nothing came; any other one is final.
	Read(p []byte, untilNs int64) (n int, hostNs int64, err error)
	// Write sends one report, within about a second. An error is not final.
	Write(p []byte) error
	// HostNs reads the host clock, ns since the run's start.
	HostNs() int64
	Close() error
}

// ErrNoSamples is the cause of an error of Stream where the meter can be
// spoken to but sends no samples, or no longer.
var ErrNoSamples = errors.New("the meter sends no samples")

// ErrUnplugged is the cause of an error of a Port whose meter is gone.
var ErrUnplugged = errors.New("the meter was unplugged")

// ErrBusy is the cause of an error to open a port that another program has.
var ErrBusy = errors.New("in use")

// HostClock reads the host clock, ns since the run's start.
type HostClock func() int64

// NewHostClock returns a host clock that starts now. It is monotonic.
func NewHostClock() HostClock {
	start := time.Now()
	return func() int64 { return int64(time.Since(start)) }
}

// Host is a machine as a meter made of files sees it.
type Host interface {
	// Open opens a file; names are those below /, such as "sys/class/hwmon".
	fs.FS
	// HostNs reads the host clock, ns since the run's start.
	HostNs() int64
	// Wait returns when the host clock shows untilNs, or with the error of a
	// context that ends before.
	Wait(ctx context.Context, untilNs int64) error
}

// NewHost returns this machine.
func NewHost(clock HostClock) Host { return NewHostAt("/", clock) }

// NewHostAt returns this machine with its files below another folder than /.
func NewHostAt(root string, clock HostClock) Host {
	return host{os.DirFS(root).(fs.ReadLinkFS), clock}
}

type host struct {
	fs.ReadLinkFS // places in sysfs are links
	clock         HostClock
}

func (h host) HostNs() int64 { return h.clock() }

func (h host) Wait(ctx context.Context, untilNs int64) error {
	wait := time.Duration(untilNs - h.clock())
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
