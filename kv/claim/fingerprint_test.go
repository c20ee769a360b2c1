package claim

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// Small and large parts are summed in different ways; the sum is stored, and must
// be the same for ever.
func TestFingerprintIsOneSum(t *testing.T) {
	check := func(parts ...[]byte) {
		var flat []byte
		for _, p := range parts {
			flat = append(binary.BigEndian.AppendUint64(flat, uint64(len(p))), p...)
		}
		if got := FingerprintOf(parts...); got != sha256.Sum256(flat) {
			t.Fatalf("%d parts of %d bytes: %x", len(parts), len(flat), got)
		}
		last := len(parts) - 1
		var first []byte
		for _, p := range parts[:last] {
			first = AppendPart(first, p)
		}
		if got := FingerprintWith(first, parts[last]); got != sha256.Sum256(flat) {
			t.Fatalf("%d parts of %d bytes, and the last: %x", len(parts), len(flat), got)
		}
	}
	part := bytes.Repeat([]byte("0123456789abcde"), chunk)
	for size := range 2 * smallParts {
		check([]byte("a"), part[:size])
	}
	for size := chunk - 40; size < chunk+40; size++ {
		check(part[:size], nil, nil, []byte("a"), part[:2*chunk+size], nil, nil)
		check(make([][]byte, size/8)...)
	}
}
