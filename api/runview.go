package api

import (
	"maps"
	"slices"

	"onced/saga"
	"onced/saga/machine"
)

// runShow says how much of a run is shown.
type runShow struct {
	// content adds what went in and came out of it, and what callees and people said.
	content bool
	// brief leaves out what makes a page large.
	brief bool
}

// appendRun shows a run: the schema Run. Members that are not required are left out
// when there is nothing to show.
func appendRun(o *jsonOut, v *saga.RunView, show runShow) {
	s := &v.State
	o.open('{')
	o.text("id", v.Run)
	o.text("definition", v.Definition)
	o.given("version", v.Version)
	o.given("principal", v.Principal)
	o.text("key", v.Key)
	o.uint("round", v.Round)
	o.text("state", s.Status.String())
	if v.Revision == 0 {
		o.flag("expired", true)
	} else {
		o.uint("revision", v.Revision)
	}
	o.given("parent", v.Parent)
	o.given("link", v.Link)
	appendLate(o, v, show)
	appendLabels(o, v.Labels)
	o.when("created_at", v.Created)
	o.when("updated_at", v.Updated)
	o.when("ended_at", v.Ended)
	o.when("deadline_at", s.Deadline)
	o.flag("undoing", s.Back && !s.Status.Terminal())
	o.given("cause", s.Cause.String())
	o.given("failed_step", stepName(s, s.Failed))
	o.given("hold", s.Hold.String())
	o.given("hold_step", stepName(s, s.HoldStep))
	if show.content {
		o.given("reason", reasonOf(v))
	}
	appendNext(o, v)
	appendSteps(o, s, show)
	if !show.brief {
		if show.content {
			o.raw("input", v.Input)
		}
		appendHistory(o, v.History, show)
	}
	o.count("history_dropped", v.Dropped)
	o.end('}')
}

// appendMinimalRun names a run and says how it stands, as Prefer: return=minimal asks.
func appendMinimalRun(o *jsonOut, v *saga.RunView, content bool) {
	s := &v.State
	o.open('{')
	o.text("id", v.Run)
	o.text("definition", v.Definition)
	o.text("key", v.Key)
	o.uint("round", v.Round)
	o.text("state", s.Status.String())
	o.given("cause", s.Cause.String())
	o.given("failed_step", stepName(s, s.Failed))
	o.given("hold", s.Hold.String())
	if content {
		o.given("reason", reasonOf(v))
	}
	o.end('}')
}

// appendLate shows what became known after the end, and what denies what is known.
func appendLate(o *jsonOut, v *saga.RunView, show runShow) {
	if len(v.Corrections) > 0 {
		o.name("corrections")
		o.open('[')
		for _, step := range slices.Sorted(maps.Keys(v.Corrections)) {
			o.open('{')
			o.text("step", step)
			o.text("run", v.Corrections[step])
			o.end('}')
		}
		o.end(']')
	}
	if len(v.Contradictions) > 0 {
		o.name("contradictions")
		o.open('[')
		for _, step := range slices.Sorted(maps.Keys(v.Contradictions)) {
			x := v.Contradictions[step]
			o.open('{')
			o.text("step", step)
			o.text("outcome", x.Outcome.String())
			o.instant("at", x.At)
			if show.content && !show.brief {
				o.raw("data", x.Data)
			}
			o.end('}')
		}
		o.end(']')
	}
}

func appendLabels(o *jsonOut, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	o.name("labels")
	o.open('{')
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		o.b = append(appendText(o.b, name), ':')
		o.b = append(appendText(o.b, labels[name]), ',')
	}
	o.end('}')
}

// appendNext shows the call that a run wants next, or when it is woken otherwise.
func appendNext(o *jsonOut, v *saga.RunView) {
	if v.Next.Kind == 0 {
		o.when("wakes_at", v.NextAt)
		return
	}
	o.name("next")
	o.open('{')
	o.text("step", stepName(&v.State, v.Next.Step+1))
	o.text("call", v.Next.Kind.String())
	o.count("try", v.Next.Try)
	o.when("at", v.NextAt)
	o.end('}')
}

func appendSteps(o *jsonOut, s *machine.State, show runShow) {
	if len(s.Steps) == 0 {
		return
	}
	o.name("steps")
	o.open('[')
	for i := range s.Steps {
		st := &s.Steps[i]
		past := s.Status.Terminal() || s.Hold != machine.HoldNone || !goesOn(st)
		appendStep(o, st, past, show)
	}
	o.end(']')
}

// appendStep shows a step. When past, it does not go on at any time.
func appendStep(o *jsonOut, st *machine.StepState, past bool, show runShow) {
	o.open('{')
	o.text("name", st.Name)
	o.text("state", st.Status.String())
	if st.Undo != machine.UndoNone {
		o.text("undo", st.Undo.String())
	}
	o.count("undo_number", st.UndoNo)
	o.flag("in_doubt", st.Doubt)
	o.flag("timed_out", st.TimedOut)
	o.int("sends", st.Sends)
	o.int("tries", st.Tries)
	o.count("looks", st.Looks)
	o.count("undo_sends", st.UndoSends)
	o.count("undo_tries", st.UndoTries)
	o.when("first_send_at", st.FirstSend)
	o.when("last_send_at", st.LastSend)
	o.when("undone_at", st.UndoneAt)
	if !past {
		o.when("next_at", st.NextAt)
	}
	o.given("code", st.Code)
	shown := show.content && !show.brief
	if show.content {
		o.given("error", st.Error) // the last reply
	}
	if shown {
		o.raw("output", st.Output)
	}
	if st.Signal != machine.OutcomeUnknown {
		o.name("signal")
		o.open('{')
		o.text("outcome", st.Signal.String())
		if shown {
			o.raw("data", st.SignalData)
		}
		o.end('}')
	}
	o.end('}')
}

func appendHistory(o *jsonOut, history []saga.HistoryEntry, show runShow) {
	if len(history) == 0 {
		return
	}
	o.name("history")
	o.open('[')
	for i := range history {
		h := &history[i]
		o.open('{')
		o.instant("at", h.At)
		o.text("what", h.Note.String())
		if h.Note != machine.NoteEnd { // which is about the run
			o.given("step", h.Step)
		}
		if show.content {
			o.given("text", h.Text)
		}
		o.end('}')
	}
	o.end(']')
}

// goesOn reports that a step goes on by itself.
func goesOn(st *machine.StepState) bool {
	switch st.Undo {
	case machine.UndoNone:
	case machine.UndoDue, machine.UndoStarted:
		return true
	default:
		return false
	}
	return st.Status == machine.Ready || st.Status == machine.Started || st.Status == machine.Waiting ||
		st.Status == machine.Unknown
}

// reasonOf is why the run is as it is. What it was held for before is no more so: then it
// is why it was turned round, if it was.
func reasonOf(v *saga.RunView) string {
	s := &v.State
	if s.Hold != machine.HoldNone || s.Status == machine.Stuck || s.Status == machine.Closed {
		return s.Reason
	}
	if s.Cause == machine.CauseNone {
		return ""
	}
	for _, h := range slices.Backward(v.History) {
		if h.Note == machine.NoteBack {
			return h.Text
		}
	}
	return s.Reason
}

// stepName is the name of the step that a number from 1 stands for.
func stepName(s *machine.State, number int) string {
	if number < 1 || number > len(s.Steps) {
		return ""
	}
	return s.Steps[number-1].Name
}
