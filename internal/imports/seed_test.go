package imports

import (
	"flag"
	"math/rand/v2"
)

var seedFlag = flag.Uint64("seed", 1, "seed of random tests; 0 draws one")

var ppk2Bytes = flag.Int("ppk2-bytes", 32<<20, "size of the PPK2 export of the benchmark")

// newSeed returns the seed of a random test, which prints it when it fails.
func newSeed() uint64 {
	if *seedFlag == 0 {
		return rand.Uint64()
	}
	return *seedFlag
}
