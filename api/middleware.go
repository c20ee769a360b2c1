package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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

// exchange is what the access log learns on the way.
type exchange struct {
	route string
	who   auth.Identity
}

type exchangeKey struct{}

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

// withRequestID is step 1 of the order of things.
func (s *Server) withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id string
		if given := r.Header.Values("Request-Id"); len(given) == 1 && isRequestID(given[0]) {
			id = given[0]
		} else if made, err := kv.NewID("rq", s.clock.Now(), s.rand); err == nil {
			id = made
		} else {
			id = "rq_none" // a request is worth more than its id
		}
		w.Header().Set("Request-Id", id)
		ctx := context.WithValue(problem.WithRequestID(r.Context(), id), exchangeKey{}, &exchange{})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
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

// withLog is step 2.
func (s *Server) withLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.clock.Now()
		rec := &recorder{ResponseWriter: w}
		ended := func(Done) {}
		if s.deps.Trace != nil {
			var ctx context.Context
			ctx, ended = s.deps.Trace(r)
			r = r.WithContext(ctx)
		}
		defer func() { ended(s.logged(rec, r, s.clock.Now().Sub(start))) }()
		next.ServeHTTP(rec, r)
	})
}

func (s *Server) logged(rec *recorder, r *http.Request, took time.Duration) Done {
	x := exchangeOf(r.Context())
	method := r.Method
	if !knownMethod(method) {
		method = "other"
	}
	if x.route == "" {
		x.route = "none"
	}
	level := slog.LevelInfo
	if x.route == "/livez" || x.route == "/readyz" {
		level = slog.LevelDebug
	}
	ctx := context.WithoutCancel(r.Context())
	s.log.LogAttrs(ctx, level, "request", slog.String("request_id", problem.RequestID(ctx)),
		slog.String("method", method), slog.String("route", x.route), slog.Int("status", rec.status),
		slog.Int64("bytes", rec.bytes), slog.Bool("replayed", rec.Header().Get(replayedHeader) == "true"),
		slog.Int64("took_ms", took.Milliseconds()),
		slog.String("remote", s.deps.ClientIP(r).String()), slog.String("token_id", x.who.TokenID))
	done := Done{Method: method, Route: x.route, Status: rec.status, Bytes: rec.bytes, Took: took}
	if s.deps.Observer != nil {
		s.deps.Observer.RequestDone(done)
	}
	return done
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

// withRecovery is step 3. A handler that means to cut the connection, by
// http.ErrAbortHandler, gets its way.
func (s *Server) withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			// The value may hold what came in the request; its type and the stack do not.
			s.log.ErrorContext(r.Context(), "panic", "request_id", problem.RequestID(r.Context()),
				"route", exchangeOf(r.Context()).route, "type", fmt.Sprintf("%T", p),
				"stack", string(debug.Stack()))
			if rec, ok := w.(*recorder); ok && rec.status != 0 {
				panic(http.ErrAbortHandler) // what was begun must not look whole
			}
			s.abandonBody(w)
			problem.Write(w, r, problem.New(problem.Internal, ""))
		}()
		next.ServeHTTP(w, r)
	})
}

// secure is step 5 for the API's own answers. The fallback's are not touched.
func (s *Server) secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; "+
			"frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if strings.HasPrefix(r.URL.Path, "/v1") {
			h.Set("Vary", "Authorization")
		}
		next.ServeHTTP(w, r)
	})
}
