package feed

import (
	"context"
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
// first it returns the empty page, whose Next is valid, and no error.
func (f *Feed) Wait(ctx context.Context, s kv.Store, cursor string, limit int) (Page, error) {
	sub, err := f.Subscribe()
	if err != nil {
		return Page{}, err
	}
	defer sub.Close()
	for {
		p, err := f.Read(ctx, s, cursor, limit)
		if err != nil || len(p.Events) > 0 {
			return p, err
		}
		select {
		case <-sub.C():
		case <-ctx.Done():
			return p, nil
		}
	}
}
