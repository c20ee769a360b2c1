package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/faultkv"
	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/kv/wire"
	"onced/saga/machine"
)

// story is one life of an order, told over a store that breaks at a point.
type story struct {
	name   string
	plan   map[string][]string
	early  bool // the signal of the charge comes before its reply
	twice  bool // every signal comes twice
	reject bool // the signal says that the charge was refused
	late   bool // the charge happens when the run has given it up
	ledger string
	status machine.Status
}

const allDone = "charge=1 loyalty=1 mail=1 order=1"

var stories = []story{
	{name: "good", ledger: allDone, status: machine.Completed},
	{name: "early signal", early: true, twice: true, ledger: allDone, status: machine.Completed},
	{name: "order refused", plan: map[string][]string{"order": {"always", "refused"}}, twice: true,
		status: machine.Compensated},
	{name: "charge refused by signal", reject: true, plan: map[string][]string{"charge": {"always",
		"accepted"}},
		status: machine.Compensated},
	{name: "no replies", plan: map[string][]string{"loyalty": {"lost"}, "charge": {"lost"},
		"order": {"dropped"},
		"mail":  {"lost"}}, ledger: allDone, status: machine.Completed},
	{name: "undos without replies", plan: map[string][]string{"order": {"always", "refused"},
		"undo charge": {"lost", "retry"}, "undo loyalty": {"dropped"}}, status: machine.Compensated},
	{name: "late success", late: true, plan: map[string][]string{"charge": {"dropped", "dropped", "dropped"}},
		status: machine.Compensated},
}

// theStory is a saga with an action, undos, a signal, look-ups and a pivot.
func theStory(o *outside) []*Definition {
	quick := []Option{Backoff(time.Second, 4*time.Second), Attempts(3), SettlesAfter(30 * time.Second)}
	with := func(more ...Option) []Option { return slices.Concat(quick, more) }
	return []*Definition{New("checkout").
		Step("loyalty", o.act("loyalty"), o.undo("loyalty"), with(Check(o.check("loyalty")))...).
		Step("charge", o.act("charge"), o.undo("charge"), with(Check(o.check("charge")),
			AwaitFor(time.Hour))...).
		Step("order", o.act("order"), nil, with(Check(o.check("order")), Pivot())...).
		Step("mail", o.act("mail"), nil, with(Repeatable(24*time.Hour), NothingToUndo())...)}
}

// teller tells stories.
type teller struct {
	*till
	story
	fault *faultkv.Store
}

func newTeller(t *testing.T, st story) *teller {
	o := newOutside()
	// Where the saga does not say that keys are honoured, a second send is a second effect.
	o.forgets = map[string]bool{"loyalty": true, "charge": true, "order": true}
	for call, plan := range st.plan {
		o.plan[call] = slices.Clone(plan)
	}
	s := &till{T: t, outside: o, cancel: func() {}, disk: memkv.NewDisk(), defs: theStory(o),
		feed: feed.New(feed.Config{}),
		seen: &observed{statuses: map[string]int{}, calls: map[string]int{}}}
	w := &teller{till: s, story: st}
	o.fault = func(call string, effect func() error) error {
		err := w.fault.Call(call, effect)
		if errors.Is(err, faultkv.ErrInjected) {
			return NotDone(err)
		}
		return err
	}
	if st.early {
		o.after = func(call string) {
			if call == "charge" {
				_ = w.engine.Signal(context.Background(), w.word())
			}
		}
	}
	return w
}

func (w *teller) word() Signal {
	return Signal{Definition: "checkout", Key: theOrder.ID, Step: "charge", Refused: w.reject}
}

// bootWith starts a process whose store breaks as planned.
func (w *teller) bootWith(plans ...faultkv.Plan) {
	w.Helper()
	w.wrap = func(s kv.Store) kv.Store {
		w.fault = faultkv.New(s, plans...)
		return w.fault
	}
	w.boot()
	settle() // so that the points are the same each time
}

