package machine

import (
	"bytes"
	"time"
)

func (m *move) beginUndo(i int) {
	_, st := m.at(i)
	st.UndoNo = max(st.UndoNo, 1)
	if !st.UndoDoubt {
		st.UndoFirst = m.now
	}
	st.Blind = st.Blind || st.Status == Unknown
	st.Undo, st.NextAt = UndoStarted, time.Time{}
	st.UndoSends++
	st.UndoTries++
	m.note(NoteUndoSent, i, "")
}

// undoResult takes in how a call of an undo ended.
func (m *move) undoResult(i int) {
	step, st := m.at(i)
	ev := &m.ev
	if st.Undo != UndoStarted || st.UndoSends != ev.Call.Try {
		late := st.Undo == UndoDue || st.Undo == UndoStuck
		if late && ev.Outcome == OutcomeDone && st.UndoNo == ev.Call.UndoNo {
			m.undone(i)
		}
		return
	}
	st.Error, st.Code = ev.Text, ev.Code
	switch ev.Outcome {
	case OutcomeDone:
		m.undone(i)
	case OutcomeRefused:
		m.stuck(i, "the undo was refused: "+ev.Text)
	default:
		if ev.Hold != HoldNone {
			m.stuck(i, ev.Text)
			return
		}
		st.UndoDoubt = st.UndoDoubt || ev.Outcome != OutcomeRetry
		next := m.now.Add(step.Undo.delay(st.UndoTries, ev.After, ev.Random))
		switch {
		case st.UndoTries >= step.Undo.Attempts:
			m.stuck(i, "the undo failed too often: "+ev.Text)
		case st.UndoDoubt && !next.Before(st.UndoFirst.Add(step.UndoKeyValidFor)):
			m.stuck(i, "the undo may have happened, and its key is too old to be sent again: "+ev.Text)
		default:
			st.Undo, st.NextAt = UndoDue, next
			m.note(NoteUndoRetry, i, ev.Text)
		}
	}
}

func (m *move) undone(i int) {
	_, st := m.at(i)
	st.Undo, st.UndoneAt, st.UndoDoubt, st.NextAt = UndoDone, m.now, false, time.Time{}
	m.note(NoteUndone, i, "")
	if st.Blind && st.Status == Done { // its success became known while it was being undone
		m.standsAgain(i, time.Time{})
	}
}

func (m *move) stuck(i int, text string) {
	step, st := m.at(i)
	st.Undo, st.NextAt = UndoStuck, time.Time{}
	again := "retry"
	if st.UndoDoubt && !m.now.Before(st.UndoFirst.Add(step.UndoKeyValidFor)) {
		again = "mark_not_done"
	}
	m.s.Reason = "step " + st.Name + ": " + text + "; " + again + " sends the undo again, mark_done says " +
		"that it happened, skip lets the step stand"
	m.note(NoteUndoStuck, i, text)
}

// raise begins a new undo of what happened after the last one.
func (m *move) raise(i int) {
	_, st := m.at(i)
	st.UndoNo++
	st.Undo, st.UndoTries, st.UndoDoubt, st.Blind = UndoDue, 0, false, false
	st.UndoFirst, st.NextAt = time.Time{}, m.now
}

// standsAgain: a success of step i became known whose undo has ended already. at is
// when it happened, if that is known. Only what is proven to have happened after
// the undo is undone again.
func (m *move) standsAgain(i int, at time.Time) {
	step, st := m.at(i)
	st.Undo = UndoNone
	if at.After(st.UndoneAt) {
		m.happened(i)
		return
	}
	st.Status, st.Doubt, st.Looks, st.NextAt, st.TimedOut = Unknown, true, 0, m.now, true
	if !step.Check {
		m.holdEvidence(i)
	}
}

func (m *move) holdEvidence(i int) {
	m.hold(HoldEvidence, i, "step "+m.s.Steps[i].Name+" succeeded, and it is not known whether that was "+
		"before its undo; find out and mark it: mark_done if it stands (it is undone again), mark_not_done "+
		"if it does not")
}

