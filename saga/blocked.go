package saga

import (
	"time"

	"onced/saga/machine"
)

// Blocked marks err as proof that the effect did not happen, for something that is
// wrong on this side and not with the order: credentials that the callee does not
// accept, a secret that is missing. It is [RetryAfter] with another end: when the tries
// of the step are used up, its run is held until somebody has corrected the cause and
// says retry. It is not undone for it: the same cause would keep the undos from being
// sent, and every open order would be undone for one mistake in a configuration.
//
// In an undo it is RetryAfter, and then stuck; in a look-up it tells nothing; outside of
// steps it is RetryAfter.
func Blocked(after time.Duration, err error) error {
	return &mark{outcome: OutcomeRetry, after: max(0, after), blocked: true, err: err}
}

// blocked has the run held when the tries of a blocked action are used up.
func (w *work) blocked(ev *machine.Event) {
	tries, most := w.r.state.Steps[w.call.Step].Tries, w.reg.m.Steps[w.call.Step].Act.Attempts
	if w.call.Kind != machine.Action || tries < most {
		return
	}
	ev.Hold = machine.HoldBroken
	ev.Text = cut(ev.Text, maxError-len(unblock)) + unblock
}

// unblock is what to do about it.
const unblock = "; correct that, then retry"

// Settled returns what the step has come to, in whichever way it ended: what came with
// the signal that finished it, else what its action gave, or a look-up has found, or a
// person has said; or nil. ok is false when it is not done and there is nothing. It does
// not change between the tries of a later step.
func (c *Call) Settled(step string) (output []byte, ok bool) {
	if c.state == nil { // it was not made by an engine
		return nil, false
	}
	if i := c.state.Find(step); i >= 0 {
		st := &c.state.Steps[i]
		if st.SignalData != nil && st.Signal != machine.OutcomeRefused {
			return st.SignalData, true
		}
	}
	return c.Output(step)
}
