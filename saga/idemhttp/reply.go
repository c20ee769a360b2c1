package idemhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"onced/kv"
	"onced/kv/claim"
	"onced/saga"
)

// reply is what became of a guarded request.
type reply struct {
	x   *Exchange
	res saga.Result[*stored]
	err error
}

// reply sends the answer of a request.
func (h *Handler) reply(w http.ResponseWriter, r *http.Request, a reply) {
	if aborted(a.err) {
		panic(http.ErrAbortHandler)
	}
	if _, ok := errors.AsType[*saga.UnknownError](a.err); ok {
		w.Header().Set(OutcomeHeader, "unknown")
	}
	resp, p := h.answer(r, a)
	if p != nil {
		if p.Code == CodeRefused {
			w.Header().Set(ReplayedHeader, "true")
		}
		h.cfg.WriteProblem(w, r, p)
		return
	}
	if resp != a.x.answer && a.x.shared == nil {
		a.x.replayed[0] = "true"
		w.Header()[ReplayedHeader] = a.x.replayed[:]
	}
	if resp.Omitted {
		h.cfg.WriteProblem(w, r, omitted(w, resp))
		return
	}
	resp.send(w, r, &a.x.size)
}

// answer is the response to send, or a problem.
func (h *Handler) answer(r *http.Request, a reply) (*Response, *Problem) {
	if a.x.shared != nil {
		return a.x.shared.answer()
	}
	own := a.x.answer          // of this call, or nil
	switch e := a.err.(type) { //nolint:errorlint // what Do returns itself; these may hold each other
	case nil:
		if own != nil && !a.res.LookedUp {
			return own, nil
		}
		return h.fromStore(r, a.res.Value)
	case *saga.RefusedError:
		return h.refusal(a, e)
	case *saga.NotDoneError:
		if own != nil {
			return own, nil
		}
		return nil, h.failure(r, e.Err)
	case *saga.UnknownError:
		return h.unknown(r, a, e)
	case *saga.ResultError:
		if own != nil && a.x.performed {
			return own, nil
		}
		return h.unreadable(r, a.err)
	}
	return nil, h.otherError(r, a.err)
}

// fromStore is a response out of the store.
func (h *Handler) fromStore(r *http.Request, s *stored) (*Response, *Problem) {
	resp, err := s.response()
	if err != nil {
		return h.unreadable(r, err)
	}
	return resp, nil
}

func (h *Handler) unreadable(r *http.Request, err error) (*Response, *Problem) {
	h.cfg.Logger.ErrorContext(r.Context(), "a stored response cannot be read", "error", err)
	return &Response{Status: http.StatusOK, Omitted: true, Size: -1}, nil
}

// refusal is the response of a refusal, now or earlier.
func (h *Handler) refusal(a reply, e *saga.RefusedError) (*Response, *Problem) {
	switch {
	case a.x.answer != nil && !a.res.Replayed && !a.res.LookedUp:
		return a.x.answer, nil
	case e.Answer.Type == TypeResponse:
		if resp, err := decode(e.Answer.Data); err == nil {
			return resp, nil
		}
	case e.Answer.Type != "" && len(e.Answer.Data) > 0: // a person's, without a status
		resp := foreignResponse(e.Answer.Type, e.Answer.Data)
		resp.Status = http.StatusUnprocessableEntity
		return resp, nil
	}
	return nil, &Problem{Code: CodeRefused, Detail: "a person has found out that this did not happen, and " +
		"decided that it shall not"}
}

