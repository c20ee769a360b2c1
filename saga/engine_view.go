package saga

import (
	"context"
	"fmt"
	"slices"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// RunView is a run as it is shown. It is a copy.
type RunView struct {
	// Run is the id, Revision rises with every change; an act of a person names it.
	Run      string
	Revision uint64
	// Definition, Version, Key and Round name what it is a run of.
	Definition, Version, Key string
	Round                    uint64
	// Principal is whose run it is; empty for those of the program itself.
	Principal string
	// Parent is the run that this one corrects or repeats, as Link says: correction,
	// rerun or empty.
	Parent, Link string
	// Corrections says which run undoes a success of a step that became known only
	// after the end of this one; step → run. Only Get and Find tell.
	Corrections map[string]string
	// Contradictions says which words deny what is known of the run; step → word. Only Get,
	// Find and List tell.
	Contradictions map[string]Contradiction
	Labels         map[string]string
	// Created is when it began, Updated when it changed last, Ended when it ended.
	Created, Updated, Ended time.Time
	// State is all that the machine knows: the status, why, and every step.
	State machine.State
	// Next is the call that it wants next, Kind 0 when it wants none; NextAt is when,
	// or when it is woken otherwise, zero when neither.
	Next   machine.Call
	NextAt time.Time
	// Waiting is the name of the step whose signal the run waits for, or empty; see
	// [Engine.Signal]. NextAt is then when that has taken too long, zero is never.
	Waiting string
	Input   []byte
	// History is what happened; Dropped entries are missing in its middle.
	History []HistoryEntry
	Dropped int
}

// HistoryEntry is one line of a run's history.
type HistoryEntry struct {
	// At is when, Note what, Step the name of the step it is about.
	At   time.Time
	Note machine.Note
	Step string
	// Text is for people: the last reply, a reason.
	Text string
}

// Output reads what a step gave into the value that into points to.
func (v *RunView) Output(step string, into any) error {
	i := v.State.Find(step)
	if i < 0 {
		return fmt.Errorf("saga: %s has no step %q", v.Definition, step)
	}
	return decodeInto(v.State.Steps[i].Output, into)
}

func (e *Engine) view(r *run, now time.Time) *RunView {
	v := &RunView{Run: r.id, Revision: r.rev, Definition: r.def, Version: r.version, Key: r.key,
		Round: r.round, Principal: r.principal,
		Parent: r.parent, Link: linkNames[r.link], Created: r.created, Updated: r.updated, Ended: r.ended,
		State: r.state, Input: r.input, Dropped: r.dropped}
	for _, l := range r.labels {
		if v.Labels == nil {
			v.Labels = map[string]string{}
		}
		v.Labels[l.name] = l.value
	}
	if len(r.history) > 0 {
		v.History = make([]HistoryEntry, 0, len(r.history))
	}
	for _, h := range r.history {
		x := HistoryEntry{At: h.at, Note: h.note, Text: h.text}
		if h.step < len(r.state.Steps) {
			x.Step = r.state.Steps[h.step].Name
		}
		v.History = append(v.History, x)
	}
	if i := r.state.Awaits(); i >= 0 {
		v.Waiting = r.state.Steps[i].Name
	}
	if r.state.Status.Terminal() {
		return v // it wants nothing
	}
	c := e.asStored(r)
	if want, at, ok := machine.Want(c.m, &r.state); ok && c.reg != nil {
		v.Next, v.NextAt = want, at
	} else {
		v.NextAt = machine.WakeAt(c.m, &r.state, now)
	}
	return v
}

// Get returns a run; its error is [ErrNoRun] when there is none.
func (e *Engine) Get(ctx context.Context, id string) (*RunView, error) {
	v, _, err := e.get(ctx, id)
	return v, err
}

func (e *Engine) get(ctx context.Context, id string) (v *RunView, r *run, err error) {
	err = e.store.View(ctx, func(rd kv.Reader) error {
		got, err := loadRun(rd, id)
		if err != nil {
			return err
		}
		if got == nil {
			return ErrNoRun
		}
		seen := e.view(got, rd.Now())
		if err := seen.corrected(rd); err != nil {
			return err
		}
		v, r = seen, got
		return nil
	})
	return v, r, err
}

// corrected finds the corrections and the contradictions.
func (v *RunView) corrected(rd kv.Reader) error {
	for i := range v.State.Steps {
		step := v.State.Steps[i].Name
		if err := v.contradicted(rd, step); err != nil {
			return err
		}
		if !v.State.Status.Terminal() {
			continue // it has no corrections
		}
		row, ok, err := correctionTable.Get(rd, correctionKey(v.Run, step))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if v.Corrections == nil {
			v.Corrections = map[string]string{}
		}
		v.Corrections[step] = row.Run
	}
	return nil
}

// Find returns the last run of a business key of the program itself; see FindKey.
func (e *Engine) Find(ctx context.Context, definition, key string) (v *RunView, err error) {
	return e.FindKey(ctx, RunKey{Definition: definition, Key: key})
}

// FindKey returns the last run of a business key. When the run is no longer kept, the
// view has no more than its id, key, round and status. The error is [ErrNoRun] when
// the key was never used.
func (e *Engine) FindKey(ctx context.Context, k RunKey) (v *RunView, err error) {
	err = e.store.View(ctx, func(rd kv.Reader) error {
		row, ok, err := keyTable.Get(rd, k.row())
		if err != nil {
			return err
		}
		if !ok {
			return ErrNoRun
		}
		r, err := loadRun(rd, row.Run)
		if err != nil {
			return err
		}
		if r != nil {
			v = e.view(r, rd.Now())
			return v.corrected(rd)
		}
		v = &RunView{Run: row.Run, Definition: k.Definition, Principal: k.Principal, Key: k.Key,
			Round: row.Round, State: machine.State{Status: row.Status}}
		return nil
	})
	return v, err
}

// Wait waits until the run has ended or needs a person. It returns the run and nil
// when it has completed, and the run and a [Failure] otherwise. When ctx ends first
// the error is that of ctx; the run goes on. [ErrNotServing] is the error when Serve was
// not called for 10 s; it does not end the run either.
func (e *Engine) Wait(ctx context.Context, id string) (*RunView, error) {
	served, stop := e.servedSoon()
	defer stop()
	for first := true; ; first = false {
		wake, under := e.await(id)
		var v *RunView
		if !under || !first { // woken without a run: what it has come to may have been lost
			seen, r, err := e.get(ctx, id)
			if err != nil {
				e.forget(id, wake)
				return nil, err
			}
			if s := r.state.Status; s.Terminal() || s == machine.Held || s == machine.Stuck {
				e.forget(id, wake)
				return seen, r.failure()
			}
			v = seen
		}
		select {
		case r := <-wake:
			if r != nil { // as it was stored: it has no corrections yet
				return e.view(r, e.cfg.Clock.Now()), r.failure()
			}
		case <-served:
			e.forget(id, wake)
			if served = nil; !e.serving.Load() {
				v, _, err := e.get(ctx, id)
				if err == nil {
					err = fmt.Errorf("%w: run %s is stored", ErrNotServing, id)
				}
				return v, err
			}
		case <-ctx.Done():
			e.forget(id, wake)
			if v == nil {
				var err error
				if v, _, err = e.get(context.WithoutCancel(ctx), id); err != nil {
					return nil, err
				}
			}
			return v, fmt.Errorf("saga: run %s goes on%s: %w", id, e.notWoken(id), context.Cause(ctx))
		}
	}
}

// waiting gets the run that ended or needs a person; closed without one it means that
// the run needs a look.
type waiting chan *run

// await registers one that waits. under is true when the run is worked on and has come
// to nothing yet: then it need not be looked at first.
func (e *Engine) await(id string) (wake waiting, under bool) {
	wake = make(waiting, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters[id] = append(e.waiters[id], wake)
	d := e.drivers[id]
	return wake, d != nil && !d.told
}

func (e *Engine) forget(id string, wake waiting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := slices.DeleteFunc(e.waiters[id], func(c waiting) bool { return c == wake })
	if e.waiters[id] = left; len(left) == 0 {
		delete(e.waiters, id)
	}
}

// notifyAll has everybody who waits look again.
func (e *Engine) notifyAll() {
	e.mu.Lock()
	all := e.waiters
	e.waiters = map[string][]waiting{}
	e.mu.Unlock()
	for _, of := range all {
		for _, c := range of {
			close(c)
		}
	}
}

// notify tells who waits for the run what it has come to. r is no more changed.
func (e *Engine) notify(r *run) {
	e.mu.Lock()
	wakes := e.waiters[r.id]
	delete(e.waiters, r.id)
	if d := e.drivers[r.id]; d != nil {
		d.told = true
	}
	e.mu.Unlock()
	for _, c := range wakes {
		c <- r
	}
}

// NeedPerson counts the runs that wait for a person, up to 10,000 of each kind.
func (e *Engine) NeedPerson(ctx context.Context) (held, stuck int, err error) {
	err = e.store.View(ctx, func(rd kv.Reader) error {
		var n [2]int
		for i, c := range []class{classHeld, classStuck} {
			r := kv.Key{}.Uint(uint64(c)).Range()
			r.Limit = kv.MaxScanRows
			for _, err := range rd.Scan(openTable, r) {
				if err != nil {
					return err
				}
				n[i]++
			}
		}
		held, stuck = n[0], n[1]
		return nil
	})
	return held, stuck, err
}

// Contradicted counts the words that came after an instant and deny what is known of a run,
// those of the newest 10,000 at most, and returns when the last of all came. Of several
// words about one step the last counts.
func (e *Engine) Contradicted(ctx context.Context, after time.Time) (n int, last time.Time, err error) {
	err = e.store.View(ctx, func(rd kv.Reader) error {
		n, last = 0, time.Time{}
		for x, err := range contradictionTable.Scan(rd, kv.Range{Reverse: true, Limit: kv.MaxScanRows}) {
			if err != nil {
				return err
			}
			if x.Value.At.After(after) {
				n++
			}
			if x.Value.At.After(last) {
				last = x.Value.At
			}
		}
		return nil
	})
	return n, last, err
}
