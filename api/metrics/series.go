package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"onced/kv/claim"
)

// series keeps the handles of series by what is observed: to find one by its labels
// costs several times what it costs to count. It holds what is of the closed sets, so
// there are no more handles than series; the rest is found by its labels each time.
type series[K comparable, V any] struct {
	mu sync.RWMutex
	m  map[K]V
}

func (s *series[K, V]) get(k K) (v V, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok = s.m[k]
	return v, ok
}

func (s *series[K, V]) put(k K, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[K]V{}
	}
	s.m[k] = v
}

// timed are the two series of what takes time.
type timed struct {
	count prometheus.Counter
	took  prometheus.Observer
}

// What series are found by.
type (
	requestKey struct {
		method, route string
		status        int
	}
	claimKey struct {
		op   string
		kind claim.Kind
	}
	upstreamKey struct{ route, outcome string }
	runKey      struct{ definition, outcome string }
	callKey     struct{ definition, kind, outcome string }
)
