package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// Act is what a person does to a run.
type Act struct {
	// Verb is what; machine.Verb says what comes of each.
	Verb machine.Verb
	// Step is what mark_done, mark_not_done and skip are about.
	Step string
	// Output is what a step that is marked as done gave: JSON, or nil.
	Output []byte
	// Actor is who acts, Reason is why; both are required.
	Actor, Reason string
	// Revision is the run's that the person saw; 0 acts on whatever there is.
	Revision uint64
}

// maxReason bounds the texts of a person, in bytes.
const maxReason = 1000

func (a *Act) check() error {
	switch {
	case a.Actor == "" || len(a.Actor) > MaxRunKey:
		return &InputError{Field: "actor", Problem: fmt.Sprintf("must have 1 to %d bytes", MaxRunKey)}
	case a.Reason == "" || len(a.Reason) > maxReason:
		return &InputError{Field: "reason", Problem: fmt.Sprintf("must have 1 to %d bytes", maxReason)}
	case len(a.Output) > MaxData || len(a.Output) > 0 && !json.Valid(a.Output):
		return &InputError{Field: "output", Problem: fmt.Sprintf("must be JSON of at most %d bytes", MaxData)}
	}
	return nil
}

// Operate carries out an act of a person at once, also during a pause. Act and run
// commit together, with a notification "operator.run.<verb>" in the feed. Its errors
// are [ErrNoRun], [ErrVersion], an [InputError], or a machine.Error that says why the
// state does not allow it; then nothing has changed.
func (e *Engine) Operate(ctx context.Context, id string, a Act) (v *RunView, err error) {
	err = e.store.Update(ctx, func(w kv.Writer) error {
		got, err := e.OperateTx(w, id, a)
		v = got
		return err
	})
	e.inDoubt(ctx, err)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// OperateTx is [Engine.Operate] in the caller's transaction.
func (e *Engine) OperateTx(w kv.Writer, id string, a Act) (*RunView, error) {
	return e.operate(w, id, a, nil)
}

// operate acts on the run if it is still one of those that were selected.
func (e *Engine) operate(w kv.Writer, id string, a Act, of *Query) (*RunView, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	c, err := e.edit(w, id)
	if err != nil {
		return nil, err
	}
	if c == nil || of != nil && !of.selects(c.r) {
		return nil, ErrNoRun
	}
	if a.Revision != 0 && a.Revision != c.r.rev {
		return nil, ErrVersion
	}
	if c.reg == nil && a.Verb != machine.Close {
		return nil, &machine.Error{Status: c.r.state.Status,
			Problem: c.missing.Error() + "; until then it can only be closed"}
	}
	ev := machine.Event{Kind: machine.Operate, Verb: a.Verb, Text: a.Reason, Data: a.Output}
	c.who = a.Actor
	if a.Verb == machine.MarkDone || a.Verb == machine.MarkNotDone || a.Verb == machine.Skip {
		if ev.Step = c.r.state.Find(a.Step); ev.Step < 0 {
			return nil, &InputError{Field: "step", Problem: fmt.Sprintf("%q is none of %s", a.Step, c.r.def)}
		}
	}
	if err := c.apply(ev); err != nil {
		return nil, err
	}
	if err := c.audit(a.Verb.String(), a); err != nil {
		return nil, err
	}
	if err := c.save(); err != nil {
		return nil, err
	}
	return e.view(c.r, w.Now()), nil
}

// audit puts the act of a person into the feed.
func (c *change) audit(verb string, a Act) error {
	n := c.r.notice()
	n.Actor, n.Reason = a.Actor, a.Reason
	if a.Step != "" {
		n.Step = a.Step
	}
	rev := strconv.FormatUint(c.r.rev+1, 10)
	return c.append("operator.run."+verb, n, "run", c.r.id, "operator", verb, rev)
}

// Rerun starts a run anew that has ended, with its input, for the same key and in
// the next round: every step gets new downstream keys. The new run names the old.
// It is refused while the key has another run that counts.
func (e *Engine) Rerun(ctx context.Context, id string, a Act) (Started, error) {
	if err := a.check(); err != nil {
		return Started{}, err
	}
	newID, err := e.newID()
	if err != nil {
		return Started{}, err
	}
	var out Started
	err = e.store.Update(ctx, func(w kv.Writer) error {
		c, err := e.edit(w, id)
		if err != nil {
			return err
		}
		if c == nil {
			return ErrNoRun
		}
		if a.Revision != 0 && a.Revision != c.r.rev {
			return ErrVersion
		}
		if !c.r.state.Status.Terminal() || c.r.link == linkCorrection {
			return &machine.Error{Status: c.r.state.Status,
				Problem: "only a run that has ended can be run again, " +
					"and no correction"}
		}
		req := StartRequest{Definition: c.r.def, Principal: c.r.principal, Key: c.r.key,
			Input: c.r.input, Labels: map[string]string{}}
		for _, l := range c.r.labels {
			req.Labels[l.name] = l.value
		}
		reg, err := e.checked(&req)
		if err != nil {
			return err
		}
		b := &beginning{e: e, req: &req, reg: reg, id: newID, parent: id}
		if err := b.run(w); err != nil {
			return err
		}
		out = b.started
		return c.audit("rerun", a)
	})
	e.inDoubt(ctx, err)
	return out, err
}

// Bulk selects runs that have not ended for [Engine.OperateAll].
type Bulk struct {
	// Definition selects one definition, Statuses some states; empty is all.
	Definition string
	Statuses   []machine.Status
	// Principal, Key, Label with its Value, and the time of creation (from From, and
	// before To) select further, as in a [Query].
	Principal, Key, Label, Value string
	From, To                     time.Time
	// Limit is the most runs; 0 means 1000.
	Limit int
	// Cursor is the Next of the call before.
	Cursor string
	// DryRun changes nothing, and says what would be done.
	DryRun bool
}

// BulkResult is the answer of [Engine.OperateAll].
type BulkResult struct {
	// Acted are the runs that were, or would be, acted on.
	Acted []string
	// Refused are those whose state does not allow it, with the reason.
	Refused map[string]string
	// More is true when there may be more than the limit; Next is then the Cursor of the
	// call that goes on.
	More bool
	Next string
}

// errDry takes the changes of a dry run back.
var errDry = errors.New("saga: a dry run")

// OperateAll carries out an act on all selected runs, each in a transaction of its
// own. Runs that have ended are neither offered nor counted, nor are those that are
// no longer what was selected when their turn comes. Act.Revision must be 0. After an
// error the result says what was done so far.
func (e *Engine) OperateAll(ctx context.Context, b Bulk, a Act) (BulkResult, error) {
	out := BulkResult{Refused: map[string]string{}}
	if err := a.check(); err != nil {
		return out, err
	}
	if a.Revision != 0 {
		return out, &InputError{Field: "revision", Problem: "is that of one run; leave it out"}
	}
	if b.Limit <= 0 {
		b.Limit = 1000
	}
	q, _ := b.query()
	ids, next, err := e.selectOpen(ctx, b)
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		err := e.store.Update(ctx, func(w kv.Writer) error {
			_, err := e.operate(w, id, a, &q)
			if err == nil && b.DryRun {
				return errDry
			}
			return err
		})
		e.inDoubt(ctx, err)
		var state *machine.Error
		var input *InputError
		switch {
		case err == nil, errors.Is(err, errDry):
			out.Acted = append(out.Acted, id)
		case errors.As(err, &state):
			out.Refused[id] = state.Problem
		case errors.As(err, &input): // it has no such step
			out.Refused[id] = input.Field + " " + input.Problem
		case errors.Is(err, ErrNoRun):
		default:
			out.More = true
			return out, err
		}
		out.Next = id
	}
	out.Next, out.More = next, next != ""
	return out, nil
}

// openStatuses are those of runs that have not ended.
var openStatuses = []machine.Status{machine.Running, machine.Compensating, machine.Held, machine.Stuck}

// query selects what has not ended.
func (b *Bulk) query() (q Query, some bool) {
	q = Query{Definition: b.Definition, Principal: b.Principal, Key: b.Key, Label: b.Label, Value: b.Value,
		From: b.From, To: b.To, Cursor: b.Cursor, Limit: 500}
	for _, s := range openStatuses {
		if len(b.Statuses) == 0 || slices.Contains(b.Statuses, s) {
			q.Statuses = append(q.Statuses, s)
		}
	}
	return q, len(q.Statuses) > 0
}

// selectOpen lists what is selected, the newest first, and where to go on.
func (e *Engine) selectOpen(ctx context.Context, b Bulk) (ids []string, next string, err error) {
	q, some := b.query()
	for some {
		q.Limit = min(500, b.Limit-len(ids))
		page, cursor, err := e.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for _, v := range page {
			ids = append(ids, v.Run)
		}
		if q.Cursor = cursor; cursor == "" || len(ids) == b.Limit {
			return ids, cursor, nil
		}
	}
	return nil, "", nil
}
