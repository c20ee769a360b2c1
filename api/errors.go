package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/api/problem"
)

// handleError answers whatever a handler, or Echo itself, returned.
func (s *Server) handleError(err error, c echo.Context) {
	r := c.Request()
	if c.Response().Committed {
		s.log.ErrorContext(r.Context(), "an answer broke off", "request_id", problem.RequestID(r.Context()),
			"route", exchangeOf(r.Context()).route, "error", err)
		panic(http.ErrAbortHandler) // what was begun must not look whole
	}
	p := problemOf(err)
	if p.Code == problem.Internal {
		s.log.ErrorContext(r.Context(), "internal error", "request_id", problem.RequestID(r.Context()),
			"route", exchangeOf(r.Context()).route, "error", err)
	}
	if b, ok := r.Body.(*body); r.ContentLength != 0 && (!ok || !b.ended) {
		s.abandonBody(c.Response())
	}
	problem.Write(c.Response(), r, p)
}

// problemOf translates the errors that api knows beyond [problem.From].
func problemOf(err error) *problem.Problem {
	var he *echo.HTTPError
	var field *auth.FieldError
	switch {
	case errors.As(err, &he):
		return fromEcho(he.Code)
	case errors.As(err, &field):
		return problem.New(problem.InvalidField, field.Field+" "+field.Problem+"; "+field.Remedy).
			At(memberOf(field.Field))
	case errors.Is(err, auth.ErrNotFound):
		return problem.New(problem.NotFound, "there is no token of this id")
	case errors.Is(err, auth.ErrNameTaken):
		return problem.New(problem.NameTaken, "").At("name")
	case errors.Is(err, auth.ErrStale):
		return problem.New(problem.Stale, "").At("If-Match")
	case errors.Is(err, auth.ErrNotLive):
		return problem.New(problem.WrongState, "the token is revoked or expired; create a new one")
	case errors.Is(err, auth.ErrTooMany):
		return problem.New(problem.LimitExceeded, auth.ErrTooMany.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return problem.New(problem.Unavailable, "the request took too long; nothing is known of what it did")
	}
	if p := sagaProblem(err); p != nil {
		return p
	}
	p := problem.From(err)
	if p.Param != "" {
		named := *p
		named.Param = memberOf(p.Param)
		return &named
	}
	return p
}

// invalidField is the problem of a value that is not allowed.
func invalidField(param, detail string) error {
	return problem.New(problem.InvalidField, detail).At(param)
}

func fromEcho(status int) *problem.Problem {
	switch status {
	case http.StatusNotFound:
		return problem.New(problem.NotFound, "no route has this path")
	case http.StatusMethodNotAllowed:
		return problem.New(problem.MethodNotAllowed, "")
	}
	return problem.New(problem.Internal, "")
}

// memberOf is the name that a field of a lower package has in our JSON.
func memberOf(field string) string {
	switch field {
	case "lease", "settles_after", "key_valid_for", "overlap", "expires_in":
		return field + "_s"
	case "result type":
		return "content_type"
	case "scope":
		return "operation"
	}
	return field
}
