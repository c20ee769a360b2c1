package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// abandonAfter is how long a function may go on after its time limit. Then its run
// goes on without it.
const abandonAfter = time.Second

// maxError bounds the text of an error that is kept, in bytes.
const maxError = 500

// work is one call to make. Its run is one that is saved, and that nobody changes.
type work struct {
	r    *run
	reg  *registered
	call machine.Call
}

func (c *change) work(call machine.Call) *work {
	return &work{r: c.r, reg: c.reg, call: call}
}

func (w *work) step() *stepDef { return w.reg.steps[w.call.Step] }

// describe fills in what the function gets.
func (d *drive) describe(w *work, c *Call) {
	r, st := w.r, &w.r.state.Steps[w.call.Step]
	*c = Call{Run: r.id, Definition: r.def, Version: r.version, Key: r.key, Round: r.round, Step: st.Name,
		Principal: r.principal, Kind: w.call.Kind, Try: w.call.Try, LastSend: st.LastSend, Input: r.input,
		Out: st.Output, reason: st.Error, state: &r.state, cache: &d.cache}
	c.ActionKey = callKey(d.keyOfKind(machine.Action, r.principal), w.step().key, c, 0)
	c.DownstreamKey = c.ActionKey
	if w.call.Kind == machine.Undo {
		c.DownstreamKey = callKey(d.keyOfKind(machine.Undo, r.principal), w.step().key, c, w.call.UndoNo)
	}
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

// calling is a call under way, and the context of its function. It is in one of three
// states, and who swaps over first decides in which it leaves the first:
//
//	under way   the driver's goroutine is in the function
//	ended       the function has ended: its goroutine has the drive still, and goes on.
//	            If it was ended by runtime.Goexit a new goroutine goes on in its place
//	overdue     the function was still under way abandonAfter past the end of the context:
//	            the goroutine of the watch has the drive now, and goes on. The other is a
//	            stray: it has nothing but what the function says later, which may be news
//
// There is no way back. So one goroutine has the drive at a time, and one leaves each call
// with it.
type calling struct {
	context.Context // ends at the time limit, or with the calls of the engine

	d    *drive
	w    *work
	over atomic.Bool

	call   Call            // the function's: it may do with it what it likes
	key    string          // the downstream key
	ctx    context.Context // the function's: this one, or with a span
	cancel context.CancelFunc
	strays int // of the step, before a look-up
	began  time.Time
	span   func(error, ...slog.Attr) // ends it; nil is none
}

// Value implements [context.Context].
func (c *calling) Value(key any) any {
	switch key.(type) {
	case downstreamKey:
		return c.key
	case callContext:
		return &c.call
	}
	return c.Context.Value(key)
}

// begin makes ready for the call.
func (d *drive) begin(w *work) *calling {
	c := &calling{d: d, w: w, began: d.e.cfg.Clock.Now()}
	d.describe(w, &c.call)
	c.key = c.call.DownstreamKey
	c.Context, c.cancel = context.WithTimeout(d.e.calls, w.step().timeout)
	if c.ctx = c; d.e.cfg.Tracer != nil {
		c.trace(d.e.cfg.Tracer)
	}
	if w.call.Kind == machine.Look {
		c.strays = d.e.stray(w.place(), 0)
	}
	return c
}

// perform calls the function, and says how it ended. mine is false when the drive has
// gone to another goroutine.
func (c *calling) perform() (ev machine.Event, mine bool) {
	unwatch := context.AfterFunc(c.Context, func() { time.AfterFunc(abandonAfter, c.takeOver) })
	ended := false
	defer func() {
		unwatch() // before the context ends, of which it would be told
		c.cancel()
		if ended {
			return
		}
		if ev := c.w.event(machine.OutcomeUnknown); c.ends() {
			ev.Text = "the function ended its goroutine"
			go c.d.goOn(func() turn { return c.ended(ev) })
		}
	}()
	ev = c.w.run(c.ctx, &c.call)
	if ended = true; !c.ends() {
		if ev.Outcome == machine.OutcomeDone && ev.Kind == machine.Result {
			c.d.e.lateResult(c.w.r.id, ev)
		}
		return ev, false
	}
	if ev.Outcome == machine.OutcomeAbsent && c.strays > 0 {
		ev.Sending, ev.Text = true, "an earlier call has not ended, against its time limit"
	}
	return ev, true
}

// ends takes note that the function has ended, and reports whether it was in time.
func (c *calling) ends() bool {
	if c.over.Swap(true) {
		c.d.e.stray(c.w.place(), -1)
		return false
	}
	return true
}

// takeOver goes on without the function, unless it has ended. It counts the stray before
// it goes on: only who has the drive asks for the count.
func (c *calling) takeOver() {
	if c.over.Swap(true) {
		return
	}
	c.d.e.stray(c.w.place(), 1)
	ev := c.w.event(machine.OutcomeUnknown)
	ev.Text = "the function did not end at its time limit"
	c.d.goOn(func() turn { return c.ended(ev) })
}

// ended tells how the call has ended, and begins the next.
func (c *calling) ended(ev machine.Event) turn {
	c.tell(ev)
	return c.d.next(c.w, ev)
}

func (e *Engine) lateResult(id string, ev machine.Event) {
	_ = e.persist("store a late success", id, guarded(func(w kv.Writer) error { // it is logged
		c, err := e.edit(w, id)
		if err != nil || c == nil {
			return err
		}
		if err := c.apply(ev); err != nil {
			return err
		}
		return c.save()
	}))
}

// event is the event that the call has ended.
func (w *work) event(o machine.Outcome) machine.Event {
	if w.call.Kind == machine.Look {
		return machine.Event{Kind: machine.Found, Step: w.call.Step, Outcome: o}
	}
	return machine.Event{Kind: machine.Result, Call: w.call, Outcome: o}
}

// run calls the function of the step.
func (w *work) run(ctx context.Context, c *Call) (ev machine.Event) {
	defer func() {
		if p := recover(); p != nil {
			ev = w.failed(&PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	var out []byte
	var err error
	found, step := true, w.step()
	switch w.call.Kind {
	case machine.Undo:
		err = step.undo(ctx, c)
	case machine.Look:
		out, found, err = step.check(ctx, c)
	default:
		out, err = step.act(ctx, c)
	}
	if err != nil {
		if kept, ok := errors.AsType[*unencodable](err); ok {
			ev = w.event(machine.OutcomeDone)
			ev.Text = kept.Error()
			return ev
		}
		ev = w.failed(err)
		if ev.Begun && len(out) <= MaxData {
			ev.Data = out
		}
		return ev
	}
	if !found {
		return w.event(machine.OutcomeAbsent)
	}
	ev = w.event(machine.OutcomeDone)
	if ev.Data = out; len(out) > MaxData {
		ev.Data = nil
		ev.Text = fmt.Sprintf("it happened; its output of %d bytes was not kept, the limit is %d",
			len(out), MaxData)
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

// trace begins the span of the call.
func (c *calling) trace(t Tracer) {
	r := c.w.r
	attrs := []slog.Attr{slog.String("definition", r.def), slog.String("step", c.w.step().name)}
	if r.trace != "" {
		attrs = append(attrs, slog.String("link.traceparent", r.trace))
	}
	c.ctx, c.span = t.Start(c, "saga "+c.w.call.Kind.String(), attrs...)
}

// tell tells who watches how the call has ended.
func (c *calling) tell(ev machine.Event) {
	r, call, step := c.w.r, &c.w.call, c.w.step()
	info := CallInfo{Run: r.id, Definition: r.def, Version: r.version, Step: step.name,
		Kind: call.Kind.String(), Outcome: ev.Outcome.String(), Host: step.host, Try: call.Try,
		Took: c.d.e.cfg.Clock.Now().Sub(c.began)}
	if c.span != nil {
		c.span(nil, slog.String("outcome", info.Outcome))
	}
	c.d.e.cfg.Observer.CallEnded(info)
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
