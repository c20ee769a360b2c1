package kv

import (
	"sync"
	"time"
)

// Clock tells the time. It is injected everywhere; nothing in onced reads the
// system's clock on its own. Implementations are safe for concurrent use.
type Clock interface {
	// Now returns the current instant. It never goes backwards.
	Now() time.Time
}

// ClockFunc makes a Clock of a function; the function must not go backwards.
type ClockFunc func() time.Time

// Now calls the function.
func (f ClockFunc) Now() time.Time { return f() }

// SystemClock returns a clock that follows the system's wall clock forwards and
// never backwards: when the wall clock is set back, it goes on at the rate of
// the monotonic clock. A lease then neither ends early nor lasts an hour more.
// It remembers nothing across restarts.
func SystemClock() Clock { return &systemClock{read: time.Now} }

type systemClock struct {
	read func() time.Time

	mu   sync.Mutex
	last time.Time // with its monotonic reading
	at   time.Time // what Now answered at last
}

// Now follows the wall clock when it is ahead of what was answered last, and
// the monotonic clock otherwise.
func (c *systemClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.read()
	if c.last.IsZero() {
		c.last, c.at = t, t.Round(0)
		return c.at
	}
	next := c.at.Add(t.Sub(c.last)) // both carry a monotonic reading
	if wall := t.Round(0); wall.After(next) {
		next = wall
	}
	if next.After(c.at) {
		c.last, c.at = t, next
	}
	return c.at
}
