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
