package claim

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"onced/kv"
)

// Machine decides. It is a pure value: its methods take one record, or nil for
// an absent one, and the instant, and answer what to write and what to say. It
// needs no more of a store than to get one record and to compare and swap it.
type Machine struct {
	// Epoch is the present opening of the store, 0 when it has none.
	Epoch uint64
	// Opened is an instant at which every process of an older epoch was dead.
	Opened time.Time
	// Retention is how long a terminal record is kept.
	Retention time.Duration
	// MaxResult is the largest result that is kept, in bytes.
	MaxResult int
}

// Write says what becomes of the stored record.
type Write uint8

// What a step writes.
const (
	// Keep writes nothing.
	Keep Write = iota
	// Put stores Step.Record.
	Put
	// Remove deletes the record.
	Remove
)

// Step is the answer of the machine: what to write, and what to say once it is
// durable.
type Step struct {
	Write    Write
	Record   Record // what to store, for Put
	Decision Decision
}

// Kind says what was decided.
type Kind uint8

// The decisions.
const (
	// Acquired: the caller owns the key and no earlier try is in doubt. It may
	// cause the effect once.
	Acquired Kind = iota + 1
	// TookOver: the caller owns the key, but what became of the earlier tries is
	// not known. It looks up ([Book.LookedUp]) or asks to send again
	// ([Book.Repeat]) before it causes the effect.
	TookOver
	// InFlight: another owner is at work. RetryAfter says when to ask again.
	InFlight
	// InDoubt: the effect may have happened and nobody is at work.
	InDoubt
	// Mismatch: the key is taken by a request with another fingerprint.
	Mismatch
	// Replay: the claim is terminal; Record has the result.
	Replay
	// Finished: the outcome is stored; Record has it.
	Finished
	// Freed: the effect did not happen and the key is free.
	Freed
	// StillUnknown: the claim is unknown. RetryAfter, when it is not zero, says
	// after what time a look-up can settle it.
	StillUnknown
	// Cleared: the earlier tries are proven void; the owner may cause the effect
	// once, as if just acquired.
	Cleared
	// Extended: the lease was extended.
	Extended
	// MayResend: the owner may send the same downstream key once more.
	MayResend
)

var kindNames = [...]string{"none", "acquired", "took_over", "in_flight", "in_doubt", "mismatch", "replay",
	"finished", "freed", "still_unknown", "cleared", "extended", "may_resend"}

// String returns the decision's name; the names are a closed set.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Decision is the answer to one event.
type Decision struct {
	Kind Kind
	// Record is the claim after the decision. For InFlight, InDoubt and
	// Mismatch it lacks token, intent and result. For Freed it is the record
	// that was removed, or empty.
	Record Record
	// RetryAfter is a hint when to ask again, or zero.
	RetryAfter time.Duration
}

// localRetry is the hint for a claim whose local owner has no deadline.
const localRetry = time.Second

// Request asks for a key.
type Request struct {
	ID ID
	// Token is the caller's choice: a fresh, unguessable, random id for this
	// attempt ([NewToken]). Asking again with the same token is safe.
	Token string
	// Fingerprint identifies the request's content; see [FingerprintOf].
	Fingerprint [32]byte
	// Intent describes what is about to be done, for whoever has to find out
	// what became of it. At most [MaxIntent] bytes. On a takeover the intent of
	// the first owner stays, for that is what may have happened.
	Intent []byte
	// Owner is [LocalOwner] or [RemoteOwner].
	Owner Owner
	// TakeOver says that the caller can find out what became of an unknown
	// effect, and wants the key for that.
	TakeOver bool
	// LocalToo lets a remote owner take over what a local one has left. Without it
	// that is answered with InDoubt: what a function inside the process that holds
	// the store has sent, and whom to ask about it, nobody outside knows.
	LocalToo bool
}

// validate checks everything that does not depend on the record.
func (b *Request) validate(epoch uint64) error {
	if err := b.validateQuestion(epoch); err != nil {
		return err
	}
	if err := checkToken(b.Token); err != nil {
		return err
	}
	if len(b.Intent) > MaxIntent {
		return tooLong("intent", len(b.Intent), MaxIntent)
	}
	return nil
}

