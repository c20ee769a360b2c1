package kvtest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"onced/kv"
)

var hookTests = []namedTest{
	{"Groups/ScansMergeTheGroupsBefore", testMergeGroups},
	{"Groups/NoAnswerBeforeItsCommit", testNoAnswerBeforeItsCommit},
	{"Groups/AnErrorRestsOnWhatItRead", testErrorRestsOnItsReads},
	{"Groups/AFailedCommitStopsWrites", testFailedCommit},
	{"Groups/ALeaderThatPanicsCommitsForTheOthers", testLeaderPanics},
}

// hooked is a store whose commits stop at a gate once it is armed.
type hooked struct {
	kv.Store
	armed   atomic.Bool
	entered chan struct{} // receives when a commit stands at the gate
	release chan error    // lets it pass, or fail
}

func (s *suite) hooked(t testing.TB) *hooked {
	h := &hooked{entered: make(chan struct{}), release: make(chan error)}
	h.Store = closing(t, s.caps.Hook(t, func() error {
		if !h.armed.Load() {
			return nil
		}
		h.entered <- struct{}{}
		return <-h.release
	}))
	return h
}

// pass lets the commit at the gate end with err, and the next one come.
func (h *hooked) pass(err error) { h.release <- err }

// call is an Update on a goroutine of its own.
type call struct {
	ran   chan struct{} // closed when the closure has begun its end
	out   chan error
	panic chan any
}

// start begins an Update and returns when its closure has run.
func (h *hooked) start(fn func(kv.Writer) error) *call {
	c := &call{ran: make(chan struct{}), out: make(chan error, 1), panic: make(chan any, 1)}
	var once sync.Once
	go func() {
		defer func() {
			if v := recover(); v != nil {
				c.panic <- v
			}
		}()
		c.out <- h.Update(context.Background(), func(w kv.Writer) error {
			defer once.Do(func() { close(c.ran) })
			return fn(w)
		})
	}()
	<-c.ran
	return c
}

// unanswered fails when c has been answered, after giving it every chance.
func (c *call) unanswered(t testing.TB, what string) {
	t.Helper()
	for range 200 {
		runtime.Gosched()
	}
	select {
	case err := <-c.out:
		t.Errorf("%s was answered (%v) before the commit it rests on", what, err)
		c.out <- err
	default:
	}
}

// Three layers: committed, being committed, of the open group, and the
// transaction's own on top.
func testMergeGroups(t *testing.T, s *suite) {
	h := s.hooked(t)
	put(t, h, "b", "0", "d", "0", "f", "0", "h", "0", "j", "0", "l", "0", "m", "0")
	h.armed.Store(true)
	x := h.start(func(w kv.Writer) error {
		if err := putAll(w, "c", "x", "d", "x", "i", "x", "g", "x", "m", "x"); err != nil {
			return err
		}
		return deleteAll(w, "f", "h", "l")
	})
	<-h.entered
	y := h.start(func(w kv.Writer) error {
		if err := putAll(w, "a", "y", "d", "y", "h", "y", "k", "y"); err != nil {
			return err
		}
		return deleteAll(w, "b", "i")
	})
	z := h.start(func(w kv.Writer) error {
		if err := putAll(w, "b", "z", "e", "z", "j", "z"); err != nil {
			return err
		}
		if err := deleteAll(w, "k", "c", "f"); err != nil {
			return err
		}
		wanted := map[string]string{"a": "y", "b": "z", "c": "-", "d": "y", "f": "-", "h": "y",
			"l": "-", "m": "x"}
		for key, want := range wanted {
			if v, err := w.Get(table, []byte(key)); show(v) != want || err != nil {
				t.Errorf("row %q is %s, %v; want %s", key, show(v), err, want)
			}
		}
		return checkScans(t, w, []scanCase{
			{kv.Range{}, "a=y b=z d=y e=z g=x h=y j=z m=x"},
			{kv.Range{Reverse: true}, "m=x j=z h=y g=x e=z d=y b=z a=y"},
			{kv.Range{From: []byte("b"), To: []byte("h")}, "b=z d=y e=z g=x"},
			{kv.Range{From: []byte("c"), To: []byte("i"), Reverse: true}, "h=y g=x e=z d=y"},
			{kv.Range{From: []byte("c"), Limit: 1}, "d=y"},
			{kv.Range{To: []byte("d"), Limit: 1, Reverse: true}, "b=z"},
			{kv.Range{From: []byte("f"), To: []byte("g")}, ""},
		})
	})
	wantAll(t, h, "b=0 d=0 f=0 h=0 j=0 l=0 m=0") // a View sees what is durable
	h.pass(nil)
	<-h.entered
	wantAll(t, h, "b=0 c=x d=x g=x i=x j=0 m=x")
	h.pass(nil)
	for _, c := range []*call{x, y, z} {
		if err := <-c.out; err != nil {
			t.Error(err)
		}
	}
	wantAll(t, h, "a=y b=z d=y e=z g=x h=y j=z m=x")
}

