package claim

import (
	"context"
	"time"

	"onced/kv"
)

// Names of operations, for errors and observers.
const (
	opBegin    = "begin"
	opLookedUp = "looked_up"
	opRecover  = "recover"
	opSweep    = "sweep"
)

// Ref names a claim together with the token that holds it.
type Ref struct {
	ID    ID
	Token string
}

// Ref returns the reference to the claim that the request asks for.
func (b Request) Ref() Ref { return Ref{ID: b.ID, Token: b.Token} }

// Begin asks for a key. See [Kind] for the answers; only after Acquired may the
// caller cause the effect. An answer that changes nothing costs no commit. The
// intent is durable when Begin returns. Errors: [ErrInvalid] with the field,
// [ErrTokenReused], [ErrNoEpoch], kv.ErrNoSpace for a new key when the disk is
// nearly full, kv.ErrCommitUnknown, after which the same token asks again.
func (b *Book) Begin(ctx context.Context, req Request) (d Decision, err error) {
	if err := req.validate(b.machine.Epoch); err != nil {
		return d, err
	}
	if decided, err := b.peek(ctx, &req, &d); err != nil || decided {
		return d, err
	}
	return b.begin(ctx, req)
}

// Peek answers a request as [Book.Begin] would when nothing has to be written for the
// answer: a replay, a mismatch, a claim in flight or in doubt. ok is false when Begin has
// to be asked. The request needs neither a token nor an intent, so that an answer to a
// known key costs neither; it must not be one whose token has been used before.
func (b *Book) Peek(ctx context.Context, req Request) (d Decision, ok bool, err error) {
	if err := req.validateQuestion(b.machine.Epoch); err != nil {
		return d, false, err
	}
	req.Token = ""
	ok, err = b.peek(ctx, &req, &d)
	return d, ok, err
}

// BeginNew is [Book.Begin] for a request that [Book.Peek] has no answer for. It does not
// look once more before it writes.
func (b *Book) BeginNew(ctx context.Context, req Request) (Decision, error) {
	if err := req.validate(b.machine.Epoch); err != nil {
		return Decision{}, err
	}
	return b.begin(ctx, req)
}

// begin is Begin with a write, for a valid request.
func (b *Book) begin(ctx context.Context, req Request) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.beginTx(w, req) })
}

// BeginTx is [Book.Begin] in the caller's transaction. Its answer counts when
// that has committed; no effect may be caused before.
func (b *Book) BeginTx(w kv.Writer, req Request) (Decision, error) {
	if err := req.validate(b.machine.Epoch); err != nil {
		return Decision{}, err
	}
	return b.beginTx(w, req)
}

func (b *Book) beginTx(w kv.Writer, req Request) (Decision, error) {
	return b.step(w, req.ID, opBegin, func(r *Record, now time.Time) (Step, error) {
		return b.machine.begin(r, now, req)
	})
}

// peek decides without a write if that is possible, and says what in d.
func (b *Book) peek(ctx context.Context, req *Request, d *Decision) (decided bool, err error) {
	var seen struct {
		record *Record
		at     time.Time
	}
	id := req.ID
	err = b.store.View(ctx, func(rd kv.Reader) (err error) {
		seen.record, err = load(rd, id)
		seen.at = rd.Now()
		return err
	})
	if err != nil || seen.record == nil {
		return false, err
	}
	s, err := b.machine.begin(seen.record, seen.at, *req)
	if err != nil || s.Write != Keep {
		return false, err
	}
	b.observe(opBegin, s.Decision.Kind)
	*d = s.Decision
	return true, nil
}

// Done records that the effect happened, with its result. See [Machine.Done].
// The result is durable when it returns; one above MaxResult is omitted, and
// the claim is done all the same. An [ErrFenced] or [ErrTerminal] changed
// nothing. It is safe to call again with the same result.
func (b *Book) Done(ctx context.Context, ref Ref, res Result) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.DoneTx(w, ref, res) })
}

// DoneTx is [Book.Done] in the caller's transaction.
func (b *Book) DoneTx(w kv.Writer, ref Ref, res Result) (Decision, error) {
	return b.own(w, ref, "done", func(r *Record, now time.Time) (Step, error) {
		return b.machine.Done(r, now, ref.Token, res)
	})
}

// Refused records that the effect definitely did not happen and will not, with
// the answer that replays get. See [Machine.Refused]: with an earlier try in
// doubt the decision is StillUnknown. Safe to call again.
func (b *Book) Refused(ctx context.Context, ref Ref, res Result) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.RefusedTx(w, ref, res) })
}

