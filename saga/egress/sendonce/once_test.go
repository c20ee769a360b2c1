package sendonce

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// TestOnce: a request that a kept connection took is not sent again, whatever its method,
// header and body.
func TestOnce(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"} {
		for _, body := range []string{"", "b", strings.Repeat("b", 2*InlineBody)} {
			arrived := make(chan string, 10)
			s := serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
				for i := range 2 {
					req, got, err := readRequest(r)
					if err != nil {
						return
					}
					arrived <- req.Method
					if i == 0 {
						own(c, req, got)
					}
				}
			})
			tr := newTransport(t, Config{})
			tr.asks(t, s, "/1", "")
			r := request(t, method, s.url("/2"), body)
			r.Header.Set("Idempotency-Key", "k")
			if err := tr.fails(t.Context(), t, r, Broke); !errors.Is(err, io.EOF) && body == "" {
				t.Error(err)
			}
			s.stop()
			if len(arrived) != 2 || s.dialed() != 1 {
				t.Errorf("%s %d: %d requests over %d connections; want 2 over 1", method, len(body),
					len(arrived), s.dialed())
			}
		}
	}
}

// TestFates: what an error says of the request, over a new connection and over a kept one.
func TestFates(t *testing.T) {
	long := strings.Repeat("x", DefaultMaxHeader)
	for _, c := range []struct {
		name, answer string
		first, kept  Fate
	}{
		{"closes without a word", "", Sent, Broke},
		{"resets", "reset", Sent, Broke},
		{"breaks off in the status line", "HTTP/1.1 20", Answered, Answered},
		{"breaks off in the header", "HTTP/1.1 200 OK\r\nA: b\r\n", Answered, Answered},
		{"closes after it has informed", "HTTP/1.1 103 Hm\r\n\r\n", Answered, Answered},
		{"has a status that is none", "HTTP/1.1 099 Hm\r\n\r\n", Answered, Answered},
		{"says nonsense", "220 mail.example ESMTP\r\n", Answered, Answered},
		{"has two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", Answered,
			Answered},
		{"has an encoding that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n", Answered,
			Answered},
		{"has a header without end", "HTTP/1.1 200 OK\r\nA: " + long + "\r\n\r\n", Answered, Answered},
		{"has informational answers without end", strings.Repeat("HTTP/1.1 103 Hm\r\nA: b\r\n\r\n", 10_000),
			Answered, Answered},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				for {
					req, body, err := readRequest(r)
					switch {
					case err != nil:
						return
					case req.URL.Path == "/own":
						own(conn, req, body)
						continue
					case c.answer != "reset":
						sayf(conn, "%s", c.answer)
					case conn.(*net.TCPConn).SetLinger(0) != nil:
						t.Error("it cannot be reset")
					}
					return
				}
			})
			for _, body := range []string{"b", strings.Repeat("b", 4*InlineBody)} {
				tr := newTransport(t, Config{})
				err := tr.fails(t.Context(), t, request(t, "POST", s.url("/"), body), c.first)
				if strings.Contains(c.name, "without end") && !errors.Is(err, errHeader) {
					t.Error(err)
				}
				tr.asks(t, s, "/own", "")
				_ = tr.fails(t.Context(), t, request(t, "POST", s.url("/"), body), c.kept)
			}
		})
	}
}

// keepThree returns a transport with three idle connections to an [echo], and what bends
// them.
func keepThree(t *testing.T) (*Transport, *server, *bends) {
	t.Helper()
	var together sync.WaitGroup
	together.Add(3)
	s := serve(t, func(n int, c net.Conn, r *bufio.Reader) {
		if n <= 3 {
			req, body, err := readRequest(r)
			if err != nil {
				return
			}
			together.Done()
			together.Wait()
			own(c, req, body)
		}
		echo(n, c, r)
	})
	b := &bends{}
	tr := newTransport(t, Config{Dial: b.dial})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { tr.asks(t, s, "/first", "") })
	}
	all.Wait()
	if tr.idles() != 3 {
		t.Fatalf("%d idle connections", tr.idles())
	}
	return tr, s, b
}

