package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"onced/api/config"
	"onced/kv/claim"
	"onced/kv/feed"
)

// parts are what the handlers are made of. This file is where the packages of
// the service meet: each is given what it needs, and knows nothing of the rest.
type parts struct {
	feed *feed.Feed
	book *claim.Book

	api     http.Handler
	metrics http.Handler
	proxy   *slot
}

// newParts makes the parts over the store of a.
func newParts(ctx context.Context, a *App) (*parts, error) {
	c := a.o.Loaded.Config
	p := &parts{proxy: new(slot), feed: feed.New(feed.Config{Rand: a.o.Rand})}
	var err error
	p.book, err = claim.New(ctx, a.store, claim.Config{Retention: c.Claims.Retention,
		MaxResult: int(c.Claims.MaxResult), Rand: a.o.Rand, Feed: p.feed})
	if err != nil {
		return nil, err
	}
	if p.api, err = newAPI(a, p); err != nil {
		return nil, err
	}
	p.metrics = http.NotFoundHandler()
	h, err := newProxy(a, p, c)
	if err != nil {
		return nil, err
	}
	p.proxy.set(h)
	return p, nil
}

// newAPI makes the handler of the API.
func newAPI(a *App, _ *parts) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		checks := a.health.Checks(r.Context())
		for _, c := range checks {
			if c.Reason != "" {
				w.WriteHeader(http.StatusServiceUnavailable)
				break
			}
		}
		_ = json.NewEncoder(w).Encode(checks)
	})
	return mux, nil
}

// newProxy makes the handler of the routes of c.
func newProxy(_ *App, _ *parts, c *config.Config) (http.Handler, error) {
	if len(c.Routes) > 0 {
		return nil, fmt.Errorf("app: routes[0]: this build has no proxy yet")
	}
	return http.NotFoundHandler(), nil
}

// front is what answers at the API's address: the API on its own paths, and the
// routes on all others unless they have an address of their own.
func (p *parts) front(c *config.Config) http.Handler {
	if c.Proxy.Listen != "" {
		return p.api
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if config.Reserved(r.URL.EscapedPath()) {
			p.api.ServeHTTP(w, r)
			return
		}
		p.proxy.ServeHTTP(w, r)
	})
}

// slot is a handler that can be exchanged while it serves: a request is served
// to its end by the one that it began with.
type slot struct{ handler atomic.Pointer[http.Handler] }

func (s *slot) set(h http.Handler) { s.handler.Store(&h) }

// ServeHTTP serves with the handler of now.
func (s *slot) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.handler.Load()).ServeHTTP(w, r) }
