package claim

import (
	"fmt"
	"time"
)

// Answer is what a look-up at the callee said.
type Answer uint8

// The answers of a look-up.
const (
	// NoAnswer: the look-up failed; nothing is known.
	NoAnswer Answer = iota
	// FoundDone: the effect happened.
	FoundDone
	// FoundRefused: the callee refused it for good.
	FoundRefused
	// FoundNothing: the callee does not know of it.
	FoundNothing
)

// Finding is a look-up's answer. A look-up asks; it never sends the effect.
type Finding struct {
	Answer Answer
	// Result is the outcome of FoundDone and FoundRefused.
	Result Result
	// SettlesAfter is how long after a send the callee is sure to show it. It is
	// used for FoundNothing and must be positive for it.
	SettlesAfter time.Duration
	// AskedAt is when the look-up began, by the clock of the store, for FoundNothing:
	// what the callee did not show counts from then, or a look-up that takes long
	// would pass for proof by its own slowness. Zero means the instant at which the
	// finding is recorded: leave it out only where look-ups are much quicker than
	// SettlesAfter. A later instant than that counts as that. An owner that took over
	// for the look-up has it in Record.UpdatedAt.
	AskedAt time.Time
	// Reason is a text for people, used when the claim stays unknown.
	Reason string
}

// ProvesAbsence reports whether f, recorded at now, is proof that no try of r has
// had or will have an effect: nothing was found, by a look-up that began when the
// last send was at least SettlesAfter ago.
func (f Finding) ProvesAbsence(r Record, now time.Time) bool {
	asked := now
	if !f.AskedAt.IsZero() && f.AskedAt.Before(now) {
		asked = f.AskedAt
	}
	return f.Answer == FoundNothing && f.SettlesAfter > 0 && !r.LastSendBefore.IsZero() &&
		asked.Sub(r.LastSendBefore) >= f.SettlesAfter
}

// LookedUp records a look-up's answer. FoundDone and FoundRefused are proof and
// end the claim. FoundNothing is proof only when the last send was SettlesAfter
// ago as the look-up began; then a pending claim is free of doubt (Cleared) and its owner may cause
// the effect, and the key of an unknown one is free (Freed). In every other case
// the claim is unknown, and RetryAfter says when a look-up can be proof.
func (m Machine) LookedUp(r *Record, now time.Time, token string, f Finding) (Step, error) {
	switch f.Answer {
	case FoundDone:
		return m.found(r, now, token, outcome{Done, f.Result, opLookedUp})
	case FoundRefused:
		return m.found(r, now, token, outcome{Refused, f.Result, opLookedUp})
	case NoAnswer, FoundNothing: // below
	}
	if f.Answer == FoundNothing && f.SettlesAfter <= 0 {
		return Step{}, invalid("settles_after", fmt.Sprintf("is %v", f.SettlesAfter),
			"name how long after a send the callee is sure to show it")
	}
	cur, err := m.own(r, now, token, opLookedUp)
	if err != nil {
		return Step{}, err
	}
	if cur.State.Terminal() {
		return Step{}, &StateError{Op: opLookedUp, Err: ErrTerminal, State: cur.State, Version: cur.Version}
	}
	if f.ProvesAbsence(cur, now) {
		return m.provenVoid(cur, now), nil
	}
	return m.unsettled(cur, now, f), nil
}

func (m Machine) found(r *Record, now time.Time, token string, o outcome) (Step, error) {
	o.res.Type = cutType(o.res.Type)
	cur, err := m.own(r, now, token, o.op)
	if err != nil {
		return Step{}, err
	}
	if cur.State.Terminal() {
		return again(cur, o)
	}
	return put(m.terminal(cur, now, o), now, Finished), nil
}

