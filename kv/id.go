package kv

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// idAlphabet keeps the order of the bytes and has no letters that look alike.
var idAlphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns prefix + "_" + 26 characters: 48 bits of milliseconds and 80
// random bits, in lower case, so that ids sort by time and inserts stay on few
// pages. It is unguessable only as far as random is.
func NewID(prefix string, now time.Time, random io.Reader) (string, error) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	if _, err := io.ReadFull(random, b[6:]); err != nil {
		return "", fmt.Errorf("kv: new id: %w", err)
	}
	var text [26]byte
	idAlphabet.Encode(text[:], b[:])
	return prefix + "_" + string(text[:]), nil
}