// signal takes in a word of the callee that came by another way than the reply.
func (m *move) signal(i int) {
	ev := &m.ev
	_, st := m.at(i)
	if ev.Outcome != OutcomeDone && ev.Outcome != OutcomeRefused {
		m.failf("a signal says done or refused")
		return
	}
	if m.unsent(i) {
		m.failf("step %s has not been sent, so nothing can be known of it yet; send the signal again "+
			"when it has been", st.Name)
		return
	}
	first := st.Signal == OutcomeUnknown
	if m.another(i) {
		m.note(NoteConflict, i, "done by signal again, with other data")
		m.effects = append(m.effects, Effect{Kind: EffectContradict, Step: i,
			Text: "step " + st.Name + " was done again, with other data: it may have happened twice"})
	}
	if !first && st.Signal != ev.Outcome {
		m.conflict(i)
		return
	}
	if first {
		st.Signal = ev.Outcome
		m.keepData(i)
		m.note(NoteSignal, i, withReason(ev.Outcome.String(), ev.Text))
	}
	switch {
	case ev.Outcome == OutcomeDone:
		m.evidence(i, nil, m.proven(i))
	case !first:
	case st.Status == Waiting || st.Status == Unknown && st.Undo == UndoNone:
		m.heard(i)
	case st.Status == Ready && st.Sends > 0:
		st.Error = withReason(refusedBySignal, ev.Text)
		m.refused(i, CauseRefused)
	case st.Status == Done:
		m.conflict(i)
	}
}

// unsent reports that the action of step i has not left this program, in this round: a
// word about it is about something else.
func (m *move) unsent(i int) bool {
	step, st := m.at(i)
	return !step.NoAction && st.Sends == 0 && (st.Status == Pending || st.Status == Ready) && !m.s.Back &&
		!m.lost(i)
}

// another reports a second success by signal that names something else than the first, such
// as another charge.
func (m *move) another(i int) bool {
	_, st := m.at(i)
	return m.ev.Kind == Signal && m.ev.Outcome == OutcomeDone && st.Signal == OutcomeDone &&
		m.ev.Data != nil && st.SignalData != nil && !bytes.Equal(m.ev.Data, st.SignalData)
}

// proven takes in when the success of step i is said to have happened, and returns it if it
// proves anything; zero if not.
func (m *move) proven(i int) time.Time {
	at := m.news(i)
	if _, st := m.at(i); m.ev.At.After(st.SignalAt) {
		st.SignalAt = m.ev.At
	}
	return at
}

// news is when a success happened that is another than those heard of before; zero if that
// is not known. The same word that comes again is no news, and a clock that is ahead of
// this one's proves nothing.
func (m *move) news(i int) time.Time {
	_, st := m.at(i)
	if m.ev.Kind != Signal || !m.ev.At.After(st.SignalAt) || m.ev.At.After(m.now) {
		return time.Time{}
	}
	return m.ev.At
}

// keepData keeps what came with a signal. Of a step that has ended without its signal,
// with an output, the output stays what it is: later steps have seen it.
func (m *move) keepData(i int) {
	step, st := m.at(i)
	st.SignalData = m.ev.Data
	if step.Await && st.Status == Done && st.Output != nil {
		st.SignalData = nil
	}
}

const refusedBySignal = "refused by signal"

// withReason adds what the callee gave as the reason, if it did.
func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// conflict: a signal contradicts what was known.
func (m *move) conflict(i int) {
	_, st := m.at(i)
	m.note(NoteConflict, i, m.ev.Outcome.String()+" by signal")
	if m.ev.Outcome == OutcomeDone { // it happened after all
		st.Signal = OutcomeDone
		m.keepData(i)
		m.evidence(i, nil, m.proven(i))
		return
	}
	if st.Undo == UndoNone && st.Status != Refused && st.Status != Skipped {
		m.hold(HoldContradiction, i, "step "+st.Name+" was reported as done, and then as refused; find "+
			"out: retry goes on with it as done, mark_not_done takes it as refused"+m.until())
	}
}

// contradiction: the reply and the signal of step i contradict each other.
func (m *move) contradiction(i int) {
	_, st := m.at(i)
	st.Status, st.Doubt = Unknown, true
	m.note(NoteConflict, i, m.ev.Outcome.String()+" by reply")
	m.hold(HoldContradiction, i,
		"the reply and the signal of step "+st.Name+" contradict each other; "+m.markIt(i))
}

// evidence: the action of step i happened, as became known by a signal or by a
// reply that came too late.
func (m *move) evidence(i int, output []byte, at time.Time) {
	step, st := m.at(i)
	if output != nil && st.Output == nil {
		st.Output = output
	}
	switch st.Status {
	case Started:
		if !step.Await { // it counts when the call under way has ended
			st.Signal = OutcomeDone
		}
	case Ready, Refused, Skipped:
		switch {
		case st.Sends == 0:
		case st.UndoneAt.IsZero():
			m.happened(i)
		default:
			m.standsAgain(i, at)
		}
	case Waiting:
		m.happened(i)
	case Unknown:
		switch st.Undo {
		case UndoNone:
			// What may be older than the undo says nothing that is not being asked already.
			if st.UndoneAt.IsZero() || at.After(st.UndoneAt) {
				m.happened(i)
			}
		case UndoDone:
			m.standsAgain(i, at)
		case UndoDue, UndoStarted, UndoStuck:
			st.Status, st.Doubt = Done, false
			m.note(NoteDone, i, "")
		case UndoSkipped: // a person has said that it stays
		}
	case Done:
		if st.Undo == UndoDone && at.After(st.UndoneAt) {
			m.standsAgain(i, at)
		}
	case Pending: // it was never sent
	}
}

