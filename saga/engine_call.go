package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// abandonAfter is how long a function may go on after its time limit. Then its run
// goes on without it.
const abandonAfter = time.Second

// maxError bounds the text of an error that is kept, in bytes.
const maxError = 500

// work is one call to make. Its run is a copy that nobody changes.
type work struct {
	r    *run
	reg  *registered
	call machine.Call
}

func (c *change) work(call machine.Call) *work {
	r := *c.r
	return &work{r: &r, reg: c.reg, call: call}
}

// describe makes what the function gets.
func (w *work) describe() *Call {
	r, st := w.r, &w.r.state.Steps[w.call.Step]
	c := &Call{Run: r.id, Definition: r.def, Version: r.version, Key: r.key, Round: r.round, Step: st.Name,
		Principal: r.principal, Kind: w.call.Kind, Try: w.call.Try, LastSend: st.LastSend, Input: r.input,
		Out: st.Output, reason: st.Error, state: &r.state}
	c.ActionKey = callKey(c, machine.Action, 0)
	c.DownstreamKey = c.ActionKey
	if w.call.Kind == machine.Undo {
		c.DownstreamKey = callKey(c, machine.Undo, w.call.UndoNo)
	}
	return c
}

// place is a step of a run.
type place struct {
	run  string
	step int
}

func (w *work) place() place { return place{w.r.id, w.call.Step} }

// stray counts the functions of a step that go on past their time.
func (e *Engine) stray(p place, n int) (now int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now = e.astray[p] + n; now == 0 {
		delete(e.astray, p)
	} else {
		e.astray[p] = now
	}
	return now
}

// perform makes the call, and says how it ended.
func (e *Engine) perform(w *work) machine.Event {
	step := w.reg.steps[w.call.Step]
	desc := w.describe()
	ctx, cancel := context.WithTimeout(e.calls, step.timeout)
	defer cancel()
	ctx = context.WithValue(ctx, downstreamKey{}, desc.DownstreamKey)
	ctx = context.WithValue(ctx, callContext{}, desc)
	ctx, end := e.observe(ctx, w)
	strays := e.stray(w.place(), 0)
	done := make(chan machine.Event, 1)
	go func() {
		ev := w.event(machine.OutcomeUnknown)
		ev.Text = "the function ended its goroutine"
		defer func() { done <- ev }()
		ev = w.run(ctx, step, desc)
	}()
	var ev machine.Event
	select {
	case ev = <-done:
	case <-ctx.Done():
		ev = e.overdue(w, done)
	}
	if ev.Outcome == machine.OutcomeAbsent && strays > 0 {
		ev.Sending, ev.Text = true, "an earlier call has not ended, against its time limit"
	}
	end(ev)
	return ev
}

// overdue waits a little for a function past its time limit.
func (e *Engine) overdue(w *work, done chan machine.Event) machine.Event {
	t := time.NewTimer(abandonAfter)
	defer t.Stop()
	select {
	case ev := <-done:
		return ev
	case <-t.C:
	}
	e.stray(w.place(), 1)
	go func() { // what it says later may still be news
		ev := <-done
		e.stray(w.place(), -1)
		if ev.Outcome == machine.OutcomeDone && ev.Kind == machine.Result {
			e.lateResult(w.r.id, ev)
		}
	}()
	ev := w.event(machine.OutcomeUnknown)
	ev.Text = "the function did not end at its time limit"
	return ev
}

func (e *Engine) lateResult(id string, ev machine.Event) {
	_ = e.persist("store a late success", id, func(w kv.Writer) error { // it is logged
		c, err := e.edit(w, id)
		if err != nil || c == nil {
			return err
		}
		if err := c.apply(ev); err != nil {
			return err
		}
		return c.save()
	})
}

// event is the event that the call has ended.
func (w *work) event(o machine.Outcome) machine.Event {
	if w.call.Kind == machine.Look {
		return machine.Event{Kind: machine.Found, Step: w.call.Step, Outcome: o}
	}
	return machine.Event{Kind: machine.Result, Call: w.call, Outcome: o}
}

