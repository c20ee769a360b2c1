package saga

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"onced/saga/machine"
)

// blockable is a definition whose step a is blocked while the world says so.
func blockable(opts ...Option) func(*outside) []*Definition {
	return func(o *outside) []*Definition {
		type function = func(context.Context, *Call) error
		blocked := func(call string, f function) function {
			return func(ctx context.Context, c *Call) error {
				o.mu.Lock()
				wrong := len(o.plan["blocked "+call]) > 0
				if wrong {
					o.calls = append(o.calls, "blocked "+call)
				}
				o.mu.Unlock()
				if wrong {
					return Blocked(0, errors.New("401 from the gateway"))
				}
				return f(ctx, c)
			}
		}
		act := func(step string) func(context.Context, *Call) ([]byte, error) {
			f := blocked(step, func(ctx context.Context, _ *Call) error {
				return o.perform(ctx, step, func() {})
			})
			return func(ctx context.Context, c *Call) ([]byte, error) { return nil, f(ctx, c) }
		}
		undo := func(step string) func(context.Context, *Call) error {
			return blocked("undo "+step, func(ctx context.Context, _ *Call) error {
				return o.perform(ctx, "undo "+step, func() {})
			})
		}
		opts := append([]Option{Attempts(3), UndoAttempts(2)}, opts...)
		return []*Definition{New("pay").Step("a", act("a"), undo("a"), opts...).
			Step("b", act("b"), undo("b"), opts...).Step("c", act("c"), nil)}
	}
}

func TestABlockedCallHoldsItsRunAndUndoesNothing(t *testing.T) {
	inTill(t, blockable(), func(t *testing.T, s *till) {
		s.plan["blocked b"] = []string{"yes"}
		_, err := s.engine.Run(t.Context(), s.defs[0], theOrder.ID, theOrder)
		if err == nil {
			t.Fatal("the run has completed")
		}
		v, err := s.engine.Find(t.Context(), "pay", theOrder.ID)
		if err != nil {
			t.Fatal(err)
		}
		if v.State.Status != machine.Held || v.State.Hold != machine.HoldBroken ||
			v.State.Reason != "401 from the gateway; correct that, then retry" {
			t.Errorf("the run is %s for %s: %s", v.State.Status, v.State.Hold, v.State.Reason)
		}
		if got := s.made(); got != "a, blocked b, blocked b, blocked b" {
			t.Errorf("the calls are %s", got)
		}
		s.mu.Lock()
		delete(s.plan, "blocked b")
		s.plan["b"] = []string{"retry", "retry", ""} // its tries begin anew
		s.mu.Unlock()
		if _, err := s.engine.Operate(t.Context(), v.Run, Act{Verb: machine.Retry, Actor: "ann",
			Reason: "the key is renewed"}); err != nil {
			t.Fatal(err)
		}
		if v, err = s.engine.Wait(t.Context(), v.Run); err != nil || v.State.Status != machine.Completed {
			t.Errorf("the run is %+v, %v; calls: %s", v.State, err, s.made())
		}
	})
}

func TestABlockedCallIsMadeAgainByItself(t *testing.T) {
	inTill(t, blockable(), func(t *testing.T, s *till) {
		s.plan["blocked a"] = []string{"yes"}
		time.AfterFunc(time.Second/2, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.plan, "blocked a")
		})
		if _, err := s.engine.Run(t.Context(), s.defs[0], theOrder.ID, theOrder); err != nil {
			t.Errorf("the run ends with %v; calls: %s", err, s.made())
		}
	})
}

func TestABlockedUndoIsStuckWhenItsTriesAreUsedUp(t *testing.T) {
	inTill(t, blockable(), func(t *testing.T, s *till) {
		s.plan["blocked undo a"] = []string{"yes"}
		s.plan["b"] = []string{"refused"}
		_, _ = s.engine.Run(t.Context(), s.defs[0], theOrder.ID, theOrder)
		v, err := s.engine.Find(t.Context(), "pay", theOrder.ID)
		if err != nil || v.State.Status != machine.Stuck || !strings.Contains(v.State.Reason, "401") {
			t.Errorf("the run is %+v, %v", v, err)
		}
		if got := s.made(); got != "a, b, blocked undo a, blocked undo a" {
			t.Errorf("the calls are %s", got)
		}
	})
}

// What a step has come to is one value, however it ended.
func TestSettledIsOneValue(t *testing.T) {
	t.Parallel()
	st := func(s machine.StepState) *Call {
		s.Name = "a"
		return &Call{state: &machine.State{Steps: []machine.StepState{s}}}
	}
	for name, c := range map[string]struct {
		call *Call
		want string
		ok   bool
	}{
		"by its signal": {st(machine.StepState{Status: machine.Done, Output: []byte("reply"),
			Signal: machine.OutcomeDone, SignalData: []byte("word")}), "word", true},
		"by a signal without data": {st(machine.StepState{Status: machine.Done, Output: []byte("reply"),
			Signal: machine.OutcomeDone}), "reply", true},
		"by a look-up": {st(machine.StepState{Status: machine.Done, Output: []byte("seen")}), "seen", true},
		"by a person after a refusal": {st(machine.StepState{Status: machine.Done, Output: []byte("said"),
			Signal: machine.OutcomeRefused, SignalData: []byte("no")}), "said", true},
		"in a correction":        {st(machine.StepState{SignalData: []byte("word")}), "word", true},
		"not yet":                {st(machine.StepState{Status: machine.Waiting}), "", false},
		"with nothing":           {st(machine.StepState{Status: machine.Done}), "", true},
		"of a call by itself":    {&Call{}, "", false},
		"of another definition?": {&Call{state: &machine.State{}}, "", false},
	} {
		if got, ok := c.call.Settled("a"); string(got) != c.want || ok != c.ok {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}
