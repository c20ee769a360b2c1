package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga/machine"
)

// The scenarios are what users of other engines have reported.

func TestCancelTakesEffectDuringAPause(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["voucher"] = []string{"retry=50m"}
		id := s.started()
		settle()
		began := time.Now()
		s.mustAct(machine.Cancel, id, "")
		if _, err := s.engine.Wait(s.Context(), id); !errors.Is(err, ErrUndone) {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		s.wantCalls("loyalty, voucher, undo loyalty")
	})
}

func TestRetryNowTakesEffectDuringAPauseForOneAndAll(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["loyalty"] = []string{"retry=50m", "retry=50m", "retry=50m"}
		var ids []string
		for i := range 3 {
			st, err := s.engine.Start(s.Context(), s.def(), fmt.Sprint("o-", i), theOrder)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, st.Run)
		}
		settle()
		s.mustAct(machine.Retry, ids[0], "")
		settle()
		s.wantStatus(ids[0], machine.Completed)
		act := Act{Verb: machine.Retry, Actor: "ann", Reason: "the service is back"}
		dry, err := s.engine.OperateAll(s.Context(), Bulk{Definition: "checkout", DryRun: true}, act)
		if err != nil || len(dry.Acted) != 2 || slices.Contains(dry.Acted, ids[0]) {
			t.Errorf("a dry run: %+v, %v", dry, err)
		}
		settle()
		s.wantStatus(ids[1], machine.Running)
		if none, err := s.engine.OperateAll(s.Context(), Bulk{Definition: "other"}, act); err != nil ||
			len(none.Acted)+len(none.Refused) > 0 {
			t.Errorf("of another definition: %+v, %v", none, err)
		}
		all, err := s.engine.OperateAll(s.Context(), Bulk{Definition: "checkout", Limit: 1}, act)
		if err != nil || len(all.Acted) != 1 || !all.More {
			t.Errorf("one: %+v, %v", all, err)
		}
		settle()
		all, err = s.engine.OperateAll(s.Context(), Bulk{Statuses: []machine.Status{machine.Running}}, act)
		if err != nil || len(all.Acted) != 1 || all.More {
			t.Errorf("all: %+v, %v", all, err)
		}
		settle()
		for _, id := range ids {
			s.wantStatus(id, machine.Completed)
		}
		if n := strings.Count(s.events(), "operator.run.retry"); n != 3 {
			t.Errorf("%d acts in the feed", n)
		}
	})
}

func TestACallThatHangsIsCountedAtItsTimeOut(t *testing.T) {
	inTill(t, twoSteps(Timeout(3*time.Second), Repeatable(time.Hour), Attempts(2)), func(t *testing.T,
		s *till) {
		s.plan["charge"] = []string{"hang"}
		began := time.Now()
		s.completed()
		if took := time.Since(began); took < 3*time.Second || took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		s.wantCalls("charge, charge, order")
	})
}

func TestACallThatIgnoresItsContextDoesNotHoldUpItsRun(t *testing.T) {
	release := make(chan struct{})
	defs := func(o *outside) []*Definition {
		first := true
		return []*Definition{New("deaf").Step("charge", func(ctx context.Context, in order) (receipt, error) {
			if !first {
				return o.act("charge")(ctx, in)
			}
			first = false
			<-release
			return o.act("charge")(ctx, in)
		}, o.undo("charge"), Timeout(time.Second), Check(o.check("charge")), SettlesAfter(time.Hour))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		release = make(chan struct{})
		id := s.started()
		pass(time.Minute)
		v := s.wantStatus(id, machine.Running)
		if st := v.State.Steps[0]; st.Status != machine.Unknown {
			t.Errorf("the step is %s", st.Status)
		}
		close(release) // it happens now, and says so
		settle()
		s.wantStatus(id, machine.Completed)
		s.wantLedger("charge=1")
	})
}

func TestAPanicIsAnUnknownOutcome(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"panic"}
		f := s.failed(ErrNeedsPerson)
		v := s.view(f.Run)
		if v.State.Hold != machine.HoldUnknown || !strings.Contains(v.State.Steps[0].Error, "panicked") {
			t.Errorf("held for %s: %s", v.State.Hold, v.State.Steps[0].Error)
		}
		if err := s.act(machine.Retry, f.Run, ""); err == nil {
			t.Error("what may have happened was sent again")
		}
		s.mustAct(machine.MarkNotDone, f.Run, "charge")
		if _, err := s.engine.Wait(s.Context(), f.Run); err != nil {
			t.Fatal(err)
		}
		s.wantCalls("charge, charge, order")
		s.wantLedger("charge=1 order=1")
	})
}

