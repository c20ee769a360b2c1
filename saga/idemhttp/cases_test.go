package idemhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/faultkv"
	"onced/kv/memkv"
	"onced/saga"
)

func TestIK01_ReplayIsTheSameAndHasNoSecondEffect(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{}, c.charge)
	first := serve(h, post("k", "{}"))
	want(t, first, 201, `{"charge":1}`, false)
	for range 3 {
		again := serve(h, post("k", "{}"))
		want(t, again, 201, `{"charge":1}`, true)
		if again.Header.Get("Content-Type") != "application/json" {
			t.Errorf("content type %q", again.Header.Get("Content-Type"))
		}
	}
	c.is(t, 1)
}

func TestIK02_HundredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		release := make(chan struct{})
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
			<-release
			c.charge(w, r)
		})
		var wg sync.WaitGroup
		replays := make(chan bool, 100)
		for range 100 {
			wg.Go(func() {
				resp := serve(h, post("k", "{}"))
				if body := bodyOf(t, resp); resp.StatusCode != 201 || body != `{"charge":1}` {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
				replays <- resp.Header.Get(ReplayedHeader) == "true"
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		close(replays)
		n := 0
		for r := range replays {
			if r {
				n++
			}
		}
		if n != 99 {
			t.Errorf("%d replays, want 99", n)
		}
		c.is(t, 1)
	})
}

func TestIK03_LosersGetTheFailureOrOneTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, before := range []bool{false, true} {
			var c counter
			release := make(chan struct{})
			h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
				<-release
				if n := c.n.Add(1); n == 1 && before {
					NotDone(r.Context())
				}
				w.WriteHeader(http.StatusPaymentRequired)
				_, _ = io.WriteString(w, "declined")
			})
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if resp := serve(h, post("k", "{}")); resp.StatusCode != 402 || bodyOf(t,
						resp) != "declined" {
						t.Errorf("%d", resp.StatusCode)
					}
				})
			}
			synctest.Wait()
			close(release)
			wg.Wait()
			if before {
				c.is(t, 2)
			} else {
				c.is(t, 1)
			}
		}
	})
}

func TestIK04_OtherRequestUnderTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		entered, release := make(chan struct{}), make(chan struct{})
		h := guard(t, newBook(t), Config{Wait: NoWait}, func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-release
			c.charge(w, r)
		})
		var first *http.Response
		var wg sync.WaitGroup
		wg.Go(func() { first = serve(h, post("k", "{}", "Content-Type", "a/b")) })
		<-entered
		others := func() []*http.Request {
			put := post("k", "{}", "Content-Type", "a/b")
			put.Method = http.MethodPatch
			query := post("k", "{}", "Content-Type", "a/b")
			query.URL.RawQuery = "a=2"
			path := post("k", "{}", "Content-Type", "a/b")
			path.URL.Path = "/pay2"
			return []*http.Request{post("k", "{ }", "Content-Type", "a/b"), post("k", "{}", "Content-Type",
				"a/c"),
				post("k", "{}"), post("k", "", "Content-Type", "a/b"), put, query, path}
		}
		for i, r := range others() {
			resp := serve(h, r)
			if want(t, resp, 422, string(CodeMismatch), false); t.Failed() {
				t.Fatalf("request %d while in flight", i)
			}
		}
		close(release)
		wg.Wait()
		want(t, first, 201, `{"charge":1}`, false)
		for _, r := range others() {
			want(t, serve(h, r), 422, string(CodeMismatch), false)
		}
		want(t, serve(h, post("k", "{}", "Content-Type", "a/b")), 201, `{"charge":1}`, true)
		c.is(t, 1)
	})
}

func TestIK05_TwoPrincipals(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{}, c.charge)
	want(t, serve(h, post("k", "{}", "Account", "a")), 201, `{"charge":1}`, false)
	want(t, serve(h, post("k", "other", "Account", "b")), 201, `{"charge":2}`, false)
	want(t, serve(h, post("k", "{}", "Account", "a", "Authorization", "rotated")), 201, `{"charge":1}`, true)
	c.is(t, 2)
}

