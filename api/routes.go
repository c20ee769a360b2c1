package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/api/openapi"
	"onced/api/problem"
)

// Route is one operation of the API.
type Route struct {
	Method string // GET stands for HEAD too
	Path   string // as in the OpenAPI document
}

// route is a Route with what it needs.
type route struct {
	Route
	// may lists permissions of which one is enough; none means that no token is
	// needed.
	may []auth.Permission
	// query lists the parameters; nil, as of health checks, lets all pass.
	query []string
	// large allows the body of a result.
	large  bool
	handle echo.HandlerFunc
}

// Routes lists the operations of the API.
func (s *Server) Routes() []Route {
	var out []Route
	for _, r := range s.routes() {
		out = append(out, r.Route)
	}
	return out
}

// seeClaims is enough for reading claims, each its own part.
var seeClaims = []auth.Permission{auth.ClaimsOwn, auth.ClaimsRead}

func (s *Server) routes() []route {
	get := func(path string, h echo.HandlerFunc) route {
		return route{Route: Route{http.MethodGet, path}, handle: h}
	}
	v1 := func(method, path string, h echo.HandlerFunc, may ...auth.Permission) route {
		return route{Route: Route{method, path}, may: may, query: []string{}, handle: h}
	}
	with := func(r route, query ...string) route { r.query = query; return r }
	large := func(r route) route { r.large = true; return r }
	const get1, post = http.MethodGet, http.MethodPost

	out := []route{
		get("/livez", s.livez),
		get("/readyz", s.readyz),
		get("/openapi.yaml", s.openapi),
		get("/problems", s.problems),
		get("/problems/{code}", s.problems),

		v1(post, "/v1/claims", s.claim, auth.ClaimsOwn),
		with(v1(get1, "/v1/claims", s.listClaims, seeClaims...),
			"state", "operation", "principal", "limit", "cursor"),
		with(v1(get1, "/v1/claims/{id}", s.getClaim, seeClaims...), "wait_s"),
		v1(post, "/v1/claims/{id}/heartbeat", s.heartbeat, auth.ClaimsOwn),
		large(v1(post, "/v1/claims/{id}/done", s.done, auth.ClaimsOwn)),
		large(v1(post, "/v1/claims/{id}/refused", s.refused, auth.ClaimsOwn)),
		v1(post, "/v1/claims/{id}/release", s.release, auth.ClaimsOwn),
		v1(post, "/v1/claims/{id}/unknown", s.unknown, auth.ClaimsOwn),
		large(v1(post, "/v1/claims/{id}/looked_up", s.lookedUp, auth.ClaimsOwn)),
		v1(post, "/v1/claims/{id}/repeat", s.repeat, auth.ClaimsOwn),
		large(v1(post, "/v1/claims/{id}/resolve", s.resolve, auth.ClaimsResolve)),

		v1(post, "/v1/tokens", s.createToken, auth.TokensManage),
		with(v1(get1, "/v1/tokens", s.listTokens, auth.TokensManage), "limit", "cursor"),
		v1(get1, "/v1/tokens/{id}", s.getToken, auth.TokensManage),
		v1(post, "/v1/tokens/{id}/rotate", s.rotateToken, auth.TokensManage),
		v1(post, "/v1/tokens/{id}/revoke", s.revokeToken, auth.TokensManage),
	}
	if s.sagas != nil {
		out = append(out, s.sagaRoutes()...)
	}
	if s.deps.Metrics != nil {
		m := get("/metrics", echo.WrapHandler(s.deps.Metrics))
		m.may = []auth.Permission{auth.MetricsRead}
		out = append(out, m)
	}
	return out
}

// seeRuns is enough for reading runs, each its own part.
var seeRuns = []auth.Permission{auth.RunsOwn, auth.RunsRead}

// sagaRoutes are the operations of definitions, runs and callbacks.
func (s *Server) sagaRoutes() []route {
	v1 := func(method, path string, h echo.HandlerFunc, may ...auth.Permission) route {
		return route{Route: Route{method, path}, may: may, query: []string{}, handle: h}
	}
	with := func(r route, query ...string) route { r.query = query; return r }
	const get, post = http.MethodGet, http.MethodPost
	out := []route{
		with(v1(post, "/v1/definitions", s.putDefinition, auth.DefinitionsManage), "dry_run"),
		with(v1(get, "/v1/definitions", s.listDefinitions, auth.DefinitionsRead), "limit", "cursor"),
		v1(get, "/v1/definitions/{name}", s.getDefinition, auth.DefinitionsRead),
		v1(get, "/v1/definitions/{name}/versions", s.listVersions, auth.DefinitionsRead),
		v1(get, "/v1/definitions/{name}/versions/{version}", s.getDefinition, auth.DefinitionsRead),

		v1(post, "/v1/runs", s.startRun, auth.RunsOwn),
		with(v1(get, "/v1/runs", s.listRuns, seeRuns...), "state", "definition", "principal", "key",
			"label", "since", "until", "contradicted", "limit", "cursor"),
		v1(get, "/v1/runs/{id}", s.getRun, seeRuns...),
		v1(post, "/v1/runs/{id}/signals/{step}", s.signal, auth.RunsOwn, auth.RunsOperate),
		v1(post, "/v1/runs/bulk", s.bulk, auth.RunsOperate),
		v1(post, "/v1/runs/{id}/rerun", s.rerun, auth.RunsOperate),
		v1(post, "/v1/callbacks/{token}", s.callback),
	}
	for _, verb := range verbs {
		out = append(out, v1(post, "/v1/runs/{id}/"+verb.String(), s.operate(verb), auth.RunsOperate))
	}
	return out
}

