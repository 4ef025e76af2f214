package target

import (
	"bytes"
	"crypto/ecdh"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/sync/mark"
)

var slow = flag.Bool("slow", false, "also test what takes minutes: SLH-DSA with small signatures")

// isSlow reports whether an algorithm signs for a third of a second or more.
func isSlow(alg string) bool { return strings.HasPrefix(alg, "SLH-DSA") && strings.HasSuffix(alg, "s") }

// Each operation gives answers that are right, and a wrong one is noticed.
func TestOps(t *testing.T) {
	for _, o := range Ops() {
		t.Run(o.String(), func(t *testing.T) {
			if isSlow(o.Alg) && !*slow {
				t.Skip("it is slow: go test ./target -args -slow")
			}
			if !mark.Known(o.Alg, o.Op.Op) {
				t.Error("the protocol has no such name")
			}
			const n = 2
			b, err := o.Prepare(Params{Key: "7", MsgBytes: 33, N: n})
			if err != nil {
				t.Fatal(err)
			}
			for i := range int64(1 + n) {
				if !b.Do(i - 1) {
					t.Errorf("operation %d failed", i-1)
				}
			}
			if o.Alg == "empty" {
				return
			}
			if checked, fail := b.Check(); checked < 1 || checked > n || fail != 0 {
				t.Errorf("checked=%d fail=%d", checked, fail)
			}
			spoil(t, b)
			if _, fail := b.Check(); fail == 0 {
				t.Error("a wrong answer was not noticed")
			}
		})
	}
}

// spoil makes the last answer wrong, or what it is checked with.
func spoil(t *testing.T, b Batch) {
	switch b := b.(type) {
	case *spin:
		b.kept.out[len(b.kept.out)-1]++
	case *hash:
		b.kept.out[len(b.kept.out)-1][0]++
	case *copying:
		b.to[20]++
	case *signatureKeygen:
		b.kept.out[len(b.kept.out)-1] = gullible{b.kept.out[0]}
	case *signing:
		sig := b.kept.out[len(b.kept.out)-1]
		copy(sig, tampered(sig))
	case *verifying:
		if at := int64(len(b.sigs) - 1); b.key.verify(b.messages.message(at), tampered(b.sigs[at])) {
			t.Error("a tampered signature is accepted")
		}
		b.key = gullible{b.key}
	case *kemKeygen:
		pk, _, err := b.s.GenerateKeyPair()
		if err != nil {
			t.Fatal(err)
		}
		b.kept.out[len(b.kept.out)-1].public = pk
	case *encapsulating:
		b.kept.out[len(b.kept.out)-1].secret[0]++
	case *decapsulating:
		b.kept.out[len(b.kept.out)-1][0]++
	case *agreementKeygen:
		b.curve = ecdh.P384() // the keys are none of it
	case *exchanging:
		if _, fail := b.Check(); fail != 0 {
			t.Errorf("it cannot be checked twice: %d wrong answers", fail)
		}
		b.kept.out[len(b.kept.out)-1].ours[0]++
	case *deriving:
		b.kept.out[len(b.kept.out)-1][0]++
	default:
		t.Fatalf("nothing spoils %T", b)
	}
}

// gullible accepts every signature.
type gullible struct{ signatureKey }

func (gullible) verify(_, _ []byte) bool { return true }

// Every algorithm of the protocol is there, but those that Go has no
// implementation of.
func TestOpsAreComplete(t *testing.T) {
	var missing []string
	for _, alg := range mark.Algorithms() {
		for _, op := range mark.Operations(alg) {
			if _, ok := find(Ops(), alg, op); !ok {
				missing = append(missing, alg+"/"+op)
			}
		}
	}
	missing = slices.DeleteFunc(missing, func(name string) bool { return strings.HasPrefix(name, "Falcon-") })
	// RSA keys are the same whatever they are used for.
	want := []string{"RSA-2048/sign", "RSA-2048/verify", "RSA-2048-PKCS1/keygen", "RSA-2048-PSS/keygen",
		"RSA-3072/sign", "RSA-3072/verify", "RSA-3072-PKCS1/keygen", "RSA-3072-PSS/keygen"}
	slices.Sort(missing)
	slices.Sort(want)
	if !slices.Equal(missing, want) {
		t.Errorf("missing %v", missing)
	}
}

// A named key is the same in every program, and names are different keys.
func TestNamedKeys(t *testing.T) {
	for _, s := range slices.Concat(mldsas(), slhdsas(), curves()) {
		if isSlow(s.alg) && !*slow || strings.HasPrefix(s.alg, "SLH-DSA") && s.alg != "SLH-DSA-SHA2-128f" {
			continue
		}
		keys := make(map[string]signatureKey)
		for _, name := range []string{"1", "1 again", "2"} {
			k, err := s.named(strings.TrimSuffix(name, " again"))
			if err != nil {
				t.Fatalf("%s: %v", s.alg, err)
			}
			keys[name] = k
		}
		sig, err := keys["1"].sign([]byte("text"), make([]byte, s.bytes))
		if err != nil || !keys["1 again"].verify([]byte("text"), sig) {
			t.Errorf("%s: key 1 is not the same key when it is made again (%v)", s.alg, err)
		}
		if keys["2"].verify([]byte("text"), sig) {
			t.Errorf("%s: keys 1 and 2 are one", s.alg)
		}
	}
}

// Signing draws fresh randomness and meets fresh messages, so that rejection
// sampling is sampled.
func TestSigningIsFresh(t *testing.T) {
	for _, s := range mldsas() {
		key, err := s.named("1")
		if err != nil {
			t.Fatal(err)
		}
		a, _ := key.sign([]byte("text"), make([]byte, s.bytes))
		b, _ := key.sign([]byte("text"), make([]byte, s.bytes))
		if bytes.Equal(a, b) {
			t.Errorf("%s signs without randomness", s.alg)
		}
	}
	m := newMessages(16)
	first := slices.Clone(m.message(1))
	if bytes.Equal(first, m.message(2)) || !bytes.Equal(first, m.message(1)) || bytes.Equal(newMessages(16).message(1), first) {
		t.Error("messages do not differ, or cannot be made again")
	}
}

// Results are kept at the last and at other positions, whatever n is.
func TestKept(t *testing.T) {
	for _, n := range []int64{1, 2, 7, 100, 1 << 40} {
		k := newKept[int64](n)
		for _, i := range slices.Concat([]int64{-1}, k.at, []int64{n}) {
			k.put(i, i)
		}
		if len(k.out) != len(k.at) || len(k.out) > maxKept || k.out[len(k.out)-1] != n-1 {
			t.Errorf("of %d kept %v", n, k.out)
		}
		if got := testing.AllocsPerRun(10, func() { k.put(n, 0) }); got != 0 {
			t.Errorf("keeping allocates %v times", got)
		}
	}
}

func TestPool(t *testing.T) {
	for n, want := range map[int64]int{1: 1, 3: 2, 8: 8, 1e6: maxPool} {
		items, err := pool(Params{N: n}, func(i int64) (int64, error) { return i, nil })
		if err != nil || len(items) != want {
			t.Errorf("pool for %d: %v, %v", n, items, err)
		}
		if pick(items, -1) != int64(want-1) || pick(items, int64(want)) != 0 {
			t.Errorf("pool for %d is not gone round", n)
		}
	}
	if items, _ := pool(Params{N: 100, Halted: func() bool { return true }}, func(i int64) (int64, error) { return i, nil }); len(items) != 1 {
		t.Errorf("a pool grew to %d after a stop", len(items))
	}
}
