package metrics_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced/api"
	"onced/api/auth"
	"onced/api/metrics"
	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/group"
	"onced/kv/memkv"
)

func request(key string, n byte) claim.Request {
	token := fmt.Sprintf("%x", sha256.Sum256([]byte{n, byte(len(key))}))[:32] + key
	return claim.Request{ID: claim.ID{Scope: "shop/charge", Key: key}, Token: token,
		Fingerprint: claim.FingerprintOf([]byte(key)), Owner: claim.LocalOwner()}
}

// SG-49: the numbers, summed over all parts, are those of a known load on the
// real store.
func TestNumbersOfAKnownLoad(t *testing.T) {
	t.Parallel()
	const keys, clients = 40, 4
	ctx := t.Context()
	m := metrics.New(metrics.Config{})
	store, err := boltkv.Open(ctx, filepath.Join(t.TempDir(), "x.db"), &boltkv.Options{
		Observer: func(c group.Commit) { m.CommitDone(metrics.Commit(c)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	counting := &countingStore{Store: store}
	book, err := claim.New(ctx, counting, claim.Config{Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	m.WatchClaims(book)
	m.WatchStore(metrics.Store{Healthy: store.Healthy})

	var got [20]atomic.Int64 // answers of Begin by kind
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for k := range keys {
				kind, err := use(ctx, book, request(fmt.Sprintf("order-%02d", k), byte(c)), k)
				if err != nil {
					t.Error(err)
				}
				got[kind].Add(1)
			}
		})
	}
	wg.Wait()

	f := scrape(t, m)
	f.want(t, keys*clients, "onced_claims_total")
	f.want(t, keys, "onced_claims_total", "outcome=fresh")
	for kind, outcome := range map[claim.Kind]string{claim.Replay: "replayed", claim.InFlight: "in_flight",
		claim.InDoubt: "in_doubt", claim.Mismatch: "mismatch"} {
		f.want(t, float64(got[kind].Load()), "onced_claims_total", "outcome="+outcome)
	}
	f.want(t, keys*3/4, "onced_claim_events_total")
	f.want(t, keys/4, "onced_claim_events_total", "op=refused", "decision=finished")
	f.want(t, keys/4, "onced_claim_events_total", "op=done", "decision=finished")
	f.want(t, keys/4, "onced_claim_events_total", "op=unknown", "decision=still_unknown")
	f.want(t, keys/4, "onced_claims_open", "state=pending")
	f.want(t, keys/4, "onced_claims_open", "state=unknown")
	f.want(t, 0, "onced_claims_open", "state=unreadable")
	f.want(t, 1, "onced_store_healthy")

	commits, _ := f.value("onced_kv_commits_total")
	f.want(t, commits, "onced_kv_commit_duration_seconds")
	f.want(t, commits, "onced_kv_commit_calls")
	// Each call that wrote was in a commit; one that found nothing to write was
	// perhaps beside one.
	calls := f["onced_kv_commit_calls"].GetMetric()[0].GetHistogram().GetSampleSum()
	if all := float64(counting.updates.Load()); calls < keys*7/4 || calls > all {
		t.Errorf("%v transactions were committed, want %d to %v", calls, keys*7/4, all)
	}
	if rows, _ := f.value("onced_kv_changes_total"); rows < keys*2 {
		t.Errorf("%v rows were changed", rows)
	}
}

// use asks for a key, and ends it in one of four ways if it is the caller's.
func use(ctx context.Context, book *claim.Book, req claim.Request, way int) (claim.Kind, error) {
	d, err := book.Begin(ctx, req)
	if err != nil || d.Kind != claim.Acquired {
		return d.Kind, err
	}
	switch way % 4 {
	case 0:
		_, err = book.Refused(ctx, req.Ref(), claim.Result{})
	case 1:
		_, err = book.Unknown(ctx, req.Ref(), "lost")
	case 2: // stays pending
	default:
		_, err = book.Done(ctx, req.Ref(), claim.Result{Data: []byte("ok")})
	}
	return d.Kind, err
}

// countingStore counts the transactions that write.
type countingStore struct {
	kv.Store
	updates atomic.Int64
}

func (s *countingStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	return s.Store.Update(ctx, func(w kv.Writer) error {
		err := fn(w)
		s.updates.Add(1)
		return err
	})
}

// What is open is right after a restart: it is read from the store.
func TestOpenClaimsAfterARestart(t *testing.T) {
	t.Parallel()
	ctx, path, c := t.Context(), filepath.Join(t.TempDir(), "x.db"), newClock()
	open := func() (*boltkv.Store, *metrics.Metrics) {
		store, err := boltkv.Open(ctx, path, &boltkv.Options{Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		book, err := claim.New(ctx, store, claim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		m := metrics.New(metrics.Config{Clock: c})
		m.WatchClaims(book)
		return store, m
	}
	store, m := open()
	book, _ := claim.New(ctx, store, claim.Config{})
	scrape(t, m).wantAbsent(t, "onced_claims_oldest_unknown_timestamp_seconds")
	owners := []claim.Owner{claim.LocalOwner(), claim.LocalOwner(), claim.RemoteOwner(time.Hour)}
	for i, owner := range owners {
		req := request(fmt.Sprintf("k%d", i), 1)
		req.Owner = owner
		if _, err := book.Begin(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	f := scrape(t, m) // the count is not repeated yet
	f.want(t, 0, "onced_claims_open")
	c.Add(metrics.CountEvery)
	f = scrape(t, m)
	f.want(t, 3, "onced_claims_open", "state=pending")
	f.want(t, 0, "onced_claims_open", "state=unknown")
	f.want(t, float64(c.Now().Unix()), "onced_claims_counted_timestamp_seconds")
	store.Close()

	restarted := c.Now().Add(time.Minute)
	c.Add(time.Minute)
	store, m = open()
	f = scrape(t, m)
	f.want(t, 1, "onced_claims_open", "state=pending") // the remote owner lives on
	f.want(t, 2, "onced_claims_open", "state=unknown")
	oldest, ok := f.value("onced_claims_oldest_unknown_timestamp_seconds")
	if !ok || oldest > float64(restarted.Unix()) {
		t.Errorf("the oldest is of %v (there: %v), the restart was at %d", oldest, ok, restarted.Unix())
	}
	c.Add(2 * time.Hour) // time alone makes the third unknown
	f = scrape(t, m)
	f.want(t, 0, "onced_claims_open", "state=pending")
	f.want(t, 3, "onced_claims_open", "state=unknown")
	store.Close()
}

func TestCountsAreBoundedAndKept(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := metrics.New(metrics.Config{Clock: c})
	pages, fail := 0, error(nil)
	m.WatchClaims(listFunc(func(_ context.Context, q claim.Query) (claim.Page, error) {
		pages++
		p := claim.Page{Next: "more"} // for ever
		for range q.Limit {
			p.Claims = append(p.Claims, claim.Claim{Record: claim.Record{State: claim.Pending}})
		}
		return p, fail
	}))
	f := scrape(t, m)
	f.want(t, metrics.MaxOpenCounted, "onced_claims_open")
	first := pages
	if first != metrics.MaxOpenCounted/claim.MaxPage {
		t.Errorf("%d pages were read", first)
	}
	scrape(t, m)
	if pages != first {
		t.Error("a second scrape counted again at once")
	}
	at := float64(c.Now().Unix())
	c.Add(metrics.CountEvery)
	fail = errors.New("the store is closed")
	f = scrape(t, m)
	f.want(t, metrics.MaxOpenCounted, "onced_claims_open")
	f.want(t, at, "onced_claims_counted_timestamp_seconds")
	if pages != first+1 {
		t.Errorf("%d pages were read", pages)
	}
	scrape(t, m)
	if pages != first+1 {
		t.Error("a count that failed was tried again at once")
	}
}

// server is the API over a store in memory, with the metrics of its requests.
type server struct {
	*httptest.Server
	m *metrics.Metrics
	a *auth.Service
}

func newServer(t *testing.T) *server {
	t.Helper()
	ctx, store, m := t.Context(), memkv.New(memkv.Options{}), metrics.New(metrics.Config{})
	log := feed.New(feed.Config{})
	book, err := claim.New(ctx, store, claim.Config{Observer: m, Feed: log})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(store, auth.Config{Feed: log, MaxFailures: 1000})
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.New(api.Deps{Book: book, Auth: a, Metrics: m.Handler(), Observer: m,
		Fallback: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.SetRoute(r.Context(), "v1-charges")
			w.WriteHeader(http.StatusCreated)
		})})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range h.Routes() {
		m.APIRoutes([]string{r.Path})
	}
	m.NamedRoutes([]string{"v1-charges"})
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.Close(); store.Close() })
	return &server{srv, m, a}
}

func (s *server) do(t *testing.T, method, path, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(out)
}

// SG-49 for requests: what the server counts is what the clients did.
func TestRequestsOfAKnownLoad(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				s.do(t, http.MethodGet, "/livez", "", "")
				s.do(t, http.MethodPost, "/charges?card=4242", "", "")
			}
			s.do(t, http.MethodGet, "/v1/claims/clm_4242", "", "")
			s.do(t, http.MethodGet, "/v1/nothing", "", "")
		})
	}
	wg.Wait()
	f := scrape(t, s.m)
	f.want(t, 176, "onced_http_requests_total")
	f.want(t, 80, "onced_http_requests_total", "route=/livez", "method=GET", "code=200")
	f.want(t, 80, "onced_http_requests_total", "route=v1-charges", "method=POST", "code=201")
	f.want(t, 8, "onced_http_requests_total", "route=/v1/claims/{id}", "method=GET", "code=401")
	f.want(t, 8, "onced_http_requests_total", "route=none", "method=GET", "code=404")
	f.want(t, 80, "onced_http_request_duration_seconds", "route=v1-charges")
	f.want(t, 176, "onced_http_request_duration_seconds")
}