func TestAPersonSaysThatItHappened(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		f := s.failed(ErrNeedsPerson)
		v, err := s.engine.Operate(s.Context(), f.Run, Act{Verb: machine.MarkDone, Step: "charge",
			Actor:  "ann",
			Reason: "seen at the gateway", Output: []byte(`{"no":7}`)})
		if err != nil {
			t.Fatal(err)
		}
		if v, err = s.engine.Wait(s.Context(), v.Run); err != nil {
			t.Fatal(err)
		}
		var r receipt
		if err := v.Output("charge", &r); err != nil || r.No != 7 {
			t.Errorf("%+v, %v", r, err)
		}
		s.wantLedger("charge=1 order=1")
	})
}

func TestVerbsAreCheckedAndAudited(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		f := s.failed(ErrNeedsPerson)
		v := s.view(f.Run)
		good := Act{Verb: machine.Skip, Step: "charge", Actor: "ann", Reason: "a test", Revision: v.Revision}
		for name, c := range map[string]struct {
			change func(*Act)
			id     string
			want   error
		}{
			"no actor":     {func(a *Act) { a.Actor = "" }, f.Run, ErrInput},
			"no reason":    {func(a *Act) { a.Reason = "" }, f.Run, ErrInput},
			"long reason":  {func(a *Act) { a.Reason = strings.Repeat("x", 1001) }, f.Run, ErrInput},
			"no JSON":      {func(a *Act) { a.Output = []byte("{") }, f.Run, ErrInput},
			"no such step": {func(a *Act) { a.Step = "x" }, f.Run, ErrInput},
			"old revision": {func(a *Act) { a.Revision-- }, f.Run, ErrVersion},
			"no such run":  {func(*Act) {}, "run_x", ErrNoRun},
		} {
			a := good
			c.change(&a)
			if _, err := s.engine.Operate(s.Context(), c.id, a); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after := s.view(f.Run); after.Revision != v.Revision {
			t.Error("a refused act has changed the run")
		}
		if _, err := s.engine.Operate(s.Context(), f.Run, good); err != nil {
			t.Fatal(err)
		}
		page, err := s.feed.Read(s.Context(), s.store, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, ev := range page.Events {
			text := string(ev.Data)
			found = found || ev.Type == "operator.run.skip" && strings.Contains(text, `"actor":"ann"`) &&
				strings.Contains(text, `"reason":"a test"`) && strings.Contains(text, `"step":"charge"`)
		}
		if !found {
			t.Error("the act is not in the feed")
		}
	})
}

func TestCloseEndsARunInEveryState(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		for i, plan := range []string{"lost", "retry=50m"} {
			s.plan["charge"] = []string{plan}
			st, err := s.engine.Start(s.Context(), s.def(), fmt.Sprint("o-", i), theOrder)
			if err != nil {
				t.Fatal(err)
			}
			settle()
			s.mustAct(machine.Close, st.Run, "")
			if err := s.act(machine.Cancel, st.Run, ""); err == nil {
				t.Error("a closed run was cancelled")
			}
			if _, err := s.engine.Wait(s.Context(), st.Run); !errors.Is(err, ErrRunClosed) {
				t.Error(err)
			}
		}
		pass(time.Hour)
		s.wantCalls("charge, charge")
	})
}

func TestRerunIsANewLinkedRunWithNewKeys(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["order"] = []string{"refused"}
		f := s.failed(ErrUndone)
		act := Act{Actor: "ann", Reason: "the shelf is full again"}
		st, err := s.engine.Rerun(s.Context(), f.Run, act)
		if err != nil || st.Round != 2 {
			t.Fatalf("%+v, %v", st, err)
		}
		if _, err := s.engine.Wait(s.Context(), st.Run); err != nil {
			t.Fatal(err)
		}
		if v := s.view(st.Run); v.Parent != f.Run || v.Link != "rerun" ||
			string(v.Input) != string(s.view(f.Run).Input) {
			t.Errorf("the run is %+v", v)
		}
		if keys := s.keys["charge"]; len(keys) != 2 || keys[0] == keys[1] {
			t.Errorf("keys: %v", keys)
		}
		if _, err := s.engine.Rerun(s.Context(), f.Run, act); err == nil {
			t.Error("the old run was run again beside the new one")
		}
		if st, err = s.engine.Rerun(s.Context(), st.Run, act); err != nil || st.Round != 3 {
			t.Errorf("of a completed one: %+v, %v", st, err)
		}
		settle()
		if !strings.Contains(s.events(), "operator.run.rerun") {
			t.Error("the act is not in the feed")
		}
	})
}

