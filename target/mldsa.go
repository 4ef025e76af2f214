package target

import (
	"crypto/rand"
	"io"

	"github.com/cloudflare/circl/sign/mldsa/mldsa44"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/cloudflare/circl/sign/mldsa/mldsa87"
)

// mldsa is a parameter set of ML-DSA (FIPS 204) with public keys P and private
// keys S. Signing is hedged (section 3.4 there); circl's verifying takes a
// public key whose matrix is expanded already.
type mldsa[P, S any] struct {
	fromSeed func(*[32]byte) (*P, *S)
	generate func(io.Reader) (*P, *S, error)
	signTo   func(sk *S, msg, ctx []byte, randomized bool, sig []byte) error
	verify   func(pk *P, msg, ctx, sig []byte) bool
}

type mldsaKey[P, S any] struct {
	set     *mldsa[P, S]
	public  *P
	private *S
}

func (k mldsaKey[P, S]) sign(msg, buf []byte) ([]byte, error) {
	return buf, k.set.signTo(k.private, msg, nil, true, buf)
}

func (k mldsaKey[P, S]) verify(msg, sig []byte) bool { return k.set.verify(k.public, msg, nil, sig) }

func (m *mldsa[P, S]) signature(alg string, bytes int) signature {
	return signature{
		alg: alg, impl: cloudf, bytes: bytes,
		generate: func() (signatureKey, error) {
			pk, sk, err := m.generate(rand.Reader)
			return mldsaKey[P, S]{m, pk, sk}, err
		},
		named: func(name string) (signatureKey, error) {
			pk, sk := m.fromSeed((*[32]byte)(seed(alg, name, 32)))
			return mldsaKey[P, S]{m, pk, sk}, nil
		},
	}
}

func mldsas() []signature {
	m44 := &mldsa[mldsa44.PublicKey, mldsa44.PrivateKey]{mldsa44.NewKeyFromSeed, mldsa44.GenerateKey, mldsa44.SignTo, mldsa44.Verify}
	m65 := &mldsa[mldsa65.PublicKey, mldsa65.PrivateKey]{mldsa65.NewKeyFromSeed, mldsa65.GenerateKey, mldsa65.SignTo, mldsa65.Verify}
	m87 := &mldsa[mldsa87.PublicKey, mldsa87.PrivateKey]{mldsa87.NewKeyFromSeed, mldsa87.GenerateKey, mldsa87.SignTo, mldsa87.Verify}
	return []signature{
		m44.signature("ML-DSA-44", mldsa44.SignatureSize),
		m65.signature("ML-DSA-65", mldsa65.SignatureSize),
		m87.signature("ML-DSA-87", mldsa87.SignatureSize),
	}
}
