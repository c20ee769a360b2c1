package machine

import (
	"bytes"
	"time"
)

// begin makes the wanted call the call under way.
func (m *move) begin() {
	c, at, ok := Want(m.def, m.s)
	if !ok || at.After(m.now) || c.Kind == Look {
		m.failf("no call is due")
		return
	}
	step, st := m.at(c.Step)
	switch {
	case c.Kind == Undo:
		if st.UndoDoubt && !m.now.Before(st.UndoFirst.Add(step.UndoKeyValidFor)) {
			m.stuck(c.Step, "the callee no longer knows the key of the undo")
			return
		}
		if st.Status == Unknown && m.ev.Sending {
			st.LastSend, st.Error = m.now, "an earlier call has not ended, against its time limit"
			st.NextAt = m.now.Add(step.Undo.delay(1, 0, m.ev.Random))
			return
		}
		m.beginUndo(c.Step)
	case st.Doubt && !m.keyValid(c.Step, m.now):
		st.Resend = false
		m.resolve(c.Step)
		return
	default:
		if !st.Doubt {
			st.FirstSend = m.now
		}
		st.Status, st.Resend, st.NextAt, st.LastSend = Started, false, time.Time{}, m.now
		st.Sends++
		st.Tries++
		st.Looks = 0
		m.note(NoteSent, c.Step, "")
	}
	c, _ = m.s.InFlight()
	m.effects = append(m.effects, Effect{Kind: EffectCall, Step: c.Step, Call: c})
}

func (m *move) keyValid(i int, t time.Time) bool {
	step, st := m.at(i)
	return step.KeyValidFor > 0 && t.Before(st.FirstSend.Add(step.KeyValidFor))
}

// mindClock forgets how old the keys in doubt are when the clock stands before what the run
// has seen of it. It was set back then, and how long the process was off is not known
// either: the age that a key had says only that it is more than that by now.
func (m *move) mindClock() {
	if !m.ev.SetBack && !m.s.after(m.now) {
		return
	}
	for i := range m.s.Steps {
		st := &m.s.Steps[i]
		if st.Doubt || st.Status == Started {
			st.FirstSend = time.Time{}
		}
		if st.UndoDoubt || st.Undo == UndoStarted {
			st.UndoFirst = time.Time{}
		}
	}
}

// after reports whether a call of the run was made, or ended, after t.
func (s *State) after(t time.Time) bool {
	for i := range s.Steps {
		st := &s.Steps[i]
		if st.FirstSend.After(t) || st.LastSend.After(t) || st.UndoFirst.After(t) || st.UndoneAt.After(t) {
			return true
		}
	}
	return false
}

// result takes in how a call of an action ended.
func (m *move) result(i int) {
	step, st := m.at(i)
	ev := &m.ev
	if st.Status != Started || st.Sends != ev.Call.Try {
		m.stale(i)
		return
	}
	st.Error, st.Code = ev.Text, ev.Code
	switch ev.Outcome {
	case OutcomeDone:
		st.Output = ev.Data
		m.answered(i)
	case OutcomeRefused:
		switch {
		case st.Signal == OutcomeDone:
			m.contradiction(i)
		case st.Doubt: // it proves nothing of the earlier tries
			m.unclear(i, NoteRefused)
		default:
			m.refused(i, CauseRefused)
		}
	case OutcomeRetry:
		switch {
		case st.Signal == OutcomeDone:
			m.happened(i)
		case ev.Hold != HoldNone && (st.Doubt || st.Signal != OutcomeRefused && !m.s.Back):
			m.unmade(i)
		case st.Doubt:
			m.unclear(i, NoteRetry)
		case st.Signal == OutcomeRefused || m.s.Back:
			m.refused(i, CauseRefused)
		case st.Tries >= step.Act.Attempts:
			m.refused(i, CauseExhausted)
		default:
			st.Status = Ready
			st.NextAt = m.now.Add(step.Act.delay(st.Tries, ev.After, ev.Random))
			m.note(NoteRetry, i, ev.Text)
		}
	default:
		st.Doubt, st.LastSend = true, m.now
		if st.Signal == OutcomeDone {
			m.happened(i)
			return
		}
		m.unclear(i, NoteUnknown)
	}
}

// unmade: the call could not be made, and no pause mends that. Nor may the run be
// undone for it: what keeps a program from making the call probably keeps it from
// undoing the others too, and the order is not to blame.
func (m *move) unmade(i int) {
	_, st := m.at(i)
	st.Status, st.NextAt = Ready, m.now
	if st.Doubt {
		st.Status = Unknown
	}
	st.Tries--
	m.hold(m.ev.Hold, i, m.ev.Text)
}