// TestNothingTaken: kept connections that take nothing are no reason to give up, nor is
// going on a second send. The body that arrives is whole.
func TestNothingTaken(t *testing.T) {
	for _, body := range []string{"b", strings.Repeat("b", 2*InlineBody)} {
		tr, s, b := keepThree(t)
		b.breakAll(0)
		tr.asks(t, s, "/second", body)
		if s.dialed() != 4 || tr.idles() != 1 {
			t.Errorf("%d connections, %d idle; want 4, 1", s.dialed(), tr.idles())
		}
	}
	tr, s, b := keepThree(t)
	b.breakAll(0)
	r := request(t, "POST", s.url("/"), "b")
	r.GetBody = nil
	_ = tr.fails(t.Context(), t, r, NotSent)
	if s.dialed() != 3 || tr.idles() != 2 {
		t.Errorf("%d connections, %d idle; want 3, 2: the body is used up", s.dialed(), tr.idles())
	}
	r = request(t, "POST", s.url("/"), "b")
	r.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
	if err := tr.fails(t.Context(), t, r, NotSent); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// TestAByteTaken: one byte is enough for the request to be lost.
func TestAByteTaken(t *testing.T) {
	for _, body := range []string{"b", strings.Repeat("b", 2*InlineBody)} {
		tr, s, b := keepThree(t)
		b.breakAll(1)
		r := request(t, "POST", s.url("/"), body)
		if err := tr.fails(t.Context(), t, r, Broke); body == "b" && !errors.Is(err, errBent) {
			t.Error(err)
		}
		if s.dialed() != 3 || tr.idles() != 2 {
			t.Errorf("%d connections, %d idle; want 3, 2", s.dialed(), tr.idles())
		}
	}
}

// TestUnwritable: a request that cannot be written is not tried over every connection, and
// fails at once.
func TestUnwritable(t *testing.T) {
	wrong := errors.New("the body is wrong")
	for _, c := range []struct {
		name string
		body io.Reader
		size int64
		fate Fate
	}{
		{"short", strings.NewReader("abc"), 4, NotSent},
		{"long", strings.NewReader("abc"), 2, NotSent},
		{"short of a long one", strings.NewReader("abc"), 2 * InlineBody, NotSent},
		{"fails", iotest.ErrReader(wrong), 4, Sent}, // net/http sends the header on its own
		{"fails late", io.MultiReader(strings.NewReader(strings.Repeat("x", 3*InlineBody)),
			iotest.ErrReader(wrong)), 4 * InlineBody, Sent},
	} {
		tr, s, _ := keepThree(t)
		again := 0
		r := request(t, "POST", s.url("/"), "")
		r.Body, r.ContentLength = io.NopCloser(c.body), c.size
		r.GetBody = func() (io.ReadCloser, error) { again++; return nil, wrong }
		err := tr.fails(t.Context(), t, r, c.fate)
		if strings.HasPrefix(c.name, "fails") && !errors.Is(err, wrong) && !strings.Contains(err.Error(),
			wrong.Error()) {
			t.Errorf("%s: %v", c.name, err)
		}
		if again != 0 || tr.idles() != 2 || s.dialed() != 3 {
			t.Errorf("%s: %d tries, %d idle, %d connections; want 0, 2, 3", c.name, again, tr.idles(),
				s.dialed())
		}
	}
}

// TestNotSent is what fails before the first byte.
func TestNotSent(t *testing.T) {
	tr := newTransport(t, Config{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // so that nobody listens there
	_ = tr.fails(t.Context(), t, request(t, "POST", "http://"+l.Addr().String(), "b"), NotSent)
	s := serve(t, echo)
	for name, spoil := range map[string]func(*http.Request){
		"no URL":        func(r *http.Request) { r.URL = nil },
		"no host":       func(r *http.Request) { r.URL.Host = ":80" },
		"opaque":        func(r *http.Request) { r.URL.Opaque = "//other/" },
		"scheme":        func(r *http.Request) { r.URL.Scheme = "ftp" },
		"host":          func(r *http.Request) { r.Host = "a b" },
		"no name":       func(r *http.Request) { r.URL.Host, r.Host = "\u00a0.example", "a" },
		"no method":     func(r *http.Request) { r.Method = "" },
		"method":        func(r *http.Request) { r.Method = "GET /x HTTP/1.1\r\n" },
		"CONNECT":       func(r *http.Request) { r.Method = "CONNECT" },
		"no length":     func(r *http.Request) { r.ContentLength = 0 },
		"length":        func(r *http.Request) { r.ContentLength = -1 },
		"chunked":       func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
		"trailers":      func(r *http.Request) { r.Trailer = http.Header{"A\r\nSecret": nil} },
		"header's name": func(r *http.Request) { r.Header["A b"] = []string{"c"} },
		"header":        func(r *http.Request) { r.Header["A"] = []string{"secret\r\nB: c"} },
	} {
		r := request(t, "POST", s.url("/"), "b")
		closed := &closes1{Reader: r.Body}
		r.Body = closed
		spoil(r)
		if err := tr.fails(t.Context(), t, r, NotSent); !errors.Is(err, ErrRequest) ||
			strings.Contains(err.Error(), "secret") || closed.n != 1 {
			t.Errorf("%s: %v; the body is closed %d times", name, err, closed.n)
		}
	}
	if s.dialed() != 0 {
		t.Errorf("%d connections were made", s.dialed())
	}
}

// closes1 counts how often it is closed.
type closes1 struct {
	io.Reader
	n int
}

// Close implements [io.Closer].
func (c *closes1) Close() error { c.n++; return nil }

// TestFresh: a request that demands it has a connection of its own, before and after.
func TestFresh(t *testing.T) {
	gone := make(chan string, 10)
	s := serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, body, err := readRequest(r)
			if err != nil {
				gone <- ""
				return
			}
			if req.Close != (body == "fresh") {
				t.Errorf("%q: connection: close is %v", body, req.Close)
			}
			own(c, req, body)
		}
	})
	tr := newTransport(t, Config{})
	tr.asks(t, s, "/", "")
	for n := range 3 {
		r := request(t, "POST", s.url("/"), "fresh")
		if _, got, err := tr.get(t.Context(), r, true); got != "/ fresh" || err != nil {
			t.Fatal(got, err)
		}
		wait(t, gone, "the end of a fresh connection")
		if r.Close || s.dialed() != n+2 || tr.idles() != 1 {
			t.Errorf("%d connections, %d idle; want %d, 1", s.dialed(), tr.idles(), n+2)
		}
	}
	tr.asks(t, s, "/", "")
	if s.dialed() != 4 {
		t.Errorf("%d connections; the kept one was not used", s.dialed())
	}
	r := request(t, "POST", s.url("/"), "fresh")
	r.Header.Set("Connection", "close") // says the same, but for the connection before
	if _, _, err := tr.get(t.Context(), r, false); err != nil || tr.idles() != 0 {
		t.Errorf("%v, %d idle", err, tr.idles())
	}
}

