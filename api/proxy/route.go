package proxy

import (
	"context"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"onced/api/config"
	"onced/api/problem"
	"onced/kv/claim"
	"onced/saga"
	"onced/saga/idemhttp"
)

// token is the value of principal that stands for the client's token.
const token = "token"

// route serves one route.
type route struct {
	config.Route

	name    string
	pattern config.Pattern
	proxy   *Proxy
	fresh   bool // each guarded request has a connection of its own
	pass    *httputil.ReverseProxy
	guarded *idemhttp.Handler // nil when keys are ignored
	maxBody int64
	keep    int      // how much of an answer is held and kept
	methods []string // that are admitted
}

func (p *Proxy) newRoute(c config.Route) (*route, error) {
	rt := &route{Route: c, name: c.Name, pattern: c.Pattern(), proxy: p,
		fresh: c.Check == nil && !c.Repeatable, maxBody: int64(c.MaxBody)}
	if rt.maxBody == 0 {
		rt.maxBody = p.cfg.MaxBody
	}
	rt.keep = min(int(c.MaxResponse), p.cfg.Claims.Machine().MaxResult-idemhttp.MaxHead)
	rt.pass, rt.methods = rt.newPass(), slices.Clone(c.Methods)
	if c.Others == "pass" {
		rt.methods = append(rt.methods, http.MethodGet, http.MethodHead, http.MethodOptions)
	}
	if c.Key == "ignore" {
		return rt, nil
	}
	h, err := idemhttp.New(p.cfg.Claims, rt.settings(), rt.observed)
	if err != nil {
		return nil, err
	}
	rt.guarded = h
	return rt, nil
}

// settings are those of the guarded part.
func (rt *route) settings() idemhttp.Config {
	cfg := idemhttp.Config{
		Operation:    rt.name,
		Principal:    idemhttp.OnePrincipal, // serve says whose it is
		Scope:        claim.RouteScopeOf,
		KeyHeader:    rt.KeyHeader,
		Methods:      rt.Methods,
		KeyOptional:  rt.Key == "optional",
		MaxBody:      rt.maxBody,
		BodyTime:     rt.proxy.cfg.BodyTime,
		MaxResponse:  rt.keep,
		Limit:        rt.proxy.cfg.Limit,
		OnBusy:       rt.busy,
		Classify:     rt.classify,
		SettlesAfter: rt.SettlesAfter,
		Timeout:      rt.Timeout,
		Wait:         rt.Wait,
		Pass:         http.HandlerFunc(rt.passThrough),
		WriteProblem: writeProblem,
		Logger:       rt.proxy.cfg.Logger.With("route", rt.name),
		Tracer:       rt.proxy.cfg.Tracer,
		Unsaved:      rt.proxy.cfg.Unsaved,
	}
	if rt.Wait == 0 {
		cfg.Wait = idemhttp.NoWait
	}
	if rt.Repeatable {
		cfg.KeyValidFor = rt.KeyValidFor
	}
	if rt.Check != nil {
		cfg.Check, cfg.Timeout = rt.lookUp, max(rt.Timeout, rt.Check.Timeout)
	}
	return cfg
}

// serve serves an admitted request of a principal.
func (rt *route) serve(w http.ResponseWriter, r *http.Request, principal string) {
	if rt.guarded == nil {
		rt.passThrough(w, r)
		return
	}
	rt.guarded.ServeFor(w, r, principal)
}

// ClaimID names the claim of a key that a principal has sent to a route, for
// claim.Book.Resolve.
func ClaimID(principal, route, key string) claim.ID {
	return claim.ID{Scope: claim.RouteScopeOf(principal, route), Key: key}
}

// admit refuses what would go round the guard. Methods are refused unless they
// are known: an upstream may take "post" for POST, or charge at a method that
// nobody has thought of; and one that answers TRACE shows the client the secrets
// that the route has put into its request.
func (rt *route) admit(w http.ResponseWriter, r *http.Request) error {
	if !slices.Contains(rt.methods, r.Method) {
		w.Header()["Allow"] = slices.Clone(rt.methods)
		return problem.New(problem.MethodNotAllowed, "this route takes other methods, in these letters: "+
			strings.Join(rt.methods, ", "))
	}
	if protocol, ok := isUpgrade(r.Header); ok {
		switch {
		case rt.Key != "ignore":
			return problem.New(problem.BadRequest, "a route with keys passes on no upgrade: "+
				"what goes through a tunnel cannot be guarded").At("Upgrade")
		case protocol != "websocket":
			return problem.New(problem.BadRequest, "no other upgrade than websocket is passed "+
				"on").At("Upgrade")
		}
	}
	if rt.Key == "ignore" || slices.Contains(rt.Methods, r.Method) {
		return nil
	}
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if len(r.Header.Values(name)) > 0 {
			return problem.New(problem.BadRequest, "a method that needs no key must not stand for another "+
				"one; "+
				"send the method itself").At(name)
		}
	}
	return nil
}

// principalOf says whose request it is.
func (rt *route) principalOf(r *http.Request) (string, error) {
	if rt.Principal != token {
		return rt.Principal, nil
	}
	return rt.proxy.cfg.Principal(r)
}

// classify says what an answer of the upstream means.
func (rt *route) classify(r *idemhttp.Response) saga.Outcome {
	switch o := rt.Outcomes; {
	case o.Done.Has(r.Status):
		return saga.OutcomeDone
	case o.Refused.Has(r.Status):
		return saga.OutcomeRefused
	case o.Retry.Has(r.Status):
		return saga.OutcomeRetry
	}
	return saga.OutcomeUnknown
}

// busy is told of a request for which there was no room.
func (rt *route) busy(*http.Request) {
	if o := rt.proxy.cfg.Observer; o != nil {
		o.GuardedRefused(rt.name)
	}
}

// detached is a context with the values of ctx and a limit of its own, which
// nobody else's end ends.
func (rt *route) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), rt.Timeout)
}
