package target

import (
	"slices"

	"github.com/joulemark/joulemark/sync/mark"
)

// signatureKey is a key pair of a signature algorithm.
type signatureKey interface {
	// sign signs a message with fresh randomness where the algorithm takes any.
	// The signature is in buf or in memory of its own; buf has the size that
	// the algorithm stated.
	sign(msg, buf []byte) ([]byte, error)
	verify(msg, sig []byte) bool
}

// signature is a signature algorithm.
type signature struct {
	alg, impl string
	bytes     int                                     // buffer for a signature; 0 where it is returned in memory of its own
	generate  func() (signatureKey, error)            // from fresh randomness
	named     func(name string) (signatureKey, error) // nil: generated, not the same on every target
	ops       []string                                // nil for all
}

func signatures() []Op {
	var ops []Op
	for _, s := range slices.Concat(mldsas(), slhdsas(), curves(), rsas()) {
		ops = append(ops, s.list()...)
	}
	return ops
}

func (s signature) list() []Op {
	named := s.named
	if named == nil {
		named = func(string) (signatureKey, error) { return s.generate() }
	}
	known := newKeys(s.alg, named)
	all := []Op{
		{mark.Op{Alg: s.alg, Op: "keygen"}, s.impl, func(p Params) (Batch, error) {
			return &signatureKeygen{p: p, s: s, kept: newKept[signatureKey](p.N)}, nil
		}},
		{mark.Op{Alg: s.alg, Op: "sign"}, s.impl, func(p Params) (Batch, error) {
			key, err := known.get(p.Key)
			return newSigning(p, s, key), err
		}},
		{mark.Op{Alg: s.alg, Op: "verify"}, s.impl, func(p Params) (Batch, error) {
			key, err := known.get(p.Key)
			if err != nil {
				return nil, err
			}
			return newVerifying(p, s, key)
		}},
	}
	return slices.DeleteFunc(all, func(o Op) bool { return s.ops != nil && !slices.Contains(s.ops, o.Op.Op) })
}

type signatureKeygen struct {
	p    Params
	s    signature
	kept kept[signatureKey]
}

func (g *signatureKeygen) Do(i int64) bool {
	key, err := g.s.generate()
	g.kept.put(i, key)
	return err == nil
}

// Check signs with the keys.
func (g *signatureKeygen) Check() (checked, fail int64) {
	messages, buf := newMessages(g.p.MsgBytes), make([]byte, g.s.bytes)
	return g.kept.check(g.p, func(i int64, key signatureKey) bool {
		sig, err := key.sign(messages.message(i), buf)
		return err == nil && accepts(key, messages.message(i), sig)
	})
}

// accepts reports whether a signature is accepted, and a tampered one refused.
func accepts(key signatureKey, msg, sig []byte) bool {
	return key.verify(msg, sig) && !key.verify(msg, tampered(sig))
}

type signing struct {
	p        Params
	key      signatureKey
	messages messages
	kept     kept[[]byte]
	bufs     [][]byte // one for each result that is kept, and one for the others
}

func newSigning(p Params, s signature, key signatureKey) *signing {
	g := &signing{p: p, key: key, messages: newMessages(p.MsgBytes), kept: newKept[[]byte](p.N)}
	for range len(g.kept.at) + 1 {
		g.bufs = append(g.bufs, make([]byte, s.bytes))
	}
	return g
}

func (g *signing) Do(i int64) bool {
	sig, err := g.key.sign(g.messages.message(i), g.bufs[len(g.kept.out)])
	g.kept.put(i, sig)
	return err == nil
}

func (g *signing) Check() (checked, fail int64) {
	return g.kept.check(g.p, func(i int64, sig []byte) bool { return accepts(g.key, g.messages.message(i), sig) })
}

type verifying struct {
	p        Params
	key      signatureKey
	messages messages
	sigs     [][]byte // of messages 0, 1, ...
}

func newVerifying(p Params, s signature, key signatureKey) (*verifying, error) {
	v := &verifying{p: p, key: key, messages: newMessages(p.MsgBytes)}
	var err error
	v.sigs, err = pool(p, func(i int64) ([]byte, error) { return key.sign(v.messages.message(i), make([]byte, s.bytes)) })
	return v, err
}

func (v *verifying) Do(i int64) bool {
	at := i & int64(len(v.sigs)-1)
	return v.key.verify(v.messages.message(at), v.sigs[at])
}

// Check tampers: each answer of Do was its own check.
func (v *verifying) Check() (checked, fail int64) {
	for i, sig := range v.sigs {
		if v.key.verify(v.messages.message(int64(i)), tampered(sig)) {
			fail++
		}
	}
	return v.p.N, fail
}
