package target

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"

	"github.com/cloudflare/circl/sign/ed448"
)

// curves are the signatures over elliptic curves. Those of RFC 8032 have no
// randomness in signing; ECDSA (FIPS 186-5) signs SHA-256 or SHA-384 of the
// message, with fresh randomness, in ASN.1.
func curves() []signature {
	return []signature{
		{
			alg: "Ed25519", impl: std,
			generate: func() (signatureKey, error) {
				_, sk, err := ed25519.GenerateKey(rand.Reader)
				return ed25519Key(sk), err
			},
			named: func(name string) (signatureKey, error) {
				return ed25519Key(ed25519.NewKeyFromSeed(seed("Ed25519", name, ed25519.SeedSize))), nil
			},
		},
		{
			alg: "Ed448", impl: cloudf,
			generate: func() (signatureKey, error) {
				_, sk, err := ed448.GenerateKey(rand.Reader)
				return newEd448(sk), err
			},
			named: func(name string) (signatureKey, error) {
				return newEd448(ed448.NewKeyFromSeed(seed("Ed448", name, ed448.SeedSize))), nil
			},
		},
		ecdsas("ECDSA-P256", elliptic.P256(), func(msg []byte) []byte { h := sha256.Sum256(msg); return h[:] }),
		ecdsas("ECDSA-P384", elliptic.P384(), func(msg []byte) []byte { h := sha512.Sum384(msg); return h[:] }),
	}
}

type ed25519Key ed25519.PrivateKey

func (k ed25519Key) sign(msg, _ []byte) ([]byte, error) {
	return ed25519.Sign(ed25519.PrivateKey(k), msg), nil
}

func (k ed25519Key) verify(msg, sig []byte) bool {
	// The public key is the second half of a private one.
	return ed25519.Verify(ed25519.PublicKey(k[ed25519.SeedSize:]), msg, sig)
}

type ed448Key struct {
	public  ed448.PublicKey
	private ed448.PrivateKey
}

func newEd448(sk ed448.PrivateKey) signatureKey {
	return &ed448Key{ed448.PublicKey(sk[ed448.SeedSize:]), sk}
}

func (k *ed448Key) sign(msg, _ []byte) ([]byte, error) { return ed448.Sign(k.private, msg, ""), nil }
func (k *ed448Key) verify(msg, sig []byte) bool        { return ed448.Verify(k.public, msg, sig, "") }

type ecdsaKey struct {
	private *ecdsa.PrivateKey
	hash    func([]byte) []byte
}

func (k ecdsaKey) sign(msg, _ []byte) ([]byte, error) {
	return ecdsa.SignASN1(rand.Reader, k.private, k.hash(msg))
}

func (k ecdsaKey) verify(msg, sig []byte) bool {
	return ecdsa.VerifyASN1(&k.private.PublicKey, k.hash(msg), sig)
}

func ecdsas(alg string, curve elliptic.Curve, hash func([]byte) []byte) signature {
	return signature{
		alg: alg, impl: std,
		generate: func() (signatureKey, error) {
			sk, err := ecdsa.GenerateKey(curve, rand.Reader)
			return ecdsaKey{sk, hash}, err
		},
		named: func(name string) (signatureKey, error) {
			sk, err := scalar(alg, name, (curve.Params().BitSize+7)/8, func(b []byte) (*ecdsa.PrivateKey, error) {
				return ecdsa.ParseRawPrivateKey(curve, b)
			})
			return ecdsaKey{sk, hash}, err
		},
	}
}

// scalar makes the private key of a named key. A seed above the order of the
// curve, one of 2^32 for P-256, is no key; the next one is tried.
func scalar[K any](alg, name string, bytes int, parse func([]byte) (K, error)) (key K, err error) {
	for try := range 4 {
		if try > 0 {
			name = fmt.Sprintf("%s again", name)
		}
		if key, err = parse(seed(alg, name, bytes)); err == nil {
			return key, nil
		}
	}
	return key, err
}