func TestSignalsEarlyDuplicateAndContradictory(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		s.after = func(call string) { // before the reply
			if call == "charge" {
				err := s.engine.Signal(s.Context(), Signal{Definition: "pay", Key: theOrder.ID,
					Step: "charge",
					Data: []byte(`"first"`)})
				if err != nil {
					t.Error(err)
				}
			}
		}
		s.plan["order"] = []string{"retry=1m"}
		id := s.started()
		settle()
		before := s.view(id)
		if before.State.Steps[0].Status != machine.Done {
			t.Fatalf("the step is %s", before.State.Steps[0].Status)
		}
		s.signal(id, "charge", false)
		if after := s.view(id); after.Revision != before.Revision {
			t.Error("a signal that came twice has changed the run")
		}
		s.signal(id, "charge", true)
		if v := s.wantStatus(id, machine.Held); v.State.Hold != machine.HoldContradiction {
			t.Errorf("held for %s", v.State.Hold)
		}
		s.mustAct(machine.Retry, id, "")
		if _, err := s.engine.Wait(s.Context(), id); err != nil {
			t.Fatal(err)
		}
		for name, sig := range map[string]Signal{"step": {Run: id, Step: "x"}, "JSON": {Run: id,
			Step: "charge",
			Data: []byte("{")}} {
			if err := s.engine.Signal(s.Context(), sig); !errors.Is(err, ErrInput) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := s.engine.Signal(s.Context(), Signal{Definition: "pay", Key: "x",
			Step: "charge"}); !errors.Is(err,
			ErrNoRun) {
			t.Error(err)
		}
	})
}

func TestASignalThatDoesNotComeIsLookedUp(t *testing.T) {
	inTill(t, func(o *outside) []*Definition {
		return twoSteps(AwaitFor(time.Hour), Check(o.check("charge")))(o)
	}, func(t *testing.T, s *till) {
		began := time.Now()
		s.completed()
		if took := time.Since(began); took != time.Hour {
			t.Errorf("it took %v", took)
		}
		s.wantCalls("charge, check charge, order")
	})
}

func TestDrainEndsCallsAndTheNextProcessGoesOn(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.before = func(call string) {
			if call == "voucher" {
				take(5 * time.Second)
			}
		}
		id := s.started()
		settle()
		s.stop() // the call under way ends, the next one does not begin
		s.wantCalls("loyalty, voucher")
		s.boot()
		if v := s.view(id); v.State.Steps[1].Sends != 1 {
			t.Errorf("the step was sent %d times", v.State.Steps[1].Sends)
		}
		if _, err := s.engine.Wait(s.Context(), id); err != nil {
			t.Fatal(err)
		}
		s.wantCalls("loyalty, voucher, charge, order")
	})
}

func TestAfterAKillTheNextCallLeavesAtOnce(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		block := make(chan struct{})
		s.before = func(call string) {
			if call == "voucher" {
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
		settle()
		began := time.Now()
		for range 2 {
			<-s.ended
		}
		s.boot()
		settle()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if got := s.made(); got != "loyalty, voucher, check voucher, charge, order" {
			t.Errorf("calls: %s", got)
		}
		s.wantStatus(id, machine.Completed)
		s.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
	})
}

func TestBoundsPerDefinitionAndHost(t *testing.T) {
	defs := func(o *outside) []*Definition {
		slow := New("slow").Step("a", o.act("a"), o.undo("a"), Host("one")).
			Step("b", o.act("b"), o.undo("b"), Host("two")).Step("c", o.act("c"), nil, Host("one"))
		return []*Definition{slow, New("other").Step("x", o.act("x"), nil, Host("one"))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.stop()
		s.cfg.Calls, s.cfg.PerDefinition, s.cfg.PerHost = 6, 4, 3
		s.boot()
		hosts := map[string]string{"a": "one", "b": "two", "c": "one", "x": "one"}
		now, most := map[string]int{}, map[string]int{}
		count := func(call string, n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			def := "slow"
			if call == "x" {
				def = "other"
			}
			for _, k := range []string{"all", def, hosts[call]} {
				now[k] += n
				most[k] = max(most[k], now[k])
			}
		}
		s.before = func(call string) {
			count(call, 1)
			take(time.Second)
			count(call, -1)
		}
		for i := range 20 {
			for _, d := range s.defs {
				if _, err := s.engine.Start(s.Context(), d, fmt.Sprint(i), theOrder); err != nil {
					t.Fatal(err)
				}
			}
		}
		pass(time.Hour)
		if len(s.calls) != 80 || most["all"] > 6 || most["slow"] > 4 || most["one"] != 3 || most["two"] > 3 {
			t.Errorf("%d calls, at most %v", len(s.calls), most)
		}
	})
}

