package saga

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// driver works on one run. There is at most one per run, so a call that is under way
// in this process is its own.
type driver struct {
	dirty bool    // the run has changed by other hands
	told  bool    // who waited for the run has been told what it has come to
	waits *ticket // for its slot; nil when it has one
}

// enqueue has the run worked on when a slot is free. A run that waits for another slot
// changes over: what it waited for may never be free.
func (e *Engine) enqueue(id string, s slot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.drivers[id]
	switch {
	case d != nil && (d.waits == nil || d.waits.slot == s || !e.slots.withdraw(d.waits)):
		d.dirty = true
		return
	case d == nil && e.draining.Load():
		return
	case d == nil:
		d = &driver{}
		e.drivers[id] = d
	}
	d.waits = e.slots.acquire(s, func() {
		if !e.begins(id) {
			e.slots.release(s)
			e.leave(id, false)
			return
		}
		d := e.newDrive(id, s)
		d.goOn(d.first)
	})
}

// claim makes the caller the driver of a new run, and counts it in, unless nothing may
// begin any more.
func (e *Engine) claim(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining.Load() {
		return false
	}
	e.drivers[id] = &driver{}
	e.work.Add(1)
	return true
}

// begins counts the driver of a run in, unless nothing may begin any more.
func (e *Engine) begins(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining.Load() {
		return false
	}
	e.drivers[id].waits = nil
	e.work.Add(1)
	return true
}

// leave ends a driver, and looks again if the run has changed meanwhile.
func (e *Engine) leave(id string, again bool) {
	e.mu.Lock()
	if d := e.drivers[id]; d != nil {
		again = again || d.dirty
	}
	delete(e.drivers, id)
	e.mu.Unlock()
	if again && !e.draining.Load() {
		e.lookAgain(id)
	}
}

// lookAgain enqueues the run if a call is due. It waits until the store answers, or
// nothing may begin any more. What is in doubt until a restart is looked at then.
func (e *Engine) lookAgain(id string) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		next, due, err := e.isDue(id)
		if err == nil {
			if due {
				e.enqueue(id, next)
			}
			return
		}
		e.cfg.Logger.Error("saga: a run cannot be read", "run", id, "error", err, "tries_again", !final(err))
		if final(err) {
			return
		}
		select {
		case <-e.drains:
			return
		case <-time.After(pause):
		}
	}
}

// isDue reads whether a call of the run is due, and the slot that it takes up.
func (e *Engine) isDue(id string) (next slot, due bool, err error) {
	err = e.store.View(context.Background(), func(rd kv.Reader) error {
		r, err := loadRun(rd, id)
		if err != nil || r == nil {
			return err
		}
		c := e.asStored(r)
		next, due = c.slot(), c.class(rd.Now()) == classDue
		return nil
	})
	return next, due, err
}

// asStored is a change that changes nothing, to look at a run.
func (e *Engine) asStored(r *run) *change {
	c := &change{e: e, r: r, was: r.state.Status}
	if c.reg, c.missing = e.definition(r); c.missing != nil {
		c.m = unknownDef(&r.state)
		return c
	}
	c.m = c.reg.m
	return c
}

// drive is the work on one run, from call to call. It holds a slot, and has been counted
// in. One goroutine at a time has it, and only that one touches it: who gets it from whom
// is decided in [calling].
type drive struct {
	e      *Engine
	id     string
	slot   slot
	update func(kv.Writer) error // transaction, guarded
	cache  runCache              // of its calls
	kinds  [2]kv.Key             // see keyOfKind

	// What the next transaction is about: how the last call ended, if there was one, and
	// the hosts to which the one after it may go.
	last   *work
	ev     machine.Event
	random uint32
	other  string

	turn turn // what the transaction has found out

	// Room for the run's row, and for the effects of an event.
	buf     []byte
	effects []machine.Effect
}

// turn is what a transaction of a driver finds out.
type turn struct {
	work  *work // the call to make
	again bool  // another slot is needed
}

func (e *Engine) newDrive(id string, s slot) *drive {
	d := &drive{e: e, id: id, slot: s}
	d.update = guarded(d.transaction)
	return d
}

// keyOfKind makes the part of the run's keys of that name once.
func (d *drive) keyOfKind(k machine.Kind, principal string) kv.Key {
	of := &d.kinds[0]
	if k == machine.Undo {
		of = &d.kinds[1]
	}
	if *of == nil {
		*of = keyOfKind(k, principal)
	}
	return *of
}

// goOn makes the calls of the run as long as one is due, from the turn on that is to be
// found out first.
func (d *drive) goOn(first func() turn) {
	mine := true
	defer func() {
		if mine {
			d.e.work.Done()
		}
	}()
	t := first()
	for t.work != nil {
		c := d.begin(t.work)
		mine = false
		ev, ok := c.perform()
		if mine = ok; !mine {
			return
		}
		t = c.ended(ev)
	}
	d.e.slots.release(d.slot)
	d.e.leave(d.id, t.again)
}

// first begins the call that is due.
func (d *drive) first() turn {
	d.e.mu.Lock()
	d.e.drivers[d.id].dirty = false // what has changed so far is about to be read
	d.e.mu.Unlock()
	d.last, d.random, d.other = nil, d.e.random(), d.slot.host
	return d.persist("begin a call")
}

