package idemhttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"onced/kv/claim"
	"onced/saga"
)

// Defaults of [Config].
const (
	// DefaultKeyHeader is the header of the key.
	DefaultKeyHeader = "Idempotency-Key"
	// DefaultMaxBody is the largest body of a request, in bytes.
	DefaultMaxBody = 1 << 20
	// DefaultMaxResponse is the largest body of a response that is kept, in bytes.
	DefaultMaxResponse = 4 << 20
)

// NoWait is a Config.Wait that answers 409 at once.
const NoWait time.Duration = -1

// Config are the settings. Operation and Principal are required; the zero value
// of everything else is its default.
type Config struct {
	// Operation is the stable name of what the handler does. It is stored.
	Operation string
	// Principal says whose key it is. It is believed, and is never empty for a
	// caller that is known. Use [OnePrincipal] where there is one caller only.
	Principal func(*http.Request) string
	// Scope says how the two make the scope of the keys; nil means claim.ScopeOf.
	Scope func(principal, operation string) string

	// KeyHeader is the header of the key; "" means DefaultKeyHeader.
	KeyHeader string
	// Methods need a key; nil means POST and PATCH. They are in capitals, and never
	// GET, HEAD, OPTIONS, TRACE or CONNECT: those are sent again by every client and
	// transport that pleases, so no key can guard them. A request whose method
	// differs from one of these only in its case is answered 405.
	Methods []string
	// KeyOptional lets a request of Methods without a key pass through unguarded
	// instead of refusing it with 400.
	KeyOptional bool
	// RefuseOthers answers 405 to methods that are not in Methods.
	RefuseOthers bool
	// FingerprintHeaders are compared under one key besides method, path, query
	// and body; nil means Content-Type and Content-Encoding.
	FingerprintHeaders []string
	// MaxBody is the largest body of a request in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// BodyTime is how long the body of a guarded request may take to arrive; 0 is
	// no limit, for servers that have one of their own.
	BodyTime time.Duration
	// MaxResponse is the largest body of a response that is kept, in bytes; 0 means
	// DefaultMaxResponse. It has to fit into the claims' MaxResult.
	MaxResponse int
	// Limit bounds the guarded requests under way; nil is no limit. OnBusy is told of
	// each request that it refused; nil is nobody.
	Limit  *Limit
	OnBusy func(*http.Request)
	// DropHeaders are not stored, besides those the package comment names.
	DropHeaders []string

	// Classify says what a response means; nil means [ClassOf] its status.
	Classify func(*Response) saga.Outcome
	// Check finds out what became of a request; see saga.Check.
	Check func(context.Context, *Exchange, saga.Doubt) (*Response, bool, error)
	// KeyValidFor, if not 0, says that the callee honours the downstream key for so
	// long; see saga.Repeatable.
	KeyValidFor time.Duration
	// SettlesAfter is when a look-up that finds nothing is proof; 0 means
	// saga.DefaultSettlesAfter.
	SettlesAfter time.Duration
	// Timeout bounds the handler through its context, and Check; 0 means
	// saga.DefaultTimeout.
	Timeout time.Duration
	// Wait is how long a request waits for another one with its key; 0 means
	// saga.DefaultWait, [NoWait] not at all.
	Wait time.Duration

	// Pass serves what passes through. [Middleware] sets it to the handler.
	Pass http.Handler
	// WriteProblem writes a problem; nil writes RFC 9457 problem details.
	WriteProblem func(http.ResponseWriter, *http.Request, *Problem)
	// Unsaved remembers outcomes that could not be stored; nil is one of the
	// handler's own. Give it to handlers that replace each other; see saga.Remember.
	Unsaved *saga.Unsaved
	// Tracer makes spans of what a request does; nil makes none. See saga.Trace.
	Tracer saga.Tracer
	// Logger is told of panics, outcomes that became unknown and errors that no
	// client is shown; nil is silent.
	Logger *slog.Logger
}

// OnePrincipal is a Config.Principal for services with one caller.
func OnePrincipal(*http.Request) string { return "" }