func TestAnIdleEngineWritesNothing(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		counted := 0
		s.stop()
		s.wrap = func(st kv.Store) kv.Store { return countingStore{st, &counted} }
		s.boot()
		id := s.started()
		settle()
		before := counted
		pass(1000 * time.Hour)
		if counted != before {
			t.Errorf("%d transactions while idle", counted-before)
		}
		s.signal(id, "charge", false)
		settle()
		s.wantStatus(id, machine.Completed)
	})
}

// countingStore counts writing transactions.
type countingStore struct {
	kv.Store
	n *int
}

func (c countingStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	*c.n++
	return c.Store.Update(ctx, fn)
}

func TestNStepsCostOneCommitMore(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		counted := 0
		s.stop()
		s.wrap = func(st kv.Store) kv.Store { return countingStore{st, &counted} }
		s.boot()
		settle()
		s.completed()
		if counted != 5 {
			t.Errorf("%d commits for four steps", counted)
		}
		counted = 0
		s.plan["order"] = []string{"refused"}
		if _, err := s.engine.Run(s.Context(), s.def(), "other", theOrder); !errors.Is(err, ErrUndone) ||
			counted != 8 {
			t.Errorf("%d commits for four steps and three undos; %v", counted, err)
		}
	})
}

func TestHistoryIsCapped(t *testing.T) {
	inTill(t, twoSteps(Attempts(500), Backoff(time.Second, time.Second)), func(t *testing.T, s *till) {
		s.plan["charge"] = slices.Repeat([]string{"retry"}, 400)
		v := s.completed()
		if len(v.History) != 64 || v.Dropped != 2*400+5-64 {
			t.Errorf("%d entries, %d dropped", len(v.History), v.Dropped)
		}
		if v.History[0].Note != machine.NoteSent || v.History[63].Note != machine.NoteEnd ||
			v.History[1].Text != "busy" {
			t.Errorf("the first is %+v, the last %+v", v.History[0], v.History[63])
		}
	})
}

func TestRunsAreSweptByTheirEndAndTheirKeysStay(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		first := s.completed().Run
		s.plan["charge"] = []string{"retry=50m"}
		late, err := s.engine.Start(s.Context(), s.def(), "late", theOrder)
		if err != nil {
			t.Fatal(err)
		}
		pass(31 * 24 * time.Hour)
		for i := range 5 {
			if _, err := s.engine.Run(s.Context(), s.def(), fmt.Sprint("new-", i), theOrder); err != nil {
				t.Fatal(err)
			}
		}
		s.wantStatus(late.Run, machine.Completed)
		n, err := s.engine.SweepRuns(s.Context(), 0)
		if err != nil || n != 2 {
			t.Fatalf("%d removed, %v", n, err)
		}
		if _, err := s.engine.Get(s.Context(), first); !errors.Is(err, ErrNoRun) {
			t.Error(err)
		}
		st, err := s.engine.Start(s.Context(), s.def(), theOrder.ID, theOrder)
		if err != nil || !st.Joined || st.Run != first || st.Status != machine.Completed {
			t.Errorf("a start after the sweep: %+v, %v", st, err)
		}
		if v, err := s.engine.Find(s.Context(), "pay", theOrder.ID); err != nil ||
			v.State.Status != machine.Completed {
			t.Errorf("%+v, %v", v, err)
		}
		pass(31 * 24 * time.Hour)
		for _, want := range []int{2, 2, 1, 0} {
			if n, err := s.engine.SweepRuns(s.Context(), 2); err != nil || n != want {
				t.Errorf("%d removed, want %d; %v", n, want, err)
			}
		}
	})
}

