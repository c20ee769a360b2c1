package claim

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lowerBase32 is the alphabet of RFC 4648 in lower case, which the API documents
// for downstream keys. It is not that of kv.NewID, which has to keep the order of
// the bytes; nothing here is sorted by its text.
var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Kinds of scopes. They are the first segment, so that an event id, an operation
// key and a key of the proxy never share a scope.
const (
	kindOperation = "op"
	kindEvent     = "ev"
	kindRoute     = "route"
)

var escapeSegment = strings.NewReplacer("%", "%25", "/", "%2F")

// ScopeOf returns the scope of the keys that principal sends for operation.
// Distinct pairs give distinct scopes. The principal survives the rotation of
// its tokens: use an account, not a credential. The operation is a stable name,
// not a URL with ids in it. Together they fit into about [MaxScope] bytes; Begin
// reports a longer scope.
func ScopeOf(principal, operation string) string {
	return ScopePrefix(principal) + operation
}

// ScopePrefix returns what the scopes of all operations of principal begin
// with, for [Query.ScopePrefix].
func ScopePrefix(principal string) string {
	return kindOperation + "/" + escapeSegment.Replace(principal) + "/"
}

// EventScopeOf returns the scope of the event ids that source sends to
// endpoint. It is never a scope of [ScopeOf].
func EventScopeOf(source, endpoint string) string {
	return kindEvent + "/" + escapeSegment.Replace(source) + "/" + endpoint
}

// RouteScopeOf returns the scope of the keys that principal sends to a route of
// the proxy. It is never a scope of [ScopeOf]: who may claim keys for operations of
// its own cannot reach what the proxy holds for the same principal.
func RouteScopeOf(principal, route string) string {
	return kindRoute + "/" + escapeSegment.Replace(principal) + "/" + route
}

// FingerprintOf returns the SHA-256 of the parts, each preceded by its length,
// so that moving bytes from one part to the next changes it. The parts are raw
// bytes: a body that differs in spacing only is another request.
func FingerprintOf(parts ...[]byte) [32]byte {
	size := 0
	for _, p := range parts {
		size += 8 + len(p)
	}
	if size <= smallParts { // one buffer is quicker than a hash that is written to
		buf := make([]byte, 0, smallParts)
		for _, p := range parts {
			buf = AppendPart(buf, p)
		}
		return sha256.Sum256(buf)
	}
	s := newSummer()
	for _, p := range parts {
		s.part(p)
	}
	return s.sum()
}

// AppendPart appends a part as [FingerprintOf] sums it, for [FingerprintWith].
func AppendPart[T string | []byte](dst []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(len(part))), part...)
}

// FingerprintWith is [FingerprintOf] of parts that [AppendPart] has put one behind the
// other, and of a last one.
func FingerprintWith(parts, last []byte) [32]byte {
	if len(parts)+8+len(last) <= smallParts {
		buf := append(make([]byte, 0, smallParts), parts...)
		return sha256.Sum256(AppendPart(buf, last))
	}
	s := newSummer()
	s.write(parts)
	s.part(last)
	return s.sum()
}

// summer sums what is large, by way of a buffer, so that nothing that is summed has to
// be where a hash.Hash could keep it.
type summer struct {
	hash hash.Hash
	buf  []byte
}

func newSummer() *summer { return &summer{hash: sha256.New(), buf: make([]byte, 0, chunk)} }

func (s *summer) part(p []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(p)))
	s.write(n[:])
	s.write(p)
}

func (s *summer) write(p []byte) {
	for len(p) > 0 {
		n := min(chunk-len(s.buf), len(p))
		s.buf, p = append(s.buf, p[:n]...), p[n:]
		if len(s.buf) == chunk {
			s.hash.Write(s.buf)
			s.buf = s.buf[:0]
		}
	}
}

func (s *summer) sum() [32]byte {
	s.hash.Write(s.buf)
	return [32]byte(s.hash.Sum(nil))
}

const (
	smallParts = 512     // up to how many bytes FingerprintOf puts in one buffer
	chunk      = 8 << 10 // how many it sums at a time otherwise
)

// DownstreamKey returns the key under which the effect of a claim is sent to the
// callee: 35 characters, derived from scope and key alone. It is the same for
// every try, after a restart, after a restore and on a replay. 35 characters
// fit where callees allow no more than the length of a UUID.
func DownstreamKey(scope, key string) string {
	sum := FingerprintOf([]byte("onced downstream key 1"), []byte(scope), []byte(key))
	out := [35]byte{'o', 'c', '_'}
	lowerBase32.Encode(out[3:], sum[:20])
	return string(out[:])
}

// NewToken returns a token of 26 characters with 128 random bits.
func NewToken(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("claim: new token: %w", err)
	}
	var text [26]byte
	lowerBase32.Encode(text[:], b[:])
	return string(text[:]), nil
}

// Validate reports whether id can name a claim. Its error is an [InvalidError].
func (id ID) Validate() error {
	if err := checkText("scope", id.Scope, MaxScope); err != nil {
		return err
	}
	return checkText("key", id.Key, MaxKey)
}

// checkText accepts 1 to limit bytes of text that is not blank.
func checkText(field, s string, limit int) error {
	switch {
	case s == "":
		return invalid(field, fmt.Sprintf("is empty, it has 1 to %d bytes", limit), "send a "+field)
	case len(s) > limit:
		return tooLong(field, len(s), limit)
	case strings.TrimSpace(s) == "":
		return invalid(field, "is blank", fmt.Sprintf("send 1 to %d bytes of text", limit))
	}
	return checkChars(field, s)
}

func checkChars(field, s string) error {
	if isPlain(s) {
		return nil
	}
	if !utf8.ValidString(s) {
		return invalid(field, "is not valid UTF-8", "send text")
	}
	for _, c := range s {
		if unicode.IsControl(c) {
			return invalid(field, fmt.Sprintf("holds the control character %U", c), "send printable text")
		}
	}
	return nil
}

// isPlain reports text in ASCII without control characters.
func isPlain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

func checkToken(s string) error {
	if len(s) < MinToken || len(s) > MaxToken {
		return invalid("token", fmt.Sprintf("is %d bytes long, it has %d to %d", len(s), MinToken, MaxToken),
			"use an unguessable random token, see NewToken")
	}
	return checkChars("token", s)
}
