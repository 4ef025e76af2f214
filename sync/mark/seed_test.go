package mark

import (
	"flag"
	"math/rand/v2"
)

var seedFlag = flag.Uint64("seed", 1, "seed of random tests; 0 draws one")

// newSeed returns the seed of a random test, which prints it when it fails.
func newSeed() uint64 {
	if *seedFlag == 0 {
		return rand.Uint64()
	}
	return *seedFlag
}
