package claim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The property test plays many random schedules of owners, crashes, lapses, lost
// answers, look-ups and persons against one key and a callee, and checks after
// each step: effects started per token at most 1, effects that happened at most
// 1, the outcome is the truth, replies are identical, no terminal record
// changes, and no other record is swept.

const (
	schedules   = 2000
	stepsEach   = 120
	settles     = 30 * time.Second // a send has its effect within this time, or never
	window      = 24 * time.Hour   // sends may be repeated within it
	actorsCount = 4
)

func TestPropertyOneEffect(t *testing.T) {
	for _, honours := range []bool{false, true} {
		t.Run(fmt.Sprintf("callee honours keys=%v", honours), func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			for seed := range uint64(schedules) {
				w := newWorld(seed, honours, seen)
				if err := w.run(); err != nil {
					t.Fatalf("schedule %d: %v\n%s", seed, err, w.log.String())
				}
			}
			want := []string{"acquired", "took_over", "in_flight", "in_doubt", "mismatch", "replay",
				"finished", "freed", "still_unknown", "cleared", "extended", "error fenced", "error terminal",
				"crash", "expired", "slow look-up", "swept", "resolved", "late effect", "doubtful refusal"}
			if honours {
				want = append(want, "may_resend", "repeated send swallowed", "error too_old")
			}
			for _, k := range want {
				if seen[k] == 0 {
					t.Errorf("no schedule came to %q: %v", k, seen)
				}
			}
		})
	}
}

type world struct {
	rng     *rand.Rand
	m       Machine
	now     time.Time
	rec     *Record
	actors  []*actor
	honours bool
	seen    map[string]int
	log     bytes.Buffer

	// the callee
	sends      []send
	effects    int       // that happened in this life of the key
	remembered time.Time // when the callee first saw the downstream key
	closed     bool      // refused for good
	lives      int

	starts map[string]int
	tokens int
	reply  *Record // the first reply after completion
	frozen *Record // the terminal record
}

type send struct {
	lands time.Time
	void  bool // has no effect
}

// actor is an owner, or wants to be one.
type actor struct {
	local bool
	token string
	phase string // "", "own", "doubt", "sent", "asked", "again"
	ends  time.Time
	reply string // what the callee answered: "ok", "no", "retry", "lost"
	again func() error
	found Finding // what a slow look-up has brought, in phase "asked"
}

func newWorld(seed uint64, honours bool, seen map[string]int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), now: start, honours: honours, seen: seen,
		m:      Machine{Epoch: 1, Opened: start, Retention: 1000 * time.Hour, MaxResult: 1 << 10},
		starts: map[string]int{}}
	for i := range actorsCount {
		w.actors = append(w.actors, &actor{local: i%2 == 0})
	}
	return w
}

