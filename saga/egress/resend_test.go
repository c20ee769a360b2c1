package egress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// breaking answers the first request of each connection, takes the second one in and
// then closes without an answer, as a server does that goes away at that moment.
type breaking struct {
	*raw

	arrived chan string // method and key of each request
}

func newBreaking(t *testing.T) *breaking {
	b := &breaking{arrived: make(chan string, 100)}
	b.raw = newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		for i := range 2 {
			req, err := readRequest(r)
			if err != nil {
				return
			}
			b.arrived <- req.Method + " " + req.Header.Get("Idempotency-Key") +
				req.Header.Get("X-Idempotency-Key")
			if i == 0 {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // as above
			}
		}
	})
	return b
}

func (b *breaking) requests() (out []string) {
	for {
		select {
		case r := <-b.arrived:
			out = append(out, r)
		default:
			return out
		}
	}
}

// TestSentOnce: a request over a reused connection that breaks is not sent again,
// whatever its method, header and body, unless Resend allows it.
func TestSentOnce(t *testing.T) {
	for _, c := range []struct{ method, header, body string }{
		{"POST", "Idempotency-Key", "b"}, {"POST", "Idempotency-Key", ""}, {"POST", "X-Idempotency-Key", "b"},
		{"POST", "X-Idempotency-Key", ""}, {"PUT", "Idempotency-Key", "b"}, {"PATCH", "Idempotency-Key", "b"},
		{"DELETE", "Idempotency-Key", ""}, {"DELETE", "", ""}, {"PUT", "", "b"}, {"POST", "", ""},
		{"GET", "", ""}, {"HEAD", "", ""}, {"OPTIONS", "", ""}, {"GET", "Idempotency-Key", ""},
	} {
		name := strings.Join([]string{c.method, c.header, c.body}, " ")
		make1 := func(s *breaking) *http.Request {
			req := request(t, c.method, s.url(), c.body)
			if c.header != "" {
				req.Header.Set(c.header, "k")
			}
			return req
		}
		s, client := newBreaking(t), newClient(t, Config{})
		if _, _, err := client.get(make1(s), trusted); err != nil {
			t.Fatal(err)
		}
		client.fails(t, make1(s), trusted, Broken, true)
		if got := s.requests(); len(got) != 2 || s.dialed() != 1 {
			t.Errorf("%s: %q over %d connections; want 2 requests over 1", name, got, s.dialed())
		}
		// The same with leave, which shows that the test above can fail.
		s = newBreaking(t)
		how := How{Trust: Trusted, Resend: true}
		for range 2 {
			if _, _, err := client.get(make1(s), how); err != nil {
				t.Errorf("%s: with Resend: %v", name, err)
			}
		}
		if got := s.requests(); len(got) != 3 || s.dialed() != 2 {
			t.Errorf("%s: with Resend: %q over %d connections; want 3 requests over 2", name, got, s.dialed())
		}
	}
}

// TestSentTwiceAtMost: a request that may be sent again is not sent over every idle
// connection in turn, as long as each takes it in and breaks.
func TestSentTwiceAtMost(t *testing.T) {
	const idle = 8
	how := How{Trust: Trusted, Resend: true}
	for _, method := range []string{"POST", "PUT", "GET"} {
		arrived := make(chan string, 10*idle)
		together := make(chan struct{})
		s := newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
			for i := range 2 {
				req, err := readRequest(r)
				if err != nil {
					return
				}
				arrived <- req.Method + " " + req.Header.Get("Idempotency-Key")
				if <-together; i == 0 && req.Header.Get("X-Last") == "" {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // as above
					continue
				}
				return
			}
		})
		body := map[bool]string{true: "b"}[method != "GET"]
		make1 := func(last bool) *http.Request {
			req := request(t, method, s.url(), body)
			req.Header.Set("Idempotency-Key", "k")
			if last {
				req.Header.Set("X-Last", "yes")
			}
			return req
		}
		client := newClient(t, Config{})
		var all sync.WaitGroup
		for range idle { // each gets a connection of its own, for none is free before
			all.Go(func() {
				if _, _, err := client.get(make1(false), how); err != nil {
					t.Error(err)
				}
			})
		}
		for range idle {
			<-arrived
		}
		close(together)
		all.Wait()
		client.fails(t, make1(true), how, Broken, true)
		if n := len(arrived); n != 2 || <-arrived != method+" k" || <-arrived != method+" k" {
			t.Errorf("%s: it arrived %d more times, want 2", method, n)
		}
		if s.dialed() != idle+1 {
			t.Errorf("%s: %d connections, want the second send over a new one", method, s.dialed())
		}
	}
}

