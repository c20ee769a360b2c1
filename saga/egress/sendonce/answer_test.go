package sendonce

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// odd is an answer that a server may give, and what is to become of it.
type odd struct {
	name, method, answer string
	closes               bool // the server closes after it
	status               int
	body                 string
	kept                 bool // the connection is used again
}

var ends = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nId: /stray\r\n\r\n/stray xx"

var odds = []odd{
	{"length", "", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 200, "abc", true},
	{"length twice", "", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", false, 200,
		"abc", true},
	{"length 0", "", "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", false, 500, "", true},
	{"no reason", "", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, 200, "", true},
	{"bare lines", "", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", false, 200, "abc", true},
	{"large", "", "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 300_000), false,
		200, strings.Repeat("x", 300_000), true},
	{"long header", "", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", DefaultMaxHeader-100) +
		"\r\nContent-Length: 3\r\n\r\nabc", false, 200, "abc", true},
	{"packed", "", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", false, 200,
		"abc", true},
	{"redirect", "", "HTTP/1.1 307 There\r\nLocation: /own/else\r\nContent-Length: 0\r\n\r\n", false, 307, "",
		true},
	{"chunks", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
		false, 200, "abc", true},
	{"chunks and trailer", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n" +
		"3\r\nabc\r\n0\r\nA: b\r\n\r\n", false, 200, "abc A=b", true},
	{"chunks and length", "", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"3\r\nabc\r\n0\r\n\r\n", false, 200, "abc", true},
	{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, 200, "", true},
	{"HEAD in chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, 200, "", true},
	{"HEAD without length", "HEAD", "HTTP/1.1 200 OK\r\n\r\n", false, 200, "", true},
	{"204", "", "HTTP/1.1 204 No\r\n\r\n", false, 204, "", true},
	{"204 of length 0", "", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", false, 204, "", true},
	{"304", "", "HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n", false, 304, "", true},
	{"informs", "", "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 103 Hm\r\nLink: x\r\n\r\nHTTP/1.1 199 Hm\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 200, "abc", true},
	{"1.0 kept", "", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", false, 200,
		"abc", true},

	{"1.0", "", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 200, "abc", false},
	{"1.0 without length", "", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc", true, 200, "abc",
		false},
	{"1.0 in chunks", "", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true, 200,
		"0\r\n\r\n", false},
	{"0.9", "", "HTTP/0.9 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 200, "abc", false},
	{"no length", "", "HTTP/1.1 200 OK\r\n\r\nabc", true, 200, "abc", false},
	{"closes", "", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", false, 200, "abc",
		false},
	{"closes without a body", "", "HTTP/1.1 204 No\r\nConnection: Close\r\n\r\n", false, 204, "", false},
	{"204 of length 3", "", "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", false, 204, "", false},
	{"204 in chunks", "", "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", false, 204, "", false},
	{"switches", "", "HTTP/1.1 101 Other\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + ends, false, 101, "",
		false},

	{"more than its length", "", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" + ends, false, 200, "abc",
		false},
	{"more than length 0", "", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + ends, false, 200, "", false},
	{"more than chunks", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + ends, false,
		200, "", false},
	{"HEAD with a body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 79\r\n\r\n" + ends, false, 200, "",
		false},
	{"HEAD with chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, 200,
		"", false},
	{"204 with a body", "", "HTTP/1.1 204 No\r\n\r\n" + ends, false, 204, "", false},
	{"304 with a body", "", "HTTP/1.1 304 No\r\n\r\n" + ends, false, 304, "", false},
	{"a byte more", "", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\n", false, 200, "abc", false},
}

// serveOdd answers requests for /odd with it, in one write, and all others with their own
// identity.
func serveOdd(o *odd) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, body, err := readRequest(r)
			switch {
			case err != nil:
				return
			case req.URL.Path != "/odd":
				own(c, req, body)
				continue
			}
			sayf(c, "%s", o.answer)
			if o.closes {
				return
			}
		}
	}
}

// TestAnswers: each is taken for what it is, over a new connection and over a kept one, and
// what follows it for no answer to the next request.
func TestAnswers(t *testing.T) {
	for _, o := range odds {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, serveOdd(&o))
			tr := newTransport(t, Config{})
			conns := 0
			for i := range 3 {
				if i != 0 {
					tr.asks(t, s, "/before", "b")
				}
				conns = max(conns, 1)
				resp, body, err := tr.get(t.Context(), request(t, o.method, s.url("/odd"), ""), false)
				if err != nil {
					t.Fatal(err)
				}
				for name := range resp.Trailer {
					body += " " + name + "=" + resp.Trailer.Get(name)
				}
				if resp.StatusCode != o.status || body != o.body {
					t.Errorf("%d %.40q; want %d %.40q", resp.StatusCode, body, o.status, o.body)
				}
				tr.asks(t, s, "/after", "b")
				if !o.kept {
					conns++
				}
			}
			if s.dialed() != conns {
				t.Errorf("%d connections, want %d", s.dialed(), conns)
			}
		})
	}
}

