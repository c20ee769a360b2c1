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

// Elapsed returns a function that tells the time since some start by c: two answers
// give a span. That of [SystemClock] is not changed by setting the wall clock, and costs
// a part of asking for an instant.
func Elapsed(c Clock) func() time.Duration {
	if s, ok := c.(*systemClock); ok {
		return s.elapsed
	}
	return func() time.Duration { return c.Now().Sub(time.Unix(0, 0)) }
}

// SystemClock returns a clock that follows the system's wall clock forwards and
// never backwards: when the wall clock is set back, it goes on at the rate of
// the monotonic clock. A lease then neither ends early nor lasts an hour more.
// It answers in UTC and remembers nothing across restarts.
func SystemClock() Clock {
	start := time.Now()
	return &systemClock{
		read: func() (time.Time, time.Duration) {
			t := time.Now()
			return t.Round(0).UTC(), t.Sub(start)
		},
		elapsed: func() time.Duration { return time.Since(start) },
	}
}

type systemClock struct {
	// read returns the wall clock, and the monotonic time since some start.
	read func() (wall time.Time, mono time.Duration)
	// elapsed returns the latter alone.
	elapsed func() time.Duration

	mu   sync.Mutex
	at   time.Time     // what Now answered last
	mono time.Duration // when it did
}

// Now follows the wall clock when it is ahead of what was answered last, and
// the monotonic clock otherwise.
func (c *systemClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.read()
	if c.at.IsZero() {
		c.at, c.mono = wall, mono
		return c.at
	}
	next := c.at.Add(mono - c.mono)
	if wall.After(next) {
		next = wall
	}
	if next.After(c.at) {
		c.at, c.mono = next, mono
	}
	return c.at
}
