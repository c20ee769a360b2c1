package saga

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// A person closes a run while a call is under way; the call must not begin again
// when it ends.
func TestARunClosedDuringItsCallIsNotSentAgain(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.before = func(call string) {
			if call == "charge" {
				take(5 * time.Second)
			}
		}
		id := s.started()
		settle()
		s.mustAct(machine.Close, id, "")
		pass(time.Minute)
		s.wantCalls("charge")
		s.wantStatus(id, machine.Closed)
	})
}

// What a person did without may have happened all the same: the run is not said to be
// undone, and its order is not charged again.
func TestASkippedStepThatMayHaveHappenedStands(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		s.plan["order"] = []string{"refused"}
		f := s.failed(ErrNeedsPerson)
		s.mustAct(machine.Skip, f.Run, "charge")
		_, err := s.engine.Wait(s.Context(), f.Run)
		if !errors.Is(err, ErrRunClosed) || !errors.As(err, &f) || len(f.Stands) != 1 ||
			f.Stands[0].Step != "charge" {
			t.Fatalf("the run ended with %v", err)
		}
		if st, err := s.engine.Start(s.Context(), s.def(), theOrder.ID, theOrder); err != nil || !st.Joined {
			t.Errorf("a new start: %+v, %v", st, err)
		}
		s.wantLedger("charge=1")
	})
}

// A request in doubt may still be under way: an undo sent at once would find nothing, and
// the charge would stand in a run that is undone.
func TestAnUndoDoesNotOvertakeItsAction(t *testing.T) {
	inTill(t, twoSteps(UndoWhenAbsent(), SettlesAfter(time.Minute)), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"dropped"}
		id := s.started()
		pass(50 * time.Second)
		s.wantCalls("charge")
		s.mu.Lock()
		s.stands["charge"] = slices.Clone(s.keys["charge"]) // here it arrives
		s.mu.Unlock()
		pass(11 * time.Second)
		s.wantStatus(id, machine.Compensated)
		s.wantCalls("charge, undo charge")
		s.wantLedger("")
	})
}

// Nor does it overtake a function that goes on past its time limit.
func TestAnUndoDoesNotOvertakeAFunctionThatGoesOn(t *testing.T) {
	defs := func(o *outside) []*Definition {
		slow := func(ctx context.Context, in order) (receipt, error) {
			take(10 * time.Minute)
			return o.act("charge")(ctx, in)
		}
		return []*Definition{New("pay").Step("charge", slow, o.undo("charge"), Timeout(time.Second),
			UndoWhenAbsent(), SettlesAfter(time.Minute))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		id := s.started()
		pass(9 * time.Minute)
		s.wantStatus(id, machine.Compensating)
		pass(3 * time.Minute)
		s.wantStatus(id, machine.Compensated)
		s.wantCalls("charge, undo charge")
		s.wantLedger("")
	})
}

// A duplicate of the word that a charge was made, while it is being found out whether
// its undo came first, is no proof that it came later.
func TestAWordThatComesTwiceIsRefundedOnce(t *testing.T) {
	inTill(t, twoSteps(AwaitFor(time.Minute), UndoWhenAbsent()), func(t *testing.T, s *till) {
		s.before = func(call string) {
			if call == "undo charge" {
				err := s.engine.Signal(s.Context(), Signal{Definition: "pay", Key: theOrder.ID,
					Step: "charge"})
				if err != nil {
					t.Error(err)
				}
			}
		}
		id := s.started()
		pass(DefaultSettlesAfter + time.Minute)
		if v := s.wantStatus(id, machine.Held); v.State.Hold != machine.HoldEvidence {
			t.Fatalf("held for %s", v.State.Hold)
		}
		s.signal(id, "charge", false)
		s.signal(id, "charge", false)
		settle()
		s.wantCalls("charge, undo charge")
		s.mustAct(machine.MarkNotDone, id, "charge")
		s.wantStatus(id, machine.Compensated)
	})
}
func TestALateDefinitionReleasesItsRuns(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"retry=1m"}
		id := s.started()
		settle()
		s.stop()
		late := s.defs
		s.defs = nil
		s.boot()
		pass(2 * time.Minute)
		s.wantStatus(id, machine.Held)
		if err := s.engine.Register(late...); err != nil {
			t.Fatal(err)
		}
		settle()
		s.wantStatus(id, machine.Completed)
	})
}

