package saga

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"onced/kv/claim"
)

// looked is what a look-up gave.
type looked[R any] struct {
	claim.Finding
	value R             // for FoundDone
	err   error         // of the look-up
	after time.Duration // when to ask again, when it is no proof
	wait  bool          // a repeat after that can settle it
}

// settle finds out what became of an effect that may have happened. The caller
// has taken the key over; r is the claim at that instant.
func (c *call[A, R]) settle(ctx context.Context, r claim.Record) (Result[R], error) {
	l := looked[R]{Finding: claim.Finding{Reason: r.Reason}}
	if c.check != nil {
		l = c.lookUp(ctx, r)
	}
	open := l.Answer == claim.NoAnswer || l.Answer == claim.FoundNothing && !l.ProvesAbsence(r, r.UpdatedAt)
	if open && c.set.keyValidFor > 0 {
		if wait := c.untilSettled(r, r.UpdatedAt); wait > 0 && r.Reason == claim.ReasonRefused {
			// It would be refused again, with as little proof.
			l.Reason, l.after, l.wait = r.Reason, wait, true
			return c.found(ctx, l)
		}
		ref := c.req.Ref()
		d, err := c.saveOr(ctx, func(ctx context.Context) (claim.Decision, error) {
			return c.claims.Repeat(ctx, ref, c.set.keyValidFor)
		}, c.giveUp("the leave to send again could not be stored"))
		switch {
		case err == nil && d.Kind == claim.MayResend:
			c.settled = c.untilSettled(r, d.Record.UpdatedAt) <= 0
			return c.run(ctx)
		case !errors.Is(err, claim.ErrTooOld):
			return c.res, c.notSaved(errors.Join(err, l.err), "the leave to send again could not be stored")
		}
		l.Reason = "the callee may have forgotten the downstream key"
	}
	return c.found(ctx, l)
}

// untilSettled is how long after now the callee is sure to have come to the outcome
// of what was sent for r before.
func (c *call[A, R]) untilSettled(r claim.Record, now time.Time) time.Duration {
	return r.LastSendBefore.Add(c.set.settlesAfter).Sub(now)
}

// lookUp asks the callee. That it knows nothing counts only if the last send had
// settled before the look-up began, hence the instant of the takeover.
func (c *call[A, R]) lookUp(ctx context.Context, r claim.Record) looked[R] {
	why, told := "the look-up ended its goroutine", false
	defer func() {
		if !told { // it, or what reads its answer, panicked or called Goexit
			_, _ = c.save(ctx, c.recordFinding(claim.Finding{Reason: why}))
		}
	}()
	v, found, err := c.callCheck(ctx, r)
	why = "the answer of the look-up could not be read"
	l := c.looked(r, v, found, err)
	told = true
	return l
}

// looked reads the answer of a look-up.
func (c *call[A, R]) looked(r claim.Record, v R, found bool, err error) looked[R] {
	switch {
	case err == nil && found:
		return looked[R]{value: v, Finding: claim.Finding{Answer: claim.FoundDone, Result: c.encoded(v)}}
	case err == nil:
		return looked[R]{Finding: claim.Finding{Answer: claim.FoundNothing,
			SettlesAfter: c.set.settlesAfter, AskedAt: r.UpdatedAt,
			Reason: "a look-up found nothing, but too soon after the last send to be proof"}}
	case OutcomeOf(err) == OutcomeRefused:
		return looked[R]{err: err, Finding: claim.Finding{Answer: claim.FoundRefused,
			Result: encodedRefusal(markOf(err).refusal(err))}}
	}
	l := looked[R]{err: err, after: later, Finding: claim.Finding{Reason: failedLookUp(err)}}
	if m := markOf(err); m != nil && m.after > 0 {
		l.after = m.after
	}
	return l
}

// failedLookUp is the reason for people. An error that has a method Reason says
// itself what they may see; other texts may hold what only the caller may.
func failedLookUp(err error) string {
	const text = "the look-up failed"
	var says interface{ Reason() string }
	if errors.As(err, &says) {
		return text + ": " + says.Reason()
	}
	return text
}

// callCheck runs the look-up within the time limit.
func (c *call[A, R]) callCheck(ctx context.Context, r claim.Record) (v R, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.set.timeout)
	defer cancel()
	ctx, end := c.span(ctx, "look up")
	ended := errGoexit
	defer func() { end(ended, slog.Bool("found", found)) }()
	ctx = context.WithValue(ctx, downstreamKey{}, c.res.DownstreamKey)
	doubt := Doubt{Operation: c.name, Key: c.req.ID.Key, DownstreamKey: c.res.DownstreamKey,
		Since: r.UnknownSince, Try: r.Try, Reason: r.Reason}
	v, err = caught(func() (R, error) {
		v, ok, err := c.check(ctx, c.arg, doubt)
		found = ok
		return v, err
	})
	if ended = err; OutcomeOf(err) == OutcomeRefused {
		ended = nil // an answer, too
	}
	return v, found, err
}

// found records the finding and goes on from there.
func (c *call[A, R]) found(ctx context.Context, l looked[R]) (Result[R], error) {
	const failed = "what the look-up found could not be stored"
	do := c.recordFinding(l.Finding)
	later := do
	if l.Answer == claim.FoundNothing { // it may give the key to this call
		later = c.giveUp(failed)
	}
	d, err := c.saveOr(ctx, do, later)
	if err != nil {
		return c.res, c.notSaved(errors.Join(err, l.err), failed)
	}
	switch d.Kind {
	case claim.Cleared:
		return c.run(ctx)
	case claim.Finished:
		c.res.LookedUp = true
		return c.firstAnswer(d.Record, l.value)
	default: // it is unknown
	}
	e := c.unknown(d.Record, l.err, max(l.after, d.RetryAfter, soon))
	if c.check == nil && !l.wait { // nothing but the repeat, and that is over
		e.Held, e.RetryAfter = true, 0
	}
	return c.res, e
}

// giveUp makes a claim that this call holds, and has sent nothing for, unknown
// again. What was known of the last send stays.
func (c *call[A, R]) giveUp(reason string) saver {
	return c.recordFinding(claim.Finding{Reason: reason})
}

func (c *call[A, R]) recordFinding(f claim.Finding) saver {
	ref := c.req.Ref()
	return func(ctx context.Context) (claim.Decision, error) { return c.claims.LookedUp(ctx, ref, f) }
}
