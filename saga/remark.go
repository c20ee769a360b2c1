package saga

import (
	"context"
	"fmt"
	"slices"

	"onced/kv"
	"onced/saga/machine"
)

// Remark puts a text into the history of a run, about a word of a callee that could not
// be read: a callback without the field that is wanted, for example. Nothing else
// changes. The same text about the same step is put there once; a run that has ended is
// left as it is. The text must hold no secret. The error is [ErrNoRun], an [InputError]
// or the store's.
func (e *Engine) Remark(ctx context.Context, run, step, text string) error {
	err := e.store.Update(ctx, func(w kv.Writer) error {
		c, err := e.edit(w, run)
		if err != nil {
			return err
		}
		if c == nil {
			return ErrNoRun
		}
		i := c.r.state.Find(step)
		if i < 0 {
			return &InputError{Field: "step", Problem: fmt.Sprintf("%q is none of %s", step, c.r.def)}
		}
		x := machine.Effect{Kind: machine.EffectNote, Note: machine.NoteUnclear, Step: i,
			Text: cut(text, maxNote)}
		if c.was.Terminal() || slices.ContainsFunc(c.r.history, func(h entry) bool {
			return h.note == x.Note && h.step == i && h.text == x.Text
		}) {
			return nil
		}
		c.note(&x)
		return c.save()
	})
	e.inDoubt(ctx, err)
	return err
}
