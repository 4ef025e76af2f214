package target

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/joulemark/joulemark/sync/mark"
)

// MaxMsgBytes is the longest message that an operation takes, bytes.
const MaxMsgBytes = 1 << 20

const (
	// maxPool bounds what is prepared for a window to work on (signatures to
	// verify, ciphertexts to open); a power of two, so that an odd stride meets
	// all of it.
	maxPool = 16
	// poolSeconds is for how long a pool grows beyond its first item: a set
	// that signs for a minute gets one signature.
	poolSeconds = 1.0
	// maxKept is the number of results kept of a window to be checked.
	maxKept = 8
	// checkSeconds is for how long results are checked after the first one.
	checkSeconds = 2.0
)

// Params says what the operations of one window work on.
type Params struct {
	Key      string      // name of the key; the same name is the same key
	MsgBytes int         // length of messages, bytes, up to MaxMsgBytes
	N        int64       // operations in the window, at least 1
	Halted   func() bool // preparing and checking may end early; nil for never
}

// Batch is the work of one window.
type Batch interface {
	// Do carries out operation i of [0, N) and reports whether it gave an
	// answer; negative i are for warming up, not checked later. It allocates
	// nothing beside what the implementation does.
	Do(i int64) bool
	// Check verifies some of the results, the last one first, and that tampered
	// input is refused. It says how many results were verified, and how many
	// answers were wrong.
	Check() (checked, fail int64)
}

// Op is an operation of an algorithm.
type Op struct {
	mark.Op
	Impl string // where it comes from: circl, go (its standard library), joulemark
	// Prepare makes the work of a window, outside of it.
	Prepare func(Params) (Batch, error)
}

// Ops returns all operations, in the order in which a target lists them.
func Ops() []Op {
	return slices.Concat(loads(), signatures(), kems(), agreements(), combined())
}

func find(ops []Op, alg, op string) (Op, bool) {
	i := slices.IndexFunc(ops, func(o Op) bool { return o.Alg == alg && o.Op.Op == op })
	if i < 0 {
		return Op{}, false
	}
	return ops[i], true
}

// seed returns the seed of a named key: the same on every target, so that
// targets are compared with the same keys. Such keys are public; they protect
// nothing.
func seed(alg, key string, bytes int) []byte {
	var out []byte
	for i := 0; len(out) < bytes; i++ {
		h := sha256.Sum256(fmt.Appendf(nil, "joulemark key %d %s %s", i, alg, key))
		out = append(out, h[:]...)
	}
	return out[:bytes]
}

// messages makes messages that differ: random bytes opened by a counter.
type messages struct{ text []byte }

func newMessages(bytes int) messages {
	m := messages{make([]byte, bytes)}
	for i := range m.text {
		m.text[i] = byte(rand.Uint32())
	}
	return m
}

// message returns message i, until the next call. Below 8 bytes they repeat.
func (m messages) message(i int64) []byte {
	var counter [8]byte
	binary.LittleEndian.PutUint64(counter[:], uint64(i))
	copy(m.text, counter[:])
	return m.text
}

// kept holds results of a window at positions chosen before it: some random
// ones and the last.
type kept[T any] struct {
	at  []int64 // rising
	out []T     // results at the first of these
}

func newKept[T any](n int64) kept[T] {
	at := []int64{n - 1}
	for range maxKept - 1 {
		at = append(at, rand.Int64N(n))
	}
	slices.Sort(at)
	at = slices.Compact(at)
	return kept[T]{at: at, out: make([]T, 0, len(at))}
}

// put keeps result i, if its position was chosen.
func (k *kept[T]) put(i int64, v T) {
	if n := len(k.out); n < len(k.at) && k.at[n] == i {
		k.out = append(k.out, v)
	}
}

// check calls good on the kept results, the last one first, until time is up.
func (k *kept[T]) check(p Params, good func(i int64, v T) bool) (checked, fail int64) {
	start := time.Now()
	for j := len(k.out) - 1; j >= 0; j-- {
		if checked > 0 && (time.Since(start).Seconds() > checkSeconds || p.halted()) {
			break
		}
		checked++
		if !good(k.at[j], k.out[j]) {
			fail++
		}
	}
	return checked, fail
}

func (p Params) halted() bool { return p.Halted != nil && p.Halted() }

// pool makes items for operations to work on: one at least, more while there
// is time; always a power of two.
func pool[T any](p Params, make func(i int64) (T, error)) ([]T, error) {
	var items []T
	start := time.Now()
	for i := range int64(maxPool) {
		item, err := make(i)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if i+1 >= p.N || time.Since(start).Seconds() > poolSeconds || p.halted() {
			break
		}
	}
	whole := 1
	for whole*2 <= len(items) {
		whole *= 2
	}
	return items[:whole], nil
}

// pick returns the item that operation i works on.
func pick[T any](items []T, i int64) T { return items[uint64(i)%uint64(len(items))] }

// tampered returns a copy with one bit in the middle turned.
func tampered(b []byte) []byte {
	c := slices.Clone(b)
	if len(c) > 0 {
		c[len(c)/2] ^= 1
	}
	return c
}

// keys remembers keys that were made, since some take seconds.
type keys[K any] struct {
	alg  string
	make func(name string) (K, error)
	made map[string]K
}

// maxKeys bounds the keys that are remembered of one algorithm.
const maxKeys = 16

func newKeys[K any](alg string, make func(name string) (K, error)) *keys[K] {
	return &keys[K]{alg: alg, make: make}
}

func (k *keys[K]) get(name string) (K, error) {
	name = cmp.Or(name, defaultKey)
	if key, ok := k.made[name]; ok {
		return key, nil
	}
	key, err := k.make(name)
	if err != nil {
		return key, fmt.Errorf("make key %s of %s: %w", name, k.alg, err)
	}
	if len(k.made) >= maxKeys || k.made == nil {
		k.made = make(map[string]K)
	}
	k.made[name] = key
	return key, nil
}

// defaultKey is the name of the key where none is given.
const defaultKey = "1"
