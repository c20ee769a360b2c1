package machine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// clocks are plays in which the clock was set back while the process was off.
var clocks = map[string]string{
	"a clock set back at a restart makes no key young again": `
		step a undo key=24h n=5
		12h begin    -> running a=started call:action:a#1
		6h  restart  -> held a=unknown? tell
		7h  retry    -> error neither a look-up nor its key can tell
		35h retry    -> error neither a look-up nor its key can tell`,

	"nor that of a step that was in doubt before": `
		step a undo key=24h n=5
		12h begin          -> running a=started call:action:a#1
		13h result unknown -> running a=unknown? action:a@13h0m1s
		6h  restart        -> running a=unknown? action:a@13h0m1s
		14h begin          -> held a=unknown? tell
		15h retry          -> error neither a look-up nor its key can tell`,

	"nor that of one that was sent twice, and seen last before the second": `
		step a undo key=24h n=5
		12h begin          -> running a=started call:action:a#1
		13h result unknown -> running a=unknown? action:a@13h0m1s
		14h begin          -> running a=started? call:action:a#2
		14h result retry   -> running a=unknown? action:a@14h0m2s
		13h30m restart     -> running a=unknown? action:a@14h0m2s
		15h begin          -> held a=unknown? tell`,

	"nor where only the engine can tell": `
		step a undo key=24h n=5
		12h begin           -> running a=started call:action:a#1
		12h result unknown  -> running a=unknown? action:a@12h0m1s
		13h restart setback -> running a=unknown? action:a@12h0m1s
		13h begin           -> held a=unknown? tell`,

	"nor when the definition is missing at first": `
		step a undo key=24h n=5
		12h begin   -> running a=started call:action:a#1
		6h  park    -> held a=started tell
		13h restart -> held a=unknown? tell
		14h retry   -> error neither a look-up nor its key can tell`,

	"a restart at which the clock goes on leaves the key its age": `
		step a undo key=24h n=5
		12h    begin   -> running a=started call:action:a#1
		35h59m restart -> running a=unknown? action:a@35h59m0s
		35h59m begin   -> running a=started? call:action:a#2
		35h59m restart -> running a=unknown? action:a@35h59m0s
		36h    begin   -> held a=unknown? tell`,

	"a look-up that finds nothing gives a key a new age": `
		step a undo key=24h check=10s n=5
		12h   begin          -> running a=started call:action:a#1
		6h    restart        -> running a=unknown? check:a@6h0m0s
		6h    found a absent -> running a=unknown? check:a@6h0m10s
		7h    found a absent -> running a=ready action:a@7h0m0s
		8h    begin          -> running a=started call:action:a#2
		8h    result unknown -> running a=unknown? check:a@8h0m2s
		9h    found a absent -> running a=ready action:a@9h0m0s
		9h    begin          -> running a=started call:action:a#3
		9h    restart        -> running a=unknown? check:a@9h0m0s
		9h    found a absent -> running a=unknown? action:a@9h0m0s
		9h    begin          -> running a=started? call:action:a#4`,

	"nor is the key of an undo young again": `
		step a undo undokey=24h
		step b undo
		12h begin          -> running a=started call:action:a#1
		12h result done    -> running a=done b=ready action:b
		12h begin          -> running a=done b=started call:action:b#1
		12h result refused -> compensating a=done/due b=refused undo:a
		12h begin          -> compensating a=done/started b=refused call:undo:a#1
		6h  restart        -> compensating a=done/due b=refused undo:a@6h0m0s
		7h  begin          -> stuck a=done/stuck b=refused tell
		13h retry          -> error its key is too old`,

	"nor that of an undo in doubt": `
		step a undo undokey=24h
		step b undo
		10h begin           -> running a=started call:action:a#1
		10h result done     -> running a=done b=ready action:b
		10h begin           -> running a=done b=started call:action:b#1
		10h result refused  -> compensating a=done/due b=refused undo:a
		12h begin           -> compensating a=done/started b=refused call:undo:a#1
		12h result unknown  -> compensating a=done/due b=refused undo:a@12h0m1s
		11h restart         -> compensating a=done/due b=refused undo:a@12h0m1s
		13h begin           -> stuck a=done/stuck b=refused tell
		13h mark_not_done a -> compensating a=done/due b=refused undo:a@13h0m0s
		13h begin           -> compensating a=done/started b=refused call:undo:a#2
		13h result unknown  -> compensating a=done/due b=refused undo:a@13h0m1s
		14h begin           -> compensating a=done/started b=refused call:undo:a#3`,

	"what another step did last is seen too": `
		step a undo key=24h
		step b undo absent undokey=24h n=1
		10h begin            -> running a=started call:action:a#1
		10h result done      -> running a=done b=ready action:b
		10h begin            -> running a=done b=started call:action:b#1
		10h result unknown   -> compensating a=done b=unknown?/due undo:b@10h0m0s
		11h begin            -> compensating a=done b=unknown?/started call:undo:b#1
		12h result done      -> compensating a=done/due b=unknown?/done undo:a
		11h59m begin         -> compensating a=done/started b=unknown?/done call:undo:a#1
		11h59m restart       -> compensating a=done/due b=unknown?/done undo:a@11h59m0s
		13h begin            -> stuck a=done/stuck b=unknown?/done tell`,
}

