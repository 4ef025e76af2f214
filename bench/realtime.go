package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/joulemark/joulemark/internal/record"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// Driver is the virtual bench in real time. Its meters are also
// record.Listeners.
var Driver = meters.Driver{
	Name:       "virtual",
	Summary:    "The virtual bench in real time: an emulated target carries out a plan, its meter and its marks are recorded. The place is a scenario",
	Status:     meters.Emulated,
	Rate:       "as the scenario says",
	Transports: []meters.Transport{meters.Emulation},
	Models:     []meters.Model{{Name: "virtual USB meter", Traps: []string{"Nothing is measured: whatever comes of it is marked simulated."}}},
	Settings: []meters.Setting{
		{Key: "seed", Help: "of everything that is random (default 1)"},
		{Key: "target", Help: "emulated target (default the scenario's)"},
	},
	Find:     func(meters.Host) []meters.Found { return nil },
	OpenHost: openVirtual,
}

func openVirtual(_ context.Context, h meters.Host, o meters.Options) (meters.Meter, error) {
	s, err := LoadScenario(cmp.Or(o.Place, "default"))
	if err != nil {
		return nil, &meters.Problem{Err: fmt.Errorf("open virtual meter: %w", err), Hint: "scenarios: " + fmt.Sprint(Scenarios())}
	}
	s.Target = cmp.Or(o.Settings["target"], s.Target)
	seed, err := strconv.ParseUint(cmp.Or(o.Settings["seed"], "1"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("open virtual meter: seed: %w", err)
	}
	r, err := NewRecital(s, seed)
	if err != nil {
		return nil, fmt.Errorf("open virtual meter: %w", err)
	}
	return &virtualMeter{host: h, recital: r}, nil
}

// virtualMeter plays a world as host time passes. It hears the target.
type virtualMeter struct {
	host    meters.Host
	recital *Recital
	marks   record.Marks // nil where nobody listens
}

// Info describes the meter.
func (v *virtualMeter) Info() meters.Info {
	i := v.recital.Meter()
	i.Simulated = true
	return i
}

// Listen says where the target's lines go.
func (v *virtualMeter) Listen(to record.Marks) { v.marks = to }

// Stream plays until the plan is carried out.
func (v *virtualMeter) Stream(ctx context.Context, emit func(meters.Block) error) error {
	startNs := v.host.HostNs()
	for next := v.recital.Next(); !math.IsInf(next, 1); next = v.recital.Next() {
		if v.host.Wait(ctx, startNs+nanoseconds(next)) != nil {
			return nil
		}
		err := v.recital.Advance(float64(v.host.HostNs()-startNs)*1e-9, func(p Packet) error {
			return emit(meters.Block{ArrivalNs: startNs + p.ArrivalNs, Values: [][]float64{p.Volts, p.Amps}})
		}, func(l run.Line) error {
			l.HostNs += startNs
			if v.marks != nil {
				v.marks.Line(l)
			}
			return nil
		})
		if err != nil && err != ErrOver {
			return err
		}
	}
	return nil
}

// Close has nothing to leave in order.
func (v *virtualMeter) Close() error { return nil }
