package machine

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// walk is one random life of a run: a callee with a ledger, a look-up, signals,
// restarts and persons who know the truth.
type walk struct {
	*testing.T
	*rand.Rand
	def    Def
	s      State
	now    time.Time
	ledger []int       // effects of each step that stand
	flying []word      // requests that have not come to their effect, and when they do
	acted  []bool      // the callee has seen the step's key: what comes under it has no new effect
	words  []word      // what the callee has to tell, as often and as late as it likes
	sent   map[int]int // step → the number of its undo that was last sent
	person bool        // somebody has skipped or closed
	// correct is the event that asked for a correction last.
	correct *Event
	late    int // effects that came after their call had ended
	// changed is when the run was last changed, skew what the clock lacks to real time, backs
	// how often it was set back; below 0 it never is. first is when a key was first sent in
	// doubt, in real time, and again how often one was sent in doubt.
	changed time.Time
	skew    time.Duration
	backs   int
	first   map[Call]time.Time
	again   int
}

func newWalk(t *testing.T, r *rand.Rand) *walk {
	w := &walk{T: t, Rand: r, def: randomDef(r), now: epoch, sent: map[int]int{}, changed: epoch, backs: -1,
		first: map[Call]time.Time{}}
	w.ledger, w.acted = make([]int, len(w.def.Steps)), make([]bool, len(w.def.Steps))
	w.s = New(&w.def, w.now)
	return w
}

// word says that the effect of a step happened.
type word struct {
	step int
	at   time.Time
}

// happens lets the effect of a step happen.
func (w *walk) happens(i int) {
	if w.ledger[i] == 0 {
		w.words = append(w.words, word{i, w.now})
	}
	w.ledger[i], w.acted[i] = 1, true
}

// sends lets the effect of a step happen at once, or up to SettlesAfter later.
func (w *walk) sends(i int) {
	if late := w.def.Steps[i].SettlesAfter; late > 0 && w.IntN(3) > 0 {
		w.flying = append(w.flying, word{i, w.now.Add(time.Duration(w.Int64N(int64(late))))})
		return
	}
	w.happens(i)
}

// flies reports that a request of the step may still come to its effect.
func (w *walk) flies(i int) bool {
	return !w.acted[i] && slices.ContainsFunc(w.flying, func(x word) bool { return x.step == i })
}

// to lets time pass, and lets happen what was to happen by then.
func (w *walk) to(t time.Time) {
	slices.SortFunc(w.flying, func(a, b word) int { return a.at.Compare(b.at) })
	for len(w.flying) > 0 && !w.flying[0].at.After(t) {
		x := w.flying[0]
		w.flying = w.flying[1:]
		if w.now = x.at; !w.acted[x.step] {
			w.happens(x.step)
			w.late++
		}
	}
	w.now = t
}

// hearsay delivers a word of a step, or of any, old or new, with or without its time.
func (w *walk) hearsay(step int) {
	var told []word
	for _, x := range w.words {
		if step < 0 || x.step == step {
			told = append(told, x)
		}
	}
	if len(told) == 0 {
		return
	}
	x := told[w.IntN(len(told))]
	if w.IntN(2) == 0 || w.skew > 0 { // by another clock it proves nothing
		x.at = time.Time{}
	}
	w.do(Event{Kind: Signal, Step: x.step, Outcome: OutcomeDone, At: x.at})
}

