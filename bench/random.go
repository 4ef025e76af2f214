package bench

import (
	"hash/fnv"
	"math/rand/v2"
)

// stream returns the random numbers of one named effect. Each effect draws
// from a stream of its own, so that adding one leaves the draws of the others
// as they were.
func stream(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
