package saga

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"onced/kv/claim"
)

// typedNil is the classic: an error that is not nil and panics when it is read.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

type badReason struct{ error }

func (badReason) Reason() string { panic("no reason") }

type badResult struct{}

func (badResult) MarshalJSON() ([]byte, error) { runtime.Goexit(); return nil, nil }

func (*badResult) UnmarshalJSON([]byte) error { return nil }

// Whatever breaks after the effect, the key is unknown and in nobody's hands.
func TestIK26_OutcomesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var none *typedNil
	for name, err := range map[string]error{
		"refusal of a typed nil":  Refused(none),
		"reason that panics":      badReason{errors.New("broken")},
		"typed nil":               none,
		"typed nil, not happened": NotDone(none),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.gate.set(nil, func(context.Context, order) error { return err })
			inGoroutine(func() { _, _ = r.charge().Do(r.Context(), theOrder) })
			if got := r.state(r.charge()); got == claim.Pending || got == claim.Done {
				t.Errorf("the key is %v", got)
			}
		})
	}
	t.Run("result that ends the goroutine", func(t *testing.T) {
		r := newRig(t)
		o, err := NewOperation(r.book, "odd", func(context.Context, order) (badResult, error) {
			return badResult{}, nil
		}, Key(func(o order) string { return o.ID }))
		if err != nil {
			t.Fatal(err)
		}
		inGoroutine(func() { _, _ = o.Do(r.Context(), theOrder) })
		c, ok, err := r.book.Get(r.Context(), o.ID(theOrder))
		if err != nil || !ok || c.Record.State != claim.Unknown {
			t.Errorf("the key is %v (%v, %v)", c.Record.State, ok, err)
		}
	})
}

// inGoroutine runs f to its end, by whatever way.
func inGoroutine(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		f()
	}()
	<-ended
}