// doubtfulStore answers ErrCommitUnknown to the chosen commit, which happened.
type doubtfulStore struct {
	kv.Store
	doubt func() bool
}

func (d doubtfulStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	quiet := false
	hooked := func(w kv.Writer) error {
		quiet = d.doubt()
		if quiet {
			return fn(silentWriter{w})
		}
		return fn(w)
	}
	err := d.Store.Update(ctx, hooked)
	if err == nil && quiet {
		return kv.ErrCommitUnknown
	}
	return err
}

type silentWriter struct{ kv.Writer }

func (silentWriter) OnCommit(func()) {}

func TestWaitSeesAnEndWhoseCommitWasInDoubt(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.stop()
		var doubt atomic.Bool
		s.wrap = func(st kv.Store) kv.Store {
			return doubtfulStore{st, doubt.Load}
		}
		s.boot()
		settle()
		s.before = func(call string) {
			if call == "order" {
				take(time.Second)
				doubt.Store(true)
			}
		}
		go func() { pass(1030 * time.Millisecond); doubt.Store(false) }()
		ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
		defer cancel()
		v, err := s.engine.Run(ctx, s.def(), theOrder.ID, theOrder)
		if err != nil || v.State.Status != machine.Completed {
			t.Fatal(v, err)
		}
	})
}

func TestARerunWhoseCommitWasInDoubtGoesOn(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.stop()
		var doubt atomic.Bool
		s.wrap = func(st kv.Store) kv.Store {
			return doubtfulStore{st, doubt.Load}
		}
		s.boot()
		settle()
		s.plan["charge"] = []string{"refused"}
		f := s.failed(ErrUndone)
		doubt.Store(true)
		_, err := s.engine.Rerun(s.Context(), f.Run, Act{Actor: "ann", Reason: "again"})
		doubt.Store(false)
		if err != nil && !errors.Is(err, kv.ErrCommitUnknown) {
			t.Fatal(err)
		}
		settle()
		v, err := s.engine.Find(s.Context(), "pay", theOrder.ID)
		if err != nil || v.Run == f.Run || v.State.Status != machine.Completed {
			t.Fatal(v.State.Status, err)
		}
	})
}

// hookedStore runs a function in the transaction of every Update, after its closure.
type hookedStore struct {
	kv.Store
	after func()
}

func (h hookedStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	return h.Store.Update(ctx, func(w kv.Writer) error {
		err := fn(w)
		h.after()
		return err
	})
}

// The definition comes, and all that are held are looked for, while the transaction
// that holds the run is not yet committed.
func TestADefinitionThatComesWhileItsRunIsBeingHeld(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"retry=1m"}
		id := s.started()
		settle()
		s.stop()
		late := s.defs
		s.defs = nil
		runs := 0
		s.wrap = func(st kv.Store) kv.Store {
			return hookedStore{st, func() {
				if runs++; runs == 2 { // the store runs every closure again
					_ = s.engine.Register(late...)
					settle()
				}
			}}
		}
		s.boot()
		pass(2 * time.Minute)
		s.wantStatus(id, machine.Completed)
		if got := s.events(); got != "run.held run.completed" {
			t.Errorf("the feed has %s", got)
		}
	})
}

// A run that is held for a reason of its own keeps it while its definition is away.
func TestAHoldOutlivesTheWantOfADefinition(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		f := s.failed(ErrNeedsPerson)
		s.stop()
		back := s.defs
		s.defs = nil
		s.boot()
		settle()
		var e *machine.Error
		if err := s.act(machine.MarkDone, f.Run, "charge"); !errors.As(err, &e) {
			t.Errorf("an act without the definition: %v", err)
		}
		if err := s.engine.Signal(s.Context(), Signal{Run: f.Run,
			Step: "charge"}); !errors.Is(err, ErrInput) {
			t.Errorf("a signal without the definition: %v", err)
		}
		err := s.store.Update(s.Context(), func(w kv.Writer) error {
			c, err := s.engine.edit(w, f.Run)
			return errors.Join(err, c.save())
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := s.wantStatus(f.Run, machine.Held); v.State.Hold != machine.HoldUnknown {
			t.Errorf("held for %s", v.State.Hold)
		}
		if err := s.engine.Register(back...); err != nil {
			t.Fatal(err)
		}
		s.mustAct(machine.MarkDone, f.Run, "charge")
		settle()
		s.wantStatus(f.Run, machine.Completed)
	})
}

