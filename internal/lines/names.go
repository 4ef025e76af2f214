package lines

import (
	"strings"

	"github.com/joulemark/joulemark/sync/mark"
)

// opNames are what programs call the operations of the protocol.
var opNames = map[string]string{
	"keypair": "keygen", "keygens": "keygen", "signs": "sign", "encap": "encaps", "decap": "decaps", "encapsulate": "encaps", "decapsulate": "decaps",
}

// opName is the protocol's name of an operation, or the name as it is.
func opName(name string) string {
	name = strings.ToLower(name)
	if n, ok := opNames[name]; ok {
		return n
	}
	return name
}

// algNames are the protocol's names of algorithms by what is left of them
// without case and separators.
var algNames = func() map[string]string {
	m := map[string]string{}
	for _, name := range mark.Algorithms() {
		m[plain(name)] = name
	}
	return m
}()

// algName is the protocol's name of an algorithm that a program spells
// otherwise (mldsa44, SLH_DSA_PURE_SHA2_128S), or the name as it is.
func algName(name string) string {
	p := plain(name)
	if n, ok := algNames[p]; ok {
		return n
	}
	// liboqs tells pure SLH-DSA from prehashed by a word of its own.
	if n, ok := algNames[strings.Replace(p, "slhdsapure", "slhdsa", 1)]; ok {
		return n
	}
	return name
}

func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))
}
