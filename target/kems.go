package target

import (
	"bytes"

	"github.com/cloudflare/circl/kem"
	"github.com/cloudflare/circl/kem/hybrid"
	"github.com/cloudflare/circl/kem/mlkem/mlkem1024"
	"github.com/cloudflare/circl/kem/mlkem/mlkem512"
	"github.com/cloudflare/circl/kem/mlkem/mlkem768"

	"github.com/joulemark/joulemark/sync/mark"
)

// kems are ML-KEM (FIPS 203) and its hybrid for TLS.
func kems() []Op {
	var ops []Op
	for _, s := range []kem.Scheme{mlkem512.Scheme(), mlkem768.Scheme(), mlkem1024.Scheme(), hybrid.X25519MLKEM768()} {
		ops = append(ops, kemOps(s)...)
	}
	return ops
}

func kemOps(s kem.Scheme) []Op {
	known := newKeys(s.Name(), func(name string) (kemKey, error) {
		pk, sk := s.DeriveKeyPair(seed(s.Name(), name, s.SeedSize()))
		return kemKey{pk, sk}, nil
	})
	return []Op{
		{mark.Op{Alg: s.Name(), Op: "keygen"}, cloudf, func(p Params) (Batch, error) {
			return &kemKeygen{p: p, s: s, kept: newKept[kemKey](p.N)}, nil
		}},
		{mark.Op{Alg: s.Name(), Op: "encaps"}, cloudf, func(p Params) (Batch, error) {
			key, err := known.get(p.Key)
			return &encapsulating{p: p, s: s, key: key, kept: newKept[encapsulated](p.N)}, err
		}},
		{mark.Op{Alg: s.Name(), Op: "decaps"}, cloudf, func(p Params) (Batch, error) {
			key, err := known.get(p.Key)
			if err != nil {
				return nil, err
			}
			sealed, err := pool(p, func(int64) (encapsulated, error) { return encapsulate(s, key) })
			return &decapsulating{p: p, s: s, key: key, sealed: sealed, kept: newKept[[]byte](p.N)}, err
		}},
	}
}

type kemKey struct {
	public  kem.PublicKey
	private kem.PrivateKey
}

// encapsulated is a ciphertext and the secret in it.
type encapsulated struct{ text, secret []byte }

func encapsulate(s kem.Scheme, key kemKey) (e encapsulated, err error) {
	e.text, e.secret, err = s.Encapsulate(key.public)
	return e, err
}

// opens reports whether the key finds the secret in the ciphertext, and not in
// a tampered one.
func opens(s kem.Scheme, key kemKey, e encapsulated) bool {
	secret, err := s.Decapsulate(key.private, e.text)
	other, _ := s.Decapsulate(key.private, tampered(e.text)) // implicit rejection, or an error
	return err == nil && len(secret) > 0 && bytes.Equal(secret, e.secret) && !bytes.Equal(other, e.secret)
}

type kemKeygen struct {
	p    Params
	s    kem.Scheme
	kept kept[kemKey]
}

func (g *kemKeygen) Do(i int64) bool {
	pk, sk, err := g.s.GenerateKeyPair()
	g.kept.put(i, kemKey{pk, sk})
	return err == nil
}

func (g *kemKeygen) Check() (checked, fail int64) {
	return g.kept.check(g.p, func(_ int64, key kemKey) bool {
		e, err := encapsulate(g.s, key)
		return err == nil && opens(g.s, key, e)
	})
}

type encapsulating struct {
	p    Params
	s    kem.Scheme
	key  kemKey
	kept kept[encapsulated]
}

func (g *encapsulating) Do(i int64) bool {
	e, err := encapsulate(g.s, g.key)
	g.kept.put(i, e)
	return err == nil
}

func (g *encapsulating) Check() (checked, fail int64) {
	return g.kept.check(g.p, func(_ int64, e encapsulated) bool { return opens(g.s, g.key, e) })
}

type decapsulating struct {
	p      Params
	s      kem.Scheme
	key    kemKey
	sealed []encapsulated
	kept   kept[[]byte]
}

func (g *decapsulating) Do(i int64) bool {
	secret, err := g.s.Decapsulate(g.key.private, pick(g.sealed, i).text)
	g.kept.put(i, secret)
	return err == nil
}

func (g *decapsulating) Check() (checked, fail int64) {
	return g.kept.check(g.p, func(i int64, secret []byte) bool {
		e := pick(g.sealed, i)
		return bytes.Equal(secret, e.secret) && opens(g.s, g.key, e)
	})
}
