package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/joulemark/joulemark/bench"
	"github.com/joulemark/joulemark/bench/fnb58"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/fnirsi"
	"github.com/joulemark/joulemark/run"
)

const virtualHelp = `Serves the virtual bench in real time, for trying everything with nothing
plugged in: an emulated target waits for commands on a pseudo terminal or on
TCP, and the samples of an emulated meter that feeds it go to stdout, one packet
a line (JSON; docs/exec-meter.md says how).

  joulemark virtual --link /tmp/target > samples.jsonl
  joulemark virtual --tcp 127.0.0.1:4000 --target amd64 -o samples.jsonl

The target speaks the wire protocol: it answers hello, sync, run, idle, level
and stop, keeps its quiet zones, and the meter sees what it does. With --plan it
carries out the scenario's plan unasked and then ends; on TCP it begins with the
first connection.

With --hid the meter is a FNB58 behind a USB gadget of this machine, to be read
like a real one; docs/usb.md says how. It has the faults of the scenario, or
those of --fault.

Where the target is to be found is said on stderr. --speed lets time run faster;
times and ticks then stay those of the virtual bench. Ctrl-C ends it, and so
does whoever reads the samples by closing the pipe.`

// virtualFlags is what a person asks of virtual.
type virtualFlags struct {
	scenario, target string
	seed             uint64
	speed            float64
	plan             bool
	link, tcp        string
	out, truth       string
	hid, sent        string
	faults           []string
}

func virtualVerb(env *Env) *cobra.Command {
	var o virtualFlags
	c := &cobra.Command{
		Use: "virtual", Short: "serve the virtual bench in real time: a target to talk to, a meter's samples", Long: virtualHelp, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			scenario, err := o.scene(c.Flags().Changed("target"))
			if err != nil {
				return err
			}
			s, err := o.world(scenario)
			if err != nil {
				return err
			}
			return o.serve(c.Context(), env, s, scenario.Device)
		},
	}
	f := c.Flags()
	f.StringVar(&o.scenario, "scenario", "default", "scenario of the virtual bench: a `NAME`")
	f.StringVar(&o.target, "target", "", "emulated target: rv32 or amd64 (default the scenario's)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything that is random")
	f.Float64Var(&o.speed, "speed", 1, "virtual seconds a second, up to 1000")
	f.BoolVar(&o.plan, "plan", false, "carry out the scenario's plan unasked, then end")
	f.StringVar(&o.link, "link", "", "make `PATH` a link to the pseudo terminal")
	f.StringVar(&o.tcp, "tcp", "", "serve the target at this `HOST:PORT` instead of a pseudo terminal; port 0 takes a free one, no host means 127.0.0.1")
	f.StringVarP(&o.out, "output", "o", "", "write the samples to this `FILE`, which must not exist, instead of stdout")
	f.StringVar(&o.hid, "hid", "", "serve the meter as a FNB58 behind this gadget `NODE`, such as /dev/hidg0, instead of its samples")
	f.StringVar(&o.sent, "sent", "", "with --hid: write what the meter sends to this `FILE`, which must not exist (JSON lines)")
	f.StringArrayVar(&o.faults, "fault", nil, "with --hid: what the meter does wrong, a `KEY=VALUE` of a scenario's device, such as pause_seconds=10")
	f.StringVar(&o.truth, "truth", "", "write what is true of each window to this `FILE`, which must not exist (JSON lines)")
	return c
}

// stage is a world that is served: one that obeys, or one that plays its plan.
type stage interface {
	Meter() meters.Info
	Truth() bench.Truth
	Next() float64
	Advance(until float64, packet func(bench.Packet) error, line func(run.Line) error) error
	Command(text []byte)
	Waiting() int
	Settled() []bench.TrueWindow
}

// scene is the scenario of the flags, and checks these.
func (o *virtualFlags) scene(targetGiven bool) (bench.Scenario, error) {
	var s bench.Scenario
	switch {
	case !(o.speed > 0 && o.speed <= 1000):
		return s, usage("--speed %g is not above 0 and up to 1000", o.speed)
	case o.tcp != "" && o.link != "":
		return s, usage("--link belongs to a pseudo terminal, not to --tcp")
	case targetGiven && !slices.Contains(bench.Targets(), o.target):
		return s, usage("--target %q is none of %s", o.target, list(bench.Targets()))
	case o.hid != "" && (o.speed != 1 || o.out != ""):
		return s, usage("--hid is for a meter in real time, without samples on a file: leave out --speed and --output")
	case o.hid == "" && (o.sent != "" || o.faults != nil):
		return s, usage("--sent and --fault belong to --hid")
	}
	s, err := bench.LoadScenario(o.scenario)
	if err != nil {
		return s, hinted(err, "scenarios: "+list(bench.Scenarios()))
	}
	if targetGiven {
		s.Target = o.target
	}
	for _, f := range o.faults {
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			return s, usage("--fault %q is not KEY=VALUE", f)
		}
		if err := s.Set("device."+key, value); err != nil {
			return s, usage("--fault %s: %w", f, err)
		}
	}
	if o.hid != "" && s.Device.UnplugSeconds > 0 {
		return s, usage("--hid: a gadget is unplugged by its UDC, not by unplug_seconds")
	}
	return s, nil
}