// What was selected is looked at again in the transaction that acts: meanwhile a
// person has solved it.
func TestABulkActSparesWhatIsNoLongerSelected(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		s.plan["order"] = []string{"always", "retry=1h"}
		f := s.failed(ErrNeedsPerson)
		s.stop()
		var listed atomic.Bool
		s.wrap = func(st kv.Store) kv.Store {
			return hookedView{st, func() {
				if listed.Swap(false) {
					s.mustAct(machine.MarkDone, f.Run, "charge")
					settle()
				}
			}}
		}
		s.boot()
		settle()
		listed.Store(true)
		got, err := s.engine.OperateAll(s.Context(), Bulk{Statuses: []machine.Status{machine.Held}},
			Act{Verb: machine.Cancel, Actor: "ann", Reason: "all that are held"})
		if err != nil || len(got.Acted)+len(got.Refused) > 0 {
			t.Errorf("%+v, %v", got, err)
		}
		s.wantStatus(f.Run, machine.Running)
	})
}

// hookedView runs a function after every View.
type hookedView struct {
	kv.Store
	after func()
}

func (h hookedView) View(ctx context.Context, fn func(kv.Reader) error) error {
	defer h.after()
	return h.Store.View(ctx, fn)
}

// The look-up of the correction did not see the charge yet. When the gateway tells of
// it again, the correction is itself corrected.
func TestACorrectionIsCorrected(t *testing.T) {
	defs := func(o *outside) []*Definition {
		return twoSteps(AwaitFor(time.Minute), UndoWhenAbsent(), Check(o.check("charge")), Attempts(1))(o)
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"accepted"}
		s.plan["check charge"] = []string{"dropped", "accepted"} // tells nothing, and then: there is none
		id := s.started()
		pass(time.Hour)
		s.wantStatus(id, machine.Compensated)
		s.wantCalls("charge, check charge, undo charge")
		s.stands["charge"] = s.keys["charge"][:1]
		for range 3 {
			s.signal(id, "charge", false)
			settle()
			s.wantLedger("charge=1")
		}
		// The look-up sees it now, and would if it were that of before: a person has to say.
		held := s.view(s.view(id).Corrections["charge"]).Corrections["charge"]
		s.wantStatus(held, machine.Held)
		s.mustAct(machine.MarkDone, held, "charge")
		settle()
		s.wantLedger("")
		s.wantCalls("charge, check charge, undo charge, check charge, check charge, undo charge")
		if k := s.keys["undo charge"]; k[0] == k[1] {
			t.Error("the second undo has the key of the first")
		}
		first := s.view(id).Corrections["charge"]
		second := s.view(first).Corrections["charge"]
		if v := s.wantStatus(second, machine.Compensated); v.Parent != first || v.Corrections != nil {
			t.Errorf("the second correction is %+v", v)
		}
	})
}

// A run waits for a host that hangs. Cancelled, it is undone at its other host at once.
func TestACancelledRunDoesNotWaitForAHostThatHangs(t *testing.T) {
	defs := func(o *outside) []*Definition {
		return []*Definition{New("pay").Step("charge", o.act("charge"), o.undo("charge"), Host("one")).
			Step("order", o.act("order"), o.undo("order"), Host("two"), Timeout(time.Hour))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.stop()
		s.cfg.PerHost = 1
		s.boot()
		s.plan["order"] = []string{"hang"}
		if _, err := s.engine.Start(s.Context(), s.def(), "hangs", theOrder); err != nil {
			t.Fatal(err)
		}
		settle()
		var waits []string
		for _, key := range []string{"a", "b", "c"} {
			st, err := s.engine.Start(s.Context(), s.def(), key, theOrder)
			if err != nil {
				t.Fatal(err)
			}
			waits = append(waits, st.Run)
			settle()
		}
		s.wantCalls("charge, order, charge, charge, charge")
		for _, id := range waits[:2] {
			s.mustAct(machine.Cancel, id, "")
			settle()
			s.wantStatus(id, machine.Compensated)
		}
		pass(2 * time.Hour)
		s.wantStatus(waits[2], machine.Completed)
	})
}

