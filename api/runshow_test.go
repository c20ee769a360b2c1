package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

// contradictView is a word that denies what is known of the run.
type contradictView struct {
	Step    string          `json:"step"`
	Outcome string          `json:"outcome"`
	At      string          `json:"at"`
	Data    json.RawMessage `json:"data,omitempty"` // content
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
		word := contradictView{Step: step, Outcome: x.Outcome.String(), At: instant(x.At)}
		if content {
			word.Data = x.Data
		}
		out.Contradicts = append(out.Contradicts, word)
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
		if s.Status.Terminal() || s.Hold != machine.HoldNone || !goesOn(&s.Steps[i]) {
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

// runMaker makes runs at random, also such as there are none of.
type runMaker struct{ *rand.Rand }

func (m runMaker) some() bool { return m.IntN(2) == 0 }

func (m runMaker) text() string {
	parts := []string{"", "charge", "order-1", "a b", `"`, `\`, "<&>", "\n\t\x01\x7f", "é…",
		"\u2028", "\u2029", "\xff"}
	return parts[m.IntN(len(parts))] + parts[m.IntN(len(parts))]
}

func (m runMaker) time() time.Time {
	at := time.Unix(1_700_000_000, 0).Add(time.Duration(m.IntN(4)) * 1_234_567_891 * time.Nanosecond)
	switch m.IntN(5) {
	case 0:
		return time.Time{}
	case 1:
		return at.In(time.FixedZone("", 3600))
	case 2:
		return time.Unix(m.Int64N(1<<34), m.Int64N(1e9))
	case 3:
		return at.AddDate(m.IntN(9000), 0, 0)
	}
	return at
}

func (m runMaker) json() []byte {
	texts := []string{"", "null", "1", `{"a":[1,2]}`, ` { "a" : "<\u2028> b" , "c":[ ] } `, `"a b"`,
		"\"\u2028\"", `[]`}
	return []byte(texts[m.IntN(len(texts))])
}

func (m runMaker) step() machine.StepState {
	return machine.StepState{Name: m.text(), Status: machine.StepStatus(m.IntN(9)),
		Undo: machine.UndoStatus(m.IntN(7)), UndoNo: m.IntN(3), Doubt: m.some(), TimedOut: m.some(),
		Sends: m.IntN(3), Tries: m.IntN(3), Looks: m.IntN(3), UndoSends: m.IntN(3), UndoTries: m.IntN(3),
		FirstSend: m.time(), LastSend: m.time(), UndoneAt: m.time(), NextAt: m.time(), Code: m.text(),
		Error: m.text(), Output: m.json(), Signal: machine.Outcome(m.IntN(4)), SignalData: m.json()}
}

func (m runMaker) run() *saga.RunView {
	v := &saga.RunView{Run: m.text(), Revision: m.Uint64N(3), Definition: m.text(), Version: m.text(),
		Key: m.text(), Round: m.Uint64N(3), Principal: m.text(), Parent: m.text(), Link: m.text(),
		Created: m.time(), Updated: m.time(), Ended: m.time(), NextAt: m.time(), Input: m.json(),
		Dropped: m.IntN(3),
		Next:    machine.Call{Step: m.IntN(4), Kind: machine.Kind(m.IntN(4)), Try: m.IntN(3)}}
	v.State = machine.State{Status: machine.Status(m.IntN(9)), Cause: machine.Cause(m.IntN(8)),
		Hold: machine.Hold(m.IntN(9)), Failed: m.IntN(4), HoldStep: m.IntN(4), Back: m.some(),
		Reason: m.text(), Deadline: m.time()}
	for range m.IntN(4) {
		v.State.Steps = append(v.State.Steps, m.step())
	}
	for range m.IntN(3) {
		if v.Labels == nil {
			v.Labels, v.Corrections = map[string]string{}, map[string]string{}
			v.Contradictions = map[string]saga.Contradiction{}
		}
		v.Labels[m.text()], v.Corrections[m.text()] = m.text(), m.text()
		v.Contradictions[m.text()] = saga.Contradiction{Outcome: machine.Outcome(m.IntN(4)), At: m.time()}
	}
	for range m.IntN(4) {
		v.History = append(v.History, saga.HistoryEntry{At: m.time(), Note: machine.Note(m.IntN(30)),
			Step: m.text(), Text: m.text()})
	}
	return v
}

// A run is shown in the bytes that encoding/json gives its schema.
func TestRunsAreShownAsEncodingJSONWould(t *testing.T) {
	m := runMaker{rand.New(rand.NewPCG(1, 2))}
	for range 20_000 {
		v, content, brief := m.run(), m.some(), m.some()
		shown := viewRun(v, content)
		if brief {
			shown = shown.brief()
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(shown); err != nil {
			t.Fatal(err)
		}
		var o jsonOut
		appendRun(&o, v, runShow{content: content, brief: brief})
		if got := o.bytes(); o.err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%v\n%s\nwant\n%s", o.err, got, want.Bytes())
		}
		var less jsonOut
		appendMinimalRun(&less, v, content)
		small := &runView{ID: shown.ID, Definition: shown.Definition, Key: shown.Key, Round: shown.Round,
			State: shown.State, Cause: shown.Cause, FailedStep: shown.FailedStep, Hold: shown.Hold,
			Reason: shown.Reason}
		want.Reset()
		if err := enc.Encode(small); err != nil {
			t.Fatal(err)
		}
		if got := less.bytes(); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%s\nwant\n%s", got, want.Bytes())
		}
	}
}

// What is stored and is no JSON is an error, and no answer.
func TestARunWithBrokenDataIsNotShown(t *testing.T) {
	var o jsonOut
	appendRun(&o, &saga.RunView{Input: []byte(`{"a":`)}, runShow{content: true})
	if o.err == nil {
		t.Errorf("%s", o.bytes())
	}
}

func TestInstantsAreShownAsTimeWould(t *testing.T) {
	m := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		at := time.Unix(m.Int64N(1<<38)-1<<37, m.Int64N(1e9))
		if got, want := string(appendInstant(nil, at)), at.UTC().Format(instantLayout); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}
