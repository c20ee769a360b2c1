package metrics

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"onced/api"
	"onced/kv"
	"onced/kv/claim"
)

// maxScrapes is how many may ask for the metrics at a time.
const maxScrapes = 4

// Build says what is running.
type Build struct{ Version, Revision, GoVersion string }

// Config are the settings. The zero value works.
type Config struct {
	// Build says what is running.
	Build Build
	// Clock tells the time; nil means the system's.
	Clock kv.Clock
	// Logger is told of sources that fail; nil is silent.
	Logger *slog.Logger
}

// Metrics are the metrics of one process. It implements claim.Observer,
// saga.Observer and api.Observer, and is safe for concurrent use.
type Metrics struct {
	clock    kv.Clock
	log      *slog.Logger
	registry *prometheus.Registry
	routes   routes

	definitions definitions

	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	claims      *prometheus.CounterVec
	claimEvents *prometheus.CounterVec
	upstream    *prometheus.CounterVec
	upstreamDur *prometheus.HistogramVec
	busy        *prometheus.CounterVec
	runs        *prometheus.CounterVec
	steps       *prometheus.CounterVec
	stepTime    *prometheus.HistogramVec
	credentials prometheus.Counter
	commits     prometheus.Counter
	failures    prometheus.Counter // of commits
	commitTime  prometheus.Observer
	commitCalls prometheus.Observer
	changes     prometheus.Counter
	written     prometheus.Counter
	reloaded    prometheus.Gauge
	reloadOK    prometheus.Gauge

	ofRequests series[requestKey, timed]
	ofClaims   series[claimKey, prometheus.Counter]
	ofUpstream series[upstreamKey, timed]
	ofRuns     series[runKey, prometheus.Counter]
	ofCalls    series[callKey, timed]
}

// New returns the metrics of a process, all counters at zero.
func New(cfg Config) *Metrics {
	if cfg.Clock == nil {
		cfg.Clock = kv.SystemClock()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{clock: cfg.Clock, log: cfg.Logger, registry: prometheus.NewPedanticRegistry(),
		routes:      routes{api: map[string]bool{}, named: map[string]bool{}},
		definitions: definitions{names: map[string]bool{}}}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b := maker{registry: m.registry, table: map[string]Metric{}}
	for _, d := range Table() {
		b.table[d.Name] = d
	}
	m.requests, m.requestTime = b.counters(nameRequests), b.histograms(nameRequestTime)
	m.claims, m.claimEvents = b.counters(nameClaims), b.counters(nameClaimEvents)
	m.upstream, m.upstreamDur = b.counters(nameUpstream), b.histograms(nameUpstreamDur)
	m.runs, m.steps, m.stepTime = b.counters(nameRuns), b.counters(nameSteps), b.histograms(nameStepTime)
	m.credentials = b.counters(nameRefusedUs).WithLabelValues()
	m.busy = b.counters(nameBusy)
	commits := b.counters(nameCommits)
	m.commits, m.failures = commits.WithLabelValues("ok"), commits.WithLabelValues("failed")
	m.commitTime = b.histograms(nameCommitTime).WithLabelValues()
	m.commitCalls = b.histograms(nameCommitCalls).WithLabelValues()
	m.changes = b.counters(nameChanges).WithLabelValues()
	m.written = b.counters(nameWritten).WithLabelValues()
	m.reloaded = b.gauges(nameReloaded).WithLabelValues()
	m.reloadOK = b.gauges(nameReloadOK).WithLabelValues()
	b.gauges(nameBuild).WithLabelValues(cfg.Build.Version, cfg.Build.Revision, cfg.Build.GoVersion).Set(1)
	for _, o := range claimOutcomes[:len(claimOutcomes)-1] {
		m.claims.WithLabelValues(o) // so that the first one is seen as a rise
	}
	return m
}

// maker makes collectors as the table declares them.
type maker struct {
	registry *prometheus.Registry
	table    map[string]Metric
}

func (b maker) counters(name string) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Name: name, Help: b.table[name].Help}
	v := prometheus.NewCounterVec(opts, b.labels(name))
	b.registry.MustRegister(v)
	return v
}

func (b maker) gauges(name string) *prometheus.GaugeVec {
	opts := prometheus.GaugeOpts{Name: name, Help: b.table[name].Help}
	v := prometheus.NewGaugeVec(opts, b.labels(name))
	b.registry.MustRegister(v)
	return v
}

func (b maker) histograms(name string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: name, Help: b.table[name].Help, Buckets: b.table[name].buckets}
	v := prometheus.NewHistogramVec(opts, b.labels(name))
	b.registry.MustRegister(v)
	return v
}

