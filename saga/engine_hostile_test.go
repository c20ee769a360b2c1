package saga

import (
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