func testNoAnswerBeforeItsCommit(t *testing.T, s *suite) {
	h := s.hooked(t)
	put(t, h, "a", "0")
	h.armed.Store(true)
	x := h.start(func(w kv.Writer) error { return putAll(w, "a", "1") })
	<-h.entered
	sees := func(w kv.Writer) error {
		if v, err := w.Get(table, []byte("a")); string(v) != "1" || err != nil {
			t.Errorf("the next transaction reads %q, %v", v, err)
		}
		return errWanted
	}
	failed := h.start(sees)
	wrote := h.start(func(w kv.Writer) error { return putAll(w, "b", "1") })
	x.unanswered(t, "a write")
	failed.unanswered(t, "an error of the next group")
	wantRow(t, h, "a", "0")
	h.pass(nil)
	if err := <-x.out; err != nil {
		t.Error(err)
	}
	<-h.entered
	wrote.unanswered(t, "a write of the next group")
	h.pass(nil)
	if err := <-failed.out; err != errWanted { //nolint:errorlint // the very error
		t.Errorf("error %v, want the closure's own", err)
	}
	if err := <-wrote.out; err != nil {
		t.Error(err)
	}
	wantAll(t, h, "a=1 b=1")
}

// A closure read what another wrote and then failed. When that write never
// becomes durable, the closure's error must not leave as if it had.
func testErrorRestsOnItsReads(t *testing.T, s *suite) {
	for name, sameGroup := range map[string]bool{"of its own group": true, "of the group before": false} {
		h := s.hooked(t)
		put(t, h, "base", "0")
		h.armed.Store(true)
		writes := func(w kv.Writer) error { return putAll(w, "a", "1") }
		reads := func(w kv.Writer) error {
			if v, err := w.Get(table, []byte("a")); string(v) != "1" || err != nil {
				t.Errorf("reads %q, %v", v, err)
			}
			return errWanted
		}
		var first, writer, reader *call
		first = h.start(func(w kv.Writer) error { return putAll(w, "base", "1") })
		<-h.entered
		writer = h.start(writes)
		if sameGroup {
			reader = h.start(reads)
		}
		h.pass(nil)
		<-h.entered // writer's group stands at the gate
		if !sameGroup {
			reader = h.start(reads)
		}
		h.pass(errWanted)
		if err := <-first.out; err != nil {
			t.Error(err)
		}
		wantIs(t, "the writer", <-writer.out, kv.ErrCommitUnknown)
		err := <-reader.out
		if !errors.Is(err, kv.ErrCommitUnknown) && !errors.Is(err, kv.ErrStopped) {
			t.Errorf("who read a row %s that was lost is told %v", name, err)
		}
	}
}

func testFailedCommit(t *testing.T, s *suite) {
	h := s.hooked(t)
	put(t, h, "base", "0")
	h.armed.Store(true)
	x := h.start(func(w kv.Writer) error {
		w.OnCommit(func() { t.Error("a hook ran after a failed commit") })
		return putAll(w, "a", "1")
	})
	<-h.entered
	next := h.start(func(w kv.Writer) error { // begun on top of what fails
		w.OnCommit(func() { t.Error("a hook ran though its group was not committed") })
		return putAll(w, "b", "1")
	})
	h.pass(errors.New("the disk is gone"))
	wantIs(t, "the failed commit", <-x.out, kv.ErrCommitUnknown)
	if err := <-next.out; !errors.Is(err, kv.ErrStopped) || errors.Is(err, kv.ErrCommitUnknown) {
		t.Errorf("the group after is told %v, want ErrStopped: it did not happen", err)
	}
	for range 3 {
		err := h.Update(context.Background(), func(kv.Writer) error {
			t.Error("a closure ran after a failed commit")
			return nil
		})
		wantIs(t, "an Update after it", err, kv.ErrStopped)
	}
	wantRow(t, h, "base", "0") // reads go on
	wantRow(t, h, "b", "-")
	_ = h.View(context.Background(), func(r kv.Reader) error {
		if v, _ := r.Get(table, []byte("a")); v != nil {
			t.Errorf("a row in doubt is shown as %q", v)
		}
		return nil
	})
}

func testLeaderPanics(t *testing.T, s *suite) {
	for _, exit := range []bool{false, true} {
		h := s.hooked(t)
		put(t, h, "base", "0")
		h.armed.Store(true)
		first := h.start(func(w kv.Writer) error { return putAll(w, "base", "1") })
		<-h.entered
		leader := h.start(func(w kv.Writer) error {
			if err := putAll(w, "a", "bad", "base", "bad"); err != nil {
				return err
			}
			if exit {
				runtime.Goexit()
			}
			panic(errWanted)
		})
		other := h.start(func(w kv.Writer) error {
			if v, err := w.Get(table, []byte("base")); string(v) != "1" || err != nil {
				t.Errorf("the next of the group reads %q, %v", v, err)
			}
			return putAll(w, "b", "1")
		})
		h.pass(nil)
		<-h.entered
		h.pass(nil)
		for _, c := range []*call{first, other} {
			if err := <-c.out; err != nil {
				t.Error(err)
			}
		}
		if !exit {
			if v := <-leader.panic; v != errWanted { //nolint:errorlint // the very value
				t.Errorf("the leader's caller sees the panic %v", v)
			}
		}
		wantAll(t, h, "b=1 base=1")
	}
}