// The outputs of a long saga are more than a row can hold: what does not fit is left
// out, and the run ends.
func TestOutputsThatDoNotFitAreLeftOut(t *testing.T) {
	const steps = 70
	defs := func(o *outside) []*Definition {
		d := New("long")
		for i := range steps {
			d.Step(fmt.Sprint("s", i), func(context.Context, *Call) ([]byte, error) {
				return []byte(`"` + strings.Repeat("x", MaxData-2) + `"`), nil
			}, nil, NothingToUndo())
		}
		return []*Definition{d}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		v := s.completed()
		kept := 0
		for i := range v.State.Steps {
			kept += len(v.State.Steps[i].Output)
		}
		if kept > MaxRunData || kept < MaxRunData-2*MaxData {
			t.Errorf("%d bytes are kept", kept)
		}
		said := slices.ContainsFunc(v.History, func(h HistoryEntry) bool {
			return strings.Contains(h.Text, "was not kept")
		})
		if !said {
			t.Error("the history does not say it")
		}
	})
}

// A signal whose data does not fit counts without it: its sender may never send less.
func TestASignalThatDoesNotFitCountsWithoutItsData(t *testing.T) {
	for name, refused := range map[string]bool{"done": false, "refused": true} {
		t.Run(name, func(t *testing.T) { aSignalThatDoesNotFit(t, refused) })
	}
}

func aSignalThatDoesNotFit(t *testing.T, refused bool) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		id := s.started()
		settle()
		err := s.store.Update(s.Context(), func(w kv.Writer) error {
			c, err := s.engine.edit(w, id)
			if err == nil {
				c.r.state.Steps[1].Output = make([]byte, MaxRunData-100)
				err = c.save()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		sig := Signal{Run: id, Step: "charge", Data: []byte(`"` + strings.Repeat("x", 200) + `"`),
			Refused: refused}
		if refused {
			sig.Reason = "no money"
		}
		var limit *kv.LimitError
		act := Act{Verb: machine.MarkDone, Step: "charge", Output: sig.Data, Reason: "r", Actor: "ann"}
		if _, err := s.engine.Operate(s.Context(), id, act); !errors.As(err, &limit) {
			t.Errorf("a person gets %v", err)
		}
		if err := s.engine.Signal(s.Context(), sig); err != nil {
			t.Fatal(err)
		}
		settle()
		want := map[bool]machine.Status{false: machine.Completed, true: machine.Compensated}[refused]
		v := s.wantStatus(id, want)
		said := slices.ContainsFunc(v.History, func(h HistoryEntry) bool {
			return h.Note == machine.NoteSignal &&
				strings.Contains(h.Text, "data of 202 bytes was not kept") &&
				strings.Contains(h.Text, sig.Reason)
		})
		kept := map[bool]string{false: "null", true: ""}[refused] // not what the reply gave
		if got := v.State.Steps[0].SignalData; !said || string(got) != kept {
			t.Errorf("kept: %d bytes; the history is %+v", len(got), v.History)
		}
	})
}