// validateQuestion checks what [Book.Peek] needs.
func (b *Request) validateQuestion(epoch uint64) error {
	if err := b.ID.Validate(); err != nil {
		return err
	}
	if b.Owner.Local {
		if b.Owner.Lease != 0 {
			return invalid("owner", "is local and has a lease", "use LocalOwner or RemoteOwner")
		}
		if epoch == 0 {
			return ErrNoEpoch
		}
		return nil
	}
	return checkLease(b.Owner.Lease)
}

// Begin decides about a request for the key whose record is r, or nil when it is
// absent. It changes nothing unless it answers Acquired or TookOver, except that
// it shortens a remote lease which a clock set back has made endless.
func (m Machine) Begin(r *Record, now time.Time, b Request) (Step, error) {
	if err := b.validate(m.Epoch); err != nil {
		return Step{}, err
	}
	return m.begin(r, now, b)
}

// begin is Begin for a request that has been validated.
func (m Machine) begin(r *Record, now time.Time, b Request) (Step, error) {
	if r == nil || r.expired(now) {
		return m.acquire(now, b), nil
	}
	if r.Fingerprint != b.Fingerprint {
		return keep(Decision{Kind: Mismatch, Record: m.Effective(*r, now).public()}), nil
	}
	cur := m.Effective(*r, now)
	switch {
	case cur.State.Terminal():
		cur.TokenSum = [32]byte{}
		return keep(Decision{Kind: Replay, Record: cur}), nil
	case cur.State == Pending && cur.heldBy(b.Token):
		return keep(Decision{Kind: acquiredKind(cur), Record: cur}), nil
	case cur.State == Pending:
		return m.inFlight(cur, now), nil
	case !b.TakeOver || cur.Owner.Local && !b.Owner.Local && !b.LocalToo:
		return keep(Decision{Kind: InDoubt, Record: cur.public()}), nil
	case cur.heldBy(b.Token):
		return Step{}, &StateError{Op: "begin", Err: ErrTokenReused, State: cur.State, Version: cur.Version}
	}
	cur.State, cur.TokenSum, cur.Owner = Pending, tokenSum(b.Token), m.owner(b.Owner, now)
	cur.Try, cur.Doubt = cur.Try+1, true
	return put(cur, now, TookOver), nil
}

// acquiredKind tells an owner that asks again which answer it got the first time.
func acquiredKind(r Record) Kind {
	if r.Doubt {
		return TookOver
	}
	return Acquired
}

func (m Machine) acquire(now time.Time, b Request) Step {
	r := Record{State: Pending, Owner: m.owner(b.Owner, now), Try: 1, TokenSum: tokenSum(b.Token),
		Fingerprint: b.Fingerprint, Intent: b.Intent, FirstAt: now, CreatedAt: now,
		Version: firstVersion(b.Token, now)}
	return put(r, now, Acquired)
}

// firstVersion makes the versions of a key's successive records differ: 32 bits
// of a sum above a counter of 20 bits, which JSON numbers still hold. The instant
// is in it for callers that use a token twice.
func firstVersion(token string, now time.Time) uint64 {
	sum := FingerprintOf([]byte(token), kv.Key{}.Time(now))
	n := uint64(sum[0])<<24 | uint64(sum[1])<<16 | uint64(sum[2])<<8 | uint64(sum[3])
	return n << 20
}

func (m Machine) owner(o Owner, now time.Time) Owner {
	if o.Local {
		return Owner{Local: true, Epoch: m.Epoch}
	}
	return Owner{Lease: o.Lease, Deadline: now.Add(o.Lease)}
}

func (m Machine) inFlight(cur Record, now time.Time) Step {
	d := Decision{Kind: InFlight, RetryAfter: localRetry}
	anchored, moved := reanchor(cur, now)
	d.Record = anchored.public()
	if !cur.Owner.Local {
		d.RetryAfter = anchored.Owner.Deadline.Sub(now)
	}
	if !moved {
		return keep(d)
	}
	s := put(anchored, now, InFlight)
	d.Record.Version, d.Record.UpdatedAt = s.Record.Version, s.Record.UpdatedAt
	s.Decision = d
	return s
}

// reanchor bounds a lease that lies further ahead than its length, which only a
// clock set back can bring about.
func reanchor(r Record, now time.Time) (Record, bool) {
	if r.State != Pending || r.Owner.Local || r.Owner.Deadline.Sub(now) <= r.Owner.Lease {
		return r, false
	}
	r.Owner.Deadline = now.Add(r.Owner.Lease)
	return r, true
}

