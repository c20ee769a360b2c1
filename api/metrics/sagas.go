package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"onced/saga"
)

// definitions are the values of the label definition: the first MaxDefinitions
// names that a process is told of.
type definitions struct {
	mu    sync.RWMutex
	names map[string]bool
}

func (d *definitions) add(names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range names {
		if len(d.names) < MaxDefinitions {
			d.names[n] = true
		}
	}
}

func (d *definitions) label(name string) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.names[name] {
		return name
	}
	return other
}

// NamedDefinitions adds the names of definitions of sagas to the values of the
// label definition, as far as there is room.
func (m *Metrics) NamedDefinitions(names []string) { m.definitions.add(names) }

// RunChanged implements saga.Observer.
func (m *Metrics) RunChanged(r saga.RunInfo) {
	if r.Was == "" {
		m.countRun(runKey{r.Definition, "started"})
	}
	if r.Status != "running" { // which is no outcome: it was started, or goes on
		m.countRun(runKey{r.Definition, r.Status})
	}
}

func (m *Metrics) countRun(k runKey) {
	of, ok := m.ofRuns.get(k)
	if !ok {
		def, outcome := m.definitions.label(k.definition), in(runOutcomes, k.outcome)
		of = m.runs.WithLabelValues(def, outcome)
		if def == k.definition && outcome == k.outcome {
			m.ofRuns.put(k, of)
		}
	}
	of.Inc()
}

// CallEnded implements saga.Observer.
func (m *Metrics) CallEnded(c saga.CallInfo) {
	key := callKey{c.Definition, c.Kind, c.Outcome}
	of, ok := m.ofCalls.get(key)
	if !ok {
		def, kind, outcome := m.definitions.label(c.Definition), in(callKinds, c.Kind),
			in(callOutcomes, c.Outcome)
		of = timed{m.steps.WithLabelValues(def, kind, outcome), m.stepTime.WithLabelValues(def, kind)}
		if def == c.Definition && kind == c.Kind && outcome == c.Outcome {
			m.ofCalls.put(key, of)
		}
	}
	of.count.Inc()
	of.took.Observe(c.Took.Seconds())
}

// CredentialsRefused reports that a callee did not accept our credentials.
func (m *Metrics) CredentialsRefused() { m.credentials.Inc() }

// NeedPerson counts the runs of sagas that wait for a person, and what only a person can
// judge. A saga.Engine is one.
type NeedPerson interface {
	// NeedPerson returns how many are held and how many are stuck.
	NeedPerson(ctx context.Context) (held, stuck int, err error)
	// Contradicted returns how many words came after an instant that deny what is known of
	// a run, and when the last of all came; zero when there is none.
	Contradicted(ctx context.Context, after time.Time) (n int, last time.Time, err error)
}

// WatchSagas shows the runs that wait for a person, and counts the words that deny what is
// known of runs from now on. It is called once, before there can be new ones.
func (m *Metrics) WatchSagas(runs NeedPerson) {
	c := &needPerson{m: m, runs: runs}
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	if _, last, err := runs.Contradicted(ctx, time.Time{}); err == nil {
		c.since, c.begun = last, true
	}
	m.registry.MustRegister(c)
}

// needPerson counts when somebody asks, at most once in CountEvery, so that it is
// right after a restart.
type needPerson struct {
	m    *Metrics
	runs NeedPerson

	mu          sync.Mutex
	asked       time.Time // last try
	at          time.Time // of the last success; zero when there was none
	held, stuck int

	denied int       // words since the start
	since  time.Time // when the last of them came
	begun  bool      // since is known; words before it are of an earlier process
}

// Describe implements [prometheus.Collector].
func (c *needPerson) Describe(ch chan<- *prometheus.Desc) {
	ch <- desc(nameNeedPerson)
	ch <- desc(nameRunsCounted)
	ch <- desc(nameDenied)
}

// Collect implements [prometheus.Collector].
func (c *needPerson) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.m.clock.Now(); c.asked.IsZero() || now.Sub(c.asked) >= CountEvery {
		c.asked = now
		c.count(now)
	}
	if c.at.IsZero() {
		return
	}
	ch <- gauge(nameNeedPerson, float64(c.held), "held")
	ch <- gauge(nameNeedPerson, float64(c.stuck), "stuck")
	ch <- gauge(nameRunsCounted, seconds(c.at))
	ch <- prometheus.MustNewConstMetric(desc(nameDenied), prometheus.CounterValue, float64(c.denied))
}

func (c *needPerson) count(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	held, stuck, err := c.runs.NeedPerson(ctx)
	var denied int
	var last time.Time
	if err == nil {
		denied, last, err = c.runs.Contradicted(ctx, c.since)
	}
	if err != nil {
		c.m.log.Warn("the runs that wait for a person could not be counted; the metrics show the last count",
			"err", err)
		return
	}
	c.held, c.stuck, c.at = held, stuck, now
	if c.begun {
		c.denied += denied
	}
	if c.begun = true; last.After(c.since) {
		c.since = last
	}
}

var _ saga.Observer = (*Metrics)(nil)
