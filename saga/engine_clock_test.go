package saga

import (
	"errors"
	"strings"
	"testing"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// TestAClockSetBackSendsNothingTwice: the machine was off for days, longer than the gateway
// knows the key, and has come up with a clock that stands before the charge.
func TestAClockSetBackSendsNothingTwice(t *testing.T) {
	for name, back := range map[string]time.Duration{"set back": 80 * time.Hour, "right": 0} {
		t.Run(name, func(t *testing.T) {
			inTill(t, twoSteps(Repeatable(24*time.Hour)), func(t *testing.T, s *till) {
				s.forgets = map[string]bool{"charge": true}
				block := make(chan struct{})
				s.after = func(string) { <-block }
				id := s.started()
				settle()
				s.kill()
				s.mu.Lock()
				s.after = nil
				s.mu.Unlock()
				close(block)
				for range 2 {
					<-s.ended
				}
				pass(72 * time.Hour)
				s.clock = kv.ClockFunc(func() time.Time { return time.Now().UTC().Add(-back) })
				s.boot()
				settle()
				s.wantStatus(id, machine.Held)
				pass(10 * time.Hour) // the clock has come to the charge again
				if err := s.act(machine.Retry, id, ""); err == nil {
					t.Error("the key was sent again")
				}
				s.wantLedger("charge=1")
				s.mustAct(machine.MarkDone, id, "charge")
				settle()
				s.wantStatus(id, machine.Completed)
				s.wantLedger("charge=1 order=1")
			})
		})
	}
}

// TestAClockSetBackIsSeenLater: a run waits for a person, so that nobody looks at it before
// the clock has caught up.
func TestAClockSetBackIsSeenLater(t *testing.T) {
	inTill(t, twoSteps(Repeatable(24*time.Hour), Attempts(1)), func(t *testing.T, s *till) {
		s.forgets = map[string]bool{"charge": true}
		s.plan["charge"] = []string{"lost"}
		id := s.started()
		settle()
		s.wantStatus(id, machine.Held)
		s.stop()
		pass(72 * time.Hour)
		s.clock = kv.ClockFunc(func() time.Time { return time.Now().UTC().Add(-80 * time.Hour) })
		s.boot()
		pass(10 * time.Hour)
		err := s.act(machine.Retry, id, "")
		var state *machine.Error
		if !errors.As(err, &state) || !strings.Contains(state.Problem, "neither a look-up nor its key") {
			t.Errorf("a retry gives %v", err)
		}
		s.wantLedger("charge=1")
		s.mustAct(machine.MarkDone, id, "charge")
		settle()
		s.wantStatus(id, machine.Completed)
	})
}
