package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Collector is where traces are sent.
type Collector struct {
	URL     string            // of the signal: https://collector:4318/v1/traces
	Headers map[string]string // of each request; may be secret
	Timeout time.Duration     // of each request
	Gzip    bool
}

// exporter sends batches of spans. A batch that cannot be sent is lost: the
// next ones are worth more than a queue of old ones. (The exporter of
// OpenTelemetry would bring gRPC along, which is half as large again as the
// whole service.)
type exporter struct {
	to   Collector
	http *http.Client
}

func newExporter(to Collector) *exporter {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1 // batches go one after another
	return &exporter{to: to, http: &http.Client{Transport: transport, Timeout: to.Timeout}}
}

// ExportSpans implements the SDK's SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := encode(spans)
	if err != nil {
		return fmt.Errorf("cannot encode traces: %w", err)
	}
	if e.to.Gzip {
		body = zipped(body)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.to.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot ask the collector: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if e.to.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	for name, value := range e.to.Headers {
		r.Header.Set(name, value)
	}
	answer, err := e.http.Do(r)
	if err != nil {
		return fmt.Errorf("cannot reach the collector: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	// Read, so that the connection can be reused. It is not logged: a collector
	// may quote what it was sent.
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)); err != nil {
		return fmt.Errorf("cannot read the collector's answer: %w", err)
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s", answer.Status)
	}
	return nil
}

// Shutdown implements the SDK's SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.http.CloseIdleConnections()
	return nil
}

func zipped(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // to memory
	_ = w.Close()
	return out.Bytes()
}
