package target

import (
	"bytes"
	"crypto/sha256"

	"github.com/joulemark/joulemark/sync/mark"
)

// spinSteps is the work of one spin: about a millisecond on a laptop, some
// twenty on a Raspberry Pi Zero (assumed).
const spinSteps = 1_000_000

// loads are operations without keys.
func loads() []Op {
	load := func(alg, impl string, prepare func(Params) Batch) Op {
		return Op{mark.Op{Alg: alg, Op: "run"}, impl, func(p Params) (Batch, error) { return prepare(p), nil }}
	}
	return []Op{
		load("empty", own, func(Params) Batch { return empty{} }),
		load("spin", own, func(p Params) Batch { return &spin{p: p, kept: newKept[uint64](p.N)} }),
		load("sha256", std, func(p Params) Batch {
			return &hash{p: p, messages: newMessages(p.MsgBytes), kept: newKept[[sha256.Size]byte](p.N)}
		}),
		load("memcpy", own, func(p Params) Batch {
			return &copying{from: newMessages(p.MsgBytes), to: make([]byte, p.MsgBytes), last: p.N - 1}
		}),
	}
}

// Where implementations come from.
const (
	own    = "joulemark"
	std    = "go"
	cloudf = "circl"
)

// empty does nothing: what is left is the cost of a window.
type empty struct{}

func (empty) Do(int64) bool         { return true }
func (empty) Check() (int64, int64) { return 0, 0 }

// spin keeps the processor busy and touches no memory.
type spin struct {
	p    Params
	kept kept[uint64]
}

func (s *spin) Do(i int64) bool {
	s.kept.put(i, steps(uint64(i)))
	return true
}

func (s *spin) Check() (checked, fail int64) {
	return s.kept.check(s.p, func(i int64, v uint64) bool { return v == steps(uint64(i)) && v != steps(uint64(i)+1) })
}

// steps runs a xorshift generator (Marsaglia 2003, 64 bits, shifts 13, 7, 17):
// each step waits for the one before.
func steps(x uint64) uint64 {
	x = x<<1 | 1 // never 0, where it would stay
	for range spinSteps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// hash is SHA-256 (FIPS 180-4) of a message.
type hash struct {
	p        Params
	messages messages
	kept     kept[[sha256.Size]byte]
}

func (h *hash) Do(i int64) bool {
	h.kept.put(i, sha256.Sum256(h.messages.message(i)))
	return true
}

// Check computes the hash in another way, in pieces.
func (h *hash) Check() (checked, fail int64) {
	return h.kept.check(h.p, func(i int64, sum [sha256.Size]byte) bool {
		return bytes.Equal(sum[:], inPieces(h.messages.message(i))) &&
			(h.p.MsgBytes == 0 || !bytes.Equal(sum[:], inPieces(tampered(h.messages.message(i)))))
	})
}

func inPieces(text []byte) []byte {
	const piece = 61 // never a whole block
	h := sha256.New()
	for len(text) > 0 {
		n := min(piece, len(text))
		h.Write(text[:n])
		text = text[n:]
	}
	return h.Sum(nil)
}

// copying copies a message.
type copying struct {
	from messages
	to   []byte
	last int64
}

func (c *copying) Do(i int64) bool {
	copy(c.to, c.from.message(i))
	return true
}

func (c *copying) Check() (checked, fail int64) {
	if !bytes.Equal(c.to, c.from.message(c.last)) {
		return 1, 1
	}
	return 1, 0
}
