package mark

import (
	"slices"
	"strings"
)

// Operations by kind of algorithm.
var (
	kemOps       = []string{"keygen", "encaps", "decaps"}
	signatureOps = []string{"keygen", "sign", "verify"}
	agreementOps = []string{"keygen", "derive"}
	otherOps     = []string{"run"}
)

// names holds the operations of each algorithm of the protocol: FIPS 203, 204
// and 205 as their parameter sets are called there; Falcon as submitted to
// NIST; RFC 8032, RFC 7748, FIPS 186-5, RFC 8017; X25519MLKEM768 as IANA's
// list of TLS groups has it; and loads of our own.
var names = map[string][]string{
	"ML-KEM-512": kemOps, "ML-KEM-768": kemOps, "ML-KEM-1024": kemOps, "X25519MLKEM768": kemOps,
	"ML-DSA-44": signatureOps, "ML-DSA-65": signatureOps, "ML-DSA-87": signatureOps,
	"SLH-DSA-SHA2-128s": signatureOps, "SLH-DSA-SHA2-128f": signatureOps,
	"SLH-DSA-SHA2-192s": signatureOps, "SLH-DSA-SHA2-192f": signatureOps,
	"SLH-DSA-SHA2-256s": signatureOps, "SLH-DSA-SHA2-256f": signatureOps,
	"SLH-DSA-SHAKE-128s": signatureOps, "SLH-DSA-SHAKE-128f": signatureOps,
	"SLH-DSA-SHAKE-192s": signatureOps, "SLH-DSA-SHAKE-192f": signatureOps,
	"SLH-DSA-SHAKE-256s": signatureOps, "SLH-DSA-SHAKE-256f": signatureOps,
	"Falcon-512": signatureOps, "Falcon-1024": signatureOps,
	"Ed25519": signatureOps, "Ed448": signatureOps,
	"ECDSA-P256": signatureOps, "ECDSA-P384": signatureOps,
	"RSA-2048": signatureOps, "RSA-2048-PSS": signatureOps, "RSA-2048-PKCS1": signatureOps,
	"RSA-3072": signatureOps, "RSA-3072-PSS": signatureOps, "RSA-3072-PKCS1": signatureOps,
	"ECDH-P256": agreementOps, "X25519": agreementOps,
	"empty": otherOps, "spin": otherOps, "sha256": otherOps, "memcpy": otherOps,
}

// Known reports whether the protocol names the algorithm and this operation of
// it. Others are passed over to the analysis as they are; a name is known so
// that a slip of the pen shows. A key exchange with a signature is called
// KEM+SIGNATURE, operation kem+sig.
func Known(alg, op string) bool {
	if op == "kem+sig" {
		kem, signature, ok := strings.Cut(alg, "+")
		return ok && Known(kem, "encaps") && Known(signature, "sign")
	}
	return slices.Contains(names[alg], op)
}

// Algorithms returns the names of the protocol's algorithms, sorted.
func Algorithms() []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Operations returns the operations of a known algorithm, nil of others.
func Operations(alg string) []string { return slices.Clone(names[alg]) }
