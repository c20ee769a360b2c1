package kv

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("kv: store is closed")

	// ErrNested is returned by a transaction that is opened inside another. It
	// would wait for itself, or tie an outside effect to a closure that may
	// run twice.
	ErrNested = errors.New("kv: a transaction was opened inside a transaction; " +
		"pass the Writer down, or start it after the outer one has returned")

	// ErrTxDone is returned by a Reader or Writer used after its closure ended.
	ErrTxDone = errors.New("kv: the transaction has ended; its Reader or Writer must not be kept")

	// ErrCommitUnknown is returned when the engine failed while committing: the
	// change may be found after the next start, or not. Nothing that rests on
	// it may be answered. Call the same primitive again with the same token.
	ErrCommitUnknown = errors.New("kv: the commit failed and may or may not have reached the disk")

	// ErrStopped is returned by Update after a commit error: the store takes no
	// more writes until it is opened again. What was asked for did not happen.
	ErrStopped = errors.New("kv: the store has stopped taking writes after a commit error; " +
		"free disk space or repair the disk, then restart")

	// ErrNoSpace is returned by [AdmitIntent] when free space is below the mark.
	ErrNoSpace = errors.New("kv: free disk space is below the mark; new work is refused until space is freed")

	// ErrLocked is returned on opening a store that another process holds.
	ErrLocked = errors.New("kv: the store is in use by another process")

	// ErrForeign is returned on opening a file that is not a store of onced.
	ErrForeign = errors.New("kv: the file is not a onced store")

	// ErrNewer is returned when a store or a row was written by a newer version
	// of the program than the one that reads it.
	ErrNewer = errors.New("kv: written by a newer version of onced; use that version or a later one")

	// ErrCorrupt is returned when stored bytes cannot be what was written.
	ErrCorrupt = errors.New("kv: stored data is damaged")
)

// DoubtError is [ErrCommitUnknown] of a row that is read: a commit of it failed, and what
// it holds is known after a restart, not sooner. A scan ends at its place; one that can
// do without the row goes on behind Key.
type DoubtError struct {
	Table TableID
	Key   []byte
}

// Error names the row.
func (e *DoubtError) Error() string {
	return fmt.Sprintf("%v: row %x of %s; its state is known after a restart", ErrCommitUnknown, e.Key,
		e.Table)
}

// Unwrap returns ErrCommitUnknown.
func (e *DoubtError) Unwrap() error { return ErrCommitUnknown }

// LimitError says which limit a call exceeded and what to do about it.
type LimitError struct {
	What   string // the thing limited, for example "key of table claim.record"
	Got    int64  // what was asked for, in Unit; 0 when it was not counted to its end
	Limit  int64  // the most that is allowed, in Unit
	Unit   string // "bytes", "rows", "writes", "ms"
	Remedy string // what the caller can do
}

// Error names the thing, the limit and the remedy.
func (e *LimitError) Error() string {
	got := ""
	if e.Got > 0 {
		got = fmt.Sprintf(" (got %d)", e.Got)
	}
	return fmt.Sprintf("kv: %s: limit is %d %s%s; %s", e.What, e.Limit, e.Unit, got, e.Remedy)
}