// answered: the callee has taken the action on.
func (m *move) answered(i int) {
	step, st := m.at(i)
	st.Doubt = false
	switch {
	case step.Await && st.Signal != OutcomeUnknown:
		m.heard(i)
	case step.Await:
		st.Status, st.NextAt = Waiting, m.awaitEnd(step)
		if m.ev.Kind == Result { // when it was sent in the course of the call is not known
			st.LastSend = m.now
		}
		m.note(NoteWaiting, i, m.ev.Text)
		if m.s.Back {
			m.takeBack(i)
		}
	case st.Signal == OutcomeRefused:
		m.contradiction(i)
	default:
		m.happened(i)
	}
}

// unclear leaves a step unknown, to be resolved after a pause.
func (m *move) unclear(i int, n Note) {
	step, st := m.at(i)
	st.Status = Unknown
	st.NextAt = m.now.Add(step.Act.delay(st.Tries, m.ev.After, m.ev.Random))
	m.note(n, i, m.ev.Text)
	m.resolve(i)
}

// heard lets a signal decide that came before, or comes now.
func (m *move) heard(i int) {
	_, st := m.at(i)
	switch {
	case st.Signal == OutcomeDone:
		m.happened(i)
	case st.Doubt:
		st.Status, st.NextAt = Unknown, m.now
		m.resolve(i)
	default:
		reason := ""
		if m.ev.Kind == Signal {
			reason = m.ev.Text
		}
		st.Error = withReason(refusedBySignal, reason)
		m.refused(i, CauseRefused)
	}
}

// happened: the action of step i is known to have happened.
func (m *move) happened(i int) {
	step, st := m.at(i)
	st.Status, st.Doubt, st.Resend, st.NextAt = Done, false, false, time.Time{}
	st.Error, st.Code = "", ""
	if step.NoAction && m.ev.Kind != Operate { // a person has given the output
		st.Output = st.SignalData
	}
	text := ""
	if m.ev.Kind == Result || m.ev.Kind == Found {
		text = m.ev.Text
	}
	m.note(NoteDone, i, text)
	m.released(i)
	if !st.UndoneAt.IsZero() && (st.Undo == UndoNone || st.Undo == UndoDone) {
		m.raise(i)
	}
}

// refused: the action of step i did not happen and will not.
func (m *move) refused(i int, cause Cause) {
	step, st := m.at(i)
	st.Doubt, st.Resend = false, false
	m.note(NoteRefused, i, st.Error)
	m.released(i)
	if !m.s.Back && m.pivotBefore(i) {
		st.Status = Ready
		st.NextAt = m.now.Add(step.Act.delay(st.Tries, m.ev.After, m.ev.Random))
		if st.Tries >= step.Act.Attempts || step.NoAction {
			st.Status = Refused
			m.hold(HoldForward, i,
				"after the point of no return, step "+step.Name+" does not succeed: "+st.Error+"; retry "+
					"tries it again, mark_done says that it happened, skip goes on without it")
		}
		return
	}
	st.Status = Refused
	if !st.UndoneAt.IsZero() {
		st.Undo = UndoDone // nothing stands
	}
	m.back(cause, i, st.Error)
}

// pivotBefore reports that the point of no return lies before step i.
func (m *move) pivotBefore(i int) bool {
	for j := range i {
		step, st := m.at(j)
		if step.Pivot && (st.Status == Done || st.Status == Skipped) {
			return true
		}
	}
	return false
}

// resolve decides how an unknown step is to be resolved; when is in its NextAt.
func (m *move) resolve(i int) {
	step, st := m.at(i)
	st.Resend = false
	switch {
	case st.Undo != UndoNone:
	case step.Check && st.Looks < step.Act.Attempts:
	case !st.UndoneAt.IsZero():
		m.holdEvidence(i)
	case m.maySend(i):
		st.Resend = true
	case step.HasUndo && step.UndoWhenAbsent && !committed(m.def, m.s):
		m.back(CauseUnknown, i, "it is not known whether step "+step.Name+" happened")
		if m.s.Back {
			st.Undo, st.NextAt = UndoDue, m.now
		}
	default:
		m.hold(HoldUnknown, i, "it is not known whether step "+step.Name+" happened; "+m.markIt(i))
	}
}

// markIt says how a person resolves a step in doubt, and what comes of it.
func (m *move) markIt(i int) string {
	done, not := "the run goes on", "the step is sent again"
	switch _, st := m.at(i); {
	case m.s.Back:
		done, not = "it is undone", "there is nothing to undo"
	case st.TimedOut:
		not = "it counts as refused"
	}
	return "find out and mark it as done or not done: after mark_done " + done +
		", after mark_not_done " + not + m.until()
}

// until says that what a person decides holds only up to the deadline.
func (m *move) until() string {
	if m.s.Back || m.s.Deadline.IsZero() || committed(m.def, m.s) {
		return ""
	}
	return "; from its deadline on, " + m.s.Deadline.UTC().Format(time.RFC3339) +
		", it is undone after either"
}

