package claim

import (
	"fmt"
	"time"
)

// own returns what r is at now if token holds it, and an error otherwise.
func (m Machine) own(r *Record, now time.Time, token, op string) (Record, error) {
	if r == nil {
		return Record{}, &StateError{Op: op, Err: ErrFenced, State: Absent}
	}
	cur := m.Effective(*r, now)
	if !cur.heldBy(token) {
		return Record{}, &StateError{Op: op, Err: ErrFenced, State: cur.State, Version: cur.Version}
	}
	return cur, nil
}

// Done records that the effect happened. A late answer counts too: an unknown
// claim whose token is still the caller's becomes done. Once more with the same
// result is answered the same; another result is refused with [ErrTerminal].
func (m Machine) Done(r *Record, now time.Time, token string, res Result) (Step, error) {
	return m.finish(r, now, token, outcome{Done, res, "done"})
}

// Refused records that the effect definitely did not happen and will not. When
// an earlier try is in doubt that proves nothing: the claim becomes unknown and
// the decision is StillUnknown.
func (m Machine) Refused(r *Record, now time.Time, token string, res Result) (Step, error) {
	return m.finish(r, now, token, outcome{Refused, res, "refused"})
}

type outcome struct {
	state State
	res   Result
	op    string
}

func (m Machine) finish(r *Record, now time.Time, token string, o outcome) (Step, error) {
	o.res.Type = cutType(o.res.Type)
	cur, err := m.own(r, now, token, o.op)
	if err != nil {
		return Step{}, err
	}
	if cur.State.Terminal() {
		return again(cur, o)
	}
	if o.state == Refused && !cur.ownWordCounts() {
		return m.noProof(cur, now, ReasonRefused), nil
	}
	return put(m.terminal(cur, now, o), now, Finished), nil
}

// ownWordCounts reports whether the owner's "it did not happen" is proof: it is
// while no try ended unknown. A lease that ended alone does not count against
// the owner: the same token still holds the key.
func (r *Record) ownWordCounts() bool {
	return !r.Doubt && (r.State == Pending || r.Cause == CauseLeaseEnded)
}

// again answers an outcome for a claim that is already terminal.
func again(cur Record, o outcome) (Step, error) {
	if cur.State == o.state && cur.hasResult(o.res) {
		return keep(Decision{Kind: Finished, Record: cur}), nil
	}
	return Step{}, &StateError{Op: o.op, Err: ErrTerminal, State: cur.State, Version: cur.Version}
}

func (m Machine) terminal(cur Record, now time.Time, o outcome) Record {
	cur.State = o.state
	cur.Intent = nil
	cur.setResult(o.res, m.MaxResult)
	cur.ExpiresAt = now.Add(m.Retention)
	return cur
}

// noProof makes the claim unknown, with a send as late as now.
func (m Machine) noProof(cur Record, now time.Time, reason string) Step {
	return doubtful(cur, now, CauseNoProof, reason)
}

func doubtful(cur Record, now time.Time, cause Cause, reason string) Step {
	cur.Doubt = true
	cur.LastSendBefore = now
	return put(cur.becomeUnknown(now, cause, reason), now, StillUnknown)
}

// Release records that the effect definitely did not happen, and frees the key.
// When an earlier try is in doubt the claim becomes unknown instead and the
// decision is StillUnknown. Releasing an absent key is answered with Freed.
func (m Machine) Release(r *Record, now time.Time, token string) (Step, error) {
	if r == nil {
		return keep(Decision{Kind: Freed}), nil
	}
	cur, err := m.own(r, now, token, "release")
	if err != nil {
		return Step{}, err
	}
	if cur.State.Terminal() {
		return Step{}, &StateError{Op: "release", Err: ErrTerminal, State: cur.State, Version: cur.Version}
	}
	if !cur.ownWordCounts() {
		return m.noProof(cur, now, "released, but an earlier try may have happened"), nil
	}
	return remove(cur), nil
}

// Unknown records that the owner does not know whether the effect happened. The
// last send counts as now.
func (m Machine) Unknown(r *Record, now time.Time, token, reason string) (Step, error) {
	cur, err := m.own(r, now, token, "unknown")
	if err != nil {
		return Step{}, err
	}
	if cur.State.Terminal() {
		return Step{}, &StateError{Op: "unknown", Err: ErrTerminal, State: cur.State, Version: cur.Version}
	}
	if r.State == Unknown && r.Cause == CauseReported {
		return keep(Decision{Kind: StillUnknown, Record: cur}), nil
	}
	return doubtful(cur, now, CauseReported, reason), nil
}

// Heartbeat extends the lease of a remote owner to now+lease, also one that
// ended while nobody took over.
func (m Machine) Heartbeat(r *Record, now time.Time, token string, lease time.Duration) (Step, error) {
	if err := checkLease(lease); err != nil {
		return Step{}, err
	}
	cur, err := m.own(r, now, token, "heartbeat")
	if err != nil {
		return Step{}, err
	}
	lapsed := cur.State == Unknown && cur.Cause == CauseLeaseEnded
	if cur.Owner.Local || cur.State != Pending && !lapsed {
		return Step{}, &StateError{Op: "heartbeat", Err: ErrState, State: cur.State, Version: cur.Version}
	}
	if lapsed {
		cur.State = Pending
		cur.LastSendBefore = time.Time{} // it may be sending
		if !cur.Doubt {
			cur.UnknownSince, cur.Cause, cur.Reason = time.Time{}, "", ""
		}
	}
	cur.Owner.Lease, cur.Owner.Deadline = lease, now.Add(lease)
	return put(cur, now, Extended), nil
}

// Repeat gives the owner of a claim in doubt leave to send the same downstream
// key once more. It is called, and committed, before that send: from then on a
// look-up that finds nothing is no proof until this try has ended. It is refused
// with [ErrTooOld] when the first send may be validFor ago, which is how long the
// callee remembers keys, less what a send may take to arrive; and with [ErrState]
// when the claim is not pending in doubt.
func (m Machine) Repeat(r *Record, now time.Time, token string, validFor time.Duration) (Step, error) {
	if validFor <= 0 {
		return Step{}, invalid("key_valid_for", fmt.Sprintf("is %v", validFor),
			"name how long the callee remembers keys")
	}
	cur, err := m.own(r, now, token, "repeat")
	if err != nil {
		return Step{}, err
	}
	refuse := func(err error) (Step, error) {
		return Step{}, &StateError{Op: "repeat", Err: err, State: cur.State, Version: cur.Version}
	}
	if cur.State != Pending || !cur.Doubt {
		return refuse(ErrState)
	}
	if !MayRepeat(cur, now, validFor) {
		return refuse(ErrTooOld)
	}
	if cur.LastSendBefore.IsZero() { // asked again after a lost answer
		return keep(Decision{Kind: MayResend, Record: cur}), nil
	}
	cur.LastSendBefore = time.Time{} // a send may be under way
	return put(cur, now, MayResend), nil
}

// cutType makes any type fit: the effect has happened, so its outcome is never
// refused for what the callee put there.
func cutType(s string) string { return cutTo(s, MaxResultType) }
