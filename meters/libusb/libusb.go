//go:build cgo && libusb

package libusb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/gousb"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/hidraw"
)

// Missing says why this program cannot use libusb; it can.
const Missing = ""

const (
	inFlight = 8   // transfers that the host controller has to fill
	held     = 256 // reports that wait for the reader, 10 s of a FNB58
	writeFor = time.Second
	maxText  = 256 // bytes that are taken from a device about itself
)

// Find lists the interfaces of the devices on the USB, one for each class of a
// device. What devices say of themselves is read below root, the system's root
// folder, where that is Linux's.
func Find(root fs.FS) ([]meters.Device, error) {
	c, err := newContext()
	if err != nil {
		return nil, fmt.Errorf("list USB devices: %w", err)
	}
	defer c.Close()
	var found []meters.Device
	// Nothing is opened: errors are of devices whose descriptors cannot be read.
	c.OpenDevices(func(d *gousb.DeviceDesc) bool {
		found = append(found, describe(root, d)...)
		return false
	})
	return found, nil
}

// newContext begins to use libusb.
func newContext() (c *gousb.Context, err error) {
	defer func() {
		if why := recover(); why != nil { // gousb has no other way to say it
			err = fmt.Errorf("%v", why)
		}
	}()
	return gousb.NewContext(), nil
}

func describe(root fs.FS, d *gousb.DeviceDesc) []meters.Device {
	if len(d.Path) == 0 || len(d.Configs) == 0 {
		return nil // a hub of the host itself
	}
	m := meters.Device{
		Transport: meters.USB, Path: node(d), Bus: bus(d),
		USB: meters.USBID{Vendor: uint16(d.Vendor), Product: uint16(d.Product)},
	}
	in := path.Join("sys/bus/usb/devices", m.Bus)
	m.Product, m.Serial = attribute(root, in, "product"), attribute(root, in, "serial")
	if f, err := os.OpenFile(m.Path, os.O_RDWR, 0); err == nil {
		f.Close()
	} else if errors.Is(err, fs.ErrPermission) {
		m.Problem = problem(m.Path, m.USB, fs.ErrPermission)
	}
	var all []meters.Device
	for _, i := range firstConfig(d).Interfaces {
		for _, s := range i.AltSettings {
			m.Class = uint8(s.Class)
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// node names a device as Linux does; elsewhere the name is one all the same.
func node(d *gousb.DeviceDesc) string {
	return fmt.Sprintf("/dev/bus/usb/%03d/%03d", d.Bus, d.Address)
}

// bus is a device's place, BUS-PORT.PORT, as in Linux's sysfs.
func bus(d *gousb.DeviceDesc) string {
	ports := make([]string, len(d.Path))
	for i, p := range d.Path {
		ports[i] = strconv.Itoa(p)
	}
	return fmt.Sprintf("%d-%s", d.Bus, strings.Join(ports, "."))
}

func attribute(root fs.FS, dir, name string) string {
	b, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b[:min(len(b), maxText)]))
}

func firstConfig(d *gousb.DeviceDesc) gousb.ConfigDesc {
	first := gousb.ConfigDesc{}
	for n, c := range d.Configs {
		if first.Number == 0 || n < first.Number {
			first = c
		}
	}
	return first
}

// ends are the two ends of a meter's interface.
type ends struct {
	number  int // of the interface
	in, out gousb.EndpointDesc
}

// choose takes the first interface of a class and its first endpoints: numbers
// differ between models.
func choose(c gousb.ConfigDesc, class uint8) (ends, error) {
	for _, i := range c.Interfaces {
		// gousb looks an interface up by its number.
		if len(i.AltSettings) == 0 || uint8(i.AltSettings[0].Class) != class || i.Number >= len(c.Interfaces) {
			continue
		}
		e := ends{number: i.Number}
		for _, p := range i.AltSettings[0].Endpoints {
			if p.TransferType != gousb.TransferTypeInterrupt && p.TransferType != gousb.TransferTypeBulk {
				continue
			}
			to := &e.out
			if p.Direction == gousb.EndpointDirectionIn {
				to = &e.in
			}
			if to.Address == 0 || p.Address < to.Address {
				*to = p
			}
		}
		if e.in.Address == 0 || e.out.Address == 0 || e.in.MaxPacketSize == 0 {
			return e, fmt.Errorf("its interface %d lacks an endpoint in one direction", i.Number)
		}
		return e, nil
	}
	return ends{}, fmt.Errorf("it has no interface of class %d", class)
}

// Open opens a device and takes its first interface of a class. An error is a
// *meters.Problem where something helps. A report is one transfer: at most a
// packet of the endpoint. The port belongs to one goroutine.
func Open(path string, class uint8, clock meters.HostClock) (meters.Port, error) {
	c, err := newContext()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	p := &port{context: c, clock: clock}
	id, err := p.open(path, class)
	if err != nil {
		return nil, errors.Join(problem(path, id, err), p.release())
	}
	p.start()
	return p, nil
}

// problem says what keeps a device from being opened, and what helps.
func problem(path string, id meters.USBID, err error) error {
	p := &meters.Problem{Err: fmt.Errorf("open %s: %w", path, err)}
	switch {
	case errors.Is(err, fs.ErrPermission):
		p.Hint = meters.UdevHint(meters.USB, id)
	case errors.Is(err, fs.ErrNotExist):
		p.Hint = "plug the meter in, or see what is there with: joulemark meters"
	case errors.Is(err, meters.ErrBusy):
		p.Hint = "a meter serves one program at a time: end the other one"
	default:
		return p.Err
	}
	return p
}

// port is an interface that was taken.
type port struct {
	context *gousb.Context
	device  *gousb.Device
	config  *gousb.Config
	taken   *gousb.Interface
	out     *gousb.OutEndpoint
	stream  *gousb.ReadStream
	size    int // of a transfer
	clock   meters.HostClock

	stop    context.CancelFunc
	reports chan report   // closed by the reading goroutine
	ended   chan struct{} // it has ended
	failed  error         // why
	closed  bool
}

type report struct {
	hostNs int64
	bytes  []byte
}

// open takes the interface. It leaves what it has got so far in p.
func (p *port) open(path string, class uint8) (id meters.USBID, err error) {
	devices, err := p.context.OpenDevices(func(d *gousb.DeviceDesc) bool {
		if node(d) != path {
			return false
		}
		id = meters.USBID{Vendor: uint16(d.Vendor), Product: uint16(d.Product)}
		return true
	})
	switch {
	case len(devices) > 0:
		p.device = devices[0] // an error is another device's
	case err != nil && id != meters.USBID{}:
		return id, known(err)
	default:
		return id, fs.ErrNotExist
	}
	number, err := p.device.ActiveConfigNum()
	if err != nil {
		return id, known(err)
	}
	if p.config, err = p.device.Config(number); err != nil {
		return id, known(err)
	}
	e, err := choose(p.config.Desc, class)
	if err != nil {
		return id, err
	}
	if err := p.held(e.number); err != nil {
		return id, err
	}
	// Only now: before Config it would detach the drivers of all interfaces.
	// This way libusb detaches that of the interface that is claimed, and
	// attaches it again when it is released.
	if err := p.device.SetAutoDetach(true); err != nil && !errors.Is(err, gousb.ErrorNotSupported) {
		return id, known(err)
	}
	if p.taken, err = p.config.Interface(e.number, 0); err != nil {
		return id, known(err)
	}
	if p.out, err = p.taken.OutEndpoint(e.out.Number); err != nil {
		return id, err
	}
	in, err := p.taken.InEndpoint(e.in.Number)
	if err != nil {
		return id, err
	}
	p.size = e.in.MaxPacketSize
	p.stream, err = in.NewStream(p.size, inFlight)
	return id, known(err)
}

// held asks whether another program uses the interface through hidraw: it
// would lose the meter.
func (p *port) held(number int) error {
	nodeOf := hidraw.Node(meters.NewHost(nil), bus(p.device.Desc), number)
	if nodeOf == "" {
		return nil
	}
	if who := hidraw.Holder(nodeOf); who != "" {
		return fmt.Errorf("%w by %s, as %s", meters.ErrBusy, who, nodeOf)
	}
	return nil
}

// known gives libusb's errors the names that others know. gousb hands some on
// as text alone.
func known(err error) error {
	if err == nil {
		return nil
	}
	for _, k := range []struct{ of, as error }{
		{gousb.ErrorAccess, fs.ErrPermission}, {gousb.ErrorNoDevice, meters.ErrUnplugged},
		{gousb.TransferNoDevice, meters.ErrUnplugged}, {gousb.ErrorBusy, meters.ErrBusy},
	} {
		if errors.Is(err, k.of) || strings.Contains(err.Error(), k.of.Error()) {
			if k.as == meters.ErrBusy {
				return fmt.Errorf("%w by another program", k.as)
			}
			return k.as
		}
	}
	return err
}

// start begins to read.
func (p *port) start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop, p.reports, p.ended = stop, make(chan report, held), make(chan struct{})
	go func() {
		defer close(p.ended)
		defer close(p.reports)
		p.failed = p.read(ctx)
	}()
}

