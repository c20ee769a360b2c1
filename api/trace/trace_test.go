package trace_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"onced/api"
	"onced/api/auth"
	"onced/api/config"
	"onced/api/problem"
	"onced/api/proxy"
	"onced/api/trace"
	"onced/kv"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/saga"
)

var _ saga.Tracer = (*trace.Tracer)(nil)

const (
	incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	spanID   = "b7ad6b7169203331"
)

// collected is a tracer whose spans are kept, and how to get them. They are gone
// when the exporter is shut down, so it is not.
type collected struct {
	*trace.Tracer
	kept *keeper
}

// keeper is an exporter in memory that keeps spans through a shutdown.
type keeper struct{ *tracetest.InMemoryExporter }

func (keeper) Shutdown(context.Context) error { return nil }

func newCollected(t *testing.T) *collected {
	t.Helper()
	k := &keeper{tracetest.NewInMemoryExporter()}
	tr, err := trace.New(trace.Config{Version: "1.2.3", Exporter: k})
	if err != nil {
		t.Fatal(err)
	}
	return &collected{tr, k}
}

// spans shuts the tracer down and returns its spans.
func (c *collected) spans(t *testing.T) tracetest.SpanStubs {
	t.Helper()
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.kept.GetSpans()
}

func attrs(s tracetest.SpanStub) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

func request(method, target, traceparent string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, target, nil)
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	return r
}

func TestRequestSpans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		done   api.Done
		name   string
		attrs  map[string]string
		failed bool
	}{
		{api.Done{Method: "POST", Route: "/v1/claims/{id}", Status: 200}, "POST /v1/claims/{id}",
			map[string]string{"http.request.method": "POST", "http.route": "/v1/claims/{id}",
				"http.response.status_code": "200"}, false},
		{api.Done{Method: "GET", Route: "none", Status: 404}, "GET",
			map[string]string{"http.request.method": "GET", "http.response.status_code": "404"}, false},
		{api.Done{Method: "other", Route: "v1-charges", Status: 503}, "HTTP v1-charges",
			map[string]string{"http.request.method": "_OTHER", "http.route": "v1-charges",
				"http.response.status_code": "503", "error.type": "503"}, true},
		{api.Done{Method: "POST", Route: "v1-charges"}, "POST v1-charges",
			map[string]string{"http.request.method": "POST", "http.route": "v1-charges",
				"error.type": "cut"}, true},
	} {
		tr := newCollected(t)
		_, end := tr.Request(request("POST", "/charges/4242?card=4242", incoming))
		end(c.done)
		got := tr.spans(t)
		if len(got) != 1 {
			t.Fatalf("%d spans", len(got))
		}
		s := got[0]
		if s.Name != c.name || s.SpanKind != oteltrace.SpanKindServer || !maps.Equal(attrs(s), c.attrs) ||
			(s.Status.Code == codes.Error) != c.failed {
			t.Errorf("%+v: %s %v %v %v", c.done, s.Name, s.SpanKind, attrs(s), s.Status)
		}
		if s.Parent.TraceID().String() != traceID || s.Parent.SpanID().String() != spanID ||
			s.SpanContext.TraceID().String() != traceID {
			t.Errorf("the parent is %v", s.Parent)
		}
	}
}

// Requests that are made all the time make no spans, and a broken traceparent
// makes a new trace.
func TestRequestsWithoutAParent(t *testing.T) {
	t.Parallel()
	tr := newCollected(t)
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		r := request("GET", path, incoming)
		ctx, end := tr.Request(r)
		if ctx != r.Context() {
			t.Errorf("%s has a span", path)
		}
		end(api.Done{Status: 200})
	}
	for _, parent := range []string{"", "00-0-0-0", "4242", strings.Repeat("x", 1<<15)} {
		_, end := tr.Request(request("GET", "/v1/claims", parent))
		end(api.Done{Method: "GET", Route: "/v1/claims", Status: 200})
	}
	got := tr.spans(t)
	if len(got) != 4 {
		t.Fatalf("%d spans", len(got))
	}
	for _, s := range got {
		if s.Parent.IsValid() || !s.SpanContext.IsValid() {
			t.Errorf("the parent is %v", s.Parent)
		}
	}
}

type secretError struct{}

func (*secretError) Error() string { return "card 4242 declined" }