// logUnknown warns once for each try that ended so. Whoever only asks for a key that
// is unknown already has changed nothing; the claims are listed for that. What a
// handler panics with may be of the request: the log has its type only.
func (h *Handler) logUnknown(r *http.Request, a reply, e *saga.UnknownError) {
	ctx, log := r.Context(), h.cfg.Logger.With("operation", e.Operation, "downstream_key", e.DownstreamKey)
	p, panicked := errors.AsType[*saga.PanicError](e.Err)
	switch {
	case panicked && a.x.performed:
		log.ErrorContext(ctx, "a handler panicked; the outcome of the request is unknown",
			"type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack))
	case a.x.performed || e.Since.IsZero():
		log.WarnContext(ctx, "the outcome of a request is unknown", "reason", e.Reason, "held", e.Held,
			"error", e.Err)
	default:
		log.DebugContext(ctx, "the outcome of an earlier request is unknown", "reason", e.Reason,
			"held", e.Held)
	}
}

// unknown answers the caller whose own request ended so with what the callee
// said, which is the truth as far as it goes. Everybody else, and everybody for
// whom the callee's words prove nothing, hears that it is not known.
func (h *Handler) unknown(r *http.Request, a reply, e *saga.UnknownError) (*Response, *Problem) {
	h.logUnknown(r, a, e)
	if e.Since.IsZero() { // the store could not say
		return nil, &Problem{Code: CodeCommitUnknown, RetryAfter: e.RetryAfter,
			Detail: "what became of the request could not be stored; send it again with the same key"}
	}
	if a.x.performed && saga.OutcomeOf(e.Err) == saga.OutcomeUnknown {
		if a.x.answer != nil {
			return a.x.answer, nil
		}
		if p, ok := errors.AsType[*Problem](e.Err); ok {
			return nil, p
		}
		if _, ok := errors.AsType[*saga.PanicError](e.Err); ok {
			return nil, &Problem{Code: CodeInternal, Detail: "it is not known whether the request had its " +
				"effect; " +
				"retry it with the same key only"}
		}
	}
	detail := "the request may have had its effect"
	if e.Reason != "" {
		detail += " (" + e.Reason + ")"
	}
	if e.Held {
		detail += "; a person has to find out and resolve the claim; do not use another key"
	} else {
		detail += "; send the same request with the same key again to settle it; do not use another key"
	}
	return nil, &Problem{Code: CodeOutcomeUnknown, Detail: detail, RetryAfter: e.RetryAfter}
}

// failure answers a perform that failed before it had an effect.
func (h *Handler) failure(r *http.Request, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	attrs := []any{"error", err}
	if p, ok := errors.AsType[*saga.PanicError](err); ok { // its text is the value
		attrs = []any{"type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack)}
	}
	h.cfg.Logger.ErrorContext(r.Context(), "a handler failed before its effect", attrs...)
	return &Problem{Code: CodeInternal, Detail: "nothing was done; the same key can be used again"}
}

// otherError answers what came before the effect.
func (h *Handler) otherError(r *http.Request, err error) *Problem {
	var (
		inFlight *saga.InFlightError
		mismatch *saga.MismatchError
		invalid  *claim.InvalidError
	)
	switch {
	case errors.As(err, &inFlight):
		return &Problem{Code: CodeInFlight, RetryAfter: inFlight.RetryAfter,
			Detail: "wait for Retry-After, then send the same request with the same key"}
	case errors.As(err, &mismatch):
		return &Problem{Code: CodeMismatch, Param: h.cfg.KeyHeader,
			Detail: "the key was first used with another " +
				"method, path, query, content type or body; is this the same order? then send the same " +
				"request; another order needs another key"}
	case errors.As(err, &invalid) && invalid.Field == "key":
		return badKey(h.cfg.KeyHeader, invalid.Problem+"; "+invalid.Remedy)
	case errors.Is(err, kv.ErrNoSpace):
		return &Problem{Code: CodeStoreFull, Detail: "nothing was done"}
	case errors.Is(err, kv.ErrCommitUnknown):
		return &Problem{Code: CodeCommitUnknown, Detail: "nothing was done; send the same request with the " +
			"same key"}
	case errors.Is(err, kv.ErrStopped):
		return &Problem{Code: CodeStoreStopped, Detail: "nothing was done"}
	case errors.Is(err, kv.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err,
		context.DeadlineExceeded):
		return &Problem{Code: CodeUnavailable, Detail: "nothing was done by this request"}
	}
	h.cfg.Logger.ErrorContext(r.Context(), "a key could not be claimed", "error", err)
	return &Problem{Code: CodeInternal, Detail: "nothing was done by this request"}
}

// omitted keeps the status of a response whose body is gone: a status of failure
// would be read as leave to pay again. Its headers are sent as far as they do not
// describe the body.
func omitted(w http.ResponseWriter, resp *Response) *Problem {
	h := w.Header()
	for name, values := range eachHeader(resp.lines) {
		switch name {
		case "Content-Type", "Content-Encoding", "Content-Language", "Content-Range", "Content-Disposition",
			"Etag", "Last-Modified", "Accept-Ranges", "Digest", "Content-Digest", "Repr-Digest",
			"Retry-After":
		default:
			h[name] = values
		}
	}
	size := ""
	if resp.Size >= 0 {
		size = fmt.Sprintf(" of %d bytes", resp.Size)
	}
	return &Problem{Code: CodeResultTooLarge, Status: resp.Status,
		Detail: "the request was answered with this status; the body" + size + " was too large to keep. " +
			"Do not send it with another key; ask for the details where they are"}
}