// The same signal again is no other one where the run has no room for its data twice.
func TestASignalThatFitsOnceIsTheSameAgain(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		id := s.started()
		settle()
		err := s.store.Update(s.Context(), func(w kv.Writer) error {
			c, err := s.engine.edit(w, id)
			if err == nil {
				c.r.state.Steps[1].Output = make([]byte, MaxRunData-1000)
				err = c.save()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		sig := Signal{Run: id, Step: "charge", Data: []byte(`"` + strings.Repeat("x", 700) + `"`)}
		for range 3 {
			if err := s.engine.Signal(s.Context(), sig); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		v := s.wantStatus(id, machine.Completed)
		if got := v.State.Steps[0].SignalData; len(got) != 702 || v.Contradictions != nil {
			t.Errorf("kept: %d bytes; denied by %v", len(got), v.Contradictions)
		}
	})
}

// Times that no row can hold, or that overflow, are refused with the definition.
func TestTimesAreBounded(t *testing.T) {
	t.Parallel()
	o := newOutside()
	const forEver = time.Duration(math.MaxInt64)
	for name, d := range map[string]*Definition{
		"deadline": New("x").Step("a", o.act("a"), nil).Deadline(forEver),
		"await":    New("x").Step("a", o.act("a"), nil, AwaitFor(forEver)),
		"backoff":  New("x").Step("a", o.act("a"), nil, Backoff(time.Second, forEver)),
		"settles":  New("x").Step("a", o.act("a"), nil, Check(o.check("a")), SettlesAfter(forEver)),
	} {
		if err := d.Err(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := New("x").Step("a", o.act("a"), nil, Repeatable(forEver), AwaitFor(MaxWait)).Err(); err != nil {
		t.Error(err)
	}
}

// A function ignores its context. While it has not ended, that a look-up finds nothing
// is no proof, and nothing is sent again.
func TestAFunctionThatIgnoresItsContextIsNotSentBeside(t *testing.T) {
	defs := func(o *outside) []*Definition {
		act := o.act("charge")
		return []*Definition{New("pay").Step("charge", func(ctx context.Context, in order) (receipt, error) {
			if CallOf(ctx).Try == 1 {
				take(20 * time.Minute) // it is not its time
			}
			return act(ctx, in)
		}, o.undo("charge"), Check(o.check("charge")), SettlesAfter(time.Minute), Attempts(100))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.forgets = map[string]bool{"charge": true} // a second call would be a second charge
		s.completed()
		s.wantLedger("charge=1")
		if len(s.keys["charge"]) != 1 || len(s.keys["check charge"]) < 10 {
			t.Errorf("the calls are %s", s.made())
		}
		settle()
		s.engine.mu.Lock()
		defer s.engine.mu.Unlock()
		if n := len(s.engine.astray); n > 0 {
			t.Errorf("%d functions are counted that have ended", n)
		}
	})
}

// A version with other steps than those that its calls under way are at is refused.
func TestAVersionKeepsItsSteps(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"retry=1m"}
		id := s.started()
		settle()
		o := s.outside
		other := New("pay").Step("charge", o.act("charge"), o.undo("charge")).Step("mail", o.act("mail"), nil)
		if err := s.engine.Register(New("new").Step("a", o.act("a"), nil), other); !errors.Is(err,
			ErrConfig) {
			t.Fatalf("the error is %v", err)
		}
		if n := len(s.engine.Definitions()); n != 1 {
			t.Errorf("%d definitions are known after the error", n)
		}
		if err := s.engine.Register(other.Version("2"), twoSteps()(o)[0]); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		s.wantStatus(id, machine.Completed)
		s.wantLedger("charge=1 order=1")
	})
}

// A payment that is called back after its order was completed changes nothing, but is
// told in the feed, once.
func TestARefusalAfterTheEndIsTold(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		id := s.started()
		settle()
		s.signal(id, "charge", false)
		settle()
		before := s.wantStatus(id, machine.Completed)
		for range 3 {
			pass(time.Minute)
			s.signal(id, "charge", true)
		}
		if after := s.view(id); after.Revision != before.Revision {
			t.Error("a run has changed after its end")
		}
		if got := s.events(); got != "run.completed run.contradicted" {
			t.Errorf("the feed has %s", got)
		}
	})
}

