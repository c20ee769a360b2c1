package saga

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"onced/kv"
	"onced/kv/claim"
)

// soon is the hint when calling again may settle an unknown effect at once;
// later is the hint after a look-up has failed.
const (
	soon  = time.Second
	later = 5 * time.Second
)

// begin claims the key. Only a call that finds the effect unknown at its first
// look takes it over: those who wait while somebody settles it would ask the
// callee one after the other, to hear the same.
func (c *call[A, R]) begin(ctx context.Context) (d claim.Decision, err error) {
	asked := ctx
	ctx, end := c.span(ctx, "claim begin")
	defer func() { end(err, c.decisionOf(d)...) }()
	c.req.TakeOver = c.check != nil || c.set.keyValidFor > 0
	d, known, err := c.claims.Peek(ctx, c.req)
	if err != nil || known && (d.Kind != claim.InFlight || c.set.wait == 0) {
		return d, err
	}
	if err := c.prepare(asked); err != nil {
		return d, err
	}
	if !known {
		d, err = c.ask(ctx, c.claims.BeginNew)
	}
	if err != nil || d.Kind != claim.InFlight || c.set.wait == 0 {
		return d, err
	}
	c.req.TakeOver = false
	return c.ask(ctx, func(ctx context.Context, req claim.Request) (claim.Decision, error) {
		return c.claims.BeginWait(ctx, req, c.set.wait)
	})
}

// ask asks for the key, and again with the same token when it is not known
// whether the claim was stored: it must not be left behind without an owner.
func (c *call[A, R]) ask(
	ctx context.Context, begin func(context.Context, claim.Request) (claim.Decision, error),
) (claim.Decision, error) {
	d, err := begin(ctx, c.req)
	if !errors.Is(err, kv.ErrCommitUnknown) {
		return d, err
	}
	for range saveTries - 1 {
		d, err = begin(context.WithoutCancel(ctx), c.req)
		if err == nil || decided(err) {
			return d, err
		}
	}
	ref := c.req.Ref()
	c.unsaved.add(c.req.ID, func(ctx context.Context) (claim.Decision, error) {
		return c.claims.Release(ctx, ref) // nothing was done
	})
	return d, err
}

// act does what the answer of begin asks for.
func (c *call[A, R]) act(ctx context.Context, d claim.Decision) (Result[R], error) {
	id := c.req.ID
	switch d.Kind {
	case claim.Acquired:
		return c.run(ctx)
	case claim.TookOver:
		c.earlier = traceOf(d.Record.Intent)
		return c.settle(ctx, d.Record)
	case claim.Replay:
		c.res.Replayed = true
		return c.answer(d.Record)
	case claim.InFlight:
		return c.res, &InFlightError{Operation: c.name, Key: id.Key, RetryAfter: max(d.RetryAfter, soon)}
	case claim.Mismatch:
		return c.res, &MismatchError{Operation: c.name, Key: id.Key}
	case claim.InDoubt:
		return c.res, c.unknown(d.Record, nil, soon)
	default:
		return c.res, fmt.Errorf("saga: %s %q: the claim answered %v", c.name, id.Key, d.Kind)
	}
}

// unknown is the answer for a claim that stays unknown.
func (c *call[A, R]) unknown(r claim.Record, cause error, after time.Duration) *UnknownError {
	e := &UnknownError{Operation: c.name, Key: c.req.ID.Key, DownstreamKey: c.res.DownstreamKey,
		Since: r.UnknownSince, Reason: r.Reason, Err: cause, RetryAfter: max(after, time.Millisecond)}
	if c.check == nil && c.set.keyValidFor <= 0 {
		e.Held, e.RetryAfter = true, 0
	}
	return e
}

// run causes the effect and stores its outcome. The caller owns the key, and may
// cause the effect once.
func (c *call[A, R]) run(ctx context.Context) (Result[R], error) {
	why, stored := "the function ended its goroutine", false
	defer func() {
		if !stored { // it, or what reads its outcome, panicked or called Goexit
			_, _ = c.save(ctx, c.recordUnknown(why))
		}
	}()
	v, err := c.effect(ctx)
	why = "the outcome could not be read"
	res, err := c.store(ctx, v, err)
	stored = true
	return res, err
}

