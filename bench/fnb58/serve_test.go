package fnb58

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// A meter that is served behaves as in virtual time, with the time of the
// wall; reports that nobody takes are lost, and the log has them all.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		inside, outside := net.Pipe()
		var log bytes.Buffer
		clock := meters.NewHostClock()
		s := Serve(New(nil, Faults{}, 1), inside, clock, &log)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		offered := make(chan struct{})
		go func() {
			defer close(offered)
			for i := int64(0); ctx.Err() == nil; i++ {
				s.Offer(ctx, [4]Reading{{Volts: 5, Amps: float64(i) / 1000}}, i)
				time.Sleep(40 * time.Millisecond)
			}
		}()
		time.Sleep(210 * time.Millisecond) // six packets have come
		outside.Write(command(0x82))
		b := make([]byte, 64)
		for i := range int64(3) {
			if _, err := io.ReadFull(outside, b); err != nil || b[1] != 4 || clock() != (6+i)*40*ms {
				t.Fatalf("report %d at %d ns: % x, %v", i, clock(), b[:16], err)
			}
		}
		time.Sleep(900 * time.Millisecond) // from now on nobody reads
		outside.Write(command(0x82))       // for another second
		time.Sleep(3 * time.Second)        // it stops by itself
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		inside.Close()
		<-offered

		lost, n := 0, int64(0)
		for lines := json.NewDecoder(&log); ; n++ {
			var r sentReport
			if err := lines.Decode(&r); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if r.Packet != 6+n || r.Volts != 5 || r.Amps != float64(r.Packet)/1000 || len(r.Report) != 64 {
				t.Errorf("report %d is logged as %+v", n, r)
			}
			if r.Lost {
				lost++
			}
		}
		if n < 50 || n > 53 || lost != int(n)-3-1-held {
			t.Errorf("%d reports in the log, %d lost", n, lost)
		}
	})
}

// The file's end is the meter's.
func TestServeEnds(t *testing.T) {
	inside, outside := net.Pipe()
	outside.Close()
	err := Serve(New(nil, Faults{}, 1), inside, meters.NewHostClock(), io.Discard).Run(context.Background())
	if !errors.Is(err, io.EOF) {
		t.Errorf("it ended with %v", err)
	}
}
