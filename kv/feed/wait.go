package feed

import (
	"context"
	"errors"
	"sync"

	"onced/kv"
)

// notifier wakes subscribers. A slow one loses nothing: it finds one wake-up for
// all commits it missed, and reads from its cursor.
type notifier struct {
	limit int

	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

func (n *notifier) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.subs {
		select {
		case s.c <- struct{}{}:
		default:
		}
	}
}

// Subscription is one waiter for events.
type Subscription struct {
	n *notifier
	c chan struct{}
}

// C receives after a commit that appended; wake-ups that were not received yet
// are one. It says only "look again".
func (s *Subscription) C() <-chan struct{} { return s.c }

// Close ends the subscription. Closing twice is harmless.
func (s *Subscription) Close() {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	delete(s.n.subs, s)
}

// Subscribe registers a waiter. Subscribe first, read then, wait last: then no
// event is missed. A [kv.LimitError] says that too many wait. Close it.
func (f *Feed) Subscribe() (*Subscription, error) {
	n := &f.notify
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.subs) >= n.limit {
		return nil, &kv.LimitError{What: "waiting readers of the feed", Got: int64(len(n.subs) + 1),
			Limit: int64(n.limit), Unit: "readers", Remedy: "close idle streams, or read without waiting"}
	}
	s := &Subscription{n: n, c: make(chan struct{}, 1)}
	if n.subs == nil {
		n.subs = map[*Subscription]struct{}{}
	}
	n.subs[s] = struct{}{}
	return s, nil
}

// Wait is [Feed.Read] that waits for an event when there is none. When ctx ends
// first, also before the call, it returns no error but what there is then: the
// events that a last reading found, or the empty page. Either way Next is valid,
// so that a long poll always has a cursor to answer with.
func (f *Feed) Wait(ctx context.Context, s kv.Store, cursor string, limit int) (Page, error) {
	sub, err := f.Subscribe()
	if err != nil {
		return Page{}, err
	}
	defer sub.Close()
	var seen Page // what was read last; its Next is set
	for {
		p, err := f.Read(ctx, s, cursor, limit)
		switch {
		case err != nil && ended(ctx, err) && seen.Next != "":
			return seen, nil
		case err != nil && ended(ctx, err):
			// One short View beyond the end: without it there is no cursor.
			return f.Read(context.WithoutCancel(ctx), s, cursor, limit)
		case err != nil || len(p.Events) > 0:
			return p, err
		}
		seen = p
		select {
		case <-sub.C():
		case <-ctx.Done():
			return seen, nil
		}
	}
}

// ended reports that err says that ctx has ended.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
