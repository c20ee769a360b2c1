package saga

import (
	"context"
	"slices"
	"strings"
	"time"

	"onced/kv"
	"onced/kv/timer"
	"onced/saga/machine"
)

// brokenAfter is how often a timer of a run may fail before the run is held.
const brokenAfter = 5

// wake is the handler of the timers: it runs in the transaction that removes one.
func (e *Engine) wake(_ context.Context, w kv.Writer, t timer.Timer) error {
	c, err := e.edit(w, t.Owner)
	if err != nil || c == nil || !c.r.wake.Equal(t.Due) {
		return err // a timer of the past is nothing to the run
	}
	c.r.wake = time.Time{} // the runner has removed it
	ev := machine.Event{Kind: machine.Wake}
	if t.Attempts >= brokenAfter {
		ev = machine.Event{Kind: machine.Park, Hold: machine.HoldBroken,
			Text: "it cannot be woken: " + t.LastError + "; retry goes on with it"}
	}
	if c.reg != nil {
		if err := c.apply(ev); err != nil {
			return err
		}
	}
	return c.save()
}

// openRun is a run of the index, with what a resumption must know.
type openRun struct {
	id, def, host string
	released      bool   // it was held for want of its definition, which is there now
	missing       string // what is wrong with its definition, or empty
}

// openPage reads a page of the index and the runs it names.
func (e *Engine) openPage(ctx context.Context, r kv.Range) (page []openRun, err error) {
	err = e.store.View(ctx, func(rd kv.Reader) error {
		var got []openRun
		for x, err := range rd.Scan(openTable, r) {
			if err != nil {
				return err
			}
			d := kv.DecodeKey(x.Key)
			_, id := d.Uint(), d.String()
			o := openRun{id: id}
			if stored, err := loadRun(rd, id); err == nil && stored != nil {
				c := e.asStored(stored)
				s := c.slot()
				o.def, o.host = s.def, s.host
				if c.missing != nil {
					o.missing = c.missing.Error()
				}
				o.released = stored.state.Hold == machine.HoldDefinition && c.reg != nil
			} // what cannot be read is found by the rules, and by who works on it
			got = append(got, o)
		}
		page = got
		return nil
	})
	return page, err
}

// release lets a run go on that was held for want of its definition.
func (e *Engine) release(id string) {
	_ = e.persist("let a held run go on", id, guarded(func(w kv.Writer) error { // it is logged
		c, err := e.edit(w, id)
		if err != nil || c == nil || c.reg == nil || c.r.state.Hold != machine.HoldDefinition {
			return err
		}
		if err := c.apply(machine.Event{Kind: machine.Wake}); err != nil {
			return err
		}
		return c.save()
	}))
}

// correct opens the run that undoes a success that became known too late. If the step
// has one it is told: what it has ended with may be no more true.
func (c *change) correct(ev machine.Event) error {
	i := ev.Step
	if ev.Kind == machine.Result {
		i = ev.Call.Step
	}
	ev.Step = i
	k := correctionKey(c.r.id, c.r.state.Steps[i].Name)
	row, ok, err := correctionTable.Get(c.w, k)
	if err != nil || c.reg == nil {
		return err
	}
	if ok {
		return c.tellCorrection(row.Run, ev)
	}
	id, err := c.e.newID()
	if err != nil {
		return err
	}
	if err := correctionTable.Put(c.w, k, correctionRow{Run: id}); err != nil {
		return err
	}
	r := *c.r
	r.id, r.parent, r.link, r.rev, r.class = id, c.r.id, linkCorrection, 0, classEnded
	r.created, r.history, r.dropped = c.w.Now(), nil, 0
	r.ended, r.wake = time.Time{}, time.Time{}
	n := &change{e: c.e, w: c.w, r: &r, key: runKey(id), reg: c.reg, m: c.m}
	state, effects := machine.Correction(c.m, c.r.state, ev, c.w.Now())
	r.state = state
	if err := n.carryOut(effects, ev); err != nil {
		return err
	}
	return n.save()
}

// tellCorrection passes a success on to the run that corrects its step.
func (c *change) tellCorrection(id string, ev machine.Event) error {
	next, err := c.e.edit(c.w, id)
	if err != nil || next == nil || next.reg == nil {
		return err
	}
	ev.Kind, ev.Call = machine.Signal, machine.Call{}
	if err := next.apply(ev); err != nil {
		return err
	}
	return next.save()
}

func sortedLabels(m map[string]string) []label {
	out := make([]label, 0, len(m))
	for name, value := range m {
		out = append(out, label{name, value})
	}
	slices.SortFunc(out, func(a, b label) int { return strings.Compare(a.name, b.name) })
	return out
}
