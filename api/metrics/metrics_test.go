package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"onced/api"
	"onced/api/metrics"
	"onced/kv"
	"onced/kv/claim"
	"onced/kv/kvtest/testclock"
	"onced/saga"
)

var update = flag.Bool("update", false, "write METRICS.md")

func newClock() *testclock.Clock { return testclock.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) }

// text is what the handler answers.
func text(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

type families map[string]*dto.MetricFamily

func scrape(t *testing.T, m *metrics.Metrics) families {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	got, err := p.TextToMetricFamilies(strings.NewReader(text(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// value is the one value with the labels a=b; ok is false when there is none.
func (f families) value(name string, labels ...string) (v float64, ok bool) {
	for _, m := range f[name].GetMetric() {
		if !hasLabels(m, labels) {
			continue
		}
		ok = true
		switch {
		case m.GetCounter() != nil:
			v += m.GetCounter().GetValue()
		case m.GetGauge() != nil:
			v += m.GetGauge().GetValue()
		case m.GetHistogram() != nil:
			v += float64(m.GetHistogram().GetSampleCount())
		}
	}
	return v, ok
}

func hasLabels(m *dto.Metric, labels []string) bool {
	for _, want := range labels {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName()+"="+l.GetValue() == want
		}) {
			return false
		}
	}
	return true
}

func (f families) want(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	if got, ok := f.value(name, labels...); !ok || got != want {
		t.Errorf("%s%v is %v (there: %v), want %v", name, labels, got, ok, want)
	}
}

func (f families) wantAbsent(t *testing.T, name string, labels ...string) {
	t.Helper()
	if got, ok := f.value(name, labels...); ok {
		t.Errorf("%s%v is %v, want none", name, labels, got)
	}
}

// full returns metrics of which each has been told something, with all that a
// hostile client, upstream or configuration can say.
func full(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := metrics.New(metrics.Config{Clock: newClock(),
		Build: metrics.Build{Version: "1.2.3", Revision: "abc", GoVersion: "go1.26"}})
	m.APIRoutes([]string{"/livez", "/v1/claims/{id}"})
	m.NamedRoutes([]string{"v1-charges"})
	m.ConfigRead(true)
	for _, r := range []api.Done{
		{Method: "GET", Route: "/livez", Status: 200},
		{Method: "GET", Route: "none", Status: 404},
		{Method: "POST", Route: "v1-charges", Status: 201, Took: time.Second},
		{Method: "POST", Route: "proxy", Status: 0},
		{Method: "STEAL", Route: "/v1/claims/clm_0001", Status: 299},
		{Method: "other", Route: "https://shop.example/?card=4242", Status: 999},
		{Method: "get", Route: "a\"b\n", Status: -1},
	} {
		m.RequestDone(r)
	}
	for k := range claim.Kind(20) {
		for op := range strings.FieldsSeq("begin done refused release unknown heartbeat looked_up repeat " +
			"resolve recover sweep key_4242") {
			m.ClaimDecided(op, k)
		}
	}
	for _, outcome := range []string{"done", "refused", "retry", "unknown", "dial tcp 10.0.0.1:9000"} {
		m.UpstreamDone("v1-charges", outcome, time.Millisecond)
		m.UpstreamDone("http://10.0.0.1", outcome, time.Millisecond)
		m.GuardedRefused("v1-charges")
		m.GuardedRefused("http://10.0.0.1")
	}
	m.CommitDone(metrics.Commit{Calls: 3, Changes: 4, Bytes: 5, Took: time.Millisecond})
	m.CommitDone(metrics.Commit{Err: errors.New("input/output error on /data/4242")})
	m.WatchStore(metrics.Store{
		Size:    func() (uint64, error) { return 1 << 20, nil },
		Free:    func() (uint64, error) { return 1 << 30, nil },
		Healthy: func() error { return nil },
	})
	m.NamedDefinitions([]string{"checkout"})
	for _, r := range []saga.RunInfo{
		{Definition: "checkout", Key: "order-4242", Status: "running"},
		{Definition: "checkout", Status: "completed", Was: "running"},
		{Definition: "checkout", Status: "stuck", Was: "compensating", Hold: "10.0.0.1"},
		{Definition: "https://shop.example", Status: "STEAL", Was: "running"},
	} {
		m.RunChanged(r)
	}
	for _, c := range []saga.CallInfo{
		{Run: "run_4242", Definition: "checkout", Step: "charge", Kind: "action", Outcome: "done"},
		{Definition: "checkout", Kind: "check", Outcome: "absent", Took: time.Second},
		{Definition: "shop.example", Kind: "STEAL", Outcome: "10.0.0.1", Host: "10.0.0.1"},
	} {
		m.CallEnded(c)
	}
	m.WatchSagas(&waiting{held: 2, stuck: 1})
	m.WatchClaims(listFunc(func(context.Context, claim.Query) (claim.Page, error) {
		return claim.Page{Claims: []claim.Claim{
			{ID: claim.ID{Scope: "s", Key: "k4242"}, Record: claim.Record{State: claim.Pending}},
			{Record: claim.Record{State: claim.Unknown, UnknownSince: time.Unix(1700000000, 0)}},
			{Err: kv.ErrCorrupt},
		}}, nil
	}))
	return m
}

type listFunc func(context.Context, claim.Query) (claim.Page, error)

func (f listFunc) ListOpen(ctx context.Context, q claim.Query) (claim.Page, error) { return f(ctx, q) }

// What is shown is what the table declares: no metric more or less, no label
// more or less, and no value outside of a label's set.
func TestEveryMetricIsDeclaredAndClosed(t *testing.T) {
	t.Parallel()
	got := scrape(t, full(t))
	declared := map[string]metrics.Metric{}
	for _, d := range metrics.Table() {
		declared[d.Name] = d
		f := got[d.Name]
		if f == nil {
			t.Errorf("%s is declared and not shown", d.Name)
			continue
		}
		if typ := strings.ToLower(f.GetType().String()); typ != string(d.Type) {
			t.Errorf("%s is a %s, declared is a %s", d.Name, typ, d.Type)
		}
		for _, m := range f.GetMetric() {
			checkLabels(t, d, m)
		}
	}
	for name := range got {
		_, ok := declared[name]
		if !ok && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is shown and not declared", name)
		}
	}
}

func checkLabels(t *testing.T, d metrics.Metric, m *dto.Metric) {
	t.Helper()
	if len(m.GetLabel()) != len(d.Labels) {
		t.Errorf("%s has the labels %v", d.Name, m.GetLabel())
	}
	known := []string{"/livez", "/v1/claims/{id}", "v1-charges", "proxy", "none", "other"}
	definitions := []string{"checkout", "other"}
	for _, l := range m.GetLabel() {
		i := slices.IndexFunc(d.Labels, func(x metrics.Label) bool { return x.Name == l.GetName() })
		if i < 0 {
			t.Errorf("%s has the label %s", d.Name, l.GetName())
			continue
		}
		values := d.Labels[i].Values
		switch l.GetName() {
		case "route":
			values = known
		case "definition":
			values = definitions
		case "version", "revision", "goversion":
			continue
		}
		if !slices.Contains(values, l.GetValue()) {
			t.Errorf("%s has %s=%q, which is not of the set", d.Name, l.GetName(), l.GetValue())
		}
	}
}

// Nothing that a client sent, an upstream said or an error holds is shown.
func TestNoValueOfARequestIsShown(t *testing.T) {
	t.Parallel()
	out := text(t, full(t))
	for secret := range strings.FieldsSeq("4242 clm_0001 10.0.0.1 shop.example STEAL 299 999 input/output") {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "onced_") && strings.Contains(line, secret) {
				t.Errorf("%q is in %s", secret, line)
			}
		}
	}
	f := scrape(t, full(t))
	f.want(t, 3, "onced_http_requests_total", "route=other", "code=other", "method=other")
	f.want(t, 1, "onced_http_requests_total", "route=proxy", "code=cut")
	f.want(t, 5, "onced_proxy_upstream_total", "route=other")
	f.want(t, 2, "onced_proxy_upstream_total", "outcome=other")
}

