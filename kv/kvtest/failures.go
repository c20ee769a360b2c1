package kvtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"onced/kv"
)

var failureTests = []namedTest{
	{"Failures/AnErrorLeavesNoTrace", testErrorLeavesNoTrace},
	{"Failures/APanicReachesTheCaller", testPanic},
	{"Failures/AGoexitEndsTheCaller", testGoexit},
	{"Failures/ManyAtOnceMixedWithGoodOnes", testMixedFailures},
	{"Failures/NestedTransactionsAreRefused", testNested},
	{"Failures/UseAfterTheEnd", testUseAfterTheEnd},
	{"Failures/HooksOfOnCommit", testOnCommit},
}

var errWanted = errors.New("wanted")

// spoil changes everything that the tests below put down before.
func spoil(w kv.Writer) error {
	if err := putAll(w, "a", "bad", "b", "bad"); err != nil {
		return err
	}
	return deleteAll(w, "c", "b")
}

func testErrorLeavesNoTrace(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1", "c", "1")
	want := fmt.Errorf("with more: %w", errWanted)
	err := st.Update(context.Background(), func(w kv.Writer) error {
		if err := spoil(w); err != nil {
			t.Error(err)
		}
		if err := w.Put("kvtest.other", []byte("k"), nil); err != nil {
			t.Error(err)
		}
		return want
	})
	if err != want { //nolint:errorlint // the very error
		t.Errorf("error %v, want the closure's own", err)
	}
	wantAll(t, st, "a=1 c=1")
	err = st.View(context.Background(), func(r kv.Reader) error {
		if v, err := r.Get("kvtest.other", []byte("k")); v != nil || err != nil {
			t.Errorf("another table's row is %q, %v", v, err)
		}
		return want
	})
	if err != want { //nolint:errorlint // the very error
		t.Errorf("View: error %v, want the closure's own", err)
	}
	put(t, st, "a", "2")
	wantAll(t, st, "a=2 c=1")
}

type panicValue struct{ text string }

func testPanic(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1", "c", "1")
	want := &panicValue{"from the closure"}
	caught := func(f func()) (value any) {
		defer func() { value = recover() }()
		f()
		return nil
	}
	got := caught(func() {
		_ = st.Update(context.Background(), func(w kv.Writer) error {
			if err := spoil(w); err != nil {
				t.Error(err)
			}
			w.OnCommit(func() { t.Error("a hook of a transaction that panicked was run") })
			panic(want)
		})
	})
	if got != want {
		t.Errorf("the caller of Update sees the panic %v, want the closure's value", got)
	}
	got = caught(func() {
		_ = st.View(context.Background(), func(kv.Reader) error { panic(want) })
	})
	if got != want {
		t.Errorf("the caller of View sees the panic %v, want the closure's value", got)
	}
	got = caught(func() {
		_ = st.Update(context.Background(), func(w kv.Writer) error {
			for range w.Scan(table, kv.Range{}) {
				panic(want)
			}
			return nil
		})
	})
	if got != want {
		t.Errorf("a panic during a scan arrives as %v", got)
	}
	wantAll(t, st, "a=1 c=1")
	put(t, st, "a", "2")
	wantAll(t, st, "a=2 c=1")
}

func testGoexit(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1", "c", "1")
	exits := func(what string, f func()) {
		ended, returned := make(chan struct{}), false
		go func() {
			defer close(ended)
			f()
			returned = true
		}()
		<-ended
		if returned {
			t.Errorf("%s returned after its closure had called Goexit", what)
		}
	}
	exits("Update", func() {
		_ = st.Update(context.Background(), func(w kv.Writer) error {
			if err := spoil(w); err != nil {
				t.Error(err)
			}
			w.OnCommit(func() { t.Error("a hook of a transaction that exited was run") })
			runtime.Goexit()
			return nil
		})
	})
	exits("View", func() {
		_ = st.View(context.Background(), func(kv.Reader) error {
			runtime.Goexit()
			return nil
		})
	})
	wantAll(t, st, "a=1 c=1")
	put(t, st, "a", "2")
	wantAll(t, st, "a=2 c=1")
}

// misbehave runs one transaction that fails in one of several ways.
func misbehave(t *testing.T, st kv.Store, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if i%5 == 4 {
		cancel()
	}
	defer func() {
		if v := recover(); v != nil && v != i {
			t.Errorf("caller %d sees the panic %v of another", i, v)
		}
	}()
	err := st.Update(ctx, func(w kv.Writer) error {
		if _, err := add(w, "n", 1000); err != nil {
			return err
		}
		if err := w.Put(table, fmt.Appendf(nil, "bad%d", i), nil); err != nil {
			return err
		}
		switch i % 5 {
		case 1:
			return fmt.Errorf("caller %d: %w", i, errWanted)
		case 2:
			panic(i)
		case 3:
			runtime.Goexit()
		}
		t.Errorf("caller %d was run though its context was cancelled before", i)
		return nil
	})
	want := errWanted
	if i%5 == 4 {
		want = context.Canceled
	}
	wantIs(t, fmt.Sprint("caller ", i), err, want)
	if i%5 == 1 && err.Error() != fmt.Sprintf("caller %d: wanted", i) {
		t.Errorf("caller %d got the error of another: %v", i, err)
	}
}

