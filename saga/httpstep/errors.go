package httpstep

import "time"

// CallError is a call that is not known to be done. What became of the effect is in
// Meaning, and in the mark around it that saga.OutcomeOf reads.
type CallError struct {
	// Method and Host are those of the request; Host is empty when the URL could not
	// be read.
	Method, Host string
	// Status is that of the reply, 0 without a whole one.
	Status int
	// Meaning is what is known of the effect.
	Meaning Meaning
	// Credentials says that the callee does not accept ours.
	Credentials bool
	// Unsendable says that the request itself is at fault: every try of it ends so.
	Unsendable bool
	// RetryAfter is when the callee wants to be asked again, or 0.
	RetryAfter time.Duration
	// Cause is what went wrong without a reply, often *egress.Error, or nil. It is not
	// unwrapped, and its text is not for people: it may hold what the callee sent.
	Cause error

	text    string
	refusal error // *saga.RefusedError, or nil
}

// Error says what was sent where and what came back; it holds no secret of the
// request.
func (e *CallError) Error() string { return e.text }

// Reason is the same, for the history of a run.
func (e *CallError) Reason() string { return e.text }

// Unwrap returns the *saga.RefusedError of a refusal, whose code is "http_" and the
// status, or nil.
func (e *CallError) Unwrap() error { return e.refusal }