// read stamps each transfer when it is complete, until ctx ends or the device
// is gone. When it returns, no transfer is in flight any more.
func (p *port) read(ctx context.Context) error {
	for {
		b := make([]byte, p.size)
		n, err := p.stream.ReadContext(ctx, b)
		r := report{p.clock(), b[:n]}
		if err != nil {
			return err
		}
		if n == 0 {
			continue // the empty packet after a full one, which some devices send
		}
		select {
		case p.reports <- r:
		case <-ctx.Done(): // a read that fails takes the other transfers back
		}
	}
}

func (p *port) HostNs() int64 { return p.clock() }

func (p *port) Read(b []byte, untilNs int64) (int, int64, error) {
	if p.closed {
		return 0, p.clock(), os.ErrClosed
	}
	take := func(r report, ok bool) (int, int64, error) {
		if !ok {
			return 0, p.clock(), fmt.Errorf("read a report: %w", known(p.failed))
		}
		return copy(b, r.bytes), r.hostNs, nil
	}
	select {
	case r, ok := <-p.reports:
		return take(r, ok)
	default:
	}
	timer := time.NewTimer(time.Duration(max(0, untilNs-p.clock())))
	defer timer.Stop()
	select {
	case r, ok := <-p.reports:
		return take(r, ok)
	case <-timer.C:
		return 0, p.clock(), os.ErrDeadlineExceeded
	}
}

func (p *port) Write(b []byte) error {
	if p.closed {
		return os.ErrClosed
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeFor)
	defer cancel()
	_, err := p.out.WriteContext(ctx, b)
	return known(err)
}

// Close gives the interface back to the kernel's driver.
func (p *port) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	p.stop()
	<-p.ended
	return p.release()
}

// release gives back what was taken, in order.
func (p *port) release() error {
	var errs []error
	if p.taken != nil {
		p.taken.Close()
	}
	if p.config != nil {
		errs = append(errs, p.config.Close())
	}
	if p.device != nil {
		errs = append(errs, p.device.Close())
	}
	return errors.Join(append(errs, p.context.Close())...)
}
