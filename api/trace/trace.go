package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"onced/api"
)

const (
	// FlushTime is how long a shutdown may take.
	FlushTime = 2 * time.Second
	// LinkKey is the attribute that names, as a traceparent, an earlier span that
	// the new one goes on with. It becomes a link.
	LinkKey = "link.traceparent"

	// maxValue bounds the text of an attribute unless OTEL_SPAN_… says otherwise.
	maxValue = 256
)

// Config are the settings that are not in the environment.
type Config struct {
	// Version is the program's.
	Version string
	// Logger is told of spans that could not be sent, seldom; nil is silent.
	Logger *slog.Logger
	// Exporter gets the spans instead of a collector, and turns tracing on
	// whatever the environment says; it is for tests.
	Exporter sdk.SpanExporter
}

// Tracer makes spans. A nil one is off. It is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	exporter *exporter // nil in tests
	context  propagation.TraceContext
}

// New returns the tracer that the environment asks for, nil when it asks for
// none. An error names the variable that is wrong. It does not call the collector.
func New(cfg Config) (*Tracer, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tracer{}
	out := cfg.Exporter
	if out == nil {
		s, err := settingsFrom(os.Getenv)
		if err != nil || s == nil {
			return nil, err
		}
		t.exporter = newExporter(s, cfg.Logger)
		out = t.exporter
	}
	res, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "onced"),
			attribute.String("service.version", cfg.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("trace: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	limits := sdk.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxValue
	}
	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(out), sdk.WithResource(res),
		sdk.WithRawSpanLimits(limits))
	t.tracer = t.provider.Tracer("onced", trace.WithInstrumentationVersion(cfg.Version))
	return t, nil
}

// Shutdown sends what waits, within the context and [FlushTime], and lets go of
// the rest. Later spans are dropped.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, FlushTime)
	defer cancel()
	if t.exporter != nil {
		stop := context.AfterFunc(ctx, t.exporter.abort)
		defer stop()
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		if t.exporter != nil { // stop may come before what it stops has begun
			t.exporter.abort()
		}
		return fmt.Errorf("trace: the last spans could not be sent: %w", err)
	}
	return nil
}

// Start begins a span under that of ctx. Attributes are of closed sets, and are
// shown as onced.<key>; see [LinkKey]. The span ends with end, which is called
// once; of its error only the kind is shown.
func (t *Tracer) Start(
	ctx context.Context, name string, attrs ...slog.Attr,
) (_ context.Context, end func(err error, attrs ...slog.Attr)) {
	if t == nil {
		return ctx, func(error, ...slog.Attr) {}
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal)}
	here := trace.SpanContextFromContext(ctx).TraceID()
	for _, a := range attrs {
		if a.Key != LinkKey {
			continue
		}
		if sc := parse(a.Value.String()); sc.IsValid() && sc.TraceID() != here {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: sc}))
		}
	}
	ctx, span := t.tracer.Start(ctx, name, opts...)
	span.SetAttributes(own(attrs)...)
	return ctx, func(err error, attrs ...slog.Attr) {
		span.SetAttributes(own(attrs)...)
		fail(span, err)
		span.End()
	}
}

// own turns attributes into ours.
func own(attrs []slog.Attr) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		if a.Key == LinkKey {
			continue
		}
		key := attribute.Key("onced." + a.Key)
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64:
			out = append(out, key.Int64(v.Int64()))
		case slog.KindBool:
			out = append(out, key.Bool(v.Bool()))
		default:
			out = append(out, key.String(v.String()))
		}
	}
	return out
}

// fail marks a span as failed. The text of an error may hold what came from a
// request or an upstream; its kind may not.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	span.SetAttributes(attribute.String("error.type", errorType(err)))
	span.SetStatus(codes.Error, "")
}

// Traceparent is the span of ctx in the form of W3C, or empty.
func (t *Tracer) Traceparent(ctx context.Context) string {
	if t == nil {
		return ""
	}
	c := propagation.MapCarrier{}
	t.context.Inject(ctx, c)
	return c.Get("traceparent")
}

func parse(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}

// quiet are paths that are asked all the time and say nothing.
var quiet = map[string]bool{"/livez": true, "/readyz": true, "/metrics": true}

// Request begins the span of a request that came in. The span ends with end. It
// fits api.Deps.Trace.
func (t *Tracer) Request(r *http.Request) (_ context.Context, end func(api.Done)) {
	if t == nil || quiet[r.URL.Path] {
		return r.Context(), func(api.Done) {}
	}
	ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	server := trace.WithSpanKind(trace.SpanKindServer)
	ctx, span := t.tracer.Start(ctx, "HTTP", server) //nolint:spancheck // the caller ends it
	return ctx, func(d api.Done) {                   //nolint:spancheck // the caller ends it
		method, name := d.Method, d.Method
		if method == "other" {
			method, name = "_OTHER", "HTTP"
		}
		attrs := []attribute.KeyValue{attribute.String("http.request.method", method)}
		if d.Route != "" && d.Route != "none" {
			name += " " + d.Route
			attrs = append(attrs, attribute.String("http.route", d.Route))
		}
		span.SetName(name)
		span.SetAttributes(attrs...)
		switch {
		case d.Status == 0:
			span.SetAttributes(attribute.String("error.type", "cut"))
			span.SetStatus(codes.Error, "")
		case d.Status >= http.StatusInternalServerError:
			status(span, d.Status, true)
		default:
			status(span, d.Status, false)
		}
		span.End()
	}
}

func status(span trace.Span, code int, failed bool) {
	span.SetAttributes(attribute.Int("http.response.status_code", code))
	if failed {
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(code)))
		span.SetStatus(codes.Error, "")
	}
}

// Send begins the span of a request to an upstream and returns the request to
// send, which carries its traceparent; r is not changed. The span ends with end,
// which is told the status, or the error, when the answer begins. It fits
// proxy.Config.TraceSend.
func (t *Tracer) Send(r *http.Request) (_ *http.Request, end func(code int, err error)) {
	if t == nil {
		return r, func(int, error) {}
	}
	method, name := r.Method, r.Method
	if !known[method] {
		method, name = "_OTHER", "HTTP"
	}
	ctx, span := t.tracer.Start(r.Context(), name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("http.request.method", method),
			attribute.String("server.address", r.URL.Hostname())))
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		span.SetAttributes(attribute.Int("server.port", port))
	}
	r = r.Clone(ctx)
	r.Header.Del("Tracestate") // that of another span, when this one has none
	t.context.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return r, func(code int, err error) {
		if err != nil {
			fail(span, err)
		} else {
			status(span, code, code >= http.StatusBadRequest)
		}
		span.End()
	}
}

var known = map[string]bool{http.MethodGet: true, http.MethodHead: true, http.MethodPost: true,
	http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true, http.MethodOptions: true,
	http.MethodConnect: true, http.MethodTrace: true}