// endpoint puts the token, the query and the limit of time before a handler.
func (s *Server) endpoint(rt route) echo.HandlerFunc {
	limit := s.deps.MaxBody
	if rt.large {
		limit = s.deps.MaxResultBody
	}
	return func(c echo.Context) error {
		r := c.Request()
		exchangeOf(r.Context()).route = rt.Path
		if rt.Method == http.MethodGet && r.ContentLength != 0 {
			s.abandonBody(c.Response())
		}
		ctx := r.Context()
		if len(rt.may) > 0 {
			if _, err := s.authorize(r, rt.may); err != nil {
				return err
			}
		}
		if err := checkQuery(r, rt.query); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, s.deps.RequestTime)
		defer cancel()
		r = r.WithContext(ctx)
		if r.Body != nil {
			r.Body = &body{ReadCloser: http.MaxBytesReader(c.Response(), r.Body, limit), limit: limit}
		}
		c.SetRequest(r)
		return rt.handle(c)
	}
}

// authorize says who a request comes from, if that one may.
func (s *Server) authorize(r *http.Request, may []auth.Permission) (auth.Identity, error) {
	return Authorize(r, s.deps.Auth, s.deps.ClientIP, may...)
}

// Authorize says who a request comes from, if that one has one of the
// permissions. ip is the address of the client, and asked once for each request. The
// errors are problems, 401, 403 and 429, and those of the store.
func Authorize(
	r *http.Request, tokens *auth.Service, ip func(*http.Request) netip.Addr, may ...auth.Permission,
) (auth.Identity, error) {
	x := exchangeOf(r.Context())
	who, err := tokens.Identify(r, x.from(r, ip))
	if err != nil {
		return who, unauthorized(err)
	}
	x.who = who
	if !slices.ContainsFunc(may, who.Can) {
		return who, problem.New(problem.Forbidden,
			"the role "+string(who.Role)+" lacks the permission "+string(may[0]))
	}
	return who, nil
}

// unauthorized is the problem of a token that was not accepted.
func unauthorized(err error) error {
	if blocked, ok := errors.AsType[*auth.BlockedError](err); ok {
		return problem.New(problem.TooManyRequests, "").After(blocked.RetryAfter)
	}
	if errors.Is(err, auth.ErrRefused) {
		return problem.New(problem.Unauthorized, "")
	}
	return err
}

// caller is who the request comes from; the endpoint has made sure.
func caller(c echo.Context) auth.Identity {
	return exchangeOf(c.Request().Context()).who
}

// checkQuery refuses what a handler would not look at.
func checkQuery(r *http.Request, known []string) error {
	if known == nil || r.URL.RawQuery == "" {
		return nil
	}
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return problem.New(problem.UnknownField, "the parameter is not one of this operation; "+
				"a token goes into the header Authorization").At(cutText(name))
		}
		if len(values) > 1 {
			return invalidField(name, "the parameter is given more than once")
		}
	}
	return nil
}

func (s *Server) openapi(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openapi.Document())
}

func (s *Server) problems(c echo.Context) error {
	problem.Page(c.Response(), c.Request())
	return nil
}

func (s *Server) livez(c echo.Context) error {
	return s.json(c, http.StatusOK, health{Status: "ok"})
}

// health is the answer of /livez and /readyz.
type health struct {
	Status     string      `json:"status"`
	Conditions []Condition `json:"conditions,omitempty"`
}

func (s *Server) readyz(c echo.Context) error {
	out, status := health{Status: "ready"}, http.StatusOK
	if s.deps.Readiness != nil {
		out.Conditions = s.deps.Readiness.Ready(c.Request().Context())
	}
	for _, cond := range out.Conditions {
		if !cond.OK {
			out.Status, status = "not_ready", http.StatusServiceUnavailable
		}
	}
	return s.json(c, status, out)
}
