package kvtest

import (
	"context"
	"sync"
	"testing"

	"onced/kv"
)

var contextTests = []namedTest{
	{"Contexts/CancelledBefore", testCancelledBefore},
	{"Contexts/CancelledWhileQueued", testCancelledWhileQueued},
	{"Contexts/CancelledWhileRunning", testCancelledWhileRunning},
}

func testCancelledBefore(t *testing.T, s *suite) {
	st := s.store(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := st.Update(ctx, func(kv.Writer) error {
		t.Error("Update ran though its context was cancelled before")
		return nil
	})
	wantIs(t, "Update", err, context.Canceled)
	err = st.View(ctx, func(kv.Reader) error {
		t.Error("View ran though its context was cancelled before")
		return nil
	})
	wantIs(t, "View", err, context.Canceled)
	put(t, st, "a", "1")
	wantAll(t, st, "a=1")
}

// tellingContext tells when somebody begins to wait for its end.
type tellingContext struct {
	context.Context
	once    sync.Once
	watched chan struct{}
}

func (c *tellingContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.watched) })
	return c.Context.Done()
}

// While one transaction runs, others wait and are cancelled: they must return
// at once, before the running one has ended, and must never run.
func testCancelledWhileQueued(t *testing.T, s *suite) {
	st := s.store(t)
	const waiters = 20
	running, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	first := make(chan error, 1)
	go func() {
		first <- st.Update(context.Background(), func(w kv.Writer) error {
			once.Do(func() { close(running) })
			<-release
			return putAll(w, "a", "1")
		})
	}()
	<-running
	stays := make(chan error, 1) // one among them that is not cancelled
	for i := range waiters {
		if i == waiters/2 {
			go func() {
				stays <- st.Update(context.Background(), func(w kv.Writer) error {
					return putAll(w, "b", "1")
				})
			}()
		}
		inner, cancel := context.WithCancel(context.Background())
		ctx := &tellingContext{Context: inner, watched: make(chan struct{})}
		out := make(chan error, 1)
		go func() {
			out <- st.Update(ctx, func(kv.Writer) error {
				t.Error("a transaction ran that was cancelled while it waited")
				return nil
			})
		}()
		<-ctx.watched
		cancel()
		wantIs(t, "a waiting Update", <-out, context.Canceled)
	}
	close(release)
	for _, ended := range []chan error{first, stays} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	put(t, st, "c", "1")
	wantAll(t, st, "a=1 b=1 c=1")
}

// Once the closure has begun, the outcome is the true one.
func testCancelledWhileRunning(t *testing.T, s *suite) {
	st := s.store(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := st.Update(ctx, func(w kv.Writer) error {
		cancel()
		if _, err := w.Get(table, []byte("a")); err != nil {
			t.Errorf("Get after the cancellation: %v", err)
		}
		if _, err := scan(w, kv.Range{}); err != nil {
			t.Errorf("Scan after the cancellation: %v", err)
		}
		return putAll(w, "a", "1")
	})
	if err != nil {
		t.Errorf("Update answers %v for what it committed", err)
	}
	wantRow(t, st, "a", "1")
	ctx, cancel = context.WithCancel(context.Background())
	err = st.Update(ctx, func(w kv.Writer) error {
		cancel()
		if err := putAll(w, "a", "2"); err != nil {
			return err
		}
		return errWanted
	})
	if err != errWanted { //nolint:errorlint // the very error
		t.Errorf("Update answers %v, want the closure's error", err)
	}
	wantRow(t, st, "a", "1")
}