func TestIK06_TwoOperations(t *testing.T) {
	var c counter
	book := newBook(t)
	pay := guard(t, book, Config{Operation: "pay"}, c.charge)
	refund := guard(t, book, Config{Operation: "refund"}, c.charge)
	want(t, serve(pay, post("k", "{}")), 201, `{"charge":1}`, false)
	want(t, serve(refund, post("k", "{}")), 201, `{"charge":2}`, false)
}

func TestIK08_CheckFindsIt(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{Check: func(ctx context.Context, x *Exchange, d saga.Doubt) (*Response,
		bool, error) {
		if d.DownstreamKey != DownstreamKey(ctx) || !strings.HasPrefix(d.DownstreamKey, "oc_") ||
			x.Key != "k" {
			t.Errorf("look-up of %q under %q", x.Key, d.DownstreamKey)
		}
		return &Response{Status: 201, Body: []byte("found")}, true, nil
	}}, func(http.ResponseWriter, *http.Request) { c.n.Add(1); panic("lost") })
	want(t, serve(h, post("k", "{}")), 500, string(CodeInternal), false)
	want(t, serve(h, post("k", "{}")), 201, "found", true)
	want(t, serve(h, post("k", "{}")), 201, "found", true)
	c.is(t, 1)
}

func TestIK09_CheckUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		find := errors.New("gateway down")
		h := guard(t, newBook(t), Config{SettlesAfter: time.Minute,
			Check: func(context.Context, *Exchange, saga.Doubt) (*Response, bool, error) {
				return nil,
					false, find
			},
		}, func(w http.ResponseWriter, r *http.Request) {
			if c.n.Add(1) == 1 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			c.charge(w, r)
		})
		want(t, serve(h, post("k", "{}")), 500, "", false)
		resp := serve(h, post("k", "{}"))
		if resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		want(t, resp, 409, string(CodeOutcomeUnknown), false)
		find = nil // finds nothing, but too early
		time.Sleep(time.Minute - time.Second)
		want(t, serve(h, post("k", "{}")), 409, string(CodeOutcomeUnknown), false)
		c.is(t, 1)
		time.Sleep(2 * time.Second)
		want(t, serve(h, post("k", "{}")), 201, "", false)
	})
}

func TestIK10_UnknownIsNeverRunAgain(t *testing.T) {
	var c counter
	for status := range map[int]bool{500: true, 502: true, 503: true, 504: true, 408: true, 418: true} {
		c.n.Store(0)
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, _ *http.Request) {
			c.n.Add(1)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "as the callee said")
		})
		want(t, serve(h, post("k", "{}")), status, "as the callee said", false)
		resp := serve(h, post("k", "{}"))
		if resp.Header.Get("Retry-After") != "" {
			t.Error("a held key has no Retry-After")
		}
		want(t, resp, 409, "a person", false)
		c.is(t, 1)
	}
}

func TestIK10_RepeatableIsSentAgainWithTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		status := 504
		h := guard(t, newBook(t), Config{KeyValidFor: time.Hour}, func(w http.ResponseWriter,
			r *http.Request) {
			keys = append(keys, saga.DownstreamKey(r.Context()))
			w.WriteHeader(status)
		})
		want(t, serve(h, post("k", "{}")), 504, "", false)
		status = 402 // proves nothing: the first send may have had its effect
		want(t, serve(h, post("k", "{}")), 409, string(CodeOutcomeUnknown), false)
		status = 429
		resp := serve(h, post("k", "{}")) // not sent: it would prove as little
		if resp.Header.Get("Retry-After") != "300" || len(keys) != 2 {
			t.Errorf("%v, keys %q", resp.Header, keys)
		}
		want(t, resp, 409, "the same key again", false)
		time.Sleep(saga.DefaultSettlesAfter)
		want(t, serve(h, post("k", "{}")), 409, string(CodeOutcomeUnknown), false)
		status = 201
		want(t, serve(h, post("k", "{}")), 201, "", false)
		want(t, serve(h, post("k", "{}")), 201, "", true)
		if len(keys) != 4 || keys[0] == "" || keys[0] != keys[1] || keys[0] != keys[3] {
			t.Errorf("keys %q", keys)
		}
		status = 504
		want(t, serve(h, post("old", "{}")), 504, "", false)
		time.Sleep(time.Hour)
		want(t, serve(h, post("old", "{}")), 409, "a person", false)
		if len(keys) != 5 {
			t.Errorf("sent after the callee may have forgotten the key: %d", len(keys))
		}
	})
}

