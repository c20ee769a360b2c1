package machine

import (
	"fmt"
	"time"
)

// Next returns the state after the event and what is to be done. The state given
// is not changed. An error is an [*Error]: the state does not allow the event, and
// nothing is to be stored. Events that come twice or too late change nothing.
func Next(def *Def, s State, ev Event, now time.Time) (State, []Effect, error) {
	next := s.clone()
	effects, err := next.Apply(def, ev, now, nil)
	if err != nil {
		return s, nil, err
	}
	return next, effects, nil
}

// Apply is [Next] on a state that is the caller's alone: it becomes the state after the
// event, without a copy. The effects are appended to those given. After an error the
// state is of no use any more.
func (s *State) Apply(def *Def, ev Event, now time.Time, effects []Effect) ([]Effect, error) {
	if ev.Step < 0 || ev.Step >= len(s.Steps) || ev.Call.Step < 0 || ev.Call.Step >= len(s.Steps) {
		return effects, &Error{Status: s.Status, Problem: "it has no such step"}
	}
	m := move{def: def, s: s, ev: ev, now: now, effects: effects}
	if s.Status.Terminal() {
		m.late()
		return m.effects, m.err
	}
	was := *s
	m.mindClock()
	if m.apply(); m.err == nil {
		m.settle()
		m.tell(&was)
	}
	return m.effects, m.err
}

// move is one transition in the making.
type move struct {
	def     *Def
	s       *State
	ev      Event
	now     time.Time
	effects []Effect
	err     error
}

func (m *move) apply() {
	switch m.ev.Kind {
	case Begin:
		m.begin()
	case Result:
		if m.ev.Call.Kind == Undo {
			m.undoResult(m.ev.Call.Step)
		} else {
			m.result(m.ev.Call.Step)
		}
	case Found:
		m.found(m.ev.Step)
	case Signal:
		m.signal(m.ev.Step)
	case Wake:
		m.wake()
	case Recover:
		m.recover()
	case Park:
		m.hold(m.ev.Hold, max(m.current(), 0), m.ev.Text)
	case Operate:
		m.operate()
	default:
		m.failf("event %d is not known", m.ev.Kind)
	}
}

func (m *move) failf(format string, args ...any) {
	m.err = &Error{Status: m.s.Status, Problem: fmt.Sprintf(format, args...)}
}

func (m *move) note(n Note, i int, text string) {
	m.effects = append(m.effects, Effect{Kind: EffectNote, Step: i, Note: n, Text: text})
}

// at returns a step's policy and state.
func (m *move) at(i int) (*Step, *StepState) { return &m.def.Steps[i], &m.s.Steps[i] }

// Want returns the call that the run wants next and when; ok is false when it
// wants none: it has ended, waits for a signal or a person, or a call is under way.
func Want(def *Def, s *State) (c Call, at time.Time, ok bool) {
	if s.Status.Terminal() || s.Hold != HoldNone {
		return Call{}, time.Time{}, false
	}
	i := current(def, s)
	if i < 0 {
		return Call{}, time.Time{}, false
	}
	st := &s.Steps[i]
	switch {
	case st.Undo == UndoDue:
		c := Call{Step: i, Kind: Undo, UndoNo: max(st.UndoNo, 1), Try: st.UndoSends + 1}
		return c, undoAt(def, s, i), true
	case st.Undo != UndoNone:
	case st.Status == Ready || st.Status == Unknown && st.Resend:
		return Call{Step: i, Kind: Action, Try: st.Sends + 1}, st.NextAt, true
	case st.Status == Unknown && def.Steps[i].Check:
		return Call{Step: i, Kind: Look, Try: st.Looks + 1}, st.NextAt, true
	}
	return Call{}, time.Time{}, false
}

// undoAt is when the undo of step i that is due may be sent. One of a step in doubt waits
// until no effect can come any more: an undo that overtakes its action leaves it standing.
func undoAt(def *Def, s *State, i int) time.Time {
	st := &s.Steps[i]
	if settled := def.Steps[i].settled(st); st.Status == Unknown && settled.After(st.NextAt) {
		return settled
	}
	return st.NextAt
}

