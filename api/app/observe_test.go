package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"onced/api/auth"
	"onced/api/config"
)

// metric is the value of a line of the metrics, -1 when there is none.
func metric(t *testing.T, text, line string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// adminToken is the token that the first start has shown.
func (r *running) adminToken() string {
	r.t.Helper()
	m := regexp.MustCompile(`(?m)^  (\S+)$`).FindStringSubmatch(r.notice.String())
	if m == nil {
		r.t.Fatalf("no token in %q", r.notice)
	}
	return m[1]
}

// Everything that happens in the process reaches the metrics.
func TestMetricsOfTheProcess(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, ""))
	if status, _ := r.get("/metrics"); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	admin := r.adminToken()
	_, secret, err := r.app.parts.auth.Create(t.Context(),
		auth.Spec{Name: "prometheus", Role: auth.Metrics, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"operation":"charge","key":"order-4242","lease_s":30,` +
		`"token":"` + strings.Repeat("t", 32) + `","fingerprint":"` + strings.Repeat("0", 64) + `"}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/claims",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+admin)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatalf("the claim: %d %s", resp.StatusCode, answer)
	}
	status, text, err := r.do(http.MethodGet, "/metrics", secret, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("as metrics: %d %v", status, err)
	}
	created := `onced_http_requests_total{code="` + strconv.Itoa(resp.StatusCode) +
		`",method="POST",route="/v1/claims"}`
	for line, want := range map[string]float64{
		`onced_claims_total{outcome="fresh"}`:                                 1,
		`onced_claims_open{state="pending"}`:                                  1,
		`onced_http_requests_total{code="401",method="GET",route="/metrics"}`: 1,
		`onced_store_healthy`:                                                 1,
		`onced_config_last_reload_successful`:                                 1,
		created:                                                               1,
	} {
		if got := metric(t, text, line); got != want {
			t.Errorf("%s is %v, want %v", line, got, want)
		}
	}
	for line := range strings.FieldsSeq(`onced_kv_commits_total{result="ok"} onced_kv_size_bytes ` +
		`onced_kv_commit_calls_sum`) {
		if metric(t, text, line) <= 0 {
			t.Errorf("%s is %v", line, metric(t, text, line))
		}
	}
	if strings.Contains(text, "4242") {
		t.Error("the metrics hold the key")
	}
}

func TestMetricsAtTheirOwnAddress(t *testing.T) {
	t.Parallel()
	o := options(t, "metrics: {listen: '127.0.0.1:0'}")
	r := start(t, o)
	base := "http://" + r.app.Addr("metrics").String()
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/": http.StatusNotFound,
		"/v1/claims": http.StatusNotFound} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s is answered %d, want %d", path, resp.StatusCode, want)
		}
	}
	if status, _ := r.get("/metrics"); status != http.StatusNotFound {
		t.Errorf("they are at the API's address too: %d", status)
	}
}

func TestAFailedReloadIsSeen(t *testing.T) {
	t.Parallel()
	text := "log: {level: warn}"
	o := options(t, text)
	o.Load = func() (*config.Loaded, error) { return nil, errNoGood }
	r := start(t, o)
	scrape := func() string {
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.app.parts.metrics.ServeHTTP(w, req)
		return w.Body.String()
	}
	before := metric(t, scrape(), "onced_config_last_reload_success_timestamp_seconds")
	if _, err := r.app.Reload(); err == nil {
		t.Fatal("the reload succeeded")
	}
	if got := metric(t, scrape(), "onced_config_last_reload_successful"); got != 0 {
		t.Errorf("the last reload is shown as %v", got)
	}
	got := metric(t, scrape(), "onced_config_last_reload_success_timestamp_seconds")
	if got != before || got <= 0 {
		t.Errorf("the last success is at %v, was at %v", got, before)
	}
}

var errNoGood = &json.SyntaxError{}

// The spans of the last requests are sent before the process ends.
func TestTracesOfTheProcess(t *testing.T) {
	var batches atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/v1/traces" {
			batches.Add(1)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", strconv.FormatInt(time.Hour.Milliseconds(), 10))
	r := start(t, options(t, ""))
	r.get("/v1/claims")
	if n := batches.Load(); n != 0 {
		t.Fatalf("%d batches were sent too early", n)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if n := batches.Load(); n != 1 {
		t.Errorf("%d batches were sent", n)
	}
}

func TestATracerThatCannotBeMade(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")
	_, err := New(t.Context(), options(t, ""))
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT") {
		t.Errorf("the error is %v", err)
	}
}
