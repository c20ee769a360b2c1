package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"onced/api"
	"onced/kv/claim"
)

const (
	// CountEvery is how long a count of the open claims is shown.
	CountEvery = 10 * time.Second
	// MaxOpenCounted is how many open claims are counted at most.
	MaxOpenCounted = 10_000

	// countTime bounds one count.
	countTime = 5 * time.Second
)

// OpenClaims lists the claims that wait for their outcome, the oldest first. A
// claim.Book is one.
type OpenClaims interface {
	// ListOpen returns a page.
	ListOpen(ctx context.Context, q claim.Query) (claim.Page, error)
}

// WatchClaims shows the open claims of a book. It is called once.
func (m *Metrics) WatchClaims(book OpenClaims) {
	m.registry.MustRegister(&openClaims{m: m, book: book})
}

// openClaims counts when somebody asks, so that it is right after a restart and
// for what time alone changes.
type openClaims struct {
	m    *Metrics
	book OpenClaims

	mu     sync.Mutex
	asked  time.Time // last try
	counts *counted  // of the last success
}

type counted struct {
	at     time.Time
	states map[string]int
	oldest time.Time // zero when none is unknown
}

// Describe implements [prometheus.Collector].
func (c *openClaims) Describe(ch chan<- *prometheus.Desc) {
	ch <- desc(nameOpen)
	ch <- desc(nameOldest)
	ch <- desc(nameCounted)
}

// Collect implements [prometheus.Collector].
func (c *openClaims) Collect(ch chan<- prometheus.Metric) {
	got := c.current()
	if got == nil {
		return
	}
	for _, state := range claimStates {
		ch <- gauge(nameOpen, float64(got.states[state]), state)
	}
	if !got.oldest.IsZero() {
		ch <- gauge(nameOldest, seconds(got.oldest))
	}
	ch <- gauge(nameCounted, seconds(got.at))
}

// current counts if the last try is too old. Others who ask meanwhile wait for
// the one count.
func (c *openClaims) current() *counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.m.clock.Now()
	if !c.asked.IsZero() && now.Sub(c.asked) < CountEvery {
		return c.counts
	}
	c.asked = now
	got, err := c.count(now)
	if err != nil {
		c.m.log.Warn("the open claims could not be counted; the metrics show the last count", "err", err)
		return c.counts
	}
	c.counts = got
	return got
}

func (c *openClaims) count(now time.Time) (*counted, error) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	got := &counted{at: now, states: map[string]int{}}
	q := claim.Query{Limit: claim.MaxPage}
	for n := 0; n < MaxOpenCounted; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		page, err := c.book.ListOpen(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, cl := range page.Claims {
			got.add(cl)
		}
		n += len(page.Claims)
		if q.Position = page.Next; q.Position == "" {
			break
		}
	}
	return got, nil
}

func (g *counted) add(cl claim.Claim) {
	since := cl.Record.UnknownSince
	switch {
	case cl.Err != nil:
		g.states["unreadable"]++
	case cl.Record.State == claim.Unknown:
		g.states["unknown"]++
		if !since.IsZero() && (g.oldest.IsZero() || since.Before(g.oldest)) {
			g.oldest = since
		}
	case cl.Record.State == claim.Pending:
		g.states["pending"]++
	}
}

// Store says how the store is. A nil function leaves its metric out, as does one
// that fails.
type Store struct {
	// Size is that of the file, in bytes.
	Size func() (uint64, error)
	// Free is the free space on the disk, in bytes.
	Free func() (uint64, error)
	// Healthy is the error after which the store takes no writes, or nil.
	Healthy func() error
}

// WatchStore shows how the store is. It is called once.
func (m *Metrics) WatchStore(s Store) { m.registry.MustRegister(storeState{s}) }

type storeState struct{ s Store }

// Describe implements [prometheus.Collector].
func (c storeState) Describe(ch chan<- *prometheus.Desc) {
	ch <- desc(nameSize)
	ch <- desc(nameFree)
	ch <- desc(nameHealthy)
}

// Collect implements [prometheus.Collector].
func (c storeState) Collect(ch chan<- prometheus.Metric) {
	read := func(name string, f func() (uint64, error)) {
		if f == nil {
			return
		}
		if n, err := f(); err == nil {
			ch <- gauge(name, float64(n))
		}
	}
	read(nameSize, c.s.Size)
	read(nameFree, c.s.Free)
	if c.s.Healthy != nil {
		healthy := 1.0
		if c.s.Healthy() != nil {
			healthy = 0
		}
		ch <- gauge(nameHealthy, healthy)
	}
}

// descs are the descriptions of the metrics that are read when somebody asks.
var descs = func() map[string]*prometheus.Desc {
	out := map[string]*prometheus.Desc{}
	for _, d := range Table() {
		out[d.Name] = prometheus.NewDesc(d.Name, d.Help, labelNames(d), nil)
	}
	return out
}()

func desc(name string) *prometheus.Desc { return descs[name] }

func gauge(name string, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc(name), prometheus.GaugeValue, v, labels...)
}

// What others take.
var (
	_ claim.Observer = (*Metrics)(nil)
	_ api.Observer   = (*Metrics)(nil)
)
