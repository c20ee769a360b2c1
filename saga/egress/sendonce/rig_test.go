package sendonce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds what a test waits for; nothing that works takes so long.
const patience = 90 * time.Second

// server speaks no more HTTP than its function does.
type server struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
	done  sync.WaitGroup
}

// serve serves each connection with f, which gets the number of the connection from 1.
// The connection is closed when f returns.
func serve(t testing.TB, f func(n int, c net.Conn, r *bufio.Reader)) *server {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l}
	s.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			n := len(s.conns)
			s.mu.Unlock()
			s.done.Go(func() {
				defer c.Close()
				f(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) stop() {
	_ = s.Close() // twice is fine
	s.mu.Lock()
	for _, c := range s.conns {
		_ = c.Close() // perhaps it is closed
	}
	s.mu.Unlock()
	s.done.Wait()
}

func (s *server) url(path string) string { return "http://" + s.Addr().String() + path }

// dialed is how many connections were made.
func (s *server) dialed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// readRequest takes a request in, with its body.
func readRequest(r *bufio.Reader) (req *http.Request, body string, err error) {
	if req, err = http.ReadRequest(r); err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(req.Body)
	return req, string(b), err
}

// sayf writes an answer. The client may have left.
func sayf(c net.Conn, format string, args ...any) { _, _ = fmt.Fprintf(c, format, args...) }

// own answers a request with its own identity, which is its path, and its body.
func own(c net.Conn, req *http.Request, body string) {
	text := req.URL.Path + " " + body
	if req.Method == http.MethodHead {
		text = ""
	}
	sayf(c, "HTTP/1.1 200 OK\r\nId: %s\r\nContent-Length: %d\r\n\r\n%s", req.URL.Path, len(text), text)
}

// echo answers every request with its own identity.
func echo(_ int, c net.Conn, r *bufio.Reader) {
	for {
		req, body, err := readRequest(r)
		if err != nil {
			return
		}
		own(c, req, body)
	}
}

// stray is an answer that nobody asked for.
const stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"

// hold waits until the other side closes.
func hold(r io.Reader) { _, _ = io.Copy(io.Discard, r) } // how it ends does not matter

// wait waits for an event.
func wait[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("it never came: %s", what)
	}
	return v
}

func newTransport(t testing.TB, cfg Config) *Transport {
	t.Helper()
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = time.Hour
	}
	tr := New(cfg)
	t.Cleanup(tr.Close)
	return tr
}

func request(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// get sends and reads the answer to its end.
func (t *Transport) get(ctx context.Context, r *http.Request, fresh bool) (*http.Response, string, error) {
	resp, _, err := t.Send(ctx, r, fresh)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// asks sends one of the server's own requests, and demands its answer.
func (t *Transport) asks(tb testing.TB, s *server, path, body string) {
	tb.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	_, got, err := t.get(tb.Context(), request(tb, method, s.url(path), body), false)
	if want := path + " " + body; got != want || err != nil {
		tb.Fatalf("the answer to %s is %.60q, %v", path, got, err)
	}
}

// fails demands an error and its fate.
func (t *Transport) fails(ctx context.Context, tb testing.TB, r *http.Request, want Fate) error {
	tb.Helper()
	resp, fate, err := t.Send(ctx, r, false)
	if err == nil {
		_ = resp.Body.Close() // the test has failed
		tb.Fatalf("status %d, want an error", resp.StatusCode)
	}
	if fate != want {
		tb.Errorf("fate %d, want %d: %v", fate, want, err)
	}
	return err
}

// idles is how many idle connections there are.
func (t *Transport) idles() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, conns := range t.idle {
		n += len(conns)
	}
	if n != t.count {
		return -1
	}
	return n
}

// bends lets a test see and change what the connections of a transport do.
type bends struct {
	mu    sync.Mutex
	conns []*bent
}

// dial is for Config.Dial.
func (b *bends) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := &bent{Conn: c, puts: -1}
	b.conns = append(b.conns, out)
	return out, nil
}

// breakAll lets every write from now on put out no more than n bytes.
func (b *bends) breakAll(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.puts = n
	}
}

// bent is a connection that counts calls and whose writes may break. It has no descriptor
// to look at.
type bent struct {
	net.Conn

	puts          int // of each write; below 0 is all
	reads, writes int
}

var errBent = errors.New("the connection is bent")

// Write implements [io.Writer].
func (b *bent) Write(p []byte) (int, error) {
	b.writes++
	if b.puts < 0 {
		return b.Conn.Write(p)
	}
	n, err := b.Conn.Write(p[:min(b.puts, len(p))])
	return n, errors.Join(errBent, err)
}

// Read implements [io.Reader].
func (b *bent) Read(p []byte) (int, error) {
	b.reads++
	return b.Conn.Read(p)
}
