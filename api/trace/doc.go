// Package trace shows requests, claims, and calls of upstreams and of the steps of
// sagas as spans of OpenTelemetry. It is the only one that knows OpenTelemetry:
// others declare the few methods that they call.
//
// # When it is on
//
// Tracing is off unless OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. All settings have the standard names:
//
//	OTEL_SDK_DISABLED=true, OTEL_TRACES_EXPORTER=none          off
//	OTEL_EXPORTER_OTLP_[TRACES_]ENDPOINT                       where the collector is
//	OTEL_EXPORTER_OTLP_[TRACES_]PROTOCOL                       http/protobuf, the one there is
//	OTEL_EXPORTER_OTLP_[TRACES_]HEADERS                        name=value,name=value
//	OTEL_EXPORTER_OTLP_[TRACES_]TIMEOUT                        of a batch, ms, default 10000
//	OTEL_EXPORTER_OTLP_[TRACES_]COMPRESSION                    gzip or none
//	OTEL_EXPORTER_OTLP_[TRACES_]CERTIFICATE,
//	  …CLIENT_CERTIFICATE, …CLIENT_KEY                         files in PEM
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES                onced by default
//	OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG               parentbased_always_on by default
//	OTEL_BSP_…, OTEL_SPAN_…                                    limits of the queue and of spans
//
// # What is guaranteed
//
//   - A collector that is slow, broken or away never slows a request: ended spans
//     wait in a bounded queue (2048), and are dropped when it is full.
//   - [Tracer.Shutdown] sends what waits and returns within its context's end and
//     at most [FlushTime]. Then no goroutine of this package is left.
//   - A traceparent that came with a request is the parent of its span, and goes on
//     to the upstream with the span of the call in it. When tracing is off nothing is
//     touched: what came goes on as it came.
//   - A run of a saga outlives a trace: each try of a step, an undo or a look-up is a
//     trace of its own, linked to the request that started the run.
//   - Spans hold methods, patterns of routes, statuses, names of operations, of
//     definitions and their steps, decisions and kinds of errors, of closed sets. They
//     hold no path, query, key, body, amount, token, address of a client, or text of
//     an error.
//
// # What is not
//
// Traces are for people. They are sampled and dropped; nothing is decided by them.
// Whoever sends a traceparent decides whether its request is sampled, unless
// OTEL_TRACES_SAMPLER says otherwise. Spans that had not been sent are lost in a crash.
//
// # The exporter
//
// The spans are sent by a small exporter of our own that speaks OTLP over HTTP in
// protobuf. OpenTelemetry's own one was measured: it pulls in gRPC, its gateway and
// Google's API messages, and makes a stripped program with the SDK 5.2 MB larger
// (15.0 MB instead of 9.8 MB), for the few requests that this package makes.
//
// # What the caller must do
//
// Call [New] once, plug the [Tracer] in, and call [Tracer.Shutdown] after the last
// request has ended. A nil *Tracer is one that is off.
package trace
