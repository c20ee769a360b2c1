package auth

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrRefused means that a token is missing, malformed, unknown, revoked or
	// expired. It does not say which.
	ErrRefused = errors.New("auth: a valid token is required")

	// ErrNotFound means that no token has the id.
	ErrNotFound = errors.New("auth: there is no token of this id")

	// ErrNameTaken means that a live token has the name.
	ErrNameTaken = errors.New("auth: a live token has this name; rotate or revoke that one, or choose " +
		"another name, with its principal when both are to share their keys")

	// ErrStale means that the token is not at the expected version.
	ErrStale = errors.New("auth: the token has changed since it was read; read it again and decide anew")

	// ErrNotLive means that a token to be rotated is revoked or expired.
	ErrNotLive = errors.New("auth: the token is revoked or expired; create a new one")

	// ErrTooMany means that the store holds MaxTokens tokens.
	ErrTooMany = fmt.Errorf("auth: the store holds %d tokens, the most it keeps", MaxTokens)
)

// BlockedError means that an address has failed too often.
type BlockedError struct {
	// RetryAfter is when it may try again.
	RetryAfter time.Duration
}

// Error says how long to wait.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("auth: too many failed attempts from this address; wait %v", e.RetryAfter)
}

// FieldError names a field of a call, what is wrong with it and the remedy.
type FieldError struct {
	Field   string // for example "name"
	Problem string // for example "is empty"
	Remedy  string // what the caller can do
}

// Error names the field, the problem and the remedy.
func (e *FieldError) Error() string {
	return "auth: " + e.Field + " " + e.Problem + "; " + e.Remedy
}
