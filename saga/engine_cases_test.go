package saga

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/saga/machine"
)

func TestSG01_FailureAtTheThirdOfFourUndoesTwoAndOne(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"refused"}
		f := s.failed(ErrUndone)
		s.wantCalls("loyalty, voucher, charge, undo voucher, undo loyalty")
		s.wantLedger("")
		var refused *RefusedError
		if !slices.Equal(f.Undone, []string{"voucher", "loyalty"}) || f.Step != "charge" ||
			len(f.Stands) > 0 ||
			!errors.As(f, &refused) || refused.Code != "no" {
			t.Errorf("the failure is %+v", f)
		}
		for _, part := range []string{"charge", "voucher, loyalty", "charge refused"} {
			if !strings.Contains(f.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, f)
			}
		}
		if got := s.events(); got != "run.compensated" {
			t.Errorf("the feed has %s", got)
		}
	})
}

func TestSG02_FailureAtTheFirstStepUndoesNothing(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["loyalty"] = []string{"refused"}
		if f := s.failed(ErrUndone); len(f.Undone) > 0 {
			t.Errorf("undone: %v", f.Undone)
		}
		s.wantCalls("loyalty")
	})
}

func TestSG03_ACompletedRunIsNotRepeated(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		first := s.completed()
		s.stop()
		s.boot()
		again := s.completed()
		s.wantCalls("loyalty, voucher, charge, order")
		s.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
		var r receipt
		if err := again.Output("charge", &r); err != nil || r.Key == "" || first.Run != again.Run {
			t.Errorf("%+v, %v; runs %s and %s", r, err, first.Run, again.Run)
		}
	})
}

func TestSG06_ATimedOutStepThatHappenedIsLookedUpAndUndone(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		s.plan["order"] = []string{"refused"}
		s.failed(ErrUndone)
		s.wantCalls("loyalty, voucher, charge, check charge, order, undo charge, undo voucher, undo loyalty")
		s.wantLedger("")
	})
}

func TestSG06_ATimedOutStepIsResolvedAndUndoneWhenTheRunIsCancelled(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		id := s.started()
		settle()
		s.mustAct(machine.Cancel, id, "")
		if _, err := s.engine.Wait(t.Context(), id); !errors.Is(err, ErrUndone) {
			t.Fatal(err)
		}
		s.wantCalls("loyalty, voucher, charge, check charge, undo charge, undo voucher, undo loyalty")
		s.wantLedger("")
	})
}

func TestSG07_WhatDidNotHappenIsNotUndone(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"dropped"}
		id := s.started()
		settle()
		s.mustAct(machine.Cancel, id, "")
		if _, err := s.engine.Wait(t.Context(), id); !errors.Is(err, ErrUndone) {
			t.Fatal(err)
		}
		// The first look-up is too early to be proof.
		s.wantCalls("loyalty, voucher, charge, check charge, check charge, undo voucher, undo loyalty")
	})
}

func TestSG08_AnUndoThatFailsThreeTimesAndThenWorks(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["voucher"] = []string{"refused"}
		s.plan["undo loyalty"] = []string{"retry", "dropped", "retry"}
		began := time.Now()
		f := s.failed(ErrUndone)
		s.wantCalls("loyalty, voucher, undo loyalty, undo loyalty, undo loyalty, undo loyalty")
		sent := 0
		for _, h := range s.view(f.Run).History {
			if h.Note == machine.NoteUndoSent {
				sent++
			}
		}
		if took := time.Since(began); sent != 4 || took < 3500*time.Millisecond || took > 8*time.Second {
			t.Errorf("%d tries in the history, in %v", sent, took)
		}
		if keys := s.keys["undo loyalty"]; len(keys) != 4 || len(slices.Compact(keys)) != 1 {
			t.Errorf("the keys of the undo are %v", keys)
		}
		s.wantLedger("")
	})
}

