package app

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"

	"onced/api"
	"onced/api/auth"
	"onced/api/config"
	"onced/api/problem"
	"onced/api/proxy"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/saga"
	"onced/saga/idemhttp"
)

// parts are what the handlers are made of. This file is where the packages of
// the service meet: each is given what it needs, and knows nothing of the rest.
type parts struct {
	feed  *feed.Feed
	book  *claim.Book
	auth  *auth.Service
	sagas *sagas

	// These outlive the proxies of reloads.
	unsaved saga.Unsaved
	guarded *idemhttp.Limit

	api     http.Handler
	metrics http.Handler
	proxy   slot
}

// newParts makes the parts over the store of a, with the definitions of the files.
func newParts(ctx context.Context, a *App, definitions []definitionFile) (*parts, error) {
	o, c := a.o, a.o.Loaded.Config
	p := &parts{feed: feed.New(feed.Config{Rand: o.Rand}),
		guarded: idemhttp.NewLimit(c.HTTP.MaxGuarded, int64(c.HTTP.MaxGuardedBytes))}
	var err error
	p.book, err = claim.New(ctx, a.store, claim.Config{Retention: c.Claims.Retention,
		MaxResult: int(c.Claims.MaxResult), Rand: o.Rand, Feed: p.feed, Observer: a.metrics})
	if err != nil {
		return nil, err
	}
	a.metrics.WatchClaims(p.book)
	p.metrics = a.metrics.Handler()
	p.auth, err = auth.New(a.store, auth.Config{Feed: p.feed, Clock: o.Clock, Rand: o.Rand, Logger: o.Logger,
		MaxFailures: c.Auth.MaxFailures, FailureWindow: c.Auth.FailureWindow})
	if err != nil {
		return nil, err
	}
	routes, err := p.newProxy(a, c)
	if err != nil {
		return nil, err
	}
	p.proxy.set(routes)
	p.sagas, err = newSagas(ctx, a, p.feed, definitions)
	return p, err
}

// open makes what needs to know the address that is listened at.
func (p *parts) open(ctx context.Context, a *App) error {
	if err := p.sagas.open(ctx, a); err != nil {
		return err
	}
	cursorKey, err := api.CursorKey(ctx, a.store, a.o.Rand)
	if err != nil {
		return err
	}
	p.api, err = p.newAPI(a, a.o.Loaded.Config, cursorKey)
	return err
}

// newAPI makes the handler of the API, which gives what is not its own to the
// routes of the proxy.
func (p *parts) newAPI(a *App, c *config.Config, cursorKey []byte) (http.Handler, error) {
	shared := p.metrics
	if c.Metrics.Listen != "" {
		shared = nil // they are at an address of their own
	}
	deps := api.Deps{
		Book: p.book, Auth: p.auth, Readiness: a.health, Metrics: shared, Fallback: &p.proxy,
		Logger: a.o.Logger, Clock: a.o.Clock, Rand: a.o.Rand, CursorKey: cursorKey,
		ClientIP: clientIP(c.HTTP.TrustedProxies), MaxBody: int64(c.HTTP.MaxBody),
		// A result comes in base64 inside of JSON.
		MaxResultBody: int64(c.Claims.MaxResult)*4/3 + 64<<10,
		BodyTime:      c.HTTP.ReadTimeout,
		Observer:      a.metrics,
		Sagas:         p.sagas.api(a),
	}
	if a.tracer != nil {
		deps.Trace = a.tracer.Request
	}
	s, err := api.New(deps)
	if err != nil {
		return nil, err
	}
	for _, r := range s.Routes() {
		a.metrics.APIRoutes([]string{r.Path})
	}
	return s, nil
}

// newProxy makes the handler of the routes of c. It is called again with each
// reload, and must have no effect of its own.
func (p *parts) newProxy(a *App, c *config.Config) (*proxy.Proxy, error) {
	ip := clientIP(c.HTTP.TrustedProxies)
	cfg := proxy.Config{
		Claims: p.book, Routes: c.Routes, Principal: p.principal(ip),
		MaxBody:  int64(c.HTTP.MaxBody), // how long it takes is bounded by the server
		ClientIP: ip, Trusted: trustedPeer(c.HTTP.TrustedProxies), OnRoute: api.SetRoute,
		Observer: a.metrics, Clock: a.o.Clock, Logger: a.o.Logger, Unsaved: &p.unsaved,
		Limit: p.guarded,
	}
	if a.tracer != nil {
		cfg.Tracer, cfg.TraceSend = a.tracer, a.tracer.Send
	}
	return proxy.New(cfg)
}

// principal is the account whose token a request to a route carries.
func (p *parts) principal(ip func(*http.Request) netip.Addr) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		who, err := api.Authorize(r, p.auth, ip, auth.RequestsSend)
		if who.Role != "" && !who.Can(auth.RequestsSend) {
			err = problem.New(problem.Forbidden, "routes take the token of a client: a key belongs to the "+
				"account of its token, and what another account has paid would be paid once more under this "+
				"one; onced token create NAME makes one, with --principal=ACCOUNT for an account that exists")
		}
		return who.Principal, err
	}
}

// slot is the proxy, which can be exchanged while it serves: a request is served
// to its end by the one that it began with.
type slot struct{ now atomic.Pointer[proxy.Proxy] }

// set puts h in its place and lets go of the idle connections of the one before.
func (s *slot) set(h *proxy.Proxy) {
	if before := s.now.Swap(h); before != nil {
		before.Close()
	}
}

// ServeHTTP serves with the proxy of now.
func (s *slot) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.now.Load().ServeHTTP(w, r) }
