package auth

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"time"

	"onced/kv"
)

// Prefix is what every token begins with, so that scanners of secrets find it.
const Prefix = "onced_"

// Limits of a token's record.
const (
	// MaxName is the longest name or principal, in bytes.
	MaxName = 128
	// MaxReason is the longest reason of an act, in bytes.
	MaxReason = 1 << 10
	// MaxTokens is the most tokens a store keeps, revoked ones included.
	MaxTokens = 5000
	// MaxOverlap is the longest time that an old token outlives its rotation.
	MaxOverlap = 30 * 24 * time.Hour
	// MaxLife is the longest life of a token that expires.
	MaxLife = 10 * 365 * 24 * time.Hour

	secretBytes = 32
)

var secretAlphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is what may be known of a token: everything but the secret.
type Token struct {
	// ID names the token in the API and in audits.
	ID string
	// Name is for people, and unique among live tokens. Audits name it as actor.
	Name string
	// Role says what it may do.
	Role Role
	// Principal is the account whose claims it works on.
	Principal string
	// CreatedAt is when it was made.
	CreatedAt time.Time
	// ExpiresAt is when it ends; zero is never.
	ExpiresAt time.Time
	// RevokedAt is when it was revoked; zero is not.
	RevokedAt time.Time
	// LastUsed is when it was last used, to the hour; zero is never.
	LastUsed time.Time
	// ReplacedBy is the id of the token that a rotation made for it.
	ReplacedBy string
	// Version rises with every change but that of LastUsed, for If-Match.
	Version uint64
}

// Live reports whether the token is accepted at now.
func (t Token) Live(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// sum is the SHA-256 of a secret.
type sum [sha256.Size]byte

func sumOf(secret string) sum {
	var room [MaxSecret]byte // a longer one is somewhere else
	return sha256.Sum256(append(room[:0], secret...))
}

// newSecret makes the text of a token.
func newSecret(random io.Reader) (string, error) {
	var b [secretBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("auth: new token: %w", err)
	}
	return Prefix + secretAlphabet.EncodeToString(b[:]), nil
}

// MinSecret and MaxSecret bound the length of a token that was chosen elsewhere;
// see [Service.Provide].
const MinSecret, MaxSecret = 32, 512

// plausible reports whether s can be a token at all: text without spaces. What
// cannot is refused without a look at the store.
func plausible(s string) bool {
	if len(s) < MinSecret || len(s) > MaxSecret {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// row is the stored form of a token. Instants are ns since 1970, 0 when unset.
type row struct {
	ID         string `json:"id"`
	Sum        []byte `json:"sum"`
	Name       string `json:"name"`
	Role       Role   `json:"role"`
	Principal  string `json:"principal"`
	CreatedAt  int64  `json:"created"`
	ExpiresAt  int64  `json:"expires,omitempty"`
	RevokedAt  int64  `json:"revoked,omitempty"`
	LastUsed   int64  `json:"used,omitempty"`
	ReplacedBy string `json:"next,omitempty"`
	Version    uint64 `json:"v"`
}

// The tables of tokens.
var (
	// tokenTable has one row per token, under its sum.
	tokenTable = kv.NewTable[row]("auth.token", 1)
	// idTable leads from an id to the sum; ids are in the order of time.
	idTable = kv.NewTable[idRow]("auth.id", 1)
	// nameTable leads from a name to the id of the newest token that has it.
	nameTable = kv.NewTable[nameRow]("auth.name", 1)
	// metaTable has one row: what became of the first token.
	metaTable = kv.NewTable[metaRow]("auth.meta", 1)

	metaKey = kv.Key{}.String("first")
)

type idRow struct {
	Sum []byte `json:"sum"`
}

type nameRow struct {
	ID string `json:"id"`
}

type metaRow struct {
	ID    string `json:"id,omitempty"` // the first token, unless others were there before
	Shown bool   `json:"shown"`
}

func sumKey(s []byte) kv.Key     { return kv.Key{}.Bytes(s) }
func idKey(id string) kv.Key     { return kv.Key{}.String(id) }
func nameKey(name string) kv.Key { return kv.Key{}.String(name) }

func (r *row) token() Token {
	return Token{ID: r.ID, Name: r.Name, Role: r.Role, Principal: r.Principal, Version: r.Version,
		CreatedAt: fromNano(r.CreatedAt), ExpiresAt: fromNano(r.ExpiresAt), RevokedAt: fromNano(r.RevokedAt),
		LastUsed: fromNano(r.LastUsed), ReplacedBy: r.ReplacedBy}
}

func toNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// byID reads a token by its id; ok is false when there is none.
func byID(rd kv.Reader, id string) (r row, ok bool, err error) {
	if id == "" || len(id) > MaxName {
		return row{}, false, nil
	}
	at, ok, err := idTable.Get(rd, idKey(id))
	if err != nil || !ok {
		return row{}, false, err
	}
	return tokenTable.Get(rd, sumKey(at.Sum))
}
