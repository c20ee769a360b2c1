package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/kv"
	"onced/kv/claim"
)

// Defaults of [Deps].
const (
	// DefaultMaxBody is the largest body of a request, in bytes.
	DefaultMaxBody = 256 << 10
	// DefaultMaxResultBody is the largest body of a request that carries a
	// result, in bytes: a result of 8 MiB in base64, and a little.
	DefaultMaxResultBody = 12 << 20
	// DefaultBodyTime is how long a body may take to arrive.
	DefaultBodyTime = 30 * time.Second
	// DefaultRequestTime is how long a request may take in all.
	DefaultRequestTime = 60 * time.Second
	// MaxWait is the longest that a request may ask to wait for a claim.
	MaxWait = 10 * time.Second
)

// Deps are what the server works with. Book and Auth are required.
type Deps struct {
	// Book holds the claims.
	Book *claim.Book
	// Auth holds the tokens.
	Auth *auth.Service
	// Sagas serves definitions, runs and callbacks; nil means that they are not there.
	Sagas *Sagas
	// Readiness answers /readyz; nil is always ready.
	Readiness Readiness
	// Metrics serves /metrics to tokens with metrics:read; nil means 404.
	Metrics http.Handler
	// Fallback gets every request that is not the API's, raw; nil means 404.
	Fallback http.Handler
	// Logger takes the access log and the causes of internal errors; nil is silent.
	Logger *slog.Logger
	// Observer is told of every request; nil means nobody.
	Observer Observer
	// Trace begins a span for a request and returns its context and how the span
	// ends; nil means that there are no spans.
	Trace func(*http.Request) (context.Context, func(Done))
	// Clock measures how long requests take; nil means the system's clock.
	Clock kv.Clock
	// Rand makes request ids and seals cursors; nil means crypto/rand.Reader.
	Rand io.Reader
	// CursorKey is the secret under which cursors are sealed, of [CursorKey]; nil
	// makes one that is forgotten with the Server.
	CursorKey []byte
	// ClientIP tells the address of the peer, whose failures are counted; nil
	// means the address of the connection. Set it only to read a header that a
	// trusted proxy sets.
	ClientIP func(*http.Request) netip.Addr
	// MaxBody and MaxResultBody are limits of bodies in bytes; 0 is the default.
	MaxBody, MaxResultBody int64
	// BodyTime and RequestTime are limits of time; 0 is the default.
	BodyTime, RequestTime time.Duration
}

// Readiness says whether the process can do its work.
type Readiness interface {
	// Ready returns what was looked at. The process is ready when all are OK.
	// The texts are public: they hold no secret.
	Ready(ctx context.Context) []Condition
}

// Condition is one thing that readiness depends on.
type Condition struct {
	Name   string `json:"name"`             // for example "store"
	OK     bool   `json:"ok"`               // whether it is as it should be
	Reason string `json:"reason,omitempty"` // why not, for people
}

// Observer is told of requests, for metrics. It is quick and safe for
// concurrent use.
type Observer interface {
	// RequestDone reports one request after its answer. Method and Route are of
	// closed sets.
	RequestDone(r Done)
}

// Done describes a request that has been answered.
type Done struct {
	Method string        // an HTTP method, or "other"
	Route  string        // the pattern of the route, as in the OpenAPI document, or a name such as "proxy"
	Status int           // what was answered; 0 when the connection was cut before
	Bytes  int64         // of the body of the answer
	Took   time.Duration // from the first byte of the headers to the end of the answer
}

// Server is the handler of all requests. It is safe for concurrent use.
type Server struct {
	deps    Deps
	sagas   *Sagas // nil when there are none
	log     *slog.Logger
	clock   kv.Clock
	wall    kv.Clock // for deadlines of connections, which know the system's time only
	rand    io.Reader
	cursors *cursors
	router  http.Handler
}

// New returns the server. It fails only on Deps without Book or Auth, with a
// key that is none, or with Sagas without an Engine.
func New(d Deps) (*Server, error) {
	if d.Book == nil || d.Auth == nil {
		return nil, errors.New("api: Deps needs Book and Auth")
	}
	s := &Server{deps: withDefaults(d), wall: kv.SystemClock()}
	s.log, s.clock, s.rand = s.deps.Logger, s.deps.Clock, s.deps.Rand
	var err error
	if s.cursors, err = newCursors(s.deps.CursorKey, s.rand); err != nil {
		return nil, err
	}
	if s.sagas, err = s.withSagas(s.deps.Sagas); err != nil {
		return nil, err
	}
	s.router = s.newRouter()
	return s, nil
}

// withSagas completes what the caller has given.
func (s *Server) withSagas(given *Sagas) (*Sagas, error) {
	if given == nil {
		return nil, nil
	}
	if given.Engine == nil {
		return nil, errors.New("api: Sagas needs an Engine")
	}
	out := *given
	if out.Callbacks == nil {
		key := make([]byte, cursorKeySize)
		if _, err := io.ReadFull(s.rand, key); err != nil {
			return nil, fmt.Errorf("api: make the key of callbacks: %w", err)
		}
		out.Callbacks = &Callbacks{key: key, base: "http://127.0.0.1:8080"}
	}
	return &out, nil
}

func withDefaults(d Deps) Deps {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Clock == nil {
		d.Clock = kv.SystemClock()
	}
	if d.Rand == nil {
		d.Rand = rand.Reader
	}
	if d.ClientIP == nil {
		d.ClientIP = peer
	}
	if d.MaxBody <= 0 {
		d.MaxBody = DefaultMaxBody
	}
	if d.MaxResultBody <= 0 {
		d.MaxResultBody = DefaultMaxResultBody
	}
	if d.BodyTime <= 0 {
		d.BodyTime = DefaultBodyTime
	}
	if d.RequestTime <= 0 {
		d.RequestTime = DefaultRequestTime
	}
	return d
}

// peer is the address of the connection; the zero Addr when it has none.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}

// newRouter builds the routes of the API.
func (s *Server) newRouter() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Logger.SetOutput(io.Discard) // what it would say is answered and logged by handleError
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = s.handleError
	for _, r := range s.routes() {
		h := s.endpoint(r)
		path := echoPath(r.Path)
		e.Add(r.Method, path, h)
		if r.Method == http.MethodGet {
			e.Add(http.MethodHead, path, h)
		}
	}
	return e
}

// echoPath turns /v1/claims/{id} into /v1/claims/:id.
func echoPath(p string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(p)
}
