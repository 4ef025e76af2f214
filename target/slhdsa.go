package target

import (
	"crypto/rand"
	"io"
	mathrand "math/rand/v2"

	"github.com/cloudflare/circl/sign/slhdsa"
)

// slhdsas are the parameter sets of SLH-DSA (FIPS 205), signing pure and
// hedged.
func slhdsas() []signature {
	var all []signature
	for _, id := range []slhdsa.ID{
		slhdsa.SHA2_128s, slhdsa.SHA2_128f, slhdsa.SHA2_192s, slhdsa.SHA2_192f, slhdsa.SHA2_256s, slhdsa.SHA2_256f,
		slhdsa.SHAKE_128s, slhdsa.SHAKE_128f, slhdsa.SHAKE_192s, slhdsa.SHAKE_192f, slhdsa.SHAKE_256s, slhdsa.SHAKE_256f,
	} {
		all = append(all, signature{
			alg: id.String(), impl: cloudf,
			generate: func() (signatureKey, error) { return newSLHDSA(id, rand.Reader) },
			named: func(name string) (signatureKey, error) {
				return newSLHDSA(id, mathrand.NewChaCha8([32]byte(seed(id.String(), name, 32))))
			},
		})
	}
	return all
}

type slhdsaKey struct {
	public  slhdsa.PublicKey
	private slhdsa.PrivateKey
}

func newSLHDSA(id slhdsa.ID, random io.Reader) (signatureKey, error) {
	pk, sk, err := slhdsa.GenerateKey(random, id)
	return &slhdsaKey{pk, sk}, err
}

func (k *slhdsaKey) sign(msg, _ []byte) ([]byte, error) {
	return slhdsa.SignRandomized(&k.private, rand.Reader, slhdsa.NewMessage(msg), nil)
}

func (k *slhdsaKey) verify(msg, sig []byte) bool {
	return slhdsa.Verify(&k.public, slhdsa.NewMessage(msg), sig, nil)
}
