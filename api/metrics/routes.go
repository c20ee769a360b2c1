package metrics

import "sync"

// routes are the values of the label route.
type routes struct {
	mu    sync.RWMutex
	api   map[string]bool
	named map[string]bool // never more than MaxRoutes, for the life of the process
}

// fixed are values that need no route.
var fixed = map[string]bool{"proxy": true, "none": true}

func (r *routes) addAPI(paths []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range paths {
		r.api[p] = true
	}
}

// addNamed lets in what is new as long as there is room. A name stays after the
// route has gone: its series do too, and to give its place away would let each
// reload add a hundred more.
func (r *routes) addNamed(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range names {
		if len(r.named) < MaxRoutes {
			r.named[n] = true
		}
	}
}

// label is the value for a route of any kind.
func (r *routes) label(route string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if fixed[route] || r.api[route] || r.named[route] {
		return route
	}
	return other
}

// name is the value for a configured route.
func (r *routes) name(route string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.named[route] {
		return route
	}
	return other
}