// world makes the world of a scenario. Behind a gadget, what its device does is
// done here.
func (o *virtualFlags) world(s bench.Scenario) (stage, error) {
	if o.hid != "" {
		s.Meter.Driver, s.Device = bench.Direct, fnb58.Faults{}
	}
	if o.plan {
		return bench.NewRecital(s, o.seed)
	}
	return bench.NewLive(s, o.seed)
}

// serve opens the places where target and meter are to be found, and serves
// until it is interrupted, the world ends, or nobody reads the samples.
func (o *virtualFlags) serve(ctx context.Context, env *Env, s stage, faults fnb58.Faults) (err error) {
	// A pipe that is closed is an end like any other.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	v := &virtual{stage: s, speed: o.speed, samples: env.Stdout, truth: io.Discard, place: "stdout"}
	sent := io.Discard
	for _, out := range []struct {
		path string
		to   *io.Writer
	}{{o.out, &v.samples}, {o.truth, &v.truth}, {o.sent, &sent}} {
		if out.path == "" {
			continue
		}
		file, err := createNew(out.path)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		*out.to = file
	}
	if o.out != "" {
		v.place = o.out
	}
	if o.hid != "" {
		v.place = o.hid
	}
	if o.tcp != "" {
		v.socket, err = listen(o.tcp, env.Stderr)
	} else {
		v.socket, err = openTerminal(o.link)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.socket.close()) }()
	fmt.Fprintf(env.Stderr, "SIMULATED: target on %s, samples of the meter on %s\n", v.socket.name, v.place)
	if o.plan && v.socket.first != nil {
		fmt.Fprintln(env.Stderr, "the plan begins with the first connection")
		select {
		case <-v.socket.first:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if o.hid != "" {
		err = v.behind(ctx, o.hid, fnb58.New(nil, faults, o.seed), sent)
	} else {
		err = v.play(ctx)
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		fmt.Fprintln(env.Stderr, "nobody reads the samples any more")
		return nil
	case errors.Is(err, bench.ErrOver):
		return nil
	}
	return err
}

func createNew(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, hinted(fmt.Errorf("output %s exists", path), "name another file, or remove it")
	}
	if err != nil {
		return nil, hinted(fmt.Errorf("write output: %w", err), "name a place that you may write to")
	}
	return f, nil
}

// virtual is a world that is being served.
type virtual struct {
	stage
	speed          float64
	samples, truth io.Writer
	place          string // of the samples, for people
	socket         *socket
	line           []byte        // of samples, being written
	gadget         *fnb58.Served // where the samples go instead, if not nil
}

// play ties the world's time to the wall clock.
func (v *virtual) play(ctx context.Context) error {
	packet, header := v.packet, v.sampleHeader
	if v.gadget != nil {
		packet = func(p bench.Packet) error { return v.offer(ctx, p) }
		header = func() error { return nil }
	}
	if err := errors.Join(header(), v.truthHeader()); err != nil {
		return err
	}
	start := time.Now()
	now := func() float64 { return time.Since(start).Seconds() * v.speed }
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		commands := v.socket.lines
		if v.Waiting() >= bench.MaxWaiting {
			commands = nil // the sender waits
		}
		timer.Reset(time.Duration((v.Next() - now()) / v.speed * 1e9))
		var text []byte
		select {
		case <-ctx.Done():
			return ctx.Err()
		case text = <-commands:
		case <-timer.C:
		}
		err := v.Advance(now(), packet, func(l run.Line) error {
			v.socket.send(slices.Concat(l.Text, []byte("\n"))) // a line that came twice shares its bytes
			return nil
		})
		if text != nil {
			v.Command(text)
		}
		if err := errors.Join(err, v.tellTruth()); err != nil {
			return err
		}
	}
}

