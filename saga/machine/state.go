package machine

import (
	"fmt"
	"slices"
	"time"
)

// Status is the state of a run.
type Status uint8

// The states of a run. They are part of the file format.
const (
	Running      Status = iota + 1 // it goes forward
	Completed                      // every step is done
	Compensating                   // it is being undone
	Compensated                    // nothing stands
	Held                           // it waits for a person
	Stuck                          // an undo does not succeed
	Closed                         // ended by a person
)

var statusNames = [...]string{"", "running", "completed", "compensating", "compensated", "held", "stuck",
	"closed"}

// String returns the name; the names are a closed set.
func (s Status) String() string { return name(statusNames[:], int(s)) }

// Terminal reports that the run has ended and never changes.
func (s Status) Terminal() bool { return s == Completed || s == Compensated || s == Closed }

// StepStatus is the state of a step's action.
type StepStatus uint8

// The states of a step. They are part of the file format.
const (
	// Pending: its turn has not come, or it was taken back unsent.
	Pending StepStatus = iota
	// Ready: it is to be sent, and nothing of it stands.
	Ready
	// Started: a call is under way.
	Started
	// Waiting: it was sent and waits for its signal.
	Waiting
	// Unknown: it may have happened.
	Unknown
	// Done: it happened.
	Done
	// Refused: it did not happen and will not.
	Refused
	// Skipped: a person decided to do without it.
	Skipped
)

var stepNames = [...]string{"pending", "ready", "started", "waiting", "unknown", "done", "refused", "skipped"}

// String returns the name; the names are a closed set.
func (s StepStatus) String() string { return name(stepNames[:], int(s)) }

// UndoStatus is the state of a step's undo.
type UndoStatus uint8

// The states of an undo. They are part of the file format.
const (
	// UndoNone: nothing is to be undone, or not yet.
	UndoNone UndoStatus = iota
	// UndoDue: it is to be sent.
	UndoDue
	// UndoStarted: a call is under way.
	UndoStarted
	// UndoDone: it happened.
	UndoDone
	// UndoStuck: it does not succeed; a person is needed.
	UndoStuck
	// UndoSkipped: a person decided to let the effect stand.
	UndoSkipped
)

var undoNames = [...]string{"none", "due", "started", "done", "stuck", "skipped"}

// String returns the name; the names are a closed set.
func (s UndoStatus) String() string { return name(undoNames[:], int(s)) }

// Cause is why a run is undone.
type Cause uint8

// The causes. They are part of the file format.
const (
	CauseNone      Cause = iota // it is not
	CauseRefused                // a step was refused
	CauseExhausted              // a step had no success within its tries
	CauseUnknown                // a step's outcome cannot be found out, and it may be undone so
	CauseDeadline               // the run's deadline has passed
	CauseCancelled              // a person cancelled it
	CauseLate                   // an effect became known after its run had been undone
)

var causeNames = [...]string{"", "refused", "exhausted", "unknown", "deadline", "cancelled", "late_success"}

// String returns the name; the names are a closed set.
func (c Cause) String() string { return name(causeNames[:], int(c)) }

// Hold is why a run waits for a person.
type Hold uint8

// The reasons to wait for a person. They are part of the file format.
const (
	HoldNone          Hold = iota // it does not
	HoldUnknown                   // a step may have happened, and nothing can tell
	HoldForward                   // a step after the pivot does not succeed
	HoldIrreversible              // the run failed, and a step that stands cannot be undone
	HoldContradiction             // two words of a callee contradict each other
	HoldEvidence                  // a success became known, and whether its undo came before it is not known
	HoldDefinition                // the definition is not there, or is not the one the run began with
	HoldBroken                    // the engine cannot work on the run
)

var holdNames = [...]string{"", "unknown", "forward", "irreversible", "contradiction", "evidence",
	"definition", "broken"}

