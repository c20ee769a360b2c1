package machine

import "time"

// operate carries out the act of a person.
func (m *move) operate() {
	i := m.ev.Step
	if m.ev.Verb == Retry || m.ev.Verb == Cancel {
		i = max(m.current(), 0)
	}
	switch m.ev.Verb {
	case Retry:
		m.retry(i)
	case Cancel:
		m.cancel(i)
	case MarkDone:
		m.markDone(i)
	case MarkNotDone:
		m.markNotDone(i)
	case Skip:
		m.skip(i)
	case Close:
		m.s.Status, m.s.Reason, m.s.Deadline = Closed, m.ev.Text, time.Time{}
		m.s.Hold, m.s.HoldStep = HoldNone, 0
	default:
		m.failf("verb %d is not known", m.ev.Verb)
	}
	if m.err == nil {
		m.note(NoteOperator, i, m.ev.Verb.String()+": "+m.ev.Text)
	}
}

// idle reports that no call is under way, and fails otherwise.
func (m *move) idle() bool {
	if c, ok := m.s.InFlight(); ok {
		m.failf("a call of step %s is under way; act when it has ended, at the latest at its time-out",
			m.s.Steps[c.Step].Name)
		return false
	}
	return true
}

func (m *move) retry(i int) {
	if !m.idle() {
		return
	}
	step, st := m.at(i)
	hold := m.s.Hold
	if hold == HoldBroken || hold == HoldDefinition || hold == HoldContradiction && i+1 != m.s.HoldStep {
		m.unhold() // the step is not what it was held for
		if hold == HoldBroken && st.Status == Ready {
			st.Tries = 0
		}
		if st.Status == Unknown && st.Undo == UndoNone {
			st.NextAt = m.now
			m.resolve(i)
		}
		return
	}
	switch {
	case st.Undo == UndoStuck || st.Undo == UndoDue:
		if st.UndoDoubt && !m.now.Before(st.UndoFirst.Add(step.UndoKeyValidFor)) {
			m.failf("the undo of step %s may have happened, and its key is too old to be sent again; "+
				"find out and mark it as done or not done", st.Name)
			return
		}
		st.Undo, st.UndoTries, st.NextAt = UndoDue, 0, m.now
	case st.Status == Unknown:
		m.retryUnknown(i)
	case hold == HoldIrreversible && m.s.Back:
		m.failf("step %s cannot be undone; skip it to let its effect stand, or mark it as not done", st.Name)
	case st.Status == Waiting && hold == HoldNone:
		m.failf("step %s waits for its signal; mark it as done or not done, or skip it", st.Name)
	case hold != HoldNone && st.Status == Refused, st.Status == Ready:
		st.Status, st.Tries, st.NextAt = Ready, 0, m.now
		if step.NoAction {
			st.Status = Pending
		}
	}
	if m.err == nil && m.s.Hold == hold {
		m.unhold()
	}
}

// retryUnknown looks again, or sends again, where that can tell.
func (m *move) retryUnknown(i int) {
	step, st := m.at(i)
	st.NextAt = m.now
	switch {
	case step.Check:
		st.Looks, st.Resend = 0, false
	case !st.TimedOut && m.keyValid(i, m.now):
		st.Tries, st.Resend = 0, true
	default:
		m.failf("step %s may have happened, and neither a look-up nor its key can tell; "+
			"find out and mark it as done or not done", st.Name)
	}
}

func (m *move) cancel(i int) {
	switch {
	case m.s.Back:
		m.failf("it is being undone already")
	case committed(m.def, m.s):
		m.failf("its point of no return has been sent; it goes forward only")
	default:
		m.unhold()
		m.back(CauseCancelled, i, m.ev.Text)
	}
}

// undoTurn reports that what a person says of step i is about its undo.
func undoTurn(st *StepState) bool { return st.Undo == UndoDue || st.Undo == UndoStuck }

func (m *move) markDone(i int) {
	if !m.idle() {
		return
	}
	_, st := m.at(i)
	switch {
	case undoTurn(st):
		m.undone(i)
		return
	case i != m.current():
		m.failf("step %s is not the one the run is at", st.Name)
		return
	case st.Status == Done:
		m.failf("step %s is done", st.Name)
		return
	}
	if m.ev.Data != nil {
		st.Output = m.ev.Data
	}
	m.unhold()
	m.happened(i)
}

func (m *move) markNotDone(i int) {
	if !m.idle() {
		return
	}
	_, st := m.at(i)
	switch {
	case undoTurn(st):
		st.Undo, st.UndoDoubt, st.UndoTries, st.NextAt = UndoDue, false, 0, m.now
		return
	case st.Status == Unknown, st.Status == Waiting, st.Status == Done && m.s.HoldStep == i+1:
	default:
		m.failf("it is not in doubt whether step %s happened", st.Name)
		return
	}
	m.unhold()
	st.Tries, st.Signal = 0, OutcomeUnknown
	if st.Status == Unknown && !st.TimedOut && !m.s.Back {
		st.Status, st.Doubt, st.Resend, st.NextAt = Ready, false, false, m.now
		return
	}
	st.Error = m.ev.Text
	m.refused(i, CauseRefused)
}

func (m *move) skip(i int) {
	if !m.idle() {
		return
	}
	_, st := m.at(i)
	if i != m.current() {
		m.failf("step %s is not the one the run is at", st.Name)
		return
	}
	m.unhold()
	if m.s.Back {
		st.Undo = UndoSkipped
		return
	}
	// What may have happened stays in doubt: should the run be undone, that stands.
	st.Doubt = st.Status == Unknown || st.Status == Waiting && st.Sends > 0
	st.Status, st.Resend, st.NextAt = Skipped, false, time.Time{}
}