func TestStart(t *testing.T) {
	t.Parallel()
	tr := newCollected(t)
	ctx, end := tr.Start(t.Context(), "perform", slog.String("operation", "charge"), slog.Int("try", 2),
		slog.Bool("found", true), slog.String(trace.LinkKey, incoming))
	parent := tr.Traceparent(ctx)
	_, inner := tr.Start(ctx, "inner", slog.String(trace.LinkKey, parent), slog.String(trace.LinkKey, "4242"))
	inner(fmt.Errorf("send 4242: %w", &secretError{}))
	end(context.DeadlineExceeded, slog.String("outcome", "unknown"))
	got := tr.spans(t)
	if len(got) != 2 {
		t.Fatalf("%d spans", len(got))
	}
	in, out := got[0], got[1]
	want := map[string]string{"onced.operation": "charge", "onced.try": "2", "onced.found": "true",
		"onced.outcome": "unknown", "error.type": "timeout"}
	if !maps.Equal(attrs(out), want) || out.Status.Code != codes.Error || out.Status.Description != "" {
		t.Errorf("got %v %v, want %v", attrs(out), out.Status, want)
	}
	if len(out.Links) != 1 || out.Links[0].SpanContext.SpanID().String() != spanID {
		t.Errorf("the links are %v", out.Links)
	}
	if in.Parent.SpanID() != out.SpanContext.SpanID() || len(in.Links) != 0 {
		t.Errorf("the parent is %v, the links are %v", in.Parent, in.Links)
	}
	if attrs(in)["error.type"] != "_OTHER" || in.Status.Description != "" ||
		len(in.Events) != 0 {
		t.Errorf("the error is shown as %v %v %v", attrs(in), in.Status, in.Events)
	}
	sc := out.SpanContext
	if want := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"; parent != want {
		t.Errorf("the traceparent is %s, want %s", parent, want)
	}
}

