package api

import (
	"encoding/json"
	"maps"
	"slices"

	"onced/saga"
	"onced/saga/machine"
)

// runView is a run in JSON. What only those may see who see content is marked.
type runView struct {
	ID          string            `json:"id"`
	Definition  string            `json:"definition"`
	Version     string            `json:"version,omitempty"`
	Principal   string            `json:"principal,omitempty"`
	Key         string            `json:"key"`
	Round       uint64            `json:"round"`
	State       string            `json:"state"`
	Revision    uint64            `json:"revision,omitempty"`
	Expired     bool              `json:"expired,omitempty"`
	Parent      string            `json:"parent,omitempty"`
	Link        string            `json:"link,omitempty"`
	Corrections []correctionView  `json:"corrections,omitempty"`
	Contradicts []contradictView  `json:"contradictions,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	CreatedAt   string            `json:"created_at,omitempty"`
	UpdatedAt   string            `json:"updated_at,omitempty"`
	EndedAt     string            `json:"ended_at,omitempty"`
	DeadlineAt  string            `json:"deadline_at,omitempty"`
	Undoing     bool              `json:"undoing,omitempty"`
	Cause       string            `json:"cause,omitempty"`
	FailedStep  string            `json:"failed_step,omitempty"`
	Hold        string            `json:"hold,omitempty"`
	HoldStep    string            `json:"hold_step,omitempty"`
	Reason      string            `json:"reason,omitempty"` // content
	Next        *nextView         `json:"next,omitempty"`
	WakesAt     string            `json:"wakes_at,omitempty"`
	Steps       []stepView        `json:"steps,omitempty"`
	Input       json.RawMessage   `json:"input,omitempty"` // content
	History     []historyView     `json:"history,omitempty"`
	Dropped     int               `json:"history_dropped,omitempty"`
}

type correctionView struct {
	Step string `json:"step"`
	Run  string `json:"run"`
}

// contradictView is a word that denies the end of the run.
type contradictView struct {
	Step    string `json:"step"`
	Outcome string `json:"outcome"`
	At      string `json:"at"`
}

// nextView is the call that a run wants next.
type nextView struct {
	Step string `json:"step"`
	Call string `json:"call"` // action, undo or check
	Try  int    `json:"try,omitempty"`
	At   string `json:"at,omitempty"`
}

type stepView struct {
	Name        string          `json:"name"`
	State       string          `json:"state"`
	Undo        string          `json:"undo,omitempty"`
	UndoNumber  int             `json:"undo_number,omitempty"`
	InDoubt     bool            `json:"in_doubt,omitempty"`
	TimedOut    bool            `json:"timed_out,omitempty"`
	Sends       int             `json:"sends"`
	Tries       int             `json:"tries"`
	Looks       int             `json:"looks,omitempty"`
	UndoSends   int             `json:"undo_sends,omitempty"`
	UndoTries   int             `json:"undo_tries,omitempty"`
	FirstSendAt string          `json:"first_send_at,omitempty"`
	LastSendAt  string          `json:"last_send_at,omitempty"`
	UndoneAt    string          `json:"undone_at,omitempty"`
	NextAt      string          `json:"next_at,omitempty"`
	Code        string          `json:"code,omitempty"`
	Error       string          `json:"error,omitempty"`  // content: the last reply
	Output      json.RawMessage `json:"output,omitempty"` // content
	Signal      *signalView     `json:"signal,omitempty"`
}

type signalView struct {
	Outcome string          `json:"outcome"`
	Data    json.RawMessage `json:"data,omitempty"` // content
}

type historyView struct {
	At   string `json:"at"`
	What string `json:"what"`
	Step string `json:"step,omitempty"`
	Text string `json:"text,omitempty"` // content
}

// viewRun shows a run; content adds what went in and came out of it, and what callees
// and people said.
func viewRun(v *saga.RunView, content bool) *runView {
	s := &v.State
	out := &runView{ID: v.Run, Definition: v.Definition, Version: v.Version, Principal: v.Principal,
		Key: v.Key, Round: v.Round, State: s.Status.String(), Revision: v.Revision,
		Expired: v.Revision == 0, Parent: v.Parent, Link: v.Link, Labels: v.Labels,
		CreatedAt: instant(v.Created), UpdatedAt: instant(v.Updated), EndedAt: instant(v.Ended),
		DeadlineAt: instant(s.Deadline), Undoing: s.Back && !s.Status.Terminal(),
		Cause: s.Cause.String(), Hold: s.Hold.String(),
		FailedStep: stepName(s, s.Failed),
		HoldStep:   stepName(s, s.HoldStep), Dropped: v.Dropped}
	for _, step := range slices.Sorted(maps.Keys(v.Corrections)) {
		out.Corrections = append(out.Corrections, correctionView{Step: step, Run: v.Corrections[step]})
	}
	for _, step := range slices.Sorted(maps.Keys(v.Contradictions)) {
		x := v.Contradictions[step]
		out.Contradicts = append(out.Contradicts, contradictView{Step: step, Outcome: x.Outcome.String(),
			At: instant(x.At)})
	}
	switch {
	case v.Next.Kind != 0:
		out.Next = &nextView{Step: stepName(s, v.Next.Step+1), Call: v.Next.Kind.String(), Try: v.Next.Try,
			At: instant(v.NextAt)}
	case !v.NextAt.IsZero():
		out.WakesAt = instant(v.NextAt)
	}
	for i := range s.Steps {
		step := viewStep(&s.Steps[i], content)
		if s.Status.Terminal() || s.Hold != machine.HoldNone || !open(&s.Steps[i]) {
			step.NextAt = "" // it is past
		}
		out.Steps = append(out.Steps, step)
	}
	for _, h := range v.History {
		x := historyView{At: instant(h.At), What: h.Note.String(), Step: h.Step}
		if h.Note == machine.NoteEnd { // it is about the run
			x.Step = ""
		}
		if content {
			x.Text = h.Text
		}
		out.History = append(out.History, x)
	}
	if content {
		out.Input, out.Reason = v.Input, reasonOf(v)
	}
	return out
}

// open reports that a step goes on by itself.
func open(st *machine.StepState) bool {
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

// brief leaves out what makes a page large.
func (v *runView) brief() *runView {
	v.Input, v.History = nil, nil
	for i := range v.Steps {
		if v.Steps[i].Output = nil; v.Steps[i].Signal != nil {
			v.Steps[i].Signal.Data = nil
		}
	}
	return v
}

func viewStep(st *machine.StepState, content bool) stepView {
	out := stepView{Name: st.Name, State: st.Status.String(),
		Undo:       word(st.Undo != machine.UndoNone, st.Undo),
		UndoNumber: st.UndoNo, InDoubt: st.Doubt, TimedOut: st.TimedOut, Sends: st.Sends, Tries: st.Tries,
		Looks: st.Looks, UndoSends: st.UndoSends, UndoTries: st.UndoTries,
		FirstSendAt: instant(st.FirstSend), LastSendAt: instant(st.LastSend), UndoneAt: instant(st.UndoneAt),
		NextAt: instant(st.NextAt), Code: st.Code}
	if st.Signal != machine.OutcomeUnknown {
		out.Signal = &signalView{Outcome: st.Signal.String()}
	}
	if !content {
		return out
	}
	out.Error, out.Output = st.Error, st.Output
	if out.Signal != nil {
		out.Signal.Data = st.SignalData
	}
	return out
}

// word is the name of a value that is given; the zero values have names too.
func word(given bool, name interface{ String() string }) string {
	if !given {
		return ""
	}
	return name.String()
}

// stepName is the name of the step that a number from 1 stands for.
func stepName(s *machine.State, number int) string {
	if number < 1 || number > len(s.Steps) {
		return ""
	}
	return s.Steps[number-1].Name
}
