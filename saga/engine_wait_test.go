package saga

import (
	"testing"

	"onced/saga/machine"
)

// Who comes after the word of a run's end, while its driver has not left yet, looks for
// himself: nobody tells it again.
func TestWhoWaitsAfterTheWordLooksForHimself(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		e, id := s.engine, s.completed().Run
		if !e.claim(id) {
			t.Fatal("no driver")
		}
		defer e.work.Done()
		defer e.leave(id, false)
		wake, under := e.await(id)
		if !under {
			t.Error("a run that is worked on is looked at first")
		}
		ended := &run{id: id, state: machine.State{Status: machine.Completed}}
		e.notify(ended)
		if got := <-wake; got != ended {
			t.Errorf("the word is %+v", got)
		}
		v, err := e.Wait(s.Context(), id) // for ever, if it waits for another word
		if err != nil || v.State.Status != machine.Completed {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// A wake-up without a run says that a word may have been lost: then the run is looked at,
// also when it is worked on.
func TestWhoIsWokenWithoutAWordLooks(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		e, id := s.engine, s.completed().Run
		if !e.claim(id) {
			t.Fatal("no driver")
		}
		defer e.work.Done()
		defer e.leave(id, false)
		ended := make(chan error)
		go func() {
			_, err := e.Wait(s.Context(), id)
			ended <- err
		}()
		pass(1)
		e.notifyAll()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