// behind plays the world with its meter behind a gadget.
func (v *virtual) behind(ctx context.Context, node string, meter *fnb58.Device, log io.Writer) error {
	file, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return hinted(fmt.Errorf("serve the meter: %w", err), "it takes a kernel with a HID gadget, as docs/usb.md sets it up")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v.gadget = fnb58.Serve(meter, file, meters.NewHostClock(), log)
	served := make(chan error, 1)
	go func() {
		served <- v.gadget.Run(ctx)
		cancel()
	}()
	err = v.play(ctx)
	cancel()
	if failed := <-served; !errors.Is(failed, context.Canceled) {
		err = fmt.Errorf("serve the meter behind %s: %w", node, failed)
	}
	return errors.Join(err, file.Close())
}

// celsius is what the meter's thermometer shows.
const celsius = 25

// offer gives the meter behind the gadget a packet.
func (v *virtual) offer(ctx context.Context, p bench.Packet) error {
	var readings [fnirsi.ReportSamples]fnb58.Reading
	for k := range readings {
		readings[k] = fnb58.Reading{Volts: p.Volts[k], Amps: p.Amps[k], Celsius: celsius}
	}
	v.gadget.Offer(ctx, readings, p.First/fnirsi.ReportSamples)
	return ctx.Err()
}

// sampleHeader writes the first line of docs/exec-meter.md.
func (v *virtual) sampleHeader() error {
	m := v.Meter()
	return writeLine(v.samples, struct {
		Schema    string            `json:"schema"`
		Simulated bool              `json:"simulated"`
		Driver    string            `json:"driver"`
		Model     string            `json:"model"`
		Serial    string            `json:"serial"`
		Firmware  string            `json:"firmware"`
		Columns   []string          `json:"columns"`
		RateHz    float64           `json:"rate_hz"`
		Packet    int               `json:"packet_samples"`
		Sample    meters.SampleKind `json:"sample"`
		Accuracy  string            `json:"accuracy"`
		Speed     float64           `json:"speed"`
	}{"joulemark.exec-meter/1", true, m.Driver, m.Model, m.Serial, m.Firmware, m.Columns, m.RateHz, m.PacketSamples, m.Sample, m.Accuracy.String(), v.speed})
}

// packet writes a line of samples.
func (v *virtual) packet(p bench.Packet) error {
	b := append(v.line[:0], `{"t_s":`...)
	b = appendNumber(b, float64(p.First)/v.Meter().RateHz)
	for i, column := range [][]float64{p.Volts, p.Amps} {
		b = append(b, []string{`,"volts":[`, `],"amps":[`}[i]...)
		for k, x := range column {
			if k > 0 {
				b = append(b, ',')
			}
			b = appendNumber(b, x)
		}
	}
	v.line = append(b, "]}\n"...)
	if _, err := v.samples.Write(v.line); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}

// appendNumber writes nine digits: more than any meter resolves.
func appendNumber(b []byte, x float64) []byte {
	if math.IsNaN(x) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, x, 'g', 9, 64)
}

// truthHeader writes what is true of the meter.
func (v *virtual) truthHeader() error {
	t := v.Truth()
	return writeLine(v.truth, struct {
		Schema      string  `json:"schema"`
		Target      string  `json:"target"`
		FirstSample float64 `json:"first_sample_s"`
		SampleHz    float64 `json:"sample_hz"`
		TickHz      float64 `json:"tick_hz"`
		VoltsGain   float64 `json:"volts_gain"`
		VoltsOffset float64 `json:"volts_offset"`
		AmpsGain    float64 `json:"amps_gain"`
		AmpsOffset  float64 `json:"amps_offset"`
	}{"joulemark.virtual-truth/1", t.Target, t.FirstSampleSeconds, t.SampleHz, t.TickHz, t.VoltsGain, t.VoltsOffset, t.AmpsGain, t.AmpsOffset})
}

// tellTruth writes what is true of the windows that are over.
func (v *virtual) tellTruth() error {
	for _, w := range v.Settled() {
		err := writeLine(v.truth, struct {
			W     int64   `json:"w"`
			Alg   string  `json:"alg"`
			Op    string  `json:"op"`
			N     int64   `json:"n"`
			T0    float64 `json:"t0_s"`
			T1    float64 `json:"t1_s"`
			Net   float64 `json:"net_j"`
			Gross float64 `json:"gross_j"`
			Idle  float64 `json:"idle_w"`
		}{w.W, w.Alg, w.Op, w.N, w.T0, w.T1, w.NetJoules, w.GrossJoules, w.IdleWatts})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %T: %w", v, err)
	}
	return nil
}
