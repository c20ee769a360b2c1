package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A play is a definition and what happens to one run of it. Lines that begin with
// "step" make the definition:
//
//	step NAME [undo] [absent] [check=10s] [settles=10s] [key=1h] [pivot] [irreversible] [await[=1m]]
//	  [noaction] [n=3]
//
// A line that begins with "change" gives a step other options, as a new program may.
// The others are
//
//	instant event arguments -> status step=state[?][/undo[#no]]... [wants] [effects]
//	instant event arguments -> error text
//
// A state with ? is in doubt; wants is the next call and when: action:b@5s. Effects
// are call:KIND:STEP#TRY[/undo number], tell, correct:STEP and contradict:STEP. Pauses are 1 s, 2 s,
// 4 s: the spread is none. "because none" at the end asks for a run without a cause.
type play struct {
	def   Def
	state State
	base  time.Time
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *play) step(t *testing.T, words []string) {
	pol := Policy{Attempts: 3, Backoff: 2 * time.Second, MaxBackoff: 16 * time.Second}
	s := Step{Name: words[0], UndoKeyValidFor: 24 * time.Hour}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "undo":
			s.HasUndo = true
		case "absent":
			s.UndoWhenAbsent = true
		case "check":
			s.Check, s.SettlesAfter = true, dur(t, value)
		case "settles":
			s.SettlesAfter = dur(t, value)
		case "key":
			s.KeyValidFor = dur(t, value)
		case "undokey":
			s.UndoKeyValidFor = dur(t, value)
		case "pivot":
			s.Pivot = true
		case "irreversible":
			s.Irreversible = true
		case "noaction":
			s.NoAction = true
		case "await":
			s.Await = true
			if value != "" {
				s.AwaitFor = dur(t, value)
			}
		case "n":
			pol.Attempts, _ = strconv.Atoi(value)
		default:
			t.Fatalf("option %q", w)
		}
	}
	s.Act, s.Undo = pol, pol
	p.def.Steps = append(p.def.Steps, s)
}