func TestIK11_SaveFails(t *testing.T) {
	for _, when := range []faultkv.When{faultkv.Before, faultkv.Lost, faultkv.Kept} {
		var c counter
		f := faultkv.New(memkv.New(memkv.Options{}))
		h := guard(t, bookOn(t, f), Config{}, func(w http.ResponseWriter, r *http.Request) {
			c.charge(w, r)
			for i := range 3 { // as often as one call tries
				f.Arm(faultkv.Plan{Point: len(f.Points()) + 1 + i, When: when})
			}
		})
		resp := serve(h, post("k", "{}"))
		if when == faultkv.Kept {
			// Told that it may have failed, it asks again and learns that it is stored.
			if resp.StatusCode != 503 && resp.StatusCode != 201 {
				t.Errorf("%d", resp.StatusCode)
			}
		} else {
			want(t, resp, 503, string(CodeCommitUnknown), false)
		}
		want(t, serve(h, post("k", "{}")), 201, `{"charge":1}`, true)
		c.is(t, 1)
	}
}

// Two handlers that replace each other share what could not be stored.
func TestIK11_TheNextHandlerRemembers(t *testing.T) {
	for _, shared := range []bool{true, false} {
		var c counter
		f := faultkv.New(memkv.New(memkv.Options{}))
		book := bookOn(t, f)
		cfg := Config{Wait: NoWait}
		if shared {
			cfg.Unsaved = &saga.Unsaved{}
		}
		h := guard(t, book, cfg, func(w http.ResponseWriter, r *http.Request) {
			c.charge(w, r)
			for i := range 3 { // as often as one call tries
				f.Arm(faultkv.Plan{Point: len(f.Points()) + 1 + i, When: faultkv.Before})
			}
		})
		want(t, serve(h, post("k", "{}")), 503, string(CodeCommitUnknown), false)
		next := guard(t, book, cfg, c.charge)
		if shared {
			want(t, serve(next, post("k", "{}")), 201, `{"charge":1}`, true)
		} else {
			want(t, serve(next, post("k", "{}")), 409, string(CodeInFlight), false)
		}
		c.is(t, 1)
	}
}

func TestIK12_DeclineIsReplayed(t *testing.T) {
	for _, status := range []int{400, 402, 403, 404, 405, 410, 411, 413, 414, 415, 422, 431, 451} {
		var c counter
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, _ *http.Request) {
			c.n.Add(1)
			w.Header().Set("Decline", "yes")
			w.WriteHeader(status)
			_, _ = w.Write([]byte{0, 0xff, '{'})
		})
		for i := range 3 {
			resp := serve(h, post("k", "{}"))
			if resp.Header.Get("Decline") != "yes" {
				t.Errorf("headers %v", resp.Header)
			}
			want(t, resp, status, "\x00\xff{", i > 0)
		}
		c.is(t, 1)
	}
}

func TestIK13_FailureBeforeTheEffectStoresNothing(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
		NotDone(r.Context())
		if body, _ := io.ReadAll(r.Body); string(body) == "bad" {
			http.Error(w, "invalid amount", http.StatusBadRequest)
			return
		} else if string(body) == "panic" {
			panic("before")
		}
		Begun(r.Context())
		c.charge(w, r)
	})
	want(t, serve(h, post("k", "bad")), 400, "invalid amount", false)
	want(t, serve(h, post("k", "panic")), 500, string(CodeInternal), false)
	want(t, serve(h, post("k", "good")), 201, `{"charge":1}`, false)
	want(t, serve(h, post("k", "bad")), 422, string(CodeMismatch), false)
	c.is(t, 1)
}

// The statuses that say "not now" free the key and are passed on.
func TestIK13_NotDoneIsNotStored(t *testing.T) {
	for _, status := range []int{401, 407, 409, 425, 429} {
		var c counter
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
			if c.n.Add(1) == 1 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				return
			}
			c.charge(w, r)
		})
		resp := serve(h, post("k", "{}"))
		if resp.Header.Get("Retry-After") != "7" {
			t.Errorf("headers %v", resp.Header)
		}
		want(t, resp, status, "", false)
		want(t, serve(h, post("k", "{}")), 201, "", false)
	}
}