// However many rows its runs have, a sweep fits into its transactions.
func TestRunsOfManyStepsAreSwept(t *testing.T) {
	many := func(o *outside) []*Definition {
		d := New("pay")
		for i := range MaxSteps {
			d = d.Step(fmt.Sprint("step-", i), o.act("charge"), o.undo("charge"))
		}
		return []*Definition{d}
	}
	inTill(t, many, func(t *testing.T, s *till) {
		const runs = kv.MaxTxWrites/MaxSteps/2 + 5 // they have two rows for each step
		for i := range runs {
			s.plan["charge"] = []string{"refused"}
			if _, err := s.engine.Run(s.Context(), s.def(), fmt.Sprint(i), theOrder); err == nil {
				t.Fatal("it is completed")
			}
		}
		pass(31 * 24 * time.Hour)
		for _, want := range []int{runs, 0} {
			if n, err := s.engine.SweepRuns(s.Context(), 0); err != nil || n != want {
				t.Errorf("%d removed, want %d; %v", n, want, err)
			}
		}
	})
}

// A key that cannot be read keeps its own run from being removed, and no other.
func TestASweepPassesByAKeyThatCannotBeRead(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.completed()
		if _, err := s.engine.Run(s.Context(), s.def(), "later", theOrder); err != nil {
			t.Fatal(err)
		}
		pass(31 * 24 * time.Hour)
		key := RunKey{Definition: "pay", Key: theOrder.ID}.row()
		var was []byte
		put := func(value []byte) {
			t.Helper()
			err := s.store.Update(t.Context(), func(w kv.Writer) (err error) {
				if was == nil {
					was, err = w.Get(keyTable.ID(), key)
				}
				return errors.Join(err, w.Put(keyTable.ID(), key, value))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, value := range [][]byte{[]byte("?"), nil} {
			if value == nil {
				value = was
			}
			put(value)
			if n, err := s.engine.SweepRuns(s.Context(), 0); n != 1 || err != nil {
				t.Errorf("%d removed, %v", n, err)
			}
		}
	})
}

func TestPagesAreStableWhileRunsAreAdded(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		add := func(n int, label string) {
			for range n {
				pass(time.Millisecond)
				_, err := s.engine.StartRun(s.Context(), StartRequest{Definition: "pay",
					Key:    fmt.Sprint(label, time.Now()),
					Labels: map[string]string{"kind": label}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		add(50, "old")
		seen := map[string]bool{}
		q := Query{Limit: 7, Label: "kind"}
		for {
			page, next, err := s.engine.List(s.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range page {
				if seen[v.Run] || v.Labels["kind"] != "old" {
					t.Errorf("%s is there again, or new", v.Run)
				}
				seen[v.Run] = true
			}
			if q.Cursor = next; next == "" {
				break
			}
			add(3, "new")
		}
		if len(seen) != 50 {
			t.Errorf("%d runs", len(seen))
		}
		page, _, err := s.engine.List(s.Context(), Query{Label: "kind", Value: "new", Limit: 500})
		if err != nil || len(page) != 21 {
			t.Errorf("%d new ones, %v", len(page), err)
		}
	})
}

func TestAThousandWaitingRunsGoOnWithTheirSignals(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		const runs = 1000
		for i := range runs {
			if _, err := s.engine.Start(s.Context(), s.def(), fmt.Sprint(i), theOrder); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		s.stop()
		s.boot()
		settle()
		if n := len(s.calls); n != runs {
			t.Fatalf("%d calls", n)
		}
		for i := range runs {
			err := s.engine.Signal(s.Context(), Signal{Definition: "pay", Key: fmt.Sprint(i), Step: "charge"})
			if err != nil {
				t.Fatal(err)
			}
		}
		settle()
		s.wantLedger(fmt.Sprintf("charge=%d order=%d", runs, runs))
	})
}

func TestABrokenRunIsParkedAndTheOthersGoOn(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"retry=1m"}
		id := s.started()
		settle()
		// The handler of its timer fails at every wake-up, as it would by a bug.
		err := s.store.Update(s.Context(), func(w kv.Writer) error {
			at := s.view1(w, id)
			return s.engine.wake(s.Context(), w, timer.Timer{Kind: timerKind, Owner: id, Due: at,
				Attempts: brokenAfter, LastError: "a bug"})
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := s.wantStatus(id, machine.Held); v.State.Hold != machine.HoldBroken ||
			v.State.Reason != "it cannot be woken: a bug; retry goes on with it" {
			t.Errorf("held for %s: %s", v.State.Hold, v.State.Reason)
		}
		if _, err := s.engine.Run(s.Context(), s.def(), "other", theOrder); err != nil {
			t.Error(err)
		}
		s.mustAct(machine.Retry, id, "")
		if _, err := s.engine.Wait(s.Context(), id); err != nil {
			t.Error(err)
		}
	})
}

func TestARunOnWhichTheEngineFailsIsHeldAndHarmsNoOther(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		counted := 0
		s.stop()
		s.wrap = func(st kv.Store) kv.Store { return panickingStore{st, &counted} }
		s.boot()
		settle()
		counted = -3 // the third commit from here on
		f := s.failed(ErrNeedsPerson)
		if v := s.view(f.Run); v.State.Hold != machine.HoldBroken ||
			v.State.Steps[1].Status != machine.Unknown {
			t.Errorf("held for %s: %s", v.State.Hold, v.State.Reason)
		}
		if _, err := s.engine.Run(s.Context(), s.def(), "other", theOrder); err != nil {
			t.Error(err)
		}
		s.mustAct(machine.Retry, f.Run, "")
		if _, err := s.engine.Wait(s.Context(), f.Run); err != nil {
			t.Fatal(err)
		}
		s.wantLedger("charge=2 loyalty=2 order=2 voucher=2")
	})
}

