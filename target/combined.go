package target

import (
	"bytes"
	"errors"

	"github.com/cloudflare/circl/kem"
	"github.com/cloudflare/circl/kem/mlkem/mlkem1024"
	"github.com/cloudflare/circl/kem/mlkem/mlkem512"
	"github.com/cloudflare/circl/kem/mlkem/mlkem768"

	"github.com/joulemark/joulemark/sync/mark"
)

// combined are key exchanges with a signature, ML-KEM and ML-DSA at the three
// levels of security that have both. One operation is both sides of one
// exchange: an ephemeral key pair of the KEM, encapsulating, signing public key
// and ciphertext with a lasting key, verifying, decapsulating.
func combined() []Op {
	schemes := []kem.Scheme{mlkem512.Scheme(), mlkem768.Scheme(), mlkem1024.Scheme()}
	var ops []Op
	for i, s := range mldsas() {
		k := schemes[i]
		known := newKeys(s.alg, s.named)
		ops = append(ops, Op{mark.Op{Alg: k.Name() + "+" + s.alg, Op: "kem+sig"}, cloudf, func(p Params) (Batch, error) {
			key, err := known.get(p.Key)
			e := &exchanging{p: p, kem: k, key: key, sig: make([]byte, s.bytes)}
			e.transcript = make([]byte, k.PublicKeySize()+k.CiphertextSize())
			e.kept = newKept[exchange](p.N)
			return e, err
		}})
	}
	return ops
}

// exchange is what both sides hold after it.
type exchange struct{ theirs, ours []byte }

type exchanging struct {
	p               Params
	kem             kem.Scheme
	key             signatureKey
	transcript, sig []byte
	kept            kept[exchange]
}

func (e *exchanging) Do(i int64) bool {
	x, err := e.exchange()
	e.kept.put(i, x)
	return err == nil
}

var errSignature = errors.New("the signature is not accepted")

func (e *exchanging) exchange() (x exchange, err error) {
	pk, sk, err := e.kem.GenerateKeyPair()
	if err != nil {
		return x, err
	}
	ct, theirs, err := e.kem.Encapsulate(pk)
	if err != nil {
		return x, err
	}
	public, err := pk.MarshalBinary()
	if err != nil {
		return x, err
	}
	copy(e.transcript[copy(e.transcript, public):], ct)
	sig, err := e.key.sign(e.transcript, e.sig)
	if err != nil {
		return x, err
	}
	if !e.key.verify(e.transcript, sig) {
		return x, errSignature
	}
	ours, err := e.kem.Decapsulate(sk, ct)
	return exchange{theirs, ours}, err
}

// Check compares secrets, and tampers with the last exchange.
func (e *exchanging) Check() (checked, fail int64) {
	return e.kept.check(e.p, func(_ int64, x exchange) bool {
		return len(x.ours) > 0 && bytes.Equal(x.ours, x.theirs) && accepts(e.key, e.transcript, e.sig)
	})
}