func (b maker) labels(name string) []string { return labelNames(b.table[name]) }

func labelNames(d Metric) []string {
	names := make([]string, 0, len(d.Labels))
	for _, l := range d.Labels {
		names = append(names, l.Name)
	}
	return names
}

// APIRoutes adds the paths of the API to the values of the label route.
func (m *Metrics) APIRoutes(paths []string) { m.routes.addAPI(paths) }

// NamedRoutes adds the names of configured routes, as far as there is room.
func (m *Metrics) NamedRoutes(names []string) { m.routes.addNamed(names) }

// ConfigRead reports that the configuration was read, and whether it is in place.
func (m *Metrics) ConfigRead(ok bool) {
	if !ok {
		m.reloadOK.Set(0)
		return
	}
	m.reloadOK.Set(1)
	m.reloaded.Set(seconds(m.clock.Now()))
}

// RequestDone implements api.Observer.
func (m *Metrics) RequestDone(r api.Done) {
	key := requestKey{r.Method, r.Route, r.Status}
	of, ok := m.ofRequests.get(key)
	if !ok {
		of = m.requestSeries(key)
	}
	of.count.Inc()
	of.took.Observe(r.Took.Seconds())
}

func (m *Metrics) requestSeries(k requestKey) timed {
	method, route, code := in(methods, k.method), m.routes.label(k.route), cut
	if k.status != 0 {
		code = other
		if http.StatusText(k.status) != "" {
			code = strconv.Itoa(k.status)
		}
	}
	of := timed{m.requests.WithLabelValues(method, route, code), m.requestTime.WithLabelValues(route)}
	if method == k.method && route == k.route && code != other {
		m.ofRequests.put(k, of)
	}
	return of
}

// ClaimDecided implements claim.Observer.
func (m *Metrics) ClaimDecided(op string, k claim.Kind) {
	key := claimKey{op, k}
	of, ok := m.ofClaims.get(key)
	if !ok {
		of = m.claimSeries(key)
	}
	of.Inc()
}

func (m *Metrics) claimSeries(k claimKey) prometheus.Counter {
	var of prometheus.Counter
	what := outcomeOf(k.kind)
	if k.op == "begin" {
		of = m.claims.WithLabelValues(what)
	} else {
		op := in(claimOps, k.op)
		what = in(claimDecisions, k.kind.String())
		of = m.claimEvents.WithLabelValues(op, what)
		if op != k.op {
			return of
		}
	}
	if what != other {
		m.ofClaims.put(k, of)
	}
	return of
}

// outcomeOf is what the one who asked for a key got.
func outcomeOf(k claim.Kind) string {
	switch k {
	case claim.Acquired:
		return "fresh"
	case claim.TookOver:
		return "taken_over"
	case claim.Replay:
		return "replayed"
	default:
		return in(claimOutcomes, k.String())
	}
}

// UpstreamDone reports one call of the upstream of a configured route. Outcome is
// done, refused, retry or unknown.
func (m *Metrics) UpstreamDone(route, outcome string, took time.Duration) {
	key := upstreamKey{route, outcome}
	of, ok := m.ofUpstream.get(key)
	if !ok {
		name, label := m.routes.name(route), in(outcomes, outcome)
		of = timed{m.upstream.WithLabelValues(name, label), m.upstreamDur.WithLabelValues(name)}
		if name == route && label == outcome {
			m.ofUpstream.put(key, of)
		}
	}
	of.count.Inc()
	of.took.Observe(took.Seconds())
}

// GuardedRefused reports one request with a key for which there was no room.
func (m *Metrics) GuardedRefused(route string) { m.busy.WithLabelValues(m.routes.name(route)).Inc() }

// Commit describes one ended commit. It has the fields of group.Commit, so that
// one converts to the other.
type Commit struct {
	Calls   int           // transactions in the group
	Changes int           // rows
	Bytes   int           // of keys and values
	Took    time.Duration // of the engine
	Err     error         // why it failed
}

// CommitDone reports one ended commit.
func (m *Metrics) CommitDone(c Commit) {
	if c.Err != nil {
		m.failures.Inc()
		return
	}
	m.commits.Inc()
	m.commitTime.Observe(c.Took.Seconds())
	m.commitCalls.Observe(float64(c.Calls))
	m.changes.Add(float64(c.Changes))
	m.written.Add(float64(c.Bytes))
}

// Handler serves the metrics in the text form. It asks for no token.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(m.log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	})
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
