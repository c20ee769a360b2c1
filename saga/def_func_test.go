package saga

import (
	"context"
	"sync"
	"testing"

	"onced/saga/machine"
)

// TestWhatIsMadeOfTheInput: it is made once for all calls of a run, and each time where
// a call is alone.
func TestWhatIsMadeOfTheInput(t *testing.T) {
	made := 0
	makeIt := func() any { made++; return made }
	alone := &Call{}
	if a, b := alone.Cached(makeIt), alone.Cached(makeIt); a != 1 || b != 2 {
		t.Errorf("a call that is alone gets %v and %v, want 1 and 2", a, b)
	}
	cache := &runCache{}
	var all sync.WaitGroup
	for range 8 { // a call that overstays its time, and the next one
		all.Go(func() {
			if got := (&Call{cache: cache}).Cached(makeIt); got != 3 {
				t.Errorf("a call of the run gets %v, want 3", got)
			}
		})
	}
	all.Wait()
	if got := (&Call{cache: &runCache{}}).Cached(makeIt); got != 4 {
		t.Errorf("a call of another run gets %v, want 4", got)
	}
}

// TestWhatWasNotMadeIsMadeLater: a call whose making of it panics leaves nothing behind.
func TestWhatWasNotMadeIsMadeLater(t *testing.T) {
	cache := &runCache{}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		(&Call{cache: cache}).Cached(func() any { panic("bug") })
	}()
	for range 2 {
		if got := (&Call{cache: cache}).Cached(func() any { return 5 }); got != 5 {
			t.Errorf("the next call gets %v, want 5", got)
		}
	}
}

// A callee has seen the keys of before: they never change, and the second call of a run
// gets the same as the first.
func TestKeysStayWhatTheyAre(t *testing.T) {
	act := func(context.Context, *Call) ([]byte, error) { return nil, nil }
	undo := func(context.Context, *Call) error { return nil }
	reg := &registered{Definition: New("checkout").Step("charge", act, undo)}
	for principal, want := range map[string][2]string{
		"":     {"oc_fwrydzvjguavapdu7gyqfqmbm54ixa3p", "oc_lgqgc3ue4gsopuuxdckz4avz3slbdmls"},
		"shop": {"oc_5cvo7px4rtmowyh3l4dnyxlqtwqoac7h", "oc_kguwxnbyoxrzdlpjtszvnxvi4iy3chuw"},
	} {
		d := &drive{}
		r := &run{def: "checkout", principal: principal, key: "order-1001", round: 2,
			state: machine.State{Steps: make([]machine.StepState, 1)}}
		for range 2 {
			var c Call
			d.describe(&work{r: r, reg: reg, call: machine.Call{Kind: machine.Undo, UndoNo: 3}}, &c)
			if got := [2]string{c.ActionKey, c.DownstreamKey}; got != want {
				t.Errorf("of %q: %q, want %q", principal, got, want)
			}
		}
	}
}