func (c Config) withDefaults() Config {
	if c.KeyHeader == "" {
		c.KeyHeader = DefaultKeyHeader
	}
	c.KeyHeader = http.CanonicalHeaderKey(c.KeyHeader)
	if c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if c.FingerprintHeaders == nil {
		c.FingerprintHeaders = []string{"Content-Type", "Content-Encoding"}
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.Classify == nil {
		c.Classify = func(r *Response) saga.Outcome { return ClassOf(r.Status) }
	}
	if c.WriteProblem == nil {
		c.WriteProblem = WriteProblem
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// problem reports the first field that is wrong and that saga does not check.
func (c *Config) problem(claims *claim.Book) (field, problem string) {
	switch {
	case claims == nil:
		return "claims", "is nil: use claim.New"
	case c.Principal == nil:
		return "Principal", "is missing: say whose keys they are, or use OnePrincipal"
	case len(c.Methods) == 0 || slices.Contains(c.Methods, ""):
		return "Methods", "is empty: name at least one, or leave it nil"
	case slices.ContainsFunc(c.Methods, unguarded):
		return "Methods", fmt.Sprintf("has %q: name methods in capitals, and none of GET, HEAD, OPTIONS, "+
			"TRACE and CONNECT, which are sent again by whoever pleases",
			c.Methods[slices.IndexFunc(c.Methods, unguarded)])
	case c.MaxBody < 0:
		return "MaxBody", fmt.Sprintf("must not be negative, it is %d", c.MaxBody)
	case c.BodyTime < 0:
		return "BodyTime", fmt.Sprintf("must not be negative, it is %v", c.BodyTime)
	case c.Limit != nil && (c.Limit.maxRequests < 1 || c.Limit.maxBytes < c.MaxBody+ResponseRoom):
		return "Limit", fmt.Sprintf("is %d requests and %d bytes; no request with a body of MaxBody, %d, "+
			"and %d for its response would ever be taken: raise it", c.Limit.maxRequests, c.Limit.maxBytes,
			c.MaxBody, ResponseRoom)
	case c.MaxResponse < 0:
		return "MaxResponse", fmt.Sprintf("must not be negative, it is %d", c.MaxResponse)
	case c.MaxResponse+MaxHead > claims.Machine().MaxResult:
		return "MaxResponse", fmt.Sprintf("is %d; with %d for its headers that is more than the claims' "+
			"MaxResult of %d: raise that, or use less", c.MaxResponse, MaxHead, claims.Machine().MaxResult)
	case c.Wait < 0 && c.Wait != NoWait:
		return "Wait", fmt.Sprintf("must not be negative, it is %v; NoWait does not wait", c.Wait)
	}
	return "", ""
}

// unguarded reports a method that no key can guard.
func unguarded(method string) bool {
	return safe(method) || method == http.MethodConnect || method != strings.ToUpper(method)
}

// options are the settings that the operation has.
func (c *Config) options() []saga.Option {
	opts := []saga.Option{
		saga.Key(func(x *Exchange) string { return x.Key }),
		saga.Principal(func(x *Exchange) string { return x.Principal }),
		saga.Fingerprint(func(x *Exchange) []byte { return x.fingerprint[:] }),
		saga.Intent(intentOf),
		saga.ResultType(TypeResponse),
		saga.Codec((*stored).encode, storedFrom),
		saga.OldResult(foreignResult),
	}
	if c.Scope != nil {
		opts = append(opts, saga.Scope(c.Scope))
	}
	if c.Unsaved != nil {
		opts = append(opts, saga.Remember(c.Unsaved))
	}
	if c.Tracer != nil {
		opts = append(opts, saga.Trace(c.Tracer))
	}
	if c.Check != nil {
		opts = append(opts, saga.Check(checkOf(c.Check)))
	}
	if c.KeyValidFor != 0 {
		opts = append(opts, saga.Repeatable(c.KeyValidFor))
	}
	if c.SettlesAfter != 0 {
		opts = append(opts, saga.SettlesAfter(c.SettlesAfter))
	}
	if c.Timeout != 0 {
		opts = append(opts, saga.Timeout(c.Timeout))
	}
	if c.Wait != 0 {
		opts = append(opts, saga.Wait(max(c.Wait, 0)))
	}
	return opts
}

// checkOf is a look-up as the operation takes it.
func checkOf(
	check func(context.Context, *Exchange, saga.Doubt) (*Response, bool, error),
) func(context.Context, *Exchange, saga.Doubt) (*stored, bool, error) {
	return func(ctx context.Context, x *Exchange, d saga.Doubt) (*stored, bool, error) {
		resp, found, err := check(ctx, x, d)
		return &stored{resp: resp}, found, err
	}
}

// ClassOf is what a status means when nothing else is said: 2xx is done; 400, 402
// to 405, 410, 411, 413 to 415, 422, 431 and 451 are refused; 401, 407, 409, 425
// and 429 are not done, and may be asked for again; the rest is unknown: 408 and
// 5xx, and 3xx too, for a redirect may say that it happened or that it has to be
// sent elsewhere. A handler that answers 303 when it is done says so in
// Config.Classify.
func ClassOf(status int) saga.Outcome {
	switch status {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusGone, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge,
		http.StatusUnavailableForLegalReasons:
		return saga.OutcomeRefused
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusConflict,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return saga.OutcomeRetry
	}
	if status >= 200 && status < 300 {
		return saga.OutcomeDone
	}
	return saga.OutcomeUnknown
}