func TestIK13_ClassifyIsSettable(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{Classify: func(r *Response) saga.Outcome {
		if r.Status == 503 && r.Header.Get("Retry-After") != "" {
			return saga.OutcomeRetry
		}
		return ClassOf(r.Status)
	}}, func(w http.ResponseWriter, r *http.Request) {
		if c.n.Add(1) == 1 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(503)
			return
		}
		c.charge(w, r)
	})
	want(t, serve(h, post("k", "{}")), 503, "", false)
	want(t, serve(h, post("k", "{}")), 201, "", false)
}

func TestIK17_WaitEndsWith409(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		release := make(chan struct{})
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
			<-release
			c.charge(w, r)
		})
		var wg sync.WaitGroup
		wg.Go(func() { want(t, serve(h, post("k", "{}")), 201, "", false) })
		synctest.Wait()
		start := time.Now()
		resp := serve(h, post("k", "{}"))
		if waited := time.Since(start); waited != 10*time.Second {
			t.Errorf("waited %v, want 10s", waited)
		}
		if resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		want(t, resp, 409, string(CodeInFlight), false)
		close(release)
		wg.Wait()
		want(t, serve(h, post("k", "{}")), 201, `{"charge":1}`, true)
	})
}

func TestIK18_ClientGone(t *testing.T) {
	var c counter
	entered, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var seen error
	h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		seen = r.Context().Err()
		c.charge(w, r)
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		context.AfterFunc(r.Context(), func() { close(release) }) // when the client has gone
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/pay?a=1", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	failed := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(r)
		failed <- err
	}()
	<-entered
	cancel()
	if <-failed == nil {
		t.Fatal("the client got an answer")
	}
	s.CloseClientConnections()
	<-done
	if seen != nil {
		t.Errorf("the handler's context ended with its client: %v", seen)
	}
	want(t, serve(h, post("k", "{}")), 201, `{"charge":1}`, true)
	c.is(t, 1)
}

func TestIK19_ReplayByteForByte(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
	for _, body := range [][]byte{nil, {}, []byte("null"), {0, 1, 0xff, '\r', '\n'}, []byte("<p>"), big} {
		var c counter
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, _ *http.Request) {
			c.n.Add(1)
			hd := w.Header()
			hd.Set("Content-Type", "application/x-thing")
			hd.Add("Many", "one")
			hd.Add("Many", "two")
			hd.Set("Location", "/charges/1")
			hd.Set("Set-Cookie", "session=1")
			hd.Set("Date", "Mon, 01 Jan 2001 00:00:00 GMT")
			hd.Set("Connection", "X-Hop")
			hd.Set("X-Hop", "hop")
			hd.Set("Idempotency-Replayed", "of somebody else")
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write(body[:len(body)/2])
			_, _ = w.Write(body[len(body)/2:])
		})
		first := serve(h, post("k", "{}"))
		if first.Header.Get("Set-Cookie") == "" || bodyOf(t, first) != string(body) {
			t.Error("the first caller does not get everything")
		}
		again := serve(h, post("k", "{}"))
		hd := again.Header
		if again.StatusCode != 202 || hd.Get("Location") != "/charges/1" || len(hd["Many"]) != 2 ||
			hd.Get("Content-Type") != "application/x-thing" || hd.Get("Content-Length") != itoa(len(body)) {
			t.Errorf("%d %v", again.StatusCode, hd)
		}
		for _, name := range []string{"Set-Cookie", "Date", "Connection", "X-Hop"} {
			if hd.Get(name) != "" {
				t.Errorf("%s is replayed", name)
			}
		}
		want(t, again, 202, string(body), true)
		c.is(t, 1)
	}
}

func TestIK19_StatusesWithoutBody(t *testing.T) {
	for status, length := range map[int]string{204: "", 205: "0", 304: ""} {
		done := func(*Response) saga.Outcome { return saga.OutcomeDone }
		h := guard(t, newBook(t), Config{Classify: done}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(status)
			if _, err := w.Write([]byte("x")); err == nil {
				t.Error("a body was taken")
			}
		})
		for i := range 2 {
			resp := serve(h, post("k", "{}"))
			if resp.Header.Get("ETag") != `"1"` || resp.Header.Get("Content-Length") != length {
				t.Errorf("%d: %v", status, resp.Header)
			}
			want(t, resp, status, "", i > 0)
		}
	}
}