// TestFreshNeverBreaks: three requests to a server that breaks each used connection.
func TestFreshNeverBreaks(t *testing.T) {
	s, client := newBreaking(t), newClient(t, Config{})
	for range 3 {
		if _, _, err := client.get(request(t, "POST", s.url(), "b"), How{Trust: Trusted,
			Fresh: true}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.requests(); len(got) != 3 || s.dialed() != 3 {
		t.Errorf("%q over %d connections; want 3 over 3", got, s.dialed())
	}
}

// TestDeadIdleConnection: a reused connection that is known to be dead before a byte
// of the request was written is no reason to give up, nor is it a second send.
func TestDeadIdleConnection(t *testing.T) {
	closed := make(chan struct{}, 10)
	s := newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // as above
		_ = conn.Close()                                                            // now it is dead
		closed <- struct{}{}
	})
	client := newClient(t, Config{})
	for range 20 {
		req := request(t, "POST", s.url(), "b")
		req.Header.Set("Idempotency-Key", "k")
		_, _, err := client.get(req, trusted)
		if e := (*Error)(nil); err != nil && !errorsAs(err, &e) {
			t.Fatal(err)
		} else if err != nil && !e.Sent {
			t.Errorf("nothing was sent, and it was given up: %v", err)
		}
		if err == nil {
			<-closed
		}
	}
	if s.dialed() < 2 {
		t.Errorf("%d connections; the dead one was not replaced", s.dialed())
	}
}

// TestHalfWritten: the other side stops reading in the middle of a large body. What
// it has is not known.
func TestHalfWritten(t *testing.T) {
	s := newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		_, _ = io.CopyN(io.Discard, r, 1000) // then it closes, with the rest unread
	})
	client := newClient(t, Config{})
	e := client.fails(t, request(t, "POST", s.url(), strings.Repeat("x", 8<<20)), trusted, Broken, true)
	if strings.Contains(e.Error(), "x") && strings.Contains(e.Error(), "xx") {
		t.Errorf("the text has the body: %v", e)
	}
}

// TestHTTP11 is spoken with servers that can do more.
func TestHTTP11(t *testing.T) {
	s := newCounting(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	client := newClient(t, Config{RootCAs: poolOf(s.Certificate())})
	for _, how := range []How{trusted, {Trust: Trusted, Resend: true}, {Trust: Trusted, Fresh: true}} {
		for range 3 {
			if _, body, err := client.get(request(t, "POST", s.URL, "b"), how); body != "HTTP/1.1" ||
				err != nil {
				t.Errorf("%+v: %q, %v", how, body, err)
			}
		}
	}
	if conns, _ := s.seen(); conns != 1+3 {
		t.Errorf("%d connections, want 4", conns)
	}
}

// TestIdleConnectionsEnd: a client that was closed keeps none.
func TestIdleConnectionsEnd(t *testing.T) {
	gone := make(chan struct{})
	s := newRaw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // as above
			hold(r)
			close(gone)
		}
	})
	client := newClient(t, Config{IdleTimeout: time.Hour})
	if _, _, err := client.get(request(t, "POST", s.url(), ""), trusted); err != nil {
		t.Fatal(err)
	}
	client.Close()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the connection is still open")
	}
}