// revive starts the next process when the present one is dead, or writes no more.
func (w *teller) revive() {
	w.Helper()
	probe := errors.New("probe")
	err := w.fault.Update(w.Context(), func(kv.Writer) error { return probe })
	if errors.Is(err, probe) {
		return
	}
	w.cancel()
	if w.fault.Crashed() {
		<-w.fault.Down()
	}
	_ = w.store.Close()
	for range 2 {
		<-w.ended
	}
	w.bootWith()
}

// tell tells the story to its end, and returns the points it came to.
func (w *teller) tell(plans ...faultkv.Plan) []faultkv.Point {
	w.Helper()
	defer func() { w.cancel() }()
	w.bootWith(plans...)
	points := w.fault.Points
	ended := false
	for hour := 0; hour < 40 && !ended; hour++ {
		_, _ = w.engine.Start(w.Context(), w.def(), theOrder.ID, theOrder) // joins when it is there
		settle()
		w.revive()
		w.say()
		settle()
		w.revive()
		pass(20 * time.Second)
		w.revive()
		v, err := w.engine.Find(w.Context(), "checkout", theOrder.ID)
		ended = err == nil && v.State.Status.Terminal()
	}
	if w.late {
		w.happenLate()
	}
	w.judge()
	return points()
}

// say is what the gateway tells about a charge: done only when it was.
func (w *teller) say() {
	w.mu.Lock()
	decided := len(w.stands["charge"]) > 0 || w.reject && len(w.keys["charge"]) > 0
	w.mu.Unlock()
	if !decided {
		return
	}
	for range 1 + wire.Flags(w.twice) {
		_ = w.engine.Signal(w.Context(), w.word())
	}
}

// happenLate lets the charge happen when all is over, and the gateway tell of it.
func (w *teller) happenLate() {
	w.Helper()
	w.wantLedger("")
	w.mu.Lock()
	w.stands["charge"] = []string{w.keys["charge"][0]}
	w.mu.Unlock()
	for range 30 {
		_ = w.engine.Signal(w.Context(), w.word())
		settle()
		w.revive()
		pass(time.Minute)
		w.revive()
	}
}

// judge compares what stands, and that nothing was done under a second key.
func (w *teller) judge() {
	w.Helper()
	w.wantLedger(w.story.ledger)
	v, err := w.engine.Find(w.Context(), "checkout", theOrder.ID)
	if err != nil || v.State.Status != w.status {
		w.Fatalf("the run is %+v, %v; want %s; calls: %s", v, err, w.status, w.made())
	}
	w.mu.Lock()
	for call, keys := range w.keys {
		if n := len(slices.Compact(slices.Sorted(slices.Values(keys)))); n > 1 {
			w.Errorf("%s was sent under %d keys", call, n)
		}
	}
	for key, n := range w.effects {
		if n > 1 {
			w.Errorf("an effect happened %d times under the key %s", n, key)
		}
	}
	w.mu.Unlock()
	for _, call := range []string{"undo order", "undo mail"} {
		if len(w.keys[call]) > 0 {
			w.Errorf("there was an %s", call)
		}
	}
	w.cancel()
	for range 2 {
		<-w.ended
	}
	_ = w.store.Close()
	w.till.check()
}

// TestSG04_SG05_CrashEnumeration crashes and fails before, in and after every commit
// and every outside call of the stories, restarts, and asks for the same end.
func TestSG04_SG05_CrashEnumeration(t *testing.T) {
	t.Parallel()
	const wantPoints, wantPlans = 176, 1140
	points, plans := 0, 0
	for _, st := range stories {
		var reached []faultkv.Point
		synctest.Test(t, func(t *testing.T) { reached = newTeller(t, st).tell() })
		all := faultkv.Plans(reached)
		points, plans = points+len(reached), plans+len(all)
		t.Logf("%s: %d points, %d plans: %v", st.name, len(reached), len(all), reached)
		for _, plan := range all {
			t.Run(fmt.Sprintf("%s/%s", st.name, plan), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newTeller(t, st).tell(plan) })
			})
		}
	}
	t.Logf("%d points, %d plans", points, plans)
	if points < wantPoints || plans < wantPlans {
		t.Errorf("only %d points and %d plans, want %d and %d", points, plans, wantPoints, wantPlans)
	}
}