func TestNamesAreAsPrometheusWants(t *testing.T) {
	t.Parallel()
	var ours strings.Builder
	for line := range strings.Lines(text(t, full(t))) {
		if strings.Contains(line, "onced_") {
			ours.WriteString(line)
		}
	}
	problems, err := promlint.New(strings.NewReader(ours.String())).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if n := strings.Count(ours.String(), "# TYPE"); n != len(metrics.Table()) {
		t.Errorf("%d metrics were looked at, there are %d", n, len(metrics.Table()))
	}
}

func TestRoutesAreTheFirstHundred(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Config{})
	var names []string
	for i := range metrics.MaxRoutes + 20 {
		names = append(names, fmt.Sprintf("route-%03d", i))
	}
	m.NamedRoutes(names[:60])
	m.NamedRoutes(names[:60]) // a reload that changes nothing takes no room
	m.NamedRoutes(names)
	for _, n := range names {
		m.RequestDone(api.Done{Method: "POST", Route: n, Status: 200})
		m.UpstreamDone(n, "done", time.Second)
	}
	f := scrape(t, m)
	for _, name := range []string{"onced_http_requests_total", "onced_proxy_upstream_total"} {
		f.want(t, 1, name, "route=route-099")
		f.wantAbsent(t, name, "route=route-100")
		f.want(t, 20, name, "route=other")
		f.want(t, 120, name)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile("METRICS.md", []byte(metrics.Markdown()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("METRICS.md")
	if err != nil || string(got) != metrics.Markdown() {
		t.Errorf("METRICS.md is not what the table says (%v); "+
			"go test ./api/metrics -run TestDocument -update", err)
	}
}

func TestConfigRead(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := metrics.New(metrics.Config{Clock: c})
	m.ConfigRead(true)
	start := float64(c.Now().Unix())
	c.Add(time.Minute)
	m.ConfigRead(false)
	f := scrape(t, m)
	f.want(t, start, "onced_config_last_reload_success_timestamp_seconds")
	f.want(t, 0, "onced_config_last_reload_successful")
	m.ConfigRead(true)
	f = scrape(t, m)
	f.want(t, start+60, "onced_config_last_reload_success_timestamp_seconds")
	f.want(t, 1, "onced_config_last_reload_successful")
}

// A source that fails takes nothing else with it.
func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Config{})
	broken := errors.New("broken")
	m.WatchStore(metrics.Store{
		Size:    func() (uint64, error) { return 0, broken },
		Healthy: func() error { return broken },
	})
	f := scrape(t, m)
	f.wantAbsent(t, "onced_kv_size_bytes")
	f.wantAbsent(t, "onced_kv_free_bytes")
	f.want(t, 0, "onced_store_healthy")
	f.want(t, 1, "onced_build_info")
}