// WakeAt returns when the run needs a [Wake], or its next call if that is not due
// now; zero is never.
func WakeAt(def *Def, s *State, now time.Time) (wake time.Time) {
	if s.Status.Terminal() || s.Hold != HoldNone {
		return time.Time{}
	}
	_, at, ok := Want(def, s)
	i := current(def, s)
	switch {
	case ok && at.After(now):
		wake = at
	case !ok && i >= 0 && s.Steps[i].Status == Waiting:
		wake = s.Steps[i].NextAt
	}
	if !s.Back && !s.Deadline.IsZero() && (wake.IsZero() || wake.After(s.Deadline)) {
		wake = s.Deadline
	}
	return wake
}

func (m *move) current() int { return current(m.def, m.s) }

// current is the step that the run is at, or -1 at its end.
func current(def *Def, s *State) int {
	if !s.Back {
		for i := range s.Steps {
			if st := s.Steps[i].Status; st != Done && st != Skipped {
				return i
			}
		}
		return -1
	}
	for i := len(s.Steps) - 1; i >= 0; i-- {
		if stands(&def.Steps[i], &s.Steps[i]) {
			return i
		}
	}
	return -1
}

// stands reports that a step keeps a run from being undone.
func stands(step *Step, st *StepState) bool {
	if st.Undo == UndoDone || st.Undo == UndoSkipped {
		return false
	}
	switch st.Status {
	case Ready, Started, Waiting, Unknown:
		return true
	case Done:
		return step.HasUndo || step.Irreversible || step.Pivot
	default:
		return false
	}
}

// settle goes on until a call, an event or a person is needed.
func (m *move) settle() {
	for m.s.Hold == HoldNone && !m.s.Status.Terminal() && m.advance() {
	}
	if m.s.Status.Terminal() {
		return
	}
	if m.pivotBefore(len(m.s.Steps)) {
		m.s.Deadline = time.Time{} // it is not undone any more
	}
	m.s.Status = Running
	if m.s.Back {
		m.s.Status = Compensating
	}
	if i := m.current(); i >= 0 && m.s.Steps[i].Undo == UndoStuck {
		m.s.Status = Stuck
	}
	if m.s.Hold != HoldNone {
		m.s.Status = Held
	}
}

// advance makes one transition that needs nobody, and reports whether there was one.
func (m *move) advance() bool {
	i := m.current()
	if i < 0 {
		m.end()
		return true
	}
	step, st := m.at(i)
	switch {
	case !m.s.Back && st.Status == Pending && step.NoAction:
		st.Status = Waiting
		st.NextAt = m.awaitEnd(step)
		m.note(NoteWaiting, i, "")
		if st.Signal != OutcomeUnknown {
			m.heard(i)
		}
		return true
	case !m.s.Back && m.sentInLostTime(i):
		st.Status, st.Doubt, st.LastSend = Unknown, true, m.def.Restored
		m.note(NoteUnknown, i, "the store was restored; it may have been sent before")
		return true
	case !m.s.Back && st.Status == Pending:
		st.Status, st.NextAt = Ready, time.Time{}
		return true
	case st.Status == Unknown && st.Undo == UndoNone && !st.Resend && !step.Check:
		m.resolve(i) // its look-up is gone: the step has other options than when it was sent
		return true
	case m.s.Back && st.Status == Done && st.Undo == UndoNone && !step.HasUndo:
		m.hold(HoldIrreversible, i, "step "+step.Name+" stands and cannot be undone; skip "+
			"lets it stand and undoes those before it, mark_not_done says that nothing of it stands")
	case m.s.Back && st.Status == Done && st.Undo == UndoNone:
		st.Undo, st.NextAt = UndoDue, time.Time{}
		return true
	}
	return false
}

// sentInLostTime reports that the step may have been sent by a run that a restore has
// taken back, and that a look-up can tell. One that was looked up since is not asked again.
func (m *move) sentInLostTime(i int) bool {
	step, st := m.at(i)
	next := st.Status == Pending || st.Status == Ready && !st.Doubt
	return next && step.Check && m.lost(i)
}

