package claim

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// Limits of what a record holds. Errors that report one name it.
const (
	// MaxScope is the longest scope in bytes.
	MaxScope = 512
	// MaxKey is the longest key in bytes.
	MaxKey = 255
	// MinToken and MaxToken bound the length of a token in bytes.
	MinToken, MaxToken = 16, 128
	// MaxIntent is the largest intent in bytes.
	MaxIntent = 64 << 10
	// MaxResultType is the longest result type in bytes.
	MaxResultType = 255
	// MaxReason is the longest reason in bytes; longer ones are cut.
	MaxReason = 1 << 10
	// MinLease and MaxLease bound the lease of a remote owner.
	MinLease, MaxLease = time.Second, 24 * time.Hour
)

// ID names a claim.
type ID struct {
	// Scope separates principals and operations; see [ScopeOf], [RouteScopeOf] and
	// [EventScopeOf].
	Scope string
	// Key is the caller's idempotency key or event id, exactly as it counts:
	// 1 to 255 bytes of text, without control characters, not blank.
	Key string
}

// State says how far a claim is.
type State uint8

// The states of a claim. Their names are part of the stored format.
const (
	// Absent means that there is no record: the key is free.
	Absent State = iota
	// Pending means that an owner is at work.
	Pending
	// Done is terminal: the effect happened and this is its result.
	Done
	// Refused is terminal: the effect did not happen and will not.
	Refused
	// Unknown means that the effect may have happened and nobody is at work.
	Unknown
)

