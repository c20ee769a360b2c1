package saga

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/saga/machine"
)

// A step without an action would wait for a signal that nobody knows of.
func TestAStepWithoutAnActionSaysThatItAwaits(t *testing.T) {
	t.Parallel()
	undo := func(context.Context, order, receipt) error { return nil }
	var e *ConfigError
	if err := New("x").Step("a", nil, undo).Err(); !errors.As(err, &e) ||
		!strings.Contains(err.Error(), "use Await") {
		t.Errorf("the error is %v", err)
	}
	for _, d := range []*Definition{New("x").Step("a", nil, undo, AwaitSignal()),
		New("x").Step("a", nil, undo, AwaitFor(time.Hour)), New("x").Await("a")} {
		if err := d.Err(); err != nil {
			t.Error(err)
		}
	}
}

// All steps get the input of the run: another type is a mistake, in whichever function.
func TestTheStepsOfADefinitionTakeOneInput(t *testing.T) {
	t.Parallel()
	o := newOutside()
	act := func(context.Context, int) (receipt, error) { return receipt{}, nil }
	undo := func(context.Context, int, receipt) error { return nil }
	check := func(context.Context, int, Doubt) (receipt, bool, error) { return receipt{}, false, nil }
	untyped := func(context.Context, *Call) ([]byte, error) { return nil, nil }
	first := func() *Definition { return New("x").Step("a", o.act("a"), o.undo("a")) }
	for name, d := range map[string]*Definition{
		"action": first().Step("b", act, undo),
		"undo":   first().Step("b", untyped, undo),
		"check":  first().Step("b", untyped, nil, Check(check)),
	} {
		err := d.Err()
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "takes the input int") ||
			!strings.Contains(err.Error(), "saga.order") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if err := first().Step("b", untyped, nil).Err(); err != nil {
		t.Error(err)
	}
}

func TestAnInputThatDoesNotFitIsNotStarted(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		var e *InputError
		_, err := s.engine.Start(t.Context(), s.def(), theOrder.ID, "text")
		if !errors.As(err, &e) || e.Field != "input" || !strings.Contains(e.Problem, "saga.order") {
			t.Fatalf("the error is %v", err)
		}
		if _, err := s.engine.Find(t.Context(), "pay", theOrder.ID); !errors.Is(err, ErrNoRun) {
			t.Errorf("its key has a run: %v", err)
		}
		s.completed()
	})
}

// otherOrder is what order has become in a program with a mistake.
type otherOrder struct {
	ID int `json:"ID"`
}

// wrongSteps are those of twoSteps, of a program with other types.
func wrongSteps(opts ...Option) []*Definition {
	act := func(context.Context, otherOrder) (receipt, error) { return receipt{}, nil }
	undo := func(context.Context, otherOrder, receipt) error { return nil }
	return []*Definition{New("pay").Step("charge", act, undo, opts...).Step("order", act, nil)}
}

// A program whose types do not fit its open runs does no harm: nothing is sent, and
// nothing undone, until it is corrected.
func TestAnInputThatNoLongerFitsHoldsTheRun(t *testing.T) {
	inTill(t, twoSteps(Repeatable(time.Hour)), func(t *testing.T, s *till) {
		s.plan["order"] = []string{"retry=1m"}
		id := s.started()
		settle()
		s.stop()
		right := s.defs
		s.defs = wrongSteps()
		s.boot()
		pass(2 * time.Minute)
		for range 2 {
			v := s.wantStatus(id, machine.Held)
			if v.State.Hold != machine.HoldBroken || !strings.Contains(v.State.Reason, "then retry") {
				t.Fatalf("held for %s: %s", v.State.Hold, v.State.Reason)
			}
			s.mustAct(machine.Retry, id, "") // it is not corrected yet
			pass(time.Hour)
		}
		s.stop()
		s.defs = right
		s.boot()
		s.wantStatus(id, machine.Held)
		s.mustAct(machine.Retry, id, "")
		settle()
		s.wantStatus(id, machine.Completed)
		s.wantCalls("charge, order, order")
	})
}

