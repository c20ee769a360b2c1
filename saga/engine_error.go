package saga

import (
	"errors"
	"fmt"
	"strings"

	"onced/saga/machine"
)

// The classes of a [Failure], for errors.Is, and the errors of calls about runs.
var (
	// ErrUndone: the run failed, and nothing of it stands.
	ErrUndone = errors.New("saga: the run was undone")
	// ErrNeedsPerson: the run is held or stuck; a person must act.
	ErrNeedsPerson = errors.New("saga: the run waits for a person")
	// ErrRunClosed: a person ended the run; effects of it may stand.
	ErrRunClosed = errors.New("saga: the run was closed")
	// ErrNoRun: there is no such run, or no longer.
	ErrNoRun = errors.New("saga: there is no such run, or it is no longer kept")
	// ErrVersion: the run has changed since the caller looked at it.
	ErrVersion = errors.New("saga: the run has changed meanwhile; look at it again")
	// ErrNotServing: nobody works on the runs of this engine. Call [Engine.Serve] and the
	// Run of Config.Timers, each on a goroutine of its own; what was started goes on then.
	ErrNotServing = errors.New("saga: nobody works on the runs; call Engine.Serve, and Run of Config.Timers")
	// ErrInput is the class of [InputError].
	ErrInput = errors.New("saga: wrong input")
)

// InputError says what is wrong with a call about runs. Nothing was done.
type InputError struct {
	// Field is what is wrong, Problem says how.
	Field, Problem string
}

// Error names the field and the problem.
func (e *InputError) Error() string { return "saga: " + e.Field + " " + e.Problem }

// Is reports that target is [ErrInput].
func (e *InputError) Is(target error) bool { return target == ErrInput }

// Failure says how a run that did not complete stands: what was undone, what was
// not, and why. It is of the class [ErrUndone], [ErrNeedsPerson] or [ErrRunClosed].
type Failure struct {
	// Run, Definition and Key name the run.
	Run, Definition, Key string
	// Status is compensated, held, stuck or closed.
	Status machine.Status
	// Cause is why it failed, Step where; Reason is that for people.
	Cause  machine.Cause
	Step   string
	Reason string
	// Err is the refusal of the step, or nil.
	Err error
	// Undone are the steps that were undone, in the order in which they were.
	Undone []string
	// Stands are the steps that happened, or may have, and were not undone.
	Stands []Standing
}

// Standing is a step whose effect stands, or may.
type Standing struct {
	// Step is its name.
	Step string
	// Why says why it was not undone.
	Why string
}

// Error says all of it in one line.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "saga: %s %q is %s", f.Definition, f.Key, f.Status)
	if f.Step != "" {
		fmt.Fprintf(&b, ": step %s", f.Step)
		if f.Cause != machine.CauseNone {
			fmt.Fprintf(&b, " (%s)", f.Cause)
		}
	}
	if f.Reason != "" {
		b.WriteString(": " + f.Reason)
	}
	if len(f.Undone) > 0 {
		b.WriteString("; undone: " + strings.Join(f.Undone, ", "))
	}
	for i, s := range f.Stands {
		sep := ", "
		if i == 0 {
			sep = "; not undone: "
		}
		b.WriteString(sep + s.Step + " (" + s.Why + ")")
	}
	return b.String()
}

// Is reports that target is the class of the failure.
func (f *Failure) Is(target error) bool {
	switch f.Status {
	case machine.Compensated:
		return target == ErrUndone
	case machine.Closed:
		return target == ErrRunClosed
	case machine.Held, machine.Stuck:
		return target == ErrNeedsPerson
	default:
		return false
	}
}

// Unwrap returns the refusal of the step, or nil.
func (f *Failure) Unwrap() error { return f.Err }

// failure describes the run, or is nil when it has completed.
func (r *run) failure() error {
	s := &r.state
	if s.Status == machine.Completed {
		return nil
	}
	f := &Failure{Run: r.id, Definition: r.def, Key: r.key, Status: s.Status, Cause: s.Cause,
		Reason: s.Reason}
	i := s.Failed
	if s.HoldStep > 0 && s.Hold != machine.HoldIrreversible {
		i = s.HoldStep
	}
	if i > 0 {
		st := &s.Steps[i-1]
		f.Step = st.Name
		if st.Status == machine.Refused && s.Cause == machine.CauseRefused {
			f.Err = &RefusedError{Code: st.Code, Message: st.Error}
		}
	}
	for i := len(s.Steps) - 1; i >= 0; i-- {
		st := &s.Steps[i]
		why := ""
		switch {
		case st.Undo == machine.UndoDone:
			f.Undone = append(f.Undone, st.Name)
		case st.Undo == machine.UndoStuck:
			why = "its undo does not succeed: " + st.Error
		case st.Undo == machine.UndoSkipped:
			why = "a person let it stand"
		case st.Status == machine.Skipped && st.Doubt:
			why = "a person did without it, and it may have happened"
		case st.Status == machine.Unknown || st.Status == machine.Started || st.Status == machine.Waiting:
			why = "it may have happened"
		case st.Status == machine.Done && s.Back && s.Status != machine.Compensated:
			why = "its turn has not come"
		case st.Status == machine.Done && s.Status != machine.Compensated:
			why = "the run is not being undone"
		}
		if why != "" {
			f.Stands = append(f.Stands, Standing{Step: st.Name, Why: why})
		}
	}
	return f
}
