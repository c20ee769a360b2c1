package httpstep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga"
	"onced/saga/egress"
	"onced/saga/machine"
)

// newEngine makes one that works until the end of the test.
func newEngine(t *testing.T) *saga.Engine {
	t.Helper()
	store := memkv.New(memkv.Options{})
	timers := timer.New(store, timer.Config{})
	e, err := saga.NewEngine(store, saga.Config{Timers: timers, Feed: feed.New(feed.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = timers.Run(ctx) }) // ends with the test
	done.Go(func() { _ = e.Serve(ctx) })    // as above
	t.Cleanup(func() {
		cancel()
		done.Wait()
		_ = store.Close() // it is in memory
	})
	return e
}

// shop has points that are spent at the third try, and a charge that is refused. It
// records the keys that it gets, by path.
type shop struct {
	mu    sync.Mutex
	calls map[string][]string
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls[r.URL.Path] = append(s.calls[r.URL.Path], r.Header.Get("Idempotency-Key"))
	n := len(s.calls[r.URL.Path])
	s.mu.Unlock()
	switch {
	case r.URL.Path == "/points" && n == 1:
		w.WriteHeader(http.StatusAccepted)
	case r.URL.Path == "/points" && n == 2:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/points":
		_, _ = io.WriteString(w, `{"spent":3}`) // or the test fails
	case r.URL.Path == "/charge":
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = fmt.Fprintf(w, `{"code":"card_declined","echo":%q}`, r.Header.Get("Authorization")) // as above
	}
}

// TestInARun: a step that is not finished at first, and one that is refused; the run is
// undone, and its history shows the replies.
func TestInARun(t *testing.T) {
	callee := &shop{calls: map[string][]string{}}
	s := serve(t, callee.ServeHTTP)
	c := newCaller(t, Config{})
	call := func(path string) func(context.Context, *saga.Call) ([]byte, error) {
		return func(ctx context.Context, sc *saga.Call) ([]byte, error) {
			reply, err := c.Do(ctx, &Request{Method: "POST", URL: s.URL + path, Body: sc.Input,
				Key: sc.DownstreamKey, Trust: egress.Trusted, Resend: true,
				Header: http.Header{"Authorization": {"Bearer s3cr3t"}}})
			if err != nil {
				return nil, err
			}
			return reply.Body, nil
		}
	}
	undo := func(ctx context.Context, sc *saga.Call) error {
		_, err := call("/points/back")(ctx, sc)
		return err
	}
	d := saga.New("checkout").
		Step("points", call("/points"), undo, saga.Repeatable(time.Hour),
			saga.Backoff(time.Millisecond, time.Second)).
		Step("charge", call("/charge"), nil, saga.NothingToUndo())
	e := newEngine(t)
	if err := e.Register(d); err != nil {
		t.Fatal(err)
	}
	run, err := e.Run(t.Context(), d, "order-1", map[string]int{"points": 3})
	var refused *saga.RefusedError
	if !errors.Is(err, saga.ErrUndone) || !errors.As(err, &refused) || refused.Code != "http_402" {
		t.Fatalf("%v, %+v", err, refused)
	}
	callee.mu.Lock()
	defer callee.mu.Unlock()
	calls := callee.calls
	points, back := calls["/points"], calls["/points/back"]
	if len(points) != 3 || points[0] != points[1] || points[1] != points[2] || len(back) != 1 ||
		back[0] == points[0] || len(calls["/charge"]) != 1 {
		t.Errorf("calls: %q", calls)
	}
	var history strings.Builder
	for _, h := range run.History {
		history.WriteString(h.Text + "\n")
	}
	if run.State.Status != machine.Compensated || strings.Contains(history.String(), "s3cr3t") {
		t.Errorf("%v: %s", run.State.Status, &history)
	}
	for _, want := range []string{"answered 202", "answered 503",
		`answered 402: {"code":"card_declined","echo":"***"}`} {
		if !strings.Contains(history.String(), want) {
			t.Errorf("the history has no %q:\n%s", want, &history)
		}
	}
}
