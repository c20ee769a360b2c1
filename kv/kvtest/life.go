package kvtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv"
)

var lifeTests = []namedTest{
	{"Life/Close", testClose},
	{"Life/CloseWaits", testCloseWaits},
	{"Life/CloseAmongWriters", testCloseAmongWriters},
	{"Life/OneInstantPerTransaction", testNow},
}

func testClose(t *testing.T, s *suite) {
	st := s.open(t)
	put(t, st, "a", "1")
	for range 2 {
		if err := st.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		err := st.Update(context.Background(), func(kv.Writer) error {
			t.Error("Update ran after Close")
			return nil
		})
		wantIs(t, "Update", err, kv.ErrClosed)
		err = st.View(context.Background(), func(kv.Reader) error {
			t.Error("View ran after Close")
			return nil
		})
		wantIs(t, "View", err, kv.ErrClosed)
	}
	_ = st.Epoch() // still answers
}

// closingSoon makes Updates until one is refused: then Close has begun.
func closingSoon(st kv.Store) {
	for range 100_000 {
		err := st.Update(context.Background(), func(kv.Writer) error { return nil })
		if errors.Is(err, kv.ErrClosed) {
			return
		}
	}
}

func testCloseWaits(t *testing.T, s *suite) {
	st := s.open(t)
	put(t, st, "a", "1")
	var ended atomic.Bool
	reading := make(chan struct{})
	out := make(chan error, 1)
	finish := make(chan struct{})
	go func() {
		out <- st.View(context.Background(), func(r kv.Reader) error {
			close(reading)
			<-finish
			v, err := r.Get(table, []byte("a"))
			if string(v) != "1" {
				t.Errorf("a view that was open when Close came reads %q", v)
			}
			ended.Store(true)
			return err
		})
	}()
	<-reading
	closed := make(chan error, 1)
	go func() {
		err := st.Close()
		if !ended.Load() {
			t.Error("Close returned while a View was open")
		}
		closed <- err
	}()
	closingSoon(st)
	close(finish)
	for _, c := range []chan error{out, closed} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
}

// Of updates that race with Close, those acknowledged are there after a reopen
// and those refused with ErrClosed are not.
func testCloseAmongWriters(t *testing.T, s *suite) {
	st := s.open(t)
	var wg sync.WaitGroup
	var acknowledged atomic.Uint64
	for range 8 {
		wg.Go(func() {
			for {
				err := st.Update(context.Background(), func(w kv.Writer) error {
					_, err := add(w, "n", 1)
					return err
				})
				if err != nil {
					wantIs(t, "Update", err, kv.ErrClosed)
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	for range 20 {
		put(t, st, "a", "1")
	}
	if s.caps.Reopen != nil {
		again := closing(t, s.caps.Reopen(t, st))
		wg.Wait()
		wantNumber(t, again, "n", acknowledged.Load())
		return
	}
	if err := st.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
}

func testNow(t *testing.T, s *suite) {
	st := s.store(t)
	var last time.Time
	check := func(r kv.Reader) {
		now := r.Now()
		if now.IsZero() || now.Before(last) {
			t.Errorf("a transaction's instant is %v after one of %v", now, last)
		}
		if _, err := scan(r, kv.Range{}); err != nil {
			t.Error(err)
		}
		if again := r.Now(); !again.Equal(now) {
			t.Errorf("the instant moved within a transaction from %v to %v", now, again)
		}
		last = now
	}
	for range 20 {
		update(t, st, func(w kv.Writer) error {
			check(w)
			return putAll(w, "a", "1")
		})
		view(t, st, func(r kv.Reader) error {
			check(r)
			return nil
		})
	}
}

var reopenTests = []namedTest{
	{"Reopen/EverythingIsThere", testReopen},
}

func testReopen(t *testing.T, s *suite) {
	st := s.open(t)
	old := st
	epoch := st.Epoch()
	for i := range 4 {
		if s.caps.Epochs && st.Epoch() == 0 || !s.caps.Epochs && st.Epoch() != 0 {
			t.Errorf("epoch %d, while the engine says that it has epochs: %v", st.Epoch(), s.caps.Epochs)
		}
		update(t, st, func(w kv.Writer) error {
			if _, err := add(w, "n", 1); err != nil {
				return err
			}
			return w.Put("kvtest.other", []byte("k"), fill(i*1000))
		})
		st = s.caps.Reopen(t, st)
		if s.caps.Epochs && st.Epoch() <= epoch {
			t.Errorf("epoch %d after %d", st.Epoch(), epoch)
		}
		epoch = st.Epoch()
		wantNumber(t, st, "n", uint64(i+1))
		view(t, st, func(r kv.Reader) error {
			v, err := r.Get("kvtest.other", []byte("k"))
			if v == nil || string(v) != string(fill(i*1000)) {
				t.Errorf("after reopening %d times the other table holds %d bytes", i, len(v))
			}
			return err
		})
	}
	closing(t, st)
	err := old.View(context.Background(), func(kv.Reader) error { return nil })
	wantIs(t, "a View of the first store", err, kv.ErrClosed)
}

var rerunTests = []namedTest{
	{"Rerun/TheLastRunCounts", testRerun},
}

// The engine runs closures twice; every run begins from the same state, and
// what one left behind is gone.
func testRerun(t *testing.T, s *suite) {
	st := closing(t, s.caps.Rerun(t))
	for i := range 10 {
		runs, hooks := 0, 0
		var seen uint64
		update(t, st, func(w kv.Writer) error {
			runs++
			n, err := add(w, "n", 1)
			if err != nil {
				return err
			}
			if v, err := w.Get(table, []byte("own")); v != nil || err != nil {
				t.Errorf("run %d sees a row of the run before: %q, %v", runs, v, err)
			}
			if err := putAll(w, "own", "1"); err != nil {
				return err
			}
			if runs == 1 { // a run that went another way
				err = putAll(w, "first", "1")
			}
			w.OnCommit(func() { hooks++ })
			seen = n
			return errors.Join(err, deleteAll(w, "own"))
		})
		if runs < 2 || hooks != 1 || seen != uint64(i) {
			t.Fatalf("%d runs, %d hooks, saw %d; want 2, 1, %d", runs, hooks, seen, i)
		}
	}
	wantNumber(t, st, "n", 10)
	wantRow(t, st, "first", "-")
	runs := 0
	err := st.Update(context.Background(), func(w kv.Writer) error {
		runs++
		if err := putAll(w, "n", "bad"); err != nil {
			return err
		}
		if runs > 1 {
			return errWanted
		}
		return nil
	})
	wantIs(t, "a closure that fails when it is run again", err, errWanted)
	wantNumber(t, st, "n", 10)
}
