package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

var trusted = How{Trust: Trusted}

func TestSend(t *testing.T) {
	s := newCounting(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Got", r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append([]byte("got "), body...))
	}, (*httptest.Server).Start)
	c := newClient(t, Config{})
	for _, how := range []How{trusted, {Trust: Trusted, Resend: true}, {Trust: Trusted, Fresh: true}} {
		req := request(t, "POST", s.URL+"/a%2Fb?c=d", "body")
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := c.Send(req, how)
		if err != nil {
			t.Fatal(err)
		}
		body, whole, err := ReadBody(resp, 100)
		if string(body) != "got body" || !whole || err != nil || resp.StatusCode != http.StatusTeapot ||
			resp.Header.Get("Got") != "POST /a%2Fb?c=d k1" {
			t.Errorf("%+v: %d %q %v %v %v", how, resp.StatusCode, body, whole, err, resp.Header)
		}
		if req.Header.Get("Idempotency-Key") != "k1" {
			t.Error("the caller's header was changed")
		}
	}
}

// TestReuse counts connections: reuse works, for errors too, and Fresh has its own.
func TestReuse(t *testing.T) {
	s := newCounting(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write(make([]byte, 100_000))
	}, (*httptest.Server).Start)
	c := newClient(t, Config{})
	send := func(n int, method string, how How) {
		t.Helper()
		for range n {
			if _, _, err := c.get(request(t, method, s.URL, ""), how); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(5, "POST", trusted)
	if conns, requests := s.seen(); conns != 1 || requests != 5 {
		t.Errorf("%d connections for %d requests, want 1", conns, requests)
	}
	send(5, "GET", How{Trust: Trusted, Resend: true})
	send(5, "GET", trusted)
	if conns, _ := s.seen(); conns != 1 {
		t.Errorf("%d connections, want 1 for all methods", conns)
	}
	send(3, "POST", How{Trust: Trusted, Fresh: true})
	if conns, _ := s.seen(); conns != 4 {
		t.Errorf("%d connections, want 4: each fresh one is new", conns)
	}
}

// TestLevelsDoNotShare: a connection that a trusted request has made is no way in for
// a guarded one.
func TestLevelsDoNotShare(t *testing.T) {
	s := newCounting(t, nil, (*httptest.Server).Start)
	c := newClient(t, Config{})
	for _, how := range []How{trusted, {Trust: Trusted, Resend: true}} {
		if _, _, err := c.get(request(t, "POST", s.URL, ""), how); err != nil {
			t.Fatal(err)
		}
		how.Trust = Guarded
		c.fails(t, request(t, "POST", s.URL, ""), how, Blocked, false)
		how.Trust = 7 // nonsense has no rights
		c.fails(t, request(t, "POST", s.URL, ""), how, Blocked, false)
	}
	if _, requests := s.seen(); requests != 2 {
		t.Errorf("%d requests arrived, want 2", requests)
	}
}

func TestGuardedIsBlocked(t *testing.T) {
	s := newCounting(t, nil, (*httptest.Server).Start)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	c := newClient(t, Config{})
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]",
		"0.0.0.0", "169.254.169.254", "10.0.0.1"} {
		for _, how := range []How{{}, {Resend: true}, {Fresh: true}} {
			e := c.fails(t, request(t, "POST", "http://"+host+":"+port+"/p?secret", "b"), how, Blocked, false)
			var blocked *BlockedError
			if !errors.As(e, &blocked) || !strings.Contains(e.Error(), "allow_hosts") ||
				strings.Contains(e.Error(), "secret") {
				t.Errorf("%s: %v", host, e)
			}
		}
	}
	if conns, _ := s.seen(); conns != 0 {
		t.Errorf("%d connections were made", conns)
	}
	for _, allow := range []string{"127.0.0.1", "127.0.0.0/8", "127.0.0.1:" + port} {
		allowed := newClient(t, Config{Allow: []string{allow}})
		if _, _, err := allowed.get(request(t, "POST", s.URL, ""), How{}); err != nil {
			t.Errorf("with %s: %v", allow, err)
		}
	}
	for _, allow := range []string{"localhost", "localhost:" + port} {
		allowed := newClient(t, Config{Allow: []string{allow}})
		if _, _, err := allowed.get(request(t, "POST", "http://localhost:"+port, ""), How{}); err != nil {
			t.Errorf("with %s: %v", allow, err)
		}
		allowed.fails(t, request(t, "POST", s.URL, ""), How{}, Blocked, false) // the address is not named
	}
	other := newClient(t, Config{Allow: []string{"127.0.0.1:1", "localhost:1"}})
	other.fails(t, request(t, "POST", s.URL, ""), How{}, Blocked, false)
	other.fails(t, request(t, "POST", "http://localhost:"+port, ""), How{}, Blocked, false)
}

