package trace

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Bits of a span's flags that say that the next one is known.
const (
	hasIsRemote = 0x100
	isRemote    = 0x200
)

// message is a batch as it is sent: TracesData has the same bytes as the request
// of the protocol. All spans are of one provider and one tracer.
func message(spans []sdk.ReadOnlySpan) *tracepb.TracesData {
	first := spans[0]
	scope := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{
		Name: first.InstrumentationScope().Name, Version: first.InstrumentationScope().Version}}
	for _, s := range spans {
		scope.Spans = append(scope.Spans, spanOf(s))
	}
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: attributes(first.Resource().Attributes())},
		ScopeSpans: []*tracepb.ScopeSpans{scope},
	}}}
}

func spanOf(s sdk.ReadOnlySpan) *tracepb.Span {
	sc, parent := s.SpanContext(), s.Parent()
	tid, sid := sc.TraceID(), sc.SpanID()
	out := &tracepb.Span{
		TraceId: tid[:], SpanId: sid[:], TraceState: sc.TraceState().String(),
		Flags: flags(sc, parent.IsRemote()),
		Name:  s.Name(), Kind: kind(s.SpanKind()),
		StartTimeUnixNano: nano(s.StartTime()), EndTimeUnixNano: nano(s.EndTime()),
		Attributes:             attributes(s.Attributes()),
		DroppedAttributesCount: uint32(s.DroppedAttributes()),
		DroppedEventsCount:     uint32(s.DroppedEvents()),
		DroppedLinksCount:      uint32(s.DroppedLinks()),
		Status:                 statusOf(s.Status()),
	}
	if parent.SpanID().IsValid() {
		id := parent.SpanID()
		out.ParentSpanId = id[:]
	}
	for _, l := range s.Links() {
		tid, sid := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: tid[:], SpanId: sid[:],
			TraceState: l.SpanContext.TraceState().String(), Attributes: attributes(l.Attributes),
			Flags: flags(l.SpanContext, l.SpanContext.IsRemote())})
	}
	return out // we make no events
}

func flags(sc trace.SpanContext, remote bool) uint32 {
	f := uint32(sc.TraceFlags()) | hasIsRemote
	if remote {
		f |= isRemote
	}
	return f
}

func nano(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

func kind(k trace.SpanKind) tracepb.Span_SpanKind {
	switch k {
	case trace.SpanKindServer:
		return tracepb.Span_SPAN_KIND_SERVER
	case trace.SpanKindClient:
		return tracepb.Span_SPAN_KIND_CLIENT
	default:
		return tracepb.Span_SPAN_KIND_INTERNAL // we make no other
	}
}

func statusOf(s sdk.Status) *tracepb.Status {
	switch s.Code {
	case codes.Error:
		return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: s.Description}
	case codes.Ok:
		return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_OK}
	default:
		return &tracepb.Status{}
	}
}

func attributes(attrs []attribute.KeyValue) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		v := &commonpb.AnyValue{}
		switch a.Value.Type() {
		case attribute.BOOL:
			v.Value = &commonpb.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		case attribute.INT64:
			v.Value = &commonpb.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.FLOAT64:
			v.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: a.Value.AsFloat64()}
		default:
			v.Value = &commonpb.AnyValue_StringValue{StringValue: a.Value.String()}
		}
		out = append(out, &commonpb.KeyValue{Key: string(a.Key), Value: v})
	}
	return out
}
