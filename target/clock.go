package target

import "time"

// tickHz: ticks are ns.
const tickHz = 1e9

// clock counts ns of the system's monotonic clock since the program started.
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) ticks() int64 { return int64(time.Since(c.start)) }
