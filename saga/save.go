package saga

import (
	"context"
	"errors"
	"sync"

	"onced/kv"
	"onced/kv/claim"
)

const (
	// saveTries is how often one call tries to store an outcome.
	saveTries = 3
	// maxUnsaved is how many outcomes an operation remembers that could not be
	// stored. Further ones are unknown after the next start, as all are.
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
	ctx, end := c.span(context.WithoutCancel(ctx), "claim finish")
	d, err := do(ctx)
	defer func() { end(err, decisionOf(d)...) }()
	for range saveTries - 1 {
		if err == nil || decided(err) || errors.Is(err, kv.ErrStopped) || errors.Is(err, kv.ErrClosed) {
			break
		}
		d, err = do(ctx)
	}
	if err != nil && !decided(err) {
		c.unsaved.add(c.req.ID, do)
	}
	return d, err
}

// decided reports that the claim has answered, and would answer the same again.
func decided(err error) bool {
	var state *claim.StateError
	return errors.As(err, &state) || errors.Is(err, claim.ErrInvalid) || errors.Is(err, kv.ErrNested)
}

// notSaved is the answer when the store has failed.
func (c *call[A, R]) notSaved(err error, reason string) *UnknownError {
	return &UnknownError{Operation: c.name, Key: c.req.ID.Key, DownstreamKey: c.res.DownstreamKey,
		Reason: reason, Err: err, RetryAfter: soon}
}

// saveLeftOver stores what an earlier call under the key could not.
func (c *call[A, R]) saveLeftOver(ctx context.Context) error {
	do := c.unsaved.get(c.req.ID)
	if do == nil {
		return nil
	}
	if _, err := do(context.WithoutCancel(ctx)); err != nil && !decided(err) {
		return c.notSaved(err, "an earlier outcome could not be stored yet")
	}
	c.unsaved.remove(c.req.ID)
	return nil
}

// unsaved keeps outcomes that could not be stored. The zero value is empty.
type unsaved struct {
	mu sync.Mutex
	m  map[claim.ID]saver
}

func (u *unsaved) add(id claim.ID, do saver) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.m == nil {
		u.m = map[claim.ID]saver{}
	}
	if len(u.m) < maxUnsaved {
		u.m[id] = do
	}
}

func (u *unsaved) get(id claim.ID) saver {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.m[id]
}

func (u *unsaved) remove(id claim.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.m, id)
}