func testMixedFailures(t *testing.T, s *suite) {
	st := s.store(t)
	const callers, rounds = 50, 6
	var wg sync.WaitGroup
	for i := range callers {
		for range rounds {
			wg.Go(func() {
				if i%5 > 0 {
					misbehave(t, st, i)
					return
				}
				err := st.Update(context.Background(), func(w kv.Writer) error {
					if _, err := add(w, "n", 1); err != nil {
						return err
					}
					_, err := add(w, fmt.Sprint("good", i), 1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	wantNumber(t, st, "n", callers/5*rounds)
	view(t, st, func(r kv.Reader) error {
		rows := 0
		for e, err := range r.Scan(table, kv.Range{To: []byte("n")}) {
			if err != nil {
				return err
			}
			rows++
			if n, err := number(r, string(e.Key)); n != rounds || err != nil {
				t.Errorf("row %q is %d, %v; want %d", e.Key, n, err, rounds)
			}
		}
		if rows != callers/5 {
			t.Errorf("%d rows, want %d", rows, callers/5)
		}
		return nil
	})
}

func testNested(t *testing.T, s *suite) {
	st, other := s.store(t), s.store(t)
	ctx := context.Background()
	refused := func(where string) {
		for name, store := range map[string]kv.Store{"the same store": st, "another store": other} {
			fail := func(kv.Writer) error {
				t.Errorf("a transaction of %s was run inside %s", name, where)
				return nil
			}
			wantIs(t, "Update of "+name+" inside "+where, store.Update(ctx, fail), kv.ErrNested)
			err := store.View(ctx, func(kv.Reader) error { return fail(nil) })
			wantIs(t, "View of "+name+" inside "+where, err, kv.ErrNested)
			wantIs(t, "Close of "+name+" inside "+where, store.Close(), kv.ErrNested)
			for _, err := range kv.Pages(ctx, store, table, kv.Range{}, 0) {
				wantIs(t, "Pages of "+name+" inside "+where, err, kv.ErrNested)
			}
		}
	}
	update(t, st, func(w kv.Writer) error {
		refused("Update")
		for range w.Scan(table, kv.Range{}) {
			refused("a scan of Update")
		}
		refused("Update")
		return putAll(w, "a", "1")
	})
	view(t, st, func(r kv.Reader) error {
		refused("View")
		for range r.Scan(table, kv.Range{}) {
			refused("a scan of View")
		}
		return nil
	})
	func() { // the mark of being inside goes when a closure panics
		defer func() { _ = recover() }()
		_ = st.Update(ctx, func(kv.Writer) error { panic("out") })
	}()
	wantRow(t, st, "a", "1")
	put(t, other, "a", "2")
	wantRow(t, other, "a", "2")
}

func testUseAfterTheEnd(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1")
	reader := func(what string, r kv.Reader, seq func(func(kv.Entry, error) bool)) {
		_, err := r.Get(table, []byte("a"))
		wantIs(t, what+": Get", err, kv.ErrTxDone)
		for name, seq := range map[string]func(func(kv.Entry, error) bool){
			"a new scan": r.Scan(table, kv.Range{}), "an earlier scan": seq} {
			n := 0
			for _, err := range seq {
				n++
				wantIs(t, what+": "+name, err, kv.ErrTxDone)
			}
			if n != 1 {
				t.Errorf("%s: %s yields %d times, want one error", what, name, n)
			}
		}
	}
	for name, end := range map[string]error{"a commit": nil, "a rollback": errWanted} {
		var late kv.Writer
		var seq func(func(kv.Entry, error) bool)
		err := st.Update(context.Background(), func(w kv.Writer) error {
			late, seq = w, w.Scan(table, kv.Range{})
			return end
		})
		wantIs(t, name, err, end)
		reader("after "+name, late, seq)
		wantIs(t, "Put after "+name, late.Put(table, []byte("a"), nil), kv.ErrTxDone)
		wantIs(t, "Delete after "+name, late.Delete(table, []byte("a")), kv.ErrTxDone)
	}
	var late kv.Reader
	var seq func(func(kv.Entry, error) bool)
	view(t, st, func(r kv.Reader) error {
		late, seq = r, r.Scan(table, kv.Range{})
		return nil
	})
	reader("after a view", late, seq)
	wantAll(t, st, "a=1")
}

func testOnCommit(t *testing.T, s *suite) {
	st := s.store(t)
	var order []int // by this goroutine only, or the race detector speaks
	seen := make(chan []byte)
	update(t, st, func(w kv.Writer) error {
		order = nil
		for i := range 3 {
			w.OnCommit(func() { order = append(order, i) })
		}
		w.OnCommit(func() {
			go func() { seen <- get(t, st, "a") }()
			if got := <-seen; string(got) != "1" {
				t.Errorf("while a hook runs others see %q, want what was committed", got)
			}
		})
		if len(order) > 0 {
			t.Error("a hook ran inside the closure")
		}
		return putAll(w, "a", "1")
	})
	if fmt.Sprint(order) != "[0 1 2]" {
		t.Errorf("hooks ran in the order %v, want each once, as they were registered", order)
	}
	err := st.Update(context.Background(), func(w kv.Writer) error {
		w.OnCommit(func() { t.Error("a hook of a transaction that failed was run") })
		return errWanted
	})
	wantIs(t, "rollback", err, errWanted)
	ran := 0
	update(t, st, func(w kv.Writer) error { // nothing written is a commit too
		w.OnCommit(func() { ran++ })
		return nil
	})
	if ran != 1 {
		t.Errorf("the hook of a transaction that wrote nothing ran %d times, want once", ran)
	}
}
