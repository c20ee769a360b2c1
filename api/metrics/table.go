package metrics

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Type says how a metric moves.
type Type string

// The types.
const (
	// Counter only rises, from zero at each start.
	Counter Type = "counter"
	// Gauge is a value of now.
	Gauge Type = "gauge"
	// Histogram counts observations in buckets.
	Histogram Type = "histogram"
)

// Label is one label of a metric.
type Label struct {
	// Name is its name.
	Name string
	// Values are all that it can be; nil when Source says where they come from.
	Values []string
	// Source says, for people, what the values are when they are not listed.
	Source string
}

// Metric describes one metric.
type Metric struct {
	// Name is the name without the suffixes that histograms add.
	Name string
	// Type says how it moves.
	Type Type
	// Labels are its labels, in order.
	Labels []Label
	// Help says what it is, in one line.
	Help string

	buckets []float64
}

// other stands for every value that is not of a label's set.
const other = "other"

// cut is the code of a request whose connection was cut before its answer.
const cut = "cut"

// MaxRoutes is how many names of configured routes are labels.
const MaxRoutes = 100

// MaxDefinitions is how many names of definitions of sagas are labels.
const MaxDefinitions = 100

// The closed sets.
var (
	methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace, other}
	claimOutcomes = []string{"fresh", "taken_over", "replayed", "in_flight", "in_doubt", "mismatch", other}
	claimOps      = []string{"done", "refused", "release", "unknown", "heartbeat", "looked_up", "repeat",
		"resolve", "recover", "sweep", other}
	claimDecisions = []string{"finished", "freed", "still_unknown", "cleared", "extended", "may_resend",
		other}
	claimStates = []string{"pending", "unknown", "unreadable"}
	outcomes    = []string{"done", "refused", "retry", "credentials", "unknown", other}
	results     = []string{"ok", "failed"}

	runOutcomes = []string{"started", "completed", "compensating", "compensated", "held", "stuck", "closed",
		other}
	runsWaiting  = []string{"held", "stuck"}
	callKinds    = []string{"action", "undo", "check", other}
	callOutcomes = []string{"done", "refused", "retry", "unknown", "absent", other}
)