// age checks that no key is sent in doubt that the callee has forgotten, in real time.
func (w *walk) age(c Call, doubt bool) {
	step, now := &w.def.Steps[c.Step], w.now.Add(w.skew)
	valid := step.KeyValidFor
	if c.Kind == Undo {
		valid = step.UndoKeyValidFor
	}
	c.Try = 0
	if !doubt {
		w.first[c] = now
		return
	}
	if w.again++; now.Sub(w.first[c]) >= valid {
		w.Fatalf("the %s of step %s is sent again after %v, its key is known for %v", c.Kind, step.Name,
			now.Sub(w.first[c]), valid)
	}
}

// restart is the next process. The clock may have been set back while none was there, by
// so much that it can be seen.
func (w *walk) restart() {
	ev := Event{Kind: Recover}
	if w.backs < 0 || w.IntN(4) > 0 {
		w.do(ev)
		return
	}
	until := w.changed
	if ev.SetBack = w.IntN(2) == 0; !ev.SetBack {
		until = w.s.lastCall()
	}
	span := func() time.Duration {
		most := []time.Duration{time.Second, time.Minute, 3 * time.Hour}[w.IntN(3)]
		return time.Duration(w.Int64N(int64(most)))
	}
	w.to(w.now.Add(span()))
	if to := until.Add(-1 - span()); !until.IsZero() {
		by := w.now.Sub(to)
		w.now, w.skew = to, w.skew+by
		for i := range w.flying {
			w.flying[i].at = w.flying[i].at.Add(-by)
		}
		w.backs++
	}
	if ev.SetBack && w.IntN(2) == 0 { // nobody looks at the run before the clock has come there again
		w.to(w.changed.Add(span()))
	}
	w.do(ev)
}

// lastCall is the last instant at which a call was made or has ended, as far as is known.
func (s *State) lastCall() (last time.Time) {
	for i := range s.Steps {
		st := &s.Steps[i]
		for _, at := range []time.Time{st.FirstSend, st.LastSend, st.UndoFirst, st.UndoneAt} {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

func TestASetBackClockMakesNoKeyYoung(t *testing.T) {
	t.Parallel()
	ends, backs, again := map[Status]int{}, 0, 0
	for seed := range uint64(8_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newWalk(t, r)
		w.backs = 0
		for range 120 {
			if w.turn(); w.s.Status.Terminal() {
				w.atEnd()
				break
			}
		}
		ends[w.s.Status]++
		backs += w.backs
		again += w.again
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("ends: %v, the clock was set back %d times, %d calls were sent again in doubt", ends, backs, again)
	if backs < 1000 || again < 1000 {
		t.Errorf("the clock was set back %d times, %d calls were sent again in doubt", backs, again)
	}
	for _, s := range []Status{Completed, Compensated, Held, Stuck} {
		if ends[s] < 20 {
			t.Errorf("only %d lives end %s", ends[s], s)
		}
	}
}