// Without any setting, a host that hangs does not take all the places.
func TestAHostThatHangsLeavesRoomForOthers(t *testing.T) {
	defs := func(o *outside) []*Definition {
		return []*Definition{New("bad").Step("bad", o.act("bad"), nil, Host("one"), Timeout(time.Hour)),
			New("good").Step("good", o.act("good"), nil, Host("two"))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.stop()
		s.cfg.Calls = 8
		s.boot()
		s.plan["bad"] = []string{"always", "hang"}
		for i := range 20 {
			if _, err := s.engine.Start(s.Context(), s.defs[0], fmt.Sprint(i), theOrder); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		began := time.Now()
		if _, err := s.engine.Run(s.Context(), s.defs[1], "good", theOrder); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 0 || len(s.keys["bad"]) != 6 {
			t.Errorf("it took %v beside %d calls that hang", took, len(s.keys["bad"]))
		}
	})
}

// Runs of a store that was written before they had a table of their own go on, are listed
// once, and move.
func TestRunsThatGoOnAreFoundAmongThoseThatEnded(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.stop()
		s.prepare()
		var ids []string
		for i := range 5 {
			st, err := s.engine.Start(s.Context(), s.def(), fmt.Sprint(i), theOrder)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, st.Run)
		}
		err := s.store.Update(s.Context(), func(w kv.Writer) error {
			for _, id := range ids[1:] {
				row, err := w.Get(liveTable.ID(), runKey(id))
				if err == nil {
					err = errors.Join(w.Put(runTable.ID(), runKey(id), row), liveTable.Delete(w, runKey(id)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if page, _, err := s.engine.List(s.Context(), Query{}); err != nil || len(page) != len(ids) {
			t.Errorf("%d runs are listed, %v", len(page), err)
		}
		s.plan["voucher"] = []string{"retry=1m", "retry=1m", "retry=1m", "retry=1m", "retry=1m"}
		s.boot()
		pass(time.Second) // a change that is no end
		for _, id := range ids {
			live, ended := s.row(liveTable, id), s.row(runTable, id)
			if !live || ended {
				t.Errorf("a row among those that go on: %v, among those that ended: %v", live, ended)
			}
		}
		pass(time.Hour)
		if n := len(s.stands["order"]); n != len(ids) {
			t.Errorf("%d orders", n)
		}
		if page, _, err := s.engine.List(s.Context(), Query{}); err != nil || len(page) != len(ids) {
			t.Errorf("%d runs are listed at the end, %v", len(page), err)
		}
	})
}

// row reports whether a table has a row of the run.
func (s *till) row(table kv.Table[runRow], id string) (there bool) {
	s.Helper()
	err := s.store.View(s.Context(), func(rd kv.Reader) error {
		v, err := rd.Get(table.ID(), runKey(id))
		there = v != nil
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return there
}

// Of many open runs the rows of some cannot be read. The others go on, acts on many
// included, and nothing is tried without end.
func TestRunsThatCannotBeReadHarmNoOther(t *testing.T) {
	const runs = 500
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.stop()
		s.prepare() // nobody serves: all are left for the next process
		var ids []string
		for i := range runs {
			st, err := s.engine.Start(s.Context(), s.def(), fmt.Sprint(i), theOrder)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, st.Run)
		}
		rows := map[string][]byte{}
		err := s.store.Update(s.Context(), func(w kv.Writer) error {
			for _, id := range []string{ids[0], ids[runs/2], ids[runs-1]} {
				row, err := w.Get(liveTable.ID(), runKey(id))
				if err == nil {
					rows[id] = row
					err = w.Put(liveTable.ID(), runKey(id), row[:len(row)/2])
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.store.Close()
		s.plan["voucher"] = []string{"always", "retry=1m"}
		s.boot()
		settle()
		s.mu.Lock()
		delete(s.plan, "voucher")
		s.mu.Unlock()
		got, err := s.engine.OperateAll(s.Context(), Bulk{},
			Act{Verb: machine.Retry, Actor: "ann", Reason: "up"})
		if err != nil || len(got.Acted) != runs-len(rows) {
			t.Errorf("%d acted on, %d refused, %v", len(got.Acted), len(got.Refused), err)
		}
		pass(time.Hour)
		if n := len(s.stands["order"]); n != runs-len(rows) || len(s.calls) != 5*n {
			t.Errorf("%d orders, %d calls", n, len(s.calls))
		}
		err = s.store.Update(s.Context(), func(w kv.Writer) error { // mended
			for id, row := range rows {
				if err := w.Put(liveTable.ID(), runKey(id), row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.stop()
		s.boot()
		pass(time.Minute)
		if n := len(s.stands["order"]); n != runs {
			t.Errorf("%d orders", n)
		}
	})
}

// An undo that must not come twice is stuck when it may have happened.
func TestAnUndoThatMustNotComeTwice(t *testing.T) {
	inTill(t, twoSteps(UndoKeyValidFor(0)), func(t *testing.T, s *till) {
		s.plan["order"] = []string{"refused"}
		s.plan["undo charge"] = []string{"retry", "lost"}
		f := s.failed(ErrNeedsPerson)
		s.wantCalls("charge, order, undo charge, undo charge") // the first is known not to have happened
		var e *machine.Error
		if err := s.act(machine.Retry, f.Run, ""); !errors.As(err, &e) {
			t.Errorf("retry: %v", err)
		}
		s.mustAct(machine.MarkDone, f.Run, "charge")
		s.wantStatus(f.Run, machine.Compensated)
		s.wantLedger("")
	})
}

// Nor is it sent again when the process ends during the call.
func TestAnUndoThatMustNotComeTwiceAfterAKill(t *testing.T) {
	inTill(t, twoSteps(UndoKeyValidFor(0)), func(t *testing.T, s *till) {
		s.plan["order"] = []string{"refused"}
		block := make(chan struct{})
		s.before = func(call string) {
			if call == "undo charge" {
				<-block
			}
		}
		id := s.started()
		settle()
		s.kill()
		s.mu.Lock()
		s.before = nil
		s.mu.Unlock()
		close(block)
		for range 2 {
			<-s.ended
		}
		s.boot()
		settle()
		s.wantStatus(id, machine.Stuck)
		s.wantCalls("charge, order, undo charge")
	})
}

// Untyped functions have an untyped look-up.
func TestUntypedStepsAreLookedUp(t *testing.T) {
	var asked []string
	defs := func(o *outside) []*Definition {
		return []*Definition{New("raw").Step("charge", func(ctx context.Context, c *Call) ([]byte, error) {
			return nil, o.perform(ctx, "charge", func() {})
		}, func(context.Context, *Call) error { return nil },
			CheckCall(func(_ context.Context, c *Call) ([]byte, bool, error) {
				asked = append(asked, c.DownstreamKey, c.ActionKey, c.Kind.String())
				return []byte(`"found"`), true, nil
			}))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		v := s.completed()
		key := s.keys["charge"][0]
		if string(v.State.Steps[0].Output) != `"found"` || !slices.Equal(asked, []string{key, key, "check"}) {
			t.Errorf("the output is %s, asked was %v", v.State.Steps[0].Output, asked)
		}
	})
}

// The commits of a timer, and of a webhook's own transaction, are in doubt although
// they happened: no hook is called, and nobody waits for an answer.
func TestACommitOfOthersInDoubtIsNoticed(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		s.stop()
		var doubt atomic.Bool
		s.wrap = func(st kv.Store) kv.Store {
			return doubtfulStore{st, doubt.Load}
		}
		s.boot()
		settle()
		s.plan["charge"] = []string{"retry=1m"}
		id := s.started()
		settle()
		doubt.Store(true)
		pass(66 * time.Second) // the timer is due
		doubt.Store(false)
		pass(time.Minute)
		if v := s.view(id); v.State.Steps[0].Status != machine.Waiting {
			t.Fatalf("the step is %s", v.State.Steps[0].Status)
		}
		doubt.Store(true)
		err := s.engine.store.Update(s.Context(), func(w kv.Writer) error {
			return s.engine.SignalTx(w, Signal{Run: id, Step: "charge"})
		})
		doubt.Store(false)
		if !errors.Is(err, kv.ErrCommitUnknown) {
			t.Fatal(err)
		}
		pass(time.Minute)
		s.wantStatus(id, machine.Completed)
		s.engine.mu.Lock()
		defer s.engine.mu.Unlock()
		if x := &s.engine.commits; x.ticking || len(x.fresh)+len(x.old) > 0 {
			t.Errorf("it looks for ever: %+v", x)
		}
	})
}
