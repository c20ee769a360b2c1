package sendonce

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// puts puts out n bytes of each write.
type puts struct {
	net.Conn

	n int
}

func (p *puts) Write(b []byte) (int, error) {
	if p.n == len(b) {
		return p.n, nil
	}
	return p.n, errors.New("broken pipe")
}

func TestWhatWasHandedOver(t *testing.T) {
	write := func(c *countedConn) { _, _ = c.Write([]byte("xy")) }
	for _, c := range []struct {
		name string
		act  func(*countedConn)
		sent bool
		n    int
	}{
		{"nothing", func(*countedConn) {}, false, 0},
		{"a write that put nothing out", write, false, 0},
		{"a part", write, true, 1},
		{"all", write, true, 2},
		{"after the seal", func(c *countedConn) { c.seal(); write(c) }, false, 1},
	} {
		conn, ok := Count(&puts{n: c.n}).(*countedConn)
		if !ok {
			t.Fatal("it is not counted")
		}
		conn.writes = 7 // of requests before
		var out Handover
		trace := httptrace.ContextClientTrace(out.Watch(t.Context()))
		trace.GotConn(httptrace.GotConnInfo{Conn: conn, Reused: true})
		c.act(conn)
		if got := out.Seal(); got != c.sent {
			t.Errorf("%s: sent is %v", c.name, got)
		}
		if n, err := conn.Write([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: a sealed connection writes: %d %v", c.name, n, err)
		}
	}
	var out Handover
	out.gotConn(httptrace.GotConnInfo{Conn: &net.TCPConn{}})
	if !out.Seal() {
		t.Error("a connection that cannot be counted counts as not sent")
	}
	if Count(nil) != nil {
		t.Error("no connection is one")
	}
}

// TestOnce: a request that was written to a connection is given no other one.
func TestOnce(t *testing.T) {
	for _, once := range []bool{true, false} {
		first, ok := Count(&puts{n: 1}).(*countedConn)
		second, ok2 := Count(&puts{n: 1}).(*countedConn)
		if !ok || !ok2 {
			t.Fatal("it is not counted")
		}
		out := Handover{Once: once}
		ctx := out.Watch(context.WithValue(t.Context(), http.ServerContextKey, "kept"))
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shop.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		asked := func(when string, stopped bool) {
			t.Helper()
			if proxy, err := NoProxy(r); proxy != nil || (err != nil) != stopped || out.Stopped() != stopped {
				t.Errorf("once is %v: %s it is stopped: %v, %v; want %v", once, when, out.Stopped(), err,
					stopped)
			}
		}
		trace := httptrace.ContextClientTrace(ctx)
		asked("at first", false)
		trace.GotConn(httptrace.GotConnInfo{Conn: first, Reused: true})
		asked("before it is written", false)
		trace.GotConn(httptrace.GotConnInfo{Conn: second})
		_, _ = second.Write([]byte("x"))
		asked("when it is written", once)
		// A transport that does not ask gets a connection that takes nothing.
		trace.GotConn(httptrace.GotConnInfo{Conn: first})
		if n, err := first.Write([]byte("x")); (n == 1 && err == nil) == once {
			t.Errorf("once is %v: to another connection it writes %d bytes, %v", once, n, err)
		}
		if ctx.Value(http.ServerContextKey) != "kept" || ctx.Value(handoverKey{}) != &out {
			t.Error("a value of the context is lost")
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	if proxy, err := NoProxy(r); proxy != nil || err != nil {
		t.Errorf("a request that is not watched goes to %v, %v", proxy, err)
	}
}

func TestWhatNetHTTPRepeatsIsHidden(t *testing.T) {
	plain := http.Header{"Accept": {"a"}}
	if got := HideKeys(plain); len(got) != 1 || got.Get("Accept") != "a" {
		t.Errorf("%v", got)
	}
	h := http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"x"}, "Accept": {"a"}}
	got := HideKeys(h)
	if len(got) != 3 || got["Idempotency-Key"] != nil || got["X-Idempotency-Key"] != nil ||
		//nolint:staticcheck // SA1008: names that are not canonical are what hides them
		got["Idempotency-key"][0] != "k" || got["X-Idempotency-key"][0] != "x" || got.Get("Accept") != "a" {
		t.Errorf("%v", got)
	}
	if h.Get("Idempotency-Key") != "k" {
		t.Errorf("the request's own header is changed: %v", h)
	}
	for method, want := range map[string]bool{"": true, "GET": true, "HEAD": true, "OPTIONS": true,
		"TRACE": true, "POST": false, "PUT": false, "DELETE": false, "get": false} {
		if AlwaysRepeated(method) != want {
			t.Errorf("%q is %v", method, !want)
		}
	}
}