// TestOneWrite: a call costs a write and a read, also of a body of some size, and both
// are made by the goroutine that calls.
func TestOneWrite(t *testing.T) {
	s := serve(t, echoShort)
	b := &bends{}
	tr := newTransport(t, Config{Dial: b.dial})
	for _, size := range []int{0, 1, 5000, InlineBody} {
		r := request(t, "POST", s.url("/"), strings.Repeat("b", size))
		r.Header.Set("Authorization", strings.Repeat("x", 2000))
		if _, _, err := tr.get(t.Context(), r, false); err != nil {
			t.Fatal(err)
		}
		c := b.conns[0]
		if c.reads != 1 || c.writes != 1 || len(b.conns) != 1 {
			t.Errorf("%d: %d writes and %d reads over %d connections", size, c.writes, c.reads, len(b.conns))
		}
		c.reads, c.writes = 0, 0
	}
}

func echoShort(_ int, c net.Conn, r *bufio.Reader) {
	for {
		if _, _, err := readRequest(r); err != nil {
			return
		}
		sayf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

// TestCounts: what a connection says of its writes decides.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		n     int
		err   error
		taken int64
	}{{0, errBent, 0}, {1, errBent, 1}, {2, nil, 1}, {0, nil, 1}} {
		w := newWire(&result{n: c.n, err: c.err})
		if n, err := w.Write([]byte("ab")); n != c.n || !errors.Is(err, c.err) || w.taken != c.taken {
			t.Errorf("%+v: %d, %v, taken %d", c, n, err, w.taken)
		}
	}
	if New(Config{}).cfg.MaxHeader == math.MaxInt64 {
		t.Error("the header is not bounded")
	}
}

// result is a connection whose writes have a result.
type result struct {
	net.Conn
	n   int
	err error
}

// Write implements [io.Writer].
func (r *result) Write([]byte) (int, error) { return r.n, r.err }
