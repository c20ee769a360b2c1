package testclock_test

import (
	"testing"
	"time"

	"onced/kv/kvtest/testclock"
)

func TestAClockStandsUntilItIsMoved(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 1, time.UTC)
	c := testclock.At(start)
	for _, step := range []struct{ add, want time.Duration }{
		{0, 0}, {time.Hour, time.Hour}, {1, time.Hour + 1}, {-2 * time.Hour, 1 - time.Hour},
	} {
		c.Add(step.add)
		for range 2 {
			if got := c.Now().Sub(start); got != step.want {
				t.Errorf("after %v it stands %v from its start, want %v", step.add, got, step.want)
			}
		}
	}
}

func TestAClockOverAnotherGoesWithIt(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 1, time.UTC)
	base := testclock.At(start)
	c := testclock.Over(base)
	c.Add(time.Hour)
	base.Add(time.Minute)
	if got := c.Now().Sub(start); got != time.Hour+time.Minute {
		t.Errorf("it stands %v from the start, want %v", got, time.Hour+time.Minute)
	}
	if got := base.Now().Sub(start); got != time.Minute {
		t.Errorf("the other stands %v from the start, want %v", got, time.Minute)
	}
}
