package ppk2_test

import (
	"context"
	"math"
	"testing"

	emulated "github.com/joulemark/joulemark/bench/ppk2"
	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/ppk2"
	"github.com/joulemark/joulemark/sync/clock"
)

// Of a loss that is longer than a turn of the counter, the driver knows the
// rest beyond whole turns, and the arrivals show the turns: to some samples,
// since they scatter.
func TestLongLoss(t *testing.T) {
	const loss, rest, settled = 10_005, 10_005 % 64, 5000
	d := emulated.New(func(float64) emulated.Reading { return emulated.Reading{Amps: 20e-3} },
		emulated.Faults{StallSeconds: 6, StallSamples: loss}, 1)
	p := d.Open()
	m, err := ppk2.Driver.Open(context.Background(), p, meters.Options{Settings: map[string]string{"ampere": "3.3V"}})
	if err != nil {
		t.Fatal(err)
	}
	i := m.Info()
	a, err := clock.NewArrivals(i.RateHz, i.PacketSamples)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var rows, unknown, at int64
	err = m.Stream(ctx, func(b meters.Block) error {
		for _, amps := range b.Values[1] {
			if math.IsNaN(amps) {
				unknown, at = unknown+1, rows
			}
			rows++
		}
		if b.ArrivalNs >= 0 {
			a.Add(rows, float64(b.ArrivalNs)*1e-9)
		}
		if p.HostNs() > 12e9 {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if unknown != rest {
		t.Errorf("%d samples are unknown, want %d", unknown, rest)
	}
	a.Close()
	gaps := a.Gaps()
	if len(gaps) != 1 || math.Abs(float64(gaps[0].Rows-(loss-rest))) > 100 || gaps[0].Row < at || gaps[0].Row > at+3000 {
		t.Errorf("gaps are %+v, want %d rows after %d", gaps, loss-rest, at)
	}
}