// TestNoRedirect: a redirect is the answer, and where it points is not asked.
func TestNoRedirect(t *testing.T) {
	inner := newCounting(t, nil, (*httptest.Server).Start)
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := newCounting(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", inner.URL)
			w.WriteHeader(status)
		}, (*httptest.Server).Start)
		c := newClient(t, Config{Allow: []string{strings.TrimPrefix(s.URL, "http://")}})
		got, _, err := c.get(request(t, "GET", s.URL, ""), How{})
		if got != status || err != nil {
			t.Errorf("status %d, error %v; want %d", got, err, status)
		}
	}
	if conns, _ := inner.seen(); conns != 0 {
		t.Errorf("a redirect was followed %d times", conns)
	}
}

// TestNoProxy: what the environment says does not matter.
func TestNoProxy(t *testing.T) {
	proxy := newCounting(t, nil, (*httptest.Server).Start)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("NO_PROXY", "")
	s := newCounting(t, nil, (*httptest.Server).Start)
	c := newClient(t, Config{})
	if _, _, err := c.get(request(t, "GET", s.URL, ""), trusted); err != nil {
		t.Fatal(err)
	}
	// net/http never asks the proxy about 127.0.0.1, so another host is asked for too.
	c.fails(t, request(t, "GET", "http://no-such-host.invalid/", ""), trusted, NoName, false)
	if conns, _ := proxy.seen(); conns != 0 {
		t.Error("the proxy was asked")
	}
}

// TestNothingSent: what fails before the first byte certainly did not happen.
func TestNothingSent(t *testing.T) {
	c := newClient(t, Config{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // so that nobody listens there
	for _, how := range []How{trusted, {Trust: Trusted, Resend: true}, {Trust: Trusted, Fresh: true}} {
		e := c.fails(t, request(t, "POST", "http://"+l.Addr().String(), "b"), how, NoConnection, false)
		if !strings.Contains(e.Error(), "connection refused") {
			t.Error(e)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.fails(t, request(t, "POST", "http://"+l.Addr().String(), "b").WithContext(ctx), how, Canceled,
			false)
		c.fails(t, &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "ftp", Host: "h"}}, how,
			NotValid,
			false)
	}
	if e := (&Error{Kind: 200}); e.Kind.String() != Failed.String() {
		t.Error("an unknown kind has no text")
	}
}

// TestSent: what fails later may have happened. The server takes the request in and
// then misbehaves.
func TestSent(t *testing.T) {
	long := strings.Repeat("x", DefaultMaxHeader)
	for _, c := range []struct {
		name, answer string
		kind         Kind
	}{
		{"closes without a word", "", Broken},
		{"breaks off in the status line", "HTTP/1.1 20", NotHTTP},
		{"breaks off in the header", "HTTP/1.1 200 OK\r\nA: b\r\n", Broken},
		{"breaks off in the body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Broken},
		{"breaks off in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", Broken},
		{"breaks off before the last chunk",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
			Broken},
		{"has chunks that are none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n",
			Broken},
		{"says nonsense", "220 mail.example ESMTP\r\n", NotHTTP},
		{"has a header without end", "HTTP/1.1 200 OK\r\nA: " + long + "\r\n\r\n", NotHTTP},
		{"has headers without end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", DefaultMaxHeader/4) +
			"\r\n",
			NotHTTP},
		{"has informational answers without end", strings.Repeat("HTTP/1.1 103 Hm\r\nA: b\r\n\r\n", 10_000),
			NotHTTP},
		{"has two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", NotHTTP},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				if _, err := readRequest(r); err == nil {
					_, _ = io.WriteString(conn, c.answer) // the client may have left
				}
			})
			client := newClient(t, Config{})
			for _, how := range []How{trusted, {Trust: Trusted, Resend: true}, {Trust: Trusted,
				Fresh: true}} {
				e := client.fails(t, request(t, "POST", s.url(), "b"), how, c.kind, true)
				if strings.Contains(e.Error(), "ESMTP") {
					t.Errorf("the text has what the callee sent: %v", e)
				}
			}
		})
	}
}

