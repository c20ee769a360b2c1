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
	// Parent is the run that this one corrects or repeats, as Link says: correction,
	// rerun or empty.
	Parent, Link string
	Labels       map[string]string
	// Created is when it began, Updated when it changed last, Ended when it ended.
	Created, Updated, Ended time.Time
	// State is all that the machine knows: the status, why, and every step.
	State machine.State
	// Next is the call that it wants next, Kind 0 when it wants none; NextAt is when,
	// or when it is woken otherwise, zero when neither.
	Next   machine.Call
	NextAt time.Time
	Input  []byte
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
		Round:  r.round,
		Parent: r.parent, Link: linkNames[r.link], Created: r.created, Updated: r.updated, Ended: r.ended,
		State: r.state, Input: r.input, Dropped: r.dropped}
	for _, l := range r.labels {
		if v.Labels == nil {
			v.Labels = map[string]string{}
		}
		v.Labels[l.name] = l.value
	}
	for _, h := range r.history {
		x := HistoryEntry{At: h.at, Note: h.note, Text: h.text}
		if h.step < len(r.state.Steps) {
			x.Step = r.state.Steps[h.step].Name
		}
		v.History = append(v.History, x)
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
		v, r = e.view(got, rd.Now()), got
		return nil
	})
	return v, r, err
}

// Find returns the last run of a business key. When the run is no longer kept, the
// view has no more than its id, key, round and status.
func (e *Engine) Find(ctx context.Context, definition, key string) (v *RunView, err error) {
	err = e.store.View(ctx, func(rd kv.Reader) error {
		row, ok, err := keyTable.Get(rd, businessKey(definition, key))
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
			return nil
		}
		v = &RunView{Run: row.Run, Definition: definition, Key: key, Round: row.Round,
			State: machine.State{Status: row.Status}}
		return nil
	})
	return v, err
}

// Wait waits until the run has ended or needs a person. It returns the run and nil
// when it has completed, and the run and a [Failure] otherwise. When ctx ends first
// the error is that of ctx; the run goes on.
func (e *Engine) Wait(ctx context.Context, id string) (*RunView, error) {
	for {
		wake := make(chan struct{})
		e.mu.Lock()
		e.waiters[id] = append(e.waiters[id], wake)
		e.mu.Unlock()
		v, r, err := e.get(ctx, id)
		if err != nil {
			e.forget(id, wake)
			return nil, err
		}
		if s := r.state.Status; s.Terminal() || s == machine.Held || s == machine.Stuck {
			e.forget(id, wake)
			return v, r.failure()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			e.forget(id, wake)
			return v, fmt.Errorf("saga: run %s goes on: %w", id, context.Cause(ctx))
		}
	}
}

func (e *Engine) forget(id string, wake chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := slices.DeleteFunc(e.waiters[id], func(c chan struct{}) bool { return c == wake })
	if e.waiters[id] = left; len(left) == 0 {
		delete(e.waiters, id)
	}
}

// notify wakes who waits for the run.
func (e *Engine) notify(id string) {
	e.mu.Lock()
	waiting := e.waiters[id]
	delete(e.waiters, id)
	e.mu.Unlock()
	for _, c := range waiting {
		close(c)
	}
}

// Query selects runs for [Engine.List]. Empty fields select all.
type Query struct {
	Definition, Key string
	Statuses        []machine.Status
	Label, Value    string    // a label and its value
	From, To        time.Time // the time of creation: from, and before
	Limit           int       // 0 means 50, at most 500
	// Cursor is what the page before gave; it stays good while runs are added.
	Cursor string
}

// listScan bounds the rows that one call of List reads.
const listScan = 2000

// List returns runs, newest first, without their inputs and histories. next is the
// cursor of the page after it, empty at the end. A page can be shorter than the
// limit, or empty, and have a next one: a call reads a bounded number of rows.
func (e *Engine) List(ctx context.Context, q Query) (page []*RunView, next string, err error) {
	if q.Limit <= 0 {
		q.Limit = 50
	}
	q.Limit = min(q.Limit, 500)
	err = e.store.View(ctx, func(rd kv.Reader) error {
		got, cursor, err := e.listPage(rd, &q)
		page, next = got, cursor
		return err
	})
	return page, next, err
}

func (e *Engine) listPage(rd kv.Reader, q *Query) (page []*RunView, next string, err error) {
	if len(q.Statuses) == 1 && q.Statuses[0] == machine.Held {
		return e.listClass(rd, q, classHeld)
	}
	if len(q.Statuses) == 1 && q.Statuses[0] == machine.Stuck {
		return e.listClass(rd, q, classStuck)
	}
	r := kv.Range{Reverse: true, Limit: listScan}
	if q.Cursor != "" {
		r.To = runKey(q.Cursor)
	}
	seen := 0
	for row, err := range runTable.Scan(rd, r) {
		if err != nil {
			return nil, "", err
		}
		id := kv.DecodeKey(row.Key).String()
		seen++
		stored, err := decodeRun(id, row.Value.Body)
		if err != nil { // the rules report it
			stored = &run{id: id, created: q.From}
		}
		if !q.From.IsZero() && stored.created.Before(q.From) {
			return page, "", nil // ids are ordered by time
		}
		if err == nil && q.selects(stored) {
			v := e.view(stored, rd.Now())
			v.Input, v.History = nil, nil
			page = append(page, v)
		}
		if len(page) == q.Limit || seen == listScan {
			return page, id, nil
		}
	}
	return page, "", nil
}

// listClass lists what needs a person by its index, however many other runs there are.
func (e *Engine) listClass(rd kv.Reader, q *Query, c class) (page []*RunView, next string, err error) {
	r := kv.Key{}.Uint(uint64(c)).Range()
	r.Reverse, r.Limit = true, listScan
	if q.Cursor != "" {
		r.To = openKey(c, q.Cursor)
	}
	seen := 0
	for x, err := range rd.Scan(openTable, r) {
		if err != nil {
			return nil, "", err
		}
		seen++
		d := kv.DecodeKey(x.Key)
		_, id := d.Uint(), d.String()
		stored, err := loadRun(rd, id)
		fits := err == nil && stored != nil && (q.From.IsZero() || !stored.created.Before(q.From))
		if fits && q.selects(stored) { // what cannot be read the rules report
			v := e.view(stored, rd.Now())
			v.Input, v.History = nil, nil
			page = append(page, v)
		}
		if len(page) == q.Limit || seen == listScan {
			return page, id, nil
		}
	}
	return page, "", nil
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

func (q *Query) selects(r *run) bool {
	hasLabel := func(l label) bool { return l.name == q.Label && (q.Value == "" || l.value == q.Value) }
	return (q.Definition == "" || r.def == q.Definition) && (q.Key == "" || r.key == q.Key) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.state.Status)) &&
		(q.To.IsZero() || r.created.Before(q.To)) &&
		(q.Label == "" || slices.ContainsFunc(r.labels, hasLabel))
}
