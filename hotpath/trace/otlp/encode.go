package otlp

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of opentelemetry/proto/trace/v1 (trace.proto, resource.proto,
// common.proto), as far as a Tracer's spans need them. Numbers are the numbers of
// the fields there.

// appendRequest adds an ExportTraceServiceRequest. All spans are of one
// resource and one scope.
func appendRequest(b []byte, spans []sdk.ReadOnlySpan) []byte {
	return appendMessage(b, 1, func(b []byte) []byte { // resource_spans
		b = appendMessage(b, 1, func(b []byte) []byte { // resource
			return appendAttributes(b, 1, spans[0].Resource().Attributes())
		})
		return appendMessage(b, 2, func(b []byte) []byte { // scope_spans
			b = appendMessage(b, 1, func(b []byte) []byte { // scope
				b = appendText(b, 1, spans[0].InstrumentationScope().Name)
				return appendText(b, 2, spans[0].InstrumentationScope().Version)
			})
			for _, s := range spans {
				b = appendMessage(b, 2, func(b []byte) []byte { return appendSpan(b, s) })
			}
			return b
		})
	})
}

// Of a span's flags: the trace flags, and whether its parent is remote.
const (
	hasIsRemote = 0x100
	isRemote    = 0x200
	statusError = 2
)

func appendSpan(b []byte, s sdk.ReadOnlySpan) []byte {
	self, parent := s.SpanContext(), s.Parent()
	traceID, spanID := self.TraceID(), self.SpanID()
	b = appendBytes(b, 1, traceID[:])
	b = appendBytes(b, 2, spanID[:])
	b = appendText(b, 3, self.TraceState().String())
	if parent.HasSpanID() {
		id := parent.SpanID()
		b = appendBytes(b, 4, id[:])
	}
	b = appendText(b, 5, s.Name())
	b = appendNumber(b, 6, uint64(s.SpanKind()))
	b = protowire.AppendFixed64(protowire.AppendTag(b, 7, protowire.Fixed64Type), uint64(s.StartTime().UnixNano()))
	b = protowire.AppendFixed64(protowire.AppendTag(b, 8, protowire.Fixed64Type), uint64(s.EndTime().UnixNano()))
	b = appendAttributes(b, 9, s.Attributes())
	if s.Status().Code == codes.Error {
		b = appendMessage(b, 15, func(b []byte) []byte { return appendNumber(b, 3, statusError) })
	}
	flags := uint32(self.TraceFlags()) | hasIsRemote
	if parent.IsRemote() {
		flags |= isRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, 16, protowire.Fixed32Type), flags)
}

// appendAttributes adds a KeyValue for each.
func appendAttributes(b []byte, field protowire.Number, all []attribute.KeyValue) []byte {
	for _, a := range all {
		b = appendMessage(b, field, func(b []byte) []byte {
			b = appendText(b, 1, string(a.Key))
			return appendMessage(b, 2, func(b []byte) []byte { return appendValue(b, a.Value) })
		})
	}
	return b
}

// appendValue adds an AnyValue; what is no text, truth or number is its text.
func appendValue(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		return appendNumber(b, 2, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return appendNumber(b, 3, uint64(v.AsInt64()))
	default:
		return appendText(b, 1, v.String())
	}
}

func appendMessage(b []byte, field protowire.Number, content func([]byte) []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content(nil))
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func appendText(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func appendNumber(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}