// TestTimeLimit: however slow the other side is, the context ends the wait.
func TestTimeLimit(t *testing.T) {
	drip := func(conn net.Conn, text string) {
		for _, b := range []byte(text) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
		}
	}
	for _, c := range []struct{ name, begin string }{
		{"never answers", ""},
		{"drips its status", "HTTP/1.1 2"},
		{"drips its header", "HTTP/1.1 200 OK\r\nA: b"},
		{"is only informational", "HTTP/1.1 103 Early Hints\r\n\r\n"},
		{"drips its body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan struct{})
			s := newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				if _, err := readRequest(r); err != nil {
					return
				}
				drip(conn, c.begin)
				close(arrived)
				hold(r)
			})
			client := newClient(t, Config{})
			req := request(t, "POST", s.url(), "b")
			ctx, cancel := context.WithCancelCause(req.Context())
			go func() {
				<-arrived
				cancel(nil)
			}()
			// The context is ended by an event instead of by time, which the error shows.
			client.fails(t, req.WithContext(ctx), trusted, Canceled, true)
		})
	}
	s := newRaw(t, func(_ int, _ net.Conn, r *bufio.Reader) { hold(r) })
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	<-ctx.Done()
	client := newClient(t, Config{})
	e := client.fails(t, request(t, "POST", s.url(), "b").WithContext(ctx), trusted, TimedOut, false)
	if !e.Timeout() {
		t.Error("Timeout is false")
	}
}

// TestDialTimeout: a host that does not take connections is given up.
func TestDialTimeout(t *testing.T) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // a name server that never answers
		return nil, ctx.Err()
	}}
	client := newClient(t, Config{Resolver: resolver, DialTimeout: 1})
	client.fails(t, request(t, "POST", "http://slow.example/", "b"), trusted, TimedOut, false)
}

func TestReadBody(t *testing.T) {
	const limit = 100_000
	for _, c := range []struct {
		size    int
		chunked bool
	}{{0, false}, {0, true}, {1, false}, {limit - 1, false}, {limit, false}, {limit, true}, {limit + 1,
		false},
		{limit + 1, true}, {3 * limit, false}, {3 * limit, true}} {
		s := newCounting(t, func(w http.ResponseWriter, _ *http.Request) {
			if !c.chunked {
				w.Header().Set("Content-Length", fmt.Sprint(c.size))
			}
			for n := 0; n < c.size; n += 1000 {
				_, _ = w.Write([]byte(strings.Repeat("x", min(1000, c.size-n))))
			}
			if c.chunked {
				w.(http.Flusher).Flush()
			}
		}, (*httptest.Server).Start)
		client := newClient(t, Config{})
		for range 2 {
			resp, err := client.Send(request(t, "POST", s.URL, ""), trusted)
			if err != nil {
				t.Fatal(err)
			}
			body, whole, err := ReadBody(resp, limit)
			if err != nil || len(body) != min(c.size, limit) || whole != (c.size <= limit) {
				t.Errorf("%+v: %d bytes, whole %v, %v", c, len(body), whole, err)
			}
			if cap(body) > 4*limit {
				t.Errorf("%+v: %d bytes were set aside", c, cap(body))
			}
		}
		conns, _ := s.seen()
		if want := 1; c.size <= limit && conns != want {
			t.Errorf("%+v: %d connections, want %d", c, conns, want)
		}
	}
}

// TestSwitchingProtocols is an answer that nobody asked for.
func TestSwitchingProtocols(t *testing.T) {
	s := newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err == nil {
			_, _ = io.WriteString(conn,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			hold(r)
		}
	})
	client := newClient(t, Config{})
	resp, err := client.Send(request(t, "POST", s.url(), "b"), trusted)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close() // the server sees it: the test ends
}
