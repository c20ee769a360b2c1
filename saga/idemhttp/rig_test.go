package idemhttp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/memkv"
)

// newBook returns a book on a disk of its own.
func newBook(t testing.TB) *claim.Book { return bookOn(t, memkv.New(memkv.Options{})) }

func bookOn(t testing.TB, store kv.Store) *claim.Book {
	t.Helper()
	t.Cleanup(func() { _ = store.Close() })
	book, err := claim.New(context.Background(), store, claim.Config{Feed: feed.New(feed.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// account is the principal of tests.
func account(r *http.Request) string { return r.Header.Get("Account") }

// guard wraps a handler by the middleware.
func guard(t testing.TB, book *claim.Book, cfg Config, h http.HandlerFunc) http.Handler {
	t.Helper()
	if cfg.Operation == "" {
		cfg.Operation = "pay"
	}
	if cfg.Principal == nil {
		cfg.Principal = account
	}
	mw, err := Middleware(book, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return mw(h)
}

// post makes a request with a key; pairs of header names and values follow.
func post(key, body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/pay?a=1", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// serve serves one request in-process.
func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// want checks status, a part of the body, and whether it is marked as a replay.
func want(t testing.TB, r *http.Response, status int, part string, replayed bool) {
	t.Helper()
	body := bodyOf(t, r)
	if r.StatusCode != status || !strings.Contains(body, part) {
		t.Errorf("got %d %q, want %d with %q", r.StatusCode, body, status, part)
	}
	if got := r.Header.Get(ReplayedHeader) == "true"; got != replayed {
		t.Errorf("replayed is %v, want %v; %d %q", got, replayed, r.StatusCode, body)
	}
}

// counter counts effects.
type counter struct{ n atomic.Int64 }

func (c *counter) is(t testing.TB, n int64) {
	t.Helper()
	if got := c.n.Load(); got != n {
		t.Errorf("%d effects, want %d", got, n)
	}
}

// charge is a handler that charges.
func (c *counter) charge(w http.ResponseWriter, _ *http.Request) {
	n := c.n.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"charge":%d}`, n)
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// raw sends bytes to a server and reads one response.
func raw(t testing.TB, addr, request string) (*http.Response, string) {
	t.Helper()
	conn := dial(t, addr)
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp, bodyOf(t, resp)
}