// String returns the name; the names are a closed set.
func (h Hold) String() string { return name(holdNames[:], int(h)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("(%d)", i)
}

// State is all the machine knows of a run. Make it with [New] or [Correction].
type State struct {
	Status Status
	// Back: the run is being undone. It is told apart from Status, which may be held.
	Back bool
	// Cause and Failed say why, and at which step; Failed counts from 1, 0 is none.
	Cause  Cause
	Failed int
	// Hold and HoldStep say what a person is needed for, while Status is held.
	Hold     Hold
	HoldStep int // from 1, 0 is none
	// Reason is Cause, Hold or the reason of a close for people.
	Reason string
	// Deadline is when the run is undone; zero is never.
	Deadline time.Time
	Steps    []StepState
}

// StepState is the state of one step.
type StepState struct {
	Name   string
	Status StepStatus
	Undo   UndoStatus
	// NextAt is when the step goes on; zero is at once, or for a step that waits for
	// its signal, never.
	NextAt time.Time
	// Doubt: a send may have happened, and nothing has cleared it.
	Doubt bool
	// Resend: an unknown step is resolved by sending it again.
	Resend bool
	// TimedOut: the signal did not come in time.
	TimedOut bool
	// Blind: the undo began although it was not known whether there was an effect.
	Blind bool
	// Sends counts all sends of the action, Tries those since the last reset by a
	// person; Looks counts look-ups that told nothing, in a row.
	Sends, Tries, Looks int
	// FirstSend is the first send in doubt, LastSend a time no send came after. In doubt,
	// a FirstSend of zero is one whose age is not known: its key is never sent again.
	FirstSend, LastSend time.Time
	// UndoNo is the number in the undo's key, from 1; 0 before the first undo.
	UndoNo int
	// UndoSends, UndoTries and UndoDoubt are as for the action, UndoFirst is the
	// first send under the present number, zero as for the action, UndoneAt when an undo
	// last succeeded.
	UndoSends, UndoTries int
	UndoDoubt            bool
	UndoFirst, UndoneAt  time.Time
	// Output is what the action answered, Error the last failure for people, Code
	// the code of a refusal.
	Output      []byte
	Error, Code string
	// Signal is the first word by signal: Unknown is none, Done or Refused.
	// SignalData is what came with it, SignalAt the latest time that a success was said
	// to have happened at.
	Signal     Outcome
	SignalData []byte
	SignalAt   time.Time
}

// New is the state of a run that has not begun.
func New(def *Def, now time.Time) State {
	s := State{Status: Running, Steps: make([]StepState, len(def.Steps))}
	for i := range def.Steps {
		s.Steps[i].Name = def.Steps[i].Name
	}
	if def.Deadline > 0 {
		s.Deadline = now.Add(def.Deadline)
	}
	m := move{def: def, s: &s, now: now}
	m.settle()
	return s
}

// clone copies what the machine changes. Bytes are replaced, never changed.
func (s State) clone() State {
	s.Steps = slices.Clone(s.Steps)
	return s
}

// Find returns the index of the step with the name, or -1.
func (s *State) Find(name string) int {
	for i := range s.Steps {
		if s.Steps[i].Name == name {
			return i
		}
	}
	return -1
}

// Awaits returns the index of the step whose signal the run waits for, or -1.
func (s *State) Awaits() int {
	if s.Status.Terminal() {
		return -1
	}
	for i := range s.Steps {
		if s.Steps[i].Status == Waiting {
			return i
		}
	}
	return -1
}

// InFlight returns the call under way.
func (s *State) InFlight() (c Call, ok bool) {
	for i := range s.Steps {
		st := &s.Steps[i]
		if st.Status == Started {
			return Call{Step: i, Kind: Action, Try: st.Sends}, true
		}
		if st.Undo == UndoStarted {
			return Call{Step: i, Kind: Undo, Try: st.UndoSends, UndoNo: st.UndoNo}, true
		}
	}
	return Call{}, false
}