// run calls the function of the step.
func (w *work) run(ctx context.Context, step *stepDef, c *Call) (ev machine.Event) {
	defer func() {
		if p := recover(); p != nil {
			ev = w.failed(&PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	var out []byte
	var err error
	found := true
	switch w.call.Kind {
	case machine.Undo:
		err = step.undo(ctx, c)
	case machine.Look:
		out, found, err = step.check(ctx, c)
	default:
		out, err = step.act(ctx, c)
	}
	var kept *unencodable
	switch {
	case errors.As(err, &kept):
		ev = w.event(machine.OutcomeDone)
		ev.Text = kept.Error()
	case err != nil:
		ev = w.failed(err)
		if ev.Begun && len(out) <= MaxData {
			ev.Data = out
		}
		return ev
	case !found:
		return w.event(machine.OutcomeAbsent)
	default:
		ev = w.event(machine.OutcomeDone)
		if ev.Data = out; len(out) > MaxData {
			ev.Data = nil
			ev.Text = fmt.Sprintf("it happened; its output of %d bytes was not kept, the limit is %d",
				len(out), MaxData)
		}
	}
	return ev
}

// failed says what an error means. The text of an error that is not marked is not
// kept: it may hold what only the caller may see.
func (w *work) failed(err error) machine.Event {
	ev := w.event(machine.OutcomeUnknown)
	if u, ok := errors.AsType[*unreadable](err); ok {
		ev.Outcome, ev.Hold, ev.Text = machine.OutcomeRetry, machine.HoldBroken, cut(u.Error(), maxError)
		return ev
	}
	m := markOf(err)
	if m == nil {
		ev.Text = reasonOf(err)
		return ev
	}
	ev.After, ev.Begun = m.after, m.begun && w.call.Kind == machine.Look
	ev.Text = cut(err.Error(), maxError)
	switch m.outcome {
	case OutcomeRefused:
		ev.Outcome = machine.OutcomeRefused
		refusal := m.refusal(err)
		ev.Code = cut(refusal.Code, MaxName)
		if refusal.Message != "" {
			ev.Text = cut(refusal.Message, maxError)
		}
	case OutcomeRetry:
		ev.Outcome = machine.OutcomeRetry
		if m.blocked {
			w.blocked(&ev)
		}
	case OutcomeUnknown, OutcomeDone: // an error is no proof that it is done
	}
	if w.call.Kind == machine.Look && ev.Outcome == machine.OutcomeRetry {
		ev.Outcome = machine.OutcomeUnknown // a look-up that could not be made tells nothing
	}
	return ev
}

// observe begins to watch a call.
func (e *Engine) observe(ctx context.Context, w *work) (context.Context, func(machine.Event)) {
	info := CallInfo{Run: w.r.id, Definition: w.r.def, Version: w.r.version,
		Step: w.r.state.Steps[w.call.Step].Name, Kind: w.call.Kind.String(), Try: w.call.Try,
		Host: w.reg.steps[w.call.Step].host}
	began := e.cfg.Clock.Now()
	endSpan := func(error, ...slog.Attr) {}
	if e.cfg.Tracer != nil {
		attrs := []slog.Attr{slog.String("definition", info.Definition), slog.String("step", info.Step)}
		if w.r.trace != "" {
			attrs = append(attrs, slog.String("link.traceparent", w.r.trace))
		}
		ctx, endSpan = e.cfg.Tracer.Start(ctx, "saga "+info.Kind, attrs...)
	}
	return ctx, func(ev machine.Event) {
		info.Outcome, info.Took = ev.Outcome.String(), e.cfg.Clock.Now().Sub(began)
		endSpan(nil, slog.String("outcome", info.Outcome))
		e.cfg.Observer.CallEnded(info)
	}
}

// Unfinished marks err as an answer that the effect is under way, or may be: the
// outcome is unknown, and is asked for again after the given time. It is for replies
// such as 202 and 409 of callees that honour keys. In a look-up it tells as little: it
// is asked again, within [Attempts], and a signal that comes meanwhile counts; see
// [Begun] for one that has found the effect.
func Unfinished(after time.Duration, err error) error {
	return &mark{outcome: OutcomeUnknown, after: max(0, after), err: err}
}

// Begun is the answer of a [Check] of a step with [AwaitSignal] that has found the
// action, and that it has only begun: the run waits for the signal again. What is
// returned beside it is kept as the output of the action.
//
//	return payment, false, saga.Begun(nil)
//
// err is for the history, and may be nil. From all other functions, and from a look-up
// after the time of [AwaitFor], it is an unknown outcome.
func Begun(err error) error { return &mark{begun: true, err: err} }
