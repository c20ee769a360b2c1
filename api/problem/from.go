package problem

import (
	"errors"
	"fmt"
	"net/http"

	"onced/kv"
	"onced/kv/claim"
)

// sentinels maps errors to codes; the text of these errors may be shown.
var sentinels = []struct {
	err  error
	code Code
}{
	{claim.ErrFenced, Fenced},
	{claim.ErrTerminal, Settled},
	{claim.ErrState, WrongState},
	{claim.ErrStale, Stale},
	{claim.ErrTooOld, KeyTooOld},
	{claim.ErrTokenReused, TokenReused},
	// The store's errors may wrap paths of files: their own texts stay inside.
	{kv.ErrCommitUnknown, CommitUnknown},
	{kv.ErrStopped, StoreStopped},
	{kv.ErrNoSpace, StoreFull},
	{kv.ErrClosed, Unavailable},
}

// From returns the problem of an error: a [Problem] as it is, the errors of kv
// and kv/claim by their meaning, and [Internal] for everything else, without the
// error's text. An Internal one is the caller's to log. Nil gives nil.
func From(err error) *Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if invalid, ok := errors.AsType[*claim.InvalidError](err); ok {
		return New(InvalidField, invalid.Field+" "+invalid.Problem+"; "+invalid.Remedy).At(invalid.Field)
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return New(s.code, claimDetail(err))
		}
	}
	if limit, ok := errors.AsType[*kv.LimitError](err); ok {
		return fromLimit(limit)
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return New(TooLarge, fmt.Sprintf("the body is larger than %d bytes", large.Limit))
	}
	return New(Internal, "")
}

// claimDetail shows the text of a claim's StateError only.
func claimDetail(err error) string {
	if s, ok := errors.AsType[*claim.StateError](err); ok {
		return "the claim is " + s.State.String() + " (" + s.Op + ")"
	}
	return ""
}

// fromLimit: time is ours to keep; sizes and counts are the caller's.
func fromLimit(e *kv.LimitError) *Problem {
	switch e.Unit {
	case "bytes":
		return New(TooLarge, e.Error())
	case "ms":
		return New(Unavailable, "the store took too long")
	}
	return New(LimitExceeded, e.Error())
}

// OfDecision returns the problem that a decision about a claim is for the one
// who asked, or nil when it is an answer: InFlight, InDoubt and Mismatch are
// problems. The instance is the path of the claim, or "".
func OfDecision(d claim.Decision, instance string) *Problem {
	switch d.Kind {
	case claim.InFlight:
		return New(InFlight, "").After(d.RetryAfter).About(instance)
	case claim.InDoubt:
		return New(OutcomeUnknown, d.Record.Reason).After(d.RetryAfter).About(instance)
	case claim.Mismatch:
		return New(Mismatch, "the fingerprint is not that of the first request").About(instance)
	default:
		return nil
	}
}