// TestBodiesBreakOff: half a body is none.
func TestBodiesBreakOff(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		closes       bool
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true},
		{"chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", true},
		{"last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", true},
		{"trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", true},
		{"no chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n", false},
		{"long trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " +
			strings.Repeat("b", 100_000) + "\r\n\r\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, serveOdd(&odd{answer: c.answer, closes: c.closes}))
			tr := newTransport(t, Config{})
			for range 2 {
				tr.asks(t, s, "/before", "b")
				resp, _, err := tr.Send(t.Context(), request(t, "GET", s.url("/odd"), ""), false)
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.ReadAll(resp.Body)
				if err == nil || tr.idles() != 0 {
					t.Errorf("%v, %d idle", err, tr.idles())
				}
				if _, err := resp.Body.Read(make([]byte, 9)); !errors.Is(err, http.ErrBodyReadAfterClose) {
					t.Errorf("a second read: %v", err)
				}
				_ = resp.Body.Close() // it has failed
			}
		})
	}
}

// TestUnreadBodies: an answer that nobody reads to its end takes its connection with it,
// and closing one that was read to its end does not touch the request that has its
// connection now.
func TestUnreadBodies(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	s := serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, body, err := readRequest(r)
			if err != nil {
				return
			}
			if req.URL.Path == "/waits" {
				arrived <- struct{}{}
				<-answer
			}
			own(c, req, body)
		}
	})
	tr := newTransport(t, Config{})
	resp, _, err := tr.Send(t.Context(), request(t, "GET", s.url("/unread"), ""), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // half of it is read
	if _, err := resp.Body.Read(make([]byte, 3)); !errors.Is(err, http.ErrBodyReadAfterClose) ||
		tr.idles() != 0 {
		t.Errorf("%v, %d idle", err, tr.idles())
	}
	resp, _, err = tr.Send(t.Context(), request(t, "GET", s.url("/read"), ""), false)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "/read " || err != nil {
		t.Fatal(string(body), err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tr.asks(t, s, "/waits", "")
	}()
	wait(t, arrived, "the request over the same connection")
	_ = resp.Body.Close() // it is over
	if n, err := resp.Body.Read(make([]byte, 9)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("it reads on: %d, %v", n, err)
	}
	close(answer)
	wait(t, done, "its answer")
	if s.dialed() != 2 {
		t.Errorf("%d connections, want 2", s.dialed())
	}
}

// TestCloseWhileReading: a body may be closed by another goroutine than the one that reads.
func TestCloseWhileReading(t *testing.T) {
	for range 50 {
		s := serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			if _, _, err := readRequest(r); err == nil {
				sayf(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
				sayf(c, "defghi")
				hold(r)
			}
		})
		tr := newTransport(t, Config{})
		resp, _, err := tr.Send(t.Context(), request(t, "GET", s.url("/"), ""), false)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan int64)
		go func() {
			n, _ := io.Copy(io.Discard, resp.Body) // it may be cut off
			done <- n
		}()
		_ = resp.Body.Close() // as the test says
		if n := wait(t, done, "the end of reading"); n < 9 && tr.idles() != 0 {
			t.Error("the connection is kept, and the answer was not read")
		}
		s.stop()
	}
}

// TestNothingIsAdded: no cookie that a callee has set, no wish for an encoding, no proxy that
// the environment names.
func TestNothingIsAdded(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.example")
	t.Setenv("http_proxy", "http://proxy.example")
	got := make(chan string, 10)
	s := serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			var lines []string
			for line, err := r.ReadString('\n'); line != "\r\n"; line, err = r.ReadString('\n') {
				if err != nil {
					return
				}
				lines = append(lines, strings.TrimSpace(line))
			}
			got <- strings.Join(lines, "\n")
			sayf(c, "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
		}
	})
	tr := newTransport(t, Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "shop.example:80" {
			t.Errorf("dialled %s", addr)
		}
		return (&net.Dialer{}).DialContext(ctx, network, s.Addr().String())
	}})
	for range 2 {
		r := request(t, "GET", "http://shop.example/a%2Fb?c=d", "")
		r.Header = http.Header{"User-Agent": {"us"}, "idempotency-KEY": {"k"}}
		if _, _, err := tr.get(t.Context(), r, false); err != nil {
			t.Fatal(err)
		}
		want := "GET /a%2Fb?c=d HTTP/1.1\nHost: shop.example\nUser-Agent: us\nidempotency-KEY: k"
		if text := wait(t, got, "the request"); text != want {
			t.Errorf("what came is\n%s\nwant\n%s", text, want)
		}
	}
}
