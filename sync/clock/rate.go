package clock

import "math"

// Rate finds the rate of a stream of packets in the presence of losses and
// stalls: it compares the earliest packet of each stretch with that of the
// stretch before and leaves out the steps that a loss or a stall made, which
// differ from the others by a packet at least. It needs constant memory.
//
// Arrivals, which decides as packets come, cannot tell a loss at its start from
// a slow clock. Who can read the packets twice asks Rate first.
type Rate struct {
	rateHz     float64
	packetRows float64

	start       int64 // first row of the stretch
	rows        int64 // in a stretch
	begun       bool
	least, last Pair // earliest packet of this stretch and of the one before
	haveLast    bool

	steps, clean int
	// Sums over clean steps: source time, how much longer the host's was, and
	// the squares of both and their product.
	source, apart, ss, aa, sa float64
}

// stretchPackets is the length of a stretch: so short that most hold no loss,
// and so long that its earliest packet is hardly late.
const stretchPackets = 25

// NewRate follows a stream of rateHz samples a second by its nominal rate, in
// packets of packetRows.
func NewRate(rateHz float64, packetRows int) *Rate {
	p := int64(max(packetRows, 1))
	return &Rate{rateHz: rateHz, packetRows: float64(p), rows: stretchPackets * p}
}

// Add takes one packet as Arrivals.Add does.
func (r *Rate) Add(row int64, hostSeconds float64) {
	p := Pair{float64(row) / r.rateHz, hostSeconds}
	if !r.begun || row-r.start >= r.rows || row < r.start {
		r.end()
		r.begun, r.start, r.least = true, row, p
		return
	}
	// Earliest against the nominal rate; within a stretch that is as good as any.
	if p.HostSeconds-p.SourceSeconds < r.least.HostSeconds-r.least.SourceSeconds {
		r.least = p
	}
}

// end closes a stretch.
func (r *Rate) end() {
	if !r.begun {
		return
	}
	if r.haveLast {
		ds, dh := r.least.SourceSeconds-r.last.SourceSeconds, r.least.HostSeconds-r.last.HostSeconds
		r.steps++
		if apart := dh - ds; ds > 0 && math.Abs(apart) < max(r.packetRows/r.rateHz/2, leastShift) {
			r.clean++
			r.source += ds
			r.apart += apart
			r.ss += ds * ds
			r.aa += apart * apart
			r.sa += ds * apart
		}
	}
	r.last, r.haveLast = r.least, true
}

// Limits of what Rate can say.
const (
	leastSteps  = 10   // clean ones
	leastClean  = 0.25 // share of them
	rateWanders = 1e-4 // of a clock within a run, relative
)

// Found returns host seconds per second of the sample clock, and how far off
// that may be; ok is false where the stream does not show it.
func (r *Rate) Found() (rate, tolerance float64, ok bool) {
	if r.clean < leastSteps || float64(r.clean) < leastClean*float64(r.steps) {
		return 1, nominalRate, false
	}
	off := r.apart / r.source
	scatter := math.Max(0, r.aa-2*off*r.sa+off*off*r.ss)
	// Neighbouring steps share a stretch, so that their errors cancel where they
	// follow each other: this is an upper bound.
	tolerance = 4*math.Sqrt(scatter)/r.source + rateWanders
	return 1 + off, math.Min(tolerance, nominalRate), true
}