// late looks at what comes after the end. Nothing changes; a success of what was
// undone asks for a correction, and what contradicts the end is to be told.
func (m *move) late() {
	ev := &m.ev
	i := ev.Step
	if ev.Kind == Result {
		i = ev.Call.Step
	}
	success := ev.Kind == Signal || ev.Kind == Result && ev.Call.Kind == Action
	switch {
	case ev.Kind == Operate:
		m.failf("it has ended and never changes")
	case !success:
	case m.s.Status == Compensated && ev.Outcome == OutcomeDone && m.needsCorrection(i):
		m.effects = append(m.effects, Effect{Kind: EffectCorrect, Step: i})
	case m.another(i):
		text := "step " + m.s.Steps[i].Name + " was done again, with other data, as became known after the " +
			"run had ended: it may have happened twice"
		m.effects = append(m.effects, Effect{Kind: EffectContradict, Step: i, Text: text})
	case m.contradicts(i):
		text := "step " + m.s.Steps[i].Name + " was " + ev.Outcome.String() +
			", as became known after the run had ended"
		m.effects = append(m.effects, Effect{Kind: EffectContradict, Step: i, Text: text})
	default:
		m.note(NoteLate, i, ev.Outcome.String())
	}
}

// contradicts reports that a word about step i says other than the end of the run: it
// was refused in a run that is completed, or happened where a person closed the run
// without knowing.
func (m *move) contradicts(i int) bool {
	st := &m.s.Steps[i]
	switch {
	case m.s.Status == Completed && m.ev.Outcome == OutcomeRefused:
		return st.Status == Done && m.ev.Kind == Signal
	case m.s.Status == Closed && m.ev.Outcome == OutcomeDone:
		return st.Sends > 0 && st.Status != Done
	}
	return false
}

// needsCorrection reports that a success of step i, known only now, is not undone.
func (m *move) needsCorrection(i int) bool {
	step, st := m.at(i)
	if st.Sends == 0 || !step.HasUndo && !step.Irreversible && !step.Pivot {
		return false
	}
	if st.Status == Done {
		return st.Undo == UndoDone && m.news(i).After(st.UndoneAt)
	}
	return true
}

// Correction is the state of the run that undoes the effect of ev.Step of an ended
// run, which became known only by the event, with the effects of its beginning. The
// new run has the key and round of the ended one: only the number of the undo can
// differ.
func Correction(def *Def, s State, ev Event, now time.Time) (State, []Effect) {
	i := ev.Step
	next := State{Status: Compensating, Back: true, Cause: CauseLate, Failed: i + 1, Steps: s.clone().Steps,
		Reason: "step " + s.Steps[i].Name + " succeeded after its run had been undone"}
	m := move{def: def, s: &next, ev: ev, now: now}
	for j := range next.Steps {
		st := &next.Steps[j]
		if j == i {
			continue
		}
		data := st.SignalData
		if st.Signal == OutcomeRefused {
			data = nil // it says nothing of what stands
		}
		*st = StepState{Name: st.Name, Output: st.Output, SignalData: data, Sends: st.Sends}
	}
	st := &next.Steps[i]
	m.learn(st)
	if at := m.proven(i); st.UndoneAt.IsZero() {
		st.Undo = UndoNone
		m.happened(i)
	} else {
		m.standsAgain(i, at)
	}
	m.settle()
	m.tell(&State{})
	return next, m.effects
}

// learn takes in what came with the success that a correction is about: that is what has
// to be undone, and not what was known before.
func (m *move) learn(st *StepState) {
	if m.ev.Kind != Signal {
		if m.ev.Data != nil {
			st.Output = m.ev.Data
		}
		if st.Signal == OutcomeRefused {
			st.Signal, st.SignalData = OutcomeUnknown, nil
		}
		return
	}
	if m.ev.Data != nil || st.Signal == OutcomeRefused {
		st.SignalData = m.ev.Data
	}
	st.Signal = OutcomeDone
	m.note(NoteSignal, m.ev.Step, withReason(OutcomeDone.String(), m.ev.Text))
}
