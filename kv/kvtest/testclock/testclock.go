// Package testclock is a clock that a test moves by hand.
//
// What is guaranteed: a Clock of [At] stands still until [Clock.Add], one of [Over]
// is ahead of another clock by what was added, and both may be used by several
// goroutines at once. What is not: that it never goes backwards, as [kv.Clock]
// promises. A test may move it back, to see what becomes of a machine whose clock
// was wrong. Nothing survives a crash: a restarted store is given the same Clock
// again. The caller knows that no timer and no sleep ends because a Clock was moved;
// for these there is testing/synctest.
package testclock

import (
	"sync"
	"time"

	"onced/kv"
)

var _ kv.Clock = (*Clock)(nil)

// Clock is moved by hand. Make one with [At] or [Over].
type Clock struct {
	base kv.Clock

	mu sync.Mutex
	by time.Duration
}

// At returns a clock that stands at t.
func At(t time.Time) *Clock { return Over(kv.ClockFunc(func() time.Time { return t })) }

// Over returns a clock that goes as base does.
func Over(base kv.Clock) *Clock { return &Clock{base: base} }

// Now implements [kv.Clock].
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base.Now().Add(c.by)
}

// Add moves the clock by d, which may be negative.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}