func TestSG09_AnUndoThatNeverWorksIsStuckUntilAPersonActs(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"refused"}
		s.plan["undo voucher"] = []string{"always", "retry"}
		f := s.failed(ErrNeedsPerson)
		v := s.wantStatus(f.Run, machine.Stuck)
		if n := len(s.keys["undo voucher"]); n != DefaultUndoAttempts {
			t.Errorf("%d tries", n)
		}
		if len(s.keys["undo loyalty"]) > 0 {
			t.Error("an earlier undo has begun")
		}
		if len(f.Stands) != 2 || f.Stands[0].Step != "voucher" || f.Stands[1].Step != "loyalty" {
			t.Errorf("it stands: %v", f.Stands)
		}
		calls := len(s.calls)
		pass(1000 * time.Hour)
		if len(s.calls) != calls {
			t.Error("a stuck run goes on by itself")
		}
		page, _, err := s.engine.List(t.Context(), Query{Statuses: []machine.Status{machine.Stuck}})
		if err != nil || len(page) != 1 || page[0].Run != v.Run {
			t.Errorf("stuck are %v, %v", page, err)
		}
		if held, stuck, err := s.engine.NeedPerson(s.Context()); err != nil || held != 0 || stuck != 1 {
			t.Errorf("%d held, %d stuck, %v", held, stuck, err)
		}
		delete(s.plan, "undo voucher")
		s.mustAct(machine.Retry, f.Run, "")
		if _, err := s.engine.Wait(t.Context(), f.Run); !errors.Is(err, ErrUndone) {
			t.Fatal(err)
		}
		s.wantLedger("")
		if got := s.events(); got != "run.stuck operator.run.retry run.compensated" {
			t.Errorf("the feed has %s", got)
		}
	})
}

func TestSG10_SG11_AnUndoneOrderIsChargedAndUndoneAnew(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		for round := range 2 {
			s.plan["order"] = []string{"refused"}
			s.failed(ErrUndone)
			s.wantLedger("")
			if n := len(s.keys["undo charge"]); n != round+1 {
				t.Fatalf("round %d: %d undos", round+1, n)
			}
		}
		v := s.completed()
		s.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
		keys := slices.Concat(s.keys["charge"], s.keys["undo charge"])
		if slices.Sort(keys); len(slices.Compact(keys)) != 5 || v.Round != 3 {
			t.Errorf("round %d, keys %v", v.Round, keys)
		}
	})
}

// lateSuccess lets a charge time out, be found absent, and happen after all.
func lateSuccess(s *till) (id, key string) {
	s.plan["charge"] = []string{"dropped"}
	s.defs[0].def.Steps[2].Act.Attempts = 1
	if err := s.engine.Register(s.defs...); err != nil {
		s.Fatal(err)
	}
	id = s.started()
	settle()
	s.mu.Lock()
	key = s.keys["charge"][0]
	s.mu.Unlock()
	return id, key
}

func TestSG12_ASuccessAfterTheEndIsUndoneOnceByALinkedRun(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		id, key := lateSuccess(s)
		if _, err := s.engine.Wait(t.Context(), id); !errors.Is(err, ErrUndone) {
			t.Fatal(err)
		}
		s.wantLedger("")
		before := s.view(id)
		s.stands["charge"] = []string{key}
		for range 3 {
			s.signal(id, "charge", false)
		}
		settle()
		s.wantLedger("")
		if n := len(s.keys["undo charge"]); n != 1 {
			t.Errorf("%d undos", n)
		}
		page, _, err := s.engine.List(t.Context(), Query{})
		if err != nil || len(page) != 2 || page[0].Parent != id || page[0].Link != "correction" ||
			page[0].State.Status != machine.Compensated {
			t.Errorf("runs: %+v, %v", page, err)
		}
		if after := s.view(id); after.Revision != before.Revision {
			t.Error("a run has changed after its end")
		}
		// A new checkout is a new round all the same.
		s.completed()
	})
}

func TestSG13_ASuccessDuringTheUndoIsUndoneOnce(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["undo voucher"] = []string{"retry=10s"}
		id, key := lateSuccess(s)
		pass(65 * time.Second) // the look-up is proof, the undo pauses
		s.wantStatus(id, machine.Compensating)
		s.stands["charge"] = []string{key}
		s.signal(id, "charge", false)
		s.signal(id, "charge", false)
		if _, err := s.engine.Wait(t.Context(), id); !errors.Is(err, ErrUndone) {
			t.Fatal(err)
		}
		s.wantLedger("")
		if n := len(s.keys["undo charge"]); n != 1 {
			t.Errorf("%d undos: %s", n, s.made())
		}
	})
}

