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
	for size := range 2 * smallParts {
		part := bytes.Repeat([]byte{byte(size)}, size)
		var flat []byte
		for _, p := range [][]byte{[]byte("a"), part} {
			flat = append(binary.BigEndian.AppendUint64(flat, uint64(len(p))), p...)
		}
		if got := FingerprintOf([]byte("a"), part); got != sha256.Sum256(flat) {
			t.Fatalf("size %d: %x", size, got)
		}
	}
}
