package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"onced/kv/claim"
)

// The classes of errors, for errors.Is. Each has a type with the details, for
// errors.As. The package comment says what to do about each.
var (
	// ErrRefused is the class of [RefusedError].
	ErrRefused = errors.New("saga: refused")
	// ErrNotDone is the class of [NotDoneError].
	ErrNotDone = errors.New("saga: definitely not done")
	// ErrInFlight is the class of [InFlightError].
	ErrInFlight = errors.New("saga: another call is at work under this key")
	// ErrMismatch is the class of [MismatchError].
	ErrMismatch = errors.New("saga: the key was used with other arguments")
	// ErrUnknown is the class of [UnknownError].
	ErrUnknown = errors.New("saga: the outcome is unknown")
	// ErrNoResult is the class of [ResultError].
	ErrNoResult = errors.New("saga: done, but the result cannot be given")
	// ErrConfig is the class of [ConfigError].
	ErrConfig = errors.New("saga: wrong configuration")
)

// RefusedError is a definite refusal: the effect did not happen and will not. It
// is the same for the first caller and for everybody later, also after a restart.
type RefusedError struct {
	// Code is for programs, for example "card_declined". It may be empty.
	Code string `json:"code,omitempty"`
	// Message is for people.
	Message string `json:"message"`
	// Detail is any further JSON, or nil.
	Detail json.RawMessage `json:"detail,omitempty"`
	// Answer, when it has a type, is what is stored and given back instead of the
	// fields above: a refusal in the callee's own form, byte for byte.
	Answer claim.Result `json:"-"`
}

// Error returns the message with the code.
func (e *RefusedError) Error() string {
	if e.Code == "" {
		return "refused: " + e.Message
	}
	return fmt.Sprintf("refused (%s): %s", e.Code, e.Message)
}

// Is reports that target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

func (e *RefusedError) answersKey() string { return e.Code }

// NotDoneError means that the effect of this call definitely did not happen and
// that the key is free for the next call.
type NotDoneError struct {
	// Err is what the function returned. errors.Is and errors.As look into it,
	// unless it holds an answer about another key.
	Err error
	// RetryAfter is the function's hint when to ask again, or zero.
	RetryAfter time.Duration
}

// Error returns the text of Err.
func (e *NotDoneError) Error() string { return e.Err.Error() }

// Unwrap returns Err, or nil when that would show the answer about another key
// as one about this.
func (e *NotDoneError) Unwrap() error {
	if _, other := errors.AsType[answer](e.Err); other {
		return nil
	}
	return e.Err
}

// Is reports that target is [ErrNotDone].
func (e *NotDoneError) Is(target error) bool { return target == ErrNotDone }

func (e *NotDoneError) answersKey() string { return "" }

// InFlightError means that another call is still at work under the key; the
// wait has reached its limit.
type InFlightError struct {
	// Operation and Key name the claim.
	Operation, Key string
	// RetryAfter is a hint when to ask again.
	RetryAfter time.Duration
}

// Error names the key and when to ask again.
func (e *InFlightError) Error() string {
	return fmt.Sprintf("saga: %s %q: another call is at work; ask again in %v",
		e.Operation, e.Key, e.RetryAfter)
}

// Is reports that target is [ErrInFlight].
func (e *InFlightError) Is(target error) bool { return target == ErrInFlight }

func (e *InFlightError) answersKey() string { return e.Key }

// MismatchError means that the key was first used with other arguments. Nothing
// was done, and the result of the first use is not shown.
type MismatchError struct {
	// Operation and Key name the claim.
	Operation, Key string
}

// Error names the key and the remedy.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("saga: %s %q: the key was first used with other arguments; is this the same "+
		"order? then send the same arguments; another order needs another key", e.Operation, e.Key)
}

// Is reports that target is [ErrMismatch].
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

func (e *MismatchError) answersKey() string { return e.Key }

// UnknownError means that the effect may have happened, and that nothing is done
// about it until it is known. It is not unwrapped, so that errors.Is never finds
// in its evidence what would be true of a known outcome.
type UnknownError struct {
	// Operation and Key name the claim.
	Operation, Key string
	// DownstreamKey is the key that was sent to the callee.
	DownstreamKey string
	// Since is when the outcome became unknown; zero when the store could not say.
	Since time.Time
	// RetryAfter is a hint when calling again can settle it; zero when Held.
	RetryAfter time.Duration
	// Held is true when no call can settle it, only a person: claim.Book.Resolve.
	Held bool
	// Reason says why it is unknown, for people.
	Reason string
	// Err is this call's own evidence, or nil: what the function, the look-up or
	// the store returned.
	Err error
}

// Error names the key, the reason and the remedy.
func (e *UnknownError) Error() string {
	s := fmt.Sprintf("saga: %s %q: the effect may have happened", e.Operation, e.Key)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	if e.Held {
		s += "; a person must find out and resolve the claim"
	} else {
		s += fmt.Sprintf("; call again in %v to settle it", e.RetryAfter)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports that target is [ErrUnknown].
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

func (e *UnknownError) answersKey() string { return e.Key }

// ResultError means that the effect happened and is recorded as done, but that
// its result cannot be given: JSON could not hold it, it was larger than the
// claims' MaxResult, a person resolved the claim without one, or the result type
// has changed. The effect is never run again for that.
type ResultError struct {
	// Operation and Key name the claim.
	Operation, Key string
	// Reason says what is wrong with the result.
	Reason string
	// Value is what the function returned, for the caller whose call caused the
	// effect; nil for everybody later.
	Value any
	// Err is the error of the codec, or nil.
	Err error
}

// Error names the key and the reason.
func (e *ResultError) Error() string {
	s := fmt.Sprintf("saga: %s %q: the effect happened, but its result cannot be given: %s",
		e.Operation, e.Key, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *ResultError) Unwrap() error { return e.Err }

// Is reports that target is [ErrNoResult].
func (e *ResultError) Is(target error) bool { return target == ErrNoResult }

func (e *ResultError) answersKey() string { return e.Key }

// ConfigError means that an operation is described wrongly. Nothing was claimed
// and nothing was done.
type ConfigError struct {
	// Operation is the name of the operation.
	Operation string
	// Field is the option or parameter, for example "Key".
	Field string
	// Problem says what is wrong, and what to do.
	Problem string
}

// Error names the field, the problem and the remedy.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("saga: operation %q: %s %s", e.Operation, e.Field, e.Problem)
}

// Is reports that target is [ErrConfig].
func (e *ConfigError) Is(target error) bool { return target == ErrConfig }

// PanicError is the cause of an [UnknownError] after a function has panicked.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is the stack at the panic.
	Stack []byte
}

// Error returns the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
