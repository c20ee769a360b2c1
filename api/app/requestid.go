package app

import (
	"context"
	"log/slog"

	"onced/api/problem"
)

// requestIDs adds the id of the request to whatever is logged for one, so that
// the packages below need not know that there is such a thing.
type requestIDs struct {
	slog.Handler

	has bool // an attribute of With is the id
}

const requestIDKey = "request_id"

// Handle implements [slog.Handler].
func (h requestIDs) Handle(ctx context.Context, r slog.Record) error {
	id := problem.RequestID(ctx)
	if id == "" || h.has {
		return h.Handler.Handle(ctx, r)
	}
	has := false
	r.Attrs(func(a slog.Attr) bool {
		has = a.Key == requestIDKey
		return !has
	})
	if !has {
		r = r.Clone()
		r.AddAttrs(slog.String(requestIDKey, id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h requestIDs) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.has = h.has || a.Key == requestIDKey
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements [slog.Handler].
func (h requestIDs) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
