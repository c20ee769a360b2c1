package idemhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/memkv"
	"onced/saga"
)

// performed makes a handler around a function.
func performed(t *testing.T, book *claim.Book, cfg Config, f Perform) http.Handler {
	t.Helper()
	cfg.Operation, cfg.Principal = "pay", account
	h, err := New(book, cfg, f)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func status(code int, header ...string) *Response {
	r := &Response{Status: code, Header: http.Header{}, Body: []byte("as the callee said")}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// Those who wait for a request that the callee did not take are not sent one after
// the other: they get its answer. Whoever comes later is sent.
func TestIK13_WhoWaitsSharesTheAnswer(t *testing.T) {
	answers := func(r *Response) func() (*Response, error) {
		return func() (*Response, error) { return r, nil }
	}
	for name, c := range map[string]struct {
		answer func() (*Response, error)
		status int
		after  string
		part   string
	}{
		"429":       {answers(status(429, "Retry-After", "7")), 429, "7", "callee"},
		"a date":    {answers(status(425, "Retry-After", "Fri")), 425, "Fri", "callee"},
		"409":       {answers(status(409, "Set-Cookie", "a")), 409, "1", "callee"},
		"too large": {answers(long(429)), 429, "1", "equal request"},
		"refused": {func() (*Response, error) {
			return nil, saga.NotDone(&Problem{Code: CodeUnavailable, Status: 502, Detail: "nobody there"})
		}, 502, "1", "nobody there"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			release := make(chan struct{})
			h := performed(t, newBook(t), Config{}, func(context.Context, *Exchange) (*Response, error) {
				if n.Add(1) == 1 {
					<-release
					return c.answer()
				}
				return status(201), nil
			})
			var wg sync.WaitGroup
			var hints, cookies, parts atomic.Int64
			for range 50 {
				wg.Go(func() {
					resp := serve(h, post("k", "{}"))
					if strings.Contains(bodyOf(t, resp), c.part) {
						parts.Add(1)
					}
					want(t, resp, c.status, "", false)
					if resp.Header.Get("Retry-After") == c.after {
						hints.Add(1)
					}
					if resp.Header.Get("Set-Cookie") != "" {
						cookies.Add(1)
					}
				})
			}
			synctest.Wait()
			mismatch := serve(h, post("k", "{ }"))
			want(t, mismatch, 422, string(CodeMismatch), false)
			close(release)
			wg.Wait()
			if n.Load() != 1 || hints.Load() < 49 || parts.Load() < 49 || cookies.Load() > 1 {
				t.Errorf("%s: %d sends, %d hints, %d bodies, %d cookies", name, n.Load(), hints.Load(),
					parts.Load(), cookies.Load())
			}
			want(t, serve(h, post("k", "{}")), 201, "", false)
			want(t, serve(h, post("k", "{}")), 201, "", true)
			if n.Load() != 2 {
				t.Errorf("%s: %d sends", name, n.Load())
			}
		})
	}
}

func long(code int) *Response {
	r := status(code)
	r.Rest = io.NopCloser(strings.NewReader("and more"))
	return r
}

// slowStore lets others act between each commit and its answer.
type slowStore struct{ kv.Store }

func (s slowStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	err := s.Store.Update(ctx, fn)
	time.Sleep(time.Millisecond)
	return err
}

// Whoever got the freed key before the answer could reach it does not send either.
func TestIK13_WhoGotTheKeyMeanwhileSharesTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		release := make(chan struct{})
		h := performed(t, bookOn(t, slowStore{memkv.New(memkv.Options{})}), Config{},
			func(context.Context, *Exchange) (*Response, error) {
				n.Add(1)
				<-release
				return status(429), nil
			})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { want(t, serve(h, post("k", "{}")), 429, "callee", false) })
		}
		time.Sleep(time.Second)
		close(release)
		wg.Wait()
		if n.Load() != 1 {
			t.Errorf("%d sends", n.Load())
		}
	})
}

// What an earlier try may have done is not shared as not done.
func TestIK13_DoubtIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		release := make(chan struct{})
		h := performed(t, newBook(t), Config{KeyValidFor: time.Hour},
			func(context.Context, *Exchange) (*Response, error) {
				switch n.Add(1) {
				case 1:
					return status(500), nil
				case 2:
					<-release
				}
				return status(429), nil
			})
		want(t, serve(h, post("k", "{}")), 500, "", false)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { want(t, serve(h, post("k", "{}")), 409, string(CodeOutcomeUnknown), false) })
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if n.Load() != 2 {
			t.Errorf("%d sends", n.Load())
		}
	})
}

// Others who wait are not touched: another key, another principal, a client that
// has gone, and an answer that counts.
func TestIK13_OnlyEqualsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		release := make(chan struct{})
		h := performed(t, newBook(t), Config{}, func(_ context.Context, x *Exchange) (*Response, error) {
			n.Add(1)
			<-release
			if x.Key == "k" && x.Principal == "a" {
				return status(429), nil
			}
			return status(201), nil
		})
		var wg sync.WaitGroup
		for _, c := range []struct {
			key, account string
			status       int
		}{{"k", "a", 429}, {"k", "b", 201}, {"l", "a", 201}} {
			for range 5 {
				wg.Go(func() {
					resp := serve(h, post(c.key, "{}", "Account", c.account))
					want(t, resp, c.status, "", resp.Header.Get(ReplayedHeader) == "true")
				})
			}
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			r := post("k", "{}", "Account", "a").WithContext(gone)
			want(t, serve(h, r), 503, string(CodeUnavailable), false)
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		close(release)
		wg.Wait()
		if n.Load() != 3 {
			t.Errorf("%d sends", n.Load())
		}
		flights := h.(*Handler).flights
		if len(flights.m) != 0 {
			t.Errorf("%d flights are left", len(flights.m))
		}
	})
}

// A key that could not be freed is taken: nobody is told that it is free.
func TestIK13_WhatWasNotFreedIsNotShared(t *testing.T) {
	f := &flight{of: &flights{}}
	f.n = 2
	a := &notDone{resp: status(429)}
	f.offer(a)
	if f.answer(false) != nil || f.answer(true) != a {
		t.Error("an offered answer counts for the owner of the key only")
	}
	f.withdraw(a)
	if f.answer(true) != nil {
		t.Error("a withdrawn answer counts")
	}
	ctx := &waiting{Context: t.Context(), f: f}
	if ctx.Err() != nil || context.Cause(ctx) != nil {
		t.Error("it has ended")
	}
	done := ctx.Done()
	f.prove(a)
	<-done
	if !errors.Is(context.Cause(ctx), errShared) || ctx.Err() == nil {
		t.Errorf("%v, %v", context.Cause(ctx), ctx.Err())
	}
	late := &waiting{Context: t.Context(), f: f}
	<-late.Done()
	if !errors.Is(context.Cause(late), errShared) || f.answer(false) != a {
		t.Error("who asks late waits for ever")
	}
}