// next stores how a call ended and, in the same transaction, begins the one after
// it, if its slot is held already.
func (d *drive) next(done *work, ev machine.Event) turn {
	other, held := d.otherHost(done, &ev)
	d.last, d.ev, d.other = done, ev, d.slot.host
	if held {
		d.other = other
	}
	d.ev.Random = d.e.random()
	d.random = d.e.random()
	t := d.persist("store how a call ended")
	if held {
		d.keepOne(other, t.work)
	}
	return t
}

func (d *drive) persist(what string) turn {
	if err := d.e.persist(what, d.id, d.update); err != nil {
		return turn{}
	}
	return d.turn
}

// transaction stores how the last call ended, if there was one, and begins the next. It
// may run again.
func (d *drive) transaction(w kv.Writer) error {
	d.turn = turn{}
	c, err := d.e.edit(w, d.id)
	if err != nil || c == nil {
		return err
	}
	c.by, c.buf, c.effects = true, d.buf, d.effects
	if d.last != nil {
		if err := c.apply(d.ev); err != nil {
			return err
		}
	}
	got, err := c.goOn(d.random, d.slot.host, d.other)
	if err == nil {
		err = c.save()
	}
	d.turn, d.buf, d.effects = got, c.buf, c.effects
	return err
}

// goOn begins the next call if it is due and goes to one of the hosts. A call that
// is under way already was begun by this driver in a commit that was in doubt.
func (c *change) goOn(random uint32, host, other string) (turn, error) {
	s := &c.r.state
	if c.reg == nil || s.Status.Terminal() { // closed by a person, its last call may still stand there
		return turn{}, nil
	}
	if call, ok := s.InFlight(); ok {
		return turn{work: c.work(call)}, nil
	}
	want, at, ok := machine.Want(c.m, s)
	if !ok || at.After(c.w.Now()) || c.e.draining.Load() {
		return turn{}, nil
	}
	if to := c.reg.steps[want.Step].host; to != host && to != other {
		return turn{again: true}, nil
	}
	if want.Kind == machine.Look { // it has no effect, and needs no intent
		return turn{work: c.work(want)}, nil
	}
	begin := machine.Event{Kind: machine.Begin, Random: random,
		Sending: c.e.stray(place{c.r.id, want.Step}, 0) > 0}
	if err := c.apply(begin); err != nil {
		return turn{}, err
	}
	if !c.called { // it was too late for the call, or too early
		return turn{again: true}, nil
	}
	return turn{work: c.work(c.call)}, nil
}

// otherHost takes the place at the host of the call that probably comes next, when
// it is another one.
func (d *drive) otherHost(done *work, ev *machine.Event) (host string, held bool) {
	i := done.call.Step + 1
	if done.call.Kind == machine.Undo || ev.Outcome == machine.OutcomeRefused {
		i = done.call.Step - 1
	}
	if i < 0 || i >= len(done.reg.steps) {
		return "", false
	}
	if host = done.reg.steps[i].host; host == d.slot.host {
		return "", false
	}
	return host, d.e.slots.tryHost(host)
}

// keepOne keeps the place that is needed, and gives the other back.
func (d *drive) keepOne(other string, w *work) {
	if w != nil && w.reg.steps[w.call.Step].host == other {
		d.slot.host, other = other, d.slot.host
	}
	d.e.slots.releaseHost(other)
}

// persist runs an update of a driver, which is guarded, until it is committed. It gives up only when
// the store takes no more, when the run cannot be read, or when the engine has
// drained: what is under way is then unknown at the next start. A run on which the
// engine itself fails is held, and harms no other.
func (e *Engine) persist(what, id string, fn func(kv.Writer) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := e.store.Update(context.Background(), fn)
		if err == nil {
			return nil
		}
		if bug, ok := errors.AsType[*PanicError](err); ok {
			e.cfg.Logger.Error("saga: cannot "+what, "run", id, "error", err, "stack", string(bug.Stack))
			e.park(id, "the engine cannot "+what+": "+bug.Error())
			return err
		}
		if errors.Is(err, kv.ErrCommitUnknown) {
			defer e.doubtful(id)
		}
		e.cfg.Logger.Error("saga: cannot "+what, "run", id, "error", err, "tries_again", !final(err))
		if final(err) || !e.pause(e.calls, pause) {
			return err
		}
	}
}

// The pauses between tries of the store.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
)

// final reports that trying again does not help.
func final(err error) bool {
	var state *machine.Error
	var doubt *kv.DoubtError // until a restart
	return errors.As(err, &doubt) || errors.Is(err, kv.ErrStopped) || errors.Is(err, kv.ErrClosed) ||
		errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer) || errors.As(err, &state)
}

// guarded turns a panic of a closure into an error.
func guarded(fn func(kv.Writer) error) func(kv.Writer) error {
	return func(w kv.Writer) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
		return fn(w)
	}
}

// park holds a run on which the engine failed. What it had under way is unknown.
func (e *Engine) park(id, why string) {
	err := e.store.Update(context.Background(), guarded(func(w kv.Writer) error {
		c, err := e.edit(w, id)
		if err != nil || c == nil || c.reg == nil {
			return err
		}
		err = c.apply(machine.Event{Kind: machine.Recover})
		if err == nil {
			err = c.apply(machine.Event{Kind: machine.Park, Hold: machine.HoldBroken, Text: cut(why,
				maxError) + "; retry goes on with it"})
		}
		if err != nil {
			return err
		}
		return c.save()
	}))
	if err != nil {
		e.cfg.Logger.Error("saga: a run cannot be held; it is looked at again at the next start",
			"run", id, "error", err)
	}
}
