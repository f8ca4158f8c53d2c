package otlp

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// encode returns an ExportTraceServiceRequest, which is encoded as TracesData is. All spans are of one
// resource and one scope.
func encode(spans []sdk.ReadOnlySpan) ([]byte, error) {
	resource, scope := spans[0].Resource(), spans[0].InstrumentationScope()
	all := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: scope.Name, Version: scope.Version}}
	for _, s := range spans {
		all.Spans = append(all.Spans, spanOf(s))
	}
	return proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: keyValues(resource.Attributes())},
		ScopeSpans: []*tracepb.ScopeSpans{all},
	}}})
}

// Of a span's flags: whether it is known that its parent is remote, and whether it is.
const (
	hasIsRemote = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	isRemote    = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
)

func spanOf(s sdk.ReadOnlySpan) *tracepb.Span {
	self, parent := s.SpanContext(), s.Parent()
	traceID, spanID := self.TraceID(), self.SpanID()
	span := &tracepb.Span{
		TraceId: traceID[:], SpanId: spanID[:], TraceState: self.TraceState().String(),
		Flags: uint32(self.TraceFlags()) | hasIsRemote,
		Name:  s.Name(), Kind: tracepb.Span_SpanKind(s.SpanKind()), Attributes: keyValues(s.Attributes()),
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
	}
	if parent.HasSpanID() {
		id := parent.SpanID()
		span.ParentSpanId = id[:]
	}
	if parent.IsRemote() {
		span.Flags |= isRemote
	}
	if s.Status().Code == codes.Error {
		span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
	return span
}

func keyValues(all []attribute.KeyValue) []*commonpb.KeyValue {
	encoded := make([]*commonpb.KeyValue, len(all))
	for i, a := range all {
		encoded[i] = &commonpb.KeyValue{Key: valid(string(a.Key)), Value: valueOf(a.Value)}
	}
	return encoded
}

// valueOf makes text of what is no text, truth or number.
func valueOf(v attribute.Value) *commonpb.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.AsInt64()}}
	default:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(v.String())}}
	}
}

// valid replaces what is no UTF-8, as an attribute of the environment may be: the message would have no encoding.
func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
