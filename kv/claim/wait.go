package claim

import (
	"context"
	"sync"
	"time"

	"onced/kv"
)

// minNap keeps a waiter from spinning when a lease ends in no time by a clock
// that stands still.
const minNap = time.Millisecond

// waiters wakes those who wait for a claim. It is only a hint: whoever is woken
// reads the claim again.
type waiters struct {
	mu sync.Mutex
	m  map[ID]*waiter
}

// waiter is shared by all who wait for one claim until its next change.
type waiter struct {
	changed  chan struct{} // closed by the change
	n        int           // who waits
	starting bool          // one of them asks for the key
}

// join registers a waiter. It comes before the read, so that no change after
// the read is missed.
func (s *waiters) join(id ID) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.m[id]
	if w == nil {
		w = &waiter{changed: make(chan struct{})}
		if s.m == nil {
			s.m = map[ID]*waiter{}
		}
		s.m[id] = w
	}
	w.n++
	return w
}

func (s *waiters) leave(id ID, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.n--; w.n == 0 && s.m[id] == w {
		delete(s.m, id)
	}
}

func (s *waiters) wake(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.m[id]; w != nil {
		delete(s.m, id)
		close(w.changed)
	}
}

// start lets one of those who wait ask for the key: the others would ask in
// vain, at the price of a transaction each.
func (s *waiters) start(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !w.starting
	w.starting = true
	return first
}

// BeginWait is [Book.Begin] for a caller that waits while another owner is at
// work: until the claim is decided, limit has passed, or ctx ends. It answers
// InFlight only when the limit has passed. However many wait, they cost no
// commit; when the key becomes free, one of them takes it.
func (b *Book) BeginWait(ctx context.Context, req Request, limit time.Duration) (Decision, error) {
	if err := req.validate(b.machine.Epoch); err != nil {
		return Decision{}, err
	}
	if limit <= 0 {
		return b.Begin(ctx, req)
	}
	end, stop := timer(limit)
	defer stop()
	for {
		d, again, err := b.beginOrWait(ctx, req, end)
		if err != nil || !again {
			return d, err
		}
		if isOver(end) { // the last word is that of a fresh look
			return b.Begin(ctx, req)
		}
	}
}

// beginOrWait asks once; when the key is in flight it waits for a change, and
// again is true.
func (b *Book) beginOrWait(
	ctx context.Context, req Request, end <-chan struct{},
) (d Decision, again bool, err error) {
	w := b.waiters.join(req.ID)
	defer b.waiters.leave(req.ID, w)
	decided, err := b.peek(ctx, &req, &d)
	if err != nil || decided && d.Kind != InFlight {
		return d, false, err
	}
	if !decided && b.waiters.start(w) {
		d, err = b.starter(ctx, req)
		return d, err == nil && d.Kind == InFlight, err
	}
	var nap time.Duration
	if decided && !d.Record.Owner.Local {
		nap = d.RetryAfter
	}
	return Decision{}, true, await(ctx, w, end, nap)
}

// starter asks for the key with a write, and wakes the others whatever comes of
// it.
func (b *Book) starter(ctx context.Context, req Request) (Decision, error) {
	defer b.waiters.wake(req.ID)
	return b.begin(ctx, req)
}

// Wait waits until nobody is at work on the claim, limit has passed, or ctx
// ends, and returns it. ok is false when it is absent.
func (b *Book) Wait(ctx context.Context, id ID, limit time.Duration) (c Claim, ok bool, err error) {
	if err := id.Validate(); err != nil {
		return Claim{}, false, err
	}
	end, stop := timer(limit)
	defer stop()
	for {
		again, err := b.waitOnce(ctx, id, end)
		if err != nil {
			return Claim{}, false, err
		}
		if !again || limit <= 0 || isOver(end) {
			return b.Get(ctx, id)
		}
	}
}

func (b *Book) waitOnce(ctx context.Context, id ID, end <-chan struct{}) (again bool, err error) {
	w := b.waiters.join(id)
	defer b.waiters.leave(id, w)
	var nap time.Duration
	var pending bool
	err = b.store.View(ctx, func(rd kv.Reader) error {
		c, ok, err := b.GetTx(rd, id)
		pending, nap = ok && c.Record.State == Pending, 0
		if !c.Record.Owner.Local {
			nap = c.Record.Owner.Deadline.Sub(rd.Now())
		}
		return err
	})
	if err != nil || !pending {
		return false, err
	}
	return true, await(ctx, w, end, nap)
}

// await waits for a change, the end of a lease in nap (none when 0), the limit,
// or ctx, whose end is an error.
func await(ctx context.Context, w *waiter, end <-chan struct{}, nap time.Duration) error {
	var lapse <-chan struct{}
	if nap != 0 {
		c, stop := timer(max(nap, minNap))
		defer stop()
		lapse = c
	}
	select {
	case <-w.changed:
	case <-lapse:
	case <-end:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// timer closes its channel after d.
func timer(d time.Duration) (<-chan struct{}, func() bool) {
	c := make(chan struct{})
	t := time.AfterFunc(d, func() { close(c) })
	return c, t.Stop
}

func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