// effect runs the function. The context does not end with the caller's: an
// effect that is cut off is an unknown one.
func (c *call[A, R]) effect(ctx context.Context) (R, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.set.timeout)
	defer cancel()
	ctx, end := c.span(ctx, "perform")
	ended := errGoexit
	defer func() { endEffect(end, ended) }()
	ctx = context.WithValue(ctx, downstreamKey{}, c.res.DownstreamKey)
	v, err := caught(func() (R, error) { return c.fn(ctx, c.arg) })
	ended = err
	return v, err
}

// errGoexit is what a span shows of a function that ended its goroutine.
var errGoexit = errors.New("saga: the function called runtime.Goexit")

// caught turns a panic of f into an error.
func caught[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

// store records what became of the effect, and answers what was recorded.
func (c *call[A, R]) store(ctx context.Context, v R, err error) (Result[R], error) {
	switch OutcomeOf(err) {
	case OutcomeDone:
		d, saveErr := c.save(ctx, c.record(c.claims.Done, c.encoded(v)))
		if saveErr != nil {
			return c.res, c.notSaved(saveErr, "the effect happened, but that could not be stored")
		}
		return c.firstAnswer(d.Record, v)
	case OutcomeRefused:
		d, saveErr := c.save(ctx, c.recordRefusal(encodedRefusal(markOf(err).refusal(err))))
		if saveErr != nil {
			return c.res, c.notSaved(errors.Join(saveErr, err), "a refusal could not be stored")
		}
		if d.Kind == claim.StillUnknown { // an earlier try may have happened
			return c.res, c.unknown(d.Record, err, c.set.settlesAfter)
		}
		return c.answer(d.Record)
	case OutcomeRetry:
		d, saveErr := c.save(ctx, func(ctx context.Context) (claim.Decision, error) {
			return c.claims.Release(ctx, c.req.Ref())
		})
		if saveErr != nil {
			return c.res, c.notSaved(errors.Join(saveErr, err), "the key could not be freed")
		}
		if d.Kind == claim.StillUnknown {
			return c.res, c.unknown(d.Record, err, max(markOf(err).after, soon))
		}
		return c.res, &NotDoneError{Err: err, RetryAfter: markOf(err).after}
	default:
		d, saveErr := c.save(ctx, c.recordUnknown(reasonOf(err)))
		if saveErr != nil {
			return c.res, c.notSaved(errors.Join(err, saveErr), reasonOf(err))
		}
		return c.res, c.unknown(d.Record, err, soon)
	}
}

// reasonOf describes an error for operators. It leaves the text out, which may
// hold what only the caller may see, but an error that has a method Reason says
// itself what they may see.
func reasonOf(err error) string {
	var p *PanicError
	switch {
	case errors.As(err, &p):
		return "the function panicked"
	case errors.Is(err, context.DeadlineExceeded):
		return "the function reached its time limit"
	case errors.Is(err, context.Canceled):
		return "the function was cancelled"
	}
	var says interface{ Reason() string }
	if errors.As(err, &says) {
		return says.Reason()
	}
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return fmt.Sprintf("the function failed with an error of type %T", err)
}

func (c *call[A, R]) record(
	finish func(context.Context, claim.Ref, claim.Result) (claim.Decision, error), res claim.Result,
) saver {
	ref := c.req.Ref()
	return func(ctx context.Context) (claim.Decision, error) { return finish(ctx, ref, res) }
}

// recordRefusal records a refusal of this send: as the outcome of the key, if that
// is what a callee that honours keys has answered, else as one that proves nothing
// while an earlier try is in doubt.
func (c *call[A, R]) recordRefusal(res claim.Result) saver {
	if c.settled {
		return c.recordFinding(claim.Finding{Answer: claim.FoundRefused, Result: res})
	}
	return c.record(c.claims.Refused, res)
}

func (c *call[A, R]) recordUnknown(reason string) saver {
	ref := c.req.Ref()
	return func(ctx context.Context) (claim.Decision, error) { return c.claims.Unknown(ctx, ref, reason) }
}