// /metrics is for tokens that may read metrics, and for nobody else.
func TestMetricsNeedTheRole(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if status, _ := s.do(t, http.MethodGet, "/metrics", "", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	for _, role := range auth.Roles() {
		token := newToken(t, s.a, role)
		want := http.StatusOK
		if role == auth.Client {
			want = http.StatusForbidden
		}
		status, body := s.do(t, http.MethodGet, "/metrics", token, "")
		if status != want || (want == http.StatusOK) != strings.Contains(body, "onced_build_info") {
			t.Errorf("as %s: %d, want %d: %.200s", role, status, want, body)
		}
	}
}

// Observers and those who ask may come at once; run it with -race.
func TestScrapeUnderLoad(t *testing.T) {
	t.Parallel()
	m := full(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				m.RequestDone(api.Done{Method: "GET", Route: "/livez", Status: 200})
				m.CommitDone(metrics.Commit{Calls: 1})
				m.NamedRoutes([]string{fmt.Sprint(i)})
			}
		})
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	wg.Wait()
	scrape(t, m).want(t, 801, "onced_http_requests_total", "route=/livez")
}

func newToken(t *testing.T, a *auth.Service, role auth.Role) string {
	t.Helper()
	_, secret, err := a.Create(t.Context(), auth.Spec{Name: "t-" + string(role), Role: role, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// The oldest is the one that has been unknown for the longest, wherever it comes:
// the list is ordered by when a claim began to wait.
func TestOldestUnknown(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Config{Clock: newClock()})
	m.WatchClaims(listFunc(func(context.Context, claim.Query) (claim.Page, error) {
		var p claim.Page
		for _, since := range []int64{1700000300, 1700000100, 1700000200} {
			p.Claims = append(p.Claims, claim.Claim{Record: claim.Record{State: claim.Unknown,
				UnknownSince: time.Unix(since, 0)}})
		}
		return p, nil
	}))
	f := scrape(t, m)
	f.want(t, 1700000100, "onced_claims_oldest_unknown_timestamp_seconds")
	f.want(t, 3, "onced_claims_open", "state=unknown")
}
