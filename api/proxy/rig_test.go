package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/api/config"
	"onced/api/problem"
	"onced/kv"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/memkv"
)

// gateway is an upstream with a ledger.
type gateway struct {
	*httptest.Server

	mu          sync.Mutex
	honoursKeys bool
	ledger      []string // the key of each charge
	sends       []*http.Request
	bodies      []string
	// answer, if set, replaces the answer of send n, from 1.
	answer func(n int, w http.ResponseWriter, r *http.Request) bool
}

func newGateway(t testing.TB) *gateway {
	g := &gateway{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(g.serve))
	g.Config.ErrorLog = quiet()
	g.Start()
	t.Cleanup(g.Close)
	return g
}

// serve charges at POST and looks up at GET /charges/<key>.
func (g *gateway) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	g.mu.Lock()
	if found, ok := strings.CutPrefix(r.URL.Path, "/charges/"); ok && r.Method == http.MethodGet {
		defer g.mu.Unlock()
		if !slices.Contains(g.ledger, found) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"charge":"%s"}`, found)
		return
	}
	g.sends, g.bodies = append(g.sends, r), append(g.bodies, string(body))
	n := len(g.sends)
	if !g.honoursKeys || !slices.Contains(g.ledger, key) {
		g.ledger = append(g.ledger, key)
	}
	charges := len(g.ledger)
	answer := g.answer
	g.mu.Unlock()
	if answer != nil && answer(n, w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"charges":%d}`, charges)
}

// charged checks the ledger.
func (g *gateway) charged(t testing.TB, n int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ledger) != n {
		t.Errorf("%d charges, want %d: %q", len(g.ledger), n, g.ledger)
	}
}

// last is the last send.
func (g *gateway) last() *http.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sends[len(g.sends)-1]
}

// oneKey checks that all sends had one and the same key.
func (g *gateway) oneKey(t testing.TB, sends int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.sends) != sends {
		t.Errorf("%d sends, want %d", len(g.sends), sends)
	}
	for _, r := range g.sends {
		if key := r.Header["Idempotency-Key"]; len(key) != 1 ||
			key[0] != g.sends[0].Header.Get("Idempotency-Key") ||
			!strings.HasPrefix(key[0], "oc_") {
			t.Errorf("key %q", key)
		}
	}
}

// cut ends the connection of a request.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// routesOf are the routes of a configuration; UPSTREAM stands for the URL.
func routesOf(t testing.TB, yaml, upstream string) []config.Route {
	t.Helper()
	text := strings.ReplaceAll(yaml, "UPSTREAM", upstream)
	loaded, err := config.Load(config.Source{File: "c.yaml",
		Environ:  []string{"GATEWAY_TOKEN=of-the-gateway"},
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return loaded.Config.Routes
}

// setup is a proxy behind a server.
type setup struct {
	t    testing.TB
	url  string
	book *claim.Book
	*Proxy
	*http.Client
}

// newSetup serves routes over a store in memory.
func newSetup(t testing.TB, yaml, upstream string, change ...func(*Config)) *setup {
	t.Helper()
	return setupOn(t, memkv.New(memkv.Options{}), routesOf(t, yaml, upstream), change...)
}

func setupOn(t testing.TB, store kv.Store, routes []config.Route, change ...func(*Config)) *setup {
	t.Helper()
	book, err := claim.New(context.Background(), store, claim.Config{Feed: feed.New(feed.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Claims: book, Routes: routes, Principal: bearer}
	for _, c := range change {
		c(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(p)
	s.Config.ErrorLog = quiet()
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		p.Close()
		_ = store.Close()
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &setup{t: t, url: s.URL, book: book, Proxy: p, Client: client}
}

// bearer takes the token for the principal.
func bearer(r *http.Request) (string, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", problem.New(problem.Unauthorized, "")
	}
	name, _, _ = strings.Cut(name, "-") // tokens of one principal
	return name, nil
}

// call sends one request; pairs of names and values of headers follow.
func (s *setup) call(method, path, body string, header ...string) (*http.Response, string) {
	s.t.Helper()
	resp, err := s.try(context.Background(), method, path, body, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(b)
}

func (s *setup) try(ctx context.Context, method, path, body string, header ...string) (*http.Response,
	error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return nil, err
	}
	if r.ContentLength = int64(len(body)); body == "" {
		r.Body = http.NoBody
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return s.Do(r)
}

// pay posts with the key "k".
func (s *setup) pay(header ...string) (*http.Response, string) {
	s.t.Helper()
	return s.call(http.MethodPost, "/charges", `{"amount":"10.00"}`,
		append([]string{"Idempotency-Key", "k", "Content-Type", "application/json"}, header...)...)
}

// pays expects the answer of pay.
func (s *setup) pays(status int, part string, replayed bool) {
	s.t.Helper()
	resp, body := s.pay()
	want(s.t, reply{resp, body}, status, part, replayed)
}

// reply is an answer with its body.
type reply struct {
	*http.Response

	body string
}

func want(t testing.TB, a reply, status int, part string, replayed bool) {
	t.Helper()
	if a.StatusCode != status || !strings.Contains(a.body, part) {
		t.Errorf("got %d %q, want %d with %q", a.StatusCode, a.body, status, part)
	}
	if got := a.Header.Get("Idempotency-Replayed") == "true"; got != replayed {
		t.Errorf("replayed is %v, want %v; %d %q", got, replayed, a.StatusCode, a.body)
	}
}

// wire is an upstream of raw connections.
type wire struct {
	addr string
	mu   sync.Mutex
	got  []string // the first lines of the requests
}

// newWire serves each connection by f, which is told its number, from 1.
func newWire(t testing.TB, f func(w *wire, n int, conn net.Conn, r *bufio.Reader)) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w := &wire{addr: l.Addr().String()}
	go func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				f(w, n, conn, bufio.NewReader(conn))
			}()
		}
	}()
	return w
}

func (w *wire) url() string { return "http://" + w.addr }

// request reads one whole request; ok is false at the end of the connection.
func (w *wire) request(r *bufio.Reader) (req *http.Request, ok bool) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, false
	}
	_, _ = io.Copy(io.Discard, req.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, req.Method+" "+req.RequestURI)
	return req, true
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

// says answers every request with the same bytes and closes.
func says(t testing.TB, answer string) *wire {
	return newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
		if _, ok := w.request(r); ok {
			_, _ = io.WriteString(conn, answer)
		}
	})
}

// raw sends bytes and reads one answer.
func (s *setup) raw(request string) (*http.Response, string) {
	s.t.Helper()
	conn := s.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.t.Fatal(err)
	}
	return resp, string(b)
}

func (s *setup) dial() net.Conn {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"),
		10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Time{})
	return conn
}