// provenVoid: no send of any try has had, or will have, an effect.
func (m Machine) provenVoid(cur Record, now time.Time) Step {
	if cur.State == Unknown {
		return remove(cur)
	}
	cur.Doubt, cur.Cause, cur.Reason = false, "", ""
	cur.UnknownSince, cur.LastSendBefore = time.Time{}, time.Time{}
	cur.FirstAt = now
	return put(cur, now, Cleared)
}

// unsettled puts the claim back to unknown. The bound of the last send stays
// when it is known: a look-up sends nothing.
func (m Machine) unsettled(cur Record, now time.Time, f Finding) Step {
	if cur.LastSendBefore.IsZero() {
		cur.LastSendBefore = now
	}
	cur.Doubt = true
	reason := f.Reason
	if reason == "" {
		reason = "the look-up proved nothing"
	}
	s := put(cur.becomeUnknown(now, CauseNoProof, reason), now, StillUnknown)
	if f.Answer == FoundNothing {
		s.Decision.RetryAfter = max(0, cur.LastSendBefore.Add(f.SettlesAfter).Sub(now))
	}
	return s
}

// Verdict is what a person decides about an unknown claim.
type Verdict uint8

// The verdicts.
const (
	// VerdictDone: the effect happened.
	VerdictDone Verdict = iota + 1
	// VerdictRefused: it did not happen and shall not.
	VerdictRefused
	// VerdictFree: it did not happen; the key is free again.
	VerdictFree
)

var verdictNames = [...]string{"none", "done", "refused", "free"}

// String returns the verdict's name in lower case.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Resolution is a person's decision about an unknown claim.
type Resolution struct {
	ID ID
	// Version is the version of the claim the person looked at.
	Version uint64
	Verdict Verdict
	// Result is what replays answer, for done and refused.
	Result Result
	// Actor and Reason are required; both are kept and audited.
	Actor, Reason string
}

func (v *Resolution) validate() error {
	if err := v.ID.Validate(); err != nil {
		return err
	}
	if v.Verdict < VerdictDone || v.Verdict > VerdictFree {
		return invalid("verdict", "is missing", "decide for done, refused or free")
	}
	if err := checkText("actor", v.Actor, MaxResultType); err != nil {
		return err
	}
	if err := checkText("reason", v.Reason, MaxReason); err != nil {
		return err
	}
	if len(v.Result.Type) > MaxResultType {
		return tooLong("result type", len(v.Result.Type), MaxResultType)
	}
	return checkChars("result type", v.Result.Type)
}

// Resolve carries out a person's decision. The claim must be unknown, and at the
// version the person saw, else the error wraps [ErrState], [ErrTerminal] or
// [ErrStale]. The same decision by the same person once more is answered the
// same, without a write; but the record of a key that was freed is gone, so for
// [VerdictFree] that is done by [Book.Resolve], and here it is [ErrStale].
func (m Machine) Resolve(r *Record, now time.Time, v Resolution) (Step, error) {
	if err := v.validate(); err != nil {
		return Step{}, err
	}
	if r == nil {
		return Step{}, &StateError{Op: "resolve", Err: ErrStale, State: Absent}
	}
	cur := m.Effective(*r, now)
	refuse := func(err error) (Step, error) {
		return Step{}, &StateError{Op: "resolve", Err: err, State: cur.State, Version: cur.Version}
	}
	o := outcome{Done, v.Result, "resolve"}
	if v.Verdict == VerdictRefused {
		o.state = Refused
	}
	switch {
	case cur.State.Terminal():
		if v.Verdict != VerdictFree && v.Version+1 == cur.Version && v.Actor == cur.Actor {
			return again(cur, o)
		}
		return refuse(ErrTerminal)
	case cur.Version != v.Version:
		return refuse(ErrStale)
	case cur.State != Unknown:
		return refuse(ErrState)
	case v.Verdict == VerdictFree:
		return remove(cur), nil
	}
	next := m.terminal(cur, now, o)
	next.Actor, next.Reason = v.Actor, cut(v.Reason)
	return put(next, now, Finished), nil
}