// The same for an undo, which waits for a person at once, and for a look-up.
func TestUndosAndLookUpsThatNoLongerFitWaitForAPerson(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["order"] = []string{"retry=1m"}
		id := s.started()
		settle()
		s.stop()
		right := s.defs
		s.defs = wrongSteps()
		s.boot()
		s.mustAct(machine.Cancel, id, "")
		settle()
		if v := s.wantStatus(id, machine.Stuck); v.State.Steps[0].UndoSends != 1 ||
			!strings.Contains(v.State.Reason, "; retry sends the undo again") {
			t.Errorf("%d undos; %s", v.State.Steps[0].UndoSends, v.State.Reason)
		}
		s.stop()
		s.defs = right
		s.boot()
		s.mustAct(machine.Retry, id, "")
		settle()
		s.wantStatus(id, machine.Compensated)
		s.wantLedger("")
	})
}

func TestALookUpThatNoLongerFitsIsNotCounted(t *testing.T) {
	check := func(context.Context, otherOrder, Doubt) (receipt, bool, error) { return receipt{}, false, nil }
	inTill(t, func(o *outside) []*Definition { return twoSteps(Check(o.check("charge")))(o) },
		func(t *testing.T, s *till) {
			s.plan["charge"] = []string{"hang"}
			id := s.started()
			settle()
			s.kill()
			right := s.defs
			s.defs = wrongSteps(Check(check))
			s.boot()
			settle()
			if v := s.wantStatus(id, machine.Held); v.State.Hold != machine.HoldBroken ||
				v.State.Steps[0].Looks != 0 {
				t.Fatalf("held for %s after %d", v.State.Hold, v.State.Steps[0].Looks)
			}
			s.stop()
			s.defs = right
			s.boot()
			s.mustAct(machine.Retry, id, "")
			pass(time.Hour)
			s.wantStatus(id, machine.Completed)
		})
}

// awaited is a charge that a webhook finishes, with a look-up that answers as said.
func awaited(found bool, says error) func(*outside) []*Definition {
	return func(o *outside) []*Definition {
		look := func(ctx context.Context, in order, d Doubt) (receipt, bool, error) {
			_, _, _ = o.check("charge")(ctx, in, d)
			return receipt{Order: in.ID, Key: d.DownstreamKey}, found, says
		}
		return twoSteps(AwaitSignal(), Check(look))(o)
	}
}

// A crash during the action of a step that awaits a signal, and a look-up that finds
// that it has begun: it waits for the signal, which nothing but that can bring.
func TestALookUpThatFindsItBegunWaitsForTheSignal(t *testing.T) {
	inTill(t, awaited(false, Begun(errors.New("pending"))), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"hang"}
		id := s.started()
		settle()
		s.kill()
		s.boot()
		pass(1000 * time.Hour)
		if v := s.wantStatus(id, machine.Running); v.Waiting != "charge" || !v.NextAt.IsZero() {
			t.Fatalf("it waits for %q until %v", v.Waiting, v.NextAt)
		}
		s.wantCalls("charge, check charge")
		s.signal(id, "charge", false)
		settle()
		v := s.wantStatus(id, machine.Completed)
		var r receipt
		if err := v.Output("charge", &r); err != nil || r.Order != theOrder.ID || v.Waiting != "" {
			t.Errorf("the output is %+v, %v; it waits for %q", r, err, v.Waiting)
		}
	})
}

// Found means finished; and what a look-up cannot tell is asked again, while a signal
// counts.
func TestLookUpsOfAStepThatAwaitsASignal(t *testing.T) {
	inTill(t, awaited(true, nil), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		s.completed()
		s.wantCalls("charge, check charge, order")
	})
}