func dur(t testing.TB, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var outcomes = map[string]Outcome{"unknown": OutcomeUnknown, "done": OutcomeDone, "refused": OutcomeRefused,
	"retry": OutcomeRetry, "absent": OutcomeAbsent}

var verbs = map[string]Verb{"retry": Retry, "cancel": Cancel, "mark_done": MarkDone,
	"mark_not_done": MarkNotDone, "skip": Skip, "close": Close}

// event reads an event. Results are of the call under way; "stale" names an earlier try.
func (p *play) event(t *testing.T, w []string) Event {
	ev := Event{}
	for _, x := range w[1:] {
		if name, value, ok := strings.Cut(x, "="); ok {
			switch name {
			case "after":
				ev.After = dur(t, value)
			case "at":
				ev.At = p.base.Add(dur(t, value))
			case "try":
				ev.Call.Try, _ = strconv.Atoi(value)
			case "out":
				ev.Data = []byte(value)
			}
		} else if i := p.state.Find(x); i >= 0 {
			ev.Step = i
		} else if x == "sending" {
			ev.Sending = true
		} else if x == "setback" {
			ev.SetBack = true
		} else if x == "begun" {
			ev.Begun = true
		} else if x == "unmade" {
			ev.Outcome, ev.Hold = OutcomeRetry, HoldBroken
		} else if o, ok := outcomes[x]; ok {
			ev.Outcome = o
		}
	}
	switch w[0] {
	case "begin":
		ev.Kind = Begin
	case "result":
		ev.Kind = Result
		c, ok := p.state.InFlight()
		if !ok {
			t.Fatalf("%v: nothing is under way", w)
		}
		ev.Call, ev.Step = c, 0
	case "stale":
		ev.Kind, ev.Call.Kind, ev.Call.Step = Result, Action, ev.Step
	case "staleundo":
		ev.Kind, ev.Call.Kind, ev.Call.Step = Result, Undo, ev.Step
		ev.Call.UndoNo = p.state.Steps[ev.Step].UndoNo
	case "found":
		ev.Kind = Found
	case "signal":
		ev.Kind = Signal
	case "wake":
		ev.Kind = Wake
	case "park":
		ev.Kind, ev.Hold = Park, HoldBroken
	case "restart":
		ev.Kind = Recover
	default:
		v, ok := verbs[w[0]]
		if !ok {
			t.Fatalf("event %v", w)
		}
		ev.Kind, ev.Verb, ev.Text = Operate, v, "by hand"
	}
	return ev
}

func (p *play) show(effects []Effect) string {
	var out []string
	out = append(out, p.state.Status.String())
	for _, st := range p.state.Steps {
		text := st.Name + "=" + st.Status.String()
		if st.Doubt {
			text += "?"
		}
		if st.Undo != UndoNone {
			text += "/" + st.Undo.String()
			if st.UndoNo > 1 {
				text += "#" + strconv.Itoa(st.UndoNo)
			}
		}
		if st.Status != Pending || st.Undo != UndoNone {
			out = append(out, text)
		}
	}
	if c, at, ok := Want(&p.def, &p.state); ok {
		when := ""
		if !at.IsZero() {
			when = "@" + at.Sub(p.base).String()
		}
		out = append(out, c.Kind.String()+":"+p.def.Steps[c.Step].Name+when)
	}
	for _, e := range effects {
		switch e.Kind {
		case EffectCall:
			text := fmt.Sprintf("call:%s:%s#%d", e.Call.Kind, p.def.Steps[e.Call.Step].Name, e.Call.Try)
			if e.Call.UndoNo > 1 {
				text += "/" + strconv.Itoa(e.Call.UndoNo)
			}
			out = append(out, text)
		case EffectTell:
			out = append(out, "tell")
		case EffectCorrect:
			out = append(out, "correct:"+p.def.Steps[e.Step].Name)
		case EffectContradict:
			out = append(out, "contradict:"+p.def.Steps[e.Step].Name)
		}
	}
	return strings.Join(out, " ")
}

func (p *play) line(t *testing.T, line string) {
	line, _, _ = strings.Cut(line, "//")
	if line = strings.TrimSpace(line); line == "" {
		return
	}
	if rest, ok := strings.CutPrefix(line, "step "); ok {
		p.step(t, strings.Fields(rest))
		return
	}
	if rest, ok := strings.CutPrefix(line, "change "); ok { // the next program has other options
		was := p.def.Steps
		p.step(t, strings.Fields(rest))
		now := p.def.Steps[len(was)]
		p.def.Steps = was
		p.def.Steps[p.state.Find(now.Name)] = now
		return
	}
	if rest, ok := strings.CutPrefix(line, "restored "); ok {
		p.def.Restored = p.base.Add(dur(t, rest))
		return
	}
	if rest, ok := strings.CutPrefix(line, "deadline "); ok {
		p.def.Deadline = dur(t, rest)
		return
	}
	if p.state.Status == 0 {
		p.state = New(&p.def, p.base)
	}
	left, want, _ := strings.Cut(line, "->")
	words := strings.Fields(left)
	now := p.base.Add(dur(t, words[0]))
	var effects []Effect
	var err error
	if words[1] == "correction" {
		ev := p.event(t, append([]string{"signal"}, words[2:]...))
		p.state, effects = Correction(&p.def, p.state, ev, now)
	} else {
		p.state, effects, err = Next(&p.def, p.state, p.event(t, words[1:]), now)
	}
	got := p.show(effects)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v is no *Error", line, err)
		}
		got = "error " + e.Problem
	}
	if s := &p.state; err == nil && (s.Status == Stuck || s.Hold != HoldNone && s.Hold != HoldBroken) {
		names := func(verb string) bool { return strings.Contains(s.Reason, verb+" ") }
		if !slices.ContainsFunc(verbNames[1:], names) {
			t.Errorf("%s\n a person is not told what to do: %s", line, s.Reason)
		}
	}
	want = strings.Join(strings.Fields(want), " ")
	if rest, ok := strings.CutSuffix(want, " because none"); ok {
		want = rest
		if s := &p.state; s.Cause != CauseNone || s.Failed != 0 || s.Reason != "" {
			t.Errorf("%s\n the cause is %s at %d: %s", line, s.Cause, s.Failed, s.Reason)
		}
	}
	if got != want && (err == nil || !strings.HasPrefix(want, "error ") || !strings.Contains(got, want[6:])) {
		t.Errorf("%s\n got: %s", line, got)
	}
}

func TestVerbsAreReadByTheirNames(t *testing.T) {
	t.Parallel()
	for name, want := range verbs {
		if v, err := ParseVerb(name); v != want || err != nil || v.String() != name {
			t.Errorf("%q is %v, %v", name, v, err)
		}
	}
	for _, name := range []string{"", "Retry", "markdone", "(7)"} {
		if v, err := ParseVerb(name); err == nil || v != 0 ||
			!strings.Contains(err.Error(), "mark_not_done") {
			t.Errorf("%q is %v, %v", name, v, err)
		}
	}
}

func TestPlays(t *testing.T) {
	t.Parallel()
	all := maps.Clone(plays)
	maps.Copy(all, hostile)
	maps.Copy(all, clocks)
	for name, text := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &play{base: epoch}
			for line := range strings.Lines(text) {
				p.line(t, line)
			}
		})
	}
}
