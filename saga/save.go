package saga

import (
	"context"
	"errors"
	"slices"
	"sync"

	"onced/kv"
	"onced/kv/claim"
)

const (
	// saveTries is how often one call tries to store an outcome.
	saveTries = 3
	// maxUnsaved is how many outcomes are remembered that could not be stored.
	// Further ones are unknown after the next start, as all are.
	maxUnsaved = 1000
)

// saver stores something about a claim. It carries the claim's token and may be
// called again.
type saver func(context.Context) (claim.Decision, error)

// save stores what became of an effect, whether or not the caller still waits.
// It tries a few times, with the same token; if that fails the outcome is kept
// in memory, and the next call under the key tries again. The key stays taken
// all the while: what is not stored is never free.
func (c *call[A, R]) save(ctx context.Context, do saver) (claim.Decision, error) {
	return c.saveOr(ctx, do, do)
}

// saveOr is save for what gives its caller leave to cause the effect: if it cannot
// be stored, the call ends without the effect, and what is kept for the next call
// is later, which gives the key back. Were it do, the leave would be stored for a
// caller that is gone, and the key be taken for ever.
func (c *call[A, R]) saveOr(ctx context.Context, do, later saver) (claim.Decision, error) {
	ctx, end := c.span(context.WithoutCancel(ctx), "claim finish")
	d, err := do(ctx)
	defer func() { end(err, c.decisionOf(d)...) }()
	for range saveTries - 1 {
		if err == nil || decided(err) || errors.Is(err, kv.ErrStopped) || errors.Is(err, kv.ErrClosed) {
			break
		}
		d, err = do(ctx)
	}
	if err != nil && !decided(err) {
		c.unsaved.add(c.req.ID, later)
	}
	return d, err
}

// decided reports that the claim has answered, and would answer the same again.
func decided(err error) bool {
	var state *claim.StateError
	return errors.As(err, &state) || errors.Is(err, claim.ErrInvalid) || errors.Is(err, kv.ErrNested)
}

// notSaved is the answer when something could not be recorded: reason says what,
// unless the claim itself has refused it.
func (c *call[A, R]) notSaved(err error, reason string) *UnknownError {
	if decided(err) {
		reason = "the claim has changed under the call"
	}
	return &UnknownError{Operation: c.name, Key: c.req.ID.Key, DownstreamKey: c.res.DownstreamKey,
		Reason: reason, Err: err, RetryAfter: soon}
}

// saveLeftOver stores what earlier calls under the key could not.
func (c *call[A, R]) saveLeftOver(ctx context.Context) error {
	for _, l := range c.unsaved.of(c.req.ID) {
		if _, err := l.do(context.WithoutCancel(ctx)); err != nil && !decided(err) {
			return c.notSaved(err, "an earlier outcome could not be stored yet")
		}
		c.unsaved.remove(c.req.ID, l)
	}
	return nil
}

// Unsaved remembers outcomes that could not be stored yet, a thousand at most; the
// next call under the key stores them. What is in it is unknown after a
// crash, as everything else under way is. An operation has one of its own. With
// [Remember] it outlives its operation, and several may share one, whatever their
// kinds. The zero value is empty and ready; it must not be copied. It is safe for
// concurrent use.
type Unsaved struct {
	mu sync.Mutex
	n  int
	// m has several for one key: of calls with different tokens that each do not
	// know whether they have claimed it.
	m map[claim.ID][]*leftOver
}

type leftOver struct{ do saver }

func (u *Unsaved) add(id claim.ID, do saver) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n >= maxUnsaved {
		return
	}
	if u.m == nil {
		u.m = map[claim.ID][]*leftOver{}
	}
	u.m[id] = append(u.m[id], &leftOver{do})
	u.n++
}

// of returns what is kept for id.
func (u *Unsaved) of(id claim.ID) []*leftOver {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.m[id])
}

// remove forgets l only: another call may have left something since.
func (u *Unsaved) remove(id claim.ID, l *leftOver) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.m[id], l)
	if i < 0 {
		return
	}
	u.n--
	if u.m[id] = slices.Delete(u.m[id], i, i+1); len(u.m[id]) == 0 {
		delete(u.m, id)
	}
}
