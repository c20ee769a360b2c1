package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outcome is what became of a call.
type Outcome uint8

// The outcomes. The zero value claims least. They are part of the file format.
const (
	OutcomeUnknown Outcome = iota // it may have happened
	OutcomeDone                   // it happened
	OutcomeRefused                // it did not and will not
	OutcomeRetry                  // it did not; asking again may help
	OutcomeAbsent                 // of a look-up: there is nothing
)

var outcomeNames = [...]string{"unknown", "done", "refused", "retry", "absent"}

// String returns the name; the names are a closed set.
func (o Outcome) String() string { return name(outcomeNames[:], int(o)) }

// Kind is what a call does.
type Kind uint8

// The kinds of calls.
const (
	// Action causes a step's effect.
	Action Kind = iota + 1
	// Undo takes it back.
	Undo
	// Look asks what became of an action, and has no effect.
	Look
)

var kindNames = [...]string{"", "action", "undo", "check"}

// String returns the name; the names are a closed set.
func (k Kind) String() string { return name(kindNames[:], int(k)) }

// Call names one call. Step, Kind and UndoNo are what its key is made of, together
// with the run's definition, business key and round; Try never is.
type Call struct {
	Step   int
	Kind   Kind
	UndoNo int
	// Try counts the sends of the action or the undo, from 1.
	Try int
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	// Begin: the slot of the wanted call is held.
	Begin EventKind = iota + 1
	// Result: a call of an action or an undo has ended. Step, Call, Outcome, After,
	// Data, Text and Code say how.
	Result
	// Found: a look-up has ended; Step, Outcome, After, Data, Text and Code.
	Found
	// Signal: the callee has said what became of Step: Outcome is done or refused; At
	// is when it happened, if that is known; Data, and Text, why it was refused.
	Signal
	// Wake: time has passed.
	Wake
	// Recover: the process that made the call under way is gone; SetBack.
	Recover
	// Park: the engine cannot work on the run; Hold and Text say why.
	Park
	// Operate: a person acts; Verb, Step, Text (the reason) and Data.
	Operate
)

// Verb is an act of a person on a run that has not ended. The machine believes it.
// Where the state does not allow it an [*Error] says why, and nothing changes.
//
//	verb           step in doubt or held           undo due or stuck
//	retry          looked up or sent again         sent again
//	mark_done      done: the run goes on           undone: the one before it is next
//	mark_not_done  sent again, or as refused       sent again
//	skip           left out: the run goes on       its effect stands; the run ends closed
//	cancel         the run is undone               -
//	close          the run ends at once; what stands, stands
type Verb uint8

// The verbs.
const (
	// Retry makes what waits due now, and begins to count its tries anew: a pause ends;
	// a step in doubt is looked up, or sent again under its key while the callee knows
	// that; a step that failed and a stuck undo are sent again. A run that the engine
	// could not work on goes on, so correct that first.
	Retry Verb = iota + 1
	// Cancel has the run undone: no further step is sent, and what was done is undone,
	// the last step first. After the pivot has been sent it is refused.
	Cancel
	// MarkDone says that the action of Step happened, and Data is its output: the run
	// goes on with the next step, or undoes this one if it is being undone. If the undo
	// of Step is due or stuck it says that this happened: the step before it is next.
	// If that is not true, what did not happen is missing, and nobody looks again.
	MarkDone
	// MarkNotDone says that the action of Step did not happen. It is then SENT AGAIN,
	// with the same key; if that is not true and the callee does not honour keys, twice.
	// Where it waited for its signal, or the signal did not come in time, or the run is
	// being undone, it counts as refused instead: the run is undone without it. If the
	// undo of Step is due or stuck, the undo is sent again.
	MarkNotDone
	// Skip goes on without the action of Step; later steps find no output of it. If the
	// run is being undone it lets the effect of Step stand and undoes those before it;
	// the run then ends as closed, for something of it stands.
	Skip
	// Close ends the run as it is: nothing more is sent or undone, whatever stands or is
	// in doubt stays so, and the business key stays taken. Only a rerun makes it anew.
	Close
)

