package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"onced/api"
	"onced/kv/claim"
	"onced/saga"
)

// However many names strangers make up, no more handles are kept than there are series;
// and what is found by its handle is counted where its labels say.
func TestHandlesAreOfTheClosedSets(t *testing.T) {
	m := New(Config{})
	m.APIRoutes([]string{"/livez"})
	m.NamedRoutes([]string{"charges"})
	m.NamedDefinitions([]string{"pay"})
	for i := range 100 {
		odd := fmt.Sprint("odd", i)
		for range 2 {
			m.RequestDone(api.Done{Method: "GET", Route: "/livez", Status: 200})
			m.RequestDone(api.Done{Method: "GET", Route: odd, Status: 200})
			m.RequestDone(api.Done{Method: odd, Route: "/livez", Status: 200})
			m.RequestDone(api.Done{Method: "GET", Route: "/livez", Status: 600 + i})
			m.ClaimDecided("begin", claim.Replay)
			m.ClaimDecided(odd, claim.Finished)
			m.ClaimDecided("done", claim.Kind(100+i))
			m.ClaimDecided("begin", claim.Kind(100+i))
			m.UpstreamDone("charges", "done", time.Second)
			m.UpstreamDone(odd, "done", time.Second)
			m.UpstreamDone("charges", odd, time.Second)
			m.RunChanged(saga.RunInfo{Definition: "pay", Status: "running"})
			m.RunChanged(saga.RunInfo{Definition: odd, Status: odd})
			m.CallEnded(saga.CallInfo{Definition: "pay", Kind: "action", Outcome: "done"})
			m.CallEnded(saga.CallInfo{Definition: odd, Kind: odd, Outcome: odd})
			m.CommitDone(Commit{Calls: 1})
			m.CommitDone(Commit{Err: errors.New("x")})
		}
	}
	kept := len(m.ofRequests.m) + len(m.ofClaims.m) + len(m.ofUpstream.m) + len(m.ofRuns.m) + len(m.ofCalls.m)
	if kept != 5 {
		t.Errorf("%d handles are kept", kept)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", http.NoBody))
	for line, want := range map[string]int{
		`onced_http_requests_total{code="200",method="GET",route="/livez"}`:       200,
		`onced_http_requests_total{code="200",method="GET",route="other"}`:        200,
		`onced_http_requests_total{code="200",method="other",route="/livez"}`:     200,
		`onced_http_requests_total{code="other",method="GET",route="/livez"}`:     200,
		`onced_http_request_duration_seconds_count{route="/livez"}`:               600,
		`onced_claims_total{outcome="replayed"}`:                                  200,
		`onced_claims_total{outcome="other"}`:                                     200,
		`onced_claim_events_total{decision="finished",op="other"}`:                200,
		`onced_claim_events_total{decision="other",op="done"}`:                    200,
		`onced_proxy_upstream_total{outcome="done",route="charges"}`:              200,
		`onced_proxy_upstream_total{outcome="done",route="other"}`:                200,
		`onced_proxy_upstream_total{outcome="other",route="charges"}`:             200,
		`onced_saga_runs_total{definition="pay",outcome="started"}`:               200,
		`onced_saga_runs_total{definition="other",outcome="other"}`:               200,
		`onced_saga_steps_total{definition="pay",kind="action",outcome="done"}`:   200,
		`onced_saga_steps_total{definition="other",kind="other",outcome="other"}`: 200,
		`onced_saga_step_duration_seconds_count{definition="pay",kind="action"}`:  200,
		`onced_kv_commits_total{result="ok"}`:                                     200,
		`onced_kv_commits_total{result="failed"}`:                                 200,
	} {
		if shown := fmt.Sprintf("\n%s %d\n", line, want); !strings.Contains(w.Body.String(), shown) {
			t.Errorf("there is no line%s", shown)
		}
	}
}