// panickingStore panics in the transaction with which its count comes to 0.
type panickingStore struct {
	kv.Store
	n *int
}

func (p panickingStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	*p.n++
	if *p.n != 0 {
		return p.Store.Update(ctx, fn)
	}
	return p.Store.Update(ctx, func(w kv.Writer) error { return fn(panickingWriter{w}) })
}

type panickingWriter struct{ kv.Writer }

func (panickingWriter) Put(kv.TableID, []byte, []byte) error { panic("a bug") }

// view1 is when the timer of the run is due.
func (s *till) view1(w kv.Writer, id string) time.Time {
	r, err := loadRun(w, id)
	if err != nil || r == nil {
		s.Fatal(r, err)
	}
	return r.wake
}

func TestObserverIsTold(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["order"] = []string{"refused"}
		s.plan["charge"] = []string{"lost"}
		s.failed(ErrUndone)
		settle()
		s.seen.mu.Lock()
		defer s.seen.mu.Unlock()
		want := map[string]int{"action done": 2, "action unknown": 1, "check done": 1, "action refused": 1,
			"undo done": 3}
		if fmt.Sprint(s.seen.calls) != fmt.Sprint(want) {
			t.Errorf("calls: %v", s.seen.calls)
		}
		if fmt.Sprint(s.seen.statuses) != "map[compensated:1 compensating:1 running:1]" {
			t.Errorf("statuses: %v", s.seen.statuses)
		}
	})
}

func TestAnUnfinishedEffectIsAskedForAgain(t *testing.T) {
	var at []time.Time
	defs := func(o *outside) []*Definition {
		return []*Definition{New("slow").Step("charge", func(ctx context.Context, in order) (receipt, error) {
			at = append(at, time.Now())
			r, err := o.act("charge")(ctx, in)
			if err == nil && len(at) < 3 {
				err = Unfinished(30*time.Second, errors.New("202"))
			}
			return r, err
		}, o.undo("charge"), Repeatable(time.Hour))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.completed()
		if len(at) != 3 || at[1].Sub(at[0]) < 30*time.Second || at[2].Sub(at[1]) > 34*time.Second {
			t.Errorf("it was asked at %v", at)
		}
		s.wantLedger("charge=1")
	})
}

func TestAWebhookCanStartAndSignalInItsOwnTransaction(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		var st Started
		err := s.store.Update(s.Context(), func(w kv.Writer) error {
			got, err := s.engine.StartTx(w, StartRequest{Definition: "pay", Key: "k"})
			st = got
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		settle()
		boom := errors.New("the receipt could not be stored")
		for _, fails := range []error{boom, nil} {
			err := s.store.Update(s.Context(), func(w kv.Writer) error {
				return errors.Join(s.engine.SignalTx(w, Signal{Run: st.Run, Step: "charge"}), fails)
			})
			if !errors.Is(err, fails) {
				t.Fatal(err)
			}
			settle()
			if done := s.view(st.Run).State.Status == machine.Completed; done != (fails == nil) {
				t.Errorf("after %v the run is completed: %v", fails, done)
			}
		}
	})
}