// RefusedTx is [Book.Refused] in the caller's transaction.
func (b *Book) RefusedTx(w kv.Writer, ref Ref, res Result) (Decision, error) {
	return b.own(w, ref, "refused", func(r *Record, now time.Time) (Step, error) {
		return b.machine.Refused(r, now, ref.Token, res)
	})
}

// Release records that the effect definitely did not happen and frees the key
// for the next caller. See [Machine.Release]: with an earlier try in doubt the
// decision is StillUnknown. Safe to call again.
func (b *Book) Release(ctx context.Context, ref Ref) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.ReleaseTx(w, ref) })
}

// ReleaseTx is [Book.Release] in the caller's transaction.
func (b *Book) ReleaseTx(w kv.Writer, ref Ref) (Decision, error) {
	return b.own(w, ref, "release", func(r *Record, now time.Time) (Step, error) {
		return b.machine.Release(r, now, ref.Token)
	})
}

// Unknown records that the owner does not know whether the effect happened.
// The reason is for people; it must hold no secret. Safe to call again.
func (b *Book) Unknown(ctx context.Context, ref Ref, reason string) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.UnknownTx(w, ref, reason) })
}

// UnknownTx is [Book.Unknown] in the caller's transaction.
func (b *Book) UnknownTx(w kv.Writer, ref Ref, reason string) (Decision, error) {
	return b.own(w, ref, "unknown", func(r *Record, now time.Time) (Step, error) {
		return b.machine.Unknown(r, now, ref.Token, reason)
	})
}

// Heartbeat extends a remote owner's lease to lease from now ([MinLease] to
// [MaxLease]). The decision's record has the new deadline.
func (b *Book) Heartbeat(ctx context.Context, ref Ref, lease time.Duration) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.HeartbeatTx(w, ref, lease) })
}

// HeartbeatTx is [Book.Heartbeat] in the caller's transaction.
func (b *Book) HeartbeatTx(w kv.Writer, ref Ref, lease time.Duration) (Decision, error) {
	return b.own(w, ref, "heartbeat", func(r *Record, now time.Time) (Step, error) {
		return b.machine.Heartbeat(r, now, ref.Token, lease)
	})
}

// LookedUp records the answer of a look-up at the callee. See
// [Machine.LookedUp]. Safe to call again: Finished and StillUnknown are answered
// the same; Cleared, once more, is answered StillUnknown or an error and never
// leads to a second effect.
func (b *Book) LookedUp(ctx context.Context, ref Ref, f Finding) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.LookedUpTx(w, ref, f) })
}

// LookedUpTx is [Book.LookedUp] in the caller's transaction.
func (b *Book) LookedUpTx(w kv.Writer, ref Ref, f Finding) (Decision, error) {
	return b.own(w, ref, opLookedUp, func(r *Record, now time.Time) (Step, error) {
		return b.machine.LookedUp(r, now, ref.Token, f)
	})
}

// Repeat asks for leave to send the same downstream key once more, for an owner
// whose claim is in doubt and whose callee honours keys for validFor
// ([DefaultKeyValidFor] is the least that real ones promise). See
// [Machine.Repeat]. The leave is durable when it returns. Safe to call again
// before the send.
func (b *Book) Repeat(ctx context.Context, ref Ref, validFor time.Duration) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.RepeatTx(w, ref, validFor) })
}

// RepeatTx is [Book.Repeat] in the caller's transaction, for example together
// with the takeover.
func (b *Book) RepeatTx(w kv.Writer, ref Ref, validFor time.Duration) (Decision, error) {
	return b.own(w, ref, "repeat", func(r *Record, now time.Time) (Step, error) {
		return b.machine.Repeat(r, now, ref.Token, validFor)
	})
}

// own is step for an event that needs the token.
func (b *Book) own(
	w kv.Writer, ref Ref, op string, decide func(*Record, time.Time) (Step, error),
) (Decision, error) {
	if err := ref.ID.Validate(); err != nil {
		return Decision{}, err
	}
	return b.step(w, ref.ID, op, decide)
}

// Get reads a claim as it is now, without its token. ok is false when it is
// absent.
func (b *Book) Get(ctx context.Context, id ID) (c Claim, ok bool, err error) {
	var got Claim
	var found bool
	err = b.store.View(ctx, func(rd kv.Reader) error {
		c, ok, err := b.GetTx(rd, id)
		if err == nil {
			got, found = c, ok
		}
		return err
	})
	return got, found && err == nil, err
}

// GetTx is [Book.Get] in the caller's transaction.
func (b *Book) GetTx(rd kv.Reader, id ID) (c Claim, ok bool, err error) {
	if err := id.Validate(); err != nil {
		return Claim{}, false, err
	}
	r, err := load(rd, id)
	if err != nil || r == nil {
		return Claim{}, false, err
	}
	return b.claim(id, *r, rd.Now()), true, nil
}