var stateNames = [...]string{"absent", "pending", "done", "refused", "unknown"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Terminal reports whether the state never changes again before it expires.
func (s State) Terminal() bool { return s == Done || s == Refused }

// Open reports whether the claim waits for its outcome.
func (s State) Open() bool { return s == Pending || s == Unknown }

// Owner says who works on a pending claim. The zero Owner is invalid, so that a
// forgotten lease is never read as one without an end.
type Owner struct {
	// Local is true for an owner inside the process that holds the store.
	Local bool
	// Epoch is the start of the store a local owner belongs to; the machine
	// sets it.
	Epoch uint64
	// Lease is how long a remote owner may be silent.
	Lease time.Duration
	// Deadline is when a remote owner's lease ends; the machine sets it.
	Deadline time.Time
}

// LocalOwner is an owner inside this process: it needs no lease and no
// heartbeat, and when the process ends its claims are unknown.
func LocalOwner() Owner { return Owner{Local: true} }

// RemoteOwner is an owner elsewhere, which beats ([Book.Heartbeat]) or finishes
// within each lease. The lease is [MinLease] to [MaxLease].
func RemoteOwner(lease time.Duration) Owner { return Owner{Lease: lease} }

// Cause says why a claim is unknown.
type Cause string

// The causes of an unknown outcome.
const (
	// CauseReported means that the owner said so.
	CauseReported Cause = "reported"
	// CauseProcessEnded means that the process of a local owner ended.
	CauseProcessEnded Cause = "process_ended"
	// CauseLeaseEnded means that a remote owner was silent beyond its lease.
	CauseLeaseEnded Cause = "lease_ended"
	// CauseNoProof means that the owner reported a refusal, a release or a
	// look-up that proves nothing, because an earlier try may have happened.
	CauseNoProof Cause = "no_proof"
)

// ReasonRefused is the reason of a claim whose last send was refused, which proves
// nothing by itself: an earlier try may have happened.
const ReasonRefused = "refused, but an earlier try may have happened"

// Result is the outcome that is stored and replayed.
type Result struct {
	// Type tells the caller how to read Data, for example a content type. It is
	// cut to 255 bytes of UTF-8.
	Type string
	// Data is opaque. A nil and an empty one are the same.
	Data []byte
}

// Record is what is known of one key. It is a value: functions of this package
// return changed copies and never write into the bytes of an old one.
type Record struct {
	State State
	// Owner is who holds, or last held, the claim.
	Owner Owner
	// Try counts the takeovers, from 1. It is never part of a downstream key.
	Try int
	// TokenSum is the SHA-256 of the owner's fencing token. The token itself is a
	// secret of the owner and kept nowhere, so that a copy of the store gives
	// nobody the power to finish a claim. Listings and answers to others leave it
	// zero.
	TokenSum [32]byte
	// Fingerprint identifies the request; see [FingerprintOf].
	Fingerprint [32]byte
	// Intent is what is about to be done, as the first owner described it. It
	// is dropped when the claim becomes terminal.
	Intent []byte

	// Result is the outcome of a terminal record.
	Result Result
	// Omitted is true when the result was larger than the limit and was not
	// kept: the effect stands, only its answer cannot be replayed.
	Omitted bool
	// ResultSize is the size of the result in bytes, also of an omitted one.
	ResultSize int64
	// ResultSum is the SHA-256 of an omitted result.
	ResultSum [32]byte

	// Doubt is true when some try ended unknown: a later refusal, or a later
	// "did not happen", proves nothing by itself.
	Doubt bool
	// FirstAt is the earliest instant from which a send may count: the first
	// acquisition, or the look-up that proved all earlier sends void. The
	// callee's promise to remember the downstream key is counted from it. It is
	// the beginning of 1970 when the clock was set back and the age is not known.
	FirstAt time.Time
	// CreatedAt is when the record came into being.
	CreatedAt time.Time
	// UpdatedAt is when it last changed.
	UpdatedAt time.Time
	// UnknownSince is when it first became unknown; it stays while Doubt does.
	UnknownSince time.Time
	// LastSendBefore is an upper bound for the instant of the last send. It is
	// zero while the owner may be sending.
	LastSendBefore time.Time
	// Cause says why the claim is, or was, unknown.
	Cause Cause
	// Reason is a text for people.
	Reason string
	// Actor is the person who resolved the claim, or empty.
	Actor string
	// ExpiresAt is the end of retention of a terminal record.
	ExpiresAt time.Time
	// Version rises with every change of the record, for If-Match. It does not
	// start at the same number when a key was freed and is taken again, so an
	// old number never fits a new record.
	Version uint64
}

// MayRepeat reports whether the downstream key of r may be sent again at now:
// only within validFor, which is how long the callee promises to remember keys,
// counted from FirstAt. When the clock stands before FirstAt, it was set back
// and the age is not known: the answer is no. That it stood before the last change
// of r is seen by [Machine.Effective], whose records have a FirstAt that says so.
func MayRepeat(r Record, now time.Time, validFor time.Duration) bool {
	age := now.Sub(r.FirstAt)
	return age >= 0 && age < validFor
}

// public strips what only the owner, or a caller with the right fingerprint,
// may see.
func (r Record) public() Record {
	r.TokenSum, r.Intent, r.Result = [32]byte{}, nil, Result{}
	return r
}

// openSince is the instant under which an open claim is listed.
func (r Record) openSince() time.Time {
	if !r.UnknownSince.IsZero() {
		return r.UnknownSince
	}
	return r.CreatedAt
}

// setResult stores res, or only its size and sum when it is above limit.
func (r *Record) setResult(res Result, limit int) {
	r.Result, r.ResultSize = res, int64(len(res.Data))
	r.Omitted, r.ResultSum = false, [32]byte{}
	if len(res.Data) > limit {
		r.Omitted, r.ResultSum = true, sha256.Sum256(res.Data)
		r.Result.Data = nil
	}
}

// hasResult reports whether res is the result that r holds.
func (r *Record) hasResult(res Result) bool {
	if r.Result.Type != res.Type || r.ResultSize != int64(len(res.Data)) {
		return false
	}
	if r.Omitted {
		return r.ResultSum == sha256.Sum256(res.Data)
	}
	return string(r.Result.Data) == string(res.Data)
}
