package saga

import (
	"context"
	"encoding/json"
	"log/slog"

	"onced/kv/claim"
)

// Tracer makes spans. It is declared here so that nobody who uses this package
// pulls in a library for tracing. Its methods are quick and safe for concurrent
// use.
type Tracer interface {
	// Start begins a span under the one in ctx and returns a context with it. It
	// ends with end, called once. Names and attributes are of small sets and hold
	// no key, no argument and no result; the attribute "link.traceparent" names an
	// earlier span that this one goes on with. Of an error only the type may be shown.
	Start(ctx context.Context, name string, attrs ...slog.Attr) (
		_ context.Context, end func(err error, attrs ...slog.Attr))
	// Traceparent is the span of ctx in the form of the W3C, or empty.
	Traceparent(ctx context.Context) string
}

// Trace makes spans of what a call does: "claim begin" and "claim finish" for the
// claim, "perform" for the function, "look up" for [Check]. The traceparent of the
// call goes into the intent, when that is a JSON object, so that a later try of the
// same key is linked to it. A nil t makes none.
func Trace(t Tracer) Option {
	return Option{func(s *settings) { s.tracer = t }}
}

// span begins a span if there is a tracer.
func (c *call[A, R]) span(
	ctx context.Context, name string,
) (_ context.Context, end func(err error, attrs ...slog.Attr)) {
	if c.set.tracer == nil {
		return ctx, noSpan
	}
	attrs := []slog.Attr{slog.String("operation", c.name)}
	if c.earlier != "" {
		attrs = append(attrs, slog.String("link.traceparent", c.earlier))
	}
	return c.set.tracer.Start(ctx, name, attrs...)
}

// noSpan ends what is no span.
func noSpan(error, ...slog.Attr) {}

// decisionOf is the attribute for a decision, none when there is none or nobody to
// see it.
func (c *call[A, R]) decisionOf(d claim.Decision) []slog.Attr {
	if d.Kind == 0 || c.set.tracer == nil {
		return nil
	}
	return []slog.Attr{slog.String("decision", d.Kind.String())}
}

// endEffect ends the span of a run. A mark is an answer and no failure.
func endEffect(end func(error, ...slog.Attr), err error) {
	outcome := OutcomeOf(err)
	if outcome != OutcomeUnknown {
		err = nil
	}
	end(err, slog.String("outcome", outcome.String()))
}

// noteTrace puts the traceparent of ctx into the intent, if there is room.
func (c *call[A, R]) noteTrace(ctx context.Context) {
	if c.set.tracer == nil {
		return
	}
	parent := c.set.tracer.Traceparent(ctx)
	if parent == "" {
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(c.req.Intent, &fields) != nil || fields == nil || fields["traceparent"] != nil {
		return
	}
	value, err := json.Marshal(parent)
	if err != nil { // a text
		return
	}
	fields["traceparent"] = value
	if noted, err := json.Marshal(fields); err == nil && len(noted) <= claim.MaxIntent {
		c.req.Intent = noted
	}
}

// traceOf reads what noteTrace wrote.
func traceOf(intent []byte) string {
	var noted struct {
		Traceparent string `json:"traceparent"`
	}
	if json.Unmarshal(intent, &noted) != nil {
		return ""
	}
	return noted.Traceparent
}
