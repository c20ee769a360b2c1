package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"onced/api/auth"
	"onced/api/problem"
	"onced/kv"
	"onced/saga/idemhttp"
)

// maxRequestID is the longest request id that is taken from a request.
const maxRequestID = 64

// exchange is one request on its way: its context, the writer of its answer, and what
// the access log learns. All of it is one piece of memory.
type exchange struct {
	problem.Context // the server's, with the id of the request

	answer recorder
	start  time.Time
	route  string
	who    auth.Identity
	remote netip.Addr // of the client, once it was asked for
	id     [1]string  // the value of the answer's header
}

type exchangeKey struct{}

// Value implements [context.Context].
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Context.Value(key)
}

// exchangeOf never returns nil: outside our chain it is a spare one.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// SetRoute tells the access log and the observer what a request of the fallback
// was about, for example the name of a configured route. Names are of a closed
// set. It is called by the goroutine that serves the request.
func SetRoute(ctx context.Context, name string) { exchangeOf(ctx).route = name }

// SetCaller tells the access log whom a request comes from. It is called by the
// goroutine that serves the request.
func SetCaller(ctx context.Context, who auth.Identity) { exchangeOf(ctx).who = who }

// from asks for the address of the client, once for all who want to know it.
func (x *exchange) from(r *http.Request, ip func(*http.Request) netip.Addr) netip.Addr {
	if !x.remote.IsValid() {
		x.remote = ip(r)
	}
	return x.remote
}

// ServeHTTP implements [http.Handler]. It is steps 1 to 4 of the order of things.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := s.begin(w, r)
	var ctx context.Context = x
	var ended func(Done)
	if s.deps.Trace != nil {
		ctx, ended = s.deps.Trace(r.WithContext(x))
	}
	r = r.WithContext(ctx)
	defer s.end(x, r, ended)
	defer s.recovered(x, r)
	s.guard(&x.answer, r)
}

// begin is step 1.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{answer: recorder{ResponseWriter: w}, start: s.clock.Now()}
	if given := r.Header["Request-Id"]; len(given) == 1 && isRequestID(given[0]) {
		x.ID = given[0]
	} else if made, err := kv.NewID("rq", x.start, s.rand); err == nil {
		x.ID = made
	} else {
		x.ID = "rq_none" // a request is worth more than its id
	}
	x.Context.Context, x.id[0] = r.Context(), x.ID //nolint:fatcontext // the first that x has
	w.Header()["Request-Id"] = x.id[:]
	return x
}

// isRequestID accepts what can harm no log, header or page.
func isRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// end is step 2. ended, if not nil, ends the span of the request.
func (s *Server) end(x *exchange, r *http.Request, ended func(Done)) {
	now := s.clock.Now()
	done := Done{Method: r.Method, Route: x.route, Status: x.answer.status, Bytes: x.answer.bytes,
		Took: now.Sub(x.start)}
	if !knownMethod(done.Method) {
		done.Method = "other"
	}
	if done.Route == "" {
		done.Route = "none"
	}
	s.logged(x, r, now, done)
	if s.deps.Observer != nil {
		s.deps.Observer.RequestDone(done)
	}
	if ended != nil {
		ended(done)
	}
}

// logged writes the line of a request. It asks the handler itself: a Logger would look
// where in the program it is called, at each request, which no line of ours shows.
func (s *Server) logged(x *exchange, r *http.Request, now time.Time, done Done) {
	level := slog.LevelInfo
	if done.Route == "/livez" || done.Route == "/readyz" {
		level = slog.LevelDebug
	}
	ctx, h := r.Context(), s.log.Handler()
	if !h.Enabled(ctx, level) {
		return
	}
	replayed := x.answer.Header()[replayedHeader]
	here := now.Local() //nolint:gosmopolitan // as a Logger, which is asked for all other lines
	line := slog.NewRecord(here, level, "request", 0)
	line.AddAttrs(slog.String("request_id", x.ID), slog.String("method", done.Method),
		slog.String("route", done.Route), slog.Int("status", done.Status), slog.Int64("bytes", done.Bytes),
		slog.Bool("replayed", len(replayed) > 0 && replayed[0] == "true"),
		slog.Int64("took_ms", done.Took.Milliseconds()),
		slog.String("remote", x.from(r, s.deps.ClientIP).String()), slog.String("token_id", x.who.TokenID))
	_ = h.Handle(ctx, line) // there is nowhere to tell it
}

// replayedHeader marks an answer that was stored, of the API and of routes.
const replayedHeader = idemhttp.ReplayedHeader

func knownMethod(m string) bool {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return true
	}
	return false
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int // 0 until the final header
	bytes  int64
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader notes the first final status; informational ones come before it.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes how much was written.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// FlushError begins the answer, with status 200 if none was set.
func (r *recorder) FlushError() error {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Flush is FlushError for callers that know only [http.Flusher].
func (r *recorder) Flush() { _ = r.FlushError() }

// Hijack notes that the connection changes its protocol.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.status == 0 {
		r.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// recovered is step 3. A handler that means to cut the connection, by
// http.ErrAbortHandler, gets its way.
func (s *Server) recovered(x *exchange, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	// The value may hold what came in the request; its type and the stack do not.
	s.log.ErrorContext(r.Context(), "panic", "request_id", x.ID, "route", x.route,
		"type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	if x.answer.status != 0 {
		panic(http.ErrAbortHandler) // what was begun must not look whole
	}
	s.abandonBody(&x.answer)
	problem.Write(&x.answer, r, problem.New(problem.Internal, ""))
}

// The values of the headers of our own answers. Whoever sets another one, or adds one,
// makes a new list.
var (
	noSniff    = []string{"nosniff"}
	noContent  = []string{"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
	noReferrer = []string{"no-referrer"}
	sameOrigin = []string{"same-origin"}
	noStore    = []string{"no-store"}
	byCaller   = []string{"Authorization"}
)

// secure is step 5 for the API's own answers. The fallback's are not touched.
func secure(h http.Header, path string) {
	h["X-Content-Type-Options"] = noSniff
	h["Content-Security-Policy"] = noContent
	h["Referrer-Policy"] = noReferrer
	h["Cross-Origin-Resource-Policy"] = sameOrigin
	h["Cache-Control"] = noStore
	if strings.HasPrefix(path, "/v1") {
		h["Vary"] = byCaller
	}
}
