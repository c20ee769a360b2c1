package saga

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/saga/machine"
)

// idle checks that nobody works on a run any more, and that nothing is taken up.
func (s *till) idle() {
	s.Helper()
	settle()
	e := s.engine
	e.mu.Lock()
	drivers, astray := len(e.drivers), len(e.astray)
	e.mu.Unlock()
	e.slots.mu.Lock()
	used, defs, hosts := e.slots.used, len(e.slots.defs), len(e.slots.hosts)
	e.slots.mu.Unlock()
	if drivers+astray+used+defs+hosts != 0 {
		s.Errorf("%d drivers, %d astray, %d slots, %d definitions and %d hosts are left", drivers, astray,
			used, defs, hosts)
	}
}

// payOf is a charge by the function, which can be looked up.
func payOf(charge func(*outside, context.Context, order) (receipt, error)) func(*outside) []*Definition {
	return func(o *outside) []*Definition {
		act := func(ctx context.Context, in order) (receipt, error) { return charge(o, ctx, in) }
		return []*Definition{New("pay").Step("charge", act, o.undo("charge"), Check(o.check("charge")),
			SettlesAfter(time.Minute), Host("bank")).Step("order", o.act("order"), nil)}
	}
}

// A function that ends its goroutine leaves its run to another one, and its outcome
// unknown.
func TestARunGoesOnWithoutItsGoroutine(t *testing.T) {
	defs := payOf(func(o *outside, ctx context.Context, in order) (receipt, error) {
		r, err := o.act("charge")(ctx, in)
		if CallOf(ctx).Try == 1 {
			runtime.Goexit()
		}
		return r, err
	})
	inTill(t, defs, func(t *testing.T, s *till) {
		v := s.completed()
		s.wantCalls("charge, check charge, order")
		s.wantLedger("charge=1 order=1")
		if h := v.History[1]; h.Note != machine.NoteUnknown || h.Text != "the function ended its goroutine" {
			t.Errorf("the history has %+v", h)
		}
		s.idle()
	})
}

// So does one that does it long after its time limit, when the run has gone on already.
func TestAFunctionThatEndsItsGoroutineLate(t *testing.T) {
	defs := payOf(func(o *outside, ctx context.Context, in order) (receipt, error) {
		if CallOf(ctx).Try == 1 {
			take(2 * time.Minute)
			runtime.Goexit()
		}
		return o.act("charge")(ctx, in)
	})
	inTill(t, defs, func(t *testing.T, s *till) {
		id := s.started()
		pass(time.Minute)
		if h := s.view(id).History; h[1].Text != "the function did not end at its time limit" {
			t.Errorf("the history is %+v", h)
		}
		pass(2 * time.Hour)
		s.wantStatus(id, machine.Completed)
		s.wantLedger("charge=1 order=1")
		s.idle()
	})
}

// told counts how often the end of each call was told.
type told struct {
	nobody
	mu    sync.Mutex
	calls map[string]int
}

func (o *told) CallEnded(c CallInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[fmt.Sprint(c.Run, c.Step, c.Kind, c.Try)]++
}

// Functions end in the very moment in which their runs go on without them. Each run has
// one driver all the same: every call is made once, its end is told once, and no run, no
// slot and no stray is left over.
func TestWhoGoesOnIsDecidedOnce(t *testing.T) {
	const limit = 10 * time.Second
	defs := func(o *outside) []*Definition {
		act := func(ctx context.Context, in order) (receipt, error) {
			take(limit + abandonAfter + time.Duration(len(in.ID)%3-1)) // before, just then, after
			return receipt{Order: in.ID, Key: DownstreamKey(ctx)}, o.perform(ctx, "charge", func() {})
		}
		return []*Definition{New("pay").Step("one", act, nil, NothingToUndo(), Timeout(limit)).
			Step("two", act, nil, Timeout(limit))}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		seen := &told{calls: map[string]int{}}
		s.stop()
		s.cfg.Calls = 1000
		s.boot()
		s.engine.cfg.Observer = seen
		const runs = 300
		var ids []string
		for i := range runs {
			in := order{ID: strings.Repeat("x", i+1)}
			st, err := s.engine.Start(s.Context(), s.def(), fmt.Sprint(i), in)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, st.Run)
		}
		pass(time.Minute)
		for _, id := range ids {
			s.wantStatus(id, machine.Completed)
		}
		if len(s.calls) != 2*runs || len(seen.calls) != 2*runs {
			t.Errorf("%d calls were made, %d ends were told", len(s.calls), len(seen.calls))
		}
		for call, n := range seen.calls {
			if n != 1 {
				t.Errorf("the end of %s was told %d times", call, n)
			}
		}
		s.idle()
	})
}

// A process that ends leaves a function behind that ignores its context, as soon as it may.
func TestTheEndDoesNotWaitForAFunctionThatGoesOn(t *testing.T) {
	defs := payOf(func(o *outside, ctx context.Context, in order) (receipt, error) {
		if CallOf(ctx).Try == 1 {
			take(time.Hour)
		}
		return o.act("charge")(ctx, in)
	})
	inTill(t, defs, func(t *testing.T, s *till) {
		s.cfg.Drain = 5 * time.Second
		s.stop()
		s.boot()
		s.started()
		settle()
		began := time.Now()
		s.stop()
		if took := time.Since(began); took != 5*time.Second+abandonAfter {
			t.Errorf("it took %v", took)
		}
		s.boot()
		pass(2 * time.Hour)
		s.idle()
	})
}
