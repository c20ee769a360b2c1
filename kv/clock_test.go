package kv

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeSource is a wall clock that somebody sets, beside a monotonic clock that
// nobody can.
type fakeSource struct {
	wall time.Time
	mono time.Duration
}

func (f *fakeSource) read() (time.Time, time.Duration) { return f.wall, f.mono }

func (f *fakeSource) pass(d time.Duration) {
	f.wall = f.wall.Add(d)
	f.mono += d
}

func newFakeClock() (*systemClock, *fakeSource) {
	f := &fakeSource{wall: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), mono: 5 * time.Minute}
	return &systemClock{read: f.read, elapsed: func() time.Duration { return f.mono }}, f
}

// Spans that are measured so are not changed by whoever sets the wall clock.
func TestElapsedIsNotChangedBySettingTheClock(t *testing.T) {
	t.Parallel()
	c, f := newFakeClock()
	elapsed := Elapsed(c)
	start, instant := elapsed(), c.Now()
	f.pass(time.Second)
	f.wall = f.wall.Add(time.Hour)
	if got := elapsed() - start; got != time.Second {
		t.Errorf("a second took %v", got)
	}
	other := Elapsed(ClockFunc(func() time.Time { return instant }))
	start = other()
	instant = instant.Add(time.Minute)
	if got := other() - start; got != time.Minute {
		t.Errorf("by a clock of somebody's own a minute took %v", got)
	}
	synctest.Test(t, func(t *testing.T) {
		elapsed := Elapsed(SystemClock())
		start := elapsed()
		time.Sleep(time.Hour)
		if got := elapsed() - start; got != time.Hour {
			t.Errorf("by the system's clock an hour took %v", got)
		}
	})
}

// A lease is judged by the difference of two answers: with the wall clock set
// back it must end neither early nor an hour late.
func TestIK23_ClockSetBackGoesOnAtTheMonotonicRate(t *testing.T) {
	t.Parallel()
	c, f := newFakeClock()
	start := c.Now()
	f.pass(time.Second)
	if got := c.Now().Sub(start); got != time.Second {
		t.Fatalf("a second took %v", got)
	}
	f.wall = f.wall.Add(-time.Hour)
	if got := c.Now().Sub(start); got != time.Second {
		t.Fatalf("setting the clock back moved the answer by %v", got-time.Second)
	}
	for i := 2; i <= 7200; i++ { // two hours: also past the instant of the setting
		f.pass(time.Second)
		if got, want := c.Now().Sub(start), time.Duration(i)*time.Second; got != want {
			t.Fatalf("after %v since the start the clock says %v", want, got)
		}
	}
	f.wall = f.wall.Add(time.Hour + time.Minute) // set right, and a minute too far
	if got, want := c.Now(), f.wall; !got.Equal(want) {
		t.Fatalf("the wall clock is ahead again: answer %v, want %v", got, want)
	}
}

func TestIK23_ClockSetForwardIsFollowed(t *testing.T) {
	t.Parallel()
	c, f := newFakeClock()
	c.Now()
	f.pass(time.Second)
	f.wall = f.wall.Add(time.Hour)
	if got := c.Now(); !got.Equal(f.wall) {
		t.Fatalf("answer %v, want %v", got, f.wall)
	}
	f.wall = f.wall.Add(-time.Hour) // it was a mistake
	before := c.Now()
	f.pass(time.Minute)
	if got := c.Now().Sub(before); got != time.Minute {
		t.Fatalf("a minute took %v", got)
	}
}

// However the sources jump, no answer is before the one before it.
func FuzzSystemClockNeverGoesBackwards(f *testing.F) {
	f.Add([]byte{1, 0x80, 200, 3, 0, 0xff, 7})
	f.Fuzz(func(t *testing.T, moves []byte) {
		c, src := newFakeClock()
		last := c.Now()
		for i, m := range moves {
			if i%2 == 0 {
				src.wall = src.wall.Add(time.Duration(int8(m)) * time.Minute)
			} else {
				src.pass(time.Duration(m) * time.Second)
			}
			now := c.Now()
			if now.Before(last) {
				t.Fatalf("move %d: %v after %v", i, now, last)
			}
			if i%2 == 1 && now.Sub(last) < time.Duration(m)*time.Second {
				t.Fatalf("move %d: %d s took %v", i, m, now.Sub(last))
			}
			last = now
		}
	})
}

func TestSystemClockReadsTheSystem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := SystemClock()
		start := c.Now()
		if start.Year() != 2000 { // where the time of a bubble begins
			t.Fatalf("the clock says %v", start)
		}
		time.Sleep(90 * time.Minute)
		if got := c.Now().Sub(start); got != 90*time.Minute {
			t.Fatalf("90 minutes took %v", got)
		}
		if start.String() != start.Round(0).String() {
			t.Fatal("an answer carries a monotonic reading")
		}
	})
}

func TestSystemClockIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := SystemClock()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := c.Now()
			for range 1000 {
				now := c.Now()
				if now.Before(last) {
					t.Errorf("%v after %v", now, last)
				}
				last = now
			}
		})
	}
	wg.Wait()
}