// A Perform that gives a body to a status without one sends none.
func TestIK19_ResetContentHasNoBody(t *testing.T) {
	h, err := New(newBook(t), Config{Operation: "pay", Principal: OnePrincipal},
		func(context.Context, *Exchange) (*Response, error) {
			return &Response{Status: 205, Body: []byte("x")}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		resp := serve(h, post("k", "{}"))
		if resp.Header.Get("Content-Length") != "0" {
			t.Errorf("%v", resp.Header)
		}
		if body := bodyOf(t, resp); body != "" || resp.StatusCode != 205 {
			t.Errorf("%d: %d %q", i, resp.StatusCode, body)
		}
	}
}

// Whoever's request may have had its effect can tell by a header, whatever the
// handler answered; and no answer of a handler can say it by itself.
func TestIK10_UnknownIsMarked(t *testing.T) {
	for _, status := range []int{200, 301, 302, 303, 307, 308, 402, 408, 429, 500, 502} {
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Idempotency-Outcome"] = []string{"theirs"}
			w.WriteHeader(status)
		})
		unknown := status/100 == 3 || status == 408 || status >= 500
		for i := range 2 {
			resp := serve(h, post("k", "{}"))
			got := strings.Join(resp.Header["Idempotency-Outcome"], ",")
			if got != map[bool]string{true: "unknown"}[unknown] {
				t.Errorf("%d, answer %d: %q", status, i, got)
			}
			if want := map[bool]int{true: 409, false: status}[unknown && i == 1]; resp.StatusCode != want {
				t.Errorf("%d, answer %d: %d", status, i, resp.StatusCode)
			}
		}
	}
	h := guard(t, newBook(t), Config{}, func(http.ResponseWriter, *http.Request) { panic("x") })
	if resp := serve(h, post("k", "{}")); resp.Header.Get(OutcomeHeader) != "unknown" {
		t.Errorf("%v", resp.Header)
	}
}

func TestIK19_TooLargeToKeep(t *testing.T) {
	for _, status := range []int{201, 402} {
		var c counter
		h := guard(t, newBook(t), Config{MaxResponse: 10}, func(w http.ResponseWriter, _ *http.Request) {
			c.n.Add(1)
			w.Header().Set("Location", "/charges/1")
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(status)
			_, _ = w.Write(make([]byte, 11))
		})
		first := serve(h, post("k", "{}"))
		if first.StatusCode != status || len(bodyOf(t, first)) != 11 {
			t.Error("the first caller does not get its response")
		}
		for range 2 {
			again := serve(h, post("k", "{}"))
			if again.Header.Get("Location") != "/charges/1" ||
				again.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%v", again.Header)
			}
			want(t, again, status, string(CodeResultTooLarge), true)
		}
		c.is(t, 1)
	}
}

func TestIK19_Trailers(t *testing.T) {
	h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Sum, Unused")
		_, _ = io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set("Sum", "1")
		w.Header().Set(http.TrailerPrefix+"Late", "2")
	})
	s := httptest.NewServer(h)
	defer s.Close()
	for i := range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		want(t, resp, 200, "body", i > 0)
		if resp.Trailer.Get("Sum") != "1" || resp.Trailer.Get("Late") != "2" || len(resp.Header["Sum"]) > 0 {
			t.Errorf("trailers %v, headers %v", resp.Trailer, resp.Header)
		}
		_ = resp.Body.Close()
	}
}

