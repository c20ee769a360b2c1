package saga

import (
	"context"
	"errors"
	"time"

	"onced/kv"
)

// sureAfter is how long a commit may take. Then nobody will be told of it any more.
const sureAfter = 5 * time.Second

// expectations are runs of which a commit is to come that somebody must be told of.
// A commit whose outcome is in doubt calls no hook, and the transaction may be
// somebody else's: that of a timer, of a webhook. So the hook that does not come is
// noticed here. What was rolled back is looked at in vain, once.
type expectations struct {
	fresh, old map[string]struct{} // of this period and of the one before
	ticking    bool
}

// expect notes that a commit is to come. It is called in a transaction, which may be
// run again or rolled back: it promises no more than a look.
func (e *Engine) expect(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := &e.commits
	if x.fresh == nil {
		x.fresh, x.old = map[string]struct{}{}, map[string]struct{}{}
	}
	x.fresh[id] = struct{}{}
	if !x.ticking && !e.draining.Load() {
		x.ticking = true
		time.AfterFunc(sureAfter, e.lookForCommits)
	}
}

// confirm notes that it has come.
func (e *Engine) confirm(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.commits.fresh, id)
	delete(e.commits.old, id)
}

// lookForCommits looks at the runs whose commit has not come for a period.
func (e *Engine) lookForCommits() {
	e.mu.Lock()
	x := &e.commits
	lost := x.old
	x.fresh, x.old = map[string]struct{}{}, x.fresh
	if x.ticking = len(x.old) > 0 && !e.draining.Load(); x.ticking {
		time.AfterFunc(sureAfter, e.lookForCommits)
	}
	e.mu.Unlock()
	if len(lost) == 0 {
		return
	}
	e.notifyAll()
	e.cfg.Timers.Wake()
	for id := range lost {
		if e.serving.Load() && !e.draining.Load() {
			e.lookAgain(id)
		}
	}
}

// inDoubt makes good for wake-ups that were lost with a commit that was in doubt.
func (e *Engine) inDoubt(ctx context.Context, err error) {
	if !errors.Is(err, kv.ErrCommitUnknown) {
		return
	}
	e.notifyAll()
	e.cfg.Timers.Wake()
	if !e.serving.Load() {
		return
	}
	if err := e.resumeClass(context.WithoutCancel(ctx), classDue); err != nil {
		e.cfg.Logger.Error("saga: runs may wait for the next start", "error", err)
	}
}

// doubtful has a driver look again after a commit that was in doubt: wake-ups may
// have been lost with it.
func (e *Engine) doubtful(id string) {
	e.cfg.Timers.Wake()
	e.mu.Lock()
	d := e.drivers[id]
	if d != nil {
		d.dirty = true
	}
	e.mu.Unlock()
	if d == nil && !e.draining.Load() {
		e.lookAgain(id)
	}
}
