package group

import "sync"

// turn is a mutual exclusion that is handed on in the order of asking, so that
// nobody starves, and whose waiters can be cancelled.
type turn struct {
	mu    sync.Mutex
	held  bool
	queue []chan struct{} // waiters in order; a closed channel has been given the turn
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
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-stop:
		t.withdraw(mine)
		return false
	}
}

// pass hands the turn to whoever waits longest.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.held = false
		t.queue = nil
		return
	}
	next := t.queue[0]
	t.queue = t.queue[1:]
	close(next)
}

// withdraw takes a waiter out of the queue, or passes on the turn that it was
// given in the same moment.
func (t *turn) withdraw(mine chan struct{}) {
	t.mu.Lock()
	for i, w := range t.queue {
		if w == mine {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			t.mu.Unlock()
			return
		}
	}
	t.mu.Unlock()
	t.pass()
}
