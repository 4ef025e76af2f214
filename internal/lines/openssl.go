package lines

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/joulemark/joulemark/run"
	"github.com/joulemark/joulemark/sync/mark"
)

// opensslSpeed reads what apps/speed.c of OpenSSL 3.0 and later prints on
// stderr. With -mr:
//
//	+DTP:253:sign:Ed25519:1          begins (bits, operation, algorithm, seconds)
//	+DTP:ML-DSA-65:signs:1           likewise, of KEMs and signatures since 3.2
//	+DT:sha256:1:64                  likewise, of digests and ciphers (seconds, bytes)
//	+R8:27421:253:Ed25519:1.00       ends (code, count, ..., seconds)
//
// The codes of +R differ between versions, so that algorithm and operation come
// from what began, count and seconds from +R. +F lines on stdout name nothing.
// Without -mr one line, begun at the begin and ended at the end:
//
//	Doing ML-DSA-65 signs ops for 1s: 2812 ML-DSA-65 signature sign ops in 1.00s
//	Doing 253 bits sign Ed25519's for 1s: 36936 253 bits Ed25519 signs in 1.00s
var opensslSpeed = Adapter{
	Name: "openssl-speed", Summary: "openssl speed -mr -elapsed, on its stderr",
	New: func(c Config) (Machine, error) { return &openssl{scribe: newScribe("openssl-speed", c)}, nil },
}

type openssl struct {
	*scribe
	op      mark.Op // that began; of Alg "" where none is under way
	fromNs  int64
	elapsed bool // the program said that its seconds are of the wall clock
	several bool // processes print at once, and no count is that of a window
}

var (
	reDoing  = regexp.MustCompile(`^Doing (?:(\d{1,6}) bits )?(.{0,100}?)(?:'s| ops) for (\d{1,9})s: (\d{1,15}) .* in (\d{1,9}(?:\.\d{1,9})?)s\s*$`)
	reResult = regexp.MustCompile(`^\+R\d*:(\d{1,15}):.*?:(\d{1,9}(?:\.\d{1,9})?)\s*$`)
)

// Feed implements Machine.
func (o *openssl) Feed(line []byte, hostNs int64) []run.Line {
	out := o.raw(line, hostNs)
	if !usable(line) {
		return out
	}
	text := strings.TrimRight(string(line), " \r")
	switch {
	case o.several:
	case strings.HasPrefix(text, "+DT"):
		op, ok := begun(strings.Split(text, ":"))
		if ok && op == o.op {
			o.op, o.several = mark.Op{}, true
			o.note("several processes work at once (-multi): no line counts what all of them did, and none makes a window")
			return out
		}
		o.unended()
		if ok {
			o.op, o.fromNs = op, hostNs
		}
	case strings.HasPrefix(text, "You have chosen to measure elapsed time"):
		o.elapsed = true
	case o.op.Alg != "":
		if m := reResult.FindStringSubmatch(text); m != nil {
			out = o.window(out, o.op, count(m[1]), o.fromNs, hostNs, seconds(m[2])*1e9)
			o.op = mark.Op{}
		}
	default:
		if m := reDoing.FindStringSubmatch(text); m != nil {
			return o.human(out, m, hostNs)
		}
	}
	return out
}

// Close implements Machine.
func (o *openssl) Close() []run.Line {
	o.unended()
	return nil
}

func (o *openssl) unended() {
	if o.op.Alg != "" {
		o.note("%s began and never ended", o.op)
		o.op = mark.Op{}
	}
}

// human takes a whole line of the form for people. When it began is not known:
// the alarm that ends the loop goes off after the seconds asked for, and the
// seconds measured are processor time unless -elapsed was given.
func (o *openssl) human(out []run.Line, m []string, hostNs int64) []run.Line {
	busy := seconds(m[5])
	if !o.elapsed {
		busy = max(busy, seconds(m[3]))
	}
	o.note("windows begin where the seconds at the end of their lines say, to 10 ms: -mr -elapsed states when they began")
	var op mark.Op
	if words := strings.Fields(m[2]); m[1] != "" {
		str := ""
		if len(words) > 1 {
			str, words = words[0], words[1:]
		}
		op = keyOp(m[1], str, strings.Join(words, " "))
	} else if k := len(words) - 1; k > 0 {
		op = mark.Op{Alg: algName(strings.Join(words[:k], " ")), Op: opName(words[k])}
	} else {
		return out
	}
	return o.window(out, op, count(m[4]), hostNs-int64(busy*1e9), hostNs, 0)
}

// begun is the operation that a +DTP or +DT line begins.
func begun(f []string) (op mark.Op, ok bool) {
	switch {
	case f[0] == "+DTP" && len(f) == 5:
		return keyOp(f[1], f[2], f[3]), true
	case f[0] == "+DTP" && len(f) == 4 && f[1] != "" && f[2] != "":
		return mark.Op{Alg: algName(f[1]), Op: opName(f[2])}, true
	case f[0] == "+DT" && len(f) == 4 && f[1] != "":
		return mark.Op{Alg: f[1], Op: "run-" + f[3] + "B"}, true
	}
	return op, false
}

// keyOp names an operation that OpenSSL describes by the bits of the key, what
// is done (private, sign, "") and with what (rsa, rsa sign, ecdsa, Ed25519).
// Of elliptic curves it states bits alone: those of NIST are meant where there
// is one, and 253 and 448 are Curve25519 and Curve448.
func keyOp(bits, what, with string) mark.Op {
	if what == "" {
		what = "run"
	}
	curve := bits
	switch bits {
	case "192", "224", "256", "384", "521":
		curve = "P" + bits
	}
	switch with {
	case "rsa": // 3.0: the private key signs, padded as PKCS #1 has it
		if what == "private" {
			return mark.Op{Alg: "RSA-" + bits + "-PKCS1", Op: "sign"}
		}
		return mark.Op{Alg: "RSA-" + bits + "-PKCS1", Op: "verify"}
	case "rsa sign", "rsa verify", "rsa encrypt", "rsa decrypt":
		return mark.Op{Alg: "RSA-" + bits + "-PKCS1", Op: strings.TrimPrefix(with, "rsa ")}
	case "ecdsa":
		return mark.Op{Alg: "ECDSA-" + curve, Op: opName(what)}
	case "ecdh":
		switch bits {
		case "253":
			return mark.Op{Alg: "X25519", Op: "derive"}
		case "448":
			return mark.Op{Alg: "X448", Op: "derive"}
		}
		return mark.Op{Alg: "ECDH-" + curve, Op: "derive"}
	case "dsa":
		return mark.Op{Alg: "DSA-" + bits, Op: opName(what)}
	case "ffdh":
		return mark.Op{Alg: "FFDH-" + bits, Op: "derive"}
	}
	return mark.Op{Alg: algName(with), Op: opName(what)}
}

// count reads digits that a regular expression found, at most 15 of them.
func count(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

func seconds(text string) float64 {
	s, _ := strconv.ParseFloat(text, 64)
	return s
}
