package target

import (
	"fmt"
	"sync/atomic"
	"time"
)

// worker does operations, and stops between two of them.
type worker struct {
	batch     Batch
	halted    func() bool
	clock     clock
	latencies *latencies

	timeout time.Duration
	timer   *time.Timer
	late    *atomic.Bool
}

// limit begins the time that the work may take.
func (w *worker) limit(d time.Duration) {
	late := new(atomic.Bool)
	w.timeout, w.late = d, late
	w.timer = time.AfterFunc(d, func() { late.Store(true) })
}

func (w *worker) ended() bool { return w.late.Load() || w.halted() }

// reason says why work ended early.
func (w *worker) reason() error {
	if w.halted() {
		return errStopped
	}
	return &refusal{"timeout", fmt.Sprintf("it took longer than %v", w.timeout)}
}

// warm does n operations that are not counted. It reports false where it ended
// early.
func (w *worker) warm(n int64) bool {
	for i := range n {
		if w.ended() {
			return false
		}
		w.batch.Do(-1 - i)
	}
	return !w.ended()
}

// run does n operations from t0 to t1 (ticks) and counts those that gave no
// answer or a wrong one. It takes latencies of the first operation and then of
// one each clockSeconds.
func (w *worker) run(n int64) (t0, t1, fail int64, whole bool) {
	next := int64(0)
	t0 = w.clock.ticks()
	for i := range n {
		if w.ended() {
			return t0, w.clock.ticks(), fail, false
		}
		ok := true
		if i < next {
			ok = w.batch.Do(i)
		} else {
			from := w.clock.ticks()
			ok = w.batch.Do(i)
			took := w.clock.ticks() - from
			w.latencies.add(took)
			next = i + strideOf(took)
		}
		if !ok {
			fail++
		}
	}
	t1 = w.clock.ticks()
	return t0, t1, fail, !w.late.Load()
}

// strideOf is how many operations of that length, ns, make clockSeconds. It is
// odd, so that all items of a pool are met.
func strideOf(ns int64) int64 { return int64(clockSeconds*tickHz)/max(ns, 1) | 1 }
