package saga

import (
	"errors"
	"testing"
	"time"

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

// A duplicate of the word that a charge was made, while it is being found out whether
// its undo came first, is no proof that it came later.
func TestAWordThatComesTwiceIsRefundedOnce(t *testing.T) {
	inTill(t, twoSteps(AwaitFor(time.Minute), UndoWhenAbsent()), func(t *testing.T, s *till) {
		id := s.started()
		s.before = func(call string) {
			if call == "undo charge" {
				s.signal(id, "charge", false)
			}
		}
		pass(2 * time.Minute)
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