func TestAnUnfinishedLookUpIsAskedAgainAndTheSignalCounts(t *testing.T) {
	inTill(t, awaited(false, Unfinished(time.Minute, errors.New("202"))), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"lost"}
		id := s.started()
		pass(90 * time.Second)
		s.wantCalls("charge, check charge, check charge")
		s.signal(id, "charge", false)
		settle()
		s.wantStatus(id, machine.Completed)
	})
}

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// The steps of a definition have changed without a new version. What waits for a signal
// is told about in the log, who sends the signal is told what is wrong, and what is
// held goes on by itself when the steps are back.
func TestStepsThatChangedWithoutANewVersion(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		id := s.started()
		settle()
		s.stop()
		right := s.defs
		s.defs = []*Definition{New("pay").Step("charge", s.outside.act("charge"), s.undo("charge"),
			AwaitSignal()).
			Step("mail", s.outside.act("mail"), nil)}
		log := &logged{}
		s.cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		s.boot()
		settle()
		const problem = "definition pay version 1 has other steps than the run"
		if text := log.text(); strings.Count(text, problem) != 1 || !strings.Contains(text, "level=WARN") ||
			!strings.Contains(text, "runs=1") {
			t.Errorf("the log is %q", text)
		}
		var input *InputError
		err := s.engine.Signal(t.Context(), Signal{Run: id, Step: "charge"})
		if !errors.As(err, &input) || !strings.Contains(err.Error(), problem) ||
			!strings.Contains(err.Error(), "then send the signal again") {
			t.Errorf("the signal is answered with %v", err)
		}
		var state *machine.Error
		if err := s.act(machine.Retry, id, ""); !errors.As(err, &state) ||
			!strings.Contains(err.Error(), problem) ||
			!strings.Contains(err.Error(), "only be closed") {
			t.Errorf("a person is told %v", err)
		}
		s.stop()
		s.defs = right
		s.boot()
		s.signal(id, "charge", false)
		settle()
		s.wantStatus(id, machine.Completed)
	})
}

func TestWhatIsHeldForItsStepsGoesOnByItselfWhenTheyAreBack(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.plan["charge"] = []string{"retry=1m"}
		id := s.started()
		settle()
		s.stop()
		right := s.defs
		s.defs = []*Definition{New("pay").Step("charge", s.outside.act("charge"), s.undo("charge")).
			Step("mail", s.outside.act("mail"), nil)}
		s.boot()
		pass(2 * time.Minute)
		v := s.wantStatus(id, machine.Held)
		if v.State.Hold != machine.HoldDefinition || !strings.Contains(v.State.Reason, "goes on by itself") {
			t.Fatalf("held for %s: %s", v.State.Hold, v.State.Reason)
		}
		s.stop()
		s.defs = right
		s.boot()
		settle()
		s.wantStatus(id, machine.Completed)
	})
}

// Nobody has called Serve: whoever waits is told, and not for ever.
func TestWaitSaysThatNobodyServes(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.stop()
		timers := s.prepare()
		began := time.Now()
		v, err := s.run()
		if !errors.Is(err, ErrNotServing) || !strings.Contains(err.Error(), "Engine.Serve") || v == nil {
			t.Fatalf("%+v, %v", v, err)
		}
		if took := time.Since(began); took != notServedAfter {
			t.Errorf("it took %v", took)
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.run() // begun before Serve, and that is in time
			done <- err
		}()
		pass(notServedAfter / 2)
		s.serve(timers)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The timers do not run: whoever has waited for a run that should have been woken is
// told where to look.
func TestWaitSaysThatTheTimersDoNotRun(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.stop()
		s.prepare()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 2)
		s.cancel, s.ended = cancel, ended
		ended <- nil
		go func() { ended <- s.engine.Serve(ctx) }()
		s.plan["charge"] = []string{"retry=1m"}
		for limit, want := range map[time.Duration]bool{30 * time.Second: false, 5 * time.Minute: true} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			_, err := s.engine.Run(ctx, s.def(), "o-"+limit.String(), theOrder)
			cancel()
			s.plan["charge"] = []string{"retry=1m"}
			if !errors.Is(err, context.DeadlineExceeded) ||
				strings.Contains(err.Error(), "is Run of Config.Timers running?") != want {
				t.Errorf("after %v: %v", limit, err)
			}
		}
	})
}
