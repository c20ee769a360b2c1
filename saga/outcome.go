package saga

import (
	"errors"
	"fmt"
	"time"
)

// Outcome says what became of one outside call. Every call ends in one of four,
// and the zero value is the one that claims least.
type Outcome uint8

// The outcomes.
const (
	// OutcomeUnknown: the effect may have happened.
	OutcomeUnknown Outcome = iota
	// OutcomeDone: the effect happened.
	OutcomeDone
	// OutcomeRefused: the effect did not happen and will not. See [Refused].
	OutcomeRefused
	// OutcomeRetry: the effect did not happen; asking again may help. See
	// [NotDone] and [RetryAfter].
	OutcomeRetry
)

var outcomeNames = [...]string{"unknown", "done", "refused", "retry"}

// String returns the outcome's name; the names are a closed set.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// OutcomeOf says what the error of a function that causes an effect means: nil
// is done, a mark ([Refused], [NotDone], [RetryAfter]) is what it says, and
// every other error is unknown: "it failed" does not mean "it did not happen".
//
// A mark counts on the error itself and under single wrapping, as by fmt.Errorf
// with one %w. In a join of several errors it does not count. Nor do the answers
// of this package count ([RefusedError], [NotDoneError] and the others): they
// say what became of another effect. Whoever knows that an answer holds for the
// whole function marks it: Refused(err).
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OutcomeDone
	}
	if m := markOf(err); m != nil {
		return m.outcome
	}
	return OutcomeUnknown
}

// Refused marks err as a definite refusal: the effect did not happen and will
// not. It is stored, and everybody who asks under the same key gets it back as a
// [RefusedError] with the text of err, so the text must hold no secret. If err is
// itself a RefusedError, its code and detail are kept too:
//
//	return Receipt{}, saga.Refused(&saga.RefusedError{Code: "card_declined", Message: "…"})
//
// Use it only where the callee's answer says so. A time-out is no refusal.
func Refused(err error) error { return &mark{outcome: OutcomeRefused, err: err} }

// NotDone marks err as proof that the effect did not happen: an input that was
// found invalid before the call, a connection that was never made. Nothing is
// stored, the key is free again, and the caller gets a [NotDoneError] with err.
func NotDone(err error) error { return &mark{outcome: OutcomeRetry, err: err} }

// RetryAfter is [NotDone] with a hint when to ask again.
func RetryAfter(after time.Duration, err error) error {
	return &mark{outcome: OutcomeRetry, after: max(0, after), err: err}
}

// mark is what a function says about its own effect. It is not exported, so that
// nothing but the functions above makes one.
type mark struct {
	outcome Outcome
	after   time.Duration
	begun   bool  // see Begun
	blocked bool  // see Blocked
	err     error // may be nil
}

// Error returns the text of the marked error.
func (m *mark) Error() string {
	if m.err == nil {
		return m.outcome.String()
	}
	return m.err.Error()
}

// Unwrap returns the marked error.
func (m *mark) Unwrap() error { return m.err }

// refusal is the refusal to store, as everybody will see it.
func (m *mark) refusal(err error) *RefusedError {
	if r, ok := errors.AsType[*RefusedError](m.err); ok {
		return &RefusedError{Code: r.Code, Message: r.Message, Detail: r.Detail, Answer: r.Answer}
	}
	return &RefusedError{Message: err.Error()}
}

// answer is an error that tells a caller of this package what became of a key.
type answer interface {
	error
	answersKey() string
}

// markOf finds the mark of err, or nil. It does not look into joined errors, nor
// below an answer.
func markOf(err error) *mark {
	for err != nil {
		switch e := err.(type) { //nolint:errorlint // it walks the chain itself, to stop at answers
		case *mark:
			return e
		case answer:
			return nil
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		default:
			return nil
		}
	}
	return nil
}
