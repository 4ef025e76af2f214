// Command joulemark-target runs on the machine that is measured, and obeys
// joulemark on the other end of a line: see docs/target.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/serial"
	"github.com/joulemark/joulemark/target"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

type options struct {
	serial, tcp string
	pin         int
	timeout     time.Duration
	list        bool
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	var o options
	f := flag.NewFlagSet("joulemark-target", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.serial, "serial", "", "obey the host on this `line`, such as /dev/ttyAMA0,115200")
	f.StringVar(&o.tcp, "tcp", "", "obey the host at this `address`, such as :4000; without a host part, from this machine alone")
	f.IntVar(&o.pin, "pin", -1, "keep to this `processor`, counted from 0")
	f.DurationVar(&o.timeout, "timeout", target.DefaultTimeout, "the longest window, and the longest warming up")
	f.BoolVar(&o.list, "list", false, "print the operations with where they come from, and end")
	f.Usage = func() {
		fmt.Fprintln(errs, "usage: joulemark-target [flags]\n\nObeys joulemark on stdin and stdout, or on a line or port that is named:")
		f.PrintDefaults()
	}
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if f.NArg() > 0 || o.serial != "" && o.tcp != "" || o.timeout <= 0 {
		fmt.Fprintln(errs, "joulemark-target: give either --serial or --tcp, a --timeout above 0, and no arguments")
		return exitUsage
	}
	err := serve(ctx, o, in, out, errs)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errUsage):
		fmt.Fprintln(errs, "joulemark-target:", err)
		return exitUsage
	}
	fmt.Fprintln(errs, "joulemark-target:", err)
	var p *meters.Problem
	if errors.As(err, &p) {
		fmt.Fprintln(errs, "hint:", p.Hint)
	}
	return exitFailed
}

var errUsage = errors.New("wrong usage")

func serve(ctx context.Context, o options, in io.Reader, out, errs io.Writer) error {
	if o.list {
		for _, op := range target.Ops() {
			fmt.Fprintf(out, "%s\t%s\n", op.Op, op.Impl)
		}
		return nil
	}
	if o.pin >= 0 {
		if err := target.Pin(o.pin); err != nil {
			return err
		}
	}
	t := target.New()
	t.Timeout = o.timeout
	switch {
	case o.serial != "":
		return onSerial(ctx, t, o.serial)
	case o.tcp != "":
		return onTCP(ctx, t, o.tcp, errs)
	}
	return t.Serve(ctx, in, out, 0)
}

const defaultBaud = 115200

// onSerial obeys the host on a serial line, PATH or PATH,BAUD.
func onSerial(ctx context.Context, t *target.Target, spec string) error {
	path, rate, given := strings.Cut(spec, ",")
	baud := defaultBaud
	if given {
		var err error
		if baud, err = strconv.Atoi(rate); err != nil || baud <= 0 {
			return fmt.Errorf("%w: --serial %q is not PATH,BAUD", errUsage, spec)
		}
	}
	port, err := serial.Open(path, baud, meters.NewHostClock())
	if err != nil {
		return err
	}
	defer port.Close()
	s := target.Stream{Port: port}
	return t.Serve(ctx, s, s, baud)
}

// onTCP obeys one host at a time.
func onTCP(ctx context.Context, t *target.Target, address string, errs io.Writer) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: --tcp %q is not HOST:PORT", errUsage, address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("listen: %w; port 0 takes a free one", err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	fmt.Fprintf(errs, "joulemark-target: tcp:%s\n", l.Addr())
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		fmt.Fprintln(errs, "joulemark-target: other machines can reach it, and it obeys anyone")
	}
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		if err := t.Serve(ctx, c, c, 0); err != nil && ctx.Err() == nil {
			fmt.Fprintln(errs, "joulemark-target:", err) // this host is gone, the next one may come
		}
		c.Close()
	}
}
