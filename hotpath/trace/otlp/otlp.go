// Package otlp sends traces to an OpenTelemetry collector, by OTLP over HTTP.
// What is sampled, how it is batched and what the service is called are set by
// the standard OTEL_... variables, which the SDK reads.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"spendgate/audit/spend"
	"spendgate/hotpath/trace"
)

// Tracer makes spans of records and sends them in batches, asynchronously. Its queue is bounded:
// records that do not fit are dropped, so that a slow or absent collector costs only its traces.
type Tracer struct {
	provider *sdk.TracerProvider
	spans    oteltrace.Tracer
}

// logEvery is how often a failure to send traces is logged: many batches may
// fail each second.
const logEvery = time.Minute

// New starts a tracer. It does not need the collector to be there. The SDK's
// own errors go to the log; they are global, so a process has one Tracer.
func New(ctx context.Context, to Collector, version string, log *slog.Logger) (*Tracer, error) {
	var quiet atomic.Int64 // until, in Unix milliseconds
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now()
		if until := quiet.Load(); now.UnixMilli() >= until && quiet.CompareAndSwap(until, now.Add(logEvery).UnixMilli()) {
			log.Warn("cannot send traces", "error", err)
		}
	}))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "spendgate"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv()) // wins
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("cannot set up tracing: %w", err)
	}
	t := &Tracer{provider: sdk.NewTracerProvider(sdk.WithBatcher(newExporter(to)), sdk.WithResource(about))}
	t.spans = t.provider.Tracer("spendgate", oteltrace.WithInstrumentationVersion(version))
	return t, nil
}

// Close sends what waits, as far as it can before the context ends.
func (t *Tracer) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("cannot send the last traces: %w", err)
	}
	return nil
}

// Record takes a finished request and returns its trace's ID: the caller's, if it sent one, whether or
// not the trace is sampled. It does not wait, cannot fail, and keeps no reference to the record.
func (t *Tracer) Record(r *trace.Record) trace.ID {
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier{r})
	ctx, root := t.spans.Start(ctx, r.Method+" "+r.Route,
		oteltrace.WithTimestamp(r.Started), oteltrace.WithSpanKind(oteltrace.SpanKindServer))
	if root.IsRecording() {
		for _, s := range r.Spans() {
			_, span := t.spans.Start(ctx, s.Stage.String(), oteltrace.WithTimestamp(s.From))
			span.End(oteltrace.WithTimestamp(s.To))
		}
		root.SetAttributes(attributes(r)...)
		if r.Status >= 500 {
			root.SetStatus(codes.Error, "")
		}
	}
	root.End(oteltrace.WithTimestamp(r.Ended))
	return trace.ID(root.SpanContext().TraceID())
}

// attributes describe the outcome of a request: no amount, no free text, no secret.
func attributes(r *trace.Record) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("http.request.method", r.Method),
		attribute.String("http.route", r.Route),
		attribute.Int("http.response.status_code", r.Status),
		attribute.String("spendgate.request_id", r.RequestID),
	}
	if r.Code != "" {
		all = append(all, attribute.String("error.type", r.Code))
	}
	if c := r.Check; c != nil {
		all = append(all,
			attribute.String("spendgate.check_id", c.ID.Text(spend.PrefixCheck)),
			attribute.String("spendgate.decision", c.Decision.Effect.String()),
			attribute.String("spendgate.policy_id", c.Action.PolicyID),
			attribute.Int("spendgate.policy_version", c.Decision.PolicyVersion),
			attribute.Bool("spendgate.replayed", r.Replayed),
			attribute.Bool("spendgate.duplicate", c.Decision.Reason == spend.ReasonDuplicate))
	}
	return all
}

// carrier passes a record's trace context to the SDK, which reads headers.
type carrier struct{ r *trace.Record }

func (c carrier) Get(name string) string {
	switch name {
	case "traceparent":
		return c.r.Parent
	case "tracestate":
		return c.r.State
	}
	return ""
}

func (carrier) Set(string, string) {} // nothing is passed on

func (carrier) Keys() []string { return []string{"traceparent", "tracestate"} }
