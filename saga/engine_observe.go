package saga

import (
	"time"

	"onced/saga/machine"
)

// Observer is told what happens, for metrics. Its methods are called after the
// commit they rest on, must be quick, and are called from many goroutines.
type Observer interface {
	// CallEnded tells of a call of a function of a step.
	CallEnded(c CallInfo)
	// RunChanged tells that a run has come to another status.
	RunChanged(r RunInfo)
}

// CallInfo describes a call that has ended.
type CallInfo struct {
	// Run, Definition, Version and Step say which.
	Run, Definition, Version, Step string
	// Kind is action, undo or check; Outcome is done, refused, retry, unknown or absent.
	Kind, Outcome string
	// Host is the label of [Host].
	Host string
	// Try counts from 1.
	Try int
	// Took is how long it took.
	Took time.Duration
}

// RunInfo describes a run in short.
type RunInfo struct {
	// Run, Definition, Version, Key and Round name it.
	Run, Definition, Version, Key string
	Round                         uint64
	// Status is its state; Was is the one before, empty for a new run.
	Status, Was string
	// Cause says why it was undone, Hold why it waits for a person.
	Cause, Hold string
	// Created is when it began, Updated when it came to its state.
	Created, Updated time.Time
}

func (r *run) info(was machine.Status) RunInfo {
	return RunInfo{Run: r.id, Definition: r.def, Version: r.version, Key: r.key, Round: r.round,
		Status: r.state.Status.String(), Was: was.String(),
		Cause: r.state.Cause.String(), Hold: r.state.Hold.String(),
		Created: r.created, Updated: r.updated}
}

// nobody observes.
type nobody struct{}

// CallEnded implements [Observer].
func (nobody) CallEnded(CallInfo) {}

// RunChanged implements [Observer].
func (nobody) RunChanged(RunInfo) {}
