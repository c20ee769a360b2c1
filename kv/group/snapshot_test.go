package group_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/group"
)

// wantOpen fails unless so many snapshots are open.
func (f *fixture) wantOpen(when string, want int) {
	f.t.Helper()
	synctest.Wait()
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.open != want {
		f.t.Errorf("%s: %d snapshots are open, want %d", when, f.disk.open, want)
	}
}

// held begins an Update whose closure waits at a channel before it does anything.
func (f *fixture) held(ctx context.Context, fn func(w kv.Writer) error) (*answer, chan struct{}) {
	gate := make(chan struct{})
	return f.begin(func(*answer) error {
		return f.Update(ctx, func(w kv.Writer) error {
			<-gate
			return fn(w)
		})
	}), gate
}

// Closures that follow each other share a snapshot; an engine whose commit has to
// wait for snapshots never waits for one that nobody uses.
func TestASnapshotIsClosedWhenNobodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{}, "a", "old")
		nothing := func(kv.Writer) error { return nil }
		first := f.put("a", "1")
		f.wantOpen("a closure has ended, its commit not", 0)
		second, let2 := f.held(t.Context(), nothing)
		third, let3 := f.held(t.Context(), nothing)
		f.wantOpen("one runs, one waits", 1)
		close(let2)
		f.wantOpen("the other runs", 1)
		close(let3)
		f.wantOpen("both have ended", 0)
		f.pass(nil)
		for _, a := range []*answer{first, second, third} {
			f.ends("a call", a, nil)
		}
		f.close()
	})
}

// The same when the one that waits gives up in the moment in which it is its turn.
func TestASnapshotIsClosedWhenTheNextGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		for range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			one, let := f.held(t.Context(), func(kv.Writer) error { return nil })
			two := f.begin(func(*answer) error {
				return f.Update(ctx, func(kv.Writer) error { return nil })
			})
			go cancel()
			close(let)
			f.wantOpen("all have ended", 0)
			f.ends("the one that ran", one, nil)
			if !two.ended() {
				t.Fatal("the one that gave up waits")
			}
		}
		f.close()
	})
}

// Who waits with the turn for a commit has no snapshot open, for which that commit
// may have to wait.
func TestWhoWaitsForACommitHasNoSnapshotOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{MaxCalls: 2})
		calls := []*answer{f.put("a", "1")} // is committed
		second, let := f.held(t.Context(), func(kv.Writer) error { return nil })
		third, fourth := f.put("c", "1"), f.put("d", "1") // one joins it, one finds it full
		close(let)
		f.wantOpen("one waits for room", 0)
		f.waits("before the commit has ended", append(calls, second, third, fourth)...)
		f.pass(nil)
		f.pass(nil)
		f.pass(nil)
		for _, a := range append(calls, second, third, fourth) {
			f.ends("a call", a, nil)
		}
		f.close()
	})
}

// A group sees what the last but one before it has committed, also when closures
// follow each other without a pause from one group to the next.
func TestASnapshotIsNotKeptFromGroupToGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{}, "a", "old")
		nothing := func(kv.Writer) error { return nil }
		first := f.put("a", "new")
		second, let2 := f.held(t.Context(), nothing) // opens the snapshot, "a" is old in it
		third, let3 := f.held(t.Context(), nothing)
		var got []byte
		last, let4 := f.held(t.Context(), func(w kv.Writer) (err error) {
			got, err = w.Get(rows, []byte("a"))
			return err
		})
		close(let2)
		synctest.Wait()
		f.pass(nil) // the group of the second and the third could be committed now
		f.ends("the first", first, nil)
		close(let3) // it seals its group, and the last comes into the next one
		synctest.Wait()
		f.ends("the second", second, nil) // it had nothing to commit
		f.ends("the third", third, nil)
		close(let4)
		f.close()
		f.ends("the last", last, nil)
		if string(got) != "new" {
			t.Errorf("the last read %q, want what was committed before", got)
		}
	})
}

// A row whose time lies after the instant of its reader would look as if the clock had
// been set back.
func TestAViewIsNotBeforeWhatItShows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		var written time.Time
		f.disk.before = func() { // somebody writes while the view begins
			f.disk.before = nil
			time.Sleep(time.Second)
			written = time.Now()
		}
		if err := f.View(t.Context(), func(r kv.Reader) error {
			if r.Now().Before(written) {
				t.Errorf("the instant of the view is %v before what it shows", written.Sub(r.Now()))
			}
			return nil
		}); err != nil || written.IsZero() {
			t.Error("no snapshot was taken:", err)
		}
		f.close()
	})
}