// Effective returns what r is at now, whether or not that has been written
// down: a pending claim whose owner is dead or silent beyond its lease is
// unknown, and an open one that is younger than it was has an age that nobody
// knows.
func (m Machine) Effective(r Record, now time.Time) Record {
	if r.State.Open() && m.setBack(&r, now) {
		r.FirstAt = longAgo
	}
	if r.State != Pending {
		return r
	}
	if r.Owner.Local {
		if !m.dead(r.Owner) {
			return r
		}
		r.Doubt = true
		r.LastSendBefore = m.Opened
		return r.becomeUnknown(m.Opened, CauseProcessEnded, "the process that held the claim has ended")
	}
	if now.Before(r.Owner.Deadline) {
		return r
	}
	r.LastSendBefore = now // noticed now; at least the deadline
	return r.becomeUnknown(r.Owner.Deadline, CauseLeaseEnded, "the owner was silent beyond its lease")
}

// longAgo is the FirstAt of a claim whose age is not known: so far back that no
// callee's memory reaches there.
var longAgo = time.Unix(0, 0).UTC()

// setBack reports whether the clock was set back since r was written. How far is
// not known, nor how long the process was off: the age that r had when it was
// written says only that it is more than that by now.
func (m Machine) setBack(r *Record, now time.Time) bool {
	return now.Before(r.UpdatedAt) ||
		r.State == Pending && m.dead(r.Owner) && m.Opened.Before(r.UpdatedAt)
}

// dead reports whether o is a local owner whose process has ended.
func (m Machine) dead(o Owner) bool {
	return o.Local && (o.Epoch != m.Epoch || m.Epoch == 0)
}

func (r Record) becomeUnknown(since time.Time, cause Cause, reason string) Record {
	r.State, r.Cause, r.Reason = Unknown, cause, cut(reason)
	if r.UnknownSince.IsZero() {
		r.UnknownSince = since
	}
	return r
}

func cut(s string) string { return cutTo(s, MaxReason) }

// cutTo makes text of at most limit bytes.
func cutTo(s string, limit int) string {
	if utf8.ValidString(s) && len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:min(len(s), limit)], "?")
}

func (r *Record) expired(now time.Time) bool {
	return r.State.Terminal() && !now.Before(r.ExpiresAt)
}

// Recover decides what the recovery pass writes for r: that it is unknown, that
// its age is, or a lease in sight; the decision's Kind is StillUnknown or Extended.
// Otherwise it keeps the record.
func (m Machine) Recover(r *Record, now time.Time) Step {
	if r == nil || !r.State.Open() {
		return Step{}
	}
	cur := m.Effective(*r, now)
	// While it can be seen: once the clock has come to UpdatedAt again, it cannot.
	aged := !cur.FirstAt.Equal(r.FirstAt)
	if cur.State == Unknown && (r.State == Pending || aged) {
		return put(cur, now, StillUnknown)
	}
	if anchored, moved := reanchor(cur, now); moved || aged {
		return put(anchored, now, Extended)
	}
	return Step{}
}

// Sweep decides whether the sweeper removes r: only when it is terminal and its
// retention has passed.
func (m Machine) Sweep(r *Record, now time.Time) Step {
	if r == nil || !r.expired(now) {
		return Step{}
	}
	return Step{Write: Remove, Decision: Decision{Kind: Freed, Record: *r}}
}

func keep(d Decision) Step { return Step{Decision: d} }

// put stores r as its next version.
func put(r Record, now time.Time, k Kind) Step {
	r.Version++
	r.UpdatedAt = now
	return Step{Write: Put, Record: r, Decision: Decision{Kind: k, Record: r}}
}

func remove(r Record) Step {
	return Step{Write: Remove, Decision: Decision{Kind: Freed, Record: r}}
}

// tokenSum is what is kept of a token. A plain sum will do: tokens are random, and
// too long to be guessed.
func tokenSum(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// heldBy reports whether token is the one that holds, or last held, the claim.
func (r *Record) heldBy(token string) bool {
	sum := tokenSum(token)
	return subtle.ConstantTimeCompare(r.TokenSum[:], sum[:]) == 1
}
