package machine

import (
	"strings"
	"testing"
	"time"
)

// What came with a signal must not change what later steps have seen of an ended step.
func TestALateSignalDoesNotChangeWhatAStepHasGiven(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ play, output, data string }{
		"a signal that ends the step": {`
			step a undo await
			step b
			0s begin                   -> running a=started call:action:a#1
			0s result done out=reply   -> running a=waiting
			1s signal a done out=word  -> running a=done b=ready action:b`, "reply", "word"},
		"a signal after the look-up has ended it": {`
			step a undo await check=1s
			step b
			0s begin                   -> running a=started call:action:a#1
			1s restart                 -> running a=unknown? check:a@1s
			1s found a done out=seen   -> running a=done b=ready action:b
			2s signal a done out=word  -> running a=done b=ready action:b`, "seen", ""},
		"a signal after a person has ended it": {`
			step a undo await
			step b
			0s begin                     -> running a=started call:action:a#1
			0s result done               -> running a=waiting
			1s mark_done a out=said      -> running a=done b=ready action:b
			2s signal a done out=word    -> running a=done b=ready action:b`, "said", ""},
		"a signal after a person has ended it and said nothing": {`
			step a undo await
			step b
			0s begin                     -> running a=started call:action:a#1
			0s result done               -> running a=waiting
			1s mark_done a               -> running a=done b=ready action:b
			2s signal a done out=word    -> running a=done b=ready action:b`, "", "word"},
		"another word after a person has ended it": {`
			step a undo await
			step b
			0s begin                     -> running a=started call:action:a#1
			0s signal a refused out=no   -> running a=started
			1s result unknown            -> held a=unknown? tell
			1s mark_done a out=said      -> running a=done b=ready action:b
			2s signal a done out=word    -> running a=done b=ready action:b`, "said", ""},
		"a signal beside a reply, where none is awaited": {`
			step a undo
			step b
			0s begin                     -> running a=started call:action:a#1
			0s result done out=reply     -> running a=done b=ready action:b
			2s signal a done out=word    -> running a=done b=ready action:b`, "reply", "word"},
	} {
		p := &play{base: time.Unix(1_800_000_000, 0)}
		for line := range strings.SplitSeq(c.play, "\n") {
			p.line(t, line)
		}
		st := &p.state.Steps[0]
		if string(st.Output) != c.output || string(st.SignalData) != c.data {
			t.Errorf("%s: the output is %q and the data %q, want %q and %q", name, st.Output, st.SignalData,
				c.output, c.data)
		}
	}
}

// What is undone by a correction is what came with the late success.
func TestACorrectionKnowsWhatCameWithTheSuccess(t *testing.T) {
	t.Parallel()
	// An awaited step that was given up, or refused, and undone; then it succeeds.
	const given = `
		step a undo await absent
		0s begin               -> running a=started call:action:a#1
		0s result done out=202 -> running a=waiting
		1s cancel              -> compensating a=unknown/due undo:a@1s
		1s begin               -> compensating a=unknown/started call:undo:a#1
		1s result done         -> compensated a=unknown/done tell
		`
	const refused = `
		step a undo await
		0s begin                     -> running a=started call:action:a#1
		0s result done out=202       -> running a=waiting
		1s signal a refused out=none -> compensated a=refused tell
		`
	for name, c := range map[string]struct{ play, output, data string }{
		"given up":          {given + "9s correction a done out=late at=5s", "202", "late"},
		"given up, no data": {given + "9s correction a done at=5s", "202", ""},
		"refused":           {refused + "9s correction a done out=late", "202", "late"},
		"refused, no data":  {refused + "9s correction a done", "202", ""},
	} {
		p := &play{base: time.Unix(1_800_000_000, 0)}
		lines := strings.Split(c.play, "\n")
		for _, line := range lines[:len(lines)-1] {
			p.line(t, line)
		}
		words := strings.Fields(lines[len(lines)-1])
		ev := p.event(t, append([]string{"signal"}, words[2:]...))
		s, _ := Correction(&p.def, p.state, ev, p.base.Add(9*time.Second))
		st := &s.Steps[0]
		if string(st.Output) != c.output || string(st.SignalData) != c.data || st.Signal != OutcomeDone {
			t.Errorf("%s: output %q, data %q, signal %s; want %q, %q and done", name, st.Output,
				st.SignalData, st.Signal, c.output, c.data)
		}
	}
	p := &play{base: time.Unix(1_800_000_000, 0)}
	for line := range strings.SplitSeq(refused, "\n") {
		p.line(t, line)
	}
	s, _ := Correction(&p.def, p.state, Event{Kind: Result, Outcome: OutcomeDone, Data: []byte("reply")},
		p.base.Add(9*time.Second))
	st := &s.Steps[0]
	if string(st.Output) != "reply" || st.SignalData != nil || st.Signal != OutcomeUnknown {
		t.Errorf("a late reply: output %q, data %q, signal %s", st.Output, st.SignalData, st.Signal)
	}
}

// Who marks a step is told what the deadline makes of it.
func TestAPersonIsToldOfTheDeadline(t *testing.T) {
	t.Parallel()
	for text, told := range map[string]bool{"deadline 90s\nstep a undo\n": true, "step a undo\n": false,
		"deadline 90s\nstep a pivot\n": false} {
		p := &play{base: time.Unix(1_800_000_000, 0)}
		for line := range strings.SplitSeq(text+"0s begin -> running a=started call:action:a#1", "\n") {
			p.line(t, line)
		}
		c, _ := p.state.InFlight()
		next, _, err := Next(&p.def, p.state, Event{Kind: Result, Call: c}, p.base)
		if err != nil || next.Hold != HoldUnknown {
			t.Fatalf("%s: %s, %v", text, next.Hold, err)
		}
		if strings.Contains(next.Reason, "from its deadline on, 2027-01-15T08:01:30Z, it is undone") != told {
			t.Errorf("%s: %s", text, next.Reason)
		}
	}
}

// A run that is not undone any more has no deadline that could be shown.
func TestNoDeadlineBehindThePivot(t *testing.T) {
	t.Parallel()
	p := &play{base: time.Unix(1_800_000_000, 0)}
	for line := range strings.SplitSeq(`
		deadline 90s
		step a pivot
		step b
		0s begin       -> running a=started call:action:a#1`, "\n") {
		p.line(t, line)
	}
	if p.state.Deadline.IsZero() {
		t.Error("it has none while the pivot may be refused")
	}
	p.line(t, "0s result done -> running a=done b=ready action:b")
	if !p.state.Deadline.IsZero() {
		t.Errorf("it is %s", p.state.Deadline)
	}
}

// After a person has said retry, the tries of a call that could not be made begin anew.
func TestTriesBeginAnewAfterACallThatCouldNotBeMade(t *testing.T) {
	t.Parallel()
	p := &play{base: time.Unix(1_800_000_000, 0)}
	for line := range strings.SplitSeq(`
		step a undo n=2
		0s begin          -> running a=started call:action:a#1
		0s result retry   -> running a=ready action:a@1s
		1s begin          -> running a=started call:action:a#2
		1s result unmade  -> held a=ready tell
		2s retry          -> running a=ready action:a@1s
		2s begin          -> running a=started call:action:a#3
		2s result retry   -> running a=ready action:a@3s`, "\n") {
		p.line(t, line)
	}
}