func TestSG14_TwoStartsOfOneOrderAreOneRun(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"refused"}
		s.before = func(call string) {
			if call == "charge" { // it ends when all have started
				take(time.Second)
			}
		}
		ends := make(chan error)
		ids := map[string]bool{}
		for range 10 {
			go func() {
				_, err := s.run()
				ends <- err
			}()
		}
		for range 10 {
			err := <-ends
			var f *Failure
			if !errors.As(err, &f) {
				t.Fatalf("%v", err)
			}
			ids[f.Run] = true
		}
		s.wantCalls("loyalty, voucher, charge, undo voucher, undo loyalty")
		if len(ids) != 1 {
			t.Errorf("runs: %v", ids)
		}
		other := theOrder
		other.Cents++
		s.completed()
		if _, err := s.engine.Run(t.Context(), s.def(), theOrder.ID, other); !errors.Is(err, ErrMismatch) {
			t.Errorf("another input: %v", err)
		}
	})
}

func TestSG15_AfterThePivotItGoesForward(t *testing.T) {
	defs := func(o *outside) []*Definition {
		return []*Definition{New("pay").Step("loyalty", o.act("loyalty"), o.undo("loyalty")).
			Step("charge", o.act("charge"), nil, Pivot()).
			Step("order", o.act("order"), o.undo("order"), Attempts(3))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.plan["order"] = []string{"refused", "retry", "refused", "refused"}
		f := s.failed(ErrNeedsPerson)
		s.wantCalls("loyalty, charge, order, order, order")
		var e *machine.Error
		if err := s.act(machine.Cancel, f.Run, ""); !errors.As(err, &e) || !strings.Contains(err.Error(),
			"forward only") {
			t.Errorf("cancel: %v", err)
		}
		s.mustAct(machine.Retry, f.Run, "")
		if _, err := s.engine.Wait(t.Context(), f.Run); err != nil {
			t.Fatal(err)
		}
		s.wantLedger("charge=1 loyalty=1 order=1")
	})
}

func TestSG16_WhatCannotBeUndoneIsNotReportedAsUndone(t *testing.T) {
	defs := func(o *outside) []*Definition {
		return []*Definition{New("ship").Step("charge", o.act("charge"), o.undo("charge")).
			Step("ship", o.act("ship"), nil, Irreversible()).Step("mail", o.act("mail"), o.undo("mail"))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.plan["mail"] = []string{"refused"}
		f := s.failed(ErrNeedsPerson)
		s.wantCalls("charge, ship, mail")
		if !strings.Contains(f.Error(), "ship") || s.view(f.Run).State.Hold != machine.HoldIrreversible {
			t.Errorf("the failure is %v", f)
		}
		s.mustAct(machine.Cancel, f.Run, "")
		s.mustAct(machine.Skip, f.Run, "ship")
		_, err := s.engine.Wait(t.Context(), f.Run)
		if !errors.Is(err, ErrRunClosed) {
			t.Errorf("%v", err)
		}
		s.wantLedger("ship=1")
	})
}

func TestSG17_OpenRunsKeepToTheirVersion(t *testing.T) {
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		s.plan["voucher"] = []string{"retry=1h"}
		id := s.started()
		settle()
		s.stop()
		old := s.defs[0]
		s.defs = []*Definition{New("checkout").Version("2").Step("charge", s.outside.act("charge"),
			s.undo("charge"))}
		s.boot()
		pass(2 * time.Hour)
		v := s.wantStatus(id, machine.Held)
		if v.State.Hold != machine.HoldDefinition || !strings.Contains(v.State.Reason, "version 1") {
			t.Errorf("held for %s: %s", v.State.Hold, v.State.Reason)
		}
		s.wantCalls("loyalty, voucher")
		s.stop()
		s.defs = append(s.defs, New("checkout").Step("voucher", s.outside.act("voucher"), nil))
		s.boot() // version 1 with other steps is not version 1
		settle()
		s.wantStatus(id, machine.Held)
		s.stop()
		s.defs[1] = old
		s.boot()
		settle()
		if _, err := s.engine.Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		s.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
	})
}

