package group

import "sync"

// patience is how many times a waiter that was woken may find the turn taken
// again before it is handed the turn. Handing it on at once would put a switch
// of goroutines between any two closures; never handing it on could starve.
const patience = 4

// turn is a mutual exclusion whose waiters can be cancelled and do not starve.
// Whoever runs may take it when it is free, ahead of those who wait; a waiter
// that was passed over patience times is given it in the order of asking.
type turn struct {
	mu     sync.Mutex
	held   bool
	waking bool      // a woken waiter has not looked yet
	queue  []*waiter // in the order of asking
	idle   func()    // called under mu when the turn is free and nobody waits; may be nil
	spare  []*waiter // for reuse; of this store only, since a channel belongs to a test's bubble
}

// waiter is one that waits. Its fields are guarded by turn.mu.
type waiter struct {
	wake   chan struct{} // one token for each time it is woken
	passed int           // times it was woken and found the turn taken
	given  bool          // the turn was handed to it
}

// take waits for the turn, or until stop is closed; it reports whether the turn
// is held.
func (t *turn) take(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	default:
	}
	t.mu.Lock()
	if !t.held {
		t.held = true
		t.mu.Unlock()
		return true
	}
	w := t.waiter()
	t.queue = append(t.queue, w)
	t.mu.Unlock()
	for {
		select {
		case <-w.wake:
			if t.look(w) {
				return true
			}
		case <-stop:
			t.withdraw(w)
			return false
		}
	}
}

// waiter returns a waiter that is in no queue.
func (t *turn) waiter() *waiter {
	if n := len(t.spare); n > 0 {
		w := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}

// look is a woken waiter's try to take the turn.
func (t *turn) look(w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waking = false
	if w.given || !t.held {
		t.held = true
		w.passed, w.given = 0, false
		t.spare = append(t.spare, w)
		return true
	}
	w.passed++
	t.queue = append(t.queue, nil)
	copy(t.queue[1:], t.queue)
	t.queue[0] = w
	return false
}

// pass gives the turn up.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release()
}

// release hands the turn to the first waiter when that one was passed over too
// often; else it sets it free and wakes the first, unless one is waking
// already.
func (t *turn) release() {
	if len(t.queue) == 0 {
		t.held = false
		if !t.waking && t.idle != nil {
			t.idle()
		}
		return
	}
	w := t.queue[0]
	switch {
	case w.passed >= patience:
		w.given = true
	case t.waking:
		t.held = false
		return
	default:
		t.held = false
	}
	t.waking = !w.given || t.waking
	t.queue[0] = nil
	t.queue = t.queue[1:]
	w.wake <- struct{}{}
}

// withdraw takes a waiter out of the queue. One that was woken in the same
// moment is no longer there: it wakes the next in its place.
func (t *turn) withdraw(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, q := range t.queue {
		if q == w {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			return
		}
	}
	if w.given {
		t.release()
		return
	}
	t.waking = false
	if !t.held {
		t.held = true
		t.release()
	}
}
