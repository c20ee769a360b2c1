package idemhttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"onced/kv/claim"
)

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func inUse(t *testing.T, l *Limit, requests int, bytes int64) {
	t.Helper()
	if n, b := l.InUse(); n != requests || b != bytes {
		t.Errorf("%d requests with %d bytes are counted, want %d with %d", n, b, requests, bytes)
	}
}

func TestBusyClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = DefaultMaxBody + ResponseRoom
		for name, limit := range map[string]*Limit{
			"requests": NewLimit(2, 1<<40), "bytes": NewLimit(100, room+100),
		} {
			var c counter
			var told atomic.Int64
			book, release := newBook(t), make(chan struct{})
			cfg := Config{Limit: limit, Wait: NoWait, OnBusy: func(*http.Request) { told.Add(1) }}
			h := guard(t, book, cfg, func(w http.ResponseWriter, r *http.Request) {
				<-release
				c.charge(w, r)
			})
			body := strings.Repeat("x", (DefaultMaxBody-ResponseRoom)/2)
			var wg sync.WaitGroup
			for _, key := range []string{"a", "b"} {
				wg.Go(func() { want(t, serve(h, post(key, body)), 201, "charge", false) })
			}
			synctest.Wait()
			inUse(t, limit, 2, room)
			r := post("k", body)
			r.Body = io.NopCloser(unread{t})
			resp := serve(h, r)
			if resp.Header.Get("Retry-After") != "1" || resp.Header.Get("Connection") != "close" {
				t.Errorf("%s: %v", name, resp.Header)
			}
			want(t, resp, 503, string(CodeBusy), false)
			if _, ok, err := book.Get(t.Context(), claim.ID{Scope: claim.ScopeOf("", "pay"), Key: "k"}); ok ||
				err != nil {
				t.Errorf("%s: it was claimed, %v", name, err)
			}
			if c.is(t, 0); told.Load() != 1 {
				t.Errorf("%s: told %d times", name, told.Load())
			}
			close(release)
			wg.Wait()
			inUse(t, limit, 0, 0)
			want(t, serve(h, post("k", body)), 201, "charge", false)
		}
	})
}

// A body without a length may become as large as any, until it is there.
func TestBusyByBodiesOfUnknownLength(t *testing.T) {
	var c counter
	l := NewLimit(9, DefaultMaxBody+ResponseRoom+10)
	h := guard(t, newBook(t), Config{Limit: l}, func(w http.ResponseWriter, r *http.Request) {
		inUse(t, l, 1, 3+ResponseRoom)
		c.charge(w, r)
	})
	chunked := func() *http.Request {
		r := post("k", "abc")
		r.ContentLength = -1
		return r
	}
	want(t, serve(h, chunked()), 201, "charge", false)
	other, ok := l.enter(11)
	if !ok {
		t.Fatal("no room")
	}
	want(t, serve(h, chunked()), 503, string(CodeBusy), false)
	want(t, serve(h, post("k", "abc")), 201, "charge", true)
	other.leave()
	want(t, serve(h, chunked()), 201, "charge", true)
	inUse(t, l, 0, 0)
}

// Nothing stays counted, however a request ends.
func TestBusyEndsWithTheRequest(t *testing.T) {
	l := NewLimit(9, 1<<30)
	large := strings.Repeat("y", 3*ResponseRoom)
	h := guard(t, newBook(t), Config{Limit: l, MaxBody: 100}, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Do") {
		case "panic":
			panic("lost")
		case "abort":
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, large)
	})
	for _, r := range []*http.Request{post("1", "", "Do", "panic"), post("2", "", "Do", "abort"),
		post("3", strings.Repeat("x", 101)), post("", "x"), post("4", ""), post("4", "")} {
		func() {
			defer func() { _ = recover() }()
			serve(h, r)
		}()
		inUse(t, l, 0, 0)
	}
	// What is there is counted while it is sent, also when it is a replay.
	for range 2 {
		w := &watched{ResponseRecorder: httptest.NewRecorder(), at: func() {
			if n, b := l.InUse(); n != 1 || b < 3*ResponseRoom || b > 3*ResponseRoom+1<<10 {
				t.Errorf("%d requests with %d bytes are counted", n, b)
			}
		}}
		h.ServeHTTP(w, post("5", ""))
		if w.Body.String() != large {
			t.Error("another body")
		}
	}
}

// watched calls at while a body is sent.
type watched struct {
	*httptest.ResponseRecorder

	at func()
}

func (w *watched) Write(b []byte) (int, error) {
	w.at()
	return w.ResponseRecorder.Write(b)
}

func TestRoomForAResponse(t *testing.T) {
	l := NewLimit(9, 3*ResponseRoom)
	x := &Exchange{}
	if !x.Room(1 << 30) {
		t.Error("without a limit there is always room")
	}
	x.room, _ = l.enter(10)
	for n, ok := range map[int]bool{
		0: true, ResponseRoom: true, 3*ResponseRoom - 10: true, 3*ResponseRoom - 9: false,
	} {
		if x.Room(n) != ok {
			t.Errorf("room for %d is %v", n, !ok)
		}
	}
	inUse(t, l, 1, 3*ResponseRoom)
	x.room.leave()
	inUse(t, l, 0, 0)
}

func TestLimitThatLetsNothingIn(t *testing.T) {
	for _, l := range []*Limit{NewLimit(0, 1<<30), NewLimit(1, DefaultMaxBody+ResponseRoom-1)} {
		_, err := Middleware(newBook(t), Config{Operation: "pay", Principal: account, Limit: l})
		if err == nil || !strings.Contains(err.Error(), "raise it") {
			t.Errorf("%v", err)
		}
	}
}
