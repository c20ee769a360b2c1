package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"onced/api/config"
	"onced/api/problem"
	"onced/kv"
	"onced/kv/claim"
	"onced/saga"
	"onced/saga/idemhttp"
)

// Config is what the proxy works with. Claims and Principal are required.
type Config struct {
	// Claims keeps the keys.
	Claims *claim.Book
	// Routes are the routes as config.Load gave them out.
	Routes []config.Route
	// Principal says whose token a request carries, for routes with principal
	// token. Its error is answered by problem.From.
	Principal func(*http.Request) (string, error)
	// MaxBody is the largest body of a request, in bytes, for routes that do not
	// say; 0 means idemhttp.DefaultMaxBody.
	MaxBody int64
	// BodyTime is how long the body of a guarded request may take to arrive; 0 is
	// no limit.
	BodyTime time.Duration
	// ClientIP is the address to forward; nil means that of the connection.
	ClientIP func(*http.Request) netip.Addr
	// Trusted says whether the peer is a proxy whose X-Forwarded-Proto and
	// X-Forwarded-Host are believed; nil trusts nobody.
	Trusted func(*http.Request) bool
	// OnRoute is told the name of the route that a request has, for logs; nil is
	// nobody. It is called by the goroutine that serves the request.
	OnRoute func(ctx context.Context, name string)
	// Limit bounds the guarded requests under way, of all routes together; nil is no
	// limit. Give a Proxy that of the Proxy that it replaces.
	Limit *idemhttp.Limit
	// Unsaved remembers outcomes that could not be stored, by the route's name and
	// the key. Give a Proxy the one of the Proxy that it replaces: without it their
	// keys stay taken until the next start. Nil forgets with the Proxy.
	Unsaved *saga.Unsaved
	// Observer is told of guarded requests that were sent on, for metrics; nil is
	// nobody.
	Observer Observer
	// Tracer makes spans of what becomes of a key; nil makes none. See saga.Trace.
	Tracer saga.Tracer
	// TraceSend begins a span of each request to an upstream: it returns the request
	// to send, and is told the status, or the error, when the answer begins. Nil
	// makes none, and a traceparent goes on as it came.
	TraceSend func(*http.Request) (*http.Request, func(status int, err error))
	// Clock measures how long upstreams take; nil means the system's clock.
	Clock kv.Clock
	// Logger is told what no client is; nil is silent.
	Logger *slog.Logger
	// TLS are settings for upstreams with https; nil means Go's own.
	TLS *tls.Config
}

// Observer is told what became of requests at upstreams. It is quick and safe for
// concurrent use.
type Observer interface {
	// UpstreamDone reports one guarded request that was sent on, or could not be.
	// Route is its route's name; outcome is that of saga.Outcome, or
	// OutcomeCredentials.
	UpstreamDone(route, outcome string, took time.Duration)
	// GuardedRefused reports one guarded request for which there was no room.
	GuardedRefused(route string)
}

// Proxy serves the routes. It is safe for concurrent use.
type Proxy struct {
	cfg    Config
	routes []*route // those that say more come first
	send   *guarded
	others *passing
}

// New returns the proxy of cfg's routes. It has no effect until it serves.
func New(cfg Config) (*Proxy, error) {
	if cfg.Claims == nil || cfg.Principal == nil {
		return nil, errors.New("proxy: Config needs Claims and Principal")
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = idemhttp.DefaultMaxBody
	}
	if cfg.ClientIP == nil {
		cfg.ClientIP = peer
	}
	if cfg.Trusted == nil {
		cfg.Trusted = func(*http.Request) bool { return false }
	}
	if cfg.OnRoute == nil {
		cfg.OnRoute = func(context.Context, string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = kv.SystemClock()
	}
	p := &Proxy{cfg: cfg, send: newGuarded(cfg.TLS, cfg.TraceSend),
		others: newPassing(cfg.TLS, cfg.TraceSend)}
	for i := range cfg.Routes {
		r, err := p.newRoute(cfg.Routes[i])
		if err != nil {
			return nil, fmt.Errorf("proxy: routes[%d]: %w", i, err)
		}
		p.routes = append(p.routes, r)
	}
	slices.SortStableFunc(p.routes, func(a, b *route) int { return a.pattern.Compare(b.pattern) })
	return p, nil
}

// Close closes idle connections. Requests under way go on.
func (p *Proxy) Close() {
	p.send.base.Close()
	p.others.base.CloseIdleConnections()
}

// peer is the address of the connection; the zero Addr when it has none.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, err := p.routeOf(r)
	if err == nil {
		p.cfg.OnRoute(r.Context(), rt.name)
		err = rt.admit(w, r)
	}
	var principal string
	if err == nil {
		principal, err = rt.principalOf(r)
	}
	if err != nil {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // nobody will read the body
		}
		if pr := problem.From(err); pr.Code == problem.Internal {
			p.cfg.Logger.ErrorContext(r.Context(), "a request was not admitted", "route", rt.name, "error",
				err)
		}
		problem.Write(w, r, problem.From(err))
		return
	}
	rt.serve(w, r, principal)
}

// routeOf finds the route of a request, or a problem.
func (p *Proxy) routeOf(r *http.Request) (*route, error) {
	if r.Method == http.MethodConnect { // it may have no path
		return nil, problem.New(problem.MethodNotAllowed, "this is no proxy for CONNECT")
	}
	path, err := plainPath(r.URL)
	if err != nil {
		return nil, problem.New(problem.BadPath, err.Error())
	}
	rt := p.match(path)
	for _, alias := range aliases(path) {
		if other := p.match(alias); other != nil && other != rt {
			return nil, problem.New(problem.BadPath, "the path could be taken for one of another route; "+
				"leave out the slash at its end, and parameters behind a semicolon")
		}
	}
	if rt == nil {
		return nil, problem.New(problem.NotFound, "no route has this path")
	}
	return rt, nil
}

func (p *Proxy) match(path string) *route {
	for _, rt := range p.routes {
		if rt.pattern.Match(path) {
			return rt
		}
	}
	return nil
}

// writeProblem gives problems of idemhttp, and ours, the form of the API.
func writeProblem(w http.ResponseWriter, r *http.Request, p *idemhttp.Problem) {
	out := problem.New(problem.Code(p.Code), p.Detail)
	if _, known := problem.Lookup(problem.Code(p.Code)); !known {
		full, title := p.Full()
		out = &problem.Problem{Type: problem.PathPrefix + string(p.Code), Title: title, Status: full.Status,
			Code: problem.Code(p.Code), Detail: p.Detail}
	}
	if p.Status != 0 {
		out.Status = p.Status
	}
	if p.Code == idemhttp.CodeOutcomeUnknown && p.RetryAfter == 0 {
		out.RetryAfter = 0
	}
	problem.Write(w, r, out.At(p.Param).After(p.RetryAfter))
}

// isUpgrade reports that the client wants another protocol.
func isUpgrade(h http.Header) (protocol string, ok bool) {
	for _, list := range h["Connection"] {
		for token := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.Trim(token, " \t"), "upgrade") {
				return strings.Join(h["Upgrade"], ","), true
			}
		}
	}
	return strings.Join(h["Upgrade"], ","), len(h["Upgrade"]) > 0
}