// maySend reports that an unknown step can be resolved by sending it again.
func (m *move) maySend(i int) bool {
	step, st := m.at(i)
	at := st.NextAt
	if at.Before(m.now) {
		at = m.now
	}
	undoIsSafe := m.s.Back && step.HasUndo && step.UndoWhenAbsent
	return !undoIsSafe && !st.TimedOut && st.Tries < step.Act.Attempts && m.keyValid(i, at)
}

// found takes in the answer of a look-up.
func (m *move) found(i int) {
	step, st := m.at(i)
	if st.Status != Unknown || st.Undo != UndoNone {
		return
	}
	ev := &m.ev
	switch {
	case ev.Hold != HoldNone:
		m.hold(ev.Hold, i, ev.Text)
		return
	case ev.Begun && step.Await && !st.TimedOut && !m.s.Back: // else its signal is no longer waited for
		st.Output = ev.Data
		m.released(i)
		m.answered(i)
		return
	}
	switch ev.Outcome {
	case OutcomeDone:
		st.Output = ev.Data
		if !st.UndoneAt.IsZero() { // what was undone may still be found: a charge that is refunded
			m.holdEvidence(i)
			return
		}
		m.happened(i)
	case OutcomeRefused:
		st.Error, st.Code = ev.Text, ev.Code
		m.refused(i, CauseRefused)
	case OutcomeAbsent:
		m.note(NoteAbsent, i, ev.Text)
		if ev.Sending {
			st.LastSend = m.now
			st.Looks++
		}
		settled := step.settled(st)
		if !m.now.Before(settled) && !ev.Sending {
			m.absent(i)
			return
		}
		st.NextAt = m.now
		if st.Resend = !m.s.Back && m.maySend(i); st.Resend {
			return
		}
		if st.NextAt = settled; ev.Sending {
			m.resolve(i)
		}
	default:
		st.Looks++
		st.NextAt = m.now.Add(step.Act.delay(st.Looks, ev.After, ev.Random))
		m.note(NoteUnclear, i, ev.Text)
		m.resolve(i)
	}
}

// absent: nothing of the action of step i stands.
func (m *move) absent(i int) {
	step, st := m.at(i)
	if !m.s.Back && !st.TimedOut && st.Tries < step.Act.Attempts {
		st.Status, st.Doubt, st.NextAt = Ready, false, m.now
		m.released(i)
		return
	}
	if st.Error == "" {
		st.Error = "it did not happen"
	}
	m.refused(i, CauseExhausted)
}

// wake looks at what has become due.
func (m *move) wake() {
	if m.s.Hold == HoldDefinition {
		m.unhold() // the engine has the definition now
	}
	if m.s.Hold != HoldNone {
		return
	}
	i := m.current()
	if i < 0 {
		return
	}
	if !m.s.Deadline.IsZero() && !m.now.Before(m.s.Deadline) && !m.s.Back {
		if committed(m.def, m.s) {
			m.s.Deadline = time.Time{}
		} else {
			m.back(CauseDeadline, i, "the run's deadline has passed")
			return
		}
	}
	step, st := m.at(i)
	if st.Status != Waiting || st.NextAt.IsZero() || m.now.Before(st.NextAt) {
		return
	}
	st.Error = "its signal did not come in time"
	if step.NoAction {
		m.refused(i, CauseExhausted)
		return
	}
	st.Status, st.TimedOut, st.NextAt = Unknown, true, m.now
	m.note(NoteUnknown, i, st.Error)
	m.resolve(i)
}

// recover turns what the dead process had under way.
func (m *move) recover() {
	const text = "the process ended during the call"
	c, ok := m.s.InFlight()
	if !ok {
		return
	}
	step, st := m.at(c.Step)
	if c.Kind == Undo {
		st.Undo, st.UndoDoubt, st.NextAt = UndoDue, true, m.now
		st.Error = text
		if st.UndoTries >= step.Undo.Attempts {
			m.stuck(c.Step, text)
		}
		return
	}
	st.Status, st.Doubt, st.LastSend, st.NextAt, st.Error = Unknown, true, m.now, m.now, text
	m.note(NoteUnknown, c.Step, text)
	if st.Signal == OutcomeDone {
		m.happened(c.Step)
		return
	}
	m.resolve(c.Step)
}

// stale takes in the result of a call that the run no longer waits for: only a
// success still says something.
func (m *move) stale(i int) {
	step, st := m.at(i)
	if m.ev.Outcome != OutcomeDone {
		return
	}
	if !step.Await {
		m.evidence(i, m.ev.Data, time.Time{})
		return
	}
	if st.Status == Unknown && !st.TimedOut && !m.s.Back && st.Undo == UndoNone {
		st.Output = bytes.Clone(m.ev.Data)
		m.released(i)
		m.answered(i)
	}
}