// Buckets, in seconds and calls.
var (
	requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	commitBuckets  = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	callBuckets    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// codes are the statuses that net/http has a text for.
func codes() []string {
	var out []string
	for status := 100; status < 600; status++ {
		if http.StatusText(status) != "" {
			out = append(out, strconv.Itoa(status))
		}
	}
	return append(out, cut, other)
}

// Names of metrics that more than one place speaks of.
const (
	nameBuild       = "onced_build_info"
	nameRequests    = "onced_http_requests_total"
	nameRequestTime = "onced_http_request_duration_seconds"
	nameClaims      = "onced_claims_total"
	nameClaimEvents = "onced_claim_events_total"
	nameOpen        = "onced_claims_open"
	nameOldest      = "onced_claims_oldest_unknown_timestamp_seconds"
	nameCounted     = "onced_claims_counted_timestamp_seconds"
	nameUpstream    = "onced_proxy_upstream_total"
	nameUpstreamDur = "onced_proxy_upstream_duration_seconds"
	nameRuns        = "onced_saga_runs_total"
	nameNeedPerson  = "onced_saga_runs_need_person"
	nameDenied      = "onced_saga_contradictions_total"
	nameRunsCounted = "onced_saga_runs_counted_timestamp_seconds"
	nameSteps       = "onced_saga_steps_total"
	nameStepTime    = "onced_saga_step_duration_seconds"
	nameRefusedUs   = "onced_saga_credentials_refused_total"
	nameBusy        = "onced_proxy_busy_total"
	nameCommits     = "onced_kv_commits_total"
	nameCommitTime  = "onced_kv_commit_duration_seconds"
	nameCommitCalls = "onced_kv_commit_calls"
	nameChanges     = "onced_kv_changes_total"
	nameWritten     = "onced_kv_written_bytes_total"
	nameSize        = "onced_kv_size_bytes"
	nameFree        = "onced_kv_free_bytes"
	nameHealthy     = "onced_store_healthy"
	nameReloaded    = "onced_config_last_reload_success_timestamp_seconds"
	nameReloadOK    = "onced_config_last_reload_successful"
)

// Table lists every metric of ours, in the order of the document. Beside them
// are go_… and process_… of Prometheus' own collectors.
func Table() []Metric {
	route := Label{Name: "route", Source: "paths of the API as in the OpenAPI document; names of " +
		"configured routes, the first 100; proxy; none; other"}
	named := Label{Name: "route", Source: "names of configured routes, the first 100; other"}
	definition := Label{Name: "definition", Source: "names of definitions, the first 100; other"}
	set := func(name string, values []string) Label { return Label{Name: name, Values: values} }
	of := func(what string) Label { return Label{Name: what, Source: "of this build"} }
	return append([]Metric{
		{Name: nameBuild, Type: Gauge, Labels: []Label{of("version"), of("revision"), of("goversion")},
			Help: "What is running; always 1."},

		{Name: nameRequests, Type: Counter,
			Labels: []Label{set("method", methods), route, set("code", codes())},
			Help:   "Requests answered. Code is the status, or cut when the connection was cut before one."},
		{Name: nameRequestTime, Type: Histogram, Labels: []Label{route}, buckets: requestBuckets,
			Help: "Time from the header of a request to the end of its answer."},

		{Name: nameClaims, Type: Counter, Labels: []Label{set("outcome", claimOutcomes)},
			Help: "Answers to those who asked for an idempotency key."},
		{Name: nameClaimEvents, Type: Counter,
			Labels: []Label{set("op", claimOps), set("decision", claimDecisions)},
			Help:   "Decisions about claims after they were taken, repeated calls included."},
		{Name: nameOpen, Type: Gauge, Labels: []Label{set("state", claimStates)},
			Help: "Claims that wait for their outcome, the oldest 10000 of them."},
		{Name: nameOldest, Type: Gauge,
			Help: "Since when the oldest unknown claim is unknown; absent when there is none."},
		{Name: nameCounted, Type: Gauge, Help: "When the open claims were last counted with success."},

		{Name: nameUpstream, Type: Counter, Labels: []Label{named, set("outcome", outcomes)},
			Help: "Calls of upstreams, by what became of them."},
		{Name: nameUpstreamDur, Type: Histogram, Labels: []Label{named}, buckets: requestBuckets,
			Help: "Time of a call of an upstream, to the end of its answer."},
		{Name: nameBusy, Type: Counter, Labels: []Label{named},
			Help: "Requests with a key that were answered 503 busy: http.max_guarded or " +
				"http.max_guarded_bytes was reached."},

		{Name: nameRuns, Type: Counter, Labels: []Label{definition, set("outcome", runOutcomes)},
			Help: "Runs of sagas by what they came to, once for each time. Compensating means that the " +
				"undoing began."},
		{Name: nameNeedPerson, Type: Gauge, Labels: []Label{set("state", runsWaiting)},
			Help: "Runs of sagas that wait for a person, of each state 10000 at most."},
		{Name: nameDenied, Type: Counter,
			Help: "Words that deny what is known of a run, such as a charge that is called back as failed " +
				"after its order was completed. They are counted as the runs that wait for a person are."},
		{Name: nameRunsCounted, Type: Gauge,
			Help: "When the runs that wait for a person were last counted with success."},
		{Name: nameSteps, Type: Counter,
			Labels: []Label{definition, set("kind", callKinds), set("outcome", callOutcomes)},
			Help: "Calls of steps by what became of them: actions, undos, and checks of what became of an " +
				"action."},
		{Name: nameStepTime, Type: Histogram, Labels: []Label{definition, set("kind", callKinds)},
			buckets: requestBuckets, Help: "Time of a call of a step, to the end of its answer."},
		{Name: nameRefusedUs, Type: Counter,
			Help: "Calls of steps whose callee does not accept our credentials; the log names the host."},
	}, ofStoreAndConfig()...)
}

// ofStoreAndConfig are the metrics of what is beneath requests and runs.
func ofStoreAndConfig() []Metric {
	return []Metric{
		{Name: nameCommits, Type: Counter, Labels: []Label{{Name: "result", Values: results}},
			Help: "Commits of the store. After a failed one it takes no more writes."},
		{Name: nameCommitTime, Type: Histogram, buckets: commitBuckets,
			Help: "Time of a commit, the sync of the disk included."},
		{Name: nameCommitCalls, Type: Histogram, buckets: callBuckets,
			Help: "Transactions that shared one commit."},
		{Name: nameChanges, Type: Counter, Help: "Rows written or deleted."},
		{Name: nameWritten, Type: Counter, Help: "Bytes of keys and values written."},
		{Name: nameSize, Type: Gauge, Help: "Size of the store's file."},
		{Name: nameFree, Type: Gauge, Help: "Free space on the store's disk."},
		{Name: nameHealthy, Type: Gauge, Help: "1 when the store takes writes, 0 after a failed commit."},

		{Name: nameReloaded, Type: Gauge,
			Help: "When a configuration was last put in place, the start included."},
		{Name: nameReloadOK, Type: Gauge,
			Help: "1 when the last attempt to read the configuration succeeded, else 0."},
	}
}

// Markdown is the document of [Table].
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nPrinted from the table in the code; a test compares them. " +
		"Times are in seconds,\nsizes in bytes. " +
		"The collectors of Prometheus add `go_…` and `process_…`.\n\n" +
		"| metric | type | meaning | labels |\n|---|---|---|---|\n")
	for _, m := range Table() {
		var labels []string
		for _, l := range m.Labels {
			values := l.Source
			switch {
			case len(l.Values) > 20:
				values = fmt.Sprintf("%s to %s as registered, %s", l.Values[0], l.Values[len(l.Values)-3],
					strings.Join(l.Values[len(l.Values)-2:], ", "))
			case l.Values != nil:
				values = strings.Join(l.Values, ", ")
			}
			labels = append(labels, "`"+l.Name+"`: "+values)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, m.Help, strings.Join(labels, "<br>"))
	}
	return b.String()
}

// in returns v when it is of the set, else other.
func in(set []string, v string) string {
	if slices.Contains(set, v) {
		return v
	}
	return other
}
