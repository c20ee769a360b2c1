package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// Signal is a word of a callee that comes by another way than the reply: a webhook,
// a callback, a message. It says what became of the action of a step.
type Signal struct {
	// Run is the run's id; or else Principal, Definition and Key name the last run
	// of a key. A word about an earlier round must name its run, which [Call] gives to
	// the step that asks for it: by the key alone it would count for the last round.
	Run                        string
	Principal, Definition, Key string
	// Step is the step it is about.
	Step string
	// Refused is true when the action did not happen and will not.
	Refused bool
	// Data is JSON, at most MaxData bytes, or nil: see [SignalData]. Where the run has no
	// room for it any more it is left out: the word counts, and the history says so.
	Data []byte
	// Reason says why it was refused, for people; it is cut to 500 bytes.
	Reason string
	// Actor is the person who sends it in the callee's place, or empty. It is then told
	// in the feed, as "operator.run.signal".
	Actor string
	// At is when it happened, if the callee says so. It can prove that a success came
	// after its undo, so leave it out when the callee's clock is not to be trusted.
	At time.Time
}

// Signal takes in a signal. It may come before the reply of the action, twice, late,
// or contradict an earlier one: early ones are kept, the second of two equal ones
// changes nothing, a success of what was undone opens a correction, which knows the data
// that came with it, and after a contradiction the run waits for a person. A second
// success with other data is told of and changes nothing, see [Contradiction]. About an
// action that has not been sent nothing is taken. The error is [ErrNoRun], an [InputError]
// or a [machine.Error], or the store's; then the sender must send it again.
func (e *Engine) Signal(ctx context.Context, s Signal) error {
	err := e.store.Update(ctx, func(w kv.Writer) error { return e.SignalTx(w, s) })
	e.inDoubt(ctx, err)
	return err
}

// SignalTx is [Engine.Signal] in the caller's transaction, in which the receipt of
// the signal is recorded.
func (e *Engine) SignalTx(w kv.Writer, s Signal) error {
	if len(s.Data) > MaxData {
		return &kv.LimitError{What: "data of a signal", Got: int64(len(s.Data)), Limit: MaxData,
			Unit:   "bytes",
			Remedy: "keep the data elsewhere and pass a reference"}
	}
	if len(s.Data) > 0 && !json.Valid(s.Data) {
		return &InputError{Field: "data", Problem: "is not JSON"}
	}
	id := s.Run
	if id == "" {
		row, ok, err := keyTable.Get(w, RunKey{s.Principal, s.Definition, s.Key}.row())
		if err != nil {
			return err
		}
		if !ok {
			return ErrNoRun
		}
		id = row.Run
	}
	c, err := e.edit(w, id)
	if err != nil {
		return err
	}
	if c == nil {
		return ErrNoRun
	}
	ev := machine.Event{Kind: machine.Signal, Step: c.r.state.Find(s.Step), Outcome: machine.OutcomeDone,
		Data: s.Data, Text: cut(s.Reason, maxError), At: s.At}
	if ev.Step < 0 {
		return &InputError{Field: "step", Problem: fmt.Sprintf("%q is none of %s", s.Step, c.r.def)}
	}
	if known := c.r.state.Steps[ev.Step].SignalData; sameJSON(known, s.Data) {
		ev.Data = known // in the same words
	}
	c.who = s.Actor
	if s.Refused {
		ev.Outcome = machine.OutcomeRefused
	}
	if c.reg == nil {
		return &InputError{Field: "run", Problem: "cannot take the signal: " + c.missing.Error() +
			"; then send the signal again"}
	}
	if err := c.apply(ev); err != nil {
		return err
	}
	if s.Actor != "" && c.changed() {
		if err := c.audit("signal", Act{Step: s.Step, Actor: s.Actor, Reason: s.Reason}); err != nil {
			return err
		}
	}
	return c.save()
}
