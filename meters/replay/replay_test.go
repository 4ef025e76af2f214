package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/replay"
)

const ms = int64(1e6)

// tape is a recording; an error is its last block.
type tape struct {
	info   meters.Info
	blocks []replay.Block
	err    error
}

func (r tape) Info() meters.Info { return r.info }

func (r tape) Blocks() iter.Seq2[replay.Block, error] {
	return func(yield func(replay.Block, error) bool) {
		for _, b := range r.blocks {
			if !yield(b, nil) {
				return
			}
		}
		if r.err != nil {
			yield(replay.Block{}, r.err)
		}
	}
}

// block of samples that arrived at a host time (ms); a negative one is not
// known.
func block(segment int, hostMs int64, amps ...float64) replay.Block {
	if hostMs >= 0 {
		hostMs *= ms
	}
	return replay.Block{Segment: segment, Block: meters.Block{ArrivalNs: hostMs, Values: [][]float64{amps}}}
}

// host has a virtual clock, which stops at endNs, if that is not 0.
type host struct {
	fs.FS
	hostNs, endNs int64
}

func (h *host) HostNs() int64 { return h.hostNs }
func (h *host) Wait(ctx context.Context, untilNs int64) error {
	if h.endNs > 0 && untilNs > h.endNs {
		h.hostNs = h.endNs
		return context.Canceled
	}
	h.hostNs = max(h.hostNs, untilNs)
	return ctx.Err()
}

// play writes what is replayed, from host time 1000 ms on: "NOW:ARRIVAL[amps]",
// times in ms.
func play(t *testing.T, r tape, settings string, endMs int64) string {
	t.Helper()
	set := map[string]string{}
	for _, pair := range strings.Fields(settings) {
		k, v, _ := strings.Cut(pair, "=")
		set[k] = v
	}
	h := &host{FS: fstest.MapFS{}, hostNs: 1000 * ms, endNs: endMs * ms}
	var did []string
	d := replay.New(func(path, stream string) (replay.Recording, error) {
		if path != "runs/a" {
			return nil, fs.ErrNotExist
		}
		return r, nil
	})
	m, err := d.OpenHost(context.Background(), h, meters.Options{Place: "runs/a", Settings: set, Notify: func(n meters.Notice) {
		did = append(did, fmt.Sprintf("%s+%d", n.Code, n.GapNs/ms))
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Stream(context.Background(), func(b meters.Block) error {
		arrival := b.ArrivalNs
		if arrival >= 0 {
			arrival /= ms
		}
		did = append(did, fmt.Sprintf("%d:%d%v", h.hostNs/ms, arrival, b.Values[0]))
		if len(did) == 1 && m.Info().Clock == meters.Shared {
			did = append(did, fmt.Sprintf("first@%d", m.Info().FirstHostNs/ms))
		}
		return nil
	})
	if err != nil {
		did = append(did, err.Error())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	return strings.Join(did, " ")
}

func TestReplay(t *testing.T) {
	hundred := meters.Info{Driver: "fnb58", Columns: []string{"watts"}, RateHz: 100, Clock: meters.ByArrival}
	shared := hundred
	shared.Clock, shared.FirstHostNs = meters.Shared, 300*ms
	timed := meters.Info{Columns: []string{"watts"}, Clock: meters.ByArrival}
	late := block(1, -1, 2)
	late.TimesNs = []int64{70 * ms}
	for _, c := range []struct {
		name     string
		tape     tape
		settings string
		endMs    int64
		want     string
	}{
		{"pace", tape{hundred, []replay.Block{block(1, 500, 1), block(1, 540, 2), block(1, 585, 3)}, nil}, "", 0, "1000:1000[1] 1040:1040[2] 1085:1085[3]"},
		{"faster", tape{hundred, []replay.Block{block(1, 500, 1), block(1, 540, 2)}, nil}, "speed=4", 0, "1000:1000[1] 1010:1040[2]"},
		{"slower", tape{hundred, []replay.Block{block(1, 500, 1), block(1, 540, 2)}, nil}, "speed=0.5", 0, "1000:1000[1] 1080:1040[2]"},
		{"as fast as it goes", tape{hundred, []replay.Block{block(1, 500, 1), block(1, 540, 2)}, nil}, "speed=max", 0, "1000:1000[1] 1000:1040[2]"},
		{"stopped", tape{hundred, []replay.Block{block(1, 500, 1), block(1, 540, 2)}, nil}, "", 1030, "1000:1000[1]"},
		{"an interruption", tape{hundred, []replay.Block{block(1, 500, 1), block(2, 2700, 2), block(2, 2740, 3)}, nil}, "", 0,
			"1000:1000[1] interrupted+2200 3200:3200[2] 3240:3240[3]"},
		{"a resume", tape{hundred, []replay.Block{block(1, 500, 1), block(2, 20, 2), block(2, 60, 3)}, nil}, "", 0,
			"1000:1000[1] interrupted+1000 2000:2000[2] 2040:2040[3]"},
		{"a part without arrival", tape{hundred, []replay.Block{block(1, 500, 1), block(1, -1, 2), block(1, 540, 3)}, nil}, "", 0,
			"1000:1000[1] 1000:-1[2] 1040:1040[3]"},
		{"imported, with a rate", tape{hundred, []replay.Block{block(1, -1, 1, 1), block(1, -1, 2, 2)}, nil}, "", 0, "1000:-1[1 1] 1020:-1[2 2]"},
		{"imported, with times", tape{timed, []replay.Block{{Segment: 1, Block: meters.Block{ArrivalNs: -1, Values: [][]float64{{1}}, TimesNs: []int64{0}}}, late}, nil}, "", 0,
			"1000:-1[1] 1070:-1[2]"},
		{"shared clock", tape{shared, []replay.Block{block(1, -1, 1), block(1, -1, 2)}, nil}, "", 0, "1010:-1[1] first@1000 1020:-1[2]"},
		{"shared clock, interrupted", tape{shared, []replay.Block{block(1, -1, 1), block(2, -1, 2)}, nil}, "", 0,
			"1010:-1[1] first@1000 replay: the recording was interrupted, and its clock is that of its marks: it cannot go on"},
		{"damaged", tape{hundred, []replay.Block{block(1, 500, 1)}, errors.New("the CRC does not match")}, "", 0, "1000:1000[1] replay: the CRC does not match"},
		{"empty", tape{info: hundred}, "", 0, ""},
	} {
		if got := play(t, c.tape, c.settings, c.endMs); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	d := replay.New(func(string, string) (replay.Recording, error) { return nil, fs.ErrNotExist })
	for _, c := range []struct{ place, speed, want string }{
		{"", "", "open replay: no run is named"},
		{"x", "0", "open replay: speed=0 is neither max nor a number from 0.001 to 1e6"},
		{"x", "NaN", "open replay: speed=NaN is neither max nor a number from 0.001 to 1e6"},
		{"x", "2", "open replay: file does not exist"},
	} {
		o := meters.Options{Place: c.place, Settings: map[string]string{}}
		if c.speed != "" {
			o.Settings["speed"] = c.speed
		}
		if _, err := d.OpenHost(context.Background(), &host{}, o); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