func randomDef(r *rand.Rand) Def {
	n := 1 + r.IntN(4)
	d := Def{}
	if r.IntN(4) == 0 {
		d.Deadline = time.Duration(1+r.IntN(60)) * time.Second
	}
	pivot := -1
	if r.IntN(3) == 0 {
		pivot = r.IntN(n)
	}
	for i := range n {
		pol := Policy{Attempts: 1 + r.IntN(4), Backoff: time.Second, MaxBackoff: 8 * time.Second}
		s := Step{Name: string(rune('a' + i)), Act: pol, Undo: pol, UndoKeyValidFor: time.Hour}
		s.HasUndo = i != pivot && r.IntN(5) > 0
		s.Pivot = i == pivot
		s.Irreversible = !s.HasUndo && !s.Pivot
		s.UndoWhenAbsent = s.HasUndo && r.IntN(3) == 0
		s.Check = r.IntN(2) == 0 // the callee shows every effect at once
		if r.IntN(2) == 0 {      // but it can come late
			s.SettlesAfter = time.Duration(1+r.IntN(30)) * time.Second
		}
		if r.IntN(2) == 0 {
			s.KeyValidFor = time.Minute
		}
		if r.IntN(3) == 0 {
			s.Await = true
			s.NoAction = s.HasUndo && r.IntN(3) == 0
			if s.NoAction {
				s.HasUndo, s.UndoWhenAbsent, s.Irreversible = false, false, false
			}
			if r.IntN(2) == 0 {
				s.AwaitFor = 20 * time.Second
			}
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

// do gives the machine one event and checks what must hold at every transition.
func (w *walk) do(ev Event) []Effect {
	before := w.s.clone()
	next, effects, err := Next(&w.def, w.s, ev, w.now)
	if !reflect.DeepEqual(before, w.s) {
		w.Fatal("Next has changed the state it was given")
	}
	if err != nil && !reflect.DeepEqual(next, w.s) {
		w.Fatal("an error has changed the state")
	}
	if before.Status.Terminal() && !reflect.DeepEqual(next, before) {
		w.Fatalf("%s has changed after its end", before.Status)
	}
	for i := range next.Steps {
		if next.Steps[i].UndoNo > before.Steps[i].UndoNo+1 || next.Steps[i].UndoNo < before.Steps[i].UndoNo {
			w.Fatal("the number of an undo leaps")
		}
		if next.Steps[i].UndoNo > 1 && next.Steps[i].UndoNo > before.Steps[i].UndoNo &&
			before.Steps[i].UndoneAt.IsZero() {
			w.Fatal("the number of an undo rose before one ended")
		}
		step := &w.def.Steps[i]
		if next.Steps[i].Tries > step.Act.Attempts || next.Steps[i].UndoTries > step.Undo.Attempts {
			w.Fatal("more tries than allowed")
		}
	}
	if !reflect.DeepEqual(next, before) {
		w.changed = w.now
	}
	w.s = next
	for _, e := range effects {
		if e.Kind == EffectCorrect {
			w.correct = &ev
		}
	}
	return effects
}

// corrections lets a step happen after all that was undone, or tells of it again,
// and follows the runs that this asks for.
func (w *walk) corrections() (n int) {
	i := w.IntN(len(w.def.Steps))
	step := &w.def.Steps[i]
	if step.NoAction || w.s.Steps[i].Sends == 0 || !step.HasUndo {
		return 0
	}
	for range 3 {
		if w.s.Status != Compensated || w.person {
			return n
		}
		w.to(w.now.Add(time.Second))
		if w.IntN(2) == 0 {
			w.happens(i)
		}
		w.correct = nil
		for range 3 {
			w.hearsay(i)
		}
		if w.correct == nil {
			return n
		}
		n++
		w.s, _ = Correction(&w.def, w.s, *w.correct, w.now)
		for range 60 {
			if w.s.Status.Terminal() {
				w.atEnd()
				break
			}
			w.turn()
		}
	}
	return n
}

func (w *walk) random() Event { return Event{Random: w.Uint32()} }

// turn lets one thing happen.
func (w *walk) turn() {
	w.to(w.now.Add(time.Duration(w.IntN(2000)) * time.Millisecond))
	i := w.IntN(len(w.def.Steps))
	switch w.IntN(13) {
	case 0:
		w.restart()
	case 1:
		w.signal(i)
	case 2:
		w.to(w.now.Add(time.Duration(w.IntN(30)) * time.Second))
		w.do(Event{Kind: Wake})
	case 3:
		w.act(i)
	case 4:
		w.hearsay(-1)
	default:
		w.call()
	}
}

// signal tells the truth, and tells it again. A refusal is told of a waiting step
// only, and then it is refused.
func (w *walk) signal(i int) {
	st := &w.s.Steps[i]
	switch {
	case w.def.Steps[i].NoAction:
		if st.Status == Waiting || st.Status == Pending {
			w.do(Event{Kind: Signal, Step: i, Outcome: []Outcome{OutcomeDone, OutcomeRefused}[w.IntN(2)]})
		}
	case st.Sends > 0 && w.ledger[i] > 0:
		ev := Event{Kind: Signal, Step: i, Outcome: OutcomeDone, At: w.now}
		if w.skew > 0 {
			ev.At = time.Time{}
		}
		w.do(ev)
	case st.Status == Waiting && w.IntN(3) == 0:
		w.flying = slices.DeleteFunc(w.flying, func(x word) bool { return x.step == i })
		w.do(Event{Kind: Signal, Step: i, Outcome: OutcomeRefused})
	}
}

// act is a person who knows what stands.
func (w *walk) act(i int) {
	held := w.s.Status == Held || w.s.Status == Stuck
	st := &w.s.Steps[i]
	verb := []Verb{Retry, Cancel, MarkDone, MarkNotDone, Skip, Close}[w.IntN(6)]
	undo := st.Undo == UndoDue || st.Undo == UndoStuck
	switch {
	case verb == Cancel && w.IntN(4) > 0, (verb == Skip || verb == Close) && w.IntN(30) > 0:
		return
	case verb == MarkDone && (!held || (w.ledger[i] > 0) == undo || w.def.Steps[i].NoAction):
		return
	case (verb == MarkDone || verb == MarkNotDone) && w.flies(i): // it cannot be known yet
		return
	case verb == MarkNotDone && (!held || (w.ledger[i] > 0) != undo || w.def.Steps[i].NoAction):
		return
	}
	before := w.s.Status
	w.do(Event{Kind: Operate, Verb: verb, Step: i, Text: "told"})
	if (verb == Skip || verb == Close) && !before.Terminal() {
		w.person = true
	}
}

// call makes the call that is wanted, if it is due.
func (w *walk) call() {
	c, at, ok := Want(&w.def, &w.s)
	if !ok {
		return
	}
	if wake := WakeAt(&w.def, &w.s, w.now); at.After(w.now) && wake.After(at) {
		w.Fatal("it would wake too late for its call")
	}
	if at.After(w.now) {
		w.to(at)
	}
	ev := w.random()
	if c.Kind == Look {
		ev.Kind, ev.Step, ev.Outcome = Found, c.Step, OutcomeAbsent
		if w.ledger[c.Step] > 0 {
			ev.Outcome = OutcomeDone
		}
		if w.IntN(3) == 0 {
			ev.Outcome = OutcomeUnknown
			ev.Begun = w.ledger[c.Step] > 0 && w.IntN(2) == 0
		}
		w.do(ev)
		return
	}
	var made *Call
	ev.Kind = Begin
	doubt := w.s.Steps[c.Step].Doubt && c.Kind == Action || w.s.Steps[c.Step].UndoDoubt && c.Kind == Undo
	for _, e := range w.do(ev) {
		if e.Kind == EffectCall {
			made = &e.Call
		}
	}
	if made != nil {
		w.age(*made, doubt)
		w.perform(*made)
	}
}

// perform is the callee: it honours keys within their time.
func (w *walk) perform(c Call) {
	st := &w.s.Steps[c.Step]
	ev := w.random()
	ev.Kind, ev.Call, ev.Outcome = Result, c, []Outcome{OutcomeDone, OutcomeDone, OutcomeRetry,
		OutcomeUnknown, OutcomeRefused}[w.IntN(5)]
	w.to(w.now.Add(time.Duration(w.IntN(3)*w.IntN(5)) * time.Second)) // it is sent in the course of the call
	happens := ev.Outcome == OutcomeDone || ev.Outcome == OutcomeUnknown && w.IntN(2) == 0
	if c.Kind == Undo {
		w.beforeUndo(c)
		if happens {
			w.ledger[c.Step] = 0
		}
	} else {
		if st.Doubt && w.def.Steps[c.Step].KeyValidFor == 0 {
			w.Fatal("an action in doubt was sent again although its callee honours no keys")
		}
		switch {
		case !happens || w.acted[c.Step]:
		case ev.Outcome == OutcomeUnknown || w.def.Steps[c.Step].Await:
			w.sends(c.Step)
		default:
			w.happens(c.Step)
		}
		if w.ledger[c.Step] > 0 && (ev.Outcome == OutcomeRefused || ev.Outcome == OutcomeRetry) {
			ev.Outcome = OutcomeDone // the same key gets the first answer
		}
	}
	switch w.IntN(8) {
	case 0: // the process dies
		w.restart()
		return
	case 1:
		w.signal(c.Step)
	case 2:
		w.do(Event{Kind: Operate, Verb: Cancel, Text: "told"})
	}
	w.do(ev)
	if w.IntN(4) == 0 {
		w.do(ev) // twice
	}
}

// beforeUndo checks what must hold when an undo is sent.
func (w *walk) beforeUndo(c Call) {
	for j := c.Step + 1; j < len(w.s.Steps); j++ {
		if st := &w.s.Steps[j]; stands(&w.def.Steps[j], st) {
			w.Fatalf("step %d is undone while %d stands", c.Step, j)
		}
	}
	st := &w.s.Steps[c.Step]
	if st.Status != Done && !w.def.Steps[c.Step].UndoWhenAbsent {
		w.Fatalf("step %d is undone and is %s", c.Step, st.Status)
	}
	if !w.s.Back {
		w.Fatal("an undo in a run that goes forward")
	}
	for j := range w.s.Steps {
		if w.def.Steps[j].Pivot && (w.s.Steps[j].Status == Done) {
			w.Fatal("an undo after the pivot")
		}
	}
	no, ok := w.sent[c.Step]
	if ok && c.UndoNo < no {
		w.Fatal("an old number of an undo")
	}
	if ok && c.UndoNo > no && w.ledger[c.Step] == 0 {
		w.Fatal("what does not stand is undone again, under another key")
	}
	w.sent[c.Step] = c.UndoNo
}

// atEnd checks that all or nothing stands.
func (w *walk) atEnd() {
	if w.person {
		return
	}
	for i := range w.s.Steps {
		step, st := &w.def.Steps[i], &w.s.Steps[i]
		if step.NoAction {
			continue
		}
		switch w.s.Status {
		case Completed:
			if w.ledger[i] != 1 || st.Status != Done {
				w.Fatalf("completed, and step %s is %s, %d stand", step.Name, st.Status, w.ledger[i])
			}
		case Compensated:
			if w.ledger[i] != 0 {
				w.Fatalf("compensated, and step %s stands, it is %s/%s", step.Name, st.Status, st.Undo)
			}
		case Closed:
			w.Fatal("closed, and by nobody")
		}
	}
}

func TestRandomLives(t *testing.T) {
	t.Parallel()
	ends, corrections, late := map[Status]int{}, 0, 0
	for seed := range uint64(30_000) {
		r := rand.New(rand.NewPCG(seed, 5))
		w := newWalk(t, r)
		for range 120 {
			w.turn()
			if w.s.Status.Terminal() {
				break
			}
		}
		if w.s.Status.Terminal() {
			w.atEnd()
			w.to(w.now.Add(time.Minute)) // nothing comes any more
			w.atEnd()
			ends[w.s.Status]++
			late += w.late
			for range 5 { // nothing changes any more
				w.turn()
			}
			corrections += w.corrections()
		} else {
			ends[w.s.Status]++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("ends: %v, %d corrections, %d late effects", ends, corrections, late)
	if corrections < 1000 || late < 1000 {
		t.Errorf("only %d corrections, %d late effects", corrections, late)
	}
	for _, s := range []Status{Completed, Compensated, Held, Stuck, Closed} {
		if ends[s] < 20 {
			t.Errorf("only %d lives end %s", ends[s], s)
		}
	}
}

func TestPausesAreBoundedAndSpaced(t *testing.T) {
	t.Parallel()
	p := Policy{Attempts: 100, Backoff: time.Second, MaxBackoff: time.Minute}
	for n := 1; n < 100; n++ {
		want := min(time.Second<<min(n-1, 20), time.Minute)
		for _, random := range []uint32{0, 1 << 31, 1<<32 - 1} {
			if d := p.delay(n, 0, random); d < want/2 || d > want {
				t.Errorf("pause %d is %v, want at most %v", n, d, want)
			}
			if d := p.delay(n, 20*time.Minute, random); d < 20*time.Minute || d > 22*time.Minute {
				t.Errorf("pause %d with a wish is %v", n, d)
			}
			if d := p.delay(n, -time.Hour, random); d < want/2 {
				t.Errorf("a wish of the past gives %v", d)
			}
		}
	}
	if a, b := p.delay(5, 0, 0), p.delay(5, 0, 1<<31); a == b {
		t.Error("pauses are not spread")
	}
}

func TestMatchIsByName(t *testing.T) {
	t.Parallel()
	def := func(names ...string) *Def {
		d := &Def{}
		for _, n := range names {
			d.Steps = append(d.Steps, Step{Name: n})
		}
		return d
	}
	s := New(def("a", "b"), epoch)
	for _, c := range []struct {
		def *Def
		ok  bool
	}{{def("a", "b"), true}, {def("b", "a"), false}, {def("a"), false}, {def("a", "b", "c"), false}} {
		if err := c.def.Match(&s); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.def, err)
		}
	}
	if !strings.Contains(def("a", "x").Match(&s).Error(), `"x"`) {
		t.Error("the error does not name the step")
	}
}
