package target

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
)

// rsas are signatures of RFC 8017 over SHA-256. A name of a key is the same key
// only as long as the program runs: the standard library takes no seed.
func rsas() []signature {
	var all []signature
	for _, bits := range []int{2048, 3072} {
		alg := fmt.Sprintf("RSA-%d", bits)
		generate := func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, bits) }
		shared := newKeys(alg, func(string) (*rsa.PrivateKey, error) { return generate() })
		all = append(all,
			signature{alg: alg, impl: std, ops: []string{"keygen"}, generate: func() (signatureKey, error) {
				sk, err := generate()
				return pssKey{sk}, err
			}},
			signature{alg: alg + "-PSS", impl: std, ops: []string{"sign", "verify"}, named: func(name string) (signatureKey, error) {
				sk, err := shared.get(name)
				return pssKey{sk}, err
			}},
			signature{alg: alg + "-PKCS1", impl: std, ops: []string{"sign", "verify"}, named: func(name string) (signatureKey, error) {
				sk, err := shared.get(name)
				return pkcs1Key{sk}, err
			}},
		)
	}
	return all
}

// pssKey signs with RSASSA-PSS, the salt as long as the hash.
type pssKey struct{ private *rsa.PrivateKey }

var pssOptions = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}

func (k pssKey) sign(msg, _ []byte) ([]byte, error) {
	h := sha256.Sum256(msg)
	return rsa.SignPSS(rand.Reader, k.private, crypto.SHA256, h[:], pssOptions)
}

func (k pssKey) verify(msg, sig []byte) bool {
	h := sha256.Sum256(msg)
	return rsa.VerifyPSS(&k.private.PublicKey, crypto.SHA256, h[:], sig, pssOptions) == nil
}

// pkcs1Key signs with RSASSA-PKCS1-v1_5.
type pkcs1Key struct{ private *rsa.PrivateKey }

func (k pkcs1Key) sign(msg, _ []byte) ([]byte, error) {
	h := sha256.Sum256(msg)
	return rsa.SignPKCS1v15(nil, k.private, crypto.SHA256, h[:])
}

func (k pkcs1Key) verify(msg, sig []byte) bool {
	h := sha256.Sum256(msg)
	return rsa.VerifyPKCS1v15(&k.private.PublicKey, crypto.SHA256, h[:], sig) == nil
}
