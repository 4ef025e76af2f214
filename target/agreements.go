package target

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"

	"github.com/joulemark/joulemark/sync/mark"
)

// agreements are Diffie-Hellman over elliptic curves: RFC 7748, and SP 800-56A
// without a key derivation. To derive includes to read the peer's public key.
func agreements() []Op {
	var ops []Op
	for _, a := range []struct {
		alg   string
		curve ecdh.Curve
	}{{"ECDH-P256", ecdh.P256()}, {"X25519", ecdh.X25519()}} {
		ops = append(ops, agreementOps(a.alg, a.curve)...)
	}
	return ops
}

func agreementOps(alg string, curve ecdh.Curve) []Op {
	known := newKeys(alg, func(name string) (*ecdh.PrivateKey, error) {
		return scalar(alg, name, 32, curve.NewPrivateKey)
	})
	return []Op{
		{mark.Op{Alg: alg, Op: "keygen"}, std, func(p Params) (Batch, error) {
			return &agreementKeygen{p: p, curve: curve, kept: newKept[*ecdh.PrivateKey](p.N)}, nil
		}},
		{mark.Op{Alg: alg, Op: "derive"}, std, func(p Params) (Batch, error) {
			key, err := known.get(p.Key)
			if err != nil {
				return nil, err
			}
			peers, err := pool(p, func(int64) (peer, error) { return newPeer(curve) })
			return &deriving{p: p, curve: curve, key: key, peers: peers, kept: newKept[[]byte](p.N)}, err
		}},
	}
}

// peer is the other side of an agreement.
type peer struct {
	private *ecdh.PrivateKey
	public  []byte
}

func newPeer(curve ecdh.Curve) (peer, error) {
	sk, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return peer{}, err
	}
	return peer{sk, sk.PublicKey().Bytes()}, nil
}

func derive(curve ecdh.Curve, key *ecdh.PrivateKey, public []byte) ([]byte, error) {
	pk, err := curve.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	return key.ECDH(pk)
}

// agree reports whether both sides find the secret, and not with a tampered
// public key.
func agree(curve ecdh.Curve, key *ecdh.PrivateKey, p peer, secret []byte) bool {
	theirs, err := p.private.ECDH(key.PublicKey())
	other, _ := derive(curve, key, tampered(p.public)) // another secret, or an error
	return err == nil && bytes.Equal(theirs, secret) && !bytes.Equal(other, secret)
}

type agreementKeygen struct {
	p     Params
	curve ecdh.Curve
	kept  kept[*ecdh.PrivateKey]
}

// Do makes both halves: the standard library computes the public one with the
// private one.
func (g *agreementKeygen) Do(i int64) bool {
	key, err := g.curve.GenerateKey(rand.Reader)
	g.kept.put(i, key)
	return err == nil
}

func (g *agreementKeygen) Check() (checked, fail int64) {
	return g.kept.check(g.p, func(_ int64, key *ecdh.PrivateKey) bool {
		p, err := newPeer(g.curve)
		if err != nil {
			return false
		}
		secret, err := derive(g.curve, key, p.public)
		return err == nil && agree(g.curve, key, p, secret)
	})
}

type deriving struct {
	p     Params
	curve ecdh.Curve
	key   *ecdh.PrivateKey
	peers []peer
	kept  kept[[]byte]
}

func (d *deriving) Do(i int64) bool {
	secret, err := derive(d.curve, d.key, pick(d.peers, i).public)
	d.kept.put(i, secret)
	return err == nil
}

func (d *deriving) Check() (checked, fail int64) {
	return d.kept.check(d.p, func(i int64, secret []byte) bool { return agree(d.curve, d.key, pick(d.peers, i), secret) })
}
