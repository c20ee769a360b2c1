package idemhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"onced/kv/claim"
	"onced/saga"
)

// Perform causes the effect of a request and returns the response. An error has
// the meaning that saga.OutcomeOf gives it: a connection that was never made is
// saga.NotDone, everything else is unknown. Mark a [Problem] to choose the
// answer. The context has the downstream key and the time limit, and outlives
// the client.
type Perform func(context.Context, *Exchange) (*Response, error)

// Handler answers requests once per key. It is safe for concurrent use. Make one
// per operation and process.
type Handler struct {
	cfg     Config
	perform Perform
	op      *saga.Operation[*Exchange, *stored]
	flights *flights

	deadlines *sync.Pool
}

// New returns a handler that calls perform once per key. Its error is a
// saga.ConfigError. Without Config.Pass, what passes through is answered 404.
func New(claims *claim.Book, cfg Config, perform Perform) (*Handler, error) {
	h := &Handler{cfg: cfg.withDefaults(), perform: perform, flights: &flights{},
		deadlines: newDeadlines()}
	if h.cfg.Pass == nil {
		h.cfg.Pass = http.NotFoundHandler()
	}
	field, problem := h.cfg.problem(claims)
	if perform == nil {
		field, problem = "perform", "is nil"
	}
	if problem != "" {
		return nil, &saga.ConfigError{Operation: cfg.Operation, Field: field, Problem: problem}
	}
	op, err := saga.NewOperation(claims, cfg.Operation, h.effect, h.cfg.options()...)
	if err != nil {
		return nil, err
	}
	h.op = op
	return h, nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, h.cfg.Principal)
}

// ServeFor is ServeHTTP for a caller that knows whose request it is; then
// Config.Principal is not asked.
func (h *Handler) ServeFor(w http.ResponseWriter, r *http.Request, principal string) {
	h.serve(w, r, func(*http.Request) string { return principal })
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, principal func(*http.Request) string) {
	x, p := h.admit(w, r)
	if p == nil && x == nil {
		h.cfg.Pass.ServeHTTP(w, r)
		return
	}
	if p == nil {
		x.Principal = principal(r)
	}
	if p == nil {
		p = h.enter(w, r, x)
		defer func() { x.room.leave() }()
	}
	if p == nil {
		var gone bool
		if p, gone = h.read(w, r, x); gone {
			panic(http.ErrAbortHandler)
		}
	}
	if p != nil {
		h.cfg.WriteProblem(w, r, p)
		return
	}
	res, err := h.do(r.Context(), x)
	defer x.answer.close()
	if res.Value != nil {
		x.room.grow(int64(len(res.Value.data)), true)
	}
	h.reply(w, r, reply{x: x, res: res, err: err})
}

// ID returns the claim of a key, for claim.Book.Get and claim.Book.Resolve.
func (h *Handler) ID(principal, key string) claim.ID {
	return h.op.ID(&Exchange{Principal: principal, Key: key})
}

// effect is the function of the operation.
func (h *Handler) effect(ctx context.Context, x *Exchange) (*stored, error) {
	if err := x.instead(); err != nil {
		return nil, err
	}
	x.performed = true
	x.answer.close() // of an earlier try in the same call
	x.answer = nil
	resp, err := x.perform(ctx, x)
	if err != nil {
		if n, ok := errors.AsType[*nothingDone](err); ok {
			x.answer = n.resp
		}
		if p, ok := errors.AsType[*Problem](err); ok && saga.OutcomeOf(err) == saga.OutcomeRetry {
			x.offer(nil, p)
		}
		return nil, err
	}
	x.answer = resp
	x.room.grow(int64(len(resp.Body)), true)
	kept := resp.kept(h.cfg.MaxResponse, h.cfg.DropHeaders)
	switch h.cfg.Classify(resp) {
	case saga.OutcomeDone:
		return &stored{resp: kept}, nil
	case saga.OutcomeRefused:
		data, err := encode(kept)
		if err != nil {
			return nil, err
		}
		return nil, saga.Refused(&saga.RefusedError{Message: (&statusError{resp.Status}).Error(),
			Answer: claim.Result{Type: TypeResponse, Data: data}})
	case saga.OutcomeRetry:
		x.offer(kept, nil)
		return nil, saga.RetryAfter(retryAfter(resp.Header), &statusError{resp.Status})
	default:
		return nil, &statusError{resp.Status}
	}
}

// Refusal is the error of a Config.Check that found a definite refusal: r is
// stored and replayed.
func Refusal(r *Response) error {
	res, err := ResultOf(r)
	if err != nil {
		return err
	}
	return saga.Refused(&saga.RefusedError{Message: (&statusError{r.Status}).Error(), Answer: res})
}

// statusError is a response that is no result.
type statusError struct{ status int }

// Error names the status.
func (e *statusError) Error() string { return fmt.Sprintf("the answer was %d", e.status) }

// Reason is the text for operators; it holds no secret.
func (e *statusError) Reason() string { return e.Error() }

// retryAfter reads the seconds of the header; a date is not worth a clock.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// aborted reports that the handler wanted the connection cut.
func aborted(err error) bool {
	unknown, ok := errors.AsType[*saga.UnknownError](err)
	if !ok {
		return false
	}
	p, ok := errors.AsType[*saga.PanicError](unknown.Err)
	return ok && p.Value == http.ErrAbortHandler //nolint:errorlint // as net/http compares it
}