func (w *world) logf(format string, args ...any) {
	fmt.Fprintf(&w.log, "%v "+format+"\n", append([]any{w.now.Sub(start)}, args...)...)
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) run() error {
	for range stepsEach {
		w.pass()
		var err error
		switch n := w.rng.IntN(100); {
		case n < 3:
			w.crash()
		case n < 6:
			err = w.resolve()
		case n < 9:
			_, err = w.apply("recover", w.m.Recover(w.rec, w.now), nil)
		case n < 12:
			err = w.sweep()
		default:
			err = w.actor(w.actors[w.rng.IntN(len(w.actors))])
		}
		if err == nil {
			err = w.check()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pass lets some time go by, and what was sent arrive.
func (w *world) pass() {
	d := time.Duration(w.rng.IntN(5)) * time.Second
	switch n := w.rng.IntN(100); {
	case n < 10:
		d = time.Duration(w.rng.IntN(60)) * time.Second
	case n < 12:
		d = time.Duration(w.rng.IntN(30)) * time.Hour
	case n < 13:
		d = time.Duration(w.rng.IntN(2000)) * time.Hour
	}
	w.now = w.now.Add(d)
	left := w.sends[:0]
	for _, s := range w.sends {
		if s.lands.After(w.now) {
			left = append(left, s)
			continue
		}
		w.seen["late effect"] += w.land(s)
	}
	w.sends = left
}

// land is the callee getting a send; it answers how many effects that had.
func (w *world) land(s send) int {
	if s.void || w.closed {
		return 0
	}
	// the callee's memory is longer than the window by what a send may take
	if w.honours && w.effects > 0 && s.lands.Sub(w.remembered) < window+settles {
		w.seen["repeated send swallowed"]++
		return 0
	}
	w.effects++
	w.remembered = s.lands
	w.logf("  effect %d", w.effects)
	return 1
}

func (w *world) crash() {
	w.m.Epoch++
	w.m.Opened = w.now
	w.seen["crash"]++
	w.logf("crash")
	for _, a := range w.actors {
		if a.local {
			*a = actor{local: true}
		}
	}
}

// result is what the callee tells of the effect.
func (w *world) result() Result {
	return Result{Type: "t", Data: fmt.Appendf(nil, "effect of life %d", w.lives)}
}

func (w *world) resolve() error {
	if w.rec == nil || len(w.sends) > 0 || w.m.Effective(*w.rec, w.now).State != Unknown {
		return nil
	}
	v := Resolution{ID: theID, Version: w.rec.Version, Actor: "ann", Reason: "asked", Verdict: VerdictDone}
	switch {
	case w.effects > 0:
		v.Result = w.result()
	case w.chance(50):
		v.Verdict = VerdictFree
	default:
		v.Verdict = VerdictRefused
	}
	s, err := w.m.Resolve(w.rec, w.now, v)
	w.seen["resolved"]++
	if err != nil {
		return fmt.Errorf("resolve: %w", err)
	}
	_, err = w.apply("resolve "+v.Verdict.String(), s, nil)
	return err
}

func (w *world) sweep() error {
	s := w.m.Sweep(w.rec, w.now)
	if s.Write == Keep {
		return nil
	}
	if !w.rec.State.Terminal() || w.now.Sub(w.frozen.UpdatedAt) < w.m.Retention {
		return errors.New("a claim was swept that is open or not expired")
	}
	w.seen["swept"]++
	w.newLife()
	_, err := w.apply("sweep", s, nil)
	return err
}

func (w *world) newLife() {
	w.seen["expired"]++
	w.lives++
	w.effects, w.reply, w.frozen, w.closed = 0, nil, nil, false
}

// apply writes a step, and checks what it writes.
func (w *world) apply(what string, s Step, err error) (Decision, error) {
	if err != nil {
		w.logf("%s: %v", what, err)
		for e, name := range sentinels {
			if errors.Is(err, e) {
				w.seen["error "+name]++
				return Decision{}, nil
			}
		}
		return Decision{}, err
	}
	w.seen[s.Decision.Kind.String()]++
	if s.Write != Keep && w.frozen != nil {
		return Decision{}, fmt.Errorf("%s changes a terminal record", what)
	}
	switch s.Write {
	case Put:
		w.rec = &s.Record
		if faults := s.Record.faults(); len(faults) > 0 {
			return Decision{}, fmt.Errorf("%s: %v", what, faults)
		}
	case Remove:
		w.rec = nil
	}
	state := Absent
	if w.rec != nil {
		state = w.rec.State
	}
	w.logf("%s -> %v %v", what, s.Decision.Kind, state)
	return s.Decision, nil
}

func (w *world) actor(a *actor) error {
	switch a.phase {
	case "":
		return w.begin(a)
	case "own":
		return w.own(a)
	case "doubt":
		return w.inDoubt(a)
	case "asked":
		return w.lookedUp(a)
	case "again":
		return a.again()
	default:
		return w.report(a)
	}
}

func (w *world) begin(a *actor) error {
	if a.token == "" || w.chance(80) { // else: again after a lost answer
		w.tokens++
		a.token = fmt.Sprintf("token-%010d", w.tokens)
	}
	b := Request{ID: theID, Token: a.token, Fingerprint: [32]byte{1}, Owner: LocalOwner(),
		TakeOver: w.chance(60), LocalToo: w.chance(50)}
	if !a.local {
		b.Owner = RemoteOwner(time.Duration(1+w.rng.IntN(20)) * time.Second)
	}
	other := w.chance(5)
	if other {
		b.Fingerprint[0] = 2
	}
	expired := w.frozen != nil && !w.now.Before(w.frozen.ExpiresAt)
	if other && (expired || w.rec == nil) {
		return nil // it would be a new request
	}
	if expired {
		w.newLife()
	}
	s, err := w.m.Begin(w.rec, w.now, b)
	d, err := w.apply("begin "+a.token, s, err)
	if err != nil {
		return err
	}
	a.ends = d.Record.Owner.Deadline
	switch {
	case d.Kind != Acquired && d.Kind != TookOver && d.Record.TokenSum != [32]byte{}:
		return errors.New("another's token is shown")
	case other && (d.Kind != Mismatch || d.Record.Result.Data != nil):
		return fmt.Errorf("another request is answered %v", d.Kind)
	case d.Kind == Acquired && w.starts[a.token] == 0:
		a.phase = "own"
	case d.Kind == TookOver && w.starts[a.token] == 0:
		a.phase = "doubt"
	case d.Kind == Replay:
		return w.replied(d.Record)
	}
	return nil
}

func (w *world) replied(r Record) error {
	if w.reply == nil {
		w.reply = &r
	}
	if r.State != w.reply.State || !bytes.Equal(r.Result.Data, w.reply.Result.Data) {
		return errors.New("two replies differ")
	}
	return nil
}

func (w *world) own(a *actor) error {
	switch n := w.rng.IntN(100); {
	case n < 10:
		return w.end(a, "release", func() (Step, error) {
			return w.m.Release(w.rec, w.now, a.token)
		})
	case n < 20 && !a.local:
		*a = actor{} // falls silent
		return nil
	case n < 40 && !a.local:
		s, err := w.m.Heartbeat(w.rec, w.now, a.token, 10*time.Second)
		d, err := w.apply("beat "+a.token, s, err)
		a.ends = d.Record.Owner.Deadline
		return err
	default:
		return w.send(a)
	}
}

// send starts the effect: a remote owner only within its lease.
func (w *world) send(a *actor) error {
	if !a.local && !w.now.Before(a.ends) {
		return nil
	}
	if w.starts[a.token]++; w.starts[a.token] > 1 {
		return fmt.Errorf("%s starts a second effect", a.token)
	}
	a.phase = "sent"
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.land(send{lands: w.now})
		a.reply = "ok"
		if w.closed {
			a.reply = "no"
		}
	case n < 50:
		a.reply = "no"
		w.closed = w.closed || w.effects == 0 && w.chance(50)
		if w.honours && w.effects > 0 {
			a.reply = "ok" // the callee answers as it did first
		}
	case n < 60:
		a.reply = "retry"
		if w.honours && w.effects > 0 {
			a.reply = "ok"
		}
	default:
		a.reply = "lost"
		d := time.Duration(w.rng.Int64N(int64(settles)))
		w.sends = append(w.sends, send{lands: w.now.Add(d), void: w.chance(40)})
	}
	w.logf("%s sends: %s", a.token, a.reply)
	return nil
}

// report tells the book what came of a send.
func (w *world) report(a *actor) error {
	if !a.local && w.chance(10) || w.chance(2) && a.reply == "lost" {
		*a = actor{local: a.local} // falls silent
		return nil
	}
	switch a.reply {
	case "ok":
		return w.end(a, "done", func() (Step, error) {
			return w.m.Done(w.rec, w.now, a.token, w.result())
		})
	case "no":
		if w.rec != nil && w.rec.Doubt {
			w.seen["doubtful refusal"]++
		}
		return w.end(a, "refused", func() (Step, error) {
			return w.m.Refused(w.rec, w.now, a.token, Result{Type: "t", Data: []byte("no")})
		})
	case "retry":
		return w.end(a, "release", func() (Step, error) {
			return w.m.Release(w.rec, w.now, a.token)
		})
	}
	if w.chance(30) {
		return w.lookUp(a)
	}
	return w.end(a, "unknown", func() (Step, error) {
		return w.m.Unknown(w.rec, w.now, a.token, "no answer")
	})
}

// end reports an outcome; now and then the answer is lost and it comes again.
func (w *world) end(a *actor, what string, event func() (Step, error)) error {
	s, err := event()
	_, err = w.apply(what+" "+a.token, s, err)
	a.phase = "again"
	a.again = func() error { return w.end(a, what, event) }
	if w.chance(80) {
		a.phase = ""
	}
	return err
}

func (w *world) inDoubt(a *actor) error {
	switch n := w.rng.IntN(100); {
	case n < 10 && !a.local:
		*a = actor{}
		return nil
	case n < 20:
		return w.end(a, "unknown", func() (Step, error) {
			return w.m.Unknown(w.rec, w.now, a.token, "gives up")
		})
	case n < 30:
		return w.end(a, "release", func() (Step, error) {
			return w.m.Release(w.rec, w.now, a.token)
		})
	case n < 60 && w.honours:
		return w.repeat(a)
	default:
		return w.lookUp(a)
	}
}

func (w *world) repeat(a *actor) error {
	if !a.local && !w.now.Before(a.ends) {
		return nil
	}
	s, err := w.m.Repeat(w.rec, w.now, a.token, window)
	d, err := w.apply("repeat "+a.token, s, err)
	if err != nil || d.Kind != MayResend {
		return err
	}
	return w.send(a)
}

// lookUp asks the callee, which tells the truth as of now; that may come late.
func (w *world) lookUp(a *actor) error {
	f := Finding{Answer: FoundNothing, SettlesAfter: settles}
	switch {
	case w.effects > 0:
		f = Finding{Answer: FoundDone, Result: w.result()}
	case w.closed:
		f = Finding{Answer: FoundRefused, Result: Result{Type: "t", Data: []byte("no")}}
	case w.chance(20):
		f = Finding{Answer: NoAnswer}
	}
	f.AskedAt = w.now
	a.phase, a.found = "asked", f
	if w.chance(40) {
		w.seen["slow look-up"]++
		return nil
	}
	return w.lookedUp(a)
}

func (w *world) lookedUp(a *actor) error {
	f := a.found
	s, err := w.m.LookedUp(w.rec, w.now, a.token, f)
	d, err := w.apply(fmt.Sprintf("look-up %d %s", f.Answer, a.token), s, err)
	a.phase = ""
	if d.Kind == Cleared {
		if len(w.sends) > 0 {
			return errors.New("the doubt is cleared while a send is under way")
		}
		a.phase = "own"
	}
	return err
}

// check holds after every step.
func (w *world) check() error {
	if w.effects > 1 {
		return fmt.Errorf("%d effects happened", w.effects)
	}
	if w.rec == nil || !w.rec.State.Terminal() {
		if w.frozen != nil {
			return errors.New("a terminal record is gone")
		}
		return nil
	}
	if w.frozen == nil {
		w.frozen = w.rec
		done := w.rec.State == Done
		if done != (w.effects == 1) {
			return fmt.Errorf("the record says %v and %d effects happened", w.rec.State, w.effects)
		}
		if done && !bytes.Equal(w.rec.Result.Data, w.result().Data) {
			return errors.New("the result is not the true one")
		}
	}
	if w.rec.State == Refused && w.effects > 0 {
		return errors.New("a refused effect happened")
	}
	return nil
}
