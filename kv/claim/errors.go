package claim

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrFenced means that the token is not the one that holds the key. Nothing
	// changed. Another owner took over, or the key was freed.
	ErrFenced = errors.New("claim: the token no longer holds the key")

	// ErrTerminal means that the claim already has another outcome, which
	// stands.
	ErrTerminal = errors.New("claim: the claim already has another outcome, which stands")

	// ErrState means that the operation does not fit the state of the claim.
	ErrState = errors.New("claim: the operation does not fit the state of the claim")

	// ErrStale means that the claim is not at the expected version.
	ErrStale = errors.New("claim: the claim has changed since it was read; read it again and decide anew")

	// ErrTooOld means that the downstream key must not be sent again: the
	// callee may have forgotten it.
	ErrTooOld = errors.New("claim: the callee may have forgotten the downstream key; " +
		"look up, or let a person decide")

	// ErrTokenReused means that a takeover asked for the key with the token of
	// the try it takes over from.
	ErrTokenReused = errors.New("claim: a takeover needs a fresh token, not that of an earlier try")

	// ErrNoEpoch means that the store cannot promise that one process holds it,
	// so a local owner's death could not be told.
	ErrNoEpoch = errors.New("claim: the store has no epoch, so local owners are not possible; use a lease")

	// ErrInvalid is what every [InvalidError] is.
	ErrInvalid = errors.New("claim: invalid value")
)

// StateError says why an operation on a claim was refused. It wraps one of
// [ErrFenced], [ErrTerminal], [ErrState], [ErrStale], [ErrTooOld] and
// [ErrTokenReused]. Nothing changed.
type StateError struct {
	// Op is the operation that was refused, for example "done".
	Op string
	// Err is the sentinel.
	Err error
	// State is the state the claim is in; [Absent] when it was freed or expired.
	State State
	// Version is the claim's version, 0 when it is absent.
	Version uint64
}

// Error names the operation, the reason and the state.
func (e *StateError) Error() string {
	s := fmt.Sprintf("%v (%s, the claim is %s)", e.Err, e.Op, e.State)
	if e.State == Absent && e.Err == ErrStale { //nolint:errorlint // the sentinel itself
		s += "; if this decision was sent before, it may have freed the key"
	}
	return s
}

// Unwrap returns the sentinel.
func (e *StateError) Unwrap() error { return e.Err }

// InvalidError names a field of a call, what is wrong with it and the remedy.
type InvalidError struct {
	Field   string // for example "key"
	Problem string // for example "is 256 bytes long, the limit is 255"
	Remedy  string // for example "use a shorter key"
}

// Error names the field, the problem and the remedy.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("claim: %s %s; %s", e.Field, e.Problem, e.Remedy)
}

// Unwrap returns [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }

func invalid(field, problem, remedy string) error {
	return &InvalidError{Field: field, Problem: problem, Remedy: remedy}
}

func tooLong(field string, got, limit int) error {
	problem := fmt.Sprintf("is %d bytes long, the limit is %d", got, limit)
	return invalid(field, problem, "use a shorter "+field)
}

func checkLease(d time.Duration) error {
	switch {
	case d < MinLease:
		return invalid("lease", fmt.Sprintf("is %v, the least is %v", d, MinLease),
			"ask for a longer lease; there is none without an end")
	case d > MaxLease:
		return invalid("lease", fmt.Sprintf("is %v, the limit is %v", d, MaxLease),
			"ask for a shorter lease and beat")
	}
	return nil
}