func TestIK20_Keys(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{}, c.charge)
	for _, key := range []string{`"`, `""`, `" "`, `"a`, `a"`, `"a"b`, `"a";x=1`, `"a\b"`, `"a\`,
		`"a", "b"`, "a,b", "a,a",
		`"é"`, "\xff", "a\x7f", "a\tb", strings.Repeat("k", 256), `"` + strings.Repeat("k", 256) + `"`,
		strings.Repeat("k", 10_000), `"` + strings.Repeat(`\"`, 256) + `"`} {
		want(t, serve(h, post(key, "{}")), 400, string(CodeKeyInvalid), false)
	}
	r := post("", "{}")
	want(t, serve(h, r), 400, string(CodeKeyMissing), false)
	r.Header["Idempotency-Key"] = []string{""}
	want(t, serve(h, r), 400, "is empty", false)
	r.Header["Idempotency-Key"] = []string{"k", "k"}
	resp := serve(h, r)
	want(t, resp, 400, "2 times", false)
	c.is(t, 0)
	for _, same := range [][2]string{{"k", `"k"`}, {`"k-1 x"`, "k-1 x"}, {`a\b`, `"a\\b"`},
		{strings.Repeat("k", 255), `"` + strings.Repeat("k", 255) + `"`}} {
		c.n.Store(0)
		want(t, serve(h, post(same[0], "{}")), 201, "", false)
		want(t, serve(h, post(same[1], "{}")), 201, "", true)
		c.is(t, 1)
	}
}

func TestIK20_TheProblemNamesHeaderLimitAndRemedy(t *testing.T) {
	h := guard(t, newBook(t), Config{KeyHeader: "x-pay-key"}, func(http.ResponseWriter, *http.Request) {})
	r := post("", "{}", "X-Pay-Key", strings.Repeat("k", 256))
	resp := serve(h, r)
	if resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%v", resp.Header)
	}
	body := bodyOf(t, resp)
	for _, part := range []string{"X-Pay-Key", "256", "255", "send one key", `"param":"X-Pay-Key"`} {
		if !strings.Contains(body, part) {
			t.Errorf("%q is not in %s", part, body)
		}
	}
}

// Two keys that look the same are the same.
func TestIK20_InvisibleCharacters(t *testing.T) {
	for _, c := range []string{
		"\u200b", "\u200d", "\u200e", "\u202e", "\u2066", "\ufeff", "\u00ad", "\u2028",
	} {
		if key, err := ParseKey("a" + c + "b"); err == nil || !strings.Contains(err.Error(), "invisible") {
			t.Errorf("%q: %q %v", c, key, err)
		}
	}
	for _, key := range []string{"é", "注文-1", "заказ"} { //nolint:gosmopolitan // any script will do
		if got, err := ParseKey(key); got != key || err != nil {
			t.Errorf("%q: %q %v", key, got, err)
		}
	}
}

func TestIK25_RawBodiesCount(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{}, c.charge)
	want(t, serve(h, post("k", `{"a":1,"b":2}`)), 201, "", false)
	want(t, serve(h, post("k", `{"b":2,"a":1}`)), 422, string(CodeMismatch), false)
	want(t, serve(h, post("k", `{"a":1, "b":2}`)), 422, string(CodeMismatch), false)
}

func TestIK26_Panics(t *testing.T) {
	for _, begun := range []bool{false, true} {
		var c counter
		h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
			NotDone(r.Context())
			if c.n.Add(1) > 1 {
				w.WriteHeader(201)
				return
			}
			if begun {
				Begun(r.Context())
			}
			panic("boom")
		})
		s := httptest.NewServer(h)
		want(t, do(t, s.URL), 500, string(CodeInternal), false)
		if begun {
			want(t, do(t, s.URL), 409, string(CodeOutcomeUnknown), false)
			c.is(t, 1)
		} else {
			want(t, do(t, s.URL), 201, "", false)
		}
		s.Close()
	}
}

// do sends the request of a test over the network.
func do(t *testing.T, url string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestIK26_AbortCutsTheConnectionAndIsUnknown(t *testing.T) {
	h := guard(t, newBook(t), Config{}, func(http.ResponseWriter,
		*http.Request) {
		panic(http.ErrAbortHandler)
	})
	s := httptest.NewServer(h)
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	if resp, err := http.DefaultClient.Do(r); err == nil {
		t.Errorf("%d %s", resp.StatusCode, bodyOf(t, resp))
	}
	want(t, do(t, s.URL), 409, string(CodeOutcomeUnknown), false)
}

func TestIK27_AfterAPersonHasDecided(t *testing.T) {
	full, err := ResultOf(&Response{Status: 201, Header: http.Header{"A": {"b"}},
		Body: []byte("from the gateway")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		verdict  claim.Verdict
		result   claim.Result
		status   int
		part     string
		replayed bool
	}{
		{claim.VerdictDone, full, 201, "from the gateway", true},
		{claim.VerdictDone, claim.Result{Type: "application/json", Data: []byte(`{"a":1}`)}, 200, `{"a":1}`,
			true},
		{claim.VerdictDone, claim.Result{}, 204, "", true},
		{claim.VerdictRefused, claim.Result{}, 422, string(CodeRefused), true},
		{claim.VerdictRefused, claim.Result{Type: "text/plain", Data: []byte("no funds")}, 422, "no funds",
			true},
		{claim.VerdictRefused, full, 201, "from the gateway", true},
		{claim.VerdictFree, claim.Result{}, 500, "run again", false},
	} {
		var n counter
		book := newBook(t)
		mw := Config{Operation: "pay", Principal: account}
		h, err := New(book, mw, runHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n.n.Add(1)
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "run again")
		})))
		if err != nil {
			t.Fatal(err)
		}
		want(t, serve(h, post("k", "{}")), 500, "", false)
		got, ok, err := book.Get(t.Context(), h.ID("", "k"))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, err := book.Resolve(t.Context(), claim.Resolution{ID: h.ID("", "k"),
			Version: got.Record.Version,
			Verdict: c.verdict, Result: c.result, Actor: "ada", Reason: "asked the gateway"}); err != nil {
			t.Fatal(err)
		}
		want(t, serve(h, post("k", "{}")), c.status, c.part, c.replayed)
	}
}

func TestMethods(t *testing.T) {
	var c counter
	pass := guard(t, newBook(t), Config{}, c.charge)
	refuse := guard(t, newBook(t), Config{RefuseOthers: true}, c.charge)
	optional := guard(t, newBook(t), Config{KeyOptional: true, Methods: []string{"POST", "PUT"}}, c.charge)
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"} {
		for range 2 { // never once per key
			r := post("k", "{}")
			r.Method = method
			want(t, serve(pass, r), 201, "", false)
		}
		r := post("k", "{}")
		r.Method = method
		resp := serve(refuse, r)
		if resp.StatusCode != 405 || strings.Join(resp.Header["Allow"], ",") != "POST,PATCH" {
			t.Errorf("%s: %d %v", method, resp.StatusCode, resp.Header)
		}
	}
	c.is(t, 12)
	want(t, serve(optional, post("", "{}")), 201, "", false)
	want(t, serve(optional, post("", "{}")), 201, "", false)
	want(t, serve(optional, post("k", "{}")), 201, "", false)
	want(t, serve(optional, post("k", "{}")), 201, "", true)
	put := post("k2", "{}")
	put.Method = "PUT"
	want(t, serve(optional, put), 201, "", false)
	r := post("", "{}")
	r.Header["Idempotency-Key"] = []string{""}
	want(t, serve(optional, r), 400, "", false)
}

// A method in other letters is another one to us, and the same to many a handler.
func TestMethodsInOtherLetters(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{}, c.charge)
	for _, method := range []string{"post", "Post", "pATCH"} {
		r := post("", "{}")
		r.Method = method
		want(t, serve(h, r), 405, `"method_not_allowed"`, false)
	}
	c.is(t, 0)
}

// What anybody may send again cannot be guarded.
func TestMethodsThatNoKeyGuards(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT", "post"} {
		_, err := Middleware(newBook(t), Config{Operation: "pay", Principal: OnePrincipal,
			Methods: []string{"POST", method}})
		wrong, ok := errors.AsType[*saga.ConfigError](err)
		if !ok || wrong.Field != "Methods" || !strings.Contains(wrong.Problem, method) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	var c counter
	h := guard(t, newBook(t), Config{MaxBody: 10}, c.charge)
	want(t, serve(h, post("k", strings.Repeat("x", 11))), 413, string(CodeTooLarge), false)
	chunked := post("k", "")
	chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 11))), -1
	want(t, serve(h, chunked), 413, "10 bytes", false)
	c.is(t, 0)
	want(t, serve(h, post("k", strings.Repeat("x", 10))), 201, "", false)
	c.is(t, 1)
}

func TestHandlerReadsTheWholeBody(t *testing.T) {
	body := strings.Repeat("0123456789", 20_000)
	h := guard(t, newBook(t), Config{}, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, string(got) == body && err == nil && r.ContentLength == int64(len(body)))
	})
	want(t, serve(h, post("k", body)), 200, "true", false)
	want(t, serve(h, post("k", body)), 200, "true", true)
}

func TestRawRequests(t *testing.T) {
	var c counter
	s := httptest.NewServer(guard(t, newBook(t), Config{}, c.charge))
	defer s.Close()
	addr := s.Listener.Addr().String()
	const head = "POST /pay HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	for _, q := range []struct {
		request string
		status  int
		effects int64
	}{
		{head + "Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n", 400, 0},
		{head + "Idempotency-Key: a\r\nidempotency-key: a\r\nContent-Length: 0\r\n\r\n", 400, 0},
		{head + "Idempotency-Key: a\x01b\r\nContent-Length: 0\r\n\r\n", 400, 0},
		{head + "Idempotency-Key: a\rb\r\nContent-Length: 0\r\n\r\n", 400, 0},
		{head + "Idempotency-Key : a\r\nContent-Length: 0\r\n\r\n", 400, 0},
		{head + "Idempotency-Key: " + strings.Repeat("k", 10<<10) + "\r\nContent-Length: 0\r\n\r\n", 400, 0},
		{head + "Idempotency-Key: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400, 0},
		{head + "Idempotency-Key: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, 0},
		{head + "Idempotency-Key: a\r\nTransfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n\r\n" +
			"2\r\n{}\r\n0\r\nIdempotency-Key: b\r\n\r\n", 201, 1}, // the trailer is none of its keys
		{head + "Idempotency-Key: c\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n" +
			"2\r\n{}\r\n0\r\nSum: 1\r\n\r\n", 201, 2},
		{head + "Idempotency-Key: \"c\"\r\nContent-Length: 2\r\n\r\n{}", 201, 2},
		{"POST /pay HTTP/1.0\r\nIdempotency-Key: c\r\nContent-Length: 2\r\n\r\n{}", 201, 2},
		{head + "Idempotency-Key: d\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n", 413, 2},
	} {
		resp, body := raw(t, addr, q.request)
		if resp.StatusCode != q.status {
			t.Errorf("%.90q: %d %s", q.request, resp.StatusCode, body)
		}
		c.is(t, q.effects)
	}
}

func TestBodyThatDoesNotArriveClaimsNothing(t *testing.T) {
	var c counter
	book := newBook(t)
	done := make(chan struct{})
	h := guard(t, book, Config{}, c.charge)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	conn := dial(t, s.Listener.Addr().String())
	_, _ = io.WriteString(conn, "POST /pay HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: "+
		"9\r\n\r\nabc")
	_ = conn.Close()
	<-done
	c.is(t, 0)
	page, err := book.List(t.Context(), claim.Query{})
	if err != nil || len(page.Claims) != 0 {
		t.Errorf("%v %v", page, err)
	}
}

func TestStoreFailuresAtTheClaim(t *testing.T) {
	var c counter
	full := memkv.New(memkv.Options{Admit: func() error { return kv.ErrNoSpace }})
	h := guard(t, bookOn(t, full), Config{}, c.charge)
	resp := serve(h, post("k", "{}"))
	if resp.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	want(t, resp, 503, string(CodeStoreFull), false)
	closed := memkv.New(memkv.Options{})
	h = guard(t, bookOn(t, closed), Config{}, c.charge)
	_ = closed.Close()
	want(t, serve(h, post("k", "{}")), 503, string(CodeUnavailable), false)
	c.is(t, 0)
}

func TestConfigErrors(t *testing.T) {
	book := newBook(t)
	good := Config{Operation: "pay", Principal: OnePrincipal}
	for name, change := range map[string]func(*Config){
		"name":         func(c *Config) { c.Operation = "" },
		"Principal":    func(c *Config) { c.Principal = nil },
		"Methods":      func(c *Config) { c.Methods = []string{} },
		"MaxBody":      func(c *Config) { c.MaxBody = -1 },
		"MaxResponse":  func(c *Config) { c.MaxResponse = claim.DefaultMaxResult },
		"Wait":         func(c *Config) { c.Wait = -2 },
		"Timeout":      func(c *Config) { c.Timeout = -1 },
		"SettlesAfter": func(c *Config) { c.SettlesAfter = -1 },
	} {
		cfg := good
		change(&cfg)
		_, err := Middleware(book, cfg)
		wrong, ok := errors.AsType[*saga.ConfigError](err)
		if !ok || wrong.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Middleware(nil, good); !errors.Is(err, saga.ErrConfig) {
		t.Error(err)
	}
	if _, err := New(book, good, nil); !errors.Is(err, saga.ErrConfig) {
		t.Error(err)
	}
}