func TestSG18_AnUndoSeesWhatItsOwnStepStored(t *testing.T) {
	type cart struct{ Items []string }
	var seen []cart
	defs := func(*outside) []*Definition {
		return []*Definition{New("cart").
			Step("first", func(_ context.Context, in cart) (cart, error) {
				in.Items[0] = "mine"
				return in, nil
			}, func(_ context.Context, in, out cart) error {
				seen = append(seen, in, out)
				return nil
			}).
			Step("second", func(c context.Context, in cart) (cart, error) {
				in.Items[0] = "changed"
				out, err := Output[cart](c, "first")
				if err == nil && out.Items[0] == "mine" {
					out.Items[0] = "changed too"
				}
				return out, Refused(errors.New("no"))
			}, nil)}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		_, err := s.engine.Run(t.Context(), s.def(), "k", cart{Items: []string{"given"}})
		if !errors.Is(err, ErrUndone) || len(seen) != 2 || seen[0].Items[0] != "given" ||
			seen[1].Items[0] != "mine" {
			t.Errorf("%v, the undo saw %v", err, seen)
		}
	})
}

func TestSG19_AtTheDeadlineTheStepIsResolvedFirst(t *testing.T) {
	defs := func(o *outside) []*Definition {
		d := fourSteps(o)
		d[0].Deadline(10 * time.Second)
		return d
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.plan["voucher"] = []string{"hang"}
		s.before = func(call string) {
			if call == "voucher" { // it happens, and takes its time
				s.mu.Lock()
				s.stands["voucher"] = []string{actionKey("checkout", "voucher", theOrder.ID, 1)}
				s.mu.Unlock()
			}
		}
		id := s.started()
		pass(11 * time.Second)
		s.wantStatus(id, machine.Compensating)
		s.wantCalls("loyalty, voucher")
		_, err := s.engine.Wait(t.Context(), id)
		if !errors.Is(err, ErrUndone) || !strings.Contains(err.Error(), "deadline") {
			t.Fatal(err)
		}
		s.wantCalls("loyalty, voucher, check voucher, undo voucher, undo loyalty")
		s.wantLedger("")
	})
}

func TestSG20_AThousandOpenRunsAreTakenUpWithinBounds(t *testing.T) {
	const runs = 1000
	inTill(t, fourSteps, func(t *testing.T, s *till) {
		for i := range runs { // nobody serves: all are left for the next process
			if i == 0 {
				s.stop()
				s.prepare()
			}
			o := order{ID: "o-" + string(rune('a'+i%26)) + time.Duration(i).String()}
			if _, err := s.engine.Start(t.Context(), s.def(), o.ID, o); err != nil {
				t.Fatal(err)
			}
		}
		s.store.Close()
		s.cfg.Calls = 7
		now, most := 0, 0
		s.before = func(string) {
			s.mu.Lock()
			now++
			most = max(most, now)
			s.mu.Unlock()
			take(time.Second)
			s.mu.Lock()
			now--
			s.mu.Unlock()
		}
		s.boot()
		began := time.Now()
		s.started() // is served beside the others
		if took := time.Since(began); took > 0 {
			t.Errorf("a start took %v", took)
		}
		pass(time.Hour)
		if most != 7 || len(s.calls) != 4*(runs+1) {
			t.Errorf("%d calls at a time, %d in all", most, len(s.calls))
		}
		for _, step := range []string{"loyalty", "voucher", "charge", "order"} {
			if n := len(s.stands[step]); n != runs+1 {
				t.Errorf("%s: %d effects", step, n)
			}
		}
	})
}

func TestSG21_AHintIsRespectedAndTheKeyStaysTheSame(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"retry=20s", "retry", "retry=1ms"}
		var at []time.Duration
		began := time.Now()
		s.before = func(call string) {
			if call == "charge" {
				at = append(at, time.Since(began))
			}
		}
		s.completed()
		if len(at) != 4 || at[1] < 20*time.Second || at[1] > 22*time.Second ||
			at[2]-at[1] < time.Second || at[2]-at[1] > 2*time.Second || at[3]-at[2] < 2*time.Second {
			t.Errorf("the tries came at %v", at)
		}
		if keys := s.keys["charge"]; len(keys) != 4 || len(slices.Compact(keys)) != 1 || keys[0] == "" {
			t.Errorf("the keys are %v", keys)
		}
	})
}
