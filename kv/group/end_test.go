package group_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/group"
)

func TestAViewThatWaitsForACommitCanBeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{gate: make(chan error), publish: true}, group.Options{}, "a", "old")
		write := f.put("a", "new")
		ctx, cancel := context.WithCancel(context.Background())
		read := f.begin(func(*answer) error {
			return f.View(ctx, func(r kv.Reader) error {
				_, err := r.Get(rows, []byte("a"))
				return err
			})
		})
		f.waits("before the commit has ended", write, read)
		cancel()
		f.begin(func(*answer) error { return nil })
		f.ends("the cancelled read", read, context.Canceled)
		f.pass(nil)
		f.ends("the write", write, nil)
		f.close()
	})
}

// An engine whose snapshots run ahead of every commit breaks its contract; a
// View must say so and not wait for a commit that nobody makes.
func TestASnapshotThatNoCommitMadeIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &disk{}
		f := start(t, d, group.Options{}, "a", "old")
		d.mu.Lock()
		d.state = &state{version: 99, rows: map[string]string{"a": "from nowhere"}}
		d.mu.Unlock()
		f.ends("the read", f.get("a"), kv.ErrCommitUnknown)
		f.close()
	})
}

func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		reading := make(chan struct{})
		read := f.begin(func(*answer) error {
			return f.View(context.Background(), func(kv.Reader) error {
				<-reading
				return nil
			})
		})
		first := f.begin(func(*answer) error { return f.Close() })
		second := f.begin(func(*answer) error { return f.Close() })
		f.waits("while a View is open", first, second)
		close(reading)
		f.begin(func(*answer) error { return nil })
		f.ends("the View", read, nil)
		f.ends("the first Close", first, nil)
		f.ends("the second Close", second, nil)
	})
}

func TestAHookThatPanicsStopsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		var ran []int
		write := f.update(func(w kv.Writer) error {
			w.OnCommit(func() { ran = append(ran, 1) })
			w.OnCommit(func() { panic("boom") })
			w.OnCommit(func() { ran = append(ran, 3) })
			return w.Put(rows, []byte("a"), []byte("1"))
		})
		if write.panic != "boom" || len(ran) != 2 || ran[1] != 3 {
			t.Errorf("hooks %v ran, panic %v; want 1 and 3, and the panic of 2", ran, write.panic)
		}
		if read := f.get("a"); read.got != "1" {
			t.Errorf("read %q, want the commit to stand", read.got)
		}
		f.close()
	})
}

// brokenClock panics at its nth reading.
type brokenClock struct {
	n, panicAt int
}

func (c *brokenClock) Now() time.Time {
	if c.n++; c.n == c.panicAt {
		panic("the clock is broken")
	}
	return time.Unix(int64(c.n), 0)
}

// A clock that panics is as bad as an engine that does: nothing is acknowledged
// that did not happen, and nobody waits for ever.
func TestAClockThatPanicsAcknowledgesNothing(t *testing.T) {
	for at := 1; at <= 6; at++ {
		t.Run(fmt.Sprint("reading ", at), func(t *testing.T) { clockThatPanics(t, at) })
	}
}

func clockThatPanics(t *testing.T, at int) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{Clock: &brokenClock{panicAt: at}})
		write := f.put("a", "1")
		if !write.ended() {
			t.Fatal("the writer waits for ever")
		}
		if stored := f.disk.state.rows["a"] == "1"; write.err == nil && write.panic == nil && !stored {
			t.Error("acknowledged and not stored")
		}
		if !f.put("b", "2").ended() {
			t.Fatal("the next writer waits for ever")
		}
		f.close()
	})
}

func TestAPanicInAViewWaitsForWhatItSaw(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{gate: make(chan error), publish: true}, group.Options{}, "a", "old")
		write := f.put("a", "new")
		read := f.begin(func(*answer) error {
			return f.View(context.Background(), func(kv.Reader) error { panic("boom") })
		})
		f.waits("before the commit has ended", write, read)
		f.pass(nil)
		f.ends("the write", write, nil)
		if !read.ended() || read.panic != "boom" {
			t.Errorf("the View ended: %v, panic %v", read.ended(), read.panic)
		}
		f.close()
	})
}

func TestAClockThatPanicsFailsTheWholeGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// Readings: of each write its instant, and twice for its limits; of each commit its start.
		f := start(t, &disk{gate: make(chan error)}, group.Options{Clock: &brokenClock{panicAt: 11}})
		a, b, c := f.put("a", "1"), f.put("b", "2"), f.put("c", "3")
		f.waits("before the first commit", a, b, c)
		f.pass(nil)
		f.ends("a", a, nil)
		f.ends("c, which b leads", c, kv.ErrCommitUnknown)
		if !b.ended() {
			t.Error("the leader waits for ever")
		}
		f.close()
	})
}