func TestAfterARestoreALookUpComesFirst(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.completed()
		s.stop()
		s.disk = memkv.NewDisk() // the copy is from before the order
		s.cfg.Restored = time.Now()
		pass(2 * time.Minute)
		s.boot()
		settle() // the slot of the first call is free, and the start begins it
		s.completed()
		s.wantCalls("loyalty, voucher, charge, order, " +
			"check loyalty, check voucher, check charge, check order")
		s.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
	})
}

func TestCallsHaveSpans(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		seen := &spans{}
		s.stop()
		s.cfg.Tracer = seen
		s.boot()
		s.completed()
		settle()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if got := fmt.Sprint(seen.ended); !strings.Contains(got, "saga action") || !strings.Contains(got,
			"charge") ||
			!strings.Contains(got, "outcome=done") {
			t.Errorf("spans: %s", got)
		}
	})
}

// A start that is sent again after a lost answer must not begin what was undone
// meanwhile anew.
func TestAStartThatNamesItsRoundIsSafeToRepeat(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"refused"}
		start := func(round uint64) (Started, error) {
			return s.engine.StartRun(s.Context(), StartRequest{Definition: "pay", Key: theOrder.ID,
				Input: []byte(mustJSON(theOrder)), Round: round})
		}
		refused := func(round uint64, want string) {
			t.Helper()
			var wrong *InputError
			st, err := start(round)
			if !errors.As(err, &wrong) || wrong.Field != "round" || !strings.Contains(wrong.Problem, want) {
				t.Errorf("round %d: %+v, %v; want an error about the round with %q", round, st, err, want)
			}
		}
		refused(2, "the next round of the key is 1")
		first, err := start(1)
		if err != nil || first.Joined || first.Round != 1 {
			t.Fatalf("%+v, %v", first, err)
		}
		pass(time.Minute)
		s.wantStatus(first.Run, machine.Compensated)
		again, err := start(1)
		if err != nil || !again.Joined || again.Run != first.Run || again.Status != machine.Compensated {
			t.Errorf("the first once more: %+v, %v", again, err)
		}
		refused(3, "the next round of the key is 2")
		second, err := start(2)
		if err != nil || second.Joined || second.Round != 2 || second.Run == first.Run {
			t.Fatalf("the second round: %+v, %v", second, err)
		}
		if st, err := start(1); err != nil || !st.Joined || st.Run != first.Run || st.Round != 1 ||
			st.Status != machine.Compensated {
			t.Errorf("the first, after the second began: %+v, %v", st, err)
		}
		var mismatch *MismatchError
		if _, err := s.engine.StartRun(s.Context(), StartRequest{Definition: "pay", Key: theOrder.ID,
			Input: []byte(`{}`), Round: 1}); !errors.As(err, &mismatch) {
			t.Errorf("the first with another input: %v", err)
		}
		pass(time.Minute)
		s.wantStatus(second.Run, machine.Completed)
		refused(3, "the run of round 2 is completed")
		if st, err := start(0); err != nil || st.Run != second.Run || !st.Joined {
			t.Errorf("without a round: %+v, %v", st, err)
		}
		pass(40 * 24 * time.Hour)
		if _, err := s.engine.SweepRuns(s.Context(), 100); err != nil {
			t.Fatal(err)
		}
		refused(1, "no longer kept; the key is in round 2")
	})
}

// A run of an earlier round has a correction: a repeated start means the run.
func TestARepeatedStartFindsTheRunAndNotItsCorrection(t *testing.T) {
	inTill(t, twoSteps(AwaitFor(time.Minute), UndoWhenAbsent()), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"accepted"}
		start := func(round uint64) Started {
			t.Helper()
			st, err := s.engine.StartRun(s.Context(), StartRequest{Definition: "pay", Key: theOrder.ID,
				Input: []byte(mustJSON(theOrder)), Round: round})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		first := start(1)
		pass(time.Hour)
		s.wantStatus(first.Run, machine.Compensated)
		start(2)
		err := s.engine.Signal(s.Context(), Signal{Run: first.Run, Step: "charge", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		settle()
		if c := s.view(first.Run).Corrections; len(c) != 1 {
			t.Fatalf("the corrections are %v", c)
		}
		if st := start(1); st.Run != first.Run || !st.Joined {
			t.Errorf("the first once more: %+v, want %s", st, first.Run)
		}
	})
}
