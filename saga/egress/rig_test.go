package egress

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds what a test waits for; nothing that works takes so long.
const patience = 90 * time.Second

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// request makes one that ends with the test.
func request(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// get reads a reply to its end, and returns its status and body.
func (c *Client) get(req *http.Request, how How) (int, string, error) {
	resp, err := c.Send(req, how)
	if err != nil {
		return 0, "", err
	}
	body, _, err := ReadBody(resp, 1<<20)
	return resp.StatusCode, string(body), err
}

// fails sends and demands an error of the kind.
func (c *Client) fails(t *testing.T, req *http.Request, how How, kind Kind, sent bool) *Error {
	t.Helper()
	status, _, err := c.get(req, how)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("status %d, error %v; want %q", status, err, kind)
	}
	if e.Kind != kind || e.Sent != sent {
		t.Errorf("%v (kind %q, sent %v, below: %v); want kind %q, sent %v", e, e.Kind, e.Sent, e.Err, kind,
			sent)
	}
	return e
}

// counting is a server that counts its requests and connections.
type counting struct {
	*httptest.Server

	mu       sync.Mutex
	conns    int
	requests []*http.Request
}

func newCounting(t testing.TB, h http.HandlerFunc, start func(*httptest.Server)) *counting {
	t.Helper()
	s := &counting{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		if h != nil {
			h(w, r)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // that it complains is the point
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func (s *counting) seen() (conns, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, len(s.requests)
}

// raw is a server that speaks no more HTTP than its function does.
type raw struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
	done  sync.WaitGroup
	dials int
}

// newRaw serves each connection with f, which gets the number of the connection
// from 1 and closes nothing.
func newRaw(t testing.TB, f func(n int, c net.Conn, r *bufio.Reader)) *raw {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &raw{Listener: l}
	s.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.dials++
			n := s.dials
			s.conns = append(s.conns, c)
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

func (s *raw) stop() {
	_ = s.Close() // twice is fine
	s.mu.Lock()
	for _, c := range s.conns {
		_ = c.Close() // perhaps it is closed
	}
	s.mu.Unlock()
	s.done.Wait()
}

func (s *raw) url() string { return "http://" + s.Addr().String() + "/" }

func (s *raw) dialed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// readRequest takes a request in, with its body.
func readRequest(r *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err
}

// hold waits until the other side closes.
func hold(r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) } // how it ends does not matter

func errorsAs(err error, target **Error) bool { return errors.As(err, target) }

func poolOf(certs ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}