// lost reports that what was sent of step i before a restore is not known, and that its
// callee may still know the key.
func (m *move) lost(i int) bool {
	step, st := m.at(i)
	valid := step.KeyValidFor
	if valid == 0 {
		valid = defaultKeyValidFor
	}
	return st.LastSend.Before(m.def.Restored) && m.now.Before(m.def.Restored.Add(valid))
}

func (m *move) awaitEnd(step *Step) time.Time {
	if step.AwaitFor <= 0 {
		return time.Time{}
	}
	return m.now.Add(step.AwaitFor)
}

// end is the end of a run of which nothing is left to do.
func (m *move) end() {
	m.s.Status = Completed
	if m.s.Back {
		m.s.Status = Compensated
		for i := range m.s.Steps {
			st := &m.s.Steps[i]
			if st.Undo == UndoSkipped || st.Status == Skipped && st.Doubt {
				m.s.Status = Closed // an effect stands, or may, by the word of a person
			}
		}
	}
	m.s.Deadline = time.Time{}
	m.note(NoteEnd, 0, m.s.Status.String())
}

// tell says that the run has come to a state that others care about.
func (m *move) tell(old *State) {
	s := m.s
	same := s.Status == old.Status && s.Hold == old.Hold && s.HoldStep == old.HoldStep
	if same || s.Status == Running || s.Status == Compensating {
		return
	}
	m.effects = append(m.effects, Effect{Kind: EffectTell})
}

// hold stops the run until a person acts.
func (m *move) hold(h Hold, i int, text string) {
	m.s.Hold, m.s.HoldStep, m.s.Reason = h, i+1, text
	m.note(NoteHeld, i, text)
}

// released ends a hold that waited for step i, or to know more of it.
func (m *move) released(i int) {
	switch m.s.Hold {
	case HoldUnknown, HoldEvidence, HoldForward:
		if m.s.HoldStep == i+1 {
			m.unhold()
		}
	default: // it waits for something else
	}
}

func (m *move) unhold() {
	if m.s.Hold == HoldIrreversible && !m.s.Back { // it goes forward after all
		m.s.Cause, m.s.Failed, m.s.Reason = CauseNone, 0, ""
	}
	m.s.Hold, m.s.HoldStep = HoldNone, 0
}

// committed reports that the pivot has been sent: the run goes forward only.
func committed(def *Def, s *State) bool {
	for i := range s.Steps {
		if !def.Steps[i].Pivot {
			continue
		}
		switch s.Steps[i].Status {
		case Started, Waiting, Unknown, Done, Skipped:
			return true
		default: // it was not sent, or did not happen
		}
	}
	return false
}

// back turns the run round. It is held instead when a step that stands cannot be
// undone, unless a person wants it.
func (m *move) back(cause Cause, i int, text string) {
	if m.s.Back {
		return
	}
	m.s.Cause, m.s.Failed, m.s.Reason = cause, i+1, text
	for j := range m.s.Steps {
		step, st := m.at(j)
		if cause != CauseCancelled && st.Status == Done && step.Irreversible {
			m.hold(HoldIrreversible, j, fmt.Sprintf("step %[1]s failed (%[2]s), and step %[3]s cannot be "+
				"undone; retry tries step %[1]s again, skip goes on without it, cancel undoes what can be "+
				"undone",
				m.def.Steps[i].Name, text, step.Name))
			m.s.Deadline = time.Time{}
			return
		}
	}
	m.s.Back, m.s.Deadline = true, time.Time{}
	m.note(NoteBack, i, text)
	for j := range m.s.Steps {
		m.takeBack(j)
	}
}

// takeBack turns a step that was next.
func (m *move) takeBack(i int) {
	step, st := m.at(i)
	switch st.Status {
	case Ready:
		st.Status = Refused
		if st.Sends == 0 {
			st.Status = Pending
		}
	case Waiting:
		if step.NoAction {
			st.Status = Refused
			return
		}
		st.Status, st.TimedOut, st.NextAt = Unknown, true, m.now
		m.resolve(i)
	case Unknown:
		st.NextAt = m.now
		m.resolve(i)
	default: // it was not next, or its call is under way
	}
}