var verbNames = [...]string{"", "retry", "cancel", "mark_done", "mark_not_done", "skip", "close"}

// String returns the name; the names are a closed set.
func (v Verb) String() string { return name(verbNames[:], int(v)) }

// ParseVerb returns the verb with the name; the error lists the names there are.
func ParseVerb(name string) (Verb, error) {
	if i := slices.Index(verbNames[1:], name); i >= 0 {
		return Verb(i + 1), nil
	}
	return 0, fmt.Errorf("saga: %q is no verb; the verbs are %s", name, strings.Join(verbNames[1:], ", "))
}

// Event is one event; which fields count depends on its kind.
type Event struct {
	Kind    EventKind
	Step    int
	Call    Call
	Outcome Outcome
	// After is the callee's wish when to ask again.
	After time.Duration
	// Data is an output or what came with a signal.
	Data []byte
	// Text and Code are for people and programs: an error, a reason.
	Text, Code string
	// Begun: a look-up with an unknown outcome found that the action has happened and its
	// signal is still to come. Data is its output.
	Begun bool
	// Sending, of Found and Begin: an earlier call of the step goes on, so that what a
	// look-up does not find may be sent still, and an undo could overtake it.
	Sending bool
	// SetBack, of Recover: the clock was set back since the run was last changed, as the
	// new process can tell when it began before that. How old a key is is not known then.
	SetBack bool
	At      time.Time
	Verb    Verb
	// Hold is why a run is parked. With the outcome retry, or of a look-up, it says that
	// the call could not be made at all, which no pause mends: the run is held for it.
	Hold Hold
	// Random spreads pauses.
	Random uint32
}

// EffectKind says what is to be done.
type EffectKind uint8

// The kinds of effects.
const (
	// EffectCall: make the call, once the state is stored.
	EffectCall EffectKind = iota + 1
	// EffectTell: the run has come to its status; tell who listens.
	EffectTell
	// EffectCorrect: the effect of Step became known after the run had been undone;
	// open a run with [Correction].
	EffectCorrect
	// EffectContradict: a word about Step contradicts the end of the run. Nothing can be
	// done for it by itself; tell who listens. Text says what.
	EffectContradict
	// EffectNote: an entry for the run's history.
	EffectNote
)

// Effect is one thing to be done. Call is set for EffectCall, Note for EffectNote.
type Effect struct {
	Kind EffectKind
	Step int
	Call Call
	Note Note
	Text string
}

// Note is what an entry of the history is about.
type Note uint8

// The notes. They are part of the file format.
const (
	NoteSent      Note = iota + 1 // an action was sent
	NoteDone                      // it happened
	NoteRefused                   // it was refused
	NoteRetry                     // it did not happen and is tried again
	NoteUnknown                   // it may have happened
	NoteWaiting                   // it waits for its signal
	NoteAbsent                    // a look-up found nothing
	NoteUnclear                   // a look-up told nothing
	NoteSignal                    // a signal came
	NoteConflict                  // a word contradicts an earlier one
	NoteUndoSent                  // an undo was sent
	NoteUndone                    // it happened
	NoteUndoRetry                 // it failed and is tried again
	NoteUndoStuck                 // it does not succeed
	NoteBack                      // the run is being undone
	NoteHeld                      // a person is needed
	NoteOperator                  // a person acted
	NoteEnd                       // the run has ended
	NoteLate                      // a word came after the end
)

var noteNames = [...]string{"", "sent", "done", "refused", "retry", "unknown", "waiting", "absent",
	"unclear", "signal", "conflict", "undo_sent", "undone", "undo_retry", "undo_stuck", "back", "held",
	"operator", "end", "late"}

// String returns the name; the names are a closed set.
func (n Note) String() string { return name(noteNames[:], int(n)) }

// Error is an event that the state does not allow; nothing has changed.
type Error struct {
	// Status is the state of the run.
	Status Status
	// Problem says why, and what to do instead.
	Problem string
}

// Error names the state, the problem and the remedy.
func (e *Error) Error() string { return fmt.Sprintf("saga: the run is %s: %s", e.Status, e.Problem) }
