package claim

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
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
			buf = append(binary.BigEndian.AppendUint64(buf, uint64(len(p))), p...)
		}
		return sha256.Sum256(buf)
	}
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return [32]byte(h.Sum(nil))
}

// smallParts is up to how many bytes FingerprintOf puts in one buffer.
const smallParts = 512

// DownstreamKey returns the key under which the effect of a claim is sent to the
// callee: 35 characters, derived from scope and key alone. It is the same for
// every try, after a restart, after a restore and on a replay. 35 characters
// fit where callees allow no more than the length of a UUID.
func DownstreamKey(scope, key string) string {
	sum := FingerprintOf([]byte("onced downstream key 1"), []byte(scope), []byte(key))
	return "oc_" + lowerBase32.EncodeToString(sum[:20])
}

// NewToken returns a token of 26 characters with 128 random bits.
func NewToken(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("claim: new token: %w", err)
	}
	return lowerBase32.EncodeToString(b[:]), nil
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

func checkToken(s string) error {
	if len(s) < MinToken || len(s) > MaxToken {
		return invalid("token", fmt.Sprintf("is %d bytes long, it has %d to %d", len(s), MinToken, MaxToken),
			"use an unguessable random token, see NewToken")
	}
	return checkChars("token", s)
}