// error.type is of a closed set, whatever libraries return.
func TestErrorTypes(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: err}} }
	for want, err := range map[string]error{
		"timeout":              dial(os.ErrDeadlineExceeded),
		"canceled":             fmt.Errorf("x: %w", context.Canceled),
		"connection_refused":   dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"connection_broken":    fmt.Errorf("x: %w", io.ErrUnexpectedEOF),
		"name_not_resolved":    dial(&net.DNSError{Name: "secret.example"}),
		"tls":                  &url.Error{Err: x509.UnknownAuthorityError{}},
		"network":              dial(errors.New("no route")),
		"outcome_unknown":      &saga.UnknownError{},
		"idempotency_mismatch": &saga.MismatchError{},
		"store_full":           fmt.Errorf("x: %w", kv.ErrNoSpace),
		"upstream_failed":      problem.New(problem.UpstreamFailed, "4242"),
		"_OTHER":               &secretError{},
	} {
		tr := newCollected(t)
		_, end := tr.Start(t.Context(), "x")
		end(err)
		if got := attrs(tr.spans(t)[0])["error.type"]; got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// A tracer that is off does nothing and costs nothing.
func TestOff(t *testing.T) {
	var tr *trace.Tracer
	r := request("POST", "/charges", incoming)
	ctx, end := tr.Request(r)
	end(api.Done{})
	sent, ended := tr.Send(r)
	ended(0, errors.New("x"))
	inner, done := tr.Start(ctx, "x")
	done(nil)
	if ctx != r.Context() || inner != ctx || sent != r || tr.Traceparent(ctx) != "" ||
		r.Header.Get("Traceparent") != incoming || tr.Shutdown(t.Context()) != nil {
		t.Error("something was changed")
	}
	if n := testing.AllocsPerRun(100, func() {
		_, end := tr.Request(r)
		end(api.Done{})
		_, ended := tr.Send(r)
		ended(200, nil)
	}); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// shop is the service in front of an upstream, with the tracer in place.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	headers []http.Header // that the upstream got
	replies []int         // what it answers next; then 201
}

func newShop(t *testing.T, tr *trace.Tracer) *shop {
	t.Helper()
	s := &shop{}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.headers = append(s.headers, r.Header)
		status := http.StatusCreated
		if len(s.replies) > 0 {
			status, s.replies = s.replies[0], s.replies[1:]
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"amount":"4242.00"}`))
	}))
	t.Cleanup(up.Close)
	store := memkv.New(memkv.Options{})
	log := feed.New(feed.Config{})
	book, err := claim.New(t.Context(), store, claim.Config{Feed: log})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(store, auth.Config{Feed: log})
	if err != nil {
		t.Fatal(err)
	}
	route := config.DefaultRoute()
	route.Name, route.Path, route.Principal, route.Repeatable = "v1-charges", "/charges/{id}", "shop", true
	route.Upstream = mustURL(t, up.URL)
	cfg := proxy.Config{Claims: book, Routes: []config.Route{route}, OnRoute: api.SetRoute,
		Principal: func(*http.Request) (string, error) { return "", nil }}
	deps := api.Deps{Book: book, Auth: a}
	if tr != nil {
		cfg.Tracer, cfg.TraceSend, deps.Trace = tr, tr.Send, tr.Request
	}
	p, err := proxy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	deps.Fallback = p
	h, err := api.New(deps)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(h)
	t.Cleanup(func() { s.Close(); p.Close(); store.Close() })
	return s
}

func mustURL(t *testing.T, s string) config.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return config.URL{URL: *u}
}

func (s *shop) charge(t *testing.T, traceparent string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/charges/4242?card=4242",
		strings.NewReader(`{"amount":"4242.00"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "order-4242")
	req.Header.Set("Authorization", "Bearer secret-4242")
	req.Header.Set("Tracestate", "shop=1")
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// A request, its claim and its call are one trace, which goes on at the upstream.
func TestSpansOfAProxiedRequest(t *testing.T) {
	t.Parallel()
	tr := newCollected(t)
	s := newShop(t, tr.Tracer)
	if status := s.charge(t, incoming); status != http.StatusCreated {
		t.Fatal(status)
	}
	if status := s.charge(t, ""); status != http.StatusCreated { // replayed, in a trace of its own
		t.Fatal(status)
	}
	s.Close() // waits for the end of requests
	got := tr.spans(t)
	byName := map[string]tracetest.SpanStub{}
	var names []string
	for _, sp := range got {
		names = append(names, sp.Name)
		if _, ok := byName[sp.Name]; !ok {
			byName[sp.Name] = sp
		}
	}
	slices.Sort(names)
	if want := []string{"POST", "POST v1-charges", "POST v1-charges", "claim begin", "claim begin",
		"claim finish", "perform"}; !slices.Equal(names, want) {
		t.Fatalf("the spans are %q, want %q", names, want)
	}
	server := byName["POST v1-charges"]
	for name, parent := range map[string]tracetest.SpanStub{"claim begin": server, "perform": server,
		"claim finish": server, "POST": byName["perform"]} {
		if byName[name].Parent.SpanID() != parent.SpanContext.SpanID() ||
			byName[name].SpanContext.TraceID().String() != traceID {
			t.Errorf("%s is not below %s", name, parent.Name)
		}
	}
	sent := s.headers[0]
	client := byName["POST"].SpanContext
	if want := "00-" + traceID + "-" + client.SpanID().String() + "-01"; sent.Get("Traceparent") != want ||
		sent.Get("Tracestate") != "shop=1" || len(s.headers) != 1 {
		t.Errorf("the upstream got %q %q, want %q", sent["Traceparent"], sent["Tracestate"], want)
	}
	if byName["POST"].SpanKind != oteltrace.SpanKindClient ||
		attrs(byName["POST"])["server.address"] != "127.0.0.1" {
		t.Errorf("the call is %v", byName["POST"])
	}
	noSecrets(t, got)
}

// noSecrets fails when anything of the request is in a span.
func noSecrets(t *testing.T, spans tracetest.SpanStubs) {
	t.Helper()
	for _, s := range spans {
		text := fmt.Sprint(s.Name, attrs(s), s.Events, s.Status)
		for _, l := range s.Links {
			text += fmt.Sprint(l.Attributes)
		}
		if strings.Contains(text, "4242") || strings.Contains(text, "/charges") {
			t.Errorf("a secret is in %s", text)
		}
	}
}

// The try that settles an unknown outcome is linked to the one that left it.
func TestLaterTryIsLinked(t *testing.T) {
	t.Parallel()
	tr := newCollected(t)
	s := newShop(t, tr.Tracer)
	s.replies = []int{http.StatusBadGateway}
	s.charge(t, incoming)
	if status := s.charge(t, ""); status != http.StatusCreated {
		t.Fatalf("the second try is answered %d", status)
	}
	s.Close()
	linked := 0
	got := tr.spans(t)
	for _, sp := range got {
		for _, l := range sp.Links {
			if l.SpanContext.TraceID().String() != traceID || sp.SpanContext.TraceID().String() == traceID {
				t.Errorf("%s is linked to %v", sp.Name, l.SpanContext)
			}
			linked++
		}
	}
	if linked == 0 {
		t.Error("nothing is linked")
	}
	noSecrets(t, got)
}

// Without tracing what came goes on as it came.
func TestTraceparentPassesThroughWhenOff(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	if status := s.charge(t, incoming); status != http.StatusCreated {
		t.Fatal(status)
	}
	if h := s.headers[0]; h.Get("Traceparent") != incoming || h.Get("Tracestate") != "shop=1" {
		t.Errorf("the upstream got %q %q", h["Traceparent"], h["Tracestate"])
	}
}
