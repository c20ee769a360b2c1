package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/api/auth"
	"onced/api/problem"
	"onced/kv/claim"
	"onced/kv/faultkv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

// syncBuffer collects the log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// watcher is an Observer.
type watcher struct {
	mu   sync.Mutex
	seen []Done
	more chan struct{} // closed when the next is seen
}

// RequestDone implements Observer.
func (o *watcher) RequestDone(d Done) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, d)
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
}

// saw waits until a request was seen that is as wanted: a client has its answer a
// little earlier.
func (o *watcher) saw(t *testing.T, want func(Done) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		o.mu.Lock()
		seen := slices.Clone(o.seen)
		if o.more == nil {
			o.more = make(chan struct{})
		}
		more := o.more
		o.mu.Unlock()
		if slices.ContainsFunc(seen, want) {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Errorf("not as wanted: %+v", seen)
			return
		}
	}
}

type rig struct {
	t        *testing.T
	clock    *testclock.Clock
	disk     *memkv.Disk
	store    *faultkv.Store
	feed     *feed.Feed
	deps     Deps
	server   *Server
	url      string
	log      *syncBuffer
	watch    *watcher
	secrets  map[string]string // by name of the token
	contract *contract
}

// newRig serves over a store in memory, with a token for every role, and two
// clients of different principals. change may set more of the Deps.
func newRig(t *testing.T, change ...func(*Deps)) *rig {
	t.Helper()
	r := newQuietRig(t, change...)
	ts := httptest.NewServer(r.server)
	t.Cleanup(ts.Close)
	r.url = ts.URL
	return r
}

// newQuietRig is newRig without a network.
func newQuietRig(t *testing.T, change ...func(*Deps)) *rig {
	t.Helper()
	r := &rig{t: t, clock: testclock.At(time.Date(2026, 5, 4, 12, 30, 0, 123456789, time.UTC)),
		disk: memkv.NewDisk(), feed: feed.New(feed.Config{}), log: &syncBuffer{}, watch: &watcher{},
		secrets: map[string]string{}, contract: loadContract(t)}
	r.store = faultkv.New(memkv.Open(r.disk, memkv.Options{Clock: r.clock, Rerun: true}))
	ctx := context.Background()
	book, err := claim.New(ctx, r.store, claim.Config{Feed: r.feed, MaxResult: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.New(r.store, auth.Config{Feed: r.feed, Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	r.deps = Deps{Book: book, Auth: tokens, Clock: r.clock, Observer: r.watch,
		Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&r.deps)
	}
	if r.server, err = New(r.deps); err != nil {
		t.Fatal(err)
	}
	for _, role := range auth.Roles() {
		r.token(string(role), role, "")
	}
	r.token("acme", auth.Client, "acme")
	r.token("acme2", auth.Client, "acme")
	r.token("globex", auth.Client, "globex")
	t.Cleanup(func() {
		invariant.RequireNow(t, memkv.Open(r.disk, memkv.Options{Clock: r.clock}),
			append(claim.Rules(), auth.Rules()...)...)
	})
	return r
}

func (r *rig) token(name string, role auth.Role, principal string) {
	r.t.Helper()
	_, secret, err := r.deps.Auth.Create(context.Background(), auth.Spec{Name: name, Role: role,
		Principal: principal, Actor: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	// One use, so that later uses write nothing and faults hit what the test means.
	if _, err := r.deps.Auth.Authenticate(context.Background(), secret, peer(&http.Request{})); err != nil {
		r.t.Fatal(err)
	}
	r.secrets[name] = secret
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
	// problem is set when the answer is one.
	problem problem.Problem
}

// ask sends a request, such as "GET /livez", as the named token ("" is none). body is marshalled unless
// it is a string or nil. Further arguments are pairs of header names and values.
// Every exchange is held against the document.
func (r *rig) ask(as, what string, body any, header ...string) answer {
	r.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			r.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader(raw))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if as != "" {
		secret, ok := r.secrets[as]
		if !ok {
			secret = as
		}
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Del(header[i])
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return r.send(req, raw)
}

func (r *rig) send(req *http.Request, sent []byte) answer {
	r.t.Helper()
	var resp *http.Response
	if r.url == "" { // without a network, whose waiting a bubble of synctest could not see
		w := httptest.NewRecorder()
		r.server.ServeHTTP(w, req)
		resp = w.Result()
	} else {
		var err error
		if resp, err = http.DefaultTransport.RoundTrip(req); err != nil {
			r.t.Fatal(err)
		}
	}
	defer resp.Body.Close()
	var err error
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		r.t.Fatal(err)
	}
	r.contract.check(r.t, req, sent, a)
	if req.Method == http.MethodHead {
		return a
	}
	switch media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); media {
	case "application/json":
		if err := json.Unmarshal(a.raw, &a.body); err != nil {
			r.t.Fatalf("%s %s: %v in %.200s", req.Method, req.URL.Path, err, a.raw)
		}
	case problem.ContentType:
		if err := json.Unmarshal(a.raw, &a.problem); err != nil {
			r.t.Fatal(err)
		}
	}
	return a
}

// want fails unless the answer has the status and, of a problem, the code.
func (a answer) want(t *testing.T, status int, code problem.Code) answer {
	t.Helper()
	if a.status != status || a.problem.Code != code {
		t.Fatalf("status %d, code %q; want %d, %q\n%.500s", a.status, a.problem.Code, status, code, a.raw)
	}
	return a
}

// at looks up a member of the body: "claim.id".
func (a answer) at(path string) any {
	var v any = a.body
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func (a answer) text(path string) string {
	s, _ := a.at(path).(string)
	return s
}

const (
	tokenA = "token-of-owner-aaaa"
	tokenB = "token-of-owner-bbbb"
)

// claimBody is a valid request; changes are pairs of member and value.
func claimBody(key string, changes ...any) map[string]any {
	b := map[string]any{"operation": "charge", "key": key, "token": tokenA, "payload": "100 EUR",
		"lease_s": 30}
	for i := 0; i < len(changes); i += 2 {
		b[changes[i].(string)] = changes[i+1]
		if changes[i+1] == nil {
			delete(b, changes[i].(string))
		}
	}
	return b
}

// acquire claims a key for acme and returns the claim's path.
func (r *rig) acquire(key string, changes ...any) string {
	r.t.Helper()
	a := r.ask("acme", "POST /v1/claims", claimBody(key, changes...)).want(r.t, 201, "")
	return "/v1/claims/" + a.text("claim.id")
}

// unknownClaim makes an unknown claim of acme and returns its path and ETag.
func (r *rig) unknownClaim(key string) (path, etag string) {
	r.t.Helper()
	path = r.acquire(key)
	a := r.ask("acme", "POST "+path+"/unknown", map[string]any{"token": tokenA, "reason": "timed out"}).
		want(r.t, 200, "")
	return path, a.header.Get("ETag")
}
